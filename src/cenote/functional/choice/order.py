"""Elements by their order: topk, sort, argmax; and choosing by a condition: where, one_hot."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, InputError, ShapeError
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import Operation, Types, flag, given_array, type_of, whole
from cenote.functional.choice.indexing import axis_of, index_input, made, mode_of
from cenote.functional.dispatch import call
from cenote.functional.elementwise.arithmetic import named_type, type_name
from cenote.functional.elementwise.recorder import Traced, run
from cenote.functional.record import public
from cenote.functional.scalars import number_as
from cenote.functional.types import A, DLPack, Invalid
from cenote.ops.base import Op
from cenote.ops.checks import broadcast_shapes
from cenote.ops.elementwise.where import Where
from cenote.ops.movement.data_dependent import OneHotOf
from cenote.ops.reduction.topk import ArgMax, ArgMin, Ordered


def _on_axis(where: str, x: TensorType, dim: object) -> tuple[int, tuple[int, ...]]:
    """The axis, and the shape with that of a list of one in place of none."""
    if x.dtype.kind in "cOSUV" and x.dtype.name != "bfloat16":
        raise DTypeError(f"{where}: input has type {x.dtype}, expected numbers or bools; cast it")
    return axis_of(where, dim, x.rank), x.shape or (1,)


def _ordered(op: Op, x: TensorType, shape: tuple[int, ...]) -> Operation:
    outputs = op.infer(TensorType(x.dtype, shape))
    scalar = not x.rank
    return Operation(op, (shape,), tuple(() if scalar and y.size == 1 else y.shape for y in outputs))


def parse_topk(
    types: Types, where: str, k: object, dim: object, largest: object, sorted: object
) -> Operation:
    """The k best along an axis."""
    (x,) = types
    axis, shape = _on_axis(where, x, dim)
    count = whole(where, "k", k, 0)
    if count > shape[axis]:
        raise ArgumentError(
            f"{where}: k is {count}, but axis {axis} of {list(x.shape)} has {shape[axis]} elements"
        )
    flag(where, "sorted", sorted)
    return _ordered(Ordered(axis, flag(where, "largest", largest), count), x, shape)


@public
def topk(
    input: A,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: tuple[A, A] | None = None,
    threads: int | None = None,
) -> tuple[A, A]:
    """The k largest (or smallest) elements along `dim` and their places (int64), best first.

    Of equal elements the one with the lower place comes first, always; -0 and +0 are equal. NaN is greater than any
    number. Results come in order whatever `sorted` says. k may be 0 and at most the extent.

    Raises ArgumentError, DTypeError.
    """
    return call(parse_topk, (input,), ("topk", k, dim, largest, sorted), out, threads)


def parse_sort(types: Types, where: str, dim: object, descending: object, stable: object) -> Operation:
    """All elements along an axis, in order."""
    (x,) = types
    axis, shape = _on_axis(where, x, dim)
    if stable is not None:
        flag(where, "stable", stable)
    return _ordered(Ordered(axis, flag(where, "descending", descending)), x, shape)


@public
def sort(
    input: A,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = False,
    out: tuple[A, A] | None = None,
    threads: int | None = None,
) -> tuple[A, A]:
    """The elements along `dim` in order, and the places (int64) they came from.

    Equal elements keep their order whatever `stable` says; -0 and +0 are equal; NaN is greater than any number.
    """
    return call(parse_sort, (input,), ("sort", dim, descending, stable), out, threads)


@public
def argsort(
    input: A, dim: int = -1, descending: bool = False, *, stable: bool = False, threads: int | None = None
) -> A:
    """The places along `dim` of the elements in order: the second result of `sort`."""
    places: A = call(parse_sort, (input,), ("argsort", dim, descending, stable), None, threads)[1]
    return places


def parse_arg_reduce(
    types: Types, where: str, dim: object, keepdim: object, select_last_index: object
) -> Operation:
    """The place of the best along an axis, or of all elements."""
    (x,) = types
    keep, last = flag(where, "keepdim", keepdim), flag(where, "select_last_index", select_last_index)
    make = ArgMax if where == "argmax" else ArgMin
    if x.dtype.kind in "cOSUV" and x.dtype.name != "bfloat16":
        raise DTypeError(f"{where}: input has type {x.dtype}, expected numbers or bools; cast it")
    axis = 0 if dim is None else axis_of(where, dim, x.rank)
    shape = (x.size,) if dim is None else x.shape or (1,)
    if not shape[axis]:
        what = "an input without elements" if dim is None else f"axis {axis} of {list(x.shape)}"
        raise ShapeError(f"{where}: {what} is empty and has no largest or smallest element; give another dim")
    op = make(axis, keep, last)
    (y,) = op.infer(TensorType(x.dtype, shape))
    shown: tuple[int, ...] = y.shape if x.rank else ()
    if dim is None:
        shown = (1,) * x.rank if keep else ()
    return Operation(op, (shape,), (shown,))


@public
def argmax(
    input: A,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    select_last_index: bool = False,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The place (int64) of the largest element along `dim`; without it, of all in row-major order.

    Of equal elements the first, or with `select_last_index` (as ONNX) the last. NaN is larger than any number, and of
    several NaN it is again the first or the last. An empty axis raises ShapeError.
    """
    return call(parse_arg_reduce, (input,), ("argmax", dim, keepdim, select_last_index), out, threads)


@public
def argmin(
    input: A,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    select_last_index: bool = False,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """The place of the smallest element: see argmax. NaN is smaller than any number here, as in PyTorch."""
    return call(parse_arg_reduce, (input,), ("argmin", dim, keepdim, select_last_index), out, threads)


def parse_where(types: Types, where: str) -> Operation:
    """One of two elements by a condition."""
    condition, x, y = types
    if condition.dtype.kind != "b":
        raise DTypeError(f"{where}: condition must be bool, got {condition.dtype}")
    if x.dtype != y.dtype:
        raise DTypeError(
            f"{where}: input and other must have one type, got {x.dtype} and {y.dtype}; cast one"
        )
    broadcast_shapes(where, *(t.shape for t in types))
    return made(Where(), *types)


@public
def where(condition: DLPack, input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input where the condition (bool) holds, other elsewhere; all three broadcast.

    Numbers are taken for either of the two, in the other's type. Unlike PyTorch's, types are not promoted: DTypeError.
    The result is of the kind (NumPy, torch, ...) of `condition`. In a `fused` function types are promoted.
    """
    if any(isinstance(x, Traced) for x in (condition, input, other)):
        return cast(A, run("where", (condition, input, other), (), out, threads))
    values = [input, other]
    for at, name in enumerate(("input", "other")):
        if isinstance(values[at], int | float) and not isinstance(values[1 - at], int | float):
            like = type_of("where", ("other", "input")[at], values[1 - at])
            values[at] = number_as("where", name, values[at], like)
    return call(parse_where, (condition, *values), ("where",), out, threads)


def parse_one_hot(types: Types, name: str, classes: object, dim: object, invalid: object) -> Operation:
    """One of two values along a new axis. The values are the second input."""
    indices, values = types
    index_input(name, indices, "input")
    depth = whole(name, "num_classes", classes, 0)
    axis = axis_of(name, dim, indices.rank + 1)
    op = OneHotOf(axis, depth, mode_of(name, invalid))
    return made(op, indices, values)


@public
def one_hot(
    input: A,
    num_classes: int = -1,
    *,
    dim: int = -1,
    on_value: Any = 1,
    off_value: Any = 0,
    dtype: Any = INT64,
    invalid: Invalid = "raise",
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """`on_value` where the new axis `dim` of `num_classes` places meets the index, `off_value` elsewhere.

    input        int32 or int64 of any shape; num_classes -1: the largest index + 1
    dtype        of the result, int64 as in PyTorch by default (a NumPy dtype or its name); DTypeError where it does not
                 hold the two values
    invalid      what an index outside of 0 to num_classes - 1 does: see `embedding`; with "zero" no place is on

    Raises ArgumentError, DTypeError; InputError for a bad index.
    """
    name = "one_hot"
    kind = named_type(name, type_name(name, dtype))
    pair = (("off_value", off_value), ("on_value", on_value))
    values = np.stack([number_as(name, what, value, kind) for what, value in pair])
    classes = whole(name, "num_classes", num_classes, -1)
    if classes < 0:
        indices = given_array(name, "input", input)[0]
        index_input(name, TensorType.of(indices.dtype.newbyteorder("="), indices.shape), "input")
        if not indices.size:
            raise InputError(f"{name}: num_classes -1 (the largest index + 1) needs an input with elements")
        classes = max(int(indices.max()) + 1, 0)
    return call(parse_one_hot, (input, values), (name, classes, dim, invalid), out, threads)
