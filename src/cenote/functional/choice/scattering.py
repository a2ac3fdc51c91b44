"""Elements written by index: scatter, scatter_add, scatter_reduce. `invalid`: see cenote.functional.choice.indexing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from cenote.core.errors import DTypeError, ShapeError
from cenote.core.types import Array, TensorType
from cenote.functional.arguments import Operation, Types, choice, flag, given_array, type_of
from cenote.functional.choice.indexing import as_index, axis_of, index_input, made, mode_of
from cenote.functional.dispatch import call
from cenote.functional.outputs import check_out
from cenote.functional.record import public
from cenote.functional.scalars import number_as
from cenote.functional.types import A, DLPack, Invalid
from cenote.ops.movement.scatter import ScatterElements
from cenote.runtime.arrays import Restore


def parse_scatter(types: Types, where: str, dim: Any, reduce: Any, invalid: Any) -> Operation:
    """Elements written by index."""
    x, index, src = types
    index_input(where, index)
    if src.dtype != x.dtype:
        raise DTypeError(f"{where}: src must have the type of input, {x.dtype}, got {src.dtype}")
    axis = axis_of(where, dim, x.rank)
    op = ScatterElements(axis, reduce, mode_of(where, invalid), False, where)
    if not x.rank or not index.rank:
        if max(x.rank, index.rank, src.rank) > 1:
            raise ShapeError(
                f"{where}: index {list(index.shape)} and input {list(x.shape)} must have as many axes"
            )
        return Operation(op, tuple(t.shape or (1,) for t in types), (x.shape,))
    return made(op, x, index, src)


def _scatter(name: str, arrays: Any, dim: Any, reduction: str, invalid: Any, out: Any, threads: Any) -> Any:
    """With the part of src that the indices name."""
    input, index, src = arrays
    shape, given = getattr(index, "shape", ()), getattr(src, "shape", ())
    if len(shape) != len(given) and (len(shape) > 1 or len(given) > 1):
        raise ShapeError(f"{name}: index {list(shape)} and src {list(given)} must have as many axes")
    if any(n > most for n, most in zip(shape, given, strict=False)):
        raise ShapeError(f"{name}: index {list(shape)} must not be larger than src {list(given)} on any axis")
    if tuple(shape) != tuple(given) and len(shape) == len(given):
        src = src[tuple(slice(0, extent) for extent in shape)]
    index = as_index(index)
    if reduction != "none" and str(getattr(input, "dtype", "")).endswith("bool"):
        return _scatter_bools(name, (input, index, src), dim, reduction, invalid, out, threads)
    return call(parse_scatter, (input, index, src), (name, dim, reduction, invalid), out, threads)


def _scatter_bools(
    name: str, arrays: object, dim: object, reduction: str, invalid: object, out: object, threads: object
) -> Any:
    """Sums of bools are "or", products "and"."""
    (x, restore), (index, _), (src, _) = _given(name, arrays)
    if src.dtype != x.dtype:
        raise DTypeError(f"{name}: src must have the type of input, {x.dtype}, got {src.dtype}")
    bits = (x.view(np.uint8), index, src.view(np.uint8))
    kind = {"add": "max", "mul": "min"}.get(reduction, reduction)
    made = call(parse_scatter, bits, (name, dim, kind, invalid), None, threads)
    return _handed(name, made.view(bool), out, restore)


def _given(name: str, arrays: Any) -> Iterator[tuple[Array, Restore]]:
    for what, x in zip(("input", "index", "src"), arrays, strict=True):
        yield given_array(name, what, x)


def _handed(name: str, y: Array, out: object, restore: Restore) -> Any:
    """A result to the caller: in `out` where there is one, else as the caller's kind of array."""
    if out is None:
        return restore(y)
    (target,) = check_out(name, out, (TensorType(y.dtype, y.shape),), ())
    target[...] = y
    return out


_TORCH_REDUCTIONS = {"add": "add", "multiply": "mul"}
_REDUCE = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}


@public
def scatter(
    input: A,
    dim: int,
    index: DLPack,
    src: Any,
    *,
    reduce: Literal["add", "multiply"] | None = None,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """A copy of `input` with y[index[i, j, k], j, k] = src[i, j, k] for dim 0, and so on; `src` may be a number.

    `index` has as many axes as `input` and is not larger than `src`, nor than `input` on the other axes. Of equal
    indices the last in row-major order stays, always (PyTorch does not say). `reduce` adds to, or multiplies, what is
    there instead: float32 and float64 sums in that order, 16-bit floats rounded at every step. `out` may be `input`
    itself, which is then changed in place; after an error about an index it may hold some of the updates.
    """
    name = "scatter"
    if reduce is not None:
        reduction = _TORCH_REDUCTIONS[choice(name, "reduce", reduce, tuple(_TORCH_REDUCTIONS))]
    else:
        reduction = "none"
    if isinstance(src, int | float | bool | np.number):
        shape = getattr(index, "shape", ())
        src = np.full(shape, number_as(name, "src", src, type_of(name, "input", input)))
    return _scatter(name, (input, index, src), dim, reduction, invalid, out, threads)


@public
def scatter_add(
    input: A,
    dim: int,
    index: DLPack,
    src: DLPack,
    *,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """A copy of `input` to which every element of `src` is added at the place that its index names: see `scatter`."""
    return _scatter("scatter_add", (input, index, src), dim, "add", invalid, out, threads)


@public
def scatter_reduce(
    input: A,
    dim: int,
    index: DLPack,
    src: DLPack,
    reduce: Literal["sum", "prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """A copy of `input` in which each place that indices name has the sum (product, mean, largest, smallest) of its
    updates and, with `include_self`, of what was there: see `scatter`. NaN wins over every number in amax and amin.
    Integer means are rounded toward minus infinity, as PyTorch does.
    """
    name = "scatter_reduce"
    kind = _REDUCE[choice(name, "reduce", reduce, tuple(_REDUCE))]
    if flag(name, "include_self", include_self) and kind != "mean":
        return _scatter(name, (input, index, src), dim, kind, invalid, out, threads)
    return _by_hand(name, (input, index, src), dim, kind, include_self, invalid, out, threads)


def _by_hand(
    name: str,
    arrays: object,
    dim: object,
    kind: str,
    include: bool,
    invalid: object,
    out: object,
    threads: object,
) -> Any:
    """Where what was there does not count, or counts as one of several: in steps of scatters."""
    (x, restore), (index, _), (src, _) = _given(name, arrays)
    ones = np.ones(index.shape, np.int64)
    hits = _scatter(name, (np.zeros(x.shape, np.int64), index, ones), dim, "add", invalid, None, threads)
    start = x
    if not include:
        start = np.where(hits > 0, np.asarray(_neutral(kind, x.dtype), x.dtype), x)
    total = _scatter(
        name, (start, index, src), dim, "add" if kind == "mean" else kind, invalid, None, threads
    )
    if kind == "mean":
        count = np.maximum(hits + include, 1)
        if x.dtype.kind in "iu":
            total = np.where(hits > 0, np.floor_divide(total, count.astype(x.dtype)), total)
        else:
            divided = (total.astype(np.float64) / count).astype(x.dtype)
            total = np.where(hits > 0, divided, total)
    return _handed(name, total, out, restore)


def _neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction starts from."""
    if dtype == np.bool_:
        return kind in ("min", "mul")
    if kind in ("max", "min"):
        sign = -1 if kind == "max" else 1
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return limits.min if sign < 0 else limits.max
        return sign * float("inf")
    return 1 if kind == "mul" else 0
