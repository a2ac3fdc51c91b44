"""The machine to plan for, as data: a JSON file beside this module, the user's own file, or a dict."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, MissingFileError, shown
from cenote.core.target import cache_sizes, physical_cores

_FOLDER = Path(__file__).parent / "machines"
_LARGEST = 1 << 50
# Fields that are numbers, the least of each, and whether they are whole.
_NUMBERS = (
    ("cores ub_bytes block_bytes vector_bytes", 1, True),
    ("dma_startup_cycles compute_startup_cycles", 0, True),
    ("dma_bytes_per_cycle compute_per_cycle clock_ghz", 1e-6, False),
)


@dataclass(frozen=True)
class Hardware:
    """Cores that each have a buffer, a DMA engine and a vector unit, and run independently of each other.

    cores                   number of cores that take tasks
    ub_bytes                bytes of a core's buffer
    block_bytes             rows in the buffer start at multiples of it; a multiple of 8
    vector_bytes            bytes that one vector operation works on
    dma_bytes_per_cycle     bytes that a core moves to or from memory in a cycle
    dma_startup_cycles      cycles before each burst, a run that is contiguous in memory
    compute_per_cycle       vector operations per cycle
    compute_startup_cycles  cycles before the computation of each tile
    clock_ghz               clock rate, which turns cycles into seconds
    double_buffering        whether a tile may be loaded and another stored while a third is computed
    """

    name: str
    cores: int
    ub_bytes: int
    block_bytes: int
    vector_bytes: int
    dma_bytes_per_cycle: float
    dma_startup_cycles: int
    compute_per_cycle: float
    compute_startup_cycles: int
    clock_ghz: float
    double_buffering: bool

    def aligned(self, nbytes: int) -> int:
        """Return the bytes rounded up to whole blocks."""
        return -(-nbytes // self.block_bytes) * self.block_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a file that describes this machine."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def hardware_names() -> list[str]:
    """Return the names of the machines in the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def hardware_of(given: str | Mapping[str, Any] | Hardware) -> Hardware:
    """Return the machine of a name, of a JSON file's path, or of a dict with a file's fields.

    A dict or file with "base" starts from that named machine: {"base": "npu", "ub_bytes": 65536}. Raises
    ArgumentError for an unknown name and for missing, unknown or absurd fields, MissingFileError where there is no
    file.
    """
    if isinstance(given, Hardware):
        return given
    if isinstance(given, str) and given in hardware_names():
        return _shipped(given)
    if isinstance(given, str):
        return _from_file(given)
    if not isinstance(given, Mapping):
        raise ArgumentError(f"hardware: must be a name, a JSON file or a dict, got {shown(given)}")
    return _checked(dict(given), "hardware")


@cache
def _shipped(name: str) -> Hardware:
    return _checked(json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8")), name)


def _from_file(path: str) -> Hardware:
    if not path.endswith(".json"):
        raise ArgumentError(
            f"hardware: '{path}' is not known (known: {', '.join(hardware_names())}; or a file that ends in .json)"
        )
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MissingFileError(f"hardware: there is no file {path}", path) from error
    except (OSError, ValueError) as error:
        raise ArgumentError(f"hardware: cannot read {path} as JSON ({error})") from error
    if not isinstance(content, dict):
        raise ArgumentError(f"hardware: {path} must hold an object with fields, got {shown(content)}")
    return _checked(content, path)


def _checked(content: dict[str, Any], where: str) -> Hardware:
    content.pop("about", None)
    base = content.pop("base", None)
    if base is not None:
        if base not in hardware_names():
            raise ArgumentError(f"{where}: base {shown(base)} is not known ({', '.join(hardware_names())})")
        content = {**_shipped(base).to_dict(), **content}
    content.setdefault("name", "custom")
    names = [item.name for item in fields(Hardware)]
    missing = [name for name in names if name not in content]
    if missing:
        raise ArgumentError(f"{where}: field {', '.join(missing)} is missing")
    unknown = sorted(set(content) - set(names))
    if unknown:
        raise ArgumentError(
            f"{where}: field {', '.join(map(str, unknown))} is not known ({', '.join(names)})"
        )
    if content["cores"] == "physical":
        content["cores"] = physical_cores()
    if content["ub_bytes"] == "half of level 2":
        content["ub_bytes"] = cache_sizes()[1] // 2
    if not isinstance(content["name"], str) or not content["name"]:
        raise ArgumentError(f"{where}: field name must be a text, got {shown(content['name'])}")
    if not isinstance(content["double_buffering"], bool):
        raise ArgumentError(
            f"{where}: field double_buffering must be true or false, got {shown(content['double_buffering'])}"
        )
    for numbers, least, whole in _NUMBERS:
        for name in numbers.split():
            _number(where, name, content[name], least, whole)
    hardware = Hardware(**content)
    if hardware.block_bytes % 8:
        raise ArgumentError(
            f"{where}: field block_bytes must be a multiple of 8, the largest element, got {hardware.block_bytes}"
        )
    if hardware.block_bytes > hardware.ub_bytes:
        raise ArgumentError(
            f"{where}: field block_bytes {hardware.block_bytes} is more than ub_bytes, {hardware.ub_bytes}"
        )
    return hardware


def _number(where: str, name: str, value: Any, low: float, whole: bool) -> None:
    kind = int if whole else (int, float)
    fits = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not low <= value <= _LARGEST:
        what = "a whole number" if whole else "a number"
        raise ArgumentError(
            f"{where}: field {name} must be {what} from {low} to {_LARGEST}, got {shown(value)}"
        )
