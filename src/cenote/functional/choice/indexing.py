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

from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError, shown
from cenote.core.types import TensorType
from cenote.functional.arguments import Operation, Types, choice, flag, whole
from cenote.functional.dispatch import call
from cenote.functional.record import public
from cenote.functional.types import A, DLPack, Invalid
from cenote.kernels.selection.indices import MODES
from cenote.ops.base import Op
from cenote.ops.movement.indexing import Gather, GatherElements


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


def as_index(x: Any) -> Any:
    """Indices of small integer types as int64; others as they are."""
    kind = str(getattr(x, "dtype", "")).removeprefix("torch.")
    if kind not in ("uint8", "int8", "int16", "uint16", "uint32"):
        return x
    return x.astype(np.int64) if isinstance(x, np.ndarray) else x.long() if hasattr(x, "long") else x


def mode_of(where: str, invalid: Any) -> str:
    """One of the four words."""
    return choice(where, "invalid", invalid, MODES)


def made(op: Op, *inputs: TensorType) -> Operation:
    """The operation on inputs as they are."""
    return Operation(op, tuple(x.shape for x in inputs), tuple(y.shape for y in op.infer(*inputs)))


def parse_embedding(types: Types, where: str, padding_idx: object, invalid: object) -> Operation:
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


@public
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


def parse_index_select(types: Types, where: str, dim: object, invalid: object) -> Operation:
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


@public
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


def parse_take(types: Types, where: str, invalid: object) -> Operation:
    """Elements of the flattened input."""
    x, index = types
    index_input(where, index)
    op = Gather(0, mode_of(where, invalid), True, where)
    return Operation(op, ((x.size,), index.shape), (index.shape,))


@public
def take(
    input: A, index: DLPack, *, invalid: Invalid = "raise", out: A | None = None, threads: int | None = None
) -> A:
    """The elements of `input` by their numbers in row-major order; the result has the shape of `index`."""
    return call(parse_take, (input, index), ("take", invalid), out, threads)


def parse_gather(types: Types, where: str, dim: object, invalid: object, negative: bool) -> Operation:
    """One element per index."""
    x, index = types
    index_input(where, index)
    axis, rule = axis_of(where, dim, x.rank), mode_of(where, invalid)
    op = GatherElements(axis, rule, negative, where)
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


@public
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
    """y[i, j, k] = input[index[i, j, k], j, k] for dim 0, and so on: one element per index.

    `index` has as many axes as `input` and is no longer on any but `dim`; the result has its shape.
    """
    flag("gather", "sparse_grad", sparse_grad)
    return call(parse_gather, (input, as_index(index)), ("gather", dim, invalid, False), out, threads)


@public
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


def parse_flat(types: Types, where: str, invalid: object) -> Operation:
    """Elements of the flattened input, by a flattened index."""
    x, index = types
    index_input(where, index, "indices")
    return Operation(
        Gather(0, mode_of(where, invalid), True, where), ((x.size,), (index.size,)), ((index.size,),)
    )
