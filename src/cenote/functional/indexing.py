"""Elements, rows and slices by index, named and defaulted as in PyTorch.

Every function that takes indices has `invalid`, what becomes of an index outside of its axis of n places:

    "raise"  (the default) InputError naming the first bad position, its index and what is allowed
    "clip"   the nearest place: below 0 the first, from n on the last
    "wrap"   the index modulo n: -1 is the last place
    "zero"   zeros are read, nothing is written

Negative indices are outside, as in PyTorch, but for `take` and `take_along_dim` with "raise" and "zero", where -1 is
the last place. Indices are int32 or int64. Nothing outside of an array is ever read or written.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, Types, choice, flag, whole
from cenote.functional.dispatch import call
from cenote.functional.types import A, DLPack
from cenote.kernels.selection.indices import MODES
from cenote.ops.base import Op
from cenote.ops.movement.indexing import Gather, GatherElements
from cenote.ops.movement.scatter import ScatterElements

Invalid = Literal["raise", "clip", "wrap", "zero"]


def axis_of(where: str, value: Any, rank: int, name: str = "dim") -> int:
    """An axis of 0 to rank - 1; a scalar counts as a list of one."""
    axis, most = whole(where, name, value), max(rank, 1)
    if not -most <= axis < most:
        raise ArgumentError(
            f"{where}: {name} {axis} is out of range for {rank} axes (allowed: {-most} to {most - 1})"
        )
    return axis % most


def index_input(where: str, x: TensorType, name: str = "index") -> TensorType:
    """Refuse indices of other types than int32 and int64."""
    if x.dtype.name not in ("int32", "int64"):
        raise DTypeError(f"{where}: {name} must be int32 or int64, got {x.dtype}")
    return x


def mode_of(where: str, invalid: Any) -> str:
    """One of the four words."""
    return choice(where, "invalid", invalid, MODES)


def made(op: Op, *inputs: TensorType) -> Operation:
    """The operation on inputs as they are."""
    return Operation(op, tuple(x.shape for x in inputs), tuple(y.shape for y in op.infer(*inputs)))


# ---- reading --------------------------------------------------------------------------------------------------------


def parse_embedding(types: Types, where: str, padding_idx: Any, invalid: Any) -> Operation:
    """Rows of a table."""
    weight, indices = types
    if weight.rank != 2:
        raise ShapeError(f"{where}: weight must have 2 axes (rows, columns), got {list(weight.shape)}")
    index_input(where, indices, "input")
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= whole(where, "padding_idx", padding_idx) < rows:
            raise ArgumentError(
                f"{where}: padding_idx {padding_idx} is not a row of weight, which has {rows}"
            )
    return made(Gather(0, mode_of(where, invalid), False, where), weight, indices)


def embedding(
    input: DLPack,
    weight: A,
    padding_idx: int | None = None,
    max_norm: None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """Rows of `weight` (rows, columns) by the numbers in `input` (any shape): shape (*input.shape, columns).

    padding_idx, norm_type, scale_grad_by_freq, sparse   matter for gradients only, as in PyTorch
    max_norm     must be None: PyTorch's would change `weight`
    invalid      see the module; out: an array to write to; threads: default as for pools

    Raises ShapeError, DTypeError, ArgumentError; InputError for a bad index.
    """
    if max_norm is not None:
        raise ArgumentError(
            "embedding: max_norm must be None (PyTorch changes weight in place); normalise it before"
        )
    return call(parse_embedding, (weight, input), ("embedding", padding_idx, invalid), out, threads)


def parse_index_select(types: Types, where: str, dim: Any, invalid: Any) -> Operation:
    """Slices along an axis."""
    x, index = types
    if index_input(where, index).rank > 1:
        raise ShapeError(f"{where}: index must have at most 1 axis, got {list(index.shape)}")
    axis = axis_of(where, dim, x.rank)
    given = x.shape or (1,)
    op = Gather(axis, mode_of(where, invalid), False, where)
    (y,) = op.infer(TensorType(x.dtype, given), TensorType(index.dtype, (index.size,)))
    shape = y.shape if x.rank else ()
    if not x.rank and index.size != 1:
        raise ShapeError(f"{where}: index must hold one number for an input without axes, got {index.size}")
    return Operation(op, (given, (index.size,)), (shape,))


def index_select(
    input: A,
    dim: int,
    index: DLPack,
    *,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The slices of `input` along `dim` that the list `index` names, in its order."""
    return call(parse_index_select, (input, index), ("index_select", dim, invalid), out, threads)


def parse_take(types: Types, where: str, invalid: Any) -> Operation:
    """Elements of the flattened input."""
    x, index = types
    index_input(where, index)
    op = Gather(0, mode_of(where, invalid), True, where)
    return Operation(op, ((x.size,), index.shape), (index.shape,))


def take(
    input: A, index: DLPack, *, invalid: Invalid = "raise", out: A | None = None, threads: int | None = None
) -> A:
    """The elements of `input` by their numbers in row-major order; the result has the shape of `index`."""
    return call(parse_take, (input, index), ("take", invalid), out, threads)


def parse_gather(types: Types, where: str, dim: Any, invalid: Any, negative: bool) -> Operation:
    """One element per index."""
    x, index = types
    index_input(where, index)
    axis, rule = axis_of(where, dim, x.rank), mode_of(where, invalid)
    op = GatherElements(axis, rule, negative)
    if not x.rank or not index.rank:  # a scalar counts as a list of one
        if x.rank > 1 or index.rank > 1 or (x.rank and not index.size):
            raise ShapeError(
                f"{where}: index {list(index.shape)} and input {list(x.shape)} must have as many axes"
            )
        return Operation(op, (x.shape or (1,), index.shape or (1,)), (index.shape,))
    if not index.size and x.rank != index.rank:
        return Operation(
            GatherElements(0), ((0,), (0,)) if not x.size else (x.shape, (0,) * x.rank), (index.shape,)
        )
    return made(op, x, index)


def gather(
    input: A,
    dim: int,
    index: DLPack,
    *,
    sparse_grad: bool = False,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """y[i][j][k] = input[index[i][j][k]][j][k] for dim 0, and so on: one element per index.

    `index` has as many axes as `input` and is no longer on any but `dim`; the result has its shape.
    """
    flag("gather", "sparse_grad", sparse_grad)
    return call(parse_gather, (input, index), ("gather", dim, invalid, False), out, threads)


def take_along_dim(
    input: A,
    indices: DLPack,
    dim: int | None = None,
    *,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """As `gather`, but the other axes of both broadcast, and without `dim` both are flattened first."""
    name = "take_along_dim"
    given, places = (getattr(x, "shape", None) for x in (input, indices))
    if dim is None:
        return call(parse_flat, (input, indices), (name, invalid), out, threads)
    if given is None or places is None or len(given) != len(places):
        raise ShapeError(
            f"{name}: input and indices must be arrays of as many axes, got {shown(given)} and {shown(places)}"
        )
    axis = axis_of(name, dim, len(given))
    if any(a != b for n, (a, b) in enumerate(zip(given, places, strict=True)) if n != axis):
        input, indices = _along(name, input, indices, axis)
    return call(parse_gather, (input, indices), (name, axis, invalid, True), out, threads)


def _along(name: str, x: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Both with the other axes broadcast."""
    shapes = [tuple(1 if n == axis else extent for n, extent in enumerate(y.shape)) for y in (x, indices)]
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"{name}: input {list(x.shape)} and indices {list(indices.shape)} do not broadcast"
        ) from None
    made = []
    for y in (x, indices):
        shape = tuple(y.shape[n] if n == axis else extent for n, extent in enumerate(common))
        made.append(np.broadcast_to(y, shape) if isinstance(y, np.ndarray) else y.expand(shape))
    return made[0], made[1]


def parse_flat(types: Types, where: str, invalid: Any) -> Operation:
    """Elements of the flattened input, by a flattened index."""
    x, index = types
    index_input(where, index, "indices")
    return Operation(
        Gather(0, mode_of(where, invalid), True, where), ((x.size,), (index.size,)), ((index.size,),)
    )


# ---- writing --------------------------------------------------------------------------------------------------------


def parse_scatter(types: Types, where: str, dim: Any, reduce: Any, invalid: Any) -> Operation:
    """Elements written by index."""
    x, index, src = types
    index_input(where, index)
    if src.dtype != x.dtype:
        raise DTypeError(f"{where}: src must have the type of input, {x.dtype}, got {src.dtype}")
    axis = axis_of(where, dim, x.rank)
    op = ScatterElements(axis, reduce, mode_of(where, invalid), negative=False)
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
    return call(parse_scatter, (input, index, src), (name, dim, reduction, invalid), out, threads)


_TORCH_REDUCTIONS = {"add": "add", "multiply": "mul"}
_REDUCE = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean"}


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
    """A copy of `input` with y[index[i][j][k]][j][k] = src[i][j][k] for dim 0, and so on; `src` may be a number.

    `index` has as many axes as `input` and is not larger than `src`, nor than `input` on the other axes. Of equal
    indices the last in row-major order stays, always (PyTorch does not say). `reduce` adds to, or multiplies, what is
    there instead: float32 and float64 sums in that order, 16-bit floats rounded at every step.
    """
    name = "scatter"
    if reduce is not None:
        reduction = _TORCH_REDUCTIONS[choice(name, "reduce", reduce, tuple(_TORCH_REDUCTIONS))]
    else:
        reduction = "none"
    if isinstance(src, int | float | bool | np.number):
        src = np.full(getattr(index, "shape", ()), src, _dtype_of(input))
    return _scatter(name, (input, index, src), dim, reduction, invalid, out, threads)


def _dtype_of(x: Any) -> Any:
    from cenote.runtime.arrays import as_numpy

    return as_numpy(x)[0].dtype


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
    name: str, arrays: Any, dim: Any, kind: str, include: bool, invalid: Any, out: Any, threads: Any
) -> Any:
    """Where what was there does not count, or counts as one of several: in steps of scatters."""
    from cenote.runtime.arrays import as_numpy

    (x, restore), (index, _), (src, _) = (as_numpy(each) for each in arrays)
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
    if out is None:
        return restore(total)
    target, _ = as_numpy(out)
    target[...] = total
    return out


def _neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction starts from."""
    if kind in ("max", "min"):
        sign = -1 if kind == "max" else 1
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return limits.min if sign < 0 else limits.max
        return sign * float("inf")
    return 1 if kind == "mul" else 0
