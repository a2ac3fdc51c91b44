"""Every knob, with its help. `cenote info` prints this table; docs list it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cenote.core.errors import ArgumentError


@dataclass(frozen=True)
class Setting:
    """One environment variable, read when asked for."""

    variable: str
    default: str
    help: str
    whole: bool = False  # a whole number of 0 or more

    def text(self) -> str:
        return os.environ.get(self.variable, self.default).strip()

    def integer(self) -> int:
        """The value as a whole number of 0 or more."""
        try:
            value = int(self.text())
        except ValueError:
            value = -1
        if value < 0:
            raise ArgumentError(f"{self.variable}: '{self.text()}' is not a whole number of 0 or more")
        return value


THREADS = Setting(
    "CENOTE_THREADS", "0", "Threads per inference; 0: one per physical core this process may use.", whole=True
)
TARGET = Setting(
    "CENOTE_TARGET", "", "Instruction set to generate for: avx512, avx2, generic; empty: the host's best."
)
CACHE = Setting(
    "CENOTE_CACHE", "", "Folder of compiled kernels and models; empty: ~/.cache/cenote; 'off': no cache."
)
PLAN_CACHE = Setting(
    "CENOTE_PLAN_CACHE",
    "4096",
    "Megabytes of compiled models that the cache may hold, the least recently used go first; 0: none.",
    whole=True,
)
SPIN = Setting("CENOTE_SPIN", "50", "Microseconds a waiting thread spins before it sleeps.", whole=True)
PERF_MAP = Setting("CENOTE_PERF_MAP", "", "1: write the map that lets Linux perf name generated kernels.")
SETTINGS = (THREADS, TARGET, CACHE, PLAN_CACHE, SPIN, PERF_MAP)


def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None when caching is off (or no home folder is known to keep them in)."""
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
