"""Boxes of RoiAlign and its gradient: the pixels that their bins sample, and the weights.

Coordinates are computed in the order of the reference. `found` gets two words per item: 0, or the fault of the box
(NOT_FINITE, NO_IMAGE, TOO_LARGE), and the image it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.types import FLOAT64
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to

NOT_FINITE, NO_IMAGE, TOO_LARGE = 1, 2, 3
MOST_SAMPLES = 1 << 20  # along an axis of a bin
AXES = ("y", "x")


@dataclass(frozen=True)
class BoxSpec(KernelSpec):
    """Fields of kernels of boxes. `largest`: the maximum of the samples instead of their mean; `terms`: of their
    weighted corners."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    aligned: bool
    largest: bool
    terms: bool

    @property
    def real(self) -> Scalar:
        return F64 if self.dtype == FLOAT64 else F32

    def words_with(self, tensors: Sequence[str], numbers: Sequence[str]) -> tuple[Parameter, ...]:
        """Return words: pointers to tensors of the map's type, the images of the boxes, `found`, numbers, the scale."""
        return (
            *pointers_to(Scalar.of(self.dtype), *tensors),
            *pointers_to(Scalar.of(self.index), "batches"),
            *pointers_to(I64, "found"),
            *numbers_named(numbers),
            Parameter("scale", F64),
        )


@dataclass(frozen=True)
class BinTable:
    """Table along one axis, per bin a range of entries: pixel and weight (means), or two pixels and two weights
    (maxima)."""

    ends: Pointer
    pixels: Pointer
    weights: Pointer
    first: Value  # pixels that entries name lie within first .. last - 1
    last: Value

    def has_zero(self, bin: Value, bins: Value) -> Value:
        """Whether (1 or 0) a corner of weight 0 is among a bin's (maxima of weighted corners)."""
        return self.ends.load(bins + 1 + bin)

    def entries(self, bin: Value) -> tuple[Value, Value]:
        return self.ends.load(bin), self.ends.load(bin + 1)


class RegionBox:
    """Box of an item, scaled, and whether it can be pooled."""

    def __init__(self, k: Kernel, spec: BoxSpec, item: Value) -> None:
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
            extents = tuple(k.max_drop_nan(extent, k.constant(real, 1.0)) for extent in extents)  # type: ignore[assignment]
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
        """Number of samples of a bin along an axis: the ratio, or the extent of a bin rounded up."""
        k, ratio = self.k, self.k.number("ratio")
        held = k.select(step < float(MOST_SAMPLES), step, k.constant(step.type, 0.0))
        held = k.select(held > 0.0, held, k.constant(step.type, 0.0))
        floor = held.to(I64)
        up = k.select(floor.to(step.type) < held, floor + 1, floor)
        return k.select(ratio > 0, ratio, up)

    def table(self, axis: int) -> BinTable:
        """Compute the table of an axis: its part of scratch holds the ends, the pixels, the weights and a dense row."""
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
                            k.minimum(low.value, sample[0]),
                            k.maximum(high.value, sample[1]),
                        )
                        continue
                    with k.when(outside.value.equals(0) | sample[4]):
                        used.value = self._note(pixels, weights, used.value, sample)
                        outside.value = k.select(sample[4], outside.value, k.integer(1))
                    low.value, high.value = (
                        k.minimum(low.value, sample[0]),
                        k.maximum(high.value, sample[1]),
                    )
            else:
                used.value = self._gather(axis, bin, size, pixels, weights, used.value, (low, high))
        ends.store(used.value, bins)
        return BinTable(ends, pixels, weights, low.value, high.value + 1)

    def _samples(self, axis: int, bin: Value, size: Value) -> Any:
        """Yield lower and upper pixel of each sample of a bin, their weights, and whether it is within the map."""
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
            yield low, k.minimum(low + 1, size - 1), *weights, inside

    def _note(self, pixels: Pointer, weights: Pointer, used: Value, sample: Any) -> Value:
        """Store a sample: two pixels and their weights."""
        for part in range(2):
            pixels.store(sample[part], used * 2 + part)
            weights.store(sample[2 + part], used * 2 + part)
        return used + 1

    def _note_terms(
        self, pixels: Pointer, weights: Pointer, used: Value, sample: Any, zero: Pointer
    ) -> Value:
        """Store the corners of a sample, one pixel and weight each; of corners of weight 0 only note that there are
        some."""
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
        """Gather the weights of all samples of a bin, pixel by pixel, divided by their number."""
        k, real = self.k, self.spec.real
        dense = (k.scratch.cast(I64) + k.number("capacity") * 10).cast(real)
        low, high = k.variable(size), k.variable(k.integer(-1))
        zero = k.constant(real, 0.0)
        for sample in self._samples(axis, bin, size):
            below, above = k.minimum(low.value, sample[0]), k.maximum(high.value, sample[1])
            for pixel in k.range(below, k.minimum(low.value, above + 1)):
                dense.store(zero, pixel)
            for pixel in k.range(k.maximum(high.value + 1, low.value), above + 1):
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
        ends[0].value = k.minimum(ends[0].value, low.value)
        ends[1].value = k.maximum(ends[1].value, high.value)
        return filled.value


def table_capacity(bins: tuple[int, int], ratio: int, rows: int, columns: int) -> int:
    """Most entries of a table of an axis: samples are at least half a pixel apart where their number adapts, and
    samples outside of the map are one entry per bin."""
    size, most = max(rows, columns), max(bins)
    return 2 * (2 * size + 4 * most + 16 + ratio * most)
