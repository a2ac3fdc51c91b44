"""Spatial pyramid pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cenote.core.errors import ArgumentError, shown
from cenote.functional.arguments import Operation, whole
from cenote.functional.kinds import Map, RulesOfExtremes
from cenote.functional.record import function
from cenote.ops.pool.pyramid import SpatialPyramidPool
from cenote.ops.pool.sparse_gradient import SparseGradient


@function(gradient=SparseGradient)
def spatial_pyramid_pool(
    input: Map,
    levels: Sequence[int] = (1, 2, 4),
    mode: Literal["max", "avg"] = "max",
    *,
    rules: RulesOfExtremes,
) -> Operation:
    """A vector of fixed length for a map of any size (He et al., arXiv 1406.4729): (N, C, H, W) gives
    (N, C sum(level^2)).

    levels  bins per axis of each level; each level is an adaptive pool to level x level bins (mode "max" or "avg"),
            so bins of maps smaller than that overlap
    The levels follow one another; within a level channels come first, then bins row by row: what flattening each
    (N, C, level, level) gives, for every `layout` alike. Other arguments as in max_pool2d, spatial axes by `layout`.
    """
    if not isinstance(levels, list | tuple) or not levels:
        raise ArgumentError(f"levels must be a sequence of numbers of bins, got {shown(levels)}")
    bins = tuple(whole("levels", level, 1) for level in levels)
    input.refuse_empty()
    rounding = rules.semantics.rounding
    op = SpatialPyramidPool(bins, input.rank, mode, input.channels_last, rules.of_nan, rounding)
    (y,) = op.infer(input.type)
    return Operation(op, (input.batched,), (y.shape if input.missing == 0 else y.shape[1:],))
