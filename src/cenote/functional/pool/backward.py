"""Gradients: for each differentiable pool `f(input, ...)` a function `f_backward(grad_output, input, ...)`.

    y = F.avg_pool2d(x, 3, 2, padding=1)
    grad_x = F.avg_pool2d_backward(grad_y, x, 3, 2, padding=1)

The arguments after `grad_output` are those of the pool, but for return_indices. `grad_output` has the shape and type of
the pool's result, the gradient those of `input`; float types only. Max pools (and stochastic and fractional ones) send
all of a gradient to the element whose index they give; with `indices=` (what return_indices gave) it is not searched
again. Sums run in a fixed order: the same bits on every run. cenote.torch makes autograd functions of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import Operation, form, layout_rank, semantics_named, type_of
from cenote.functional.dispatch import Parser, call
from cenote.functional.pool import adaptive, average, global_pools, lp, pyramid, regions, unpool, weighted
from cenote.functional.pool import max as maximum
from cenote.functional.types import A, DLPack, Layout2, Layout3, Numbers, Rules
from cenote.ops.base import Op
from cenote.ops.pool.gradient import IndexGradient, PoolGradient
from cenote.ops.pool.sparse_gradient import SparseGradient

Function = Callable[..., Any]


@cache
def _backward_parser(parser: Parser, sparse: bool) -> Parser:
    """A parser for the gradient of what `parser` gives: its inputs are grad_output and the pool's."""

    def parse(types: tuple[TensorType, ...], *arguments: Any) -> Operation:
        grad, x = types[:2]
        forward = parser(types[1:], *arguments)
        shape = forward.shapes[0]
        if grad.shape != shape:
            raise ShapeError(
                f"{arguments[0]}: grad_output must have the output's shape {list(shape)}, got {list(grad.shape)}"
            )
        batched = tuple(TensorType(t.dtype, s) for t, s in zip(types[1:], forward.batched, strict=True))
        above = forward.op.infer(*batched)[0].shape
        op: Op = SparseGradient(forward.op) if sparse else PoolGradient(forward.op)
        return Operation(op, (above, *forward.batched), (x.shape,))

    return parse


def _parse_indices(types: tuple[TensorType, ...], where: str, rank: int, *rest: Any) -> Operation:
    """The gradient by given indices: inputs are grad_output, indices and the pool's input (for its shape)."""
    layout, semantics, plain = rest
    grad, indices, x = types
    if indices.shape != grad.shape or indices.dtype != INT64:
        raise ShapeError(
            f"{where}: indices must be int64 of grad_output's shape {list(grad.shape)}, got {indices.dtype} "
            f"{list(indices.shape)}"
        )
    above, below = (form(where, t.shape, rank, layout, plain) for t in (grad, x))
    rule = semantics_named(where, semantics).index
    op = IndexGradient(below.spatial, rule, below.channels_last)
    return Operation(op, (above.batched, above.batched, below.batched), (x.shape,))


def _gradient_of(
    forward: Function,
    parser: Parser,
    *,
    indexed: bool = False,
    sparse: bool = False,
    plain: bool = True,
    **fixed: Any,
) -> Function:
    """The backward function of `forward`, whose arguments `parser` reads.

    What the parser takes after the inputs' types and the function's name are arguments of the function, by name, and
    what is `fixed`: a number of spatial axes (`rank`; else the layout says it), or which function of a family this is.
    `indexed`: it may be given indices. `plain`: it takes maps without batch and channels. Raises TypeError for a
    parser that takes anything else.
    """
    signature = inspect.signature(forward)
    wanted = tuple(inspect.signature(parser).parameters)[2:]
    by_layout = "rank" in wanted and "rank" not in fixed
    unknown = {*wanted, *fixed} - {*signature.parameters, *(fixed.keys() & set(wanted)), "rank"}
    if unknown:
        raise TypeError(f"{forward.__name__}: {sorted(unknown)} are no arguments of it and its parser")
    name = f"{forward.__name__}_backward"
    backward = _backward_parser(parser, sparse)
    second = "indices" if "indices" in signature.parameters else None

    def function(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        if second and indices is not None:
            kwargs[second], indices = indices, None
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{name}: {error}") from None
        bound.apply_defaults()
        given = {**bound.arguments, **fixed, "return_indices": False}
        if by_layout:
            given["rank"] = layout_rank(name, given["layout"])
        inputs = (given["input"], given[second]) if second else (given["input"],)
        if indices is not None:
            if not indexed:
                raise ArgumentError(f"{name}: takes no indices")
            rest = (name, given["rank"], given["layout"], given["semantics"], plain)
            return call(_parse_indices, (grad_output, indices, *inputs), rest, given["out"], given["threads"])
        arguments = (name, *(_as_tuple(given[key]) for key in wanted))
        return call(backward, (grad_output, *inputs), arguments, given["out"], given["threads"])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Gradient of {forward.__name__} with respect to its input: grad_output, then the arguments of "
        f"{forward.__name__}."
    )
    return function


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


max_pool1d_backward = _gradient_of(maximum.max_pool1d, maximum.parse_max, rank=1, largest=True, indexed=True)
max_pool2d_backward = _gradient_of(maximum.max_pool2d, maximum.parse_max, rank=2, largest=True, indexed=True)
max_pool3d_backward = _gradient_of(maximum.max_pool3d, maximum.parse_max, rank=3, largest=True, indexed=True)
min_pool_backward = _gradient_of(maximum.min_pool, maximum.parse_max, largest=False, indexed=True)
dilation_backward = _gradient_of(maximum.dilation, maximum.parse_morphology, largest=True)
erosion_backward = _gradient_of(maximum.erosion, maximum.parse_morphology, largest=False)
avg_pool1d_backward = _gradient_of(average.avg_pool1d, average.parse_average, rank=1)
avg_pool2d_backward = _gradient_of(average.avg_pool2d, average.parse_average, rank=2)
avg_pool3d_backward = _gradient_of(average.avg_pool3d, average.parse_average, rank=3)
lp_pool1d_backward = _gradient_of(lp.lp_pool1d, lp.parse_lp, rank=1)
lp_pool2d_backward = _gradient_of(lp.lp_pool2d, lp.parse_lp, rank=2)
lp_pool3d_backward = _gradient_of(lp.lp_pool3d, lp.parse_lp, rank=3)
adaptive_max_pool1d_backward = _gradient_of(
    adaptive.adaptive_max_pool1d, adaptive.parse_adaptive_max, rank=1, indexed=True, plain=False
)
adaptive_max_pool2d_backward = _gradient_of(
    adaptive.adaptive_max_pool2d, adaptive.parse_adaptive_max, rank=2, indexed=True, plain=False
)
adaptive_max_pool3d_backward = _gradient_of(
    adaptive.adaptive_max_pool3d, adaptive.parse_adaptive_max, rank=3, indexed=True, plain=False
)
adaptive_avg_pool1d_backward = _gradient_of(
    adaptive.adaptive_avg_pool1d, adaptive.parse_adaptive_average, rank=1
)
adaptive_avg_pool2d_backward = _gradient_of(
    adaptive.adaptive_avg_pool2d, adaptive.parse_adaptive_average, rank=2
)
adaptive_avg_pool3d_backward = _gradient_of(
    adaptive.adaptive_avg_pool3d, adaptive.parse_adaptive_average, rank=3
)
global_max_pool_backward = _gradient_of(global_pools.global_max_pool, global_pools.parse_global_max)
global_avg_pool_backward = _gradient_of(global_pools.global_avg_pool, global_pools.parse_global_average)
global_lp_pool_backward = _gradient_of(global_pools.global_lp_pool, global_pools.parse_global_lp)
max_unpool1d_backward = _gradient_of(unpool.max_unpool1d, unpool.parse_unpool, rank=1, sparse=True)
max_unpool2d_backward = _gradient_of(unpool.max_unpool2d, unpool.parse_unpool, rank=2, sparse=True)
max_unpool3d_backward = _gradient_of(unpool.max_unpool3d, unpool.parse_unpool, rank=3, sparse=True)
soft_pool_backward = _gradient_of(weighted.soft_pool, weighted.parse_soft)
median_pool_backward = _gradient_of(weighted.median_pool, weighted.parse_median)
gem_pool_backward = _gradient_of(weighted.gem_pool, weighted.parse_gem)
stochastic_pool_backward = _gradient_of(weighted.stochastic_pool, weighted.parse_stochastic, indexed=True)
blur_pool_backward = _gradient_of(weighted.blur_pool, weighted.parse_blur, sparse=True)
spatial_pyramid_pool_backward = _gradient_of(pyramid.spatial_pyramid_pool, pyramid.parse_pyramid, sparse=True)


def fractional_max_pool2d_backward(
    grad_output: A,
    input: A,
    indices: DLPack,
    *,
    out: A | None = None,
    layout: Layout2 = "NCHW",
    threads: int | None = None,
) -> A:
    """Gradient of fractional_max_pool2d by the indices that it gave (return_indices=True)."""
    arguments = ("fractional_max_pool2d_backward", 2, layout, "torch", True)
    return call(_parse_indices, (grad_output, indices, input), arguments, out, threads)


def fractional_max_pool3d_backward(
    grad_output: A,
    input: A,
    indices: DLPack,
    *,
    out: A | None = None,
    layout: Layout3 = "NCDHW",
    threads: int | None = None,
) -> A:
    """Gradient of fractional_max_pool3d by the indices that it gave (return_indices=True)."""
    arguments = ("fractional_max_pool3d_backward", 3, layout, "torch", True)
    return call(_parse_indices, (grad_output, indices, input), arguments, out, threads)


def _regions_backward(parser: Parser, where: str, grad: Any, input: Any, boxes: Any, *rest: Any) -> Any:
    arguments, split, out, threads = rest
    dtype = type_of(where, "input", input)
    rois = regions.read_boxes(where, boxes, dtype)
    arrays: tuple[Any, ...] = (grad, input, rois.astype(dtype))
    if split:
        images = rois[:, 0].astype(INT64)
        arrays = (grad, input, np.ascontiguousarray(rois[:, 1:]).astype(dtype), images)
    return call(_backward_parser(parser, True), arrays, (where, *arguments), out, threads)


def roi_pool_backward(
    grad_output: A,
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Gradient of roi_pool with respect to its input; boxes get none."""
    rest = ((output_size, spatial_scale, False), False, out, threads)
    return _regions_backward(regions.parse_roi_pool, "roi_pool_backward", grad_output, input, boxes, *rest)


def ps_roi_pool_backward(
    grad_output: A,
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    *,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Gradient of ps_roi_pool with respect to its input; boxes get none."""
    rest = ((output_size, spatial_scale, True), False, out, threads)
    return _regions_backward(regions.parse_roi_pool, "ps_roi_pool_backward", grad_output, input, boxes, *rest)


def roi_align_backward(
    grad_output: A,
    input: A,
    boxes: DLPack | Sequence[DLPack],
    output_size: Numbers,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    mode: Literal["max", "avg"] = "avg",
    out: A | None = None,
    threads: int | None = None,
    semantics: Rules = "torch",
) -> A:
    """Gradient of roi_align with respect to its input; boxes get none."""
    arguments = (output_size, spatial_scale, sampling_ratio, aligned, mode, semantics)
    rest = (arguments, True, out, threads)
    return _regions_backward(regions.parse_align, "roi_align_backward", grad_output, input, boxes, *rest)
