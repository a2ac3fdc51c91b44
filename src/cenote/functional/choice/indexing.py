"""Elements, rows and slices read by index, named and defaulted as in PyTorch.

Every function that takes indices has `invalid`, what becomes of an index outside of its axis of n places:

    "raise"  (the default) InputError naming the first bad position, its index and what is allowed
    "clip"   the nearest place: below 0 the first, from n on the last
    "wrap"   the index modulo n: -1 is the last place
    "zero"   zeros are read, nothing is written

Negative indices are outside, as in PyTorch, but for `take` and `take_along_dim` with "raise" and "zero", where -1 is
the last place. Indices are int32 or int64. Nothing outside of an array is ever read or written.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, plain, whole
from cenote.functional.kinds import Array, ArrayKind, Early, Given, Kind, Target, Threads
from cenote.functional.record import composed, function
from cenote.functional.types import DLPack, Invalid
from cenote.ops.base import Op
from cenote.ops.movement.indexing import Gather, GatherElements


def _indices(name: str, value: TensorType) -> TensorType:
    if value.dtype.name not in ("int32", "int64"):
        raise DTypeError(f"{name} must be int32 or int64, got {value.dtype}")
    return value


def _no_norm(name: str, value: object) -> None:
    if value is not None:
        raise ArgumentError(f"{name} must be None (PyTorch changes weight in place); normalise it before")


Index = Annotated[TensorType, ArrayKind("DLPack", _indices)]
NoNorm = Annotated[None, Kind("None", _no_norm)]
UnusedReal = Annotated[float, Early("float")]
UnusedFlag = Annotated[bool, Early("bool")]
"""Arguments that matter for gradients only."""


def axis_of(value: object, rank: int, name: str = "dim") -> int:
    """An axis of 0 to rank - 1; a scalar counts as a list of one."""
    axis, most = whole(name, value), max(rank, 1)
    if not -most <= axis < most:
        raise ArgumentError(f"{name} {axis} is out of range for {rank} axes (allowed: {-most} to {most - 1})")
    return axis % most


def as_index(x: Any) -> Any:
    """Indices of small integer types as int64; others as they are."""
    kind = str(getattr(x, "dtype", "")).removeprefix("torch.")
    if kind not in ("uint8", "int8", "int16", "uint16", "uint32"):
        return x
    return x.astype(np.int64) if isinstance(x, np.ndarray) else x.long() if hasattr(x, "long") else x


def row_of(weight: TensorType, padding_idx: int | None) -> int | None:
    """The row that padding_idx names, of a table of rows and columns."""
    if weight.rank != 2:
        raise ShapeError(f"weight must have 2 axes (rows, columns), got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ArgumentError(f"padding_idx {padding_idx} is not a row of weight, which has {rows}")
    return None if padding_idx is None else padding_idx % rows


@function(order=("weight",))
def embedding(
    input: Index,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: NoNorm = None,
    norm_type: UnusedReal = 2.0,
    scale_grad_by_freq: UnusedFlag = False,
    sparse: UnusedFlag = False,
    *,
    invalid: Invalid = "raise",
) -> Op:
    """Rows of `weight` (rows, columns) by the numbers in `input` (any shape): shape (*input.shape, columns).

    padding_idx, norm_type, scale_grad_by_freq, sparse   matter for gradients only, as in PyTorch
    max_norm     must be None: PyTorch's would change `weight`
    invalid      see the module; out: an array to write to; threads: default as for pools

    Raises ShapeError, DTypeError, ArgumentError; InputError for a bad index.
    """
    row_of(weight, padding_idx)
    return Gather(0, invalid, False)


@function()
def index_select(input: Array, dim: int, index: Index, *, invalid: Invalid = "raise") -> Operation:
    """The slices of `input` along `dim` that the list `index` names, in its order."""
    if index.rank > 1:
        raise ShapeError(f"index must have at most 1 axis, got {list(index.shape)}")
    axis, given = axis_of(dim, input.rank), input.shape or (1,)
    op = Gather(axis, invalid, False)
    (y,) = op.infer(TensorType(input.dtype, given), TensorType(index.dtype, (index.size,)))
    if not input.rank and index.size != 1:
        raise ShapeError(f"index must hold one number for an input without axes, got {index.size}")
    return Operation(op, (given, (index.size,)), (y.shape if input.rank else (),))


@function()
def take(input: Array, index: Index, *, invalid: Invalid = "raise") -> Operation:
    """The elements of `input` by their numbers in row-major order; the result has the shape of `index`."""
    return Operation(Gather(0, invalid, True), ((input.size,), index.shape), (index.shape,))


def _elements(x: TensorType, dim: int, index: TensorType, invalid: str, negative: bool) -> Operation:
    """One element per index."""
    op = GatherElements(axis_of(dim, x.rank), invalid, negative)
    if not x.rank or not index.rank:  # a scalar counts as a list of one
        if x.rank > 1 or index.rank > 1 or (x.rank and not index.size):
            raise ShapeError(f"index {list(index.shape)} and input {list(x.shape)} must have as many axes")
        return Operation(op, (x.shape or (1,), index.shape or (1,)), (index.shape,))
    if not index.size and x.rank != index.rank:
        shapes = (x.shape, (0,) * x.rank) if x.size else ((0,), (0,))
        return Operation(GatherElements(0), shapes, (index.shape,))
    return plain(op, x, index)


def _with_index(input: DLPack, index: DLPack) -> tuple[DLPack, DLPack]:
    return input, as_index(index)


@function(arrays=_with_index)
def gather(
    input: Array,
    dim: int,
    index: Index,
    *,
    sparse_grad: bool = False,
    invalid: Invalid = "raise",
) -> Operation:
    """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and so on: one element per index.

    `index` has as many axes as `input` and is no longer on any but `dim`; the result has its shape.
    """
    return _elements(input, dim, index, invalid, negative=False)


@function()
def _take_along_dim(input: Array, index: Index, dim: int | None, invalid: Invalid) -> Operation:
    if dim is None:
        shape = (index.size,)
        return Operation(Gather(0, invalid, True), ((input.size,), shape), (shape,))
    return _elements(input, dim, index, invalid, negative=True)


@composed()
def take_along_dim(
    input: Given,
    indices: DLPack,
    dim: int | None = None,
    *,
    invalid: Invalid = "raise",
    out: Target,
    threads: Threads,
) -> DLPack:
    """As `gather`, but the other axes of both broadcast, and without `dim` both are flattened first."""
    given, places = (getattr(x, "shape", None) for x in (input, indices))
    if dim is not None:
        if given is None or places is None or len(given) != len(places):
            raise ShapeError(
                f"input and indices must be arrays of as many axes, got {shown(given)} and {shown(places)}"
            )
        dim = axis_of(dim, len(given))
        if any(a != b for n, (a, b) in enumerate(zip(given, places, strict=True)) if n != dim):
            input, indices = _along(input, indices, dim)
    return _take_along_dim(input, indices, dim, invalid, out=out, threads=threads)


def _along(x: Any, indices: Any, axis: int) -> tuple[DLPack, DLPack]:
    """Both with the other axes broadcast."""
    shapes = [tuple(1 if n == axis else extent for n, extent in enumerate(y.shape)) for y in (x, indices)]
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"input {list(x.shape)} and indices {list(indices.shape)} do not broadcast"
        ) from None
    made = []
    for y in (x, indices):
        shape = tuple(y.shape[n] if n == axis else extent for n, extent in enumerate(common))
        made.append(np.broadcast_to(y, shape) if isinstance(y, np.ndarray) else y.expand(shape))
    return made[0], made[1]
