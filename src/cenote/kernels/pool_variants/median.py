"""Medians of windows of up to 7x7 elements: the middle of a sorting network, lane by lane (`whole_window`).

Windows that reach over the edge take the middle of those elements. The network is Batcher's odd-even merge sort
(K. Batcher, Sorting networks and their applications, 1968), of which LLVM drops what the middle does not need; for 3x3
the columns are sorted first (the median of the largest minimum, the middle median and the smallest maximum).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, F64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.pool_variants.whole_window import WholeWindowSpec, WindowBand

MOST_TAPS = 49  # of windows whose network is unrolled


@dataclass(frozen=True)
class PoolMedian(WholeWindowSpec):
    """Kernel of medians. Padding is sorted last."""

    outside: ClassVar[float] = float("inf")

    def band(self, k: Kernel, image: Value, unit: Value, first: Value) -> WindowBand:
        return _Medians(k, self, image, unit, first)


class _Medians(WindowBand):
    def row(self, row: Value, source: Pointer, result: Pointer) -> None:
        k, n, spec = self.k, self.k.number, self.spec
        if not spec.ragged:
            self.each(source, result, k.integer(0), n("out_w"), n("out_w"), self._median)
            return
        count = k.pointer("row_counts").load(row)
        full = count.equals(spec.window[0])
        begin = k.select(full, n("whole_from"), n("out_w"))
        end = k.select(full, n("whole_to"), n("out_w"))

        def partial(source: Pointer, column: Value, channel: Value) -> Value:
            return self._partial(source, column, channel, count)

        for side in k.range(0, 2):
            first = side.equals(0)
            start = k.select(first, k.integer(0), end)
            stop = k.select(first, begin, n("out_w"))
            self.each(source, result, start, stop, n("out_w"), partial)
        self.each(source, result, begin, end, end, self._median)

    def _median(self, source: Pointer, column: Value, channel: Value) -> Value:
        k, taps = self.k, self.taps(source, column, channel)
        hole, count = any_nan(k, taps), len(taps)
        if self.spec.window == (3, 3):
            low = high = median_of_nine(k, taps)
        else:
            ordered = sorted_lanes(k, taps)
            low, high = ordered[(count - 1) // 2], ordered[count // 2]
        return self._middle(low, high, hole)

    def _partial(self, source: Pointer, column: Value, channel: Value, rows: Value) -> Value:
        """Find the median of the first `count` elements in order, which differ from lane to lane."""
        k, lanes = self.k, self.spec.lanes
        taps = self.taps(source, column, channel)
        counts = k.pointer("column_counts").load(column, lanes if self.spec.stride else 1)
        total = k.splat(counts, lanes) * k.splat(rows, lanes)
        ordered = sorted_lanes(k, taps)
        low, high = ordered[0], ordered[0]
        for rank in range(1, len(taps) // 2 + 1):
            low = k.select((total - 1 >> 1) >= rank, ordered[rank], low)
            high = k.select((total >> 1) >= rank, ordered[rank], high)
        return self._middle(low, high, any_nan(k, taps))

    def _middle(self, low: Value, high: Value, hole: Value) -> Value:
        """Compute the mean of both, in float64, where no sum of float32 overflows; a NaN in the window stays."""
        k = self.k
        value = low
        if low is not high:
            wide = low.to(F64) * 0.5 + high.to(F64) * 0.5
            value = k.select(low.equals(high), low, wide.to(low.type))
        return k.select(hole, k.constant(low.type, float("nan"), low.lanes), value)


def any_nan(k: Kernel, values: Sequence[Value]) -> Value:
    """Lanes in which some value is NaN; one comparison tests two."""
    pairs = [(a, b) for a, b in zip(values[::2], [*values[1::2], values[-1]], strict=False)]
    unordered = [k.assign(f"fcmp uno {a.ir} {a.text}, {b.text}", BOOL, a.lanes) for a, b in pairs]
    return reduce(lambda a, b: a | b, unordered)


def comparators(count: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort of `count` values: pairs (low, high) to put in order."""
    pairs = []
    width = 1
    while width < count:
        gap = width
        while gap:
            for start in range(gap % width, count - gap, 2 * gap):
                for low in range(start, min(start + gap, count - gap)):
                    if low // (2 * width) == (low + gap) // (2 * width):
                        pairs.append((low, low + gap))
            gap //= 2
        width *= 2
    return pairs


def sorted_lanes(k: Kernel, values: Sequence[Value]) -> list[Value]:
    """Sort the values in ascending order, lane by lane (any order if one is NaN)."""
    ordered = list(values)
    for low, high in comparators(len(ordered)):
        a, b = ordered[low], ordered[high]
        ordered[low], ordered[high] = k.min_drop_nan(a, b), k.max_drop_nan(a, b)
    return ordered


def median_of_nine(k: Kernel, taps: Sequence[Value]) -> Value:
    """Find the median of the largest low, the middle of the middles and the smallest high of the sorted columns."""
    columns = [sorted_lanes(k, taps[column::3]) for column in range(3)]
    lows, middles, highs = ([column[rank] for column in columns] for rank in range(3))
    low, high = reduce(k.max_drop_nan, lows), reduce(k.min_drop_nan, highs)
    return sorted_lanes(k, [low, sorted_lanes(k, middles)[1], high])[1]
