"""What this machine can do at best: measured once by kernels of our own (`measure_roofs`), kept in the cache."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

SCHEMA = "cenote.roofs/1"


@dataclass(frozen=True)
class Measured:
    """A figure and its spread: half the distance between the quartiles of repeated measurements, relative to it."""

    value: float
    spread: float


@dataclass(frozen=True)
class ComputeRoof:
    """Operations per second, in 1e9, of so many threads together that do nothing but multiply-adds (each counts 2)."""

    dtype: str
    threads: int
    gigaops: Measured


@dataclass(frozen=True)
class BandwidthRoof:
    """1e9 bytes per second of so many threads together, each on memory of its own of `nbytes`, again and again: that
    only `read`, and that `copy` (bytes read and written both count). `level`: where so much lies ("L1" … "memory")."""

    nbytes: int
    level: str
    threads: int
    read: Measured
    copy: Measured


@dataclass(frozen=True)
class BarrierRoof:
    """Microseconds that a step of no work takes on so many threads, with the meeting behind it."""

    threads: int
    us: Measured


@dataclass(frozen=True)
class Roofs:
    """All of a machine, for the thread counts that were measured. `page_fault_us`: the first touch of 4 KiB of fresh
    memory. `clock_ghz`: cycles of a core that is busy alone. `seconds` that all this took."""

    processor: str
    target: str
    clock_ghz: Measured
    page_fault_us: Measured
    compute: tuple[ComputeRoof, ...]
    bandwidth: tuple[BandwidthRoof, ...]
    barriers: tuple[BarrierRoof, ...]
    seconds: float

    def gigaops(self, dtype: str, threads: int) -> float | None:
        """Of so many threads; None for a dtype that was not measured."""
        found = {each.threads: each.gigaops.value for each in self.compute if each.dtype == dtype}
        return _for_threads(found, threads)

    def transfer_seconds(self, read: int, written: int, threads: int) -> tuple[float, str] | None:
        """The least time to move so many bytes with so many threads, when all of them lie in the nearest cache that has
        room for them, and the name of that cache."""
        counts = {each.threads for each in self.bandwidth}
        if not counts or not read + written:
            return None
        count = threads if threads in counts else max(counts)
        levels = sorted((each for each in self.bandwidth if each.threads == count), key=lambda x: x.nbytes)
        sizes = [each.nbytes * count for each in levels]
        level = levels[min(bisect_left(sizes, read + written), len(levels) - 1)]
        per_read = 1 / level.read.value
        per_written = max(2 / level.copy.value - per_read, 0.0)
        seconds = (read * per_read + written * per_written) / 1e9
        return seconds * count / max(threads, count) if threads > count else seconds, level.level

    def barrier_us(self, threads: int) -> float | None:
        """Of so many threads."""
        return _for_threads({each.threads: each.us.value for each in self.barriers}, threads)


def _for_threads(found: dict[int, float], threads: int) -> float | None:
    """What was measured for so many threads, else for the count next to it."""
    if not found:
        return None
    return found[min(found, key=lambda count: (abs(count - threads), count))]
