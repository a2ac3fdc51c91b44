"""Pools over the whole map."""

from __future__ import annotations

from typing import Any

from cenote.core.types import TensorType
from cenote.functional.arguments import (
    Form,
    Operation,
    Types,
    accumulation,
    form,
    layout_rank,
    operation_on,
    real,
    rules_of,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Accumulate, Layout, NanRule, Rules
from cenote.ops.pool.lp import GlobalLpPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool


def _form(where: str, x: TensorType, layout: Any) -> Form:
    return form(where, x.shape, layout_rank(where, layout), layout)


def parse_global_max(types: Types, where: str, layout: Any, semantics: Any, nan: Any) -> Operation:
    """The largest values of maps."""
    _, nan_rule = rules_of(where, semantics, nan)
    shape = _form(where, types[0], layout)
    return operation_on(GlobalMaxPool(shape.channels_last, nan_rule), types[0], shape)


def parse_global_average(types: Types, where: str, layout: Any, semantics: Any, accumulate: Any) -> Operation:
    """Means of maps."""
    rules, _ = rules_of(where, semantics, None)
    shape = _form(where, types[0], layout)
    way = accumulation(where, accumulate, types[0].dtype)
    return operation_on(GlobalAveragePool(shape.channels_last, rules.rounding, way), types[0], shape)


def parse_global_lp(types: Types, where: str, norm_type: Any, layout: Any, accumulate: Any) -> Operation:
    """Norms of maps."""
    p = real(where, "norm_type", norm_type)
    shape = _form(where, types[0], layout)
    way = accumulation(where, accumulate, types[0].dtype)
    return operation_on(GlobalLpPool(shape.channels_last, p, way), types[0], shape)


def global_max_pool(
    input: A,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> A:
    """Largest value of the whole map: (N, C, H, W) gives (N, C, 1, 1). `layout` sets the number of spatial axes
    ("NCL" 1, "NCHW" 2, "NCDHW" 3, and their channels-last and plain forms); out, threads, nan: see max_pool2d.
    """
    return call(parse_global_max, (input,), ("global_max_pool", layout, semantics, nan), out, threads)


def global_avg_pool(
    input: A,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of the whole map: (N, C, H, W) gives (N, C, 1, 1); float32 means of 16 million elements are right to 1e-6.
    Layouts as in global_max_pool, types, rounding and accumulate as in avg_pool2d.
    """
    arguments = ("global_avg_pool", layout, semantics, accumulate)
    return call(parse_global_average, (input,), arguments, out, threads)


def global_lp_pool(
    input: A,
    norm_type: float = 2.0,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """(sum |x|^p)^(1/p) of the whole map, p = norm_type: (N, C, H, W) gives (N, C, 1, 1). Layouts as in
    global_max_pool, accumulate as in lp_pool2d; float types only.
    """
    return call(parse_global_lp, (input,), ("global_lp_pool", norm_type, layout, accumulate), out, threads)
