"""Maxima of windows whose starts are random per plane: fractional max pooling.

    for item in begin .. end:                         a plane of the input
        starts of both axes                           from the plane's samples, in their own type, into scratch
        for every output:                             the largest of its window, and its place

Planes have starts of their own, so that neighbouring outputs have nothing in common but their row. `found` gets a row
per item: whether a sample lies outside 0 .. 1; such a sample is never used as an address.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Scalar, Value
from cenote.core.computed import number_of
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.plane_items import channels_of, named, planes_of
from cenote.kernels.pool.common import MAXIMUM, compute_type, spans
from cenote.kernels.row_lanes import fitting

AXES = ("d", "h", "w")
UNROLLED = 16  # taps; of larger windows a row is a loop
WORK = 1 << 13  # approximate number of taps of an item's outputs

WORDS = (
    *(f"{name}_{axis}" for name in ("out", "size", "sample") for axis in AXES),
    "channels",
    "height",
    "width",
    *(f"{tensor}_{stride}" for tensor in ("x", "y") for stride in ("n", "c", *AXES)),
    "axes",
)


@dataclass(frozen=True)
class PoolFractional(KernelSpec):
    """Kernel of fractional pooling. `window` over (planes, rows, columns); `indexed`: also write the place of each
    value in the plane. `lanes` along a row of the output, which is contiguous if `plain`: comparisons that choose
    indices one by one would be branches.
    """

    dtype: np.dtype[Any]
    samples: np.dtype[Any]
    window: tuple[int, int, int]
    indexed: bool
    plain: bool
    lanes: int

    @property
    def compute(self) -> Scalar:
        return compute_type(MAXIMUM, self.dtype)

    @property
    def words(self) -> tuple[Parameter, ...]:
        storage, real = Scalar.of(self.dtype), Scalar.of(self.samples)
        return (
            *pointers_to(storage, "y", "x"),
            *pointers_to(I64, "index"),
            *pointers_to(real, "samples"),
            *pointers_to(I64, "found"),
            *numbers_named(WORDS),
            *(Parameter(f"alpha_{axis}", real) for axis in AXES),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            plane = _FractionalPlane(k, self, item)
            plane.find_starts(item)
            plane.pool()
        return k


class _FractionalPlane:
    """Pooling of one item."""

    def __init__(self, k: Kernel, spec: PoolFractional, item: Value) -> None:
        n = k.number
        self.k, self.spec = k, spec
        image, channel = item // n("channels"), item % n("channels")
        self.x = k.pointer("x") + (image * n("x_n") + channel * n("x_c"))
        self.to = image * n("y_n") + channel * n("y_c")
        tables = k.scratch.cast(I64)
        self.starts: list[Pointer] = [tables, tables + n("out_d"), tables + (n("out_d") + n("out_h"))]

    def find_starts(self, item: Value) -> None:
        """Compute floor((o + u) alpha) - floor(u alpha) for each output, the last at the end; `size` is the last
        start."""
        k, n = self.k, self.k.number
        wrong = k.variable(k.integer(0))
        for axis, table in zip(AXES, self.starts, strict=True):
            out, last = n(f"out_{axis}"), n(f"size_{axis}")
            drawn = n(f"sample_{axis}") >= 0
            place = item * n("axes") + k.maximum(n(f"sample_{axis}"), k.integer(0))
            u = k.pointer("samples").load(place)
            zero = k.constant(u.type, 0.0)
            inside = (u >= 0.0) & (u <= 1.0)
            wrong.value = k.select(drawn & ~inside, k.integer(1), wrong.value)
            u = k.select(inside, u, zero)
            alpha = n(f"alpha_{axis}")
            base = (u * alpha).to(I64)
            for o in k.range(0, out - 1):
                start = ((o.to(u.type) + u) * alpha).to(I64) - base
                table.store(k.minimum(start, last), o)
            table.store(last, out - 1)
        k.pointer("found").store(wrong.value, item)

    def pool(self) -> None:
        k, n = self.k, self.k.number
        for d in k.range(0, n("out_d")):
            for h in k.range(0, n("out_h")):
                start_d, start_h = self.starts[0].load(d), self.starts[1].load(h)
                corner = self.x + (start_d * n("x_d") + start_h * n("x_h"))
                line = (start_d * n("height") + start_h) * n("width")
                to = self.to + d * n("y_d") + h * n("y_h")
                for w in spans(k, n("out_w"), self.spec.lanes):
                    self._outputs(corner, line, to, w)

    def _outputs(self, corner: Pointer, line: Value, to: Value, w: Value) -> None:
        """Compute a vector of neighbouring outputs, from the first column on."""
        k, n, spec = self.k, self.k.number, self.spec
        starts = [self.starts[2].load(w + lane) for lane in range(spec.lanes)]
        value, place = self._largest([corner + start * n("x_w") for start in starts])
        value = value.to(Scalar.of(spec.dtype))
        results = [(k.pointer("y"), value)]
        if spec.indexed:
            results.append((k.pointer("index"), place + self.starts[2].load(w, spec.lanes) + line))
        for result, values in results:
            if spec.plain:
                (result + to).store(values, w)
                continue
            for lane in range(spec.lanes):
                one = values.lane(lane) if spec.lanes > 1 else values
                (result + to).store(one, (w + lane) * n("y_w"))

    def _largest(self, corners: Sequence[Pointer]) -> tuple[Value, Value]:
        """Find the first of the largest, or the last NaN, and its place from the corner on, of every lane's window."""
        k, n, spec = self.k, self.k.number, self.spec
        best = k.variable(gathered(k, corners, k.integer(0)).to(spec.compute))
        where = k.variable(k.constant(I64, 0, spec.lanes))
        deep, high, wide = spec.window

        def look(d: Value | int, h: Value | int, w: Value | int) -> None:
            d, h, w = (at if isinstance(at, Value) else k.integer(at) for at in (d, h, w))
            offset = d * n("x_d") + h * n("x_h") + w * n("x_w")
            value = gathered(k, corners, offset).to(spec.compute)
            better = value > best.value
            if value.type.is_float:
                better = better | value.is_nan()
            best.value = k.select(better, value, best.value)
            if spec.indexed:
                here = (d * n("height") + h) * n("width") + w
                where.value = k.select(better, k.splat(here, spec.lanes), where.value)

        if deep * high * wide <= UNROLLED:
            for tap in itertools.product(range(deep), range(high), range(wide)):
                look(*tap)
        else:
            for d in k.range(0, deep):
                for h in k.range(0, high):
                    for w in k.range(0, wide):
                        look(d, h, w)
        return best.value, where.value


def gathered(k: Kernel, places: Sequence[Pointer], offset: Value) -> Value:
    """Gather the elements at an offset from every place, in lanes."""
    if len(places) == 1:
        return places[0].load(offset)
    element = places[0].element
    ir = element.vector(len(places))
    text = "poison"
    for lane, place in enumerate(places):
        one = place.load(offset)
        inserted = k.assign(
            f"insertelement {ir} {text}, {one.ir} {one.text}, i32 {lane}", element, len(places)
        )
        text = inserted.text
    return inserted


def fractional_call(
    x: View,
    samples: View,
    y: View,
    index: View | None,
    found: View,
    window: Sequence[int],
    target: Target,
    *,
    channels_last: bool,
) -> Call:
    """Return the launch for plain or channels-last views of one to three spatial axes; samples have the layout of
    FractionalMaxPool."""
    rank = len(window)
    every = (*(1,) * (3 - rank), *window)
    source, to = planes_of(x, channels_last), planes_of(y, channels_last)
    channels = channels_of(x, channels_last)
    # PyTorch keeps the width's sample of an image before the height's.
    drawn = [2 - axis for axis in range(3)] if rank == 2 else [axis - (3 - rank) for axis in range(3)]
    which = [place if axis >= 3 - rank else -1 for axis, place in enumerate(drawn)]
    last = [size - k for size, k in zip(source.extents, every, strict=True)]
    kind = samples.type.dtype.name
    alphas = [number_of(spacing, end, out, kind) for end, out in zip(last, to.extents, strict=True)]
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "index": index,
        "samples": samples,
        "found": found,
        "channels": channels,
        "axes": rank,
        "height": source.extents[1],
        "width": source.extents[2],
    }
    for name, values in (("out", to.extents), ("size", last), ("sample", which), ("alpha", alphas)):
        words |= dict(zip([f"{name}_{axis}" for axis in AXES], values, strict=True))
    for name, view, planes in (("x", x, source), ("y", y, to)):
        strides = (planes.strides[0], 1 if channels_last else view.strides[1], *planes.strides[2:])
        words |= named([f"{name}_{stride}" for stride in ("n", "c", *AXES)], strides)
    lanes = fitting(target.vector_bytes // 8, to.extents[2]) if index is not None else 1
    spec = PoolFractional(
        x.type.dtype,
        samples.type.dtype,
        (every[0], every[1], every[2]),
        index is not None,
        not channels_last,
        lanes,
    )
    work = to.size * every[0] * every[1] * every[2]
    return Call.named(
        spec,
        words,
        x.shape[0] * channels,
        grain=maximum(1, WORK // work),
        scratch=8 * sum(to.extents),
    )


def spacing(end: int, out: int, kind: str) -> float:
    """Distance between the starts of the windows of an axis, in the samples' type."""
    real: Any = np.dtype(kind).type
    return float(real(end) / real(max(out - 1, 1)))
