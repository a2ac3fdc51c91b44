"""Common part of pools that take all elements of a window together: medians, and means weighted by exp(x).

    for item in begin .. end:                         a band of output rows: of a plane, or of an image (channels last)
        for input row of the band:                    scratch = x, with padding around it
        for row of the band, vectors of outputs:
            taps = scratch at each place of the window    strided columns are shuffled together
            y = the pool's function of the taps

Lanes hold neighbouring outputs of a row, or channels where they are innermost: every lane is a window of its own, and
no result depends on how the work is split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, Pointer, Scalar, Value
from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import AxisWindow, window_count_table
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.lanes import strided
from cenote.kernels.plane_items import channels_of, planes_of
from cenote.kernels.pool.common import SUM, compute_type, spans
from cenote.kernels.row_lanes import fitting

MOST_COLUMNS = 32  # of windows whose rows are unrolled
BAND = 1 << 17  # approximate bytes of a band in scratch
SCRATCH = 1 << 23  # most bytes of scratch; larger windows are left to the reference
WORK = 1 << 14  # approximate number of taps of an item's outputs

WORDS = split_words(
    "units bands band out_h out_w height size_w step row_stride row_step column_stride",
    "begin_h begin_w length whole_from whole_to x_n x_c x_h y_n y_c y_h",
)


@dataclass(frozen=True)
class WholeWindowSpec(KernelSpec):
    """Fields of kernels of whole windows. `window` is (rows, columns), `dilation` and `stride` those of the columns
    (0 channels innermost: a number of the call). `ragged`: some windows reach over an edge. `lanes` along a row of
    the output, or of the channels; `copy_lanes` along a row of the input.
    """

    dtype: np.dtype[Any]
    window: tuple[int, int]
    stride: int
    dilation: int
    ragged: bool
    lanes: int
    copy_lanes: int

    outside: ClassVar[float]
    """Value of the padding."""

    @property
    def compute(self) -> Scalar:
        return compute_type(SUM, self.dtype)

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x")
        return (*pointers, *pointers_to(I32, "row_counts", "column_counts"), *numbers_named(WORDS))

    def band(self, k: Kernel, image: Value, unit: Value, first: Value) -> WindowBand:
        """Return the emitter of one item of work."""
        raise NotImplementedError(f"{type(self).__name__}.band")

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            band, rest = item % n("bands"), item // n("bands")
            work = self.band(k, rest // n("units"), rest % n("units"), band * n("band"))
            work.copy()
            work.combine()
        return k


class WindowBand:
    """Emitter of one item: output rows from `first` on."""

    def __init__(self, k: Kernel, spec: WholeWindowSpec, image: Value, unit: Value, first: Value) -> None:
        n = k.number
        self.k, self.spec, self.first = k, spec, first
        self.step = n("step") if not spec.stride else k.integer(1)
        self.last = k.minimum(first + n("band"), n("out_h"))
        self.x = k.pointer("x") + (image * n("x_n") + unit * n("x_c"))
        self.y = k.pointer("y") + (image * n("y_n") + unit * n("y_c"))
        self.plane = k.scratch.cast(spec.compute)

    # ---- input ----------------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """Copy the rows that the band's windows reach, padded."""
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
        """Fill a stretch with the value of the padding. A vector may run over the end: what follows is
        written later."""
        k, spec = self.k, self.spec
        for at in k.range(begin, end, spec.copy_lanes):
            row.store(k.constant(spec.compute, spec.outside, spec.copy_lanes), at)

    # ---- windows --------------------------------------------------------------------------------------------------

    def combine(self) -> None:
        """Compute all rows of the band."""
        k, n = self.k, self.k.number
        for row in k.range(self.first, self.last):
            source = self.plane + (row - self.first) * n("row_stride") * n("length")
            self.row(row, source, self.y + row * n("y_h"))

    def row(self, row: Value, source: Pointer, result: Pointer) -> None:
        """Compute one row of outputs, whose windows' first row is `source`."""
        raise NotImplementedError(f"{type(self).__name__}.row")

    def each(
        self,
        source: Pointer,
        result: Pointer,
        begin: Value,
        end: Value,
        limit: Value,
        made: Callable[[Pointer, Value, Value], Value],
    ) -> None:
        """Compute outputs begin .. end of a row; vectors reach up to `limit`, and back from there."""
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

    def tap(self, source: Pointer, row: Value | int, tap: int, column: Value, channel: Value) -> Value:
        """Load the elements at one place of the window, of every lane's window."""
        k, spec = self.k, self.spec
        offset = row if isinstance(row, Value) else k.integer(row)
        line = source + offset * k.number("row_step") * k.number("length")
        if not spec.stride:
            at = (column * k.number("column_stride") + tap * spec.dilation) * self.step + channel
            return line.load(at, spec.lanes)
        return strided(k, line + (column * spec.stride + tap * spec.dilation), spec.stride, spec.lanes)

    def taps(self, source: Pointer, column: Value, channel: Value) -> list[Value]:
        rows, columns = self.spec.window
        return [self.tap(source, r, c, column, channel) for r in range(rows) for c in range(columns)]


def window_call(
    kind: type[WholeWindowSpec],
    axes: Sequence[AxisWindow],
    x: View,
    y: View,
    target: Target,
    *,
    channels_last: bool,
) -> Call:
    """Return the launch for plain or channels-last views of one or two spatial axes that `band_rows` allows."""
    rows, columns = (AxisWindow(1, 1, out=1), *axes)[-2:]
    source, to = planes_of(x, channels_last), planes_of(y, channels_last)
    channels = channels_of(x, channels_last)
    step, units = (channels, 1) if channels_last else (1, channels)
    compute = compute_type(SUM, x.type.dtype)
    widest = min(target.lanes(x.type.dtype), target.vector_bytes // compute.nbytes)
    lanes = fitting(widest, step if channels_last else columns.out)
    row_counts, column_counts = (count_table(axis) for axis in (rows, columns))
    whole_from, whole_to = whole_windows(columns)
    if not channels_last and whole_to - whole_from < lanes:
        whole_from = whole_to = columns.out
    spec = kind(
        x.type.dtype,
        (rows.window, columns.window),
        0 if channels_last else columns.stride,
        columns.dilation,
        is_partial(rows) or is_partial(columns),
        lanes,
        fitting(widest, columns.size * step),
    )
    length = row_length(columns, step)
    band = band_rows(rows, columns, step, compute.nbytes)
    bands = -(-rows.out // band)
    channel = [0 if channels_last else each.strides[1] for each in (source, to)]
    words: dict[str, Argument] = {"x": x, "y": y, "row_counts": row_counts, "column_counts": column_counts}
    words |= {"units": units, "bands": bands, "band": band, "step": step, "length": length}
    words |= {"out_h": rows.out, "out_w": columns.out, "height": rows.size, "size_w": columns.size}
    words |= {"row_stride": rows.stride, "row_step": rows.dilation, "column_stride": columns.stride}
    words |= {"begin_h": rows.begin, "begin_w": columns.begin}
    words |= {"whole_from": whole_from, "whole_to": whole_to}
    words |= {"x_n": source.strides[0], "x_c": channel[0], "x_h": source.strides[3]}
    words |= {"y_n": to.strides[0], "y_c": channel[1], "y_h": to.strides[3]}
    work = band * columns.out * step * rows.window * columns.window
    return Call.named(
        spec,
        words,
        x.shape[0] * units * bands,
        grain=maximum(1, WORK // work),
        scratch=band_bytes(rows, length, band, compute.nbytes),
    )


def count_table(axis: AxisWindow) -> Array:
    """Return the numbers of elements of the windows."""
    numbers = axis.size, axis.window, axis.stride, axis.dilation, axis.begin, axis.end, axis.out
    return computed(window_count_table, *numbers)


def whole_windows(axis: AxisWindow) -> tuple[int, int]:
    """Return the half-open range of the windows that miss nothing; the end twice where there are none."""
    first = minimum(axis.out, -(-axis.begin // axis.stride))
    stop = minimum(axis.out, (axis.size + axis.begin - axis.reach) // axis.stride + 1)
    return (first, stop) if stop > first else (axis.out, axis.out)


def is_partial(axis: AxisWindow) -> bool:
    """Whether a window may miss an element; windows of a size that is not known yet may, unless nothing is padded."""
    if is_size(axis.size):
        return axis.begin > 0 or (axis.out - 1) * axis.stride + axis.reach - axis.begin > axis.size
    return any(axis.count(o) < axis.window for o in range(axis.out))


def row_length(columns: AxisWindow, step: int) -> int:
    """Number of elements of a row in scratch: all that vectors of windows may read."""
    return maximum(columns.begin + columns.size, columns.out * columns.stride + columns.reach) * step


def band_bytes(rows: AxisWindow, length: int, band: int, nbytes: int) -> int:
    """Bytes of scratch memory of a band."""
    return ((band - 1) * rows.stride + rows.reach) * length * nbytes + 256


def band_rows(rows: AxisWindow, columns: AxisWindow, step: int, nbytes: int) -> int:
    """Number of output rows of an item; 0: even one would take too much scratch."""
    length = row_length(columns, step)
    if band_bytes(rows, length, 1, nbytes) > SCRATCH:
        return 0
    more = (BAND - band_bytes(rows, length, 1, nbytes)) // (rows.stride * length * nbytes)
    return maximum(1, minimum(rows.out, 1 + more))
