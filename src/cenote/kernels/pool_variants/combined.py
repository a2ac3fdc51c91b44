"""Pools that look at all elements of a window together: medians, and means weighted by exp(x) (SoftPool).

    for item in begin .. end:                         a band of output rows: of a plane, or of an image (channels last)
        for input row of the band:                    scratch = x, with padding around it
        for row of the band, vectors of outputs:
            taps = scratch at each place of the window    strided columns are shuffled together
            median:  the middle of a sorting network; windows that reach over the edge, the middle of those elements
            soft:    top = max(taps);  y = top + sum(exp(tap - top) (tap - top)) / sum(exp(tap - top))

Lanes hold neighbouring outputs of a row, or channels where they are innermost: every lane is a window of its own, and
no result depends on how the work is split. The network is Batcher's odd-even merge sort (K. Batcher, Sorting networks
and their applications, 1968), of which LLVM drops what the middle does not need; for 3x3 the columns are sorted first
(the median of the largest minimum, the middle median and the smallest maximum).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BOOL, F64, I32, Pointer, Scalar, Value
from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.kernels.base import Call, KernelSpec, View
from cenote.kernels.lanes import deinterleave
from cenote.kernels.plane_items import channels_of, planes_of
from cenote.kernels.pool.common import MAXIMUM, SUM, combine_all, compute_type, spans
from cenote.kernels.pool.problem import fitting

MEDIAN, SOFT = "median", "soft"
MOST_TAPS = 49  # of a median, whose network is unrolled: 7x7
MOST_COLUMNS = 32  # of a soft window, whose rows are unrolled
WHOLE = 16  # taps of a soft window that is unrolled altogether
BAND = 1 << 17  # bytes of a band in scratch, about
SCRATCH = 1 << 23  # bytes at most; windows of more are left to the reference
WORK = 1 << 14  # taps of an item's outputs, about

NUMBERS = (
    "units", "bands", "band", "out_h", "out_w", "height", "size_w", "step", "row_stride", "row_step", "column_stride",
    "begin_h", "begin_w", "length", "whole_from", "whole_to", "x_n", "x_c", "x_h", "y_n", "y_c", "y_h",
)  # fmt: skip


@dataclass(frozen=True)
class PoolCombined(KernelSpec):
    """`window` is (rows, columns), `dilation` and `stride` those of the columns (0 channels innermost: a number of the
    call). `ragged`: some windows reach over an edge, which medians count. `lanes` along a row of the output, or of the
    channels; `copy_lanes` along a row of the input.
    """

    kind: str
    dtype: np.dtype[Any]
    window: tuple[int, int]
    stride: int
    dilation: int
    ragged: bool
    lanes: int
    copy_lanes: int

    @property
    def compute(self) -> Scalar:
        return compute_type(SUM, self.dtype)

    @property
    def outside(self) -> float:
        """What padding holds: sorted last, or without weight."""
        return float("inf") if self.kind == MEDIAN else float("-inf")

    def emit(self, target: Target) -> Kernel:
        storage = Scalar.of(self.dtype)
        pointers = [Parameter(name, storage, pointer=True) for name in ("y", "x")]
        pointers += [Parameter(name, I32, pointer=True) for name in ("row_counts", "column_counts")]
        k = Kernel(self.symbol, target, [*pointers, *(Parameter(name) for name in NUMBERS)])
        n = k.number
        for item in k.range(k.begin, k.end):
            band, rest = item % n("bands"), item // n("bands")
            piece = _Band(k, self, rest // n("units"), rest % n("units"), band * n("band"))
            piece.copy()
            piece.combine()
        return k


class _Band:
    """One item: output rows from `first` on."""

    def __init__(self, k: Kernel, spec: PoolCombined, image: Value, unit: Value, first: Value) -> None:
        n = k.number
        self.k, self.spec, self.first = k, spec, first
        self.step = n("step") if not spec.stride else k.integer(1)
        self.last = k.minimum(first + n("band"), n("out_h"))
        self.x = k.pointer("x") + (image * n("x_n") + unit * n("x_c"))
        self.y = k.pointer("y") + (image * n("y_n") + unit * n("y_c"))
        self.plane = k.scratch.cast(spec.compute)

    # ---- input ----------------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """The rows that the band's windows reach, padded."""
        k, n, spec = self.k, self.k.number, self.spec
        rows = (self.last - self.first - 1) * n("row_stride") + (spec.window[0] - 1) * n("row_step") + 1
        top = self.first * n("row_stride") - n("begin_h")
        width, left = n("size_w") * self.step, n("begin_w") * self.step
        for row in k.range(0, rows):
            to, at = self.plane + row * n("length"), top + row
            inside = (at >= 0) & (at < n("height"))
            with k.when(inside):
                source = self.x + at * n("x_h")
                self._fill(to, k.integer(0), left)
                for column in spans(k, width, spec.copy_lanes):
                    value = source.load(column, spec.copy_lanes).to(spec.compute)
                    (to + left).store(value, column)
                self._fill(to, left + width, n("length"))
            with k.unless(inside):
                self._fill(to, k.integer(0), n("length"))

    def _fill(self, row: Pointer, begin: Value, end: Value) -> None:
        """A vector may run over the end: what follows is written later."""
        k, spec = self.k, self.spec
        for at in k.range(begin, end, spec.copy_lanes):
            row.store(k.constant(spec.compute, spec.outside, spec.copy_lanes), at)

    # ---- windows --------------------------------------------------------------------------------------------------

    def combine(self) -> None:
        k, n, spec = self.k, self.k.number, self.spec
        for row in k.range(self.first, self.last):
            source = self.plane + (row - self.first) * n("row_stride") * n("length")
            result = self.y + row * n("y_h")
            if spec.kind == SOFT:
                self._each(source, result, k.integer(0), n("out_w"), n("out_w"), self._soft)
                continue
            if not spec.ragged:
                self._each(source, result, k.integer(0), n("out_w"), n("out_w"), self._median)
                continue
            count = k.pointer("row_counts").load(row)
            full = count.equals(spec.window[0])
            begin = k.select(full, n("whole_from"), n("out_w"))
            end = k.select(full, n("whole_to"), n("out_w"))

            def partial(source: Pointer, column: Value, channel: Value, count: Value = count) -> Value:
                return self._partial(source, column, channel, count)

            for side in k.range(0, 2):
                first = side.equals(0)
                start = k.select(first, k.integer(0), end)
                stop = k.select(first, begin, n("out_w"))
                self._each(source, result, start, stop, n("out_w"), partial)
            self._each(source, result, begin, end, end, self._median)

    def _each(
        self, source: Pointer, result: Pointer, begin: Value, end: Value, limit: Value,
        made: Callable[[Pointer, Value, Value], Value],
    ) -> None:  # fmt: skip
        """Outputs begin .. end of a row; vectors reach up to `limit`, and back from there."""
        for column, channel in self._places(begin, end, limit):
            place = column if self.spec.stride else column * self.step + channel
            result.store(made(source, column, channel).to(result.element), place)

    def _places(self, begin: Value, end: Value, limit: Value) -> Iterator[tuple[Value, Value]]:
        k, lanes = self.k, self.spec.lanes
        if self.spec.stride:
            for at in k.range(begin, end, lanes):
                yield (at if lanes == 1 else k.minimum(at, limit - lanes)), k.integer(0)
            return
        for column in k.range(begin, end):
            for channel in spans(k, self.step, lanes):
                yield column, channel

    def _tap(self, source: Pointer, row: Value | int, tap: int, column: Value, channel: Value) -> Value:
        """The elements at one place of the window, of every lane's window."""
        k, spec = self.k, self.spec
        offset = row if isinstance(row, Value) else k.integer(row)
        line = source + offset * k.number("row_step") * k.number("length")
        if not spec.stride:
            at = (column * k.number("column_stride") + tap * spec.dilation) * self.step + channel
            return line.load(at, spec.lanes)
        return strided(k, line + (column * spec.stride + tap * spec.dilation), spec.stride, spec.lanes)

    def _taps(self, source: Pointer, column: Value, channel: Value) -> list[Value]:
        rows, columns = self.spec.window
        return [self._tap(source, r, c, column, channel) for r in range(rows) for c in range(columns)]

    # ---- medians --------------------------------------------------------------------------------------------------

    def _median(self, source: Pointer, column: Value, channel: Value) -> Value:
        k, taps = self.k, self._taps(source, column, channel)
        hole, count = any_nan(k, taps), len(taps)
        if self.spec.window == (3, 3):
            low = high = median_of_nine(k, taps)
        else:
            ordered = sorted_lanes(k, taps)
            low, high = ordered[(count - 1) // 2], ordered[count // 2]
        return self._middle(low, high, hole)

    def _partial(self, source: Pointer, column: Value, channel: Value, rows: Value) -> Value:
        """Of the first `count` elements in order, which differ from lane to lane."""
        k, lanes = self.k, self.spec.lanes
        taps = self._taps(source, column, channel)
        counts = k.pointer("column_counts").load(column, lanes if self.spec.stride else 1)
        total = k.splat(counts, lanes) * k.splat(rows, lanes)
        ordered = sorted_lanes(k, taps)
        low, high = ordered[0], ordered[0]
        for rank in range(1, len(taps) // 2 + 1):
            low = k.select((total - 1 >> 1) >= rank, ordered[rank], low)
            high = k.select((total >> 1) >= rank, ordered[rank], high)
        return self._middle(low, high, any_nan(k, taps))

    def _middle(self, low: Value, high: Value, hole: Value) -> Value:
        """The mean of both, in float64, where no sum of float32 overflows; a NaN in the window stays."""
        k = self.k
        value = low
        if low is not high:
            wide = low.to(F64) * 0.5 + high.to(F64) * 0.5
            value = k.select(low.equals(high), low, wide.to(low.type))
        return k.select(hole, k.constant(low.type, float("nan"), low.lanes), value)

    # ---- means weighted by exp(x) -----------------------------------------------------------------------------------

    def _soft(self, source: Pointer, column: Value, channel: Value) -> Value:
        """A NaN has the weight NaN; equal infinities share the weight; -inf has none beside larger elements. Sums of
        distances to the largest element stay small where sums of elements would overflow."""
        k, (rows, columns) = self.k, self.spec.window
        if rows * columns <= WHOLE:
            taps = self._taps(source, column, channel)
            largest = combine_all(k, MAXIMUM, taps, exact=False)
            total, weights = self._weighed(taps, largest)
            return largest + total / weights
        lowest = k.constant(self.spec.compute, float("-inf"), self.spec.lanes)
        zero = k.constant(self.spec.compute, 0.0, self.spec.lanes)
        top, sums, weights_sum = k.variable(lowest), k.variable(zero), k.variable(zero)
        for row in k.range(0, rows):
            taps = [self._tap(source, row, c, column, channel) for c in range(columns)]
            top.value = combine_all(k, MAXIMUM, [*taps, top.value], exact=False)
        for row in k.range(0, rows):
            taps = [self._tap(source, row, c, column, channel) for c in range(columns)]
            total, weights = self._weighed(taps, top.value)
            sums.value, weights_sum.value = sums.value + total, weights_sum.value + weights
        return top.value + sums.value / weights_sum.value

    def _weighed(self, taps: Sequence[Value], top: Value) -> tuple[Value, Value]:
        k = self.k
        zero = k.constant(top.type, 0.0, top.lanes)
        parts, weights = [], []
        for tap in taps:
            below = k.select(tap.equals(top), zero, tap - top)
            weight = math.exp(k, below)
            weights.append(weight)
            parts.append(k.select(weight.equals(0.0), zero, weight * below))
        return combine_all(k, SUM, parts), combine_all(k, SUM, weights)


def strided(k: Kernel, source: Pointer, stride: int, lanes: int) -> Value:
    """`lanes` elements, `stride` apart; reads up to lanes * stride elements."""
    if stride == 1 or lanes == 1:
        return source.load(0, lanes)
    vectors = [source.load(part * lanes, lanes) for part in range(stride)]
    if stride & (stride - 1) == 0 and stride <= lanes:
        return deinterleave(k, vectors)
    wanted = [(lane * stride) // lanes for lane in range(lanes)]
    result = vectors[0]
    for part, vector in enumerate(vectors):
        chosen = [lanes + (lane * stride) % lanes if wanted[lane] == part else lane for lane in range(lanes)]
        result = k.shuffle(result, vector, chosen)
    return result


def any_nan(k: Kernel, values: Sequence[Value]) -> Value:
    """Lanes in which some value is NaN; one comparison looks at two."""
    pairs = [(a, b) for a, b in zip(values[::2], [*values[1::2], values[-1]], strict=False)]
    found = [k.assign(f"fcmp uno {a.ir} {a.text}, {b.text}", BOOL, a.lanes) for a, b in pairs]
    return reduce(lambda a, b: a | b, found)


def comparators(count: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort of `count` values: pairs (low, high) to put in order."""
    pairs = []
    width = 1
    while width < count:
        gap = width
        while gap:
            for start in range(gap % width, count - gap, 2 * gap):
                for low in range(start, min(start + gap, count - gap)):
                    if low // (2 * width) == (low + gap) // (2 * width):
                        pairs.append((low, low + gap))
            gap //= 2
        width *= 2
    return pairs


def sorted_lanes(k: Kernel, values: Sequence[Value]) -> list[Value]:
    """The values in ascending order, lane by lane (of anything if one is NaN)."""
    ordered = list(values)
    for low, high in comparators(len(ordered)):
        a, b = ordered[low], ordered[high]
        ordered[low], ordered[high] = k.smaller(a, b), k.larger(a, b)
    return ordered


def median_of_nine(k: Kernel, taps: Sequence[Value]) -> Value:
    """Of the sorted columns: the median of the largest low, the middle of the middles and the smallest high."""
    columns = [sorted_lanes(k, taps[column::3]) for column in range(3)]
    lows, middles, highs = ([column[rank] for column in columns] for rank in range(3))
    low, high = reduce(k.larger, lows), reduce(k.smaller, highs)
    return sorted_lanes(k, [low, sorted_lanes(k, middles)[1], high])[1]


def combined_call(
    kind: str, axes: Sequence[AxisWindow], x: View, y: View, target: Target, *, channels_last: bool
) -> Call:
    """The launch for plain or channels-last views of one or two spatial axes that `band_rows` allows."""
    rows, columns = (AxisWindow(1, 1, out=1), *axes)[-2:]
    source, to = planes_of(x, channels_last), planes_of(y, channels_last)
    channels = channels_of(x, channels_last)
    step = channels if channels_last else 1
    compute = compute_type(SUM, x.type.dtype)
    widest = min(target.lanes(x.type.dtype), target.vector_bytes // compute.nbytes)
    lanes = fitting(widest, step if channels_last else columns.out)
    row_counts, column_counts = (
        np.array([axis.count(o) for o in range(axis.out)], np.int32) for axis in (rows, columns)
    )
    whole = np.flatnonzero(column_counts == columns.window)
    from_, stop = (int(whole[0]), int(whole[-1]) + 1) if whole.size else (columns.out, columns.out)
    if not channels_last and stop - from_ < lanes:
        from_ = stop = columns.out
    ragged = bool((row_counts < rows.window).any() or (column_counts < columns.window).any())
    spec = PoolCombined(
        kind, x.type.dtype, (rows.window, columns.window), 0 if channels_last else columns.stride, columns.dilation,
        ragged and kind == MEDIAN, lanes, fitting(widest, columns.size * step),
    )  # fmt: skip
    length = row_length(columns, step)
    band = band_rows(rows, columns, step, compute.nbytes)
    bands = -(-rows.out // band)
    units = 1 if channels_last else channels
    unit_strides = [(0 if channels_last else planes.strides[1]) for planes in (source, to)]
    numbers = (
        units, bands, band, rows.out, columns.out, rows.size, columns.size, step, rows.stride, rows.dilation,
        columns.stride, rows.begin, columns.begin, length, from_, stop, source.strides[0], unit_strides[0],
        source.strides[3], to.strides[0], unit_strides[1], to.strides[3],
    )  # fmt: skip
    work = band * columns.out * step * rows.window * columns.window
    return Call(
        spec, (y, x, row_counts, column_counts, *numbers), x.shape[0] * units * bands,
        grain=max(1, WORK // work), scratch=band_bytes(rows, length, band, compute.nbytes),
    )  # fmt: skip


def row_length(columns: AxisWindow, step: int) -> int:
    """Elements of a row in scratch: all that vectors of windows may read."""
    return max(columns.begin + columns.size, columns.out * columns.stride + columns.reach) * step


def band_bytes(rows: AxisWindow, length: int, band: int, nbytes: int) -> int:
    """Scratch memory of a band."""
    return ((band - 1) * rows.stride + rows.reach) * length * nbytes + 256


def band_rows(rows: AxisWindow, columns: AxisWindow, step: int, nbytes: int) -> int:
    """Output rows of an item; 0: even one would take too much scratch."""
    length = row_length(columns, step)
    if band_bytes(rows, length, 1, nbytes) > SCRATCH:
        return 0
    more = (BAND - band_bytes(rows, length, 1, nbytes)) // (rows.stride * length * nbytes)
    return max(1, min(rows.out, 1 + more))
