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
from types import ModuleType
from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.pool_semantics import semantics_named
from cenote.core.types import INT64, TensorType
from cenote.functional import adaptive, average, global_pools, lp, pyramid, regions, unpool, weighted
from cenote.functional import max as maximum
from cenote.functional.arguments import form, layout_rank
from cenote.functional.dispatch import Plan, Planner, call
from cenote.functional.types import A, DLPack, Layout2, Layout3, Numbers, Rules
from cenote.ops.base import Op
from cenote.ops.pool.gradient import IndexGradient, PoolGradient
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.runtime.arrays import as_numpy

Function = Callable[..., Any]


@cache
def _backward_planner(planner: Planner, sparse: bool) -> Planner:
    """A planner for the gradient of what `planner` plans: its inputs are grad_output and the pool's."""

    def plan(types: tuple[TensorType, ...], *arguments: Any) -> Plan:
        grad, x = types[:2]
        forward = planner(types[1:], *arguments)
        shape = forward.shapes[0]
        if grad.shape != shape:
            raise ShapeError(
                f"{arguments[0]}: grad_output must have the output's shape {list(shape)}, got {list(grad.shape)}"
            )
        batched = tuple(TensorType(t.dtype, s) for t, s in zip(types[1:], forward.batched, strict=True))
        above = forward.op.infer(*batched)[0].shape
        op: Op = SparseGradient(forward.op) if sparse else PoolGradient(forward.op)
        return Plan(op, (above, *forward.batched), (x.shape,))

    return plan


def _plan_indices(types: tuple[TensorType, ...], where: str, rank: int, *rest: Any) -> Plan:
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
    return Plan(op, (above.batched, above.batched, below.batched), (x.shape,))


def _gradient_of(
    name: str, module: ModuleType, planner: str, prefix: tuple[Any, ...], names: str, *,
    by_layout: bool = False, indexed: bool = False, sparse: bool = False, plain: bool = True,
) -> Function:  # fmt: skip
    """The backward function of `module.name`.

    `prefix` are the planner's first arguments after the function's name, `by_layout` puts the number of spatial axes
    (by the layout) before them; `names` are the function's arguments in the planner's order. `indexed`: it may be
    given indices. `plain`: it takes maps without batch and channels.
    """
    forward: Function = getattr(module, name)
    signature = inspect.signature(forward)
    backward = _backward_planner(getattr(module, planner), sparse)
    second = "indices" if "indices" in signature.parameters else None

    def function(grad_output: Any, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        if second and indices is not None:
            kwargs[second], indices = indices, None
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{name}_backward: {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        where = f"{name}_backward"
        layout = given["layout"]
        rank = (layout_rank(where, layout),) if by_layout else ()
        inputs = (given["input"], given[second]) if second else (given["input"],)
        if indices is not None:
            if not indexed:
                raise ArgumentError(f"{where}: takes no indices")
            arguments = (where, *(rank or prefix[:1]), layout, given["semantics"], plain)
            return call(
                _plan_indices, (grad_output, indices, *inputs), arguments, given["out"], given["threads"]
            )
        values = [False if key == "return_indices" else _value(given, key) for key in names.split()]
        arguments = (where, *rank, *prefix, *values)
        return call(backward, (grad_output, *inputs), arguments, given["out"], given["threads"])

    function.__name__ = function.__qualname__ = f"{name}_backward"
    function.__doc__ = (
        f"Gradient of {name} with respect to its input: grad_output, then the arguments of {name}."
    )
    return function


def _value(given: dict[str, Any], key: str) -> Any:
    """A named argument, or a tuple of them ("a,b,c")."""
    if "," in key:
        return tuple(given[part] for part in key.split(","))
    value = given[key]
    return tuple(value) if isinstance(value, list) else value


_WINDOW = "kernel_size,stride,padding,dilation,ceil_mode"
_MAX = "kernel_size stride padding dilation ceil_mode return_indices layout semantics nan"
_AVG = "kernel_size stride padding ceil_mode count_include_pad divisor_override dilation layout semantics"
_LP = "norm_type kernel_size stride ceil_mode padding dilation layout semantics"
_UNPOOL = "kernel_size stride padding output_size layout semantics"

max_pool1d_backward = _gradient_of("max_pool1d", maximum, "_plan", (1, True), _MAX, indexed=True)
max_pool2d_backward = _gradient_of("max_pool2d", maximum, "_plan", (2, True), _MAX, indexed=True)
max_pool3d_backward = _gradient_of("max_pool3d", maximum, "_plan", (3, True), _MAX, indexed=True)
min_pool_backward = _gradient_of("min_pool", maximum, "_plan", (False,), _MAX, by_layout=True, indexed=True)
dilation_backward = _gradient_of(
    "dilation", maximum, "_plan_morphology", (True,), "size layout nan", by_layout=True
)
erosion_backward = _gradient_of(
    "erosion", maximum, "_plan_morphology", (False,), "size layout nan", by_layout=True
)
avg_pool1d_backward = _gradient_of("avg_pool1d", average, "_plan", (1,), _AVG)
avg_pool2d_backward = _gradient_of("avg_pool2d", average, "_plan", (2,), _AVG)
avg_pool3d_backward = _gradient_of("avg_pool3d", average, "_plan", (3,), _AVG)
lp_pool1d_backward = _gradient_of("lp_pool1d", lp, "_plan", (1,), _LP)
lp_pool2d_backward = _gradient_of("lp_pool2d", lp, "_plan", (2,), _LP)
lp_pool3d_backward = _gradient_of("lp_pool3d", lp, "_plan", (3,), _LP)
_ADAPTIVE_MAX = "output_size return_indices layout semantics nan"
_ADAPTIVE_AVG = "output_size layout semantics"
adaptive_max_pool1d_backward = _gradient_of(
    "adaptive_max_pool1d", adaptive, "_plan_max", (1,), _ADAPTIVE_MAX, indexed=True, plain=False
)
adaptive_max_pool2d_backward = _gradient_of(
    "adaptive_max_pool2d", adaptive, "_plan_max", (2,), _ADAPTIVE_MAX, indexed=True, plain=False
)
adaptive_max_pool3d_backward = _gradient_of(
    "adaptive_max_pool3d", adaptive, "_plan_max", (3,), _ADAPTIVE_MAX, indexed=True, plain=False
)
adaptive_avg_pool1d_backward = _gradient_of("adaptive_avg_pool1d", adaptive, "_plan_avg", (1,), _ADAPTIVE_AVG)
adaptive_avg_pool2d_backward = _gradient_of("adaptive_avg_pool2d", adaptive, "_plan_avg", (2,), _ADAPTIVE_AVG)
adaptive_avg_pool3d_backward = _gradient_of("adaptive_avg_pool3d", adaptive, "_plan_avg", (3,), _ADAPTIVE_AVG)
global_max_pool_backward = _gradient_of(
    "global_max_pool", global_pools, "_plan_max", (), "layout semantics nan"
)
global_avg_pool_backward = _gradient_of("global_avg_pool", global_pools, "_plan_avg", (), "layout semantics")
global_lp_pool_backward = _gradient_of("global_lp_pool", global_pools, "_plan_lp", (), "norm_type layout")
max_unpool1d_backward = _gradient_of("max_unpool1d", unpool, "_plan", (1,), _UNPOOL, sparse=True)
max_unpool2d_backward = _gradient_of("max_unpool2d", unpool, "_plan", (2,), _UNPOOL, sparse=True)
max_unpool3d_backward = _gradient_of("max_unpool3d", unpool, "_plan", (3,), _UNPOOL, sparse=True)
soft_pool_backward = _gradient_of(
    "soft_pool", weighted, "_plan_soft", (), f"{_WINDOW} layout semantics", by_layout=True
)
median_pool_backward = _gradient_of(
    "median_pool", weighted, "_plan_median", (), f"{_WINDOW} layout semantics", by_layout=True
)
gem_pool_backward = _gradient_of(
    "gem_pool", weighted, "_plan_gem", (), f"p eps {_WINDOW} layout semantics", by_layout=True
)
stochastic_pool_backward = _gradient_of(
    "stochastic_pool", weighted, "_plan_stochastic", (), f"seed training return_indices {_WINDOW} layout semantics",
    by_layout=True, indexed=True,
)  # fmt: skip
blur_pool_backward = _gradient_of(
    "blur_pool", weighted, "_plan_blur", (), "filter_size stride border layout", by_layout=True, sparse=True
)
spatial_pyramid_pool_backward = _gradient_of(
    "spatial_pyramid_pool",
    pyramid,
    "_plan",
    (),
    "levels mode layout semantics nan",
    by_layout=True,
    sparse=True,
)


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
    return call(_plan_indices, (grad_output, indices, input), arguments, out, threads)


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
    return call(_plan_indices, (grad_output, indices, input), arguments, out, threads)


def _regions_backward(planner: Planner, where: str, grad: Any, input: Any, boxes: Any, *rest: Any) -> Any:
    arguments, split, out, threads = rest
    try:
        dtype = as_numpy(input)[0].dtype.newbyteorder("=")
    except InputError as error:
        raise InputError(f"{where}: input {error}") from error
    rois = regions.read_boxes(where, boxes, dtype)
    arrays: tuple[Any, ...] = (grad, input, rois.astype(dtype))
    if split:
        images = rois[:, 0].astype(INT64)
        arrays = (grad, input, np.ascontiguousarray(rois[:, 1:]).astype(dtype), images)
    return call(_backward_planner(planner, True), arrays, (where, *arguments), out, threads)


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
    return _regions_backward(regions._plan_pool, "roi_pool_backward", grad_output, input, boxes, *rest)


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
    return _regions_backward(regions._plan_pool, "ps_roi_pool_backward", grad_output, input, boxes, *rest)


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
    return _regions_backward(regions._plan_align, "roi_align_backward", grad_output, input, boxes, *rest)
