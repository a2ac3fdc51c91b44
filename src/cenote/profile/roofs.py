"""Limits of this machine: measured once by own kernels (`measure_roofs`), kept in the cache."""

from __future__ import annotations

from cenote.core.deferred import dataclass

SCHEMA = "cenote.roofs/1"


@dataclass(frozen=True)
class Measured:
    """A figure and its spread: half the distance between the quartiles of repeated measurements, relative to it."""

    value: float
    spread: float


@dataclass(frozen=True)
class ComputeRoof:
    """Operations per second, in 1e9, of all `threads` together in a loop of multiply-adds (each counts 2)."""

    dtype: str
    threads: int
    gigaops: Measured


@dataclass(frozen=True)
class BandwidthRoof:
    """1e9 bytes per second of all `threads` together, each repeatedly on `nbytes` of its own memory: `read` alone, and
    `copy` (bytes read and bytes written both count). `level`: the cache that holds these bytes ("L1" … "memory"),
    `capacity`: bytes that all of these threads together may use in it (0: any)."""

    nbytes: int
    level: str
    capacity: int
    threads: int
    read: Measured
    copy: Measured

    def seconds(self, read: float, written: float) -> float:
        """Return the least time to read and write so many bytes."""
        per_read = 1 / self.read.value
        return (read * per_read + written * max(2 / self.copy.value - per_read, 0.0)) / 1e9


@dataclass(frozen=True)
class BarrierRoof:
    """Microseconds of a step without work on `threads` threads, with the barrier behind it."""

    threads: int
    us: Measured


@dataclass(frozen=True)
class Roofs:
    """All limits of a machine, for the thread counts that were measured. `page_fault_us`: the first touch of 4 KiB of
    new memory. `clock_ghz`: cycles of a core that is busy alone. `seconds`: the time that the measurement took.
    `quiet`: other processes did nothing meanwhile, or little; otherwise the figures are too low. `measured`: seconds
    since 1970."""

    processor: str
    target: str
    clock_ghz: Measured
    page_fault_us: Measured
    compute: tuple[ComputeRoof, ...]
    bandwidth: tuple[BandwidthRoof, ...]
    barriers: tuple[BarrierRoof, ...]
    seconds: float
    quiet: bool = True
    measured: float = 0.0

    def gigaops(self, dtype: str, threads: int) -> float | None:
        """Return the limit for this number of threads; None for a dtype that was not measured. For more threads
        than were measured it is scaled up in proportion."""
        measured = {each.threads: each.gigaops.value for each in self.compute if each.dtype == dtype}
        if not measured:
            return None
        count = min((each for each in measured if each >= threads), default=max(measured))
        return measured[count] * threads / count

    def transfer_seconds(
        self, read: int, written: int, threads: int, part: float = 1.0
    ) -> tuple[float, str] | None:
        """Return the least time to move so many bytes with so many threads, and the name of the cache that takes most
        of it. Bytes that fit a cache are assumed to lie there, the nearest first. `part`: of each cache that these
        bytes may occupy, where others lie there too."""
        levels = self.levels(threads)
        if not levels or not read + written:
            return None
        total, before = read + written, 0
        parts: list[tuple[float, str]] = []
        for level in levels:
            room = min(total, int(level.capacity * part) or total)
            share = max(0, room - before) / total
            parts.append((share * level.seconds(read, written), level.level))
            before = max(before, room)
        seconds = sum(part for part, _ in parts)
        return seconds * self.scale(threads), max(parts)[1]

    def levels(self, threads: int) -> list[BandwidthRoof]:
        """Return the caches and the memory, the nearest first, for this number of threads or the next that was
        measured."""
        counts = {each.threads for each in self.bandwidth}
        count = min((each for each in counts if each >= threads), default=max(counts, default=0))
        return sorted((each for each in self.bandwidth if each.threads == count), key=lambda x: x.nbytes)

    def rooms(self, threads: int) -> list[tuple[str, int]]:
        """Return the names of the levels and how many bytes of so many threads each holds; 0: any number."""
        return [(each.level, each.capacity) for each in self.levels(threads)]

    def scale(self, threads: int) -> float:
        """Return the time of more threads than were measured, relative to that of those that were."""
        most = max((each.threads for each in self.bandwidth), default=threads)
        return most / max(threads, most)
