"""Reductions and running sums on arrays, named and defaulted as torch.

dim: an axis, several, or None (or ()) for all. Sums and products of integers and bool are int64, and wrap around.
float16 and bfloat16 are added up in wider floats and rounded once. `dtype`: what the input is converted to first.
out: an array to write to; threads: None for all. accumulate: what sums of floats are taken in, as in avg_pool2d; by
default float32 goes to float64 every 16 terms, and the sums of norms of p 2 are float64.
Errors: DTypeError for types that a function does not take, ShapeError and ArgumentError for axes that are not there or
named twice, ArgumentError for a maximum of nothing.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import is_float
from cenote.functional.arguments import (
    Operation,
    Types,
    accumulation,
    flag,
    real,
    type_of,
    whole,
    whole_numbers,
)
from cenote.functional.bound import BoundOperator
from cenote.functional.dispatch import call, composed
from cenote.functional.elementwise import arithmetic as elementwise
from cenote.functional.elementwise import unary
from cenote.functional.elementwise.arithmetic import type_name
from cenote.functional.elementwise.chains import fused
from cenote.functional.record import public
from cenote.functional.types import A, Accumulate
from cenote.ops.checks import normalize_axis, unique_axes
from cenote.ops.reduction import reduce as onnx
from cenote.ops.reduction.cumulative import CumProd, CumSum

_OPS: dict[str, Any] = {
    "sum": onnx.ReduceSum, "mean": onnx.ReduceMean, "prod": onnx.ReduceProd, "amax": onnx.ReduceMax,
    "amin": onnx.ReduceMin, "l1": onnx.ReduceL1, "l2": onnx.ReduceL2, "logsumexp": onnx.ReduceLogSumExp,
    "any": onnx.ReduceMax, "all": onnx.ReduceMin,  # sums and products of bool as bool
}  # fmt: skip
_squared_distance = fused(lambda x, mean: (x - mean) * (x - mean))


def parse_reduction(
    types: Types, where: str, kind: str, dim: object, keepdim: object, accumulate: object = None
) -> Operation:
    """A reduction that ONNX has."""
    (x,) = types
    axes = _axes(where, dim, x.rank)
    if kind in ("amax", "amin") and not x.size and any(x.shape[axis] == 0 for axis in axes):
        raise ArgumentError(f"{where}: {x} has no elements along an axis that is reduced")
    if kind == "mean" and not is_float(x.dtype):
        raise DTypeError(f"{where}: type {x.dtype} is not a float type; give dtype='float32'")
    shape = x.shape or (1,)
    way = accumulation(where, accumulate, x.dtype)
    op = _OPS[kind](axes if x.shape else (0,), False, accumulate=way)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    removed = tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)
    return Operation(op, (shape,), (kept if flag(where, "keepdim", keepdim) else removed,))


def _axes(where: str, dim: object, rank: int) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(rank))
    axes = unique_axes(where, whole_numbers(where, "dim", dim), max(rank, 1))
    return axes if rank else ()


def _reduced(
    where: str, kind: str, x: Any, dim: Any, keepdim: bool, out: Any, threads: int | None, dtype: Any = None,
    accumulate: Any = None,
) -> Any:  # fmt: skip
    if dtype is not None:
        x = elementwise.to(x, type_name(where, dtype), threads=threads)
        if type_of(where, "input", x) == np.bool_:
            kind = {"sum": "any", "prod": "all"}.get(kind, kind)
    elif kind in ("sum", "prod"):
        own = type_of(where, "input", x)
        accumulation(where, accumulate, own)
        if not is_float(own) and own != np.int64:
            x = elementwise.to(x, "int64", threads=threads)
    return call(parse_reduction, (x,), (where, kind, dim, keepdim, accumulate), out, threads)


@public
@composed
def sum(  # torch's name
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:  # fmt: skip
    """Sum along axes; of nothing 0."""
    return cast(A, _reduced("sum", "sum", input, dim, keepdim, out, threads, dtype, accumulate))


@public
@composed
def mean(
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:  # fmt: skip
    """Arithmetic mean along axes, of floats; of nothing NaN."""
    return cast(A, _reduced("mean", "mean", input, dim, keepdim, out, threads, dtype, accumulate))


@public
@composed
def prod(
    input: A, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: A | None = None,
    threads: int | None = None,
) -> A:  # fmt: skip
    """Product along an axis (torch takes one; several will do); of nothing 1."""
    return cast(A, _reduced("prod", "prod", input, dim, keepdim, out, threads, dtype))


@public
def amax(
    input: A, dim: Any = (), keepdim: bool = False, *, out: A | None = None, threads: int | None = None
) -> A:
    """Largest along axes; NaN where one is NaN."""
    return cast(A, _reduced("amax", "amax", input, dim, keepdim, out, threads))


@public
def amin(
    input: A, dim: Any = (), keepdim: bool = False, *, out: A | None = None, threads: int | None = None
) -> A:
    """Smallest along axes; NaN where one is NaN."""
    return cast(A, _reduced("amin", "amin", input, dim, keepdim, out, threads))


def _wide(x: Any, where: str, threads: int | None, accumulate: Any = None) -> tuple[Any, np.dtype[Any]]:
    """Floats of 16 bits as float32, or all as float64: what several passes keep between them."""
    dtype = type_of(where, "input", x)
    if not is_float(dtype):
        raise DTypeError(f"{where}: type {dtype} is not a float type; cast the input to float32 first")
    if accumulation(where, accumulate, dtype) == "float64" and dtype.itemsize < 8:
        return elementwise.to(x, "float64", threads=threads), dtype
    return (elementwise.to(x, "float32", threads=threads) if dtype.itemsize < 4 else x), dtype


def _spread(
    where: str,
    x: Any,
    dim: Any,
    correction: Any,
    keepdim: bool,
    threads: int | None,
    accumulate: Any,
    room: Any,
) -> Any:
    """The variance. `room`: an array for the distances from the mean, which may be x."""
    count = math.prod(x.shape[axis] for axis in _axes(where, dim, len(x.shape)))
    freedom = max(0.0, count - real(where, "correction", correction))
    ways = {"threads": threads, "accumulate": accumulate}
    distances = _squared_distance(x, mean(x, dim, True, **ways), out=room, threads=threads)
    return elementwise.div(sum(distances, dim, keepdim, **ways), freedom, threads=threads)


@public
@composed
def var(
    input: A, dim: Any = None, *, correction: float = 1, keepdim: bool = False, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:  # fmt: skip
    """Variance along axes: the squared distances from the mean, added and divided by their number less `correction`
    (not below 0; NaN for one element). Takes as much memory as the input for the time of the call (with
    accumulate="float64" as an input of float64)."""
    wide, dtype = _wide(input, "var", threads, accumulate)
    room = None if wide is input else wide  # a copy of our own
    made = _spread("var", wide, dim, correction, keepdim, threads, accumulate, room)
    return cast(A, elementwise.to(made, dtype, out=out, threads=threads))


@public
@composed
def std(
    input: A, dim: Any = None, *, correction: float = 1, keepdim: bool = False, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:  # fmt: skip
    """Square root of `var`."""
    wide, dtype = _wide(input, "std", threads, accumulate)
    room = None if wide is input else wide  # a copy of our own
    made = unary.sqrt(
        _spread("std", wide, dim, correction, keepdim, threads, accumulate, room), threads=threads
    )
    return cast(A, elementwise.to(made, dtype, out=out, threads=threads))


@public
@composed
def norm(
    input: A, p: float = 2, dim: Any = None, keepdim: bool = False, *, out: A | None = None,
    threads: int | None = None, accumulate: Accumulate | None = None,
) -> A:  # fmt: skip
    """(sum |input|^p)^(1/p) along axes: of vectors for every dim. p may be infinite (largest or smallest |input|) and 0
    (how many differ from 0)."""
    order = real("norm", "p", p)
    if order in (1.0, 2.0):
        kind = "l1" if order == 1.0 else "l2"
        _wide(input, "norm", threads)
        made = _reduced("norm", kind, input, dim, keepdim, out, threads, accumulate=accumulate)
        return cast(A, made)
    wide, dtype = _wide(input, "norm", threads, accumulate)
    size = elementwise.abs(wide, threads=threads)
    if math.isinf(order):
        made = (amax if order > 0 else amin)(size, dim, keepdim, threads=threads)
    elif order == 0:
        made = sum(elementwise.ne(size, 0, threads=threads), dim, keepdim, dtype=dtype, threads=threads)
    else:
        powers = elementwise.pow(size, order, threads=threads)
        total = sum(powers, dim, keepdim, threads=threads, accumulate=accumulate)
        made = elementwise.pow(total, 1.0 / order, threads=threads)
    return cast(A, elementwise.to(made, dtype, out=out, threads=threads))


@public
@composed
def logsumexp(
    input: A, dim: Any, keepdim: bool = False, *, out: A | None = None, threads: int | None = None
) -> A:
    """log(sum exp(input)) along axes, without overflow; of integers as float32."""
    if not is_float(type_of("logsumexp", "input", input)):
        input = elementwise.to(input, "float32", threads=threads)
    return cast(A, _reduced("logsumexp", "logsumexp", input, dim, keepdim, out, threads))


@public
@composed
def cumsum(input: A, dim: int, *, dtype: Any = None, out: A | None = None, threads: int | None = None) -> A:
    """Sum of the elements up to each place along an axis."""
    return cast(A, _running("cumsum", input, dim, dtype, out, threads))


@public
@composed
def cumprod(input: A, dim: int, *, dtype: Any = None, out: A | None = None, threads: int | None = None) -> A:
    """Product of the elements up to each place along an axis."""
    return cast(A, _running("cumprod", input, dim, dtype, out, threads))


def _running(where: str, x: Any, dim: Any, dtype: Any, out: Any, threads: int | None) -> Any:
    if dtype is not None:
        x = elementwise.to(x, type_name(where, dtype), threads=threads)
    elif not is_float(type_of(where, "input", x)):
        x = elementwise.to(x, "int64", threads=threads)
    return call(parse_running, (x,), (where, dim), out, threads)


def parse_running(types: Types, where: str, dim: object) -> Operation:
    """A running sum or product."""
    (x,) = types
    axis = normalize_axis(where, whole(where, "dim", dim), max(x.rank, 1))
    op = (CumSum if where == "cumsum" else CumProd)()
    return Operation(BoundOperator(op, {1: np.array(axis, np.int64)}), (x.shape or (1,),), (x.shape,))
