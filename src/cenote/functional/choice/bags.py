"""Rows of a table by index, combined: embedding_bag; and boxes that do not overlap: nms."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.types import INT64, Array
from cenote.functional.arguments import Operation, Types, choice, flag, given_array, real, whole
from cenote.functional.choice.indexing import as_index, index_input, made, mode_of
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.types import A, DLPack, Invalid
from cenote.kernels.selection.bags import NO_PADDING
from cenote.ops.movement.embedding_bag import MODES, EmbeddingBag
from cenote.ops.reduction.non_max_suppression import Nms


def parse_embedding_bag(types: Types, where: str, mode: Any, padding_idx: Any, invalid: Any) -> Operation:
    """Rows of a table, combined bag by bag."""
    weight, indices, *_ = types
    if weight.rank != 2:
        raise ShapeError(f"{where}: weight must have 2 axes (rows, columns), got {list(weight.shape)}")
    index_input(where, indices, "input")
    padding, rows = NO_PADDING, weight.shape[0]
    if padding_idx is not None:
        padding = whole(where, "padding_idx", padding_idx)
        if not -rows <= padding < rows:
            raise ArgumentError(f"{where}: padding_idx {padding} is not a row of weight, which has {rows}")
        padding %= rows
    if len(types) > 3 and types[3].dtype != weight.dtype:
        raise DTypeError(
            f"{where}: per_sample_weights must be {weight.dtype} as weight is, got {types[3].dtype}"
        )
    return made(EmbeddingBag(mode, padding, mode_of(where, invalid)), *types)


@public
def embedding_bag(
    input: DLPack,
    weight: A,
    offsets: DLPack | None = None,
    max_norm: None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: Literal["sum", "mean", "max"] = "mean",
    sparse: bool = False,
    per_sample_weights: DLPack | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The sum, mean or maximum of the rows of `weight` that each bag of indices names: shape (bags, columns).

    input        int32 or int64: (bags, n), or a list cut into bags by `offsets`
    weight       (rows, columns), a float type; sums are taken in float32 at least
    offsets      where each bag of a list begins, rising from 0; with `include_last_offset` the end of the last too
    per_sample_weights   a factor for each index, for mode "sum"
    padding_idx  indices of this row are passed over and do not count in a mean; so are bad ones with invalid="zero"
    max_norm     must be None: PyTorch's would change `weight`
    norm_type, scale_grad_by_freq, sparse   matter for gradients only, as in PyTorch

    An empty bag gives zeros. NaN wins in "max".
    Raises ShapeError, DTypeError, ArgumentError; InputError for a bad index.
    """
    name = "embedding_bag"
    if max_norm is not None:
        raise ArgumentError(
            f"{name}: max_norm must be None (PyTorch changes weight in place); normalise it before"
        )
    choice(name, "mode", mode, MODES)
    indices = given_array(name, "input", as_index(input))[0]
    bounds = _bounds(name, indices, offsets, flag(name, "include_last_offset", include_last_offset))
    arrays: list[Any] = [weight, indices.reshape(-1), bounds]
    if per_sample_weights is not None:
        factors = given_array(name, "per_sample_weights", per_sample_weights)[0]
        if mode != "sum":
            raise ArgumentError(f"{name}: per_sample_weights needs mode 'sum', got '{mode}'")
        if factors.shape != indices.shape:
            raise ShapeError(
                f"{name}: per_sample_weights {list(factors.shape)} must have the shape of input, {list(indices.shape)}"
            )
        arrays.append(factors.reshape(-1))
    return call(parse_embedding_bag, tuple(arrays), (name, mode, padding_idx, invalid), out, threads)


def _bounds(name: str, indices: Array, offsets: object, ends: bool) -> Array:
    """Where each bag begins, and where the last one ends."""
    if indices.ndim == 2:
        if offsets is not None:
            raise ArgumentError(
                f"{name}: offsets must be None where input has 2 axes, whose rows are the bags"
            )
        return np.arange(indices.shape[0] + 1, dtype=np.int64) * indices.shape[1]
    if indices.ndim != 1:
        raise ShapeError(f"{name}: input must have 1 or 2 axes, got {list(indices.shape)}")
    if offsets is None:
        raise ArgumentError(f"{name}: offsets are needed where input is a list; they say where bags begin")
    given = given_array(name, "offsets", offsets)[0]
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ShapeError(f"{name}: offsets must be a list of integers, got {given.dtype}{list(given.shape)}")
    bounds = given.astype(np.int64) if ends else np.append(given, indices.size).astype(INT64)
    if not bounds.size or bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > indices.size:
        raise ArgumentError(
            f"{name}: offsets must rise from 0 to at most the {indices.size} indices there are"
        )
    return bounds


def parse_nms(types: Types, where: str, threshold: object) -> Operation:
    """The boxes to keep."""
    boxes, scores = types
    if boxes.rank != 2 or boxes.shape[1] != 4:
        raise ShapeError(f"{where}: boxes must have shape (n, 4), got {list(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise ShapeError(
            f"{where}: scores must be a list of {boxes.shape[0]}, one per box, got {list(scores.shape)}"
        )
    if boxes.dtype.name not in ("float32", "float64", "float16") or scores.dtype != boxes.dtype:
        raise DTypeError(
            f"{where}: boxes and scores must be of one float type, got {boxes.dtype} and {scores.dtype}"
        )
    return made(Nms(real(where, "iou_threshold", threshold)), boxes, scores)


@public
def nms(boxes: A, scores: DLPack, iou_threshold: float, *, threads: int | None = None) -> A:
    """Greedy non-maximum suppression as torchvision.ops.nms: the boxes to keep (int64), best score first.

    boxes    (n, 4) as (x1, y1, x2, y2); scores (n); both of one float type
    A box is dropped when its intersection with a better kept box, divided by their union, is above `iou_threshold`.
    Equal scores keep the order of the boxes; a score that is NaN is the best.
    """
    kept, count = call(parse_nms, (boxes, scores), ("nms", iou_threshold), None, threads)
    return kept[: int(count[0])]
