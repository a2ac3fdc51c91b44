"""Anti-aliased subsampling: fixed taps along rows and columns, at strided positions.

    for item in begin .. end:                         a band of output rows: of a plane, or of an image (channels last)
        for row of the band:
            line = weight * x row + …                 whole rows of the input, in scratch
            line, beyond both ends = its border       mirrored, repeated or zero
            for vectors of outputs:                   y = weight * line[strided] + …

The filter separates, so that an output costs the sum of both windows' taps, not their product; rows come first, where
vectors are contiguous whatever the stride.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.lanes import strided
from cenote.kernels.plane_items import channels_of, planes_of
from cenote.kernels.pool.common import SUM, combine_all, compute_type, spans
from cenote.kernels.row_lanes import fitting

WORK = 1 << 14  # approximate number of outputs of an item
OUTSIDE = -1  # in tables of rows and columns: a zero

WORDS = split_words(
    "units bands band out_h out_w size_w step column_stride before borders x_n x_c x_h y_n y_c y_h",
)


@dataclass(frozen=True)
class PoolBlur(KernelSpec):
    """Kernel of a blur. Weights of the taps of a row's window and of a column's; `stride` of the columns, 0 channels
    innermost (a number of the call); `zeros`: some rows of the windows are zeros. `lanes` along a row of the output,
    or of the channels; `row_lanes` along a row of the input.
    """

    dtype: np.dtype[Any]
    row_weights: tuple[float, ...]
    column_weights: tuple[float, ...]
    stride: int
    zeros: bool
    lanes: int
    row_lanes: int

    @property
    def compute(self) -> Scalar:
        return compute_type(SUM, self.dtype)

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x")
        return (*pointers, *pointers_to(I64, "rows", "border"), *numbers_named(WORDS))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            band, rest = item % n("bands"), item // n("bands")
            image, unit = rest // n("units"), rest % n("units")
            blur = _Blur(k, self, image, unit)
            first = band * n("band")
            for row in k.range(first, k.minimum(first + n("band"), n("out_h"))):
                blur.row(row)
        return k


class _Blur:
    """Blur of one plane."""

    def __init__(self, k: Kernel, spec: PoolBlur, image: Value, unit: Value) -> None:
        n = k.number
        self.k, self.spec = k, spec
        self.step = k.integer(1) if spec.stride else n("step")
        self.x = k.pointer("x") + (image * n("x_n") + unit * n("x_c"))
        self.y = k.pointer("y") + (image * n("y_n") + unit * n("y_c"))
        self.line = k.scratch.cast(spec.compute)

    def row(self, row: Value) -> None:
        k, n, spec = self.k, self.k.number, self.spec
        inner = self.line + n("before") * self.step
        taps = len(spec.row_weights)
        places = [k.pointer("rows").load(row * taps + tap) for tap in range(taps)]
        for at in spans(k, n("size_w") * self.step, spec.row_lanes, 2):
            parts = [
                self._row_tap(place, at) * weight
                for place, weight in zip(places, spec.row_weights, strict=True)
            ]
            inner.store(combine_all(k, SUM, parts), at)
        self._border()
        result = self.y + row * n("y_h")
        for place, values in self._outputs():
            value = combine_all(
                k, SUM, [tap * weight for tap, weight in zip(values, spec.column_weights, strict=True)]
            )
            result.store(value.to(result.element), place)

    def _row_tap(self, row: Value, at: Value) -> Value:
        k, spec = self.k, self.spec
        if not spec.zeros:
            return (self.x + row * k.number("x_h")).load(at, spec.row_lanes).to(spec.compute)
        outside = row < 0
        held = k.select(outside, k.integer(0), row)
        value = (self.x + held * k.number("x_h")).load(at, spec.row_lanes).to(spec.compute)
        zero = k.constant(spec.compute, 0.0, spec.row_lanes)
        return k.select(k.splat(outside, spec.row_lanes), zero, value)

    def _border(self) -> None:
        """Fill the columns of the line that are no column of x; the table has pairs of such a column and the one it
        repeats."""
        k, spec = self.k, self.spec
        lanes = 1 if spec.stride else spec.lanes
        for pair in k.range(0, k.number("borders")):
            to, repeated = (k.pointer("border").load(pair * 2 + part) for part in range(2))
            outside = repeated < 0
            held = k.select(outside, k.integer(0), repeated)
            for channel in spans(k, self.step, lanes):
                value = self.line.load(held * self.step + channel, lanes)
                zero = k.constant(spec.compute, 0.0, lanes)
                self.line.store(k.select(k.splat(outside, lanes), zero, value), to * self.step + channel)

    def _outputs(self) -> Iterator[tuple[Value, list[Value]]]:
        """Yield places of outputs, and the elements of the line at every tap of them."""
        k, n, spec = self.k, self.k.number, self.spec
        taps = range(len(spec.column_weights))
        if spec.stride:
            for at in spans(k, n("out_w"), spec.lanes):
                first = self.line + at * spec.stride
                yield at, [self._column_tap(first, tap) for tap in taps]
            return
        for column in k.range(0, n("out_w")):
            for channel in spans(k, self.step, spec.lanes):
                start = column * n("column_stride")
                values = [self.line.load((start + tap) * self.step + channel, spec.lanes) for tap in taps]
                yield column * self.step + channel, values

    def _column_tap(self, start: Pointer, tap: int) -> Value:
        return strided(self.k, start + tap, self.spec.stride, self.spec.lanes)


def blur_call(
    axes: Sequence[AxisWindow],
    weights: Sequence[Sequence[float]],
    places: Sequence[Array],
    x: View,
    y: View,
    target: Target,
    *,
    channels_last: bool,
) -> Call:
    """Return the launch for plain or channels-last views of one or two spatial axes. `places` has, per axis, the
    element of x at each position of its padded extent, OUTSIDE for zeros."""
    rows, columns = (AxisWindow(1, 1, out=1), *axes)[-2:]
    row_weights, column_weights = ((1.0,), *weights)[-2:]
    row_places, column_places = (np.zeros(1, np.int64), *places)[-2:]
    source, to = planes_of(x, channels_last), planes_of(y, channels_last)
    channels = channels_of(x, channels_last)
    step = channels if channels_last else 1
    compute = compute_type(SUM, x.type.dtype)
    widest = min(target.lanes(x.type.dtype), target.vector_bytes // compute.nbytes)
    windows = np.arange(int(rows.out))[:, None] * rows.stride + np.arange(rows.window)
    table = np.ascontiguousarray(row_places[windows], np.int64)
    padded = np.arange(len(column_places))
    beside = (padded < columns.begin) | (padded >= columns.begin + columns.size)
    held = np.where(column_places < 0, OUTSIDE, column_places + columns.begin)
    border = np.stack([padded[beside], held[beside]], 1).astype(np.int64)
    borders = len(border)
    spec = PoolBlur(
        x.type.dtype,
        tuple(row_weights),
        tuple(column_weights),
        0 if channels_last else columns.stride,
        bool((table < 0).any()),
        fitting(widest, step if channels_last else columns.out),
        fitting(widest, columns.size * step),
    )
    band = max(1, min(rows.out, WORK // (columns.out * step)))
    bands = -(-rows.out // band)
    units = 1 if channels_last else channels
    unit_strides = [(0 if channels_last else planes.strides[1]) for planes in (source, to)]
    words: dict[str, Argument] = {"y": y, "x": x, "rows": table}
    words |= {"border": border if borders else np.zeros((1, 2), np.int64), "borders": borders}
    words |= {"units": units, "bands": bands, "band": band, "step": step}
    words |= {"out_h": rows.out, "out_w": columns.out, "size_w": columns.size}
    words |= {"column_stride": columns.stride, "before": columns.begin}
    words |= {"x_n": source.strides[0], "x_c": unit_strides[0], "x_h": source.strides[3]}
    words |= {"y_n": to.strides[0], "y_c": unit_strides[1], "y_h": to.strides[3]}
    return Call.named(
        spec,
        words,
        x.shape[0] * units * bands,
        grain=max(1, WORK // (band * columns.out * step)),
        scratch=line_bytes(columns, step, compute.nbytes),
    )


def line_bytes(columns: AxisWindow, step: int, nbytes: int) -> int:
    """Bytes of scratch memory: a line with its borders, and what vectors of the last windows read beyond."""
    length = max(columns.begin + columns.size + columns.end, columns.out * columns.stride + columns.window)
    return length * step * nbytes + 256
