"""Pooling of regions of interest in whole pixels: maximum (Fast R-CNN), position-sensitive mean (R-FCN)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.pool_geometry import adaptive_bounds
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, INT64, PLAIN, Array, TensorType
from cenote.kernels.cost_model import BIN, stream_seconds
from cenote.kernels.roi.pool import FARTHEST, roi_pool_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import read
from cenote.ops.pool.algorithms import TOLERANCES, layouts
from cenote.ops.pool.window import extremum
from cenote.ops.roi.align import (
    RegionCheck,
    check_region_values,
    check_regions,
    coordinate_type,
    units_of_item,
)
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class RegionPool(Op):
    """Base: x (N, C, H, W) and boxes (R, 5) of (image, x1, y1, x2, y2) give (R, channels, *output).

    Corners are scaled (in float32, float64 for float64 boxes) and rounded to the nearest pixel, halves
    away from zero; bins are floor(o extent / bins) to ceil((o + 1) extent / bins) in exact integers. An
    empty bin gives 0.
    """

    output: tuple[int, int] = (1, 1)
    spatial_scale: float = 1.0

    operands = ("x", "rois")

    def channels(self, x: TensorType) -> int:
        """Number of channels of the result, after checks of x. Raises ShapeError."""
        raise NotImplementedError(f"{type(self).__name__}.channels")

    def types(self, x: TensorType, rois: TensorType) -> Types:
        check_regions(self.name, x, rois, 5, self.output, self.spatial_scale)
        return (TensorType(x.dtype, (rois.shape[0], self.channels(x), *self.output)),)

    def corners(self, x: Array, rois: Array) -> Iterable[tuple[int, list[int]]]:
        """The image and the rounded corners of each box."""
        images = rois[:, 0].astype(np.float64)
        check_region_values(self.name, rois, images, x.shape[0])
        real: Any = coordinate_type(x.dtype)
        with np.errstate(over="ignore"):
            scaled = (rois[:, 1:].astype(real) * real(self.spatial_scale)).astype(np.float64)
        scaled = np.clip(scaled, -FARTHEST, FARTHEST)
        rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        for image, box in zip(images, rounded, strict=True):
            yield int(image), [int(corner) for corner in box]

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """Yield lowerings with plain boxes and plain maps, and blocked maps for maxima."""
        x, rois = self.arranged(inputs)
        (y,) = self.infer(*inputs)
        if not y.size:
            return
        largest = isinstance(self, MaxRoiPool)
        for layout in layouts(not largest, target):
            units = -(-y.shape[1] // max(layout.lanes, 1))
            part = units_of_item(units, rois.shape[0])
            parts = -(-units // part)

            call = partial(roi_pool_call, target=target, bins=self.output, scale=self.spatial_scale)
            call = partial(call, largest=largest, part=part)
            seconds = stream_seconds(x.nbytes + y.nbytes) + y.size * BIN * (4 if layout == PLAIN else 1)
            check = RegionCheck(self.name, x.shape[0], parts, real=True)
            noted = TensorType(INT64, (rois.shape[0] * parts, 2))
            error = 0.0 if largest else TOLERANCES[x.dtype.name]
            yield Lowering.of_call(
                "boxes", (layout, PLAIN), (layout,), call, seconds, error, (noted,), check=check
            )

    def operations(self, outputs: Types, x: TensorType, rois: TensorType) -> int:
        """Number of operations if every region were the whole map."""
        return rois.shape[0] * math.prod(x.shape[1:])


@dataclass(frozen=True)
class MaxRoiPool(RegionPool):
    """Largest value in each bin of each box; both corner pixels belong to the box, which is at least one
    pixel.

    NaN propagates. As torchvision's roi_pool and ONNX's MaxRoiPool, but for bins that float32 rounding
    widens there.
    """

    name = "max_roi_pool"
    from_onnx = {"MaxRoiPool": lambda node: read(MaxRoiPool, node, "spatial_scale", output="pooled_shape")}

    def channels(self, x: TensorType) -> int:
        return x.shape[1]

    def compute(self, x: Array, rois: Array) -> Arrays:
        (result,) = self.declared(x, rois)
        y = np.zeros(result.shape, x.dtype)
        for region, (image, (x1, y1, x2, y2)) in enumerate(self.corners(x, rois)):
            rows = bins(y1, max(y2 - y1 + 1, 1), self.output[0], x.shape[2])
            columns = bins(x1, max(x2 - x1 + 1, 1), self.output[1], x.shape[3])
            for position in np.ndindex(*self.output):
                (top, bottom), (left, right) = rows[position[0]], columns[position[1]]
                taps = x[image, :, top:bottom, left:right].reshape(x.shape[1], -1)
                if taps.size:
                    y[(region, slice(None), *position)] = taps[np.arange(len(taps)), extremum(taps)]
        return (y,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls, 9)


@dataclass(frozen=True)
class PsRoiPool(RegionPool):
    """Position-sensitive mean (Dai et al., R-FCN, arXiv 1605.06409): bin (i, j) of channel c averages channel
    (c * bins_h + i) * bins_w + j of x, so x has C * bins_h * bins_w channels and the result C.

    The second corner does not belong to the box. As torchvision's ps_roi_pool.
    """

    name = "ps_roi_pool"

    def channels(self, x: TensorType) -> int:
        bins_total = self.output[0] * self.output[1]
        if x.shape[1] % bins_total:
            raise ShapeError(
                f"ps_roi_pool: the input's {x.shape[1]} channels must be a multiple of the {bins_total} "
                f"bins of output_size {self.output}"
            )
        return x.shape[1] // bins_total

    def compute(self, x: Array, rois: Array) -> Arrays:
        (result,) = self.declared(x, rois)
        y = np.zeros(result.shape, np.float64)
        groups = wide(x).reshape(x.shape[0], result.shape[1], *self.output, *x.shape[2:])
        for region, (image, (x1, y1, x2, y2)) in enumerate(self.corners(x, rois)):
            rows = bins(y1, max(y2 - y1, 1), self.output[0], x.shape[2])
            columns = bins(x1, max(x2 - x1, 1), self.output[1], x.shape[3])
            for position in np.ndindex(*self.output):
                (top, bottom), (left, right) = rows[position[0]], columns[position[1]]
                taps = groups[(image, slice(None), *position)][:, top:bottom, left:right]
                if taps.size:
                    y[(region, slice(None), *position)] = taps.mean(axis=(1, 2))
        return (narrow(y, result.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls, 18)


def bins(begin: int, extent: int, count: int, size: int) -> list[tuple[int, int]]:
    """Half-open pixel range of each bin, clipped to the map."""
    ranges = adaptive_bounds(extent, count)
    return [(min(max(begin + low, 0), size), min(max(begin + high, 0), size)) for low, high in ranges]


def _samples(cls: type[MaxRoiPool] | type[PsRoiPool], channels: int) -> Iterable[Sample]:
    x = seeded((2, channels, 12, 15))
    rois = np.array(
        [
            [0, 0, 0, 10, 8],
            [1, 3.2, 1.7, 9.9, 11.1],
            [1, 5, 5, 5, 5],
            [0, -4, -3, 3, 20],
            [0, 9, 8, 2, 1],
            [1, 30, 30, 40, 40],
            [0, 0.5, 1.5, 6.5, 7.5],
        ],
        np.float32,
    )
    for output in ((3, 2), (1, 1), (2, 3)):
        for scale in (1.0, 0.5):
            yield Sample(cls(output, scale), (x, rois), f"{cls.name} {output} {scale}")
    for dtype in (np.float64, np.float16, BFLOAT16):
        yield Sample(cls((3, 2)), (x.astype(dtype), rois.astype(dtype)), f"{cls.name} {np.dtype(dtype).name}")
    yield Sample(cls((2, 3)), (x, rois[:0]), f"{cls.name} no regions")
