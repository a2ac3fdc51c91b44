"""Largest value of ranges of the input, and its place: adaptive pooling with indices.

    for item in begin .. end:                         an output plane of an input plane (or of a channel block)
        for row of the output:
            plain:      best, where = the largest of each column over the rows of the range    vectors of columns
                        for column of the output: the best of the range's columns              one by one
            channels    for place of the range, row-major: best, where                         vectors of channels
            innermost:

Of equal values the first in row-major order wins, of several NaNs the last ("propagate"), or none ("ignore"). Down a
column that order is that of the rows; across columns the row decides first: the smaller for equal values, the larger
for NaNs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Pointer, Scalar, Value
from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum, minimum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View
from cenote.kernels.plane_items import channels_of, named, planes_of
from cenote.kernels.pool.common import MAXIMUM, compute_type, identity, spans
from cenote.kernels.row_lanes import fitting
from cenote.kernels.tables import whole_numbers

Bounds = Sequence[Sequence[tuple[int, int]]]
AXES = ("d", "h", "w")
WORK = 1 << 16

Winner = tuple[Value, Value]  # value, and its row (plain) or place


@dataclass(frozen=True)
class PoolAdaptiveArgmax(KernelSpec):
    """Kernel with `lanes` along a row of a plain plane, or along the channels of a place. `nan` as in MaxPool."""

    dtype: np.dtype[Any]
    plain: bool
    lanes: int
    nan: str

    @property
    def compute(self) -> Scalar:
        return compute_type(MAXIMUM, self.dtype)

    @property
    def raw(self) -> bool:
        return self.nan == "ignore" and self.compute.is_float

    @property
    def words(self) -> tuple[Parameter, ...]:
        """The words of a call, by name and in order."""
        storage = Scalar.of(self.dtype)
        pointers = [Parameter("y", storage, pointer=True), Parameter("x", storage, pointer=True)]
        pointers += [
            Parameter(name, I64, pointer=True) for name in ("index", "range_d", "range_h", "range_w")
        ]
        numbers = ["units", "out_d", "out_h", "out_w", "height", "width", "step"]
        numbers += [f"{t}_{s}" for t in ("x", "y") for s in ("image", "unit", "plane", "row")]
        numbers += ["i_row", "i_column", "i_image", "i_channel"]
        return (*pointers, *(Parameter(name) for name in numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            plane, rest = item % n("out_d"), item // n("out_d")
            image, unit = rest // n("units"), rest % n("units")
            search = _PlaneSearch(k, self, image, unit, plane)
            for row in k.range(0, n("out_h")):
                search.row(row)
        return k


class _PlaneSearch:
    """Search of one output plane."""

    def __init__(self, k: Kernel, spec: PoolAdaptiveArgmax, image: Value, unit: Value, plane: Value) -> None:
        n = k.number
        self.k, self.spec = k, spec
        self.x = k.pointer("x") + (image * n("x_image") + unit * n("x_unit"))
        self.out = image * n("y_image") + unit * n("y_unit") + plane * n("y_plane")
        channel = unit if spec.plain else unit * n("step")
        self.base = image * n("i_image") + channel * n("i_channel")
        self.planes = self._range("d", plane)

    def _range(self, axis: str, position: Value) -> tuple[Value, Value]:
        ranges = self.k.pointer(f"range_{axis}")
        return ranges.load(position * 2), ranges.load(position * 2 + 1)

    def row(self, row: Value) -> None:
        k, n, spec = self.k, self.k.number, self.spec
        rows, out = self._range("h", row), self.out + row * n("y_row")
        if spec.plain:
            for at in spans(k, n("width"), spec.lanes):
                value, where = self._down(rows, at)
                self._values().store(value, at)
                self._rows().store(where, at)
            for column in k.range(0, n("out_w")):
                value, place = self._across(*self._range("w", column))
                self._write(value, place + self.base, out + column)
            return
        for column in k.range(0, n("out_w")):
            for channel in spans(k, n("step"), spec.lanes):
                value, place = self._through(rows, self._range("w", column), channel)
                lane = k.iota(spec.lanes, I64) if spec.lanes > 1 else k.integer(0)
                self._write(
                    value,
                    place + self.base + (lane + channel) * n("i_channel"),
                    out + column * n("step") + channel,
                )

    def _values(self) -> Pointer:
        return self.k.scratch.cast(self.spec.compute)

    def _rows(self) -> Pointer:
        return (self.k.scratch.cast(I64) + self.k.number("width")).cast(I32)

    def _nothing(self, lanes: int) -> Value:
        lowest = float("nan") if self.spec.raw else identity(MAXIMUM, self.spec.dtype)
        return self.k.constant(self.spec.compute, lowest, lanes)

    def _down(self, rows: tuple[Value, Value], at: Value) -> Winner:
        """Find the best of a vector of columns over the rows of the range, planes one after the other."""
        k, n, lanes = self.k, self.k.number, self.spec.lanes
        best = k.variable(self._nothing(lanes))
        first = self.planes[0] * n("height") + rows[0]
        where = k.variable(k.splat(first.to(I32), lanes))
        for plane in k.range(*self.planes):
            for row in k.range(*rows):
                source = self.x + (plane * n("x_plane") + row * n("x_row"))
                value = source.load(at, lanes).to(self.spec.compute)
                better = self._better(value, best.value)
                best.value = k.select(better, value, best.value)
                here = k.splat((plane * n("height") + row).to(I32), lanes)
                where.value = k.select(better, here, where.value)
        return best.value, where.value

    def _better(self, value: Value, best: Value) -> Value:
        """Whether a value that comes later beats the best so far."""
        better = value > best
        if not value.type.is_float:
            return better
        if self.spec.raw:
            return (better | best.is_nan()) & ~value.is_nan()
        return better | value.is_nan()

    def _across(self, begin: Value, end: Value) -> Winner:
        """Find the best of the columns of a range, and its place."""
        k, n = self.k, self.k.number
        values, rows = self._values(), self._rows()
        best, where = k.variable(values.load(begin)), k.variable(rows.load(begin))
        column = k.variable(begin)
        for at in k.range(begin + 1, end):
            value, row = values.load(at), rows.load(at)
            old = best.value
            tie = value.equals(old) & (row < where.value)
            better = (value > old) | tie
            if value.type.is_float and self.spec.raw:
                better = (better | old.is_nan()) & ~value.is_nan()
            elif value.type.is_float:
                better = better | (value.is_nan() & (~old.is_nan() | (row >= where.value)))
            best.value = k.select(better, value, old)
            where.value = k.select(better, row, where.value)
            column.value = k.select(better, at, column.value)
        return best.value, where.value.to(I64) * n("i_row") + column.value * n("i_column")

    def _through(self, rows: tuple[Value, Value], columns: tuple[Value, Value], channel: Value) -> Winner:
        """Find the best of a vector of channels over all places of the range."""
        k, n, lanes = self.k, self.k.number, self.spec.lanes
        best = k.variable(self._nothing(lanes))
        first = (self.planes[0] * n("height") + rows[0]) * n("i_row") + columns[0] * n("i_column")
        where = k.variable(k.splat(first, lanes))
        for plane in k.range(*self.planes):
            for row in k.range(*rows):
                source = self.x + (plane * n("x_plane") + row * n("x_row") + channel)
                start = (plane * n("height") + row) * n("i_row")
                for column in k.range(*columns):
                    value = source.load(column * n("step"), lanes).to(self.spec.compute)
                    better = self._better(value, best.value)
                    best.value = k.select(better, value, best.value)
                    here = k.splat(start + column * n("i_column"), lanes)
                    where.value = k.select(better, here, where.value)
        return best.value, where.value

    def _write(self, value: Value, index: Value, at: Value) -> None:
        k = self.k
        if self.spec.raw:
            lowest = k.constant(value.type, float("-inf"), value.lanes)
            value = k.select(value.is_nan(), lowest, value)
        k.pointer("y").store(value.to(Scalar.of(self.spec.dtype)), at)
        k.pointer("index").store(index, at)


def search_call(
    x: View, y: View, index: View, bounds: Bounds, rule: str, nan: str, target: Target, *, channels_last: bool
) -> Call:
    """Return the launch for views of one layout, without halos; bounds per spatial axis and output, none of them
    empty."""
    plain = not (x.layout.is_blocked or channels_last)
    to, source = planes_of(y, channels_last), planes_of(x, channels_last)
    every = [((0, 1),)] * (3 - len(bounds)) + [tuple(axis) for axis in bounds]
    compute = compute_type(MAXIMUM, x.type.dtype)
    widest = min(target.lanes(x.type.dtype), target.vector_bytes // compute.nbytes, target.lanes(np.int32))
    step = 1 if plain else source.strides[4]
    lanes = fitting(widest, source.extents[2] if plain else step)
    channels = channels_of(x, channels_last)
    units = x.blocks if x.layout.is_blocked else 1 if channels_last else channels
    size, (_, height, width) = source.size, source.extents
    unit = channels if rule == "nhwc" else 1
    row_step, column_step = (1, height) if rule == "column" else (width * unit, unit)
    image, channel = {"plane": (0, 0), "nhwc": (0, 1)}.get(rule, (channels * size, size))
    ranges = [computed(whole_numbers, tuple(map(tuple, axis))) for axis in every]
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "index": index,
        **dict(zip(("range_d", "range_h", "range_w"), ranges, strict=True)),
        "units": units,
        **named(("out_d", "out_h", "out_w"), [len(axis) for axis in every]),
        "height": height,
        "width": width,
        "step": step,
        "i_row": row_step,
        "i_column": column_step,
        "i_image": image,
        "i_channel": channel,
    }
    for name, planes in (("x", source), ("y", to)):
        strides = (planes.strides[0], 0 if channels_last else planes.strides[1], *planes.strides[2:4])
        words |= named([f"{name}_{stride}" for stride in ("image", "unit", "plane", "row")], strides)
    spec = PoolAdaptiveArgmax(x.type.dtype, plain, lanes, nan if compute.is_float else "")
    items = y.shape[0] * units * len(every[0])
    work = maximum(1, size * step // len(every[0]))
    return Call.named(
        spec,
        words,
        items,
        grain=maximum(1, minimum(WORK // work, -(-items // 8))),
        scratch=(12 * width + 256) if plain else 0,
    )
