"""Arrays that callers want results written to: what fits, and what lies apart from everything else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, CenoteError, DTypeError
from cenote.core.types import Array, TensorType
from cenote.runtime.arrays import Restore, as_numpy


def check_out(
    out: Any,
    outputs: Sequence[TensorType],
    inputs: Sequence[Array],
    in_place: Collection[int] = (),
) -> list[Array]:
    """The arrays to write to; ArgumentError or DTypeError unless they fit. The first may be one of the inputs
    `in_place`, all of it."""
    count, single = len(outputs), len(outputs) == 1
    given = (out,) if single else out
    if not single and (not isinstance(out, list | tuple) or len(out) != count):
        raise ArgumentError(f"out must be a tuple of {count} arrays, one per result")
    targets: list[Array] = []
    for position, (target, wanted) in enumerate(zip(given, outputs, strict=True)):
        what = "out" if single else f"out[{position}]"
        try:
            array, _ = as_numpy(target)
        except CenoteError as error:
            raise ArgumentError(f"{what} {error}") from error
        if array.dtype != wanted.dtype:
            raise DTypeError(f"{what} must have type {wanted.dtype}, got {array.dtype}")
        if array.shape != wanted.shape:
            raise ArgumentError(f"{what} must have shape {list(wanted.shape)}, got {list(array.shape)}")
        if not array.flags.writeable:
            raise ArgumentError(f"{what} is read-only")
        if not array.flags.c_contiguous and _overlaps_itself(array):
            raise ArgumentError(f"{what}: its own elements overlap in memory (strides {list(array.strides)})")
        apart = [
            x for n, x in enumerate(inputs) if position or n not in in_place or not _is_same_memory(array, x)
        ]
        if any(_overlap(array, x) for x in (*apart, *targets)):
            raise ArgumentError(
                f"{what} overlaps an input or another output in memory; give it memory of its own"
            )
        targets.append(array)
    return targets


def handed(y: Array, out: object, restore: Restore) -> Any:
    """A result to the caller: in `out` where there is one, else as the caller's kind of array."""
    if out is None:
        return restore(y)
    (target,) = check_out(out, (TensorType(y.dtype, y.shape),), ())
    target[...] = y
    return out


def _is_same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have every element at the same place."""
    same = (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return same and a.__array_interface__["data"] == b.__array_interface__["data"]


def _overlaps_itself(array: Array) -> bool:
    """Whether the steps of some axis are shorter than what lies within one step.

    So it is when elements share memory. Of views without shared memory only those that weave their axes into each
    other (as_strided alone makes such) are taken for overlapping too.
    """
    within = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, extent in sorted(axis for axis in axes if axis[1] > 1):
        if stride < within:
            return array.size > 0
        within += stride * (extent - 1)
    return False


def _overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share an element; True when that is too hard to tell."""
    try:
        return bool(np.shares_memory(a, b, max_work=100_000))  # type: ignore[arg-type]  # any limit is valid
    except np.exceptions.TooHardError:
        return True
