"""Pools that weight elements by their size, medians, and anti-aliased subsampling."""

from __future__ import annotations

from typing import Any, Literal, overload

from cenote.functional.arguments import (
    Operation,
    Types,
    WindowArguments,
    choice,
    flag,
    form,
    layout_rank,
    numbers,
    operation_on,
    real,
    refuse_empty,
    rules_of,
    seed_of,
    window_fields,
)
from cenote.functional.dispatch import call
from cenote.functional.types import A, Layout, Numbers, Padding, Rules
from cenote.ops.pool.blur import BORDERS, BlurPool
from cenote.ops.pool.median import MedianPool
from cenote.ops.pool.weighted import GemPool, SoftPool, StochasticPool


def parse_soft(
    types: Types, where: str, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, layout: Any, semantics: Any,
) -> Operation:  # fmt: skip
    """Means weighted by exp(x)."""
    rules, _ = rules_of(where, semantics, None)
    window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, window, layout, rules, types[0])
    return operation_on(SoftPool(**fields), types[0], shape)


def parse_median(
    types: Types, where: str, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, layout: Any, semantics: Any,
) -> Operation:  # fmt: skip
    """Medians of windows."""
    rules, _ = rules_of(where, semantics, None)
    window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, window, layout, rules, types[0])
    return operation_on(MedianPool(**fields), types[0], shape)


def parse_gem(
    types: Types, where: str, rank: int, p: Any, eps: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, layout: Any, semantics: Any,
) -> Operation:  # fmt: skip
    """Generalised means."""
    rules, _ = rules_of(where, semantics, None)
    if kernel_size is None:
        whole_map = form(where, types[0].shape, rank, layout)
        refuse_empty(where, whole_map)
        kernel_size, stride = whole_map.spatial, (1,) * rank
    window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, window, layout, rules, types[0])
    return operation_on(
        GemPool(**fields, p=real(where, "p", p), eps=real(where, "eps", eps)), types[0], shape
    )


def parse_stochastic(
    types: Types, where: str, rank: int, seed: Any, training: Any, return_indices: Any, kernel_size: Any, stride: Any,
    padding: Any, dilation: Any, ceil_mode: Any, layout: Any, semantics: Any,
) -> Operation:  # fmt: skip
    """An element of each window, drawn by its size."""
    rules, _ = rules_of(where, semantics, None)
    key = seed_of(where, seed)
    expected = not flag(where, "training", training)
    indices = flag(where, "return_indices", return_indices)
    window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    shape, fields = window_fields(where, rank, window, layout, rules, types[0])
    return operation_on(
        StochasticPool(**fields, seed=key, expected=expected, return_indices=indices), types[0], shape
    )


def parse_blur(
    types: Types, where: str, rank: int, filter_size: Any, stride: Any, border: Any, layout: Any
) -> Operation:
    """Anti-aliased subsampling."""
    window = numbers(where, "filter_size", filter_size, rank, 1)
    step = numbers(where, "stride", stride, rank, 1)
    mode = choice(where, "border", border, tuple(BORDERS))
    shape = form(where, types[0].shape, rank, layout)
    refuse_empty(where, shape)
    return operation_on(BlurPool(window, step, mode, shape.channels_last), types[0], shape)


def soft_pool(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """sum x exp(x) / sum exp(x) of each window (Stergiou et al., arXiv 2101.00440); never overflows. Float types.

    Arguments as in max_pool2d; `layout` also sets the number of spatial axes ("NCL" 1, "NCHW" 2, "NCDHW" 3).
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    rank = layout_rank("soft_pool", layout)
    return call(parse_soft, (input,), ("soft_pool", rank, *window, layout, semantics), out, threads)


def median_pool(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Median of the real elements of each window; of an even number, the mean of the middle two (truncated for
    integers). NaN propagates. Arguments as in max_pool2d, spatial axes by `layout`.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    rank = layout_rank("median_pool", layout)
    return call(parse_median, (input,), ("median_pool", rank, *window, layout, semantics), out, threads)


def gem_pool(
    input: A,
    p: float = 3.0,
    eps: float = 1e-6,
    kernel_size: Numbers | None = None,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Generalised mean (mean max(x, eps)^p)^(1/p) of each window, without kernel_size of the whole map (Radenovic et
    al., arXiv 1711.02512). p = 1 is the mean, inf the maximum. Float types; other arguments as in max_pool2d, spatial
    axes by `layout`; padding takes no part.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    rank = layout_rank("gem_pool", layout)
    return call(parse_gem, (input,), ("gem_pool", rank, p, eps, *window, layout, semantics), out, threads)


@overload
def stochastic_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ..., *,
    seed: int = ..., training: bool = ..., out: A | None = ..., layout: Layout = ...,
    threads: int | None = ..., semantics: Rules = ...,
) -> A: ...  # fmt: skip
@overload
def stochastic_pool(
    input: A, kernel_size: Numbers, stride: Numbers | None = ..., padding: Padding = ...,
    dilation: Numbers = ..., ceil_mode: bool = ..., return_indices: bool = ..., *, seed: int = ...,
    training: bool = ..., out: A | tuple[A, A] | None = ..., layout: Layout = ...,
    threads: int | None = ..., semantics: Rules = ...,
) -> Any: ...  # fmt: skip
def stochastic_pool(
    input: A,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    seed: int = 0,
    training: bool = True,
    out: A | tuple[A, A] | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
    semantics: Rules = "torch",
) -> Any:
    """An element of each window, drawn with probability max(x, 0) / sum max(x, 0) (Zeiler and Fergus, arXiv
    1301.3557); with training=False the mean under these probabilities. Where nothing is positive all elements are
    equally likely.

    The draws depend on `seed` (0 to 2^64 - 1) and the output's position alone (Philox-4x32-10): the same bits for any
    number of threads, on every machine. Float types; other arguments as in max_pool2d, spatial axes by `layout`.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    rank = layout_rank("stochastic_pool", layout)
    rest = (seed, training, return_indices, *window, layout, semantics)
    return call(parse_stochastic, (input,), ("stochastic_pool", rank, *rest), out, threads)


def blur_pool(
    input: A,
    filter_size: Numbers = 4,
    stride: Numbers = 2,
    *,
    border: Literal["reflect", "replicate", "zeros"] = "reflect",
    out: A | None = None,
    layout: Layout = "NCHW",
    threads: int | None = None,
) -> A:
    """Filter by binomial weights (3 taps: 1 2 1 / 4), then keep every stride-th element: subsampling that does not
    alias (Zhang, arXiv 1904.11486). The result has ceil(in / stride) elements per axis.

    filter_size  number, or one per axis; (k - 1) // 2 elements are added before and k // 2 after each axis
    border       how: "reflect", "replicate" or "zeros"
    Float types; layout (which sets the spatial axes), out, threads: see max_pool2d.
    """
    rank = layout_rank("blur_pool", layout)
    return call(parse_blur, (input,), ("blur_pool", rank, filter_size, stride, border, layout), out, threads)
