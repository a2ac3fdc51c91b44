"""Exact search for the tile of the fewest cycles, by lower bounds (branch and bound).

Candidates are all sizes of planes, D, H and W; input channels of a convolution are taken whole, or in 2, 4, 8, ...
parts. Sizes that cut every axis into equally many parts form a group, with one lower bound of the cycles of all its
members. Groups are opened in the order of their bounds, every member gets a bound of its own, and members that could
be better than the best so far are costed exactly. Once the bound of the next group is not below the best, nothing
better is left: that is the proof.

The search runs to this proof wherever there are at most `EXHAUSTIVE` tiles. With more, it stops after `EFFORT` if the
gap between the best and the next bound is at most `TOLERANCE`, and after `MOST_EFFORT` with any gap; the plan says
what the bound is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.tiling.bounds import Axes, fitting, least_cycles
from cenote.tiling.layer import Tile
from cenote.tiling.problem import Problem, TilingPlan
from cenote.tiling.sizes import PlaneNumbers, axis_numbers, plane_numbers
from cenote.tiling.three_stage import three_stage

EXHAUSTIVE = 1_000_000
TOLERANCE = 0.05
EFFORT = 1 << 17
MOST_EFFORT = 1 << 21
"""Effort is counted in members that get a bound, half a microsecond each; costing tiles together takes as long as
`CALL` of them, and as one more for every `TASKS` tasks."""
TASKS, CALL = 8, 256
# Members that are bounded together: few at first, to have a good plan early.
_FIRST, _MOST = 1 << 9, 1 << 15
# Tasks of plans that are costed together.
_TOGETHER = 1 << 14


class SearchSpace:
    """Candidate sizes, and their groups."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.planes: PlaneNumbers = plane_numbers(problem)
        deep, high, wide = (axis_numbers(problem, place) for place in range(3))
        self.axes: Axes = deep, high, wide
        # Tiles that read all of an axis have other runs: a group has sizes with equally many of those.
        keys = [self.planes.channels * 2.0**40 + self.planes.count]
        keys += [axis.parts * 4 + 2 * np.minimum(axis.solid, 1) + axis.open for axis in self.axes]
        self.starts = [np.concatenate(([0], np.flatnonzero(np.diff(key)) + 1)) for key in keys]
        self.lengths = [
            np.diff(starts, append=len(key)) for starts, key in zip(self.starts, keys, strict=True)
        ]

    @property
    def count(self) -> int:
        """The number of tiles of all sizes, whether they fit or not."""
        return math.prod(int(lengths.sum()) for lengths in self.lengths)

    def groups(self, below: float) -> tuple[Array, Array]:
        """Return groups of which some member may fit and take fewer cycles: their numbers (4, count), and their
        bounds, in the order of the bounds."""
        planes = self.planes.least(self.starts[0]).along(0)
        deep, high, wide = (
            axis.least(starts).along(place)
            for place, (axis, starts) in enumerate(zip(self.axes, self.starts[1:], strict=True), 1)
        )
        axes = deep, high, wide
        bounds = least_cycles(self.problem, planes, axes)
        places = np.nonzero(fitting(self.problem, planes, axes) & (bounds < below))
        chosen = bounds[places]
        order = np.argsort(chosen, kind="stable")
        return np.stack(places)[:, order], chosen[order]

    def members(self, groups: Array, rest: Array, owner: Array) -> Array:
        """Return the numbers of sizes (4, count) of member `rest` of each group `owner`."""
        sizes = np.empty((4, len(owner)), np.int64)
        for place in (3, 2, 1, 0):
            group = groups[place][owner]
            rest, offset = np.divmod(rest, self.lengths[place][group])
            sizes[place] = self.starts[place][group] + offset
        return sizes

    def candidates(self, sizes: Array, groups: Array, below: float) -> Iterator[tuple[list[Tile], Array]]:
        """Yield the tiles that fit and whose bound is below, of one group at a time, with their bounds: the group
        with the lowest bound first."""
        planes = self.planes.at(sizes[0])
        deep, high, wide = (axis.at(where) for axis, where in zip(self.axes, sizes[1:], strict=True))
        axes = deep, high, wide
        bounds = least_cycles(self.problem, planes, axes)
        chosen = np.flatnonzero(fitting(self.problem, planes, axes) & (bounds < below))
        chosen = chosen[np.argsort(bounds[chosen], kind="stable")]
        numbers = planes.size, deep.size, high.size, wide.size, planes.channels
        tiles = np.stack([number[chosen] for number in numbers], 1).astype(int).tolist()
        alike: dict[int, list[int]] = {}
        for place, group in enumerate(groups[chosen].tolist()):
            alike.setdefault(group, []).append(place)
        for places in alike.values():
            yield [Tile(*tiles[place]) for place in places], bounds[chosen[places]]


@dataclass
class _Best:
    """The best tile so far, and counts of the tiles that were examined."""

    tile: Tile
    cycles: int
    looked: int = 0
    costed: int = 0
    effort: int = 0

    @property
    def below(self) -> float:
        """Cycles are whole numbers: a bound above this cannot lead to fewer."""
        return self.cycles - 1 + 1e-3

    def take(self, problem: Problem, tiles: list[Tile], bounds: Array) -> None:
        """Cost tiles of one group, a few together at first, as long as their bounds are below."""
        first = 0
        tasks = problem.tasks(tiles[0])
        most = max(1, _TOGETHER // tasks)
        while first < len(tiles) and bounds[first] < self.below:
            count = min(most, first + 1, int(np.searchsorted(bounds, self.below)) - first)
            some = tiles[first : first + count]
            cycles = problem.cycles(some)
            place = int(cycles.argmin())
            if cycles[place] < self.cycles:
                self.tile, self.cycles = some[place], int(cycles[place])
            first += count
            self.costed += count
            self.effort += CALL + count * tasks // TASKS


def search(problem: Problem) -> TilingPlan:
    """Return the plan of the fewest cycles. Raises CapacityError when not even one output fits."""
    first = three_stage(problem)
    best = _Best(first.tile, first.cycles)
    space = SearchSpace(problem)
    groups, bounds = space.groups(best.below)
    lower = _open(space, groups, bounds, best)
    trace = (
        f"three stages: {first.cycles:,} cycles",
        f"search: {len(bounds):,} groups of sizes may be better, {best.looked:,} of their members bounded, "
        f"{best.costed:,} costed, best {best.cycles:,} cycles",
        f"proof: no other has a lower bound below {best.cycles:,}, so this is the optimum"
        if lower == best.cycles
        else f"no proof: the lowest bound of what was not looked at is {lower:,}, "
        f"{best.cycles / max(1, lower) - 1:.1%} below the best",
    )
    return TilingPlan(problem, "search", "search", best.tile, problem.cost(best.tile), lower, trace)


def _open(space: SearchSpace, groups: Array, bounds: Array, best: _Best) -> int:
    """Open groups until no better member is left; return cycles that no tile beats."""
    counts = np.ones(len(bounds), np.int64)
    for place in range(4):
        counts *= space.lengths[place][groups[place]]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    is_small = space.count <= EXHAUSTIVE
    first, step = 0, _FIRST
    while first < total:
        bound = float(bounds[np.searchsorted(ends, first, side="right")])
        lower = math.ceil(bound - 1e-3)
        if lower >= best.cycles:
            break
        stop = min(first + step, total)
        owner = np.searchsorted(ends, np.arange(first, stop), side="right")
        sizes = space.members(groups, np.arange(first, stop) - (ends - counts)[owner], owner)
        best.looked += stop - first
        best.effort += stop - first
        for tiles, some in space.candidates(sizes, owner, best.below):
            near = best.cycles <= lower * (1 + TOLERANCE)
            if not is_small and best.effort >= (EFFORT if near else MOST_EFFORT):
                return lower
            best.take(space.problem, tiles, some)
        first, step = stop, min(2 * step, _MOST)
    return best.cycles
