"""Means of windows weighted by exp(x), SoftPool (`whole_window`):

top = max(taps);  y = top + sum(exp(tap - top) (tap - top)) / sum(exp(tap - top))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.pool.common import MAXIMUM, SUM, combine_all
from cenote.kernels.pool_variants.whole_window import WholeWindowSpec, WindowBand

WHOLE = 16  # taps of a window that is unrolled completely


@dataclass(frozen=True)
class PoolSoft(WholeWindowSpec):
    """Kernel of SoftPool. Padding has no weight."""

    outside: ClassVar[float] = float("-inf")

    def band(self, k: Kernel, image: Value, unit: Value, first: Value) -> WindowBand:
        return _Means(k, self, image, unit, first)


class _Means(WindowBand):
    def row(self, row: Value, source: Pointer, result: Pointer) -> None:
        k, n = self.k, self.k.number
        self.each(source, result, k.integer(0), n("out_w"), n("out_w"), self._soft)

    def _soft(self, source: Pointer, column: Value, channel: Value) -> Value:
        """Compute the mean of a window. A NaN has the weight NaN; equal infinities share the weight; -inf has none
        beside larger elements. Sums of distances to the largest element stay small where sums of elements would
        overflow.
        """
        k, (rows, columns) = self.k, self.spec.window
        if rows * columns <= WHOLE:
            taps = self.taps(source, column, channel)
            largest = combine_all(k, MAXIMUM, taps, exact=False)
            total, weights = self._weighed(taps, largest)
            return largest + total / weights
        lowest = k.constant(self.spec.compute, float("-inf"), self.spec.lanes)
        zero = k.constant(self.spec.compute, 0.0, self.spec.lanes)
        top, sums, weights_sum = k.variable(lowest), k.variable(zero), k.variable(zero)
        for row in k.range(0, rows):
            taps = [self.tap(source, row, c, column, channel) for c in range(columns)]
            top.value = combine_all(k, MAXIMUM, [*taps, top.value], exact=False)
        for row in k.range(0, rows):
            taps = [self.tap(source, row, c, column, channel) for c in range(columns)]
            total, weights = self._weighed(taps, top.value)
            sums.value, weights_sum.value = sums.value + total, weights_sum.value + weights
        return top.value + sums.value / weights_sum.value

    def _weighed(self, taps: Sequence[Value], top: Value) -> tuple[Value, Value]:
        k = self.k
        zero = k.constant(top.type, 0.0, top.lanes)
        parts, weights = [], []
        for tap in taps:
            below = k.select(tap.equals(top), zero, tap - top)
            weight = math.exp(k, below)
            weights.append(weight)
            parts.append(k.select(weight.equals(0.0), zero, weight * below))
        return combine_all(k, SUM, parts), combine_all(k, SUM, weights)
