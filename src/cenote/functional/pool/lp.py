"""Lp norms of windows."""

from __future__ import annotations

from typing import Any

from cenote.functional.arguments import (
    TORCH,
    Operation,
    Types,
    WindowArguments,
    accumulation,
    operation_on,
    real,
    rules_of,
    window_fields,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Accumulate, Layout1, Layout2, Layout3, Numbers, Padding, Rules
from cenote.ops.pool.lp import LpPool


def parse_lp(
    types: Types, where: str, rank: int, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any, padding: Any,
    dilation: Any, layout: Any, semantics: Any, accumulate: Any,
) -> Operation:  # fmt: skip
    """Norms of windows."""
    rules, _ = rules_of(where, TORCH.name if semantics is None else semantics, None)
    p = real(where, "norm_type", norm_type)
    arguments = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, arguments, layout, rules, types[0])
    way = accumulation(where, accumulate, types[0].dtype)
    signed = rules.signed_powers and semantics is not None
    op = LpPool(**fields, p=p, signed_powers=signed, accumulate=way)
    return operation_on(op, types[0], shape)


def lp_pool1d(
    input: A,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Padding = 0,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """Lp norm of each window over 1 spatial axis: see lp_pool2d. Layouts: NCL, NLC, L."""
    rest = (norm_type, kernel_size, stride, ceil_mode, padding, dilation, layout, semantics, accumulate)
    return call(parse_lp, (input,), ("lp_pool1d", 1, *rest), out, threads)


def lp_pool2d(
    input: A,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Padding = 0,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """(sum |x|^p)^(1/p) of each window of (N, C, H, W), (C, H, W) or (H, W); p = norm_type, inf for the largest |x|.

    The arguments are those of torch.nn.functional.lp_pool2d, and padding and dilation as in max_pool2d. Without
    `semantics` the result is the norm of the real elements, of sizes as PyTorch's. semantics="torch" asks for what
    PyTorch computes: sum x^p without the absolute value (NaN for odd p and negative sums), and windows that ceil_mode
    lets overhang scaled as if they were full: for [1, 2, 3, 4, 5], p 2, window 2, the last value is 7.07 then, not 5.

    Float types only; sums are taken in at least float32, so float16 does not overflow unless its result does. The
    squares of float32 beyond 1.8e19 do, and those below 1e-23 vanish: accumulate="float64" takes them in float64
    ("compensated": see avg_pool2d). Powers other than 1 and 2 are float64 anyway.
    """
    rest = (norm_type, kernel_size, stride, ceil_mode, padding, dilation, layout, semantics, accumulate)
    return call(parse_lp, (input,), ("lp_pool2d", 2, *rest), out, threads)


def lp_pool3d(
    input: A,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Padding = 0,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> A:
    """Lp norm of each window over 3 spatial axes: see lp_pool2d. Layouts: NCDHW, NDHWC, DHW."""
    rest = (norm_type, kernel_size, stride, ceil_mode, padding, dilation, layout, semantics, accumulate)
    return call(parse_lp, (input,), ("lp_pool3d", 3, *rest), out, threads)
