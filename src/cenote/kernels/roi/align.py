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
order of the reference, which their rounding follows. A pixel of weight 0 is left out, even if it is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT64
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.plane_items import named
from cenote.kernels.roi.sampling import BinTable, BoxSpec, RegionBox, table_capacity
from cenote.kernels.row_lanes import fitting

TOGETHER = 4  # planes at once: as many independent chains
WORK = 1 << 16


WORDS = split_words(
    "images units part parts rows columns ratio capacity x_image x_unit x_row y_roi y_unit y_row",
    "bins_y bins_x",
)


@dataclass(frozen=True)
class RoiAlignSpec(BoxSpec):
    """Kernel of RoiAlign. `lanes` along a row of a plain map; blocked (`step` > 1): the lanes of a channel block.
    `together` planes at once."""

    lanes: int
    step: int
    together: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return self.words_with(("y", "x", "rois"), WORDS)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            box = RegionBox(k, self, item)
            with k.when(box.wrong.equals(0)):
                tables = [box.table(axis) for axis in range(2)]
                first = (item % n("parts")) * n("part")
                last = k.minimum(first + n("part"), n("units"))
                whole = first + (last - first) // self.together * self.together
                for unit in k.range(first, whole, self.together):
                    _Planes(k, self, box, tables, unit, self.together).pool()
                if self.together > 1:
                    for unit in k.range(whole, last):
                        _Planes(k, self, box, tables, unit, 1).pool()
        return k


class _Planes:
    """Emitter of some planes (or a channel block) of the box's image."""

    def __init__(
        self,
        k: Kernel,
        spec: RoiAlignSpec,
        box: RegionBox,
        tables: Sequence[BinTable],
        unit: Value,
        together: int,
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
        """Yield offsets of the vectors that cover the pixels a box touches."""
        k, spec = self.k, self.spec
        if spec.step > 1:
            for column in k.range(self.columns.first, self.columns.last):
                yield column * spec.step, spec.step
            return
        for at in k.range(self.columns.first, self.columns.last, spec.lanes):
            yield k.minimum(at, k.number("columns") - spec.lanes), spec.lanes

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
        """Return the weighted sum of two values, without values of weight 0."""
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
        """Fill with the identity, or with 0 where corners of weight 0 are among the samples."""
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


def _pair(table: BinTable, entry: Value) -> tuple[Value, Value, Value, Value]:
    pixels = [table.pixels.load(entry * 2 + part) for part in range(2)]
    weights = [table.weights.load(entry * 2 + part) for part in range(2)]
    return pixels[0], pixels[1], weights[0], weights[1]


def roi_align_call(
    x: View,
    rois: View,
    batches: View,
    y: View,
    found: View,
    target: Target,
    *,
    bins: tuple[int, int],
    scale: float,
    ratio: int,
    aligned: bool,
    largest: bool,
    terms: bool,
    part: int,
) -> Call:
    """Return the launch for x and y of one layout; items hold `part` planes (channel blocks) of one box."""
    blocked = x.layout.is_blocked
    real = FLOAT64 if x.type.dtype == FLOAT64 else np.dtype(np.float32)
    widest = min(target.lanes(x.type.dtype), target.lanes(real))
    rows, columns = x.shape[2:]
    spec = RoiAlignSpec(
        x.type.dtype,
        batches.type.dtype,
        aligned,
        largest,
        terms and largest,
        fitting(widest, columns),
        x.layout.lanes if blocked else 1,
        1 if blocked else TOGETHER,
    )
    units = x.blocks if blocked else x.shape[1]
    parts = -(-units // part)
    capacity = table_capacity(bins, ratio, rows, columns)
    words: dict[str, Argument] = {"y": y, "x": x, "rois": rois, "batches": batches, "found": found}
    words |= {"images": x.shape[0], "units": units, "part": part, "parts": parts}
    words |= {"rows": rows, "columns": columns, "ratio": ratio, "capacity": capacity}
    words |= named(("x_image", "x_unit", "x_row"), x.strides[:3])
    words |= named(("y_roi", "y_unit", "y_row"), y.strides[:3])
    words |= {"bins_y": bins[0], "bins_x": bins[1], "scale": scale}
    lanes = x.layout.lanes if blocked else TOGETHER
    scratch = capacity * 88 + (columns + bins[1]) * lanes * 8 + 256
    work = part * max(1, x.layout.lanes) * bins[0] * bins[1] * 16
    return Call.named(
        spec,
        words,
        rois.shape[0] * parts,
        max(1, WORK // max(work, 1)),
        scratch,
    )
