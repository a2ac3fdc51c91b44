"""Common parts of all pooling kernels: reductions, the geometry of a call, and loops over rows that never leave the
row.

A pooling kernel sees three spatial axes (planes, rows, columns; missing ones have extent 1) and two ways to lie in
memory. *Plain*: columns are contiguous (`step` 1) and vectors hold neighbouring columns. *Channels innermost*
(blocked, or channels-last): `step` contiguous channels per column, and vectors hold channels. Along planes and rows
both are the same, because there a window combines whole rows of contiguous elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I32, I64, Emitter, Number, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.text import split_words
from cenote.core.types import is_float
from cenote.kernels.base import KernelSpec
from cenote.kernels.lanes import shift_lanes

MAXIMUM, MINIMUM, SUM = "max", "min", "sum"
ALIGNED = 16  # elements of 4 bytes in a cache line
SLACK = 64  # elements before each scratch row that loops running ahead of their row may touch


@cache
def compute_type(reduction: str, dtype: np.dtype[Any], accumulate: str | None = None) -> Scalar:
    """Return the type that windows are combined in: float32 for 16-bit floats, int32 or int64 for sums of integers;
    float64 for sums of floats where `accumulate` asks for it."""
    storage = Scalar.of(dtype)
    if storage.is_float:
        if reduction == SUM and accumulate == "float64":
            return F64
        return F32 if storage.bits < 32 else storage
    if reduction == SUM:
        return I32 if storage.bits < 16 else I64  # 8-bit sums fit for windows of up to 16 million elements
    return storage


def identity(reduction: str, dtype: np.dtype[Any]) -> Number:
    """Return the neutral value of a missing element: 0 for sums, the type's smallest (largest) value for maxima
    (minima)."""
    if reduction == SUM:
        return 0
    if is_float(dtype):
        return float("-inf") if reduction == MAXIMUM else float("inf")
    information = np.iinfo(np.uint8 if dtype == np.bool_ else dtype)
    return int(information.min if reduction == MAXIMUM else information.max)


def combine(k: Emitter, reduction: str, a: Value, b: Value, exact: bool = True) -> Value:
    """Emit one step of the reduction. `exact` maxima propagate NaN; the others take one instruction and may drop it."""
    if reduction == SUM:
        return a + b
    if exact or not a.type.is_float:
        return k.maximum(a, b) if reduction == MAXIMUM else k.minimum(a, b)
    return k.max_drop_nan(a, b) if reduction == MAXIMUM else k.min_drop_nan(a, b)


def combine_all(k: Kernel, reduction: str, values: Sequence[Value], exact: bool = True) -> Value:
    """Combine many values into one, pairwise: the shortest chain, and for sums the smallest error."""
    parts = list(values)
    while len(parts) > 1:
        pairs = [combine(k, reduction, a, b, exact) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def spans(k: Kernel, length: Value, lanes: int, unroll: int = 1) -> Iterator[Value]:
    """Yield starts of vectors that cover `length` elements (at least `lanes` of them).

    The last vector reaches back over elements already done instead of past the end: no scalar tail, no mask. So the
    body must give the same result when an element is done twice.
    """
    begin: Value = k.integer(0)
    if length.constant == lanes:
        yield begin
        return
    if lanes == 1:
        unroll = 1
    if unroll > 1:
        begin = length & ~(lanes * unroll - 1)
        for start in k.range(0, begin, lanes * unroll):
            for part in range(unroll):
                yield start + part * lanes
    last = length - lanes
    for start in k.range(begin, length, lanes):
        yield start if lanes == 1 else k.minimum(start, last)


@dataclass(frozen=True)
class PoolSpec(KernelSpec):
    """Fields on which every kernel of windows is specialised.

    `width`, `stride` and `dilation` are those of the columns; `lanes` vectors along a row of the input, `out_lanes`
    along a row of the output (powers of two that fit the rows). `step`: 1 plain, n channels innermost with n of them
    per column, 0 channels innermost with their number known at run time. `scale` multiplies the result: "none", "row"
    (one factor per output row) or "both" (that times one per column); `divides`: divide by it instead. `nan` is
    "propagate" or "ignore". `norm` 1 takes absolute values first, 2 squares; the square root of sums of squares is
    the result. `deep`: there are planes. `past_caches`: the tensors do not stay in the caches, so inputs are
    prefetched and results are written past the caches. `rounding` of means of integers, whose scales are divisors:
    "zero", "even" or "away" (from ties). `accumulate` "float64": sums of floats are taken in float64; "compensated":
    in their own type, with what each addition loses kept beside (only `compensated` has this).
    """

    reduction: str
    dtype: np.dtype[Any]
    width: int
    stride: int
    dilation: int
    lanes: int
    out_lanes: int
    step: int
    scale: str
    divides: bool
    nan: str
    norm: int
    deep: bool
    past_caches: bool
    rounding: str
    accumulate: str | None

    @property
    def storage(self) -> Scalar:
        return Scalar.of(self.dtype)

    @property
    def compute(self) -> Scalar:
        return compute_type(self.reduction, self.dtype, self.accumulate)

    @property
    def identity(self) -> Number:
        return 0 if self.norm and self.reduction == MAXIMUM else identity(self.reduction, self.dtype)

    @property
    def is_guarded(self) -> bool:
        """Whether a quick pass looks for NaN, and an exact one follows where there was any (`NanGuard`)."""
        return self.compute.is_float and self.reduction != SUM and self.nan == "propagate"

    @property
    def words(self) -> tuple[Parameter, ...]:
        """The words of a call, by name and in order."""
        pointers = (
            Parameter("x", self.storage, pointer=True),
            Parameter("y", self.storage, pointer=True),
            Parameter("row_scale", self.compute, pointer=True),
            Parameter("column_scale", self.compute, pointer=True),
        )
        return (*pointers, *WORD_PARAMETERS, *self.more_words)

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        """Words beside those of all kernels of windows."""
        return ()


WORDS = split_words(
    "channels x_n x_c x_d x_h y_n y_c y_d y_h step",
    "window_d window_h size_d size_h size_w out_d out_h out_w",
    "stride_d stride_h dilation_d dilation_h pad_d pad_h pad_w",
    "band bands strip strips pitch group row_pitch",
)
WORD_PARAMETERS = tuple(Parameter(word) for word in WORDS)
INDEX_PARAMETERS = (
    Parameter("indices", I64, pointer=True),
    # index = plane * i_d + row * i_h + column * i_w, plus batch * i_n + channel * i_c. Indices lie by strides of their
    # own, j: values that a convolution reads have a halo, their indices none.
    *(Parameter(f"i_{axis}") for axis in "dhwnc"),
    *(Parameter(f"j_{axis}") for axis in "ncdh"),
    Parameter("window_w"),
)


def taps_inside(k: Kernel, first: Value, axis: str) -> tuple[Value, Value]:
    """Return the half-open range of taps that fall on the input, of a window that starts at `first` ("d" or "h"
    axis)."""
    n = k.number
    distance = n(f"dilation_{axis}")
    low = k.maximum((distance - 1) - first, k.integer(0)) // distance
    high = k.maximum(n(f"size_{axis}") - first + (distance - 1), k.integer(0)) // distance
    return low, k.minimum(high, n(f"window_{axis}"))


def load(spec: PoolSpec, pointer: Pointer, offset: Value | int, lanes: int) -> Value:
    """Load input elements in the type that windows are combined in; with nan="ignore" NaN becomes the identity."""
    value = pointer.load(offset, lanes).to(spec.compute)
    if spec.norm:
        value = value.kernel.absolute(value) if spec.norm == 1 else value * value
    if spec.nan == "ignore" and value.type.is_float and spec.reduction != SUM:
        k = value.kernel
        return combine(k, spec.reduction, value, k.constant(spec.compute, spec.identity, lanes), exact=False)
    return value


def load_column(
    k: Kernel, spec: PoolSpec, row: Pointer, place: tuple[Value, int], beyond: tuple[int, int], lanes: int
) -> Value:
    """Load one column of all windows of a vector, `place` being where it begins in the row; its first or last lanes may
    lie `beyond` either end of the row: those are repeated from within, or zeros in a sum."""
    (at, offset), (under, over), repeat = place, beyond, spec.reduction != SUM
    if under > 0:
        return shift_lanes(k, load(spec, row, 0, lanes), -under, repeat=repeat)
    if over > 0:
        return shift_lanes(k, load(spec, row, k.number("size_w") - lanes, lanes), over, repeat=repeat)
    return load(spec, row, at + offset, lanes)


class NanGuard:
    """Detector of NaN among the values seen, so that a first, quick pass need not propagate it.

    The values are added up, lane by lane: one instruction each, and the sum is NaN if any of them is. (Infinities of
    both signs make it NaN as well; then the exact pass runs for nothing.)
    """

    def __init__(self, k: Kernel, spec: PoolSpec) -> None:
        self.k, self.spec = k, spec
        self.needed = spec.compute.is_float and spec.reduction != SUM and spec.nan == "propagate"
        # From 1 on, sums of tiny products stay normal numbers, which are quick.
        one = k.constant(spec.compute, 1, spec.lanes)
        self.sums = [k.variable(one) for _ in range(2)] if self.needed else []

    def see(self, values: Sequence[Value]) -> None:
        """Add vectors of the input to the sums."""
        if self.needed:
            together = combine_all(self.k, SUM, values)
            self.sums[0].value = self.sums[0].value + together
            self.sums.reverse()  # two chains, so that the additions need not wait for each other

    def see_products(self, values: Sequence[Value]) -> None:
        """Add products of vectors of the input to the sums, with half the instructions: a NaN among them makes a
        product NaN. So does an infinity times zero: do not use this for values that stand for padding."""
        if self.needed:
            for a, b in zip(values[::2], values[1::2], strict=False):
                self.sums[0].value = self.k.fma(a, b, self.sums[0].value)
                self.sums.reverse()
            if len(values) % 2:
                self.sums[0].value = self.sums[0].value + values[-1]
                self.sums.reverse()

    def seen(self) -> Value:
        """Whether there may have been a NaN."""
        return self.k.reduce(self.sums[0].value + self.sums[1].value, "add").is_nan()


def choose(k: Kernel, condition: Value, a: Pointer, b: Pointer) -> Pointer:
    """Select one of two addresses."""
    text = f"select i1 {condition.text}, ptr {a.text}, ptr {b.text}"
    return Pointer(k, a.element, k.assign(text, I64, 1).text)


def fill_blank(k: Kernel, spec: PoolSpec) -> None:
    """Fill scratch row 0 with identities, in the input's type, to be read in place of rows outside the input."""
    blank = k.scratch.cast(spec.storage)
    for at in k.range(0, k.number("pitch"), spec.lanes):
        blank.store(k.constant(spec.storage, spec.identity, spec.lanes), at)


class Strip:
    """One item of work: a strip of columns of a band of output rows of one plane, decoded from its number."""

    def __init__(self, k: Kernel, spec: PoolSpec, item: Value) -> None:
        n = k.number
        self.k, self.spec = k, spec
        self.step: Value = k.integer(spec.step) if spec.step else n("step")
        band, item = item % n("bands"), item // n("bands")
        strip, item = item % n("strips"), item // n("strips")
        self.depth: Value = k.integer(0)
        if spec.deep:
            self.depth, item = item % n("out_d"), item // n("out_d")
        batch, channel = item // n("channels"), item % n("channels")
        self.x = k.pointer("x") + (batch * n("x_n") + channel * n("x_c"))
        self.batch, self.channel = batch, channel
        self.row_scale = k.pointer("row_scale") + self.depth * n("out_h")
        self.first_row = band * n("band")
        self.last_row = k.minimum(self.first_row + n("band"), n("out_h"))
        self.band = band
        self.column = strip * n("strip")
        self.count = k.minimum(self.column + n("strip"), n("out_w")) - self.column
        start = self.column * spec.stride - n("pad_w")
        stop = start + (self.count - 1) * spec.stride + ((spec.width - 1) * spec.dilation + 1)
        self.origin = start  # column of the first tap of the first output: negative in the padding
        self.start = k.maximum(start, k.integer(0))
        end = k.minimum(stop, n("size_w"))
        self.left, self.right = (self.start - start) * self.step, (stop - end) * self.step
        self.length = (end - self.start) * self.step
        self.y_offset = (
            batch * n("y_n") + channel * n("y_c") + (self.depth * n("y_d") + self.column * self.step)
        )
        self.y = k.pointer("y") + self.y_offset
        self.x = self.x + self.start * self.step

    def take_all_columns(self) -> None:
        """Take rows whole, without edges, for windows that need not follow from width and stride."""
        self.length = self.k.number("size_w") * self.step
        self.left = self.right = self.k.integer(0)

    def row(self, index: int | Value) -> Pointer:
        """Address of a scratch row: 0 holds the identity, 1 the combined rows of a window, the others are the
        kernel's."""
        return self.k.scratch.cast(self.spec.compute) + (self.k.number("pitch") * index + SLACK)

    def edged_row(self, index: int | Value) -> Pointer:
        """Address of a scratch row that starts with the left edge, placed so that the columns behind the edge are
        aligned: vectors stored there straddle no cache lines."""
        return self.row(index) + ((0 - self.left) & (ALIGNED - 1))

    def fill(self, pointer: Pointer, count: Value) -> None:
        """Store identities from the pointer on; runs over by up to a vector."""
        k, spec = self.k, self.spec
        for at in k.range(0, count, spec.lanes):
            pointer.store(k.constant(spec.compute, spec.identity, spec.lanes), at)

    def fill_edges(self, row: Pointer) -> None:
        """Store identities where the columns of the row lie outside the input."""
        self.fill(row, self.left)
        self.fill(row + (self.left + self.length), self.right)

    def store(
        self,
        value: Value,
        row: Pointer,
        offset: Value,
        factor: Value | None,
        column: Value,
        past_caches: bool = False,
    ) -> None:
        """Scale, round to the output's type and write (`past_caches`: to an aligned place)."""
        k, spec = self.k, self.spec
        if factor is not None:
            if spec.scale == "both":
                columns = k.pointer("column_scale") + self.column
                lanes = value.lanes if spec.step == 1 else 1
                factor = columns.load(column, lanes) * factor
            if not value.type.is_float:
                value = self.divided(value, factor)
            else:
                value = value / factor if spec.divides else value * factor
        if spec.norm == 2 and spec.reduction == SUM:
            value = k.square_root(value)
        value = value.to(spec.storage)
        if past_caches:
            k.store_nontemporal(value, row + offset)
        else:
            row.store(value, offset)

    def divided(self, total: Value, divisor: Value) -> Value:
        """Divide whole numbers and round them by the rule, within the output's type."""
        k, spec = self.k, self.spec
        divisor = k.splat(divisor, total.lanes)
        quotient = total // divisor
        rest = k.absolute(total - quotient * divisor)
        beyond = rest - (divisor - rest)  # sign of rest / divisor - 1/2
        if spec.rounding != "zero":
            tie = (quotient & 1).differs(0) if spec.rounding == "even" else rest.differs(0)
            up = (beyond > 0) | (beyond.equals(0) & tie)
            away = k.select(
                total < 0, k.constant(total.type, -1, total.lanes), k.constant(total.type, 1, total.lanes)
            )
            quotient = k.select(up, quotient + away, quotient)
        if spec.storage.bits < total.type.bits:
            limits = np.iinfo(spec.dtype)
            for limit, bound in ((limits.max, "smin"), (limits.min, "smax")):
                quotient = k.intrinsic(bound, quotient, k.constant(total.type, int(limit), total.lanes))
        return quotient

    def factor(self, row: Value) -> Value | None:
        """Factor of an output row, if results are scaled."""
        return None if self.spec.scale == "none" else self.row_scale.load(row)
