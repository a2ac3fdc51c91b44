"""Pooling of regions of interest."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import numpy as np

from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import INT64, Array, TensorType, is_float
from cenote.functional.arguments import TORCH, choice, given_array, numbers, type_of
from cenote.functional.kinds import Array as Given
from cenote.functional.kinds import ArrayKind, Kind, Rules
from cenote.functional.record import function
from cenote.functional.types import Numbers
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.ops.roi.align import MODES, RoiAlign
from cenote.ops.roi.pool import MaxRoiPool, PsRoiPool

Boxes = Annotated[TensorType, ArrayKind("DLPack | Sequence[DLPack]")]
Mode = Annotated[str, Kind("Literal['max', 'avg']", partial(choice, allowed=MODES))]


def _output(output_size: Numbers) -> tuple[int, int]:
    height, width = numbers("output_size", output_size, 2, 1)
    return height, width


def _scale(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ArgumentError(f"spatial_scale must be positive, got {value}")
    return value


def _boxes(boxes: object, dtype: np.dtype[Any]) -> Array:
    """(R, 5) of (image, x1, y1, x2, y2), in the input's type, from that or a sequence of (R_i, 4), one per image."""
    if isinstance(boxes, list | tuple):
        parts = []
        for image, item in enumerate(boxes):
            part = _array(item)
            if part.ndim != 2 or part.shape[1] != 4:
                raise ShapeError(f"boxes[{image}] must have shape [R, 4], got {list(part.shape)}")
            parts.append(np.concatenate([np.full((len(part), 1), image, part.dtype), part], 1))
        boxes = np.concatenate(parts) if parts else np.zeros((0, 5), dtype)
    array = _array(boxes)
    if array.ndim != 2 or array.shape[1] != 5:
        raise ShapeError(
            f"boxes must have shape [R, 5] (image, x1, y1, x2, y2) or be a list of [R, 4], one per image; "
            f"got {list(array.shape)}"
        )
    return array


def _array(value: object) -> Array:
    array, _ = given_array("boxes", value)
    if not is_float(array.dtype) and array.dtype.kind not in "iu":
        raise InputError(f"boxes must be numbers, got {array.dtype}")
    return array


def _with_boxes(input: object, boxes: object) -> tuple[object, ...]:
    """The input and boxes of its type."""
    dtype = type_of("input", input)
    return input, _boxes(boxes, dtype).astype(dtype)


def _with_images(input: object, boxes: object) -> tuple[object, ...]:
    """The input, corners of its type, and the numbers of their images."""
    dtype = type_of("input", input)
    rois = _boxes(boxes, dtype)
    images = rois[:, 0].astype(np.float64)
    if (images != np.floor(images)).any():
        raise InputError("boxes name images by whole numbers")
    return input, np.ascontiguousarray(rois[:, 1:]).astype(dtype), images.astype(INT64)


@function(gradient=SparseGradient, arrays=_with_boxes)
def roi_pool(input: Given, boxes: Boxes, output_size: Numbers, spatial_scale: float = 1.0) -> MaxRoiPool:
    """Largest value in each of output_size bins of each box: (R, C, *output_size), as torchvision.ops.roi_pool.

    input          (N, C, H, W), float
    boxes          (R, 5) of (image, x1, y1, x2, y2), or a list of (R_i, 4), one per image
    spatial_scale  from box coordinates to pixels; scaled corners are rounded, halves away from zero

    Both corners belong to a box; it is at least one pixel. Empty bins give 0. NaN propagates. Raises InputError for a
    box of an image that does not exist or with coordinates that are not finite.
    """
    return MaxRoiPool(_output(output_size), _scale(spatial_scale))


@function(gradient=SparseGradient, arrays=_with_boxes)
def ps_roi_pool(input: Given, boxes: Boxes, output_size: Numbers, spatial_scale: float = 1.0) -> PsRoiPool:
    """Position-sensitive mean: bin (i, j) of channel c averages channel (c bins_h + i) bins_w + j of the input, whose
    channels must be a multiple of the bins. As torchvision.ops.ps_roi_pool on the GPU: its CPU code leaves out the
    last row and column of the map. Arguments as in roi_pool; the second corner does not belong to a box.
    """
    return PsRoiPool(_output(output_size), _scale(spatial_scale))


@function(gradient=SparseGradient, arrays=_with_images)
def roi_align(
    input: Given,
    boxes: Boxes,
    output_size: Numbers,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    mode: Mode = "avg",
    semantics: Rules = TORCH,
) -> RoiAlign:
    """Mean (mode="avg") or largest (mode="max") of bilinear samples in each bin of each box, as
    torchvision.ops.roi_align: (R, C, *output_size).

    sampling_ratio  samples per bin and axis; 0 or less: as many as the bin has pixels, rounded up
    aligned         shift coordinates by half a pixel (the correct way, and ONNX's half_pixel); without, boxes are at
                    least 1 x 1
    semantics       only for mode="max": "onnx" takes the largest of the weighted corners of the samples, as ONNX
                    defines it; the others the largest sample
    input, boxes, spatial_scale: see roi_pool. Samples further than 1 outside of the map count as 0.
    """
    return RoiAlign(
        _output(output_size),
        _scale(spatial_scale),
        max(0, sampling_ratio),
        aligned,
        mode,
        max_of_terms=semantics.name == "onnx",
    )
