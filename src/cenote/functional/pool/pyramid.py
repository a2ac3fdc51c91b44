"""Spatial pyramid pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from cenote.core.errors import ArgumentError, shown
from cenote.core.types import TensorType
from cenote.functional.arguments import (
    Operation,
    Types,
    choice,
    form,
    layout_rank,
    refuse_empty,
    rules_of,
    whole,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Layout, NanRule, Rules
from cenote.ops.pool.pyramid import SpatialPyramidPool


def parse_pyramid(
    types: Types, where: str, rank: int, levels: Any, mode: Any, layout: Any, semantics: Any, nan: Any
) -> Operation:
    """Bins of several levels."""
    rules, nan_rule = rules_of(where, semantics, nan)
    if not isinstance(levels, list | tuple) or not levels:
        raise ArgumentError(f"{where}: levels must be a sequence of numbers of bins, got {shown(levels)}")
    bins = tuple(whole(where, "levels", level, 1) for level in levels)
    shape = form(where, types[0].shape, rank, layout)
    refuse_empty(where, shape)
    kind = choice(where, "mode", mode, ("max", "avg"))
    op = SpatialPyramidPool(bins, rank, kind, shape.channels_last, nan_rule, rules.rounding)
    (y,) = op.infer(TensorType(types[0].dtype, shape.batched))
    return Operation(op, (shape.batched,), (y.shape if shape.missing == 0 else y.shape[1:],))


def spatial_pyramid_pool(
    input: A,
    levels: Sequence[int] = (1, 2, 4),
    mode: Literal["max", "avg"] = "max",
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> A:
    """A vector of fixed length for a map of any size (He et al., arXiv 1406.4729): (N, C, H, W) gives
    (N, C sum(level^2)).

    levels  bins per axis of each level; each level is an adaptive pool to level x level bins (mode "max" or "avg"),
            so bins of maps smaller than that overlap
    The levels follow one another; within a level channels come first, then bins row by row: what flattening each
    (N, C, level, level) gives, for every `layout` alike. Other arguments as in max_pool2d, spatial axes by `layout`.
    """
    rank = layout_rank("spatial_pyramid_pool", layout)
    rest = (tuple(levels) if isinstance(levels, list | tuple) else levels, mode, layout, semantics, nan)
    return call(parse_pyramid, (input,), ("spatial_pyramid_pool", rank, *rest), out, threads)
