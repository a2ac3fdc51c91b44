"""Gradients of averages and sums: each value of grad_output spreads over its window.

    for item in begin .. end:                         a band of row groups of one plane of the gradient
        for group of rows that the same windows cover:
            sums = weight * grad rows + …             the windows' rows: few, and short
            regular columns: sums, `stride` apart with zeros between, are the row `gaps`
                for row of the group, vectors:        y = gaps[i] + gaps[i - dilation] + …, `width` taps
            column groups: for group of columns that the same windows cover:
                spread[columns] = weight * sums[window] + …
                for row of the group, vectors:        y = spread
            y = y * slope(x)                          for pools that are no plain sums

Every element of the gradient gathers what it gets, in one order: no two items write the same element and the result is
the same bits for any number of threads. Rows are taken before columns, because rows of grad_output are short. The
weights hold the reciprocal divisors, axis by axis. Sums are taken in at least float32; in float64 where x makes
something of them, because neither factor need be a number that the type of the gradient holds: of a norm of 1e-6 with
p 8, norm^(1 - p) is 1e42.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.pool.common import compute_type, spans
from cenote.kernels.pool_variants.power import product, real_power

DIRECT = 4  # taps added up for every row of a group; wider windows are added up once, into scratch
UNROLLED = 16  # taps of a row; more are a loop
SHUFFLED = 4  # largest stride whose zeros are shuffled in
TOGETHER = 4  # vectors of a row of grad_output summed in one walk over the windows that reach it

PLAIN_SLOPE, BY_X, BY_SIGN, BY_POWER, ABOVE = "none", "x", "sign", "power", "above"

WORDS = split_words(
    "channels bands band groups planes out_w size_w step pad left length",
    "column_groups y_n y_c y_d y_h g_n g_c g_d g_h",
)
WEIGHTS = ("row_weights", "plane_weights", "column_weights")
TABLES = ("rows", "row_taps", "planes_of", "plane_taps", "columns", "column_taps")


def sum_type(dtype: np.dtype[Any], slope: str) -> Scalar:
    """The type that gradients are added up in."""
    return compute_type("sum", dtype) if slope == PLAIN_SLOPE else F64


@dataclass(frozen=True)
class PoolAverageBackward(KernelSpec):
    """Kernel that spreads gradients. `width`, `stride` and `dilation` of regular columns; width 0: the columns go by
    groups. `step` 1 is plain, 0 channels innermost. `lanes` along rows of y, `sum_lanes` of grad_output, `out_lanes`
    of one column of it (channels innermost). `scaled`: regular columns have weights. `slope` is the factor by x:
    "none"; "x"; its "sign"; sign(x) |x|^e ("power"); x^e where x is at least `floor` ("above"); `twice` is twice the
    exponent e if that is small and whole, else 0.
    """

    dtype: np.dtype[Any]
    width: int
    stride: int
    dilation: int
    step: int
    lanes: int
    sum_lanes: int
    out_lanes: int
    scaled: bool
    slope: str
    twice: int = 0

    @property
    def compute(self) -> Scalar:
        return sum_type(self.dtype, self.slope)

    @property
    def words(self) -> tuple[Parameter, ...]:
        storage = Scalar.of(self.dtype)
        return (
            *pointers_to(storage, "y", "x"),
            *pointers_to(self.compute if self.slope != PLAIN_SLOPE else storage, "g"),
            *pointers_to(I64, *TABLES),
            *pointers_to(self.compute, *WEIGHTS),
            *numbers_named(WORDS),
            Parameter("exponent", F64),
            Parameter("floor", F64),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            band, rest = item % n("bands"), item // n("bands")
            plane, rest = rest % n("planes"), rest // n("planes")
            image, channel = rest // n("channels"), rest % n("channels")
            gradient = _GradientPlane(k, self, image, channel, plane)
            gradient.clear_gaps()
            last = k.minimum(band * n("band") + n("band"), n("groups"))
            for group in k.range(band * n("band"), last):
                gradient.group(group)
        return k


class _GradientPlane:
    """Emitter of one item: a plane of the gradient, whose windows along the planes are known."""

    def __init__(
        self, k: Kernel, spec: PoolAverageBackward, image: Value, channel: Value, plane: Value
    ) -> None:
        n = k.number
        self.k, self.spec = k, spec
        self.step = k.integer(1) if spec.step == 1 else n("step")
        at = image * n("y_n") + channel * n("y_c") + plane * n("y_d")
        self.y, self.x = k.pointer("y") + at, k.pointer("x") + at
        self.g = k.pointer("g") + (image * n("g_n") + channel * n("g_c"))
        self.planes = tuple(k.pointer("planes_of").load(plane * 2 + end) for end in (0, 1))
        self.out = n("out_w") * self.step
        self.size = n("size_w") * self.step
        self.sums = k.scratch.cast(spec.compute)
        self.gaps = self.sums + n("length")
        self.spread = self.gaps + n("length")

    def clear_gaps(self) -> None:
        """Store zeros between the sums and around them: they are never written over."""
        k, spec = self.k, self.spec
        if spec.width:
            for at in k.range(0, k.number("length"), spec.lanes):
                self.gaps.store(k.constant(spec.compute, 0.0, spec.lanes), at)

    def group(self, group: Value) -> None:
        k, spec = self.k, self.spec
        begin, end, first, last = (k.pointer("rows").load(group * 4 + part) for part in range(4))
        if spec.width:
            self._into_gaps(first, last)
        else:
            self._sum_row(self.sums, first, last)
            self._by_columns()
        taken = self._taps if 0 < spec.width <= DIRECT else self._spread
        if spec.width > DIRECT:
            for at in spans(k, self.size, spec.lanes):
                self.spread.store(self._taps(at), at)
        for row in k.range(begin, end):
            self._row(row, taken)

    def _summed(self, first: Value, last: Value) -> Iterator[tuple[Value, Value]]:
        """Yield vectors of the sum of the weighted rows of grad_output that reach this group of rows, and their
        places."""
        k, lanes = self.k, self.spec.sum_lanes
        whole = self.out & ~(lanes * TOGETHER - 1)
        for at in k.range(0, whole, lanes * TOGETHER):
            yield from self._sums([at + lanes * part for part in range(TOGETHER)], first, last)
        for at in k.range(whole, self.out, lanes):
            yield from self._sums([k.minimum(at, self.out - lanes)], first, last)

    def _sums(self, places: list[Value], first: Value, last: Value) -> Iterator[tuple[Value, Value]]:
        k, n, lanes = self.k, self.k.number, self.spec.sum_lanes
        zero = k.constant(self.spec.compute, 0.0, lanes)
        totals = [k.variable(zero) for _ in places]
        for plane in k.range(*self.planes):
            start = k.pointer("plane_taps").load(plane) * n("g_d")
            weight = k.pointer("plane_weights").load(plane)
            for row in k.range(first, last):
                source = self.g + (start + k.pointer("row_taps").load(row) * n("g_h"))
                factor = k.splat(weight * k.pointer("row_weights").load(row), lanes)
                for total, at in zip(totals, places, strict=True):
                    total.value = k.fma(source.load(at, lanes).to(self.spec.compute), factor, total.value)
        for total, at in zip(totals, places, strict=True):
            yield at, total.value

    def _sum_row(self, row: Pointer, first: Value, last: Value) -> None:
        for at, value in self._summed(first, last):
            row.store(value, at)

    # ---- regular columns ----------------------------------------------------------------------------------------

    def _into_gaps(self, first: Value, last: Value) -> None:
        k, spec = self.k, self.spec
        gaps, weights = self.gaps + k.number("left"), k.pointer("column_weights")
        if spec.step == 1 and spec.stride <= SHUFFLED:
            for at, value in self._summed(first, last):
                scaled = value * weights.load(at, value.lanes) if spec.scaled else value
                self._insert(gaps, at, scaled)
            return
        if spec.stride == 1 and not spec.scaled:
            self._sum_row(gaps, first, last)
            return
        self._sum_row(self.sums, first, last)
        for column in k.range(0, k.number("out_w")):
            source, place = self.sums + column * self.step, gaps + column * spec.stride * self.step
            for channel in spans(k, self.step, spec.out_lanes):
                value = source.load(channel, spec.out_lanes)
                place.store(value * weights.load(column) if spec.scaled else value, channel)

    def _insert(self, gaps: Pointer, at: Value, value: Value) -> None:
        """Store the lanes of a plain vector, `stride` apart, with zeros between."""
        k, stride, lanes = self.k, self.spec.stride, value.lanes
        if stride == 1 or lanes == 1:
            gaps.store(value, at * stride)
            return
        zero = k.constant(value.type, 0.0, lanes)
        for part in range(stride):
            places = range(part * lanes, (part + 1) * lanes)
            chosen = [place // stride if place % stride == 0 else lanes for place in places]
            gaps.store(k.shuffle(value, zero, chosen), at * stride + part * lanes)

    def _taps(self, at: Value) -> Value:
        """Add all taps of a vector of columns, in two chains."""
        k, spec = self.k, self.spec
        source = self.gaps + (k.number("left") + k.number("pad") * self.step)
        distance = self.step * spec.dilation
        if spec.width <= UNROLLED:
            taps = [source.load(at - distance * tap, spec.lanes) for tap in range(spec.width)]
            while len(taps) > 1:
                taps = [a + b for a, b in zip(taps[::2], taps[1::2], strict=False)] + taps[len(taps) & ~1 :]
            return taps[0]
        total = k.variable(k.constant(spec.compute, 0.0, spec.lanes))
        for tap in k.range(0, spec.width):
            total.value = total.value + source.load(at - distance * tap, spec.lanes)
        return total.value

    # ---- groups of columns --------------------------------------------------------------------------------------

    def _by_columns(self) -> None:
        k = self.k
        for group in k.range(0, k.number("column_groups")):
            begin, end, first, last = (k.pointer("columns").load(group * 4 + part) for part in range(4))
            if self.spec.step == 1:
                self._fill(begin, end, self._weighted(first, last, k.integer(0), 1))
                continue
            for channel in spans(k, self.step, self.spec.out_lanes):
                value = self._weighted(first, last, channel, self.spec.out_lanes)
                for column in k.range(begin, end):
                    self.spread.store(value, column * self.step + channel)

    def _weighted(self, first: Value, last: Value, channel: Value, lanes: int) -> Value:
        k = self.k
        total = k.variable(k.constant(self.spec.compute, 0.0, lanes))
        for tap in k.range(first, last):
            place = k.pointer("column_taps").load(tap) * self.step + channel
            weight = k.splat(k.pointer("column_weights").load(tap), lanes)
            total.value = k.fma(self.sums.load(place, lanes), weight, total.value)
        return total.value

    def _fill(self, begin: Value, end: Value, value: Value) -> None:
        """Store one value in a stretch. Groups come in order, so a vector may run over the end: the next group
        overwrites it."""
        lanes = self.spec.lanes
        wide = self.k.splat(value, lanes)
        for at in self.k.range(begin, end, lanes):
            self.spread.store(wide, at)

    # ---- rows of the gradient -----------------------------------------------------------------------------------

    def _spread(self, at: Value) -> Value:
        return self.spread.load(at, self.spec.lanes)

    def _row(self, row: Value, taken: Callable[[Value], Value]) -> None:
        k, spec = self.k, self.spec
        y, x = (pointer + row * k.number("y_h") for pointer in (self.y, self.x))
        for at in self._columns():
            value = taken(at)
            if spec.slope != PLAIN_SLOPE:
                value = sloped(k, spec, value, x.load(at, spec.lanes).to(spec.compute))
            y.store(value.to(y.element), at)

    def _columns(self) -> Iterator[Value]:
        return spans(self.k, self.size, self.spec.lanes, 2 if self.spec.slope == PLAIN_SLOPE else 1)


def sloped(k: Kernel, spec: PoolAverageBackward, total: Value, x: Value) -> Value:
    """Multiply the sums that reach an element by the slope; an element without influence gets 0, even of an infinite
    gradient."""
    zero = k.constant(total.type, 0.0, total.lanes)
    if spec.slope == BY_X:
        return k.select(x.equals(0.0), zero, total * x)
    if spec.slope == BY_SIGN:
        signed = k.select(x < 0.0, -total, total)
        return k.select(x.is_nan(), x, k.select(x.equals(0.0), zero, signed))
    base = x if spec.slope == ABOVE else k.absolute(x)
    raised = product(k, base, spec.twice) if spec.twice else power(k, base)
    if spec.slope == BY_POWER:
        return k.select(x.equals(0.0), zero, total * math.copy_sign(k, raised, x))
    floor = k.splat(k.number("floor").to(x.type), x.lanes)
    return k.select(x >= floor, total * raised, zero)


def power(k: Kernel, size: Value) -> Value:
    """Compute size^exponent for size >= 0, in float64 on the way, rounded to the type of size; NaN stays."""
    exponent = k.splat(k.number("exponent"), size.lanes)
    return real_power(k, size.to(F64), exponent).to(size.type)


__all__ = [
    "ABOVE",
    "BY_POWER",
    "BY_SIGN",
    "BY_X",
    "PLAIN_SLOPE",
    "PoolAverageBackward",
    "power",
    "sloped",
    "sum_type",
]
