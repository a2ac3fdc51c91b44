"""Pictures read at places given by a grid, by linear interpolation or the nearest pixel, from plain memory.

    for row in begin .. end:                     emitted; an item is one row of places of one picture
        for place in the row:                    emitted
            offsets and weights to the scratch   one pixel, or the four around it; -1: outside, where zeros are
        for channel:                             emitted
            for place in the row:                emitted; a vector of places where pixels can be gathered
                y = sum of weight * x            taps unrolled

Places are computed in float64. Their indices are clamped to the picture, whatever the grid holds. Nearest pixels are
copied as bits, whatever their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.functions import emit_function, round_even

FAR = 2.0**40  # places are cut to this, so that they fit an integer
_WORK = 1 << 15  # numbers of a piece of work


@dataclass(frozen=True)
class GridSampleSpec(KernelSpec):
    """`nearest`: one pixel, else four. `padding` is "zeros", "border" or "reflection"."""

    dtype: np.dtype[Any]
    grid: np.dtype[Any]
    nearest: bool
    padding: str
    align_corners: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ("rows", "columns", "x_rows", "x_columns", "channels", "x_image", "x_channel", "x_row", "y_image",
                   "y_channel", "y_row")  # fmt: skip
        return (
            *pointers_to(Scalar.of(self.dtype), "y", "x"),
            *pointers_to(Scalar.of(self.grid), "grid"),
            *numbers_named(list(numbers)),
        )

    @property
    def compute(self) -> Scalar:
        return F64 if Scalar.of(self.dtype) is F64 else F32

    @property
    def taps(self) -> int:
        return 1 if self.nearest else 4

    def lanes(self, target: Target) -> int:
        """Places at a time, where pixels can be gathered."""
        return target.lanes() if target.vector_bytes > 16 and self.dtype.itemsize == 4 else 1

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), self.lanes(target)
        n, columns = k.number, k.number("columns")
        offsets = k.scratch.cast(I64)
        weights = (k.scratch.cast(I64) + columns * self.taps).cast(self.compute)
        whole = columns // lanes * lanes
        for item in k.range(k.begin, k.end):
            image, row = item // n("rows"), item % n("rows")
            grid = k.pointer("grid") + item * columns * 2
            for column in k.range(0, whole, lanes):
                self._note(k, grid + column * 2, offsets + column, weights + column, lanes)
            if lanes > 1:
                for column in k.range(whole, columns):
                    self._note(k, grid + column * 2, offsets + column, weights + column, 1)
            for channel in k.range(0, n("channels")):
                x = k.pointer("x") + (image * n("x_image") + channel * n("x_channel"))
                y = k.pointer("y") + (image * n("y_image") + channel * n("y_channel") + row * n("y_row"))
                for column in k.range(0, whole, lanes):
                    y.store(self._value(k, x, offsets + column, weights + column, lanes), column)
                if lanes > 1:
                    for column in k.range(whole, columns):
                        y.store(self._value(k, x, offsets + column, weights + column, 1), column)
        return k

    def _note(self, k: Kernel, grid: Pointer, offsets: Pointer, weights: Pointer, lanes: int) -> None:
        """The taps of some places: those of the first tap lie together, then those of the second …"""
        both = grid.load(0, 2 * lanes)
        x, y = (k.shuffle(both, both, range(first, 2 * lanes, 2)) for first in (0, 1))
        across = self._axis(k, x, k.splat(k.number("x_columns"), lanes))
        down = self._axis(k, y, k.splat(k.number("x_rows"), lanes))
        for number, (row, row_weight) in enumerate(down):
            for other, (column, column_weight) in enumerate(across):
                offset = row * k.number("x_row") + column
                if self.padding == "zeros":
                    offset = k.select((row >= 0) & (column >= 0), offset, k.integer(-1))
                place = k.number("columns") * (number * len(across) + other)
                offsets.store(offset, place)
                if not self.nearest:
                    weights.store((row_weight * column_weight).to(self.compute), place)

    def _axis(self, k: Kernel, coordinate: Value, extent: Value) -> list[tuple[Value, Value]]:
        """Index and weight of the pixels read along one axis; an index of -1 is outside."""
        size, last, lanes = extent.to(F64), extent.to(F64) - 1.0, extent.lanes
        place = self._place(k, coordinate, size)
        if self.nearest:
            place = round_even(k, place)
        low, high = (
            (k.constant(F64, 0.0, lanes), last)
            if self.align_corners
            else (k.constant(F64, -0.5, lanes), size - 0.5)
        )
        outside = (place < low) | (place > high)
        if self.padding == "border":
            place = k.select(outside, k.minimum(k.maximum(place, k.constant(F64, 0.0, lanes)), last), place)
        elif self.padding == "reflection":
            place = k.select(outside, self._reflected(k, place, low, high - low), place)
        first = place if self.nearest else _floor(k, place)
        part = place - first
        index = first.to(I64)
        steps = [(index, part)] if self.nearest else [(index, 1.0 - part), (index + 1, part)]
        return [(self._inside(k, step, extent), weight) for step, weight in steps]

    def _place(self, k: Kernel, coordinate: Value, size: Value) -> Value:
        """In pixels; NaN is far below."""
        far = k.constant(F64, FAR, size.lanes)
        half = coordinate.type.nbytes == 2
        unit = (coordinate.to(F32) if half else coordinate).to(F64) + 1.0
        unit = k.select(unit.is_nan(), -far, k.minimum(k.maximum(unit, -far), far))
        place = unit / 2.0 * (size - 1.0) if self.align_corners else (unit * size - 1.0) / 2.0
        return k.minimum(k.maximum(place, -far), far)

    def _reflected(self, k: Kernel, place: Value, low: Value, span: Value) -> Value:
        """Moved inside by reflection at both borders, as often as it takes."""
        moved, twice = place - low, span * 2.0
        folded = moved - _floor(k, moved / twice) * twice
        return k.select(span > 0.0, low + k.minimum(folded, twice - folded), k.constant(F64, 0.0))

    def _inside(self, k: Kernel, index: Value, extent: Value) -> Value:
        clamped = k.minimum(k.maximum(index, k.constant(I64, 0, index.lanes)), extent - 1)
        return k.select(index.equals(clamped), index, k.integer(-1)) if self.padding == "zeros" else clamped

    def _value(self, k: Kernel, x: Pointer, offsets: Pointer, weights: Pointer, lanes: int) -> Value:
        total: Value | None = None
        for tap in range(self.taps):
            place = k.number("columns") * tap
            pixel = self._pixel(k, x, offsets.load(place, lanes))
            if self.nearest:
                return pixel
            part, weight = pixel.to(self.compute), weights.load(place, lanes)
            total = part * weight if total is None else k.fma(part, weight, total)
        assert total is not None
        return total.to(x.element)

    def _pixel(self, k: Kernel, x: Pointer, offset: Value) -> Value:
        """Pixels by their offsets; zeros for those that are outside."""
        zeros = self.padding == "zeros"
        if offset.lanes > 1:
            return k.gather(x, offset, offset >= 0 if zeros else None)
        pixel = x.load(k.maximum(offset, k.integer(0)) if zeros else offset)
        return k.select(offset >= 0, pixel, k.constant(pixel.type, 0)) if zeros else pixel


def _floor(k: Kernel, x: Value) -> Value:
    return emit_function(k, "floor", (), (x,))


def grid_sample_call(x: View, grid: View, y: View, nearest: bool, padding: str, align_corners: bool) -> Call:
    """The launch for plain views: x (N, C, H, W), a dense grid (N, rows, columns, 2), y (N, C, rows, columns)."""
    dtype = np.dtype(f"u{x.type.dtype.itemsize}") if nearest else x.type.dtype
    spec = GridSampleSpec(dtype, grid.type.dtype, nearest, padding, align_corners)
    (images, channels, rows, columns), (x_rows, x_columns) = y.shape, x.shape[2:]
    words: dict[str, Argument] = {
        "y": y, "x": x, "grid": grid, "rows": rows, "columns": columns, "x_rows": x_rows, "x_columns": x_columns,
        "channels": channels, **_strides("x", x.strides), **_strides("y", y.strides),
    }  # fmt: skip
    grain = maximum(1, _WORK // maximum(1, columns * (channels + 4)))
    return Call.named(spec, words, images * rows, grain, scratch=columns * spec.taps * 16)


def _strides(name: str, strides: Sequence[int]) -> dict[str, Argument]:
    return {f"{name}_{axis}": step for axis, step in zip(("image", "channel", "row"), strides, strict=False)}
