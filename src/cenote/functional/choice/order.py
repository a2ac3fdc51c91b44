"""Elements by their order: topk, sort, argmax; and choosing by a condition: where, one_hot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Annotated

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, InputError, ShapeError
from cenote.core.types import INT64, TensorType
from cenote.functional.arguments import HERE, Operation, given_array, type_of, whole
from cenote.functional.choice.indexing import Index, axis_of
from cenote.functional.elementwise.arithmetic import named_type, type_name
from cenote.functional.elementwise.recorder import Traced, run
from cenote.functional.kinds import Anything, Array, Given, Kind, Other, Target, Threads
from cenote.functional.record import composed, function
from cenote.functional.scalars import number_as
from cenote.functional.types import DLPack, Invalid
from cenote.ops.base import Op
from cenote.ops.checks import broadcast_shapes
from cenote.ops.elementwise.where import Where
from cenote.ops.movement.data_dependent import OneHotOf
from cenote.ops.reduction.topk import ArgMax, ArgMin, Ordered

Count = Annotated[int, Kind("int", partial(whole, low=0))]
Classes = Annotated[int, Kind("int", partial(whole, low=-1))]


def _numbers(x: TensorType) -> None:
    if x.dtype.kind in "cOSUV" and x.dtype.name != "bfloat16":
        raise DTypeError(f"input has type {x.dtype}, expected numbers or bools; cast it")


def _ordered(x: TensorType, dim: int, descending: bool, count: int | None = None) -> Operation:
    """The first elements along an axis, in order; an array without axes counts as a list of one."""
    _numbers(x)
    axis, shape = axis_of(dim, x.rank), x.shape or (1,)
    if count is not None and count > shape[axis]:
        raise ArgumentError(f"k is {count}, but axis {axis} of {list(x.shape)} has {shape[axis]} elements")
    op = Ordered(axis, descending, count)
    outputs = op.infer(TensorType(x.dtype, shape))
    return Operation(op, (shape,), tuple(() if not x.rank and y.size == 1 else y.shape for y in outputs))


@function(returns="tuple[A, A]", out="tuple[A, A] | None")
def topk(input: Array, k: Count, dim: int = -1, largest: bool = True, sorted: bool = True) -> Operation:
    """The k largest (or smallest) elements along `dim` and their places (int64), best first.

    Of equal elements the one with the lower place comes first, always; -0 and +0 are equal. NaN is greater than any
    number. Results come in order whatever `sorted` says. k may be 0 and at most the extent.

    Raises ArgumentError, DTypeError.
    """
    return _ordered(input, dim, largest, k)


@function(returns="tuple[A, A]", out="tuple[A, A] | None")
def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = False) -> Operation:
    """The elements along `dim` in order, and the places (int64) they came from.

    Equal elements keep their order whatever `stable` says; -0 and +0 are equal; NaN is greater than any number.
    """
    return _ordered(input, dim, descending)


@function(out="", then=itemgetter(1))
def argsort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Operation:
    """The places along `dim` of the elements in order: the second result of `sort`."""
    return _ordered(input, dim, descending)


@dataclass(frozen=True)
class ExtremePlace:
    """The arguments of argmax and argmin."""

    dim: int | None = None
    keepdim: bool = False

    def of(self, kind: Callable[..., Op], x: TensorType, last: bool) -> Operation:
        """The place of the best along an axis, or of all elements."""
        _numbers(x)
        axis = 0 if self.dim is None else axis_of(self.dim, x.rank)
        shape = (x.size,) if self.dim is None else x.shape or (1,)
        if not shape[axis]:
            what = "an input without elements" if self.dim is None else f"axis {axis} of {list(x.shape)}"
            raise ShapeError(f"{what} is empty and has no largest or smallest element; give another dim")
        op = kind(axis, self.keepdim, last)
        (y,) = op.infer(TensorType(x.dtype, shape))
        if self.dim is None:
            return Operation(op, (shape,), ((1,) * (x.rank * self.keepdim),))
        return Operation(op, (shape,), (y.shape if x.rank else (),))


@function()
def argmax(input: Array, best: ExtremePlace, *, select_last_index: bool = False) -> Operation:
    """The place (int64) of the largest element along `dim`; without it, of all in row-major order.

    Of equal elements the first, or with `select_last_index` (as ONNX) the last. NaN is larger than any number, and of
    several NaN it is again the first or the last. An empty axis raises ShapeError.
    """
    return best.of(ArgMax, input, select_last_index)


@function()
def argmin(input: Array, best: ExtremePlace, *, select_last_index: bool = False) -> Operation:
    """The place of the smallest element: see argmax. NaN is smaller than any number here, as in PyTorch."""
    return best.of(ArgMin, input, select_last_index)


@function()
def _where(condition: Other, input: Array, other: Array) -> Op:
    if condition.dtype.kind != "b":
        raise DTypeError(f"condition must be bool, got {condition.dtype}")
    if input.dtype != other.dtype:
        raise DTypeError(f"input and other must have one type, got {input.dtype} and {other.dtype}; cast one")
    broadcast_shapes(HERE, condition.shape, input.shape, other.shape)
    return Where()


@composed()
def where(condition: DLPack, input: Given, other: Anything, *, out: Target, threads: Threads) -> DLPack:
    """input where the condition (bool) holds, other elsewhere; all three broadcast.

    Numbers are taken for either of the two, in the other's type. Unlike PyTorch's, types are not promoted: DTypeError.
    The result is of the kind (NumPy, torch, ...) of `condition`. In a `fused` function types are promoted.
    """
    if any(isinstance(x, Traced) for x in (condition, input, other)):
        return run("where", (condition, input, other), (), out, threads)
    values = [input, other]
    for at, name in enumerate(("input", "other")):
        if isinstance(values[at], int | float) and not isinstance(values[1 - at], int | float):
            like = type_of(("other", "input")[at], values[1 - at])
            values[at] = number_as(name, values[at], like)
    return _where(condition, *values, out=out, threads=threads)


@function()
def _one_hot(input: Index, values: Array, num_classes: Count, dim: int, invalid: Invalid) -> Op:
    return OneHotOf(axis_of(dim, input.rank + 1), num_classes, invalid)


@composed()
def one_hot(
    input: Given,
    num_classes: Classes = -1,
    *,
    dim: int = -1,
    on_value: Anything = 1,
    off_value: Anything = 0,
    dtype: Anything = INT64,
    invalid: Invalid = "raise",
    out: Target,
    threads: Threads,
) -> DLPack:
    """`on_value` where the new axis `dim` of `num_classes` places meets the index, `off_value` elsewhere.

    input        int32 or int64 of any shape; num_classes -1: the largest index + 1
    dtype        of the result, int64 as in PyTorch by default (a NumPy dtype or its name); DTypeError where it does not
                 hold the two values
    invalid      what an index outside of 0 to num_classes - 1 does: see `embedding`; with "zero" no place is on

    Raises ArgumentError, DTypeError; InputError for a bad index.
    """
    kind = named_type(type_name(dtype))
    pair = (("off_value", off_value), ("on_value", on_value))
    values = np.stack([number_as(what, value, kind) for what, value in pair])
    if num_classes < 0:
        indices = given_array("input", input)[0]
        if not indices.size:
            raise InputError("num_classes -1 (the largest index + 1) needs an input with elements")
        num_classes = max(int(indices.max()) + 1, 0) if indices.dtype.kind in "iu" else 0
    return _one_hot(input, values, num_classes, dim, invalid, out=out, threads=threads)
