"""What this machine can do at best: measured once by kernels of our own (`measure_roofs`), kept in the cache."""

from __future__ import annotations

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
    only `read`, and that `copy` (bytes read and written both count). `level`: where so much lies ("L1" … "memory"),
    `capacity`: what all of these threads' work together may take to lie there (0: any)."""

    nbytes: int
    level: str
    capacity: int
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
    memory. `clock_ghz`: cycles of a core that is busy alone. `seconds` that all this took. `quiet`: nothing else ran
    meanwhile, or little; otherwise the figures are too low. `measured`: when, in seconds since 1970."""

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
        """Of so many threads; None for a dtype that was not measured. Of more threads than were measured: as many times
        what those did."""
        found = {each.threads: each.gigaops.value for each in self.compute if each.dtype == dtype}
        if not found:
            return None
        count = min((each for each in found if each >= threads), default=max(found))
        return found[count] * threads / count

    def transfer_seconds(
        self, read: int, written: int, threads: int, part: float = 1.0
    ) -> tuple[float, str] | None:
        """The least time to move so many bytes with so many threads: what has room in a cache is taken to lie there,
        the nearest first. And the name of the cache that takes most of that time. `part`: of each cache that these
        bytes may take, where others lie there too."""
        counts = {each.threads for each in self.bandwidth}
        if not counts or not read + written:
            return None
        count = min((each for each in counts if each >= threads), default=max(counts))
        levels = sorted((each for each in self.bandwidth if each.threads == count), key=lambda x: x.nbytes)
        total, before = read + written, 0
        parts: list[tuple[float, str]] = []
        for level in levels:
            room = min(total, int(level.capacity * part) or total)
            share = max(0, room - before) / total
            per_read = 1 / level.read.value
            per_written = max(2 / level.copy.value - per_read, 0.0)
            parts.append((share * (read * per_read + written * per_written) / 1e9, level.level))
            before = max(before, room)
        seconds = sum(part for part, _ in parts)
        return seconds * count / max(threads, count), max(parts)[1]

    def barrier_us(self, threads: int) -> float | None:
        """Of so many threads."""
        found = {each.threads: each.us.value for each in self.barriers}
        return found[min(found, key=lambda count: (abs(count - threads), count))] if found else None
