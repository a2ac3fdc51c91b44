"""Pools over the whole map."""

from __future__ import annotations

from cenote.functional.arguments import TORCH
from cenote.functional.kinds import Map, Rules
from cenote.functional.record import function
from cenote.functional.types import Accumulate, NanRule
from cenote.ops.pool.gradient import PoolGradient
from cenote.ops.pool.lp import GlobalLpPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool


@function(gradient=PoolGradient)
def global_max_pool(input: Map, *, semantics: Rules = TORCH, nan: NanRule | None = None) -> GlobalMaxPool:
    """Largest value of the whole map: (N, C, H, W) gives (N, C, 1, 1). `layout` sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms); out, threads, nan: see max_pool2d.
    """
    return GlobalMaxPool(input.channels_last, nan or semantics.nan)


@function(gradient=PoolGradient)
def global_avg_pool(
    input: Map, *, semantics: Rules = TORCH, accumulate: Accumulate | None = None
) -> GlobalAveragePool:
    """Mean of the whole map: (N, C, H, W) gives (N, C, 1, 1); float32 means of 16 million elements are right to 1e-6.
    Layouts as in global_max_pool, types, rounding and accumulate as in avg_pool2d.
    """
    return GlobalAveragePool(input.channels_last, semantics.rounding, input.summed(accumulate))


@function(gradient=PoolGradient)
def global_lp_pool(
    input: Map, norm_type: float = 2.0, *, accumulate: Accumulate | None = None
) -> GlobalLpPool:
    """(sum |x|^p)^(1/p) of the whole map, p = norm_type: (N, C, H, W) gives (N, C, 1, 1). Layouts as in
    global_max_pool, accumulate as in lp_pool2d; float types only.
    """
    return GlobalLpPool(input.channels_last, norm_type, input.summed(accumulate))
