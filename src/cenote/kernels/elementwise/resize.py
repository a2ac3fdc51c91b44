"""Interpolation along the last two axes by tables of taps: nearest, linear, cubic, plain or channel-blocked.

    for row in begin .. end:                          emitted; an item is one output row
        addresses of the input rows, their weights    from the table of the rows
        blocked:  for place in the row:               emitted; one vector of lanes
                      sum of weight * weight * x      taps unrolled
        plain:    scratch = sum of weight * x rows    emitted, by vectors
                  for place in the row:               emitted, one element
                      sum of weight * scratch         taps unrolled

An axis that keeps its size has one tap of weight 1. Nearest neighbours are copied as bits, whatever their type: by
vectors where each column is repeated as often, and where the row before came from the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT64, Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

MOST_TAPS = 16  # of both axes together, unrolled


@dataclass(frozen=True)
class ResizeSpec(KernelSpec):
    """`row_taps` x `column_taps` weighted elements, or with `nearest` a copy of one; `lanes` is 1 for plain. `kept`:
    the columns of a plain tensor stay as they are. `repeats`: each is there so many times (0: as the table says)."""

    row_taps: int
    column_taps: int
    nearest: bool
    dtype: np.dtype[Any]
    lanes: int
    outer: int
    kept: bool = False
    repeats: int = 0

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        weight = F64 if self.dtype == FLOAT64 else F32
        pointers = (*pointers_to(element, "y", "x"), *pointers_to(I64, "row_offset", "column_offset"))
        pointers += pointers_to(weight, "row_weight", "column_weight")
        numbers = ["rows", "columns", "x_columns", "y_row", *axis_names(self.outer, ("y", "x"))]
        return (*pointers, *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            row, index = item % k.number("rows"), item // k.number("rows")
            plane, x = axis_pointers(k, self.outer, ("y", "x"), index)
            y = plane + row * k.number("y_row")
            taps = [row * self.row_taps + tap for tap in range(self.row_taps)]
            rows = [x + k.pointer("row_offset").load(tap) for tap in taps]
            if self.nearest and not self.kept:
                self._nearest(k, item, row, rows[0], y)
                continue
            weights = [k.pointer("row_weight").load(tap) for tap in taps]
            if self.kept:
                self._combined(k, rows, [] if self.nearest else weights, y)
            elif self.lanes > 1:
                self._blocked(k, rows, weights, y)
            else:
                self._plain(k, rows, weights, y)
        return k

    def _places(self, k: Kernel, column: Value) -> list[tuple[Value, Value]]:
        """(offset, weight) of each tap of an output column."""
        taps = [column * self.column_taps + tap for tap in range(self.column_taps)]
        return [(k.pointer("column_offset").load(tap), k.pointer("column_weight").load(tap)) for tap in taps]

    def _nearest(self, k: Kernel, item: Value, row: Value, x: Pointer, y: Pointer) -> None:
        """The row before is there when it is of the same call."""
        offset, before = (
            k.pointer("row_offset").load(k.maximum(place, k.integer(0))) for place in (row, row - 1)
        )
        again = (item > k.begin) & (row > 0) & offset.equals(before)
        with k.when(again):
            last = y.offset_unchecked(0 - k.number("y_row"))
            step = k.target.vector_bytes // y.element.nbytes
            width = k.number("columns") * self.lanes
            whole = width // step * step
            for begin, end, lanes in ((k.integer(0), whole, step), (whole, width, self.lanes)):
                for column in k.range(begin, end, lanes):
                    y.store(last.load(column, lanes), column)
        with k.unless(again):
            if self.repeats:
                self._repeat(k, x, y)
                return
            for column in k.range(0, k.number("columns")):
                y.store(x.load(k.pointer("column_offset").load(column), self.lanes), column * self.lanes)

    def _repeat(self, k: Kernel, x: Pointer, y: Pointer) -> None:
        """Each column some times, by vectors."""
        count, lanes, width = self.repeats, k.target.vector_bytes // x.element.nbytes, k.number("x_columns")
        whole = width // lanes * lanes
        for begin, end, step in ((k.integer(0), whole, lanes), (whole, width, 1)):
            for column in k.range(begin, end, step):
                value = x.load(column, step)
                for part in range(0, count * step, step):
                    places = [place // count for place in range(part, part + step)]
                    spread = k.shuffle(value, value, places) if step > 1 else value
                    y.store(spread, column * count + part)

    def _blocked(self, k: Kernel, rows: list[Pointer], weights: list[Value], y: Pointer) -> None:
        compute = weights[0].type
        spread = [k.splat(weight, self.lanes) for weight in weights]
        for column in k.range(0, k.number("columns")):
            sums: list[Value] = []
            for offset, weight in self._places(k, column):
                one = _weighted(k, [row.load(offset, self.lanes).to(compute) for row in rows], spread)
                wide = k.splat(weight, self.lanes)
                sums = [k.fma(one, wide, sums[0]) if sums else one * wide]
            y.store(sums[0].to(y.element), column * self.lanes)

    def _combined(self, k: Kernel, rows: list[Pointer], weights: list[Value], y: Pointer) -> None:
        """Rows into one, by vectors; without weights a copy of the first."""
        lanes, width = vector_lanes(self.dtype, k.target), k.number("columns")
        whole = width // lanes * lanes
        spread = [k.splat(weight, lanes) for weight in weights]
        for begin, end, step, factors in ((k.integer(0), whole, lanes, spread), (whole, width, 1, weights)):
            for column in k.range(begin, end, step):
                values = [row.load(column, step) for row in rows]
                if factors:
                    values = [_weighted(k, [value.to(weights[0].type) for value in values], factors)]
                y.store(values[0].to(y.element), column)

    def _plain(self, k: Kernel, rows: list[Pointer], weights: list[Value], y: Pointer) -> None:
        compute = weights[0].type
        lanes = vector_lanes(self.dtype, k.target)
        row = Pointer(k, compute, k.scratch.text)
        width = k.number("x_columns")
        whole = width // lanes * lanes
        spread = [k.splat(weight, lanes) for weight in weights]
        for column in k.range(0, whole, lanes):
            row.store(_weighted(k, [r.load(column, lanes).to(compute) for r in rows], spread), column)
        for column in k.range(whole, width):
            row.store(_weighted(k, [r.load(column).to(compute) for r in rows], weights), column)
        for column in k.range(0, k.number("columns")):
            places = self._places(k, column)
            total = _weighted(k, [row.load(offset) for offset, _ in places], [weight for _, weight in places])
            y.store(total.to(y.element), column)


def _weighted(k: Kernel, values: Sequence[Value], weights: Sequence[Value]) -> Value:
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = k.fma(value, weight, total)
    return total


@dataclass(frozen=True)
class TapSource:
    """The taps along one axis of y: how many places there are, taps of each, and the arrays (places, taps) of where the
    taps lie, given the step from element to element, and of what they weigh, given a dtype."""

    places: int
    count: int
    offsets: Callable[[int], Array]
    weights: Callable[[np.dtype[Any]], Array]
    kept: bool = False  # every place is the one that it was
    repeats: int = 0  # places that are the same one, all along the axis; 0: they differ


def resize_call(x: View, y: View, taps: Sequence[TapSource], nearest: bool, target: Target) -> Call:
    """Resize the last two axes of x (an axis of a blocked map: its spatial ones) to y.

    `taps` are those of the two axes.
    """
    unit = y.layout.lanes or 1
    x_axes, y_axes = (_spatial(view) for view in (x, y))
    down, across = taps
    dtype = np.dtype(f"u{y.type.dtype.itemsize}") if nearest else y.type.dtype
    weight = FLOAT64 if y.type.dtype == FLOAT64 else np.dtype(np.float32)
    outer_extents = [extent for extent, _ in y_axes[:-2]]
    outer = joined_axes(outer_extents, [[s for _, s in axes[:-2]] for axes in (y_axes, x_axes)])
    plain = unit == 1
    repeats = across.repeats if plain and nearest and not across.kept else 0
    spec = ResizeSpec(
        down.count, across.count, nearest, dtype, unit, len(outer), across.kept and plain, repeats
    )
    rows, columns, width = down.places, across.places, x_axes[-1][0]
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "row_offset": down.offsets(x_axes[-2][1]),
        "column_offset": across.offsets(unit),
        "row_weight": down.weights(weight),
        "column_weight": across.weights(weight),
        "rows": rows,
        "columns": columns,
        "x_columns": width,
        "y_row": y_axes[-2][1],
        **axis_words(outer, ("y", "x")),
    }
    items = rows * position_count(outer) if y.type.size else 0
    work = maximum(1, columns * unit * down.count * across.count)
    scratch = 0 if nearest or unit > 1 or spec.kept else width * weight.itemsize
    return Call.named(spec, words, items, grain=maximum(1, 65536 // work), scratch=scratch)


def _spatial(view: View) -> list[tuple[int, int]]:
    """(extent, stride) of all axes; at least two after those of pictures and channels (blocks)."""
    blocked = view.layout.is_blocked
    shape = (view.shape[0], view.blocks, *view.shape[2:]) if blocked else view.shape
    axes = list(zip(shape, view.strides, strict=True))
    if (blocked and len(axes) == 3) or len(axes) < 2:
        axes.insert(len(axes) - 1, (1, 0))
    return axes
