"""Rows of a table by index, combined: embedding_bag; and boxes that do not overlap: nms."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.types import INT64
from cenote.core.types import Array as Values
from cenote.functional.arguments import choice, flag, given_array
from cenote.functional.choice.indexing import Index, NoNorm, UnusedFlag, UnusedReal, as_index, row_of
from cenote.functional.kinds import Array, Early, Other
from cenote.functional.record import function
from cenote.functional.types import DLPack, Invalid
from cenote.kernels.selection.bags import NO_PADDING
from cenote.ops.base import Op
from cenote.ops.movement.embedding_bag import MODES, EmbeddingBag
from cenote.ops.reduction.non_max_suppression import Nms

Ends = Annotated[bool, Early("bool")]


def _bags(
    input: object,
    weight: DLPack,
    offsets: object,
    mode: object,
    per_sample_weights: object,
    include_last_offset: object,
) -> tuple[object, ...]:
    """The table, the indices as a list, where each bag begins and the last one ends, and the factors."""
    choice("mode", mode, MODES)
    indices = given_array("input", as_index(input))[0]
    bounds = _bounds(indices, offsets, flag("include_last_offset", include_last_offset))
    if per_sample_weights is None:
        return weight, indices.reshape(-1), bounds
    factors = given_array("per_sample_weights", per_sample_weights)[0]
    if mode != "sum":
        raise ArgumentError(f"per_sample_weights needs mode 'sum', got '{mode}'")
    if factors.shape != indices.shape:
        raise ShapeError(
            f"per_sample_weights {list(factors.shape)} must have the shape of input, {list(indices.shape)}"
        )
    return weight, indices.reshape(-1), bounds, factors.reshape(-1)


def _bounds(indices: Values, offsets: object, ends: bool) -> Values:
    """The places where each bag begins, and where the last one ends."""
    if indices.ndim == 2:
        if offsets is not None:
            raise ArgumentError("offsets must be None where input has 2 axes, whose rows are the bags")
        return np.arange(indices.shape[0] + 1, dtype=np.int64) * indices.shape[1]
    if indices.ndim != 1:
        raise ShapeError(f"input must have 1 or 2 axes, got {list(indices.shape)}")
    if offsets is None:
        raise ArgumentError("offsets are needed where input is a list; they say where bags begin")
    given = given_array("offsets", offsets)[0]
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ShapeError(f"offsets must be a list of integers, got {given.dtype}{list(given.shape)}")
    bounds = given.astype(np.int64) if ends else np.append(given, indices.size).astype(INT64)
    if not bounds.size or bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > indices.size:
        raise ArgumentError(f"offsets must rise from 0 to at most the {indices.size} indices there are")
    return bounds


@function(order=("weight",), arrays=_bags)
def embedding_bag(
    input: Index,
    weight: Array,
    offsets: Other | None = None,
    max_norm: NoNorm = None,
    norm_type: UnusedReal = 2.0,
    scale_grad_by_freq: UnusedFlag = False,
    mode: Literal["sum", "mean", "max"] = "mean",
    sparse: UnusedFlag = False,
    per_sample_weights: Other | None = None,
    include_last_offset: Ends = False,
    padding_idx: int | None = None,
    *,
    invalid: Invalid = "raise",
) -> Op:
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
    row = row_of(weight, padding_idx)
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise DTypeError(
            f"per_sample_weights must be {weight.dtype} as weight is, got {per_sample_weights.dtype}"
        )
    return EmbeddingBag(mode, NO_PADDING if row is None else row, invalid)


def _kept(result: tuple[Values, Values]) -> Values:
    """The boxes that are kept, of a list and their number."""
    kept, count = result
    return kept[: int(count[0])]


@function(out="", then=_kept)
def nms(boxes: Array, scores: Other, iou_threshold: float) -> Op:
    """Greedy non-maximum suppression as torchvision.ops.nms: the boxes to keep (int64), best score first.

    boxes    (n, 4) as (x1, y1, x2, y2); scores (n); both of one float type
    A box is dropped when its intersection with a better kept box, divided by their union, is above `iou_threshold`.
    Equal scores keep the order of the boxes; a score that is NaN is the best.
    """
    if boxes.rank != 2 or boxes.shape[1] != 4:
        raise ShapeError(f"boxes must have shape (n, 4), got {list(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise ShapeError(f"scores must be a list of {boxes.shape[0]}, one per box, got {list(scores.shape)}")
    if boxes.dtype.name not in ("float32", "float64", "float16") or scores.dtype != boxes.dtype:
        raise DTypeError(f"boxes and scores must be of one float type, got {boxes.dtype} and {scores.dtype}")
    return Nms(iou_threshold)
