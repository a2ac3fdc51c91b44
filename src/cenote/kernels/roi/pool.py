"""Maxima (roi_pool) and position-sensitive means (ps_roi_pool) of the bins of boxes in whole pixels.

    for item in begin .. end:                         a box, and some of the channels
        the pixels of each bin, from the box          exact, in whole numbers
        maximum:  for channels of the item:           four planes at once; blocked: a vector of channels
                      for row of bins:
                          row = the largest of each column over the bins' rows
                          y[bin] = the largest of row[columns of the bin]
        mean:     for channel, bin:                   each bin has a plane of its own
                      y[bin] = sum of x[rows, columns of the bin] / their number

An empty bin gives 0. `found` gets two words per item: 0, or what is wrong with the box (NOT_FINITE, NO_IMAGE) and the
bits of the image it names, as a float64. Corners beyond 2^40 pixels are held there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, I64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT64
from cenote.kernels.base import Argument, Call, KernelSpec, View
from cenote.kernels.plane_items import named
from cenote.kernels.pool.common import compute_type
from cenote.kernels.roi.align import TOGETHER
from cenote.kernels.roi.sampling import NO_IMAGE, NOT_FINITE
from cenote.kernels.row_lanes import fitting

FARTHEST = 2.0**40
WORK = 1 << 16


WORDS = split_words(
    "images units part parts rows columns x_image x_unit x_row y_roi y_unit y_row bins_y bins_x",
)


@dataclass(frozen=True)
class RegionPoolSpec(KernelSpec):
    """Kernel of the maximum (`largest`), or of the position-sensitive mean. `lanes` along a row of a plain map;
    blocked (`step` > 1): the lanes of a channel block."""

    dtype: np.dtype[Any]
    largest: bool
    lanes: int
    step: int

    @property
    def real(self) -> Scalar:
        return compute_type("sum", self.dtype)

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        pointers = [Parameter(name, element, pointer=True) for name in ("y", "x", "rois")]
        pointers += [Parameter("found", I64, pointer=True)]
        return (*pointers, *(Parameter(word) for word in WORDS), Parameter("scale", F64))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            box = _Box(k, self, item)
            with k.when(box.right):
                box.ranges()
                first = (item % n("parts")) * n("part")
                last = k.minimum(first + n("part"), n("units"))
                if not self.largest:
                    for unit in k.range(first, last):
                        _means(k, box, unit)
                    continue
                together = 1 if self.step > 1 else TOGETHER
                whole = first + (last - first) // together * together
                for unit in k.range(first, whole, together):
                    _Maxima(k, self, box, unit, together).pool()
                if together > 1:
                    for unit in k.range(whole, last):
                        _Maxima(k, self, box, unit, 1).pool()
        return k


class _Box:
    """Box of an item: its image, whether it can be pooled, and the pixels of its bins."""

    def __init__(self, k: Kernel, spec: RegionPoolSpec, item: Value) -> None:
        n = k.number
        self.k, self.spec = k, spec
        self.number = item // n("parts")
        values = [k.pointer("rois").load(self.number * 5 + part).to(spec.real) for part in range(5)]
        bounded = k.absolute(values[0]) < float("inf")
        for value in values[1:]:
            bounded = bounded & (k.absolute(value) < float("inf"))
        image = values[0].to(F64)
        inside = (image >= 0.0) & (image < n("images").to(F64))
        self.right = bounded & inside
        wrong = k.select(inside, k.integer(0), k.integer(NO_IMAGE))
        found = k.pointer("found") + item * 2
        found.store(k.select(bounded, wrong, k.integer(NOT_FINITE)), 0)
        found.store(image.bits(I64), 1)
        self.image = k.select(self.right, image, k.constant(F64, 0.0)).to(I64)
        scale = n("scale").to(spec.real)
        self.corners = [self._rounded(value * scale) for value in values[1:]]
        self.row_ends = k.scratch.cast(I64)
        self.column_ends = self.row_ends + n("bins_y") * 2

    def _rounded(self, value: Value) -> Value:
        """Round to the nearest whole number, halves away from zero."""
        k, wide = self.k, value.to(F64)
        size = k.absolute(wide)
        size = k.select(size < FARTHEST, size, k.constant(F64, FARTHEST))
        whole = (size + 0.5).to(I64)
        return k.select(wide < 0.0, 0 - whole, whole)

    def ranges(self) -> None:
        """Compute half-open ranges of the bins' pixels, within the map, in scratch."""
        k, n = self.k, self.k.number
        x1, y1, x2, y2 = self.corners
        more = 1 if self.spec.largest else 0
        axes = ((self.row_ends, y1, y2, "bins_y", "rows"), (self.column_ends, x1, x2, "bins_x", "columns"))
        for ends, begin, end, bins, size in axes:
            extent = k.maximum(end - begin + more, k.integer(1))
            for bin in k.range(0, n(bins)):
                low = bin * extent // n(bins)
                high = ((bin + 1) * extent + (n(bins) - 1)) // n(bins)
                for part, edge in enumerate((low, high)):
                    held = k.minimum(k.maximum(begin + edge, k.integer(0)), n(size))
                    ends.store(held, bin * 2 + part)

    def rows(self, bin: Value) -> tuple[Value, Value]:
        return self.row_ends.load(bin * 2), self.row_ends.load(bin * 2 + 1)

    def columns(self, bin: Value) -> tuple[Value, Value]:
        return self.column_ends.load(bin * 2), self.column_ends.load(bin * 2 + 1)


class _Maxima:
    """Emitter of maxima of some planes (or a channel block) of the box's image."""

    def __init__(self, k: Kernel, spec: RegionPoolSpec, box: _Box, unit: Value, together: int) -> None:
        n = k.number
        self.k, self.spec, self.box = k, spec, box
        self.lanes = spec.step
        start = k.pointer("x") + box.image * n("x_image")
        self.x = [start + (unit + part) * n("x_unit") for part in range(together)]
        out = k.pointer("y") + box.number * n("y_roi")
        self.y = [out + (unit + part) * n("y_unit") for part in range(together)]
        scratch = (box.column_ends + n("bins_x") * 2).cast(spec.real)
        self.row = [scratch + n("columns") * self.lanes * part for part in range(together)]
        self.first, self.last = box.columns(k.integer(0))[0], box.columns(n("bins_x") - 1)[1]

    def pool(self) -> None:
        k = self.k
        for bin in k.range(0, k.number("bins_y")):
            begin, end = self.box.rows(bin)
            for at, lanes in self._vectors():
                self._down(begin, end, at, lanes)
            for column in k.range(0, k.number("bins_x")):
                self._across(begin < end, bin, column)

    def _vectors(self) -> Iterator[tuple[Value, int]]:
        k, spec = self.k, self.spec
        if spec.step > 1:
            for column in k.range(self.first, self.last):
                yield column * spec.step, spec.step
            return
        for at in k.range(self.first, self.last, spec.lanes):
            yield k.minimum(at, k.number("columns") - spec.lanes), spec.lanes

    def _down(self, begin: Value, end: Value, at: Value, lanes: int) -> None:
        k, real = self.k, self.spec.real
        best = [k.variable(k.constant(real, float("-inf"), lanes)) for _ in self.x]
        for row in k.range(begin, end):
            for one, x in zip(best, self.x, strict=True):
                value = (x + row * k.number("x_row")).load(at, lanes).to(real)
                one.value = k.maximum(value, one.value)
        for one, row_of in zip(best, self.row, strict=True):
            row_of.store(one.value, at)

    def _across(self, some: Value, bin: Value, column: Value) -> None:
        k, real, lanes = self.k, self.spec.real, self.lanes
        best = [k.variable(k.constant(real, float("-inf"), lanes)) for _ in self.x]
        begin, end = self.box.columns(column)
        for at in k.range(begin, end):
            for one, row in zip(best, self.row, strict=True):
                one.value = k.maximum(row.load(at * lanes, lanes), one.value)
        empty = k.splat(~(some & (begin < end)), lanes)
        for one, y in zip(best, self.y, strict=True):
            value = k.select(empty, k.constant(real, 0.0, lanes), one.value)
            y.store(value.to(y.element), bin * k.number("y_row") + column * lanes)


def _means(k: Kernel, box: _Box, unit: Value) -> None:
    """Compute all bins of one channel of the result, each from its own plane."""
    n, real = k.number, box.spec.real
    out = k.pointer("y") + (box.number * n("y_roi") + unit * n("y_unit"))
    image = k.pointer("x") + box.image * n("x_image")
    for bin in k.range(0, n("bins_y")):
        top, bottom = box.rows(bin)
        for column in k.range(0, n("bins_x")):
            left, right = box.columns(column)
            plane = image + ((unit * n("bins_y") + bin) * n("bins_x") + column) * n("x_unit")
            total = k.variable(k.constant(real, 0.0))
            for row in k.range(top, bottom):
                part = k.variable(k.constant(real, 0.0))
                for at in k.range(left, right):
                    part.value = part.value + (plane + row * n("x_row")).load(at).to(real)
                total.value = total.value + part.value
            count = k.maximum(bottom - top, k.integer(0)) * k.maximum(right - left, k.integer(0))
            mean = total.value / k.maximum(count, k.integer(1)).to(real)
            out.store(mean.to(out.element), bin * n("y_row") + column)


def roi_pool_call(
    x: View,
    rois: View,
    y: View,
    found: View,
    target: Target,
    *,
    bins: tuple[int, int],
    scale: float,
    largest: bool,
    part: int,
) -> Call:
    """Return the launch for x and y of one layout; items hold `part` planes (channel blocks) of one box's result."""
    blocked = x.layout.is_blocked
    real = FLOAT64 if x.type.dtype == FLOAT64 else np.dtype(np.float32)
    widest = min(target.lanes(x.type.dtype), target.lanes(real))
    rows, columns = x.shape[2:]
    step = x.layout.lanes if blocked else 1
    spec = RegionPoolSpec(x.type.dtype, largest, fitting(widest, columns), step)
    units = y.blocks if blocked else y.shape[1]
    parts = -(-units // part)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "rois": rois,
        "found": found,
        "images": x.shape[0],
        "units": units,
        "part": part,
        "parts": parts,
        "rows": rows,
        "columns": columns,
        **named(("x_image", "x_unit", "x_row"), x.strides[:3]),
        **named(("y_roi", "y_unit", "y_row"), y.strides[:3]),
        "bins_y": bins[0],
        "bins_x": bins[1],
        "scale": scale,
    }
    work = part * step * (bins[0] * bins[1] * 16 + rows * columns // 4)
    scratch = (bins[0] + bins[1]) * 16 + columns * max(step, TOGETHER) * 8 + 256
    return Call.named(spec, words, rois.shape[0] * parts, max(1, WORK // max(work, 1)), scratch)
