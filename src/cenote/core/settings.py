"""Every setting, with its help. `cenote info` prints this table; docs list it."""

from __future__ import annotations

import os
from pathlib import Path

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.options import DENORMALS as DENORMALS_WORDS


@dataclass(frozen=True)
class Setting:
    """One environment variable, read at each use."""

    variable: str
    default: str
    help: str
    most: int | None = None  # largest value of a whole number from 0 on
    choices: tuple[str, ...] = ()

    def text(self) -> str:
        return os.environ.get(self.variable, self.default).strip()

    def integer(self) -> int:
        """Return the value as a whole number from 0 to `most`; ArgumentError otherwise."""
        assert self.most is not None
        try:
            value = int(self.text())
        except ValueError:
            value = -1
        if not 0 <= value <= self.most:
            shown = self.text() if len(self.text()) <= 40 else f"{self.text()[:40]}…"
            raise ArgumentError(f"{self.variable}: '{shown}' is not a whole number from 0 to {self.most}")
        return value

    def choice(self) -> str:
        """Return the value, one of `choices`; ArgumentError otherwise."""
        value = self.text()
        if value not in self.choices:
            raise ArgumentError(f"{self.variable}: '{value}' is not known ({', '.join(self.choices)})")
        return value


MAXIMUM_THREADS = 256

THREADS = Setting(
    "CENOTE_THREADS",
    "0",
    "Threads per inference; 0: one per physical core this process may use.",
    most=MAXIMUM_THREADS,
)
TARGET = Setting(
    "CENOTE_TARGET",
    "",
    "Instruction set to generate for: avx512, avx2, generic, each perhaps with +bf16 (products of bfloat16) or +tiles "
    "(products on tiles) behind it, emulated where the CPU has none; empty: the host's best.",
)
CACHE = Setting(
    "CENOTE_CACHE", "", "Folder of compiled kernels and models; empty: ~/.cache/cenote; 'off': no cache."
)
PLAN_CACHE = Setting(
    "CENOTE_PLAN_CACHE",
    "4096",
    "Megabytes of compiled models that the cache may hold, the least recently used go first; 0: none.",
    most=1 << 30,
)
SHAPES_KEPT = Setting(
    "CENOTE_SHAPES_KEPT",
    "256",
    "Megabytes of step tables and arenas that a model keeps for input shapes it has met; the last used stays anyway.",
    most=1 << 20,
)
SPIN = Setting(
    "CENOTE_SPIN",
    "50",
    "Microseconds a waiting thread spins before it sleeps (between calls three times as long), up to 100000.",
    most=100_000,
)
DENORMALS = Setting(
    "CENOTE_DENORMALS",
    "preserve",
    "Numbers below 1.2e-38 in float32: preserve, or flush (to zero, where they make a model slow).",
    choices=DENORMALS_WORDS,
)
PERF_MAP = Setting("CENOTE_PERF_MAP", "", "1: write the map that lets Linux perf name generated kernels.")
CHECK_FORMULAS = Setting(
    "CENOTE_CHECK_FORMULAS",
    "",
    "1: compare the formulas of models with open sizes with their operations at other sizes, too, when planning "
    "(slow), and fail where a fault keeps a model from being planned for open sizes.",
)
SETTINGS = tuple(each for each in tuple(globals().values()) if isinstance(each, Setting))


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, or None when caching is off (or no home folder is known)."""
    text = CACHE.text()
    if text == "off":
        return None
    if text:
        return Path(text)
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    try:
        return (Path(base) if base else Path.home() / ".cache") / "cenote"
    except RuntimeError:  # neither HOME nor an entry for this user
        return None
