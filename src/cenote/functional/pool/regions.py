"""Pooling of regions of interest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import INT64, Array, is_float
from cenote.functional.arguments import (
    Operation,
    Types,
    choice,
    flag,
    given_array,
    numbers,
    real,
    semantics_named,
    type_of,
    whole,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, DLPack, Numbers, Rules
from cenote.ops.roi.align import MODES, RoiAlign
from cenote.ops.roi.pool import MaxRoiPool, PsRoiPool


def _output(where: str, output_size: Any) -> tuple[int, int]:
    height, width = numbers(where, "output_size", output_size, 2, 1)
    return height, width


def _scale(where: str, spatial_scale: Any) -> float:
    value = real(where, "spatial_scale", spatial_scale)
    if not 0 < value < float("inf"):
        raise ArgumentError(f"{where}: spatial_scale must be positive, got {value}")
    return value


def read_boxes(where: str, boxes: Any, dtype: Any) -> Array:
    """(R, 5) of (image, x1, y1, x2, y2), in the input's type, from that or a sequence of (R_i, 4), one per image."""
    if isinstance(boxes, list | tuple):
        parts = []
        for image, item in enumerate(boxes):
            part = _array(where, item)
            if part.ndim != 2 or part.shape[1] != 4:
                raise ShapeError(f"{where}: boxes[{image}] must have shape [R, 4], got {list(part.shape)}")
            parts.append(np.concatenate([np.full((len(part), 1), image, part.dtype), part], 1))
        boxes = np.concatenate(parts) if parts else np.zeros((0, 5), dtype)
    array = _array(where, boxes)
    if array.ndim != 2 or array.shape[1] != 5:
        raise ShapeError(
            f"{where}: boxes must have shape [R, 5] (image, x1, y1, x2, y2) or be a list of [R, 4], one per image; "
            f"got {list(array.shape)}"
        )
    return array


def _array(where: str, value: Any) -> Array:
    array, _ = given_array(where, "boxes", value)
    if not is_float(array.dtype) and array.dtype.kind not in "iu":
        raise InputError(f"{where}: boxes must be numbers, got {array.dtype}")
    return array


def parse_roi_pool(
    types: Types, where: str, output_size: Any, spatial_scale: Any, position_sensitive: bool
) -> Operation:
    """The largest values, or (position-sensitive) the means, of bins of regions."""
    kind = PsRoiPool if position_sensitive else MaxRoiPool
    op = kind(_output(where, output_size), _scale(where, spatial_scale))
    (y,) = op.infer(*types)
    return Operation(op, tuple(t.shape for t in types), (y.shape,))


def parse_align(
    types: Types,
    where: str,
    output_size: Any,
    spatial_scale: Any,
    sampling_ratio: Any,
    aligned: Any,
    mode: Any,
    semantics: Any,
) -> Operation:
    """Samples of regions."""
    rules = semantics_named(where, semantics)
    op = RoiAlign(
        _output(where, output_size),
        _scale(where, spatial_scale),
        max(0, whole(where, "sampling_ratio", sampling_ratio)),
        flag(where, "aligned", aligned),
        choice(where, "mode", mode, MODES),
        max_of_terms=rules.name == "onnx",
    )
    (y,) = op.infer(*types)
    return Operation(op, tuple(t.shape for t in types), (y.shape,))


def roi_pool(
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Largest value in each of output_size bins of each box: (R, C, *output_size), as torchvision.ops.roi_pool.

    input          (N, C, H, W), float
    boxes          (R, 5) of (image, x1, y1, x2, y2), or a list of (R_i, 4), one per image
    spatial_scale  from box coordinates to pixels; scaled corners are rounded, halves away from zero

    Both corners belong to a box; it is at least one pixel. Empty bins give 0. NaN propagates. Raises InputError for a
    box of an image that does not exist or with coordinates that are not finite.
    """
    dtype = type_of("roi_pool", "input", input)
    rois = read_boxes("roi_pool", boxes, dtype).astype(dtype)
    return call(parse_roi_pool, (input, rois), ("roi_pool", output_size, spatial_scale, False), out, threads)


def ps_roi_pool(
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Position-sensitive mean: bin (i, j) of channel c averages channel (c bins_h + i) bins_w + j of the input, whose
    channels must be a multiple of the bins. As torchvision.ops.ps_roi_pool on the GPU: its CPU code leaves out the
    last row and column of the map. Arguments as in roi_pool; the second corner does not belong to a box.
    """
    dtype = type_of("ps_roi_pool", "input", input)
    rois = read_boxes("ps_roi_pool", boxes, dtype).astype(dtype)
    return call(
        parse_roi_pool, (input, rois), ("ps_roi_pool", output_size, spatial_scale, True), out, threads
    )


def roi_align(
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    mode: Literal["max", "avg"] = "avg",
    out: A | None = None,
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Mean (mode="avg") or largest (mode="max") of bilinear samples in each bin of each box, as
    torchvision.ops.roi_align: (R, C, *output_size).

    sampling_ratio  samples per bin and axis; 0 or less: as many as the bin has pixels, rounded up
    aligned         shift coordinates by half a pixel (the correct way, and ONNX's half_pixel); without, boxes are at
                    least 1 x 1
    semantics       only for mode="max": "onnx" takes the largest of the weighted corners of the samples, as ONNX
                    defines it; the others the largest sample
    input, boxes, spatial_scale: see roi_pool. Samples further than 1 outside of the map count as 0.
    """
    dtype = type_of("roi_align", "input", input)
    rois = read_boxes("roi_align", boxes, dtype)
    images = rois[:, 0].astype(np.float64)
    if (images != np.floor(images)).any():
        raise InputError("roi_align: boxes name images by whole numbers")
    arrays = input, np.ascontiguousarray(rois[:, 1:]).astype(dtype), images.astype(INT64)
    rest = (output_size, spatial_scale, sampling_ratio, aligned, mode, semantics)
    return call(parse_align, arrays, ("roi_align", *rest), out, threads)
