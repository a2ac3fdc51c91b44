"""Pooling whose windows have many rows that blocks do not suit: dilated, not overlapping, or with many planes.

for item in items:                              # a strip of columns of a band of output rows of one plane
    for row in output rows of the band:
        for plane, row in the window, within the input:                (loops; rows by eights)
            combined = combine(combined, x[row], x[row + 1] …)         (a scratch row)
        across: `horizontal`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.target import Target
from cenote.kernels.pool import horizontal
from cenote.kernels.pool.common import PoolSpec, Strip, combine_all, load, new_kernel, taps_inside

TOGETHER = 8  # rows combined before they meet the scratch row: fewer passes, and sums with shorter chains


@dataclass(frozen=True)
class PoolGeneric(PoolSpec):
    """Windows of any number of planes and rows, which the words `window_d` and `window_h` tell."""

    def emit(self, target: Target) -> Kernel:
        k = new_kernel(self, target)
        n = k.number
        for item in k.range(k.begin, k.end):
            piece = Strip(k, self, item)
            combined = piece.edged_row(1)
            piece.fill_edges(combined)
            across = horizontal.Across(piece, combined)
            first_plane = piece.depth * n("stride_d") - n("pad_d")
            planes = taps_inside(k, first_plane, "d")
            for row in k.range(piece.first_row, piece.last_row):
                inner = combined + piece.left
                piece.fill(inner, piece.length)
                first = row * n("stride_h") - n("pad_h")
                low, high = taps_inside(k, first, "h")
                for plane in k.range(*planes):
                    x = piece.x + (first_plane + plane * n("dilation_d")) * n("x_d")
                    take_rows(piece, inner, x + first * n("x_h"), low, high, n("dilation_h") * n("x_h"))
                across.prepare()
                across.results(piece.y + row * n("y_h"), row)
        return k

    @property
    def scratch_rows(self) -> int:
        """Scratch rows a thread needs."""
        return horizontal.FIRST_ROW + horizontal.scratch_rows(self)


def take_rows(piece: Strip, inner: Pointer, x: Pointer, low: Value, high: Value, distance: Value) -> None:
    """Combine rows low..high-1 of x, `distance` apart, into the scratch row `inner`."""
    k, spec = piece.k, piece.spec
    whole = low + ((high - low) & ~(TOGETHER - 1))
    for start, stop, together in ((low, whole, TOGETHER), (whole, high, 1)):
        for tap in k.range(start, stop, together):
            rows = [x + (tap + index) * distance for index in range(together)]
            for at, fresh in _once(k, piece.length, spec.lanes):
                value = combine_all(k, spec.reduction, [load(spec, row, at, spec.lanes) for row in rows])
                if fresh is not None:
                    value = k.select(fresh, value, k.constant(spec.compute, spec.identity, spec.lanes))
                inner.store(combine_all(k, spec.reduction, [inner.load(at, spec.lanes), value]), at)


def _once(k: Kernel, length: Value, lanes: int) -> Iterator[tuple[Value, Value | None]]:
    """Like `spans`, for bodies that must not do an element twice: the last vector comes with a mask of new lanes."""
    whole = length & ~(lanes - 1)
    for at in k.range(0, whole, lanes):
        yield at, None
    if lanes > 1:
        with k.when(whole < length):
            yield length - lanes, ~k.tail_mask(whole - length + lanes, lanes)


__all__ = ["PoolGeneric", "take_rows"]
