"""Means and maxima of bilinear samples in the bins of boxes (RoiAlign), plain or channel-blocked.

    for item in begin .. end:                         a box, and some of the channels
        tables of both axes                           which pixels its bins sample, and with what weights
        for channels of the item:                     four planes at once; blocked: a vector of channels
            for row of bins:
                mean:     row = weight * x rows       all samples' rows of the bins together: bilinear weights separate
                          y[bin] = weight * row[columns of the bin]
                maximum:  for sample row of the bins: row = weight * upper row + weight * lower row
                          y[bin] = max(y[bin], weight * row[left] + weight * row[right]) over the samples of the bin

A mean so takes the pixels that its samples touch once, whatever the number of samples. Coordinates are computed in the
order of the reference, which their rounding follows. A pixel of weight 0 is left out, even if it is infinite. `found`
gets two words per item: 0, or what is wrong with the box (NOT_FINITE, NO_IMAGE, TOO_LARGE) and the image it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen.builder import F32, F64, I64, Kernel, Parameter
from cenote.codegen.values import U64, Pointer, Scalar, Value
from cenote.core.target import Target
from cenote.core.types import FLOAT64
from cenote.kernels.base import Call, KernelSpec, View
from cenote.kernels.planes import smaller
from cenote.kernels.pool_plan import fitting

NOT_FINITE, NO_IMAGE, TOO_LARGE = 1, 2, 3
MOST_SAMPLES = 1 << 20  # along an axis of a bin
TOGETHER = 4  # planes at once: as many independent chains
AXES = ("y", "x")
WORK = 1 << 16


@dataclass(frozen=True)
class RoiAlignSpec(KernelSpec):
    """`lanes` along a row of a plain map; blocked (`step` > 1): the lanes of a channel block. `largest`: the maximum
    of the samples instead of their mean; `terms`: of their weighted corners. `together` planes at once."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    lanes: int
    step: int
    together: int
    aligned: bool
    largest: bool
    terms: bool

    @property
    def real(self) -> Scalar:
        return F64 if self.dtype == FLOAT64 else F32

    def emit(self, target: Target) -> Kernel:
        element = Scalar.of(self.dtype)
        pointers = [Parameter(name, element, pointer=True) for name in ("y", "x", "rois")]
        pointers += [Parameter("batches", Scalar.of(self.index), pointer=True)]
        pointers += [Parameter("found", I64, pointer=True)]
        numbers = [
            "images",
            "units",
            "part",
            "parts",
            "rows",
            "columns",
            "ratio",
            "capacity",
            "x_image",
            "x_unit",
        ]
        numbers += ["x_row", "y_roi", "y_unit", "y_row", "bins_y", "bins_x"]
        k = Kernel(
            self.symbol, target, [*pointers, *(Parameter(name) for name in numbers), Parameter("scale", F64)]
        )
        n = k.number
        for item in k.range(k.begin, k.end):
            box = _Box(k, self, item)
            with k.when(box.wrong.equals(0)):
                tables = [box.table(axis) for axis in range(2)]
                first = (item % n("parts")) * n("part")
                last = smaller(k, first + n("part"), n("units"))
                whole = first + (last - first) // self.together * self.together
                for unit in k.range(first, whole, self.together):
                    _Planes(k, self, box, tables, unit, self.together).pool()
                if self.together > 1:
                    for unit in k.range(whole, last):
                        _Planes(k, self, box, tables, unit, 1).pool()
        return k


@dataclass(frozen=True)
class _Table:
    """Along one axis, per bin a range of entries: pixel and weight (means), or two pixels and two weights (maxima)."""

    ends: Pointer
    pixels: Pointer
    weights: Pointer
    first: Value  # pixels that entries name lie within first .. last - 1
    last: Value

    def has_zero(self, bin: Value, bins: Value) -> Value:
        """1 where a corner of weight 0 is among a bin's (maxima of weighted corners)."""
        return self.ends.load(bins + 1 + bin)

    def entries(self, bin: Value) -> tuple[Value, Value]:
        return self.ends.load(bin), self.ends.load(bin + 1)


class _Box:
    """The box of an item, scaled, and whether it can be pooled."""

    def __init__(self, k: Kernel, spec: RoiAlignSpec, item: Value) -> None:
        n, real = k.number, spec.real
        self.k, self.spec = k, spec
        self.number = item // n("parts")
        image = k.pointer("batches").load(self.number).to(I64)
        self.image = image
        corners = [k.pointer("rois").load(self.number * 4 + part).to(real) for part in range(4)]
        scale, shift = n("scale").to(real), 0.5 if spec.aligned else 0.0
        x1, y1, x2, y2 = (corner * scale - shift for corner in corners)
        self.begins = (y1, x1)
        extents = (y2 - y1, x2 - x1)
        if not spec.aligned:
            extents = tuple(k.larger(extent, k.constant(real, 1.0)) for extent in extents)  # type: ignore[assignment]
        self.steps = tuple(
            extent / n(f"bins_{axis}").to(real) for extent, axis in zip(extents, AXES, strict=True)
        )
        inside = image.bits(U64) < n("images").bits(U64)
        unbounded = [~(k.absolute(corner) < float("inf")) for corner in corners]
        large = [~(step < float(MOST_SAMPLES)) for step in self.steps]
        endless = (large[0] | large[1]) & n("ratio").equals(0)
        wrong = k.select(endless, k.integer(TOO_LARGE), k.integer(0))
        wrong = k.select(inside, wrong, k.integer(NO_IMAGE))
        any_unbounded = unbounded[0] | unbounded[1] | unbounded[2] | unbounded[3]
        self.wrong = k.select(any_unbounded, k.integer(NOT_FINITE), wrong)
        found = k.pointer("found") + item * 2
        found.store(self.wrong, 0)
        found.store(image, 1)
        self.counts = tuple(self._count(step) for step in self.steps)

    def _count(self, step: Value) -> Value:
        """Samples of a bin along an axis: the ratio, or the extent of a bin rounded up."""
        k, ratio = self.k, self.k.number("ratio")
        held = k.select(step < float(MOST_SAMPLES), step, k.constant(step.type, 0.0))
        held = k.select(held > 0.0, held, k.constant(step.type, 0.0))
        floor = held.to(I64)
        up = k.select(floor.to(step.type) < held, floor + 1, floor)
        return k.select(ratio > 0, ratio, up)

    def table(self, axis: int) -> _Table:
        """Work out an axis: its part of scratch holds the ends, the pixels, the weights and a dense row."""
        k, n, spec = self.k, self.k.number, self.spec
        capacity, bins = n("capacity"), n(f"bins_{AXES[axis]}")
        size = n(("rows", "columns")[axis])
        words = k.scratch.cast(I64) + capacity * (5 * axis)
        ends, pixels = words, words + capacity
        weights = (words + capacity * 3).cast(spec.real)
        used, low, high = (k.variable(start) for start in (k.integer(0), size, k.integer(0)))
        for bin in k.range(0, bins):
            ends.store(used.value, bin)
            if spec.largest:
                outside = k.variable(k.integer(0))
                ends.store(outside.value, bins + 1 + bin)
                for sample in self._samples(axis, bin, size):
                    if spec.terms:
                        used.value = self._note_terms(
                            pixels, weights, used.value, sample, ends + (bins + 1 + bin)
                        )
                        low.value, high.value = (
                            smaller(k, low.value, sample[0]),
                            _larger(k, high.value, sample[1]),
                        )
                        continue
                    with k.when(outside.value.equals(0) | sample[4]):
                        used.value = self._note(pixels, weights, used.value, sample)
                        outside.value = k.select(sample[4], outside.value, k.integer(1))
                    low.value, high.value = (
                        smaller(k, low.value, sample[0]),
                        _larger(k, high.value, sample[1]),
                    )
            else:
                used.value = self._gather(axis, bin, size, pixels, weights, used.value, (low, high))
        ends.store(used.value, bins)
        return _Table(ends, pixels, weights, low.value, high.value + 1)

    def _samples(self, axis: int, bin: Value, size: Value) -> Any:
        """Lower and upper pixel of each sample of a bin, their weights, and whether it is within the map."""
        k, real = self.k, self.spec.real
        begin, step, count = self.begins[axis], self.steps[axis], self.counts[axis]
        start = begin + bin.to(real) * step
        for sample in k.range(0, count):
            at = start + (sample.to(real) + 0.5) * step / count.to(real)
            inside = (at >= -1.0) & (at <= size.to(real))
            top = (size - 1).to(real)
            held = k.select(inside & (at > 0.0), at, k.constant(real, 0.0))
            held = k.select(held > top, top, held)
            low = held.to(I64)
            fraction = held - low.to(real)
            zero = k.constant(real, 0.0)
            weights = k.select(inside, 1.0 - fraction, zero), k.select(inside, fraction, zero)
            yield low, smaller(k, low + 1, size - 1), *weights, inside

    def _note(self, pixels: Pointer, weights: Pointer, used: Value, sample: Any) -> Value:
        """Write a sample down: two pixels and their weights."""
        for part in range(2):
            pixels.store(sample[part], used * 2 + part)
            weights.store(sample[2 + part], used * 2 + part)
        return used + 1

    def _note_terms(
        self, pixels: Pointer, weights: Pointer, used: Value, sample: Any, zero: Pointer
    ) -> Value:
        """Write the corners of a sample down, one pixel and weight each; of those of weight 0, that there are some."""
        k, last = self.k, self.k.variable(used)
        for part in range(2):
            some = sample[2 + part].differs(0.0)
            with k.when(some):
                pixels.store(sample[part], last.value)
                weights.store(sample[2 + part], last.value)
                last.value = last.value + 1
            with k.unless(some):
                zero.store(k.integer(1))
        return last.value

    def _gather(
        self, axis: int, bin: Value, size: Value, pixels: Pointer, weights: Pointer, used: Value, ends: Any
    ) -> Value:
        """The weights of all samples of a bin, pixel by pixel, divided by their number."""
        k, real = self.k, self.spec.real
        dense = (k.scratch.cast(I64) + k.number("capacity") * 10).cast(real)
        low, high = k.variable(size), k.variable(k.integer(-1))
        zero = k.constant(real, 0.0)
        for sample in self._samples(axis, bin, size):
            below, above = smaller(k, low.value, sample[0]), _larger(k, high.value, sample[1])
            for pixel in k.range(below, smaller(k, low.value, above + 1)):
                dense.store(zero, pixel)
            for pixel in k.range(_larger(k, high.value + 1, low.value), above + 1):
                dense.store(zero, pixel)
            low.value, high.value = below, above
            for pixel, weight in ((sample[0], sample[2]), (sample[1], sample[3])):
                dense.store(dense.load(pixel) + weight, pixel)
        filled = k.variable(used)
        count = self.counts[axis].to(real)
        for pixel in k.range(low.value, high.value + 1):
            weight = dense.load(pixel)
            with k.when(weight.differs(0.0)):
                pixels.store(pixel, filled.value)
                weights.store(weight / count, filled.value)
                filled.value = filled.value + 1
        ends[0].value = smaller(k, ends[0].value, low.value)
        ends[1].value = _larger(k, ends[1].value, high.value)
        return filled.value


def _larger(k: Kernel, a: Value, b: Value) -> Value:
    return k.intrinsic("smax", a, b)


class _Planes:
    """Some planes (or a channel block) of the box's image."""

    def __init__(
        self, k: Kernel, spec: RoiAlignSpec, box: _Box, tables: Sequence[_Table], unit: Value, together: int
    ) -> None:
        n = k.number
        self.k, self.spec, self.lanes = k, spec, spec.step if spec.step > 1 else 1
        self.box = box
        self.rows, self.columns = tables
        start = k.pointer("x") + box.image * n("x_image")
        self.x = [start + (unit + part) * n("x_unit") for part in range(together)]
        out = k.pointer("y") + box.number * n("y_roi")
        self.y = [out + (unit + part) * n("y_unit") for part in range(together)]
        scratch = (k.scratch.cast(I64) + n("capacity") * 11).cast(spec.real)
        room = n("columns") * self.lanes
        self.row = [scratch + room * part for part in range(together)]

    def pool(self) -> None:
        k, spec = self.k, self.spec
        for bin in k.range(0, k.number("bins_y")):
            first, last = self.rows.entries(bin)
            y = [pointer + bin * k.number("y_row") for pointer in self.y]
            if not spec.largest:
                self._mean_row(first, last)
                self._each_bin(y, self._mean)
                continue
            self._fill_best(bin)
            for entry in k.range(first, last):
                self._sample_row(entry)
                self._raise_best()
            self._each_bin(y, self._best)

    # ---- along the columns of the map -----------------------------------------------------------------------------

    def _vectors(self) -> Any:
        """Offsets of the vectors that cover the pixels a box touches."""
        k, spec = self.k, self.spec
        if spec.step > 1:
            for column in k.range(self.columns.first, self.columns.last):
                yield column * spec.step, spec.step
            return
        for at in k.range(self.columns.first, self.columns.last, spec.lanes):
            yield smaller(k, at, k.number("columns") - spec.lanes), spec.lanes

    def _mean_row(self, first: Value, last: Value) -> None:
        k, real = self.k, self.spec.real
        for at, lanes in self._vectors():
            totals = [k.variable(k.constant(real, 0.0, lanes)) for _ in self.x]
            for entry in k.range(first, last):
                weight = k.splat(self.rows.weights.load(entry), lanes)
                place = self.rows.pixels.load(entry) * k.number("x_row") + at
                for total, x in zip(totals, self.x, strict=True):
                    total.value = k.fma(x.load(place, lanes).to(real), weight, total.value)
            for total, row in zip(totals, self.row, strict=True):
                row.store(total.value, at)

    def _sample_row(self, entry: Value) -> None:
        k = self.k
        if self.spec.terms:
            self._mean_row(entry, entry + 1)
            return
        low, high, lower, upper = _pair(self.rows, entry)
        for at, lanes in self._vectors():
            for x, row in zip(self.x, self.row, strict=True):
                ends = [x.load(pixel * k.number("x_row") + at, lanes) for pixel in (low, high)]
                row.store(self._between(ends, (lower, upper)), at)

    def _between(self, ends: Sequence[Value], weights: Sequence[Value]) -> Value:
        """The weighted sum of two values, without those of weight 0."""
        k, real, lanes = self.k, self.spec.real, ends[0].lanes
        zero = k.constant(real, 0.0, lanes)
        parts = [
            k.select(k.splat(weight.equals(0.0), lanes), zero, end.to(real) * k.splat(weight, lanes))
            for end, weight in zip(ends, weights, strict=True)
        ]
        return parts[0] + parts[1]

    # ---- bins of a row --------------------------------------------------------------------------------------------

    def _each_bin(self, y: Sequence[Pointer], value: Any) -> None:
        k = self.k
        empty = self.box.counts[0].equals(0) | self.box.counts[1].equals(0)
        for bin in k.range(0, k.number("bins_x")):
            for pointer, total in zip(y, value(bin), strict=True):
                held = k.select(
                    k.splat(empty, self.lanes), k.constant(self.spec.real, 0.0, self.lanes), total
                )
                pointer.store(held.to(pointer.element), bin * self.lanes)

    def _mean(self, bin: Value) -> list[Value]:
        k, lanes = self.k, self.lanes
        totals = [k.variable(k.constant(self.spec.real, 0.0, lanes)) for _ in self.x]
        for entry in k.range(*self.columns.entries(bin)):
            weight = k.splat(self.columns.weights.load(entry), lanes)
            place = self.columns.pixels.load(entry) * lanes
            for total, row in zip(totals, self.row, strict=True):
                total.value = k.fma(row.load(place, lanes), weight, total.value)
        return [total.value for total in totals]

    def _best_row(self, part: int) -> Pointer:
        room = self.k.number("bins_x") * self.lanes
        return self.row[-1] + (self.k.number("columns") * self.lanes + room * part)

    def _fill_best(self, row: Value) -> None:
        """Start from nothing, or where corners of weight 0 are among the samples from 0."""
        k, real, lanes = self.k, self.spec.real, self.lanes
        for bin in k.range(0, k.number("bins_x")):
            start = k.constant(real, float("-inf"))
            if self.spec.terms:
                zeros = self.rows.has_zero(row, k.number("bins_y")) | self.columns.has_zero(
                    bin, k.number("bins_x")
                )
                start = k.select(zeros.equals(0), start, k.constant(real, 0.0))
            for part in range(len(self.x)):
                self._best_row(part).store(k.splat(start, lanes), bin * lanes)

    def _raise_best(self) -> None:
        k, lanes = self.k, self.lanes
        for bin in k.range(0, k.number("bins_x")):
            best = [k.variable(self._best_row(part).load(bin * lanes, lanes)) for part in range(len(self.x))]
            for entry in k.range(*self.columns.entries(bin)):
                if self.spec.terms:
                    weight = k.splat(self.columns.weights.load(entry), lanes)
                    place = self.columns.pixels.load(entry) * lanes
                    for one, row in zip(best, self.row, strict=True):
                        one.value = k.maximum(row.load(place, lanes) * weight, one.value)
                    continue
                low, high, lower, upper = _pair(self.columns, entry)
                for one, row in zip(best, self.row, strict=True):
                    ends = [row.load(pixel * lanes, lanes) for pixel in (low, high)]
                    one.value = k.maximum(one.value, self._between(ends, (lower, upper)))
            for part, one in enumerate(best):
                self._best_row(part).store(one.value, bin * lanes)

    def _best(self, bin: Value) -> list[Value]:
        return [self._best_row(part).load(bin * self.lanes, self.lanes) for part in range(len(self.x))]


def _pair(table: _Table, entry: Value) -> tuple[Value, Value, Value, Value]:
    pixels = [table.pixels.load(entry * 2 + part) for part in range(2)]
    weights = [table.weights.load(entry * 2 + part) for part in range(2)]
    return pixels[0], pixels[1], weights[0], weights[1]


def roi_align_call(
    x: View, rois: View, batches: View, y: View, found: View, target: Target, *, bins: tuple[int, int], scale: float,
    ratio: int, aligned: bool, largest: bool, terms: bool, part: int,
) -> Call:  # fmt: skip
    """The launch for x and y of one layout; items hold `part` planes (channel blocks) of one box."""
    blocked = x.layout.is_blocked
    real = FLOAT64 if x.type.dtype == FLOAT64 else np.dtype(np.float32)
    widest = min(target.lanes(x.type.dtype), target.lanes(real))
    rows, columns = x.shape[2:]
    spec = RoiAlignSpec(
        x.type.dtype, batches.type.dtype, fitting(widest, columns), x.layout.lanes if blocked else 1,
        1 if blocked else TOGETHER, aligned, largest, terms and largest,
    )  # fmt: skip
    units = x.blocks if blocked else x.shape[1]
    parts = -(-units // part)
    capacity = table_capacity(bins, ratio, rows, columns)
    numbers = (
        x.shape[0], units, part, parts, rows, columns, ratio, capacity, *x.strides[:3], *y.strides[:3], *bins, scale,
    )  # fmt: skip
    lanes = x.layout.lanes if blocked else TOGETHER
    scratch = capacity * 88 + (columns + bins[1]) * lanes * 8 + 256
    work = part * max(1, x.layout.lanes) * bins[0] * bins[1] * 16
    return Call(
        spec, (y, x, rois, batches, found, *numbers), rois.shape[0] * parts, max(1, WORK // max(work, 1)), scratch,
    )  # fmt: skip


def table_capacity(bins: tuple[int, int], ratio: int, rows: int, columns: int) -> int:
    """Entries that a table of an axis may have: samples are at least half a pixel apart where their number adapts, and
    those outside of the map are one entry per bin."""
    size, most = max(rows, columns), max(bins)
    return 2 * (2 * size + 4 * most + 16 + ratio * most)


__all__ = ["NOT_FINITE", "NO_IMAGE", "TOO_LARGE", "RoiAlignSpec", "roi_align_call", "table_capacity"]
