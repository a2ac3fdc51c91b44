"""Calls of convolutions whose groups are joined, with zeros between them, until they fill whole vectors.

A filter group reads the taps of the channels that its filters have, and skips the zeros of others: with groups of 24 on
16 lanes, joined in pairs, the first vector of filters has 24 of the 48 channels, the second all, the third 24. So
filter groups are of as few vectors as pay: fewer zeros against fewer uses of each number that is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.conv.direct import ConvDirectSpec
from cenote.kernels.conv.direct_calls import DirectProblem, FilterGroups, direct_calls
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.tables import ranged_tap_table

# Seconds of a multiply-add, relative to those of filter groups of three vectors and more: fewer vectors use each number
# of the input less often.
_VECTOR_COSTS = (math.inf, 1.15, 1.03, 1.0, 1.0)
_LEAST_PIXELS = 4  # under which filter groups of many vectors keep enough sums in flight


@dataclass(frozen=True)
class JoinedFilters:
    """Filters of one joined group: vectors of `lanes`, of groups of so many `channels` and `filters`."""

    channels: int
    filters: int
    total: int
    lanes: int

    def range_of(self, first: int, vectors: int) -> tuple[int, int]:
        """The first channel that some vectors of filters read, and the number of channels."""
        begin = first * self.lanes // self.filters
        end = -(-min((first + vectors) * self.lanes, self.total) // self.filters)
        return begin * self.channels, (end - begin) * self.channels

    def ranges(self, first: int, groups: int, each: int) -> list[tuple[int, int]]:
        """The ranges of `groups` filter groups of `each` vectors, from the vector `first` on."""
        return [self.range_of(first + group * each, each) for group in range(groups)]

    def runs(self, each: int) -> list[tuple[int, int, int]]:
        """Cut all vectors into runs of (first vector, filter groups, vectors per group): of `each`, and the rest."""
        vectors = -(-self.total // self.lanes)
        groups, left = divmod(vectors, each)
        return [(0, groups, each)] * (groups > 0) + [(vectors - left, 1, left)] * (left > 0)

    def cost(self, runs: list[tuple[int, int, int]]) -> float:
        """Multiply-adds of vectors per tap, weighted by their cost."""
        return sum(
            count * each * _VECTOR_COSTS[each]
            for first, groups, each in runs
            for _, count in self.ranges(first, groups, each)
        )

    def best(self, registers: int) -> list[tuple[int, int, int]]:
        """The cheapest runs."""
        most = 4 if registers > 16 else 3
        return min((self.runs(each) for each in range(most, 0, -1)), key=self.cost)


def joined_filters(problem: DirectProblem, lanes: int) -> JoinedFilters:
    return JoinedFilters(*problem.joined, problem.shape.group_filters, lanes)


def joined_share(problem: DirectProblem, lanes: int, registers: int) -> float:
    """The part of the joined groups' multiply-adds that are executed, weighted by their cost."""
    filters = joined_filters(problem, lanes)
    vectors = -(-filters.total // lanes)
    return filters.cost(filters.best(registers)) / (vectors * problem.shape.group_channels)


def joined_calls(
    problem: DirectProblem, x: View, y: View, residual: View | None, target: Target
) -> Iterator[Call]:
    """Yield the calls of one convolution, each of which writes blocks of its own."""
    pixels = problem.shape.pixels * problem.shape.n
    if not is_size(pixels) and pixels < _LEAST_PIXELS:
        yield from direct_calls(problem, x, y, residual, target)
        return
    for first, groups, each in joined_filters(problem, y.layout.lanes).best(target.registers):
        call = _JoinedGroups(problem, x, y, residual, target, first, groups, each).call()
        yield replace(call, independent=first > 0)


class _JoinedGroups(FilterGroups):
    """Builder of one call. A tap has as many channels as whole groups and whole vectors have in common."""

    def __init__(
        self,
        problem: DirectProblem,
        x: View,
        y: View,
        residual: View | None,
        target: Target,
        first: int,
        groups: int,
        each: int,
    ) -> None:
        super().__init__(problem, x, y, residual, target, first, groups, each)
        self.inner = math.gcd(problem.joined[0], self.unit)
        self.ranges = joined_filters(problem, self.lanes).ranges(first, groups, each)

    def _weights_read(self, slab: int) -> int:
        read = sum(count for _, count in self.ranges)
        return slab * read // (self.groups * self.shape.group_channels)

    def _spec(self, width: int, ragged: bool) -> ConvDirectSpec:
        return replace(super()._spec(width, ragged), ranged=True)

    def _table(self) -> tuple[Argument, int, int]:
        shape, (_, c, d, h, w) = self.shape, deep_strides(self.x)
        steps = tuple(step * dilation for step, dilation in zip((d, h, w), shape.dilations, strict=True))
        parts = self.unit // self.inner
        ranges = tuple((begin // self.inner, count // self.inner) for begin, count in self.ranges)
        count, origin = shape.group_channels // self.inner, self._pad(d, h, w)
        table = computed(ranged_tap_table, shape.window, steps, origin, count, c, parts, self.inner, ranges)
        return table, count * math.prod(shape.window), 0
