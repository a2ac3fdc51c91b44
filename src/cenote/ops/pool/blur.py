"""Anti-aliased subsampling: a binomial filter, evaluated at strided positions (Zhang, arXiv 1904.11486)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.limits import positions
from cenote.core.pool_geometry import AxisWindow, explicit_axis, extents
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOATS, PLAIN, Array, TensorType
from cenote.kernels.cost_model import stream_seconds
from cenote.kernels.pool_variants.blur import OUTSIDE, blur_call, line_bytes
from cenote.ops.base import Arrays, Box, Lowering, Sample, Types
from cenote.ops.pool.algorithms import TOLERANCES
from cenote.ops.pool.window import (
    as_declared,
    channels_first,
    check_dtype,
    check_map,
    spatial_of,
    with_spatial,
)
from cenote.ops.traits import MapOp
from cenote.ops.values import narrow, seeded, wide

BORDERS = {"reflect": "reflect", "replicate": "edge", "zeros": "constant"}
# Per axis, and the longest stride: a kernel unrolls so many; larger filters are left to the reference.
MOST_TAPS = 16
SCRATCH = 1 << 24  # bytes of a line of a thread at most


@dataclass(frozen=True)
class BlurPool(MapOp):
    """Each plane of x (N, C, *spatial) filtered by binomial weights along every axis, then every stride-th kept.

    `window` taps per axis weigh as the binomial coefficients of window - 1, divided by their sum: 3 taps are
    (1, 2, 1) / 4. (window - 1) // 2 elements are added before and window // 2 after each axis by `border`: "reflect"
    (mirrored about the edge element, so the map must be larger than that), "replicate" or "zeros". Outputs per axis:
    floor((in + window - 1 - window) / stride) + 1 = ceil(in / stride).
    """

    window: tuple[int, ...] = (4, 4)
    stride: tuple[int, ...] = (2, 2)
    border: str = "reflect"
    channels_last: bool = False

    name: ClassVar[str] = "blur_pool"
    operands = ("x",)

    def geometry(self, shape: Sequence[int]) -> tuple[AxisWindow, ...]:
        """The windows along each axis; those at the borders read the border's elements."""
        rank = len(self.window)
        check_map(self.name, shape, rank)
        window = extents(self.name, "filter_size", self.window, rank)
        positions("blur_pool: filter_size", max(window))
        stride = extents(self.name, "stride", self.stride, rank)
        if self.border not in BORDERS:
            raise ArgumentError(
                f"blur_pool: border '{self.border}' is not known (allowed: {', '.join(BORDERS)})"
            )
        spatial = spatial_of(shape, self.channels_last)
        for axis, (size, k) in enumerate(zip(spatial, window, strict=True)):
            if self.border == "reflect" and k // 2 >= size:
                raise ShapeError(
                    f"blur_pool: filter_size {k} reflects {k // 2} elements on spatial axis {axis}, which has "
                    f"{size}; use a smaller filter_size or border='replicate'"
                )
        sizes = zip(spatial, window, stride, strict=True)
        return tuple(explicit_axis(n, k, s, 1, ((k - 1) // 2, k // 2), False, "always") for n, k, s in sizes)

    def types(self, x: TensorType) -> Types:
        check_dtype(self.name, x.dtype, FLOATS)
        out = tuple(axis.out for axis in self.geometry(x.shape))
        return (TensorType(x.dtype, with_spatial(x.shape, out, self.channels_last)),)

    def compute(self, x: Array) -> Arrays:
        (result,) = self.declared(x)
        axes = self.geometry(x.shape)
        first = wide(channels_first(x, self.channels_last))
        borders = [(0, 0), (0, 0), *((axis.begin, axis.end) for axis in axes)]
        padded = np.pad(first, borders, mode=BORDERS[self.border])  # type: ignore[call-overload]
        total = np.zeros((*first.shape[:2], *(axis.out for axis in axes)))
        for tap in np.ndindex(*self.window):
            weight = math.prod(binomial(k)[t] for k, t in zip(self.window, tap, strict=True))
            stops = zip(tap, axes, strict=True)
            part = tuple(slice(t, t + (axis.out - 1) * axis.stride + 1, axis.stride) for t, axis in stops)
            total += weight * padded[(slice(None), slice(None), *part)]
        return (narrow(as_declared(total, self.channels_last), result.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        axes = self.geometry(x.shape)
        if not x.size or not y.size or len(axes) > 2:
            return
        if max(self.window) > MOST_TAPS or axes[-1].stride > MOST_TAPS:
            return
        if line_bytes(axes[-1], x.shape[-1] if self.channels_last else 1, max(4, x.dtype.itemsize)) > SCRATCH:
            return
        places = [self._places(axis) for axis in axes]

        weights, last = [binomial(k) for k in self.window], self.channels_last
        call = partial(blur_call, axes, weights, places, target=target, channels_last=last)
        seconds = stream_seconds(x.nbytes + y.nbytes)
        yield Lowering.of_call("blur", (PLAIN,), (PLAIN,), call, seconds, TOLERANCES[x.dtype.name])

    def _places(self, axis: AxisWindow) -> Array:
        """Index of the element of x at each position of the padded axis; OUTSIDE for zeros."""
        inner, beside = np.arange(axis.size), (axis.begin, axis.end)
        if self.border == "zeros":
            return np.pad(inner, beside, constant_values=OUTSIDE)
        return np.pad(inner, beside, mode="reflect" if self.border == "reflect" else "edge")

    def operations(self, outputs: Types, x: TensorType) -> int:
        return 2 * outputs[0].size * math.prod(self.window)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        """Windows at the borders also read what is mirrored there, which lies within their reach of the edge."""
        (x,) = self.arranged(inputs)
        ranges = list(box.ranges)
        for axis, windows in enumerate(self.geometry(x.shape), 1 if self.channels_last else 2):
            first, stop = ranges[axis]
            low, high = windows.read(first, stop)
            if first < stop:
                last = windows.size - 1
                # Elements read before the map, mirrored about its first.
                before = max(0, -windows.start(first))
                beyond = max(0, windows.start(stop - 1) + windows.reach - 1 - last)
                low = max(0, min(low, last - beyond))
                high = min(last, max(high - 1, before)) + 1
            ranges[axis] = (low, high)
        return (Box(tuple(ranges)),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for border in BORDERS:
            for k in (2, 3, 4, 5):
                yield Sample(cls((k, k), (2, 2), border), (seeded((1, 9, 9, 12)),), f"blur_pool {k} {border}")
        yield Sample(cls((3,), (2,)), (seeded((2, 5, 11)),), "blur_pool 1-D")
        yield Sample(cls((3, 2, 4), (1, 2, 3)), (seeded((1, 3, 5, 6, 7)),), "blur_pool 3-D")
        yield Sample(cls(channels_last=True), (seeded((2, 7, 8, 9)),), "blur_pool channels last")
        for dtype in (np.float64, np.float16, BFLOAT16):
            yield Sample(cls(), (seeded((1, 3, 8, 9), 0, dtype),), f"blur_pool {np.dtype(dtype).name}")


def binomial(taps: int) -> list[float]:
    """The normalised binomial coefficients of taps - 1."""
    return [math.comb(taps - 1, t) / 2 ** (taps - 1) for t in range(taps)]
