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
from typing import Annotated, Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import TensorType, is_float
from cenote.functional.arguments import HERE, Operation, accumulation, given_array, type_of, whole_numbers
from cenote.functional.elementwise import arithmetic as elementwise
from cenote.functional.elementwise import unary
from cenote.functional.elementwise.arithmetic import type_name
from cenote.functional.elementwise.chains import fused
from cenote.functional.kinds import Array, Early, Given, Kind, Target, Threads
from cenote.functional.record import composed, function
from cenote.functional.types import Accumulate, DLPack
from cenote.ops.base import Op
from cenote.ops.bound import BoundOperator
from cenote.ops.checks import normalize_axis, unique_axes
from cenote.ops.reduction import reduce
from cenote.ops.reduction.cumulative import CumProd, CumSum


def _axes(name: str, value: object) -> tuple[int, ...]:
    return () if value is None else whole_numbers(name, value)


Dims = Annotated[tuple[int, ...] | None, Kind("Any", _axes)]
"""An axis, several, or None or () for all of them."""
Dtype = Annotated[object, Early("Any")]
"""The type that the input is converted to first."""
Asked = Annotated[object, Kind("Any")]
"""The same, where the result depends on whether there is one."""

_squared_distance = fused(lambda x, mean: (x - mean) * (x - mean))


@dataclass(frozen=True)
class Over:
    """The axes that are reduced, and whether they stay as axes of one element."""

    dim: Dims = None
    keepdim: bool = False

    def axes(self, rank: int) -> tuple[int, ...]:
        """The axes by their numbers."""
        axes = unique_axes(HERE, self.dim, max(rank, 1)) if self.dim else tuple(range(rank))
        return axes if rank else ()


def _reduced(
    kind: type[reduce.Reduction],
    x: TensorType,
    over: Over,
    accumulate: str | None = None,
    widen: bool = False,
) -> Operation:
    """A reduction along some axes; an array without axes counts as a list of one."""
    axes = over.axes(x.rank)
    op = kind(axes if x.rank else (0,), False, accumulate=accumulation(accumulate, x.dtype), widen=widen)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    removed = tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)
    return Operation(op, (x.shape or (1,),), (kept if over.keepdim else removed,))


def _converted(input: DLPack, dtype: object, threads: int | None) -> tuple[DLPack, ...]:
    """The input in the type that is asked for."""
    if dtype is None:
        return (input,)
    return (elementwise.to(input, type_name(dtype), threads=threads),)


def _own_type(input: DLPack, dtype: object) -> np.dtype[Any] | None:
    """The input's type, where no other is asked for."""
    return None if dtype is not None else type_of("input", input)


def _counted(
    input: DLPack, dtype: object, threads: int | None, accumulate: object = None
) -> tuple[DLPack, ...]:
    """The input in the type that is asked for, or bool as numbers."""
    own = _own_type(input, dtype)
    if own is not None:
        accumulation(accumulate, own)
    return _converted(input, "uint8" if own == np.bool_ else dtype, threads)


def _widened(input: DLPack, dtype: object, threads: int | None) -> tuple[DLPack, ...]:
    """The input in the type that is asked for, or integers and bool as int64."""
    own = _own_type(input, dtype)
    whole = own is not None and not is_float(own) and own != np.int64
    return _converted(input, "int64" if whole else dtype, threads)


def _floats(input: DLPack, threads: int | None) -> tuple[DLPack, ...]:
    """The input, integers as float32."""
    whole = not is_float(type_of("input", input))
    return _converted(input, "float32" if whole else None, threads)


@function(arrays=_counted)
def sum(  # torch's name
    input: Array, over: Over, *, dtype: Asked = None, accumulate: Accumulate | None = None
) -> Operation:
    """Sum along axes; of nothing 0."""
    # With dtype bool the sum is "or", as the product is "and".
    kind = reduce.ReduceMax if input.dtype == np.bool_ else reduce.ReduceSum
    return _reduced(kind, input, over, accumulate, widen=dtype is None)


@function(arrays=_converted)
def mean(input: Array, over: Over, *, dtype: Dtype = None, accumulate: Accumulate | None = None) -> Operation:
    """Arithmetic mean along axes, of floats; of nothing NaN."""
    if not is_float(input.dtype):
        raise DTypeError(f"type {input.dtype} is not a float type; give dtype='float32'")
    return _reduced(reduce.ReduceMean, input, over, accumulate)


@function(arrays=_counted)
def prod(input: Array, over: Over, *, dtype: Asked = None) -> Operation:
    """Product along an axis (torch takes one; several will do); of nothing 1."""
    kind = reduce.ReduceMin if input.dtype == np.bool_ else reduce.ReduceProd
    return _reduced(kind, input, over, widen=dtype is None)


def _extreme(kind: type[reduce.Reduction], x: TensorType, over: Over) -> Operation:
    """A reduction that nothing is left of where there are no elements."""
    if any(x.shape[axis] == 0 for axis in over.axes(x.rank)):
        raise ArgumentError(f"{x} has no elements along an axis that is reduced")
    return _reduced(kind, x, over)


@function()
def amax(input: Array, dim: Dims = (), keepdim: bool = False) -> Operation:
    """Largest along axes; NaN where one is NaN."""
    return _extreme(reduce.ReduceMax, input, Over(dim, keepdim))


@function()
def amin(input: Array, dim: Dims = (), keepdim: bool = False) -> Operation:
    """Smallest along axes; NaN where one is NaN."""
    return _extreme(reduce.ReduceMin, input, Over(dim, keepdim))


@function(arrays=_floats)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Operation:
    """log(sum exp(input)) along axes, without overflow; of integers as float32."""
    return _reduced(reduce.ReduceLogSumExp, input, Over(dim, keepdim))


# ---- in several steps -----------------------------------------------------------------------------------------------


def _check_float(dtype: np.dtype[Any]) -> None:
    """DTypeError for types that are no floats."""
    if not is_float(dtype):
        raise DTypeError(f"type {dtype} is not a float type; cast the input to float32 first")


def _wide(input: DLPack, accumulate: str | None, threads: int | None) -> tuple[DLPack, np.dtype[Any]]:
    """Floats of 16 bits as float32, or all as float64, as several passes keep them; and the input's own type."""
    dtype = type_of("input", input)
    _check_float(dtype)
    if accumulation(accumulate, dtype) == "float64" and dtype.itemsize < 8:
        return elementwise.to(input, "float64", threads=threads), dtype
    return (elementwise.to(input, "float32", threads=threads) if dtype.itemsize < 4 else input), dtype


@dataclass(frozen=True)
class Spread:
    """The arguments of var and std that are keywords."""

    correction: float = 1
    keepdim: bool = False
    accumulate: Accumulate | None = None

    def of(self, input: DLPack, dim: Dims, threads: int | None) -> tuple[DLPack, np.dtype[Any]]:
        """The variance, and the input's type."""
        ways = {"threads": threads, "accumulate": self.accumulate}
        wide, dtype = _wide(input, self.accumulate, threads)
        shape = given_array("input", wide)[0].shape
        count = math.prod(shape[axis] for axis in Over(dim).axes(len(shape)))
        room = None if wide is input else wide  # a copy of our own
        distances = _squared_distance(wide, mean(wide, dim, True, **ways), out=room, threads=threads)
        total, freedom = sum(distances, dim, self.keepdim, **ways), max(0.0, count - self.correction)
        return elementwise.div(total, freedom, threads=threads), dtype


@composed()
def var(input: Given, dim: Dims = None, *, spread: Spread, out: Target, threads: Threads) -> DLPack:
    """Variance along axes: the squared distances from the mean, added and divided by their number less `correction`
    (not below 0; NaN for one element). Takes as much memory as the input for the time of the call (with
    accumulate="float64" as an input of float64)."""
    made, dtype = spread.of(input, dim, threads)
    return elementwise.to(made, dtype, out=out, threads=threads)


@composed()
def std(input: Given, dim: Dims = None, *, spread: Spread, out: Target, threads: Threads) -> DLPack:
    """Square root of `var`."""
    made, dtype = spread.of(input, dim, threads)
    return elementwise.to(unary.sqrt(made, threads=threads), dtype, out=out, threads=threads)


@function()
def _norm(input: Array, p: float, over: Over, *, accumulate: Accumulate | None) -> Operation:
    _check_float(input.dtype)
    kind = reduce.ReduceL1 if p == 1 else reduce.ReduceL2
    return _reduced(kind, input, over, accumulate)


@composed()
def norm(
    input: Given,
    p: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    accumulate: Accumulate | None = None,
    out: Target,
    threads: Threads,
) -> DLPack:
    """(sum |input|^p)^(1/p) along axes: of vectors for every dim. p may be infinite (largest or smallest |input|) and 0
    (how many differ from 0)."""
    if p in (1.0, 2.0):
        return _norm(input, p, dim, keepdim, accumulate=accumulate, out=out, threads=threads)
    wide, dtype = _wide(input, accumulate, threads)
    axes, ways = (dim, keepdim), {"threads": threads}
    size = elementwise.abs(wide, **ways)
    if math.isinf(p):
        made = (amax if p > 0 else amin)(size, *axes, **ways)
    elif p == 0:
        made = sum(elementwise.ne(size, 0, **ways), *axes, dtype=dtype, **ways)
    else:
        total = sum(elementwise.pow(size, p, **ways), *axes, accumulate=accumulate, **ways)
        made = elementwise.pow(total, 1.0 / p, **ways)
    return elementwise.to(made, dtype, out=out, **ways)


# ---- running --------------------------------------------------------------------------------------------------------


def _running(op: Op, x: TensorType, dim: int) -> Operation:
    """A running sum or product; an array without axes counts as a list of one."""
    axis = normalize_axis(HERE, dim, max(x.rank, 1))
    return Operation(BoundOperator(op, {1: np.array(axis, np.int64)}), (x.shape or (1,),), (x.shape,))


@function(arrays=_widened)
def cumsum(input: Array, dim: int, *, dtype: Dtype = None) -> Operation:
    """Sum of the elements up to each place along an axis."""
    return _running(CumSum(), input, dim)


@function(arrays=_widened)
def cumprod(input: Array, dim: int, *, dtype: Dtype = None) -> Operation:
    """Product of the elements up to each place along an axis."""
    return _running(CumProd(), input, dim)
