"""Means of windows."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import ArgumentError
from cenote.functional.arguments import (
    Operation,
    Types,
    WindowArguments,
    accumulation,
    flag,
    operation_on,
    rules_of,
    whole,
    window_fields,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Accumulate, Layout1, Layout2, Layout3, Numbers, Padding, Rules
from cenote.ops.pool.average import AveragePool


def parse_average(
    types: Types, where: str, rank: int, kernel_size: Any, stride: Any, padding: Any, ceil_mode: Any,
    count_include_pad: Any, divisor_override: Any, dilation: Any, layout: Any, semantics: Any, accumulate: Any,
) -> Operation:  # fmt: skip
    """Means of windows."""
    rules, _ = rules_of(where, semantics, None)
    arguments = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    include = rules.include_pad
    if count_include_pad is not None:
        include = flag(where, "count_include_pad", count_include_pad)
    if include and rules.name == "tensorflow":
        raise ArgumentError(f"{where}: count_include_pad must be False with semantics='tensorflow', got True")
    divisor = 0
    if divisor_override is not None:
        # PyTorch's own samples divide by -2; nobody else allows it.
        divisor = whole(where, "divisor_override", divisor_override, None if rules.name == "torch" else 1)
        if divisor == 0:
            raise ArgumentError(f"{where}: divisor_override must not be zero, got 0 (leave it None for none)")
    shape, fields = window_fields(where, rank, arguments, layout, rules, types[0])
    op = AveragePool(
        **fields, count_include_pad=include, divisor_override=divisor, rounding=rules.rounding,
        accumulate=accumulation(where, accumulate, types[0].dtype),
    )  # fmt: skip
    return operation_on(op, types[0], shape)


def avg_pool1d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool | None = None,
    divisor_override: int | None = None,
    *,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window over 1 spatial axis: see avg_pool2d. Layouts: NCL, NLC, L."""
    rest = (
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        dilation,
        layout,
        semantics,
        accumulate,
    )
    return call(parse_average, (input,), ("avg_pool1d", 1, *rest), out, threads)


def avg_pool2d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool | None = None,
    divisor_override: int | None = None,
    *,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window of (N, C, H, W), (C, H, W) or (H, W), as torch.nn.functional.avg_pool2d.

    input              array of float64, float32, float16, bfloat16, int8, uint8, int16, int32 or int64
    count_include_pad  whether the divisor counts taps on the padding (never those that ceil_mode adds beyond it); by
                       default what the semantics say: True for "torch"
    divisor_override   one divisor for all windows: 1 or more (with "torch" semantics also negative, never 0)
    accumulate         what sums of floats are taken in: None, their own type (16-bit floats: float32), where a sum may
                       overflow though its mean does not, and terms that cancel may take small ones with them;
                       "float64", where neither happens to float32 and narrower types; "compensated", their own type,
                       keeping what each addition loses (Neumaier): terms cancel exactly, sums may overflow
    kernel_size, stride, padding, dilation, ceil_mode, out, layout, threads, semantics: see max_pool2d

    Floats are summed in at least float32. Integers are summed in 64 bits and rounded by the semantics: "torch"
    truncates, "tensorflow" goes to the nearest with halves away from zero, the others to the nearest with halves to
    even. NaN and infinities stay in the windows that hold them.
    """
    rest = (
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        dilation,
        layout,
        semantics,
        accumulate,
    )
    return call(parse_average, (input,), ("avg_pool2d", 2, *rest), out, threads)


def avg_pool3d(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool | None = None,
    divisor_override: int | None = None,
    *,
    dilation: Numbers = 1,
    out: A | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each window over 3 spatial axes: see avg_pool2d. Layouts: NCDHW, NDHWC, DHW."""
    rest = (
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        dilation,
        layout,
        semantics,
        accumulate,
    )
    return call(parse_average, (input,), ("avg_pool3d", 3, *rest), out, threads)
