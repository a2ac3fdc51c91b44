"""The method of three stages: planes first, then aligned cuts, then cuts that overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from cenote.core.errors import CapacityError
from cenote.tiling.axis import Axis
from cenote.tiling.layer import AXES, Tile
from cenote.tiling.problem import Problem, TilingPlan

_FIELDS = ("d", "h", "w")


def three_stage(problem: Problem) -> TilingPlan:
    """Plan by the three stages. A convolution whose smallest tile does not fit takes half of its input channels at a
    time, then half of those. Raises CapacityError when not even one output fits."""
    trace: list[str] = []
    conv = problem.layer.conv
    channels = conv.group_channels if conv else 0
    while True:
        try:
            stage, tile = _stages(problem, channels, trace)
            break
        except CapacityError:
            if channels <= 1:
                raise
            channels = -(-channels // 2)
            trace.append(f"input channels: {channels} at a time, added up over parts")
    cost = problem.cost(tile)
    return TilingPlan(problem, "three-stage", stage, tile, cost, problem.least_cycles(), tuple(trace))


def _stages(problem: Problem, channels: int, trace: list[str]) -> tuple[str, Tile]:
    layer = problem.layer

    def good(tile: Tile) -> bool:
        return problem.fits(tile) and problem.fed(tile)

    limit = layer.most_planes
    if layer.conv and channels < layer.conv.group_channels:
        # The channels' parts of several groups are not neighbours in memory.
        limit = layer.conv.group_filters
    nc = _largest(problem, limit, lambda k: good(problem.whole(k, channels)))
    if nc:
        tile = problem.whole(nc, channels)
        trace.append(f"stage 1, planes: {nc} with whole maps, {_state(problem, tile)}: taken")
        return "nc", tile
    trace.append(
        f"stage 1, planes: not even 1 with whole maps, {_state(problem, problem.whole(1, channels))}"
    )
    if layer.is_aligned:
        aligned = _aligned(problem, channels, good, trace)
        if aligned:
            return aligned
    else:
        trace.append("stage 2, aligned cuts: left out, as there is padding or windows overlap")
    return "unaligned", _unaligned(problem, channels, good, trace)


def _largest(problem: Problem, limit: int, good: Callable[[int], bool]) -> int:
    """Return the largest k from 1 to `limit` that is good, 0 if none is. By bisection, as k - 1 is good where k is;
    one by one where whole waves are required, since those have no such order."""
    if problem.policy.enough == "waves" and problem.layer.cells >= problem.hardware.cores:
        return next((k for k in range(limit, 0, -1) if good(k)), 0)
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if good(middle) else (low, middle - 1)
    return low


def _aligned(
    problem: Problem, channels: int, good: Callable[[Tile], bool], trace: list[str]
) -> tuple[str, Tile] | None:
    tile = problem.whole(1, channels)
    for name, field in zip(AXES, _FIELDS, strict=True):
        axis = problem.layer.axes[AXES.index(name)]
        cut = partial(_cut, tile, axis, field)
        k = _largest(problem, -(-axis.out // axis.step), lambda k, cut=cut: good(cut(k)))  # type: ignore[misc]  # bound now
        if k:
            tile = cut(k)
            size = getattr(tile, field)
            trace.append(
                f"stage 2, {name}: {size} outputs ({k * axis.stride} inputs), {_state(problem, tile)}: taken"
            )
            return f"aligned-{field}", tile
        smallest = cut(1)
        trace.append(f"stage 2, {name}: not even one stride, {_state(problem, smallest)}")
        if problem.policy.aligned_rest == "stride":
            tile = smallest
    return None


def _cut(tile: Tile, axis: Axis, field: str, steps: int) -> Tile:
    """Return the tile with so many aligned cuts of an axis."""
    return replace(tile, **{field: min(steps * axis.step, axis.out)})


def _unaligned(problem: Problem, channels: int, good: Callable[[Tile], bool], trace: list[str]) -> Tile:
    tile = problem.whole(1, channels)
    if problem.layer.is_aligned:
        steps = (min(axis.step, axis.out) for axis in problem.layer.axes)
        tile = replace(tile, **dict(zip(_FIELDS, steps, strict=True)))
    taken = ": taken" if good(tile) else ""
    trace.append(f"stage 3, cuts in order D, H, W: from {tile.spatial}, {_state(problem, tile)}{taken}")
    if taken:
        return tile
    for cut, (name, parts, tile) in enumerate(_shrinking(problem, tile), 1):  # noqa: B020  (the last is looked at below)
        taken = ": taken" if good(tile) else ""
        size = getattr(tile, name.lower())
        trace.append(f"stage 3, cut {cut}: {name} in {parts} parts of {size}, {_state(problem, tile)}{taken}")
        if taken:
            return tile
    if not problem.fits(tile):
        raise problem.refuse(tile)
    trace.append("stage 3: one output, too few tasks: taken all the same")
    return tile


def _shrinking(problem: Problem, tile: Tile) -> Iterator[tuple[str, int, Tile]]:
    """Yield the tiles that result when the first axis that is not yet 1 is cut into one more part, with that axis and
    its parts."""
    for name, axis, field in zip(AXES, problem.layer.axes, _FIELDS, strict=True):
        size = getattr(tile, field)
        while size > 1:
            # The fewest parts that make the largest tile smaller.
            parts = -(-axis.out // (size - 1))
            size = -(-axis.out // parts)
            tile = replace(tile, **{field: size})
            yield name, parts, tile


def _state(problem: Problem, tile: Tile) -> str:
    """Return a tile's bytes and tasks as text, with whether they are too large or too few."""
    needed, there = problem.bytes(tile), problem.hardware.ub_bytes
    space = (
        f"{needed:,} of {there:,} bytes"
        if needed <= there
        else f"{needed:,} bytes, {there:,} there (too large)"
    )
    tasks = problem.tasks(tile)
    fed = (
        f"{tasks} tasks"
        if problem.fed(tile)
        else f"{tasks} tasks for {problem.hardware.cores} cores (too few)"
    )
    return f"{space}, {fed}"
