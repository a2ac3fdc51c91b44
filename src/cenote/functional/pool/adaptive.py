"""Pools to a given output size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from cenote.core.errors import ArgumentError, shown
from cenote.functional.arguments import (
    Operation,
    Types,
    accumulation,
    flag,
    form,
    operation_on,
    rules_of,
    whole,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Accumulate, Layout1, Layout2, Layout3, NanRule, Rules
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool


def _output(where: str, value: Any, rank: int) -> tuple[int | None, ...]:
    """The output size; None keeps an extent."""
    items = value if isinstance(value, list | tuple) else (value,) * rank
    if len(items) not in (1, rank) or (rank > 1 and len(items) == 1):
        raise ArgumentError(f"{where}: output_size must be one number or {rank}, got {shown(tuple(items))}")
    return tuple(None if item is None else whole(where, "output_size", item, 0) for item in items)


def parse_adaptive_max(
    types: Types,
    where: str,
    rank: int,
    output_size: Any,
    return_indices: Any,
    layout: Any,
    semantics: Any,
    nan: Any,
) -> Operation:
    """The largest values of ranges."""
    rules, nan_rule = rules_of(where, semantics, nan)
    output = _output(where, output_size, rank)
    # A plain map must be asked for (layout="HW"): PyTorch's own error samples have it that rank 2 is a mistake.
    shape = form(where, types[0].shape, rank, layout, plain=False)
    indices = flag(where, "return_indices", return_indices)
    op = AdaptiveMaxPool(output, shape.channels_last, indices, rules.index, nan_rule)
    return operation_on(op, types[0], shape)


def parse_adaptive_average(
    types: Types, where: str, rank: int, output_size: Any, layout: Any, semantics: Any, accumulate: Any
) -> Operation:
    """Means of ranges."""
    rules, _ = rules_of(where, semantics, None)
    output = _output(where, output_size, rank)
    shape = form(where, types[0].shape, rank, layout, plain=False)
    way = accumulation(where, accumulate, types[0].dtype)
    return operation_on(
        AdaptiveAveragePool(output, shape.channels_last, rules.rounding, way), types[0], shape
    )


@overload
def adaptive_max_pool1d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout1 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def adaptive_max_pool1d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout1 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def adaptive_max_pool1d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window over 1 spatial axis: see adaptive_max_pool2d."""
    rest = (output_size, return_indices, layout, semantics, nan)
    return call(parse_adaptive_max, (input,), ("adaptive_max_pool1d", 1, *rest), out, threads)


@overload
def adaptive_max_pool2d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout2 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def adaptive_max_pool2d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout2 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def adaptive_max_pool2d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window, as torch.nn.functional.adaptive_max_pool2d.

    output_size  number or pair; None keeps an extent, 0 gives an empty result. Window o of an axis covers
                 floor(o in / out) to ceil((o + 1) in / out), in exact integers
    layout       "NCHW", "NHWC" (batch optional), or "HW" for a plain map, which must be asked for
    return_indices, out, threads, semantics, nan: see max_pool2d
    """
    rest = (output_size, return_indices, layout, semantics, nan)
    return call(parse_adaptive_max, (input,), ("adaptive_max_pool2d", 2, *rest), out, threads)


@overload
def adaptive_max_pool3d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ..., *,
    out: A | None = ..., layout: Layout3 = ..., threads: int | None = ..., semantics: Rules = ...,
    nan: NanRule | None = ...,
) -> A: ...  # fmt: skip
@overload
def adaptive_max_pool3d(
    input: A, output_size: int | Sequence[int | None] | None, return_indices: bool = ..., *,
    out: A | tuple[A, A] | None = ..., layout: Layout3 = ..., threads: int | None = ...,
    semantics: Rules = ..., nan: NanRule | None = ...,
) -> Any: ...  # fmt: skip
def adaptive_max_pool3d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    return_indices: bool = False,
    *,
    out: A | tuple[A, A] | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    nan: NanRule | None = None,
) -> Any:
    """Largest value of each adaptive window over 3 spatial axes: see adaptive_max_pool2d."""
    rest = (output_size, return_indices, layout, semantics, nan)
    return call(parse_adaptive_max, (input,), ("adaptive_max_pool3d", 3, *rest), out, threads)


def adaptive_avg_pool1d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    *,
    out: A | None = None,
    layout: Layout1 = "NCL",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window over 1 spatial axis: see adaptive_avg_pool2d."""
    arguments = ("adaptive_avg_pool1d", 1, output_size, layout, semantics, accumulate)
    return call(parse_adaptive_average, (input,), arguments, out, threads)


def adaptive_avg_pool2d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    *,
    out: A | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window, as torch.nn.functional.adaptive_avg_pool2d: see adaptive_max_pool2d, avg_pool2d
    (`accumulate` too)."""
    arguments = ("adaptive_avg_pool2d", 2, output_size, layout, semantics, accumulate)
    return call(parse_adaptive_average, (input,), arguments, out, threads)


def adaptive_avg_pool3d(
    input: A,
    output_size: int | Sequence[int | None] | None,
    *,
    out: A | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
    semantics: Rules = "torch",
    accumulate: Accumulate | None = None,
) -> A:
    """Mean of each adaptive window over 3 spatial axes: see adaptive_avg_pool2d."""
    arguments = ("adaptive_avg_pool3d", 3, output_size, layout, semantics, accumulate)
    return call(parse_adaptive_average, (input,), arguments, out, threads)
