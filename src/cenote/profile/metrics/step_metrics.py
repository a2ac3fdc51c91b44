"""Four measures of a step: computing, bandwidth, cache hits, pipeline. They are a model's estimates from the time that
was measured, the step's work and the machine's roofs.

Where a byte comes from is told by what is touched between two uses of it (the reuse distance of R. Mattson et al.,
"Evaluation techniques for storage hierarchies", IBM Systems Journal 1970): a value that a step reads was written by an
earlier one, constants were read in the call before or by another step of this one, and the nearest cache with room for
all bytes between has it. What a kernel reads again within a step is not counted: a good kernel has it in the nearest
cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from cenote.compiler.report import StepDescription
from cenote.core.deferred import dataclass
from cenote.profile.roofs import Roofs

MEMORY = "memory"


@dataclass(frozen=True)
class LevelBytes:
    """Bytes of a step that a cache or the memory (`level`) delivers or takes, by the model of reuse."""

    level: str
    nbytes: int


@dataclass(frozen=True)
class StepMetrics:
    """Measures of a step while its threads compute, from 0 to 1, estimates; None where nothing is known of its work.
    Above 1 a roof or the amount of work is not right.

    compute     operations that the kernel executes, relative to the roof of multiply-adds
    bandwidth   the least time that moving its bytes takes, from the levels that have them, relative to its time
    cache_hits  the part of its bytes that caches deliver or take, not the memory
    pipeline    the least times of computing and of moving bytes, one after the other, relative to its time; the rest is
                waiting for results (latency) and instructions that do neither
    levels      its bytes by level, the nearest first
    """

    compute: float | None = None
    bandwidth: float | None = None
    cache_hits: float | None = None
    pipeline: float | None = None
    levels: tuple[LevelBytes, ...] = ()


UNKNOWN = StepMetrics()


Rooms = Sequence[tuple[str, int]]
"""Names of levels and how many bytes each holds, the nearest first; 0: any number."""


def levels_of(steps: Sequence[StepDescription], rooms: Rooms) -> list[tuple[LevelBytes, ...]]:
    """Return, for each step of a plan that is run again and again, the levels that its bytes lie in."""
    before = [0, *accumulate(step.read_bytes + step.written_bytes for step in steps)]
    return [
        sorted_by_level(
            [(_nearest(rooms, distance), part) for part, distance in _uses(steps, index, before)], rooms
        )
        for index in range(len(steps))
    ]


def _uses(steps: Sequence[StepDescription], index: int, before: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield bytes of a step, and how many others are touched between their last use and this one. `before`: bytes that
    are touched before each step."""
    step = steps[index]
    rest = step.read_bytes
    for source in sorted({each for each in step.reads if 0 <= each < index}):
        part = min(rest, steps[source].written_bytes)
        rest -= part
        yield part, before[index] - before[source + 1] + steps[source].written_bytes
    # Constants and inputs: since the call before, or since another step with the same constants.
    yield rest, before[index] - before[step.shares] if 0 <= step.shares < index else before[-1]
    yield step.written_bytes, step.read_bytes + step.written_bytes


def _nearest(rooms: Rooms, distance: int) -> str:
    """Return the nearest level that holds so many bytes."""
    return next((name for name, room in rooms if room >= distance or not room), MEMORY)


def sorted_by_level(parts: Sequence[tuple[str, int]], rooms: Rooms) -> tuple[LevelBytes, ...]:
    """Return the sum of each level that has bytes, the nearest first."""
    order = [*(name for name, _ in rooms if name != MEMORY), MEMORY]
    sums = [LevelBytes(name, sum(part for level, part in parts if level == name)) for name in order]
    return tuple(each for each in sums if each.nbytes)


def step_metrics(
    steps: Sequence[StepDescription],
    levels: Sequence[Sequence[LevelBytes]],
    seconds: float,
    threads: int,
    roofs: Roofs,
) -> StepMetrics:
    """Return the measures of a step, or of several together, of `seconds` in which so many threads computed."""
    work = [(step, found) for step, found in zip(steps, levels, strict=True) if step.kind == "kernel"]
    if not work or seconds <= 0:
        return UNKNOWN
    limits = [(step.executed_operations, roofs.gigaops(step.dtype, threads)) for step, _ in work]
    computing = sum(operations / limit / 1e9 for operations, limit in limits if limit)
    moving = sum(_moving(step, found, threads, roofs) for step, found in work)
    parts = [(each.level, each.nbytes) for _, found in work for each in found]
    total = sum(part for _, part in parts)
    missed = sum(part for level, part in parts if level == MEMORY)
    return StepMetrics(
        compute=computing / seconds if computing else None,
        bandwidth=moving / seconds if moving else None,
        cache_hits=1 - missed / total if total else None,
        pipeline=min(1.0, (computing + moving) / seconds) if computing or moving else None,
        levels=sorted_by_level(parts, roofs.rooms(threads)),
    )


def _moving(step: StepDescription, levels: Sequence[LevelBytes], threads: int, roofs: Roofs) -> float:
    """Return the least seconds to move a step's bytes from and to these levels, each at the speed of its mix of reading
    and writing."""
    written = step.written_bytes / max(1, step.read_bytes + step.written_bytes)
    limits = {each.level: each for each in roofs.levels(threads)}
    known = [(limits[each.level], each.nbytes) for each in levels if each.level in limits]
    seconds = sum(limit.seconds((1 - written) * nbytes, written * nbytes) for limit, nbytes in known)
    return seconds * roofs.scale(threads)
