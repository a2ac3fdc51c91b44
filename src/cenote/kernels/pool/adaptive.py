"""Pooling whose windows differ in size and place, given as a range of the input per output (adaptive pooling).

for item in items:                              # a band of output rows of one plane
    for row in output rows of the band:
        combined = combine(x[row], x[row + 1] …)                       (`fewest_rows` unrolled, a scratch row)
        for plane, row in the rest of the ranges of the output row:    (rows by eights)
            combined = combine(combined, x[row], x[row + 1] …)
        for column in output columns:
            y[row][column] = combine(combined[range of the column])    (`fewest` columns unrolled)
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.codegen.builder import I64, Kernel, Parameter
from cenote.codegen.values import Pointer, Value
from cenote.core.target import Target
from cenote.kernels.pool.common import PoolSpec, Strip, combine_all, load, new_kernel, spans
from cenote.kernels.pool.generic import take_rows

UNROLLED = 16  # columns of a window that are unrolled at most


@dataclass(frozen=True)
class PoolAdaptive(PoolSpec):
    """`bounds` holds (begin, end) of every output plane, then row, then column. Every window has at least `fewest`
    columns and `fewest_rows` rows. `columns`: the ranges of columns where they are few enough to be part
    of the machine code (plain), else empty."""

    fewest: int
    fewest_rows: int
    columns: tuple[tuple[int, int], ...]

    def emit(self, target: Target) -> Kernel:
        k = new_kernel(self, target, [Parameter("bounds", I64, pointer=True)])
        n = k.number
        for item in k.range(k.begin, k.end):
            piece = Strip(k, self, item)
            piece.take_all_columns()
            combined = piece.row(1)
            planes = self._range(k, piece.depth)
            for row in k.range(piece.first_row, piece.last_row):
                low, high = self._range(k, n("out_d") + row)
                source = piece.x + planes[0] * n("x_d")
                self._first_rows(piece, combined, source + low * n("x_h"))
                take_rows(piece, combined, source, low + min(self.fewest_rows, UNROLLED), high, n("x_h"))
                for plane in k.range(planes[0] + 1, planes[1]):
                    take_rows(piece, combined, piece.x + plane * n("x_d"), low, high, n("x_h"))
                self._across(piece, combined, row)
        return k

    def _first_rows(self, piece: Strip, combined: Pointer, x: Pointer) -> None:
        """The rows that every window has, together."""
        k = piece.k
        rows = [x + k.number("x_h") * row for row in range(min(self.fewest_rows, UNROLLED))]
        for at in spans(k, piece.length, self.lanes, unroll=2):
            values = [load(self, row, at, self.lanes) for row in rows]
            combined.store(combine_all(k, self.reduction, values), at)

    def _range(self, k: Kernel, index: Value) -> tuple[Value, Value]:
        bounds = k.pointer("bounds") + index * 2
        return bounds.load(0), bounds.load(1)

    def _across(self, piece: Strip, combined: Pointer, row: Value) -> None:
        k, n = piece.k, piece.k.number
        y, factor = piece.y + row * n("y_h"), piece.factor(row)
        for place, (start, stop) in enumerate(self.columns):
            taps = [combined.load(tap, 1) for tap in range(start, stop)]
            column = k.integer(place)
            piece.store(combine_all(k, self.reduction, taps), y, column, factor, column)
        if self.columns:
            return
        for column in k.range(0, n("out_w")):
            low, high = self._range(k, n("out_d") + n("out_h") + column)
            for channel in spans(k, piece.step, self.out_lanes):
                value = self._window(piece, combined + channel, low, high)
                piece.store(value, y, column * piece.step + channel, factor, column)

    def _window(self, piece: Strip, combined: Pointer, low: Value, high: Value) -> Value:
        """Columns low..high-1: the first ones unrolled, the others in a loop."""
        k, step, lanes = piece.k, piece.step, self.out_lanes
        taps = [(combined + low * step).load(step * tap, lanes) for tap in range(min(self.fewest, UNROLLED))]
        total = k.variable(combine_all(k, self.reduction, taps))
        done = low + len(taps)
        if self.fewest > UNROLLED:  # by as many again, so that sums have short chains
            for start in k.range(done, high - (UNROLLED - 1), UNROLLED):
                taps = [(combined + start * step).load(step * tap, lanes) for tap in range(UNROLLED)]
                total.value = combine_all(k, self.reduction, [total.value, *taps])
            done = done + (((high - done) >> (UNROLLED.bit_length() - 1)) << (UNROLLED.bit_length() - 1))
        for column in k.range(done, high):
            total.value = combine_all(
                k, self.reduction, [total.value, (combined + column * step).load(0, lanes)]
            )
        return total.value


__all__ = ["PoolAdaptive"]
