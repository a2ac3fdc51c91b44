"""Elements written by index: scatter, scatter_add, scatter_reduce. `invalid`: see cenote.functional.choice.indexing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from cenote.core.errors import DTypeError, ShapeError
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, given_array, plain, type_of
from cenote.functional.choice.indexing import Index, as_index, axis_of
from cenote.functional.kinds import Anything, Array, ArrayKind, Given, Other, Target, Threads
from cenote.functional.outputs import handed
from cenote.functional.record import composed, function
from cenote.functional.scalars import number_as
from cenote.functional.types import DLPack, Invalid
from cenote.ops.movement.scatter import ScatterElements

_REDUCTIONS = {None: "none", "add": "add", "multiply": "mul"}
_REDUCE = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}
Operand = Annotated[TensorType, ArrayKind("Any")]
_OF_BOOLS = {"add": "max", "mul": "min"}


def _updates(input: object, index: object, src: Any) -> tuple[object, ...]:
    """The input, the indices, and the part of src that they name."""
    shape, given = getattr(index, "shape", ()), getattr(src, "shape", ())
    if len(shape) != len(given) and (len(shape) > 1 or len(given) > 1):
        raise ShapeError(f"index {list(shape)} and src {list(given)} must have as many axes")
    if any(n > most for n, most in zip(shape, given, strict=False)):
        raise ShapeError(f"index {list(shape)} must not be larger than src {list(given)} on any axis")
    if tuple(shape) != tuple(given) and len(shape) == len(given):
        src = src[tuple(slice(0, extent) for extent in shape)]
    return input, as_index(index), src


def _filled(input: object, index: object, src: object) -> tuple[object, ...]:
    """The same for a src that may be a number."""
    if isinstance(src, int | float | bool | np.number):
        src = np.full(getattr(index, "shape", ()), number_as("src", src, type_of("input", input)))
    return _updates(input, index, src)


def _scattered(
    x: TensorType, dim: int, index: TensorType, src: TensorType, reduction: str, invalid: str
) -> Operation:
    """Elements written by index. Sums of bools are "or", products "and"."""
    if src.dtype != x.dtype:
        raise DTypeError(f"src must have the type of input, {x.dtype}, got {src.dtype}")
    kind = _OF_BOOLS.get(reduction, reduction) if x.dtype == np.bool_ else reduction
    op = ScatterElements(axis_of(dim, x.rank), kind, invalid, False)
    if x.rank and index.rank:
        return plain(op, x, index, src)
    if max(x.rank, index.rank, src.rank) > 1:
        raise ShapeError(f"index {list(index.shape)} and input {list(x.shape)} must have as many axes")
    return Operation(op, tuple(t.shape or (1,) for t in (x, index, src)), (x.shape,))


@function(arrays=_filled)
def scatter(
    input: Array,
    dim: int,
    index: Index,
    src: Operand,
    *,
    reduce: Literal["add", "multiply"] | None = None,
    invalid: Invalid = "raise",
) -> Operation:
    """A copy of `input` with y[index[i, j, k], j, k] = src[i, j, k] for dim 0, and so on; `src` may be a number.

    `index` has as many axes as `input` and is not larger than `src`, nor than `input` on the other axes. Of equal
    indices the last in row-major order stays, always (PyTorch does not say). `reduce` adds to, or multiplies, what is
    there instead: float32 and float64 sums in that order, 16-bit floats rounded at every step. `out` may be `input`
    itself, which is then changed in place; after an error about an index it may hold some of the updates.
    """
    return _scattered(input, dim, index, src, _REDUCTIONS[reduce], invalid)


@function(arrays=_updates)
def scatter_add(input: Array, dim: int, index: Index, src: Other, *, invalid: Invalid = "raise") -> Operation:
    """A copy of `input` to which every element of `src` is added at the place that its index names: see `scatter`."""
    return _scattered(input, dim, index, src, "add", invalid)


@function(arrays=_updates)
def _scatter_reduce(
    input: Array, dim: int, index: Index, src: Other, kind: Anything, invalid: Invalid
) -> Operation:
    return _scattered(input, dim, index, src, kind, invalid)


@composed()
def scatter_reduce(
    input: Given,
    dim: int,
    index: DLPack,
    src: DLPack,
    reduce: Literal["sum", "prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
    invalid: Invalid = "raise",
    out: Target,
    threads: Threads,
) -> DLPack:
    """A copy of `input` in which each place that indices name has the sum (product, mean, largest, smallest) of its
    updates and, with `include_self`, of what was there: see `scatter`. NaN wins over every number in amax and amin.
    Integer means are rounded toward minus infinity, as PyTorch does.
    """
    kind, ways = _REDUCE[reduce], {"threads": threads}
    if include_self and kind != "mean":
        return _scatter_reduce(input, dim, index, src, kind, invalid, out=out, **ways)
    # The present elements do not count, or count as one of several.
    x, restore = given_array("input", input)
    given, _ = given_array("index", index)
    ones = np.ones(given.shape, np.int64)
    hits = scatter_add(np.zeros(x.shape, np.int64), dim, given, ones, invalid=invalid, **ways)
    start = x if include_self else np.where(hits > 0, np.asarray(_neutral(kind, x.dtype), x.dtype), x)
    source, _ = given_array("src", src)
    y = _scatter_reduce(start, dim, given, source, "add" if kind == "mean" else kind, invalid, **ways)
    if kind == "mean":
        count = np.maximum(hits + include_self, 1)
        whole = x.dtype.kind in "iu"
        mean = np.floor_divide(y, count.astype(x.dtype)) if whole else y.astype(np.float64) / count
        y = np.where(hits > 0, mean.astype(x.dtype), y)
    return handed(y, out, restore)


def _neutral(kind: str, dtype: np.dtype[Any]) -> float:
    """The number that a reduction starts from."""
    if dtype == np.bool_:
        return kind in ("min", "mul")
    if kind in ("max", "min"):
        sign = -1 if kind == "max" else 1
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return limits.min if sign < 0 else limits.max
        return sign * float("inf")
    return 1 if kind == "mul" else 0
