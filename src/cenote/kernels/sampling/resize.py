"""Interpolation along the last two axes by tables of taps: channel-blocked maps, and the call of any.

    for row in begin .. end:                          emitted; an item is one output row
        addresses of the input rows, their weights    from the table of the rows
        for place in the row:                         emitted; one vector of lanes
            sum of weight * weight * x                taps unrolled

Plain maps are `resize_rows`'s, nearest neighbours `resize_nearest`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.sampling.resize_nearest import ResizeNearestSpec
from cenote.kernels.sampling.resize_rows import ResizeRowsSpec
from cenote.kernels.strided_axes import (
    Axis,
    axis_names,
    axis_pointers,
    axis_words,
    joined_axes,
    position_count,
)

MOST_TAPS = 16  # most unrolled taps of both axes of a blocked map together
MOST_ROW_TAPS = 128  # most taps of an axis of a plain map
_WORK = 1 << 16  # taps of the places that a thread takes at a time
# The same where rows are kept from one to the next: the first row of a piece has none to keep.
_WORK_KEPT = 1 << 18


@dataclass(frozen=True)
class ResizeSpec(KernelSpec):
    """Kernel of `row_taps` x `column_taps` weighted vectors of `lanes` channels."""

    row_taps: int
    column_taps: int
    dtype: np.dtype[Any]
    lanes: int
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        weight = F64 if self.dtype == FLOAT64 else F32
        pointers = (
            *pointers_to(Scalar.of(self.dtype), "y", "x"),
            *pointers_to(I64, "row_offset", "column_offset"),
        )
        pointers += pointers_to(weight, "row_weight", "column_weight")
        numbers = ["rows", "columns", "y_row", *axis_names(self.outer, ("y", "x"))]
        return (*pointers, *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            row, index = item % k.number("rows"), item // k.number("rows")
            plane, x = axis_pointers(k, self.outer, ("y", "x"), index)
            taps = [row * self.row_taps + tap for tap in range(self.row_taps)]
            rows = [x + k.pointer("row_offset").load(tap) for tap in taps]
            weights = [k.splat(k.pointer("row_weight").load(tap), self.lanes) for tap in taps]
            self._row(k, rows, weights, plane + row * k.number("y_row"))
        return k

    def _row(self, k: Kernel, rows: list[Pointer], weights: list[Value], y: Pointer) -> None:
        compute = weights[0].type
        for column in k.range(0, k.number("columns")):
            total: Value | None = None
            for place in (column * self.column_taps + tap for tap in range(self.column_taps)):
                offset = k.pointer("column_offset").load(place)
                one = _weighted(k, [row.load(offset, self.lanes).to(compute) for row in rows], weights)
                weight = k.splat(k.pointer("column_weight").load(place), self.lanes)
                total = one * weight if total is None else k.fma(one, weight, total)
            assert total is not None
            y.store(total.to(y.element), column * self.lanes)


def _weighted(k: Kernel, values: Sequence[Value], weights: Sequence[Value]) -> Value:
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = k.fma(value, weight, total)
    return total


@dataclass(frozen=True)
class TapSource:
    """Taps along one axis of y: the number of places, the taps of each, and functions that make the arrays of offsets
    and weights.

    (places, taps): `offsets` of the step from element to element, `weights` of a dtype. (taps, places), for vectors
    of places, filled up to a multiple of the first argument by taps of weight 0: `columns`, `column_weights`.
    """

    places: int
    count: int
    offsets: Callable[[int], Array]
    weights: Callable[[np.dtype[Any]], Array]
    columns: Callable[[int], Array]
    column_weights: Callable[[int, np.dtype[Any]], Array]
    kept: bool = False  # every place is the element of the same number
    repeats: int = 0  # places that equal each other, all along the axis; 0: they differ
    grows: bool = False  # there are more places than elements


@dataclass(frozen=True)
class Resizing:
    """Problem of a resize: the last two axes of x (of a blocked map: its spatial ones) become those of y."""

    x: View
    y: View
    down: TapSource
    across: TapSource

    @property
    def weight(self) -> np.dtype[Any]:
        return FLOAT64 if self.y.type.dtype == FLOAT64 else FLOAT32

    @property
    def x_axes(self) -> list[tuple[int, int]]:
        return _spatial(self.x)

    @property
    def outer(self) -> list[Axis]:
        """Return the other axes, with the strides in y and x."""
        y_axes = _spatial(self.y)
        steps = [[stride for _, stride in axes[:-2]] for axes in (y_axes, self.x_axes)]
        return joined_axes([extent for extent, _ in y_axes[:-2]], steps)

    def call(
        self,
        spec: KernelSpec,
        words: dict[str, Argument],
        work: int,
        taps: int,
        scratch: int = 0,
        equal_rows: int = 1,
    ) -> Call:
        """Return the call, with the words that all kernels have. A thread takes as many rows as read so many taps;
        `equal_rows` are one item."""
        shared: dict[str, Argument] = {
            "y": self.y,
            "x": self.x,
            "rows": self.down.places // equal_rows,
            "columns": self.across.places,
            "y_row": _spatial(self.y)[-2][1],
            **axis_words(self.outer, ("y", "x")),
        }
        items = self.down.places // equal_rows * position_count(self.outer) if self.y.type.size else 0
        row = maximum(1, self.across.places * taps * equal_rows)
        return Call.named(spec, shared | words, items, grain=maximum(1, work // row), scratch=scratch)

    def nearest(self) -> Call:
        across, unit = self.across, self.y.layout.lanes or 1
        kept, repeats = (across.kept, across.repeats) if unit == 1 else (False, 0)
        dtype = np.dtype(f"u{self.y.type.dtype.itemsize}")
        repeats = 0 if kept else repeats
        equal_rows = max(self.down.repeats, 1) if repeats else 1
        spec = ResizeNearestSpec(dtype, unit, len(self.outer), kept, repeats, equal_rows)
        words: dict[str, Argument] = {
            "row_offset": self.down.offsets(self.x_axes[-2][1]),
            "column_offset": None if kept else across.columns(1) if unit == 1 else across.offsets(unit),
            "x_columns": self.x_axes[-1][0],
        }
        return self.call(spec, words, _WORK, unit, equal_rows=equal_rows)

    def blocked(self) -> Call:
        down, across, lanes = self.down, self.across, self.y.layout.lanes
        spec = ResizeSpec(down.count, across.count, self.y.type.dtype, lanes, len(self.outer))
        words: dict[str, Argument] = {
            "row_offset": down.offsets(self.x_axes[-2][1]),
            "column_offset": across.offsets(lanes),
            "row_weight": down.weights(self.weight),
            "column_weight": across.weights(self.weight),
        }
        return self.call(spec, words, _WORK, lanes * down.count * across.count)

    def rows(self, target: Target) -> Call:
        down, across, dtype = self.down, self.across, self.y.type.dtype
        narrow = dtype != self.weight  # gathered from memory, each element would be converted separately
        columns_first = down.grows and not (narrow or down.kept or across.kept)
        row_taps, column_taps = (1 if axis.kept else axis.count for axis in (down, across))
        spec = ResizeRowsSpec(row_taps, column_taps, dtype, len(self.outer), columns_first)
        lanes, width = vector_lanes(dtype, target), self.x_axes[-1][0]
        places = -(-across.places // lanes) * lanes
        words: dict[str, Argument] = {
            "row_index": down.offsets(1),
            "column_index": None if across.kept else across.columns(lanes),
            "row_weight": down.weights(self.weight),
            "column_weight": None if across.kept else across.column_weights(lanes, self.weight),
            "places": places,
            "x_columns": width,
            "x_row": self.x_axes[-2][1],
        }
        scratch = (down.count * places if columns_first else width) * self.weight.itemsize
        work = _WORK_KEPT if columns_first else _WORK
        return self.call(spec, words, work, down.count * across.count, scratch)


def resize_call(x: View, y: View, taps: Sequence[TapSource], nearest: bool, target: Target) -> Call:
    """Return the calls that resize the last two axes of x (an axis of a blocked map: its spatial ones) to y; `taps`
    are those of the two."""
    resizing = Resizing(x, y, *taps)
    if nearest:
        return resizing.nearest()
    return resizing.blocked() if y.layout.is_blocked else resizing.rows(target)


def _spatial(view: View) -> list[tuple[int, int]]:
    """Return (extent, stride) of all axes; at least two after those of pictures and channels (blocks)."""
    blocked = view.layout.is_blocked
    shape = (view.shape[0], view.blocks, *view.shape[2:]) if blocked else view.shape
    axes = list(zip(shape, view.strides, strict=True))
    if (blocked and len(axes) == 3) or len(axes) < 2:
        axes.insert(len(axes) - 1, (1, 0))
    return axes
