"""The text of every kernel that the operators' samples and the golden networks ask for, as a table of digests.

    python -m tests.golden.kernel_text write FILE           the table of this checkout
    python -m tests.golden.kernel_text compare OLD NEW      what changed: exit code 1 when anything did

Code that is moved or renamed must not change what is generated: write the table before and after, then compare. Nothing
is compiled or run, and targets are described in full here, so the table is the same on every machine. Symbols and names
of parameters do not count, so a spec, its file and its words may be renamed.

The checkout is the one that the current folder and `PYTHONPATH=$PWD/src:$PWD` name; this file may lie in another.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from cenote.codegen import jit
from cenote.core.target import Target
from cenote.core.types import Layout, TensorType
from cenote.kernels.base import View, content_of, dense_strides, halo_offset
from cenote.ops.table import operators
from cenote.runtime.steps import Slot, SlotKind

TARGETS = {
    name: Target(
        name=name, cpu=name, features="", triple="x86_64-unknown-linux-gnu", vector_bytes=vector_bytes,
        registers=registers, has_fma=has_fma, has_half=has_fma,
    )
    for name, vector_bytes, registers, has_fma in (
        ("generic", 16, 16, False), ("avx2", 32, 16, True), ("avx512", 64, 32, True),
    )
}  # fmt: skip

Kernels = list[list[str]]  # [kernel text, launch] of each call: digests
Table = dict[str, dict[str, Kernels]]  # by sample and target, then by lowering


# ---- digests --------------------------------------------------------------------------------------------------------

_texts: dict[tuple[str, str], str] = {}


def digest(content: str | bytes) -> str:
    """A short digest."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def normalised(text: str, symbol: str) -> str:
    """Kernel text without its symbol, and with parameters numbered in the order in which they appear."""
    names: dict[str, str] = {}
    text = text.replace(symbol, "kernel")
    return re.sub(r"%p\.[\w.]+", lambda found: names.setdefault(found[0], f"%p{len(names)}"), text)


def text_digest(source: Any, target: Target) -> str:
    """Digest of what a spec, or the driver, emits; each is emitted once."""
    key = (source.symbol, target.name)
    if key not in _texts:
        _texts[key] = digest(normalised(source.emit(target).module(), source.symbol))
    return _texts[key]


def launch_digest(call: Any) -> str:
    """Digest of what a call passes: its arguments in order, items, grain and scratch."""
    words = [_word(argument) for argument in call.arguments]
    return digest(repr((words, call.items, call.grain, call.scratch, call.independent)))


def _word(argument: Any) -> object:
    if isinstance(argument, View):
        slot = argument.slot
        return "view", str(slot.kind), slot.index, slot.offset
    content = content_of(argument)
    if content is not None:
        return "array", digest(np.ascontiguousarray(content).tobytes())
    return argument if argument is None or isinstance(argument, float) else int(argument)


# ---- samples --------------------------------------------------------------------------------------------------------


def table_of_samples() -> Table:
    """Kernels of every lowering of every sample, with weights as constants and as values, for every target."""
    table: Table = {}
    for op in operators():
        seen: Counter[str] = Counter()
        with np.errstate(all="ignore"):
            samples = list(op.samples())
        for sample in samples:
            content = digest(b"".join(_content(x) for x in sample.inputs))
            seen[content] += 1
            name = f"{op.name} {content} {seen[content]}"
            for label, kernels in kernels_of_sample(sample):
                table[f"{name} {label}"] = kernels
    return table


def _content(array: Any) -> bytes:
    return b"-" if array is None else f"{array.dtype}{array.shape}".encode() + array.tobytes()


def kernels_of_sample(sample: Any) -> Iterator[tuple[str, dict[str, Kernels]]]:
    """(target and whether weights are constants, kernels by lowering)."""
    for target in TARGETS.values():
        for constants in (True, False) if len(sample.inputs) > 1 else (True,):
            types = [
                None if x is None
                else TensorType.known(x) if constants and index
                else TensorType.of(x.dtype, x.shape)
                for index, x in enumerate(sample.inputs)
            ]  # fmt: skip
            try:
                outputs = sample.op.infer(*types)
            except Exception:  # its shape depends on data: such a node runs by its reference
                continue
            kernels = {
                lowering.name: kernels_of_lowering(lowering, types, outputs, target)
                for lowering in sample.op.lowerings(types, target)
            }
            if kernels:
                yield f"{target.name} {'constant' if constants else 'computed'}", kernels


def kernels_of_lowering(lowering: Any, types: Any, outputs: Any, target: Target) -> Kernels:
    """Digests of a lowering's calls."""
    calls = bound_calls(lowering, types, outputs, target)
    return [[text_digest(call.spec, target), launch_digest(call)] for call in calls]


def bound_calls(lowering: Any, types: Any, outputs: Any, target: Target) -> list[Any]:
    """A lowering's calls, bound to buffers of their own."""
    pairs = zip(types, lowering.inputs, strict=True)
    inputs = [None if t is None else _view(t, layout, i) for i, (t, layout) in enumerate(pairs)]
    made = [*zip(outputs, lowering.outputs, strict=True), *((t, None) for t in lowering.temporaries)]
    results = [_view(type, layout, len(inputs) + i) for i, (type, layout) in enumerate(made)]
    with np.errstate(all="ignore"):
        return list(lowering.bind(inputs, results))


def _view(type: TensorType, layout: Layout | None, index: int) -> View:
    layout = layout or Layout()
    offset = halo_offset(type.shape, layout) * type.dtype.itemsize
    return View(type, layout, dense_strides(type.shape, layout), Slot(SlotKind.ARENA, index, offset))


# ---- networks -------------------------------------------------------------------------------------------------------


def table_of_networks() -> Table:
    """Kernels of the golden networks, driver included."""
    networks = importlib.import_module("tests.golden.networks")
    table: Table = {}
    for target in TARGETS.values():
        for name in networks.NETWORKS:
            with recorded(target) as digests:
                list(networks.printed(name))
            table[f"network {name} {target.name}"] = {"program": [[text, ""] for text in sorted(digests)]}
    return table


@contextmanager
def recorded(target: Target) -> Iterator[set[str]]:
    """Compile for the target, but only note the text of what would be compiled. What was compiled must never run."""
    digests: set[str] = set()

    def addresses(sources: Iterable[Any], _: Target, rest: Iterable[Any] = ()) -> dict[str, int]:
        wanted = [*sources, *rest]
        digests.update(text_digest(source, target) for source in wanted)
        return {source.symbol: 64 for source in wanted}

    with (
        mock.patch.object(jit, "addresses", addresses),
        mock.patch.object(jit, "host_target", return_value=target),
    ):
        driver: Callable[[], object] = importlib.import_module("cenote.kernels.driver").driver_abi
        driver.cache_clear()  # type: ignore[attr-defined]
        yield digests
        driver.cache_clear()  # type: ignore[attr-defined]


# ---- comparing ------------------------------------------------------------------------------------------------------


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Kernels in both tables, and a line per difference.

    A lowering that got another name is found by its kernels; one that is new is said, and counts as no change.
    """
    total, lines = 0, []
    for sample, before in old.items():
        after = new.get(sample)
        if after is None:
            lines.append(f"{sample}: gone")
            continue
        for lowering, kernels in before.items():
            total += len(kernels)
            if kernels == after.get(lowering) or kernels in after.values():
                continue
            texts = [text for text, _ in kernels]
            same = [name for name, others in after.items() if texts == [text for text, _ in others]]
            what = "launched otherwise" if same else "changed" if lowering in after else "gone"
            lines.append(f"{sample}: {lowering}: {what}")
    added = sum(sample not in old for sample in new)
    if added:
        print(f"{added} new samples")
    return total, lines


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("file", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument(
        "--launches", action="store_true", help="tell kernels that are launched otherwise too"
    )
    chosen = parser.parse_args()
    if chosen.command == "write":
        warnings.simplefilter("ignore")
        table = table_of_samples() | table_of_networks()
        chosen.file.write_text(json.dumps(table, indent=0), encoding="utf-8")
        kernels = {text for entry in table.values() for calls in entry.values() for text, _ in calls}
        print(f"{len(table)} samples, {len(kernels)} different kernels")
        return 0
    total, lines = compared(*(json.loads(path.read_text()) for path in (chosen.old, chosen.new)))
    changed = [line for line in lines if chosen.launches or not line.endswith("launched otherwise")]
    others = len(lines) - len(changed)
    print("\n".join([*changed, f"{total} kernels, {len(changed)} changed, {others} more launched otherwise"]))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
