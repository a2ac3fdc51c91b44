"""Lp norms of windows."""

from __future__ import annotations

from cenote.functional.arguments import TORCH, WindowArguments
from cenote.functional.kinds import Map, Rules
from cenote.functional.record import function
from cenote.functional.types import Accumulate, Numbers, Padding
from cenote.ops.pool.gradient import PoolGradient
from cenote.ops.pool.lp import LpPool


@function(
    ranks=(1, 2, 3),
    twins="Lp norm of each window over {axes}: see lp_pool2d. Layouts: {layouts}.",
    gradient=PoolGradient,
)
def lp_pool(
    input: Map,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
    *,
    padding: Padding = 0,
    dilation: Numbers = 1,
    semantics: Rules | None = None,
    accumulate: Accumulate | None = None,
) -> LpPool:
    """(sum |x|^p)^(1/p) of each window of (N, C, H, W), (C, H, W) or (H, W); p = norm_type, inf for the largest |x|.

    The arguments are those of torch.nn.functional.lp_pool2d, and padding and dilation as in max_pool2d. Without
    `semantics` the result is the norm of the real elements, of sizes as PyTorch's. semantics="torch" asks for what
    PyTorch computes: sum x^p without the absolute value (NaN for odd p and negative sums), and windows that ceil_mode
    lets overhang scaled as if they were full: for [1, 2, 3, 4, 5], p 2, window 2, the last value is 7.07 then, not 5.

    Float types only; sums are taken in at least float32, so float16 does not overflow unless its result does. The
    squares of float32 beyond 1.8e19 do, and those below 1e-23 vanish: accumulate="float64" takes them in float64
    ("compensated": see avg_pool2d). Powers other than 1 and 2 are float64 anyway.
    """
    fields = input.windows(
        WindowArguments(kernel_size, stride, padding, dilation, ceil_mode), semantics or TORCH
    )
    signed = semantics is not None and semantics.signed_powers
    return LpPool(**fields, p=norm_type, signed_powers=signed, accumulate=input.summed(accumulate))
