"""Pooling of regions of interest by bilinear samples (He et al., Mask R-CNN, arXiv 1703.06870)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, InputError, ShapeError
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOAT64, FLOATS, INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import BIN, stream_seconds
from cenote.kernels.roi.align import roi_align_call
from cenote.kernels.roi.align_backward import align_backward_call
from cenote.kernels.roi.sampling import MOST_SAMPLES, NO_IMAGE, NOT_FINITE, TOO_LARGE, table_capacity
from cenote.ops.base import Arrays, Check, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import require
from cenote.ops.pool.algorithms import TOLERANCES, layouts
from cenote.ops.pool.window import INTEGERS, check_dtype
from cenote.ops.values import narrow, seeded, wide

MODES = ("avg", "max")
ITEMS = 16  # pieces of work at least, where there are channels enough
PART = 8  # planes or channel blocks of a piece at least
MOST_ENTRIES = 1 << 20  # of a table of samples; sampling ratios beyond are left to the reference
_TOO_LARGE = f"so large that a bin would have over {MOST_SAMPLES} samples along an axis; give sampling_ratio"
Terms = tuple[Array, Array, tuple[Array, ...], tuple[Array, ...]]


def decode_roi_align(node: Imported) -> Op:
    """RoiAlign of ai.onnx 10 (no half-pixel shift), 16 (+ coordinate_transformation_mode, half_pixel), 22."""
    known: tuple[str, ...] = ("mode", "output_height", "output_width", "sampling_ratio", "spatial_scale")
    if node.opset >= 16:
        known += ("coordinate_transformation_mode",)
    node.expect(*known)
    shift = node.get(
        "coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel"
    )
    if shift not in ("half_pixel", "output_half_pixel"):
        raise ArgumentError(
            f"roi_align: coordinate_transformation_mode '{shift}' is not known "
            "(allowed: half_pixel, output_half_pixel)"
        )
    return RoiAlign(
        output=(int(node.get("output_height", 1)), int(node.get("output_width", 1))),
        spatial_scale=float(node.get("spatial_scale", 1.0)),
        sampling_ratio=int(node.get("sampling_ratio", 0)),
        aligned=shift == "half_pixel",
        mode=str(node.get("mode", "avg")),
        max_of_terms=True,
    )


@dataclass(frozen=True)
class RoiAlign(Op):
    """Mean or maximum of bilinear samples in a grid of bins over each region: (R, C, *output).

    Inputs: x (N, C, H, W), float; rois (R, 4) of (x1, y1, x2, y2) in units of 1 / spatial_scale pixels;
    batch_indices (R,), int64: the image of each region.

    Each bin holds sampling_ratio^2 samples, or, with 0, ceil(extent of the region / bins) along each axis.
    With `aligned` coordinates are shifted by half a pixel, so that pixel centres lie at integers; without,
    regions are at least 1 x 1. Samples further than 1 outside of the map count as 0; an empty bin gives 0.
    In mode "max", `max_of_terms` takes the largest of the four weighted corners of the samples, as ONNX
    defines it, instead of the largest sample. Coordinates are computed in float32 (float64 for float64 x)
    in the order that ONNX Runtime and torchvision have, since the number of samples hangs on their
    rounding; values are interpolated in at least float32. Raises InputError for a batch index out of range
    and for coordinates that are not finite.
    """

    output: tuple[int, int] = (1, 1)
    spatial_scale: float = 1.0
    sampling_ratio: int = 0
    aligned: bool = True
    mode: str = "avg"
    max_of_terms: bool = False

    name = "roi_align"
    operands = ("x", "rois", "batch_indices")
    from_onnx = {"RoiAlign": decode_roi_align}

    def types(self, x: TensorType, rois: TensorType, batches: TensorType) -> Types:
        if self.mode not in MODES:
            raise ArgumentError(f"roi_align: mode '{self.mode}' is not known (allowed: {', '.join(MODES)})")
        limits.within("roi_align", "sampling_ratio", self.sampling_ratio, 0, MOST_SAMPLES)
        check_regions("roi_align", x, rois, 4, self.output, self.spatial_scale)
        if batches.shape != rois.shape[:1] or batches.dtype not in INTEGERS:
            raise ShapeError(f"roi_align: batch_indices must be {rois.shape[0]} integers, got {batches}")
        return (TensorType(x.dtype, (rois.shape[0], x.shape[1], *self.output)),)

    def compute(self, x: Array, rois: Array, batches: Array) -> Arrays:
        (result,) = self.declared(x, rois, batches)
        check_region_values("roi_align", rois, batches, x.shape[0])
        y = np.zeros(result.shape, np.float64)
        for region, (box, image) in enumerate(zip(rois, batches, strict=True)):
            y[region] = self.pool(wide(x[int(image)]), box, coordinate_type(x.dtype))
        return (narrow(y, result.dtype),)

    def pool(self, image: Array, box: Array, real: Any) -> Array:
        """One region of one image (C, H, W) as (C, *output)."""
        found = self.terms(image, box, real)
        if found is None:
            return np.zeros((image.shape[0], *self.output))
        terms = found[0]
        if self.mode == "avg":
            pooled = terms.sum(0).sum(axis=(2, 4)) / (terms.shape[3] * terms.shape[5])
        elif self.max_of_terms:
            pooled = terms.max(0).max(axis=(2, 4))
        else:
            pooled = terms.sum(0).max(axis=(2, 4))
        return np.asarray(pooled)

    def terms(self, image: Array, box: Array, real: Any) -> Terms | None:
        """The four weighted corners (upper left, upper right, lower left, lower right) of all samples of a region, as
        (4, C, bins, samples, bins, samples); their weights; the (upper, lower) rows and (left, right) columns of the
        samples. None when there are no samples.
        """
        scaled = box.astype(real) * real(self.spatial_scale) - real(0.5 if self.aligned else 0.0)
        x1, y1, x2, y2 = scaled
        rows = self.samples_of(y1, y2, self.output[0], image.shape[1], real)
        columns = self.samples_of(x1, x2, self.output[1], image.shape[2], real)
        if not rows[0].size or not columns[0].size:
            return None
        terms, weights = [], []
        for end_y in (0, 1):
            for end_x in (0, 1):
                corners = image[:, rows[end_y][:, :, None, None], columns[end_x][None, None]]
                weight = rows[2 + end_y][:, :, None, None] * columns[2 + end_x][None, None]
                # The weight 0 of a corner (samples outside) must win over an infinite value.
                terms.append(np.where(weight == 0, 0.0, corners * weight))
                weights.append(weight)
        return np.stack(terms), np.stack(weights), rows[:2], columns[:2]

    def samples_of(self, begin: Any, end: Any, bins: int, size: int, real: Any) -> tuple[Array, ...]:
        """Lower and upper pixel of each sample along one axis and their weights, arrays of shape (bins, samples)."""
        extent = end - begin
        if not self.aligned:
            extent = max(extent, real(1))
        step = extent / real(bins)
        if not step < MOST_SAMPLES:
            raise InputError(f"roi_align: {_TOO_LARGE}")
        count = self.sampling_ratio or max(0, math.ceil(step))
        offsets = (np.arange(count).astype(real) + real(0.5)) * step / real(max(count, 1))
        at = begin + np.arange(bins).astype(real)[:, None] * step + offsets[None]
        inside = (at >= -1) & (at <= size)
        at = np.clip(at, 0, size - 1)
        low = np.minimum(at.astype(np.int64), size - 1)
        fraction = (at - low).astype(np.float64)
        high = np.minimum(low + 1, size - 1)
        return low, high, np.where(inside, 1 - fraction, 0.0), np.where(inside, fraction, 0.0)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, rois, batches = (require(self.name, value, "input") for value in inputs)
        (y,) = self.infer(*inputs)
        room = table_capacity(self.output, self.sampling_ratio, *x.shape[2:])
        if not y.size or batches.dtype.kind != "i" or room > MOST_ENTRIES:
            return
        for layout in layouts(False, target):
            units = -(-x.shape[1] // max(layout.lanes, 1))
            part = units_of_item(units, rois.shape[0])
            noted = TensorType(INT64, (rois.shape[0] * -(-units // part), 2))

            sampling = {"ratio": self.sampling_ratio, "aligned": self.aligned, "terms": self.max_of_terms}
            call = partial(
                roi_align_call, target=target, bins=self.output, scale=self.spatial_scale, part=part
            )
            call = partial(call, largest=self.mode == "max", **sampling)
            seconds = stream_seconds(x.nbytes + y.nbytes) + y.size * BIN * (4 if layout == PLAIN else 1)
            check = RegionCheck("roi_align", x.shape[0], -(-units // part))
            error = max(TOLERANCES[x.dtype.name], 4e-6 if x.dtype.itemsize == 4 else 0.0)
            yield Lowering.of_call(
                "boxes", (layout, PLAIN, PLAIN), (layout,), call, seconds, error, (noted,), check=check
            )

    def operations(self, outputs: Types, *inputs: TensorType) -> int:
        """Eight operations per sample; adaptive grids are counted as 2 x 2."""
        return 8 * outputs[0].size * (self.sampling_ratio or 2) ** 2

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = seeded((2, 9, 12, 15))
        rois = np.array(
            [
                [0, 0, 10, 8],
                [3.2, 1.7, 9.9, 11.1],
                [5, 5, 5, 5],
                [-4, -3, 3, 20],
                [9, 8, 2, 1],
                [30, 30, 40, 40],
            ],
            np.float32,
        )
        batches = np.array([0, 1, 1, 0, 0, 1], np.int64)
        for mode in MODES:
            for aligned in (True, False):
                for ratio in (0, 2):
                    op = cls((3, 2), 0.75, ratio, aligned, mode, max_of_terms=not aligned)
                    yield Sample(op, (x, rois, batches), f"roi_align {mode} {aligned} {ratio}")
        for dtype in (np.float64, np.float16, BFLOAT16):
            converted = x.astype(dtype), rois.astype(dtype), batches
            yield Sample(cls((2, 2)), converted, f"roi_align {np.dtype(dtype).name}")
        yield Sample(cls((2, 2)), (x, rois[:0], batches[:0]), "roi_align no regions")
        yield Sample(cls((2, 2)), (x[..., :1, :1], rois, batches), "roi_align 1x1 map")


def align_gradient_lowerings(
    op: RoiAlign, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Yield lowerings of the gradient of means for inputs grad_output, x, rois, batch_indices. 16-bit floats, which
    would be rounded box by box, are left to the reference."""
    g, x, _, batches = (require(op.name, value, "input") for value in inputs)
    room = table_capacity(op.output, op.sampling_ratio, *x.shape[2:])
    if not g.size or x.dtype.itemsize < 4 or batches.dtype.kind != "i" or room > MOST_ENTRIES:
        return
    part = units_of_item(x.shape[1], 1)
    parts = -(-x.shape[1] // part)

    def call(grad: View, _: View, rois: View, images: View, y: View, notes: View) -> Call:
        sampled = partial(align_backward_call, scale=op.spatial_scale, ratio=op.sampling_ratio)
        return sampled(grad, rois, images, y, notes, target, aligned=op.aligned, part=part)

    seconds = stream_seconds(g.nbytes + x.nbytes) + g.size * 4 * BIN
    noted = TensorType(INT64, (g.shape[0] * parts, 2))
    check, error = RegionCheck(op.name, x.shape[0], parts), 4 * TOLERANCES[x.dtype.name]
    yield Lowering.of_call(
        "boxes, spread", (PLAIN,) * 4, (PLAIN,), call, seconds, error, (noted,), check=check
    )


def units_of_item(units: int, boxes: int) -> int:
    """Planes or channel blocks of a piece of work."""
    return -(-units // max(1, min(units // PART, -(-ITEMS // boxes))))


def coordinate_type(dtype: Any) -> Any:
    """The NumPy scalar type in which coordinates are computed."""
    return np.float64 if dtype == FLOAT64 else np.float32


def check_regions(
    op: str, x: TensorType, rois: TensorType, columns: int, output: Sequence[int], spatial_scale: float
) -> None:
    """Check what all poolings of regions require. Raises DTypeError, ShapeError or ArgumentError."""
    check_dtype(op, x.dtype, FLOATS)
    if x.rank != 4 or 0 in x.shape[1:]:
        raise ShapeError(f"{op}: the input must be (N, C, H, W), not empty, got shape {list(x.shape)}")
    if rois.dtype != x.dtype:
        raise DTypeError(f"{op}: boxes must have the input's type {x.dtype}, got {rois.dtype}")
    if rois.rank != 2 or rois.shape[1] != columns:
        raise ShapeError(f"{op}: boxes must have shape [R, {columns}], got {list(rois.shape)}")
    if len(output) != 2:
        raise ArgumentError(f"{op}: output_size must be two numbers, got {tuple(output)}")
    for extent in output:
        limits.within(op, "output_size", extent, 1)
    if not 0 < spatial_scale <= float(np.finfo(coordinate_type(x.dtype)).max):
        raise ArgumentError(
            f"{op}: spatial_scale must be positive and finite as {coordinate_type(x.dtype).__name__}, "
            f"got {spatial_scale}"
        )


def check_region_values(op: str, boxes: Array, batches: Array, images: int) -> None:
    """InputError for coordinates that are not finite and images that do not exist."""
    if not np.isfinite(boxes.astype(np.float64)).all():
        raise _not_finite(op)
    wrong = (batches < 0) | (batches >= images)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise _no_image(op, first, batches[first], images)


def _not_finite(op: str) -> InputError:
    return InputError(f"{op}: a box has a coordinate that is not finite")


def _no_image(op: str, box: int, image: Any, images: int) -> InputError:
    return InputError(
        f"{op}: box {box} names image {image}, but the batch has {images} (allowed: 0 to {images - 1})"
    )


@dataclass(frozen=True)
class RegionCheck(Check):
    """Error that names the first box that cannot be pooled; kernels note boxes in `parts` items each, their image as
    a whole number or, with `real`, as the bits of a float64.
    """

    op: str
    images: int
    parts: int
    real: bool = False

    def raise_if_wrong(self, found: Array) -> None:
        boxes = found[:: self.parts]
        if (boxes[:, 0] == NOT_FINITE).any():
            raise _not_finite(self.op)
        wrong = boxes[:, 0] == NO_IMAGE
        if wrong.any():
            first = int(np.argmax(wrong))
            image = boxes[first, 1]
            raise _no_image(self.op, first, image.view(np.float64) if self.real else image, self.images)
        large = int(np.argmax(boxes[:, 0] == TOO_LARGE))
        raise InputError(f"{self.op}: box {large}: {_TOO_LARGE}")
