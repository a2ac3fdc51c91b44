"""Elements by a mask, whose number is only known when they are counted: masked_select, nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import INT64, Array, TensorType
from cenote.functional.arguments import HERE, given_array
from cenote.functional.kinds import Given, Target, Threads
from cenote.functional.outputs import check_out
from cenote.functional.record import composed
from cenote.functional.types import DLPack
from cenote.ops.checks import broadcast_shapes
from cenote.ops.movement.compaction import compacting, locating, offsets_of
from cenote.runtime.arrays import Restore, dense
from cenote.runtime.memory import empty_output
from cenote.runtime.threads import resolve_threads


@composed()
def masked_select(input: Given, mask: DLPack, *, out: Target, threads: Threads) -> DLPack:
    """The elements of `input` where `mask` (bool) holds, in row-major order, as a list; both broadcast.

    out: a list of as many elements as the mask lets through. The mask must not change meanwhile.
    Raises DTypeError, ShapeError; ArgumentError for an `out` of another size.
    """
    (x, restore), (m, _) = given_array("input", input), given_array("mask", mask)
    if m.dtype != np.bool_:
        raise DTypeError(f"mask must be bool, got {m.dtype}")
    if x.dtype.itemsize not in (1, 2, 4, 8) or x.dtype.kind in "OSU":
        raise DTypeError(f"input has type {x.dtype}, expected elements of 1, 2, 4 or 8 bytes")
    if x.shape != m.shape:
        shape = broadcast_shapes(HERE, x.shape, m.shape)
        x, m = np.broadcast_to(x, shape), np.broadcast_to(m, shape)
    x, m, count = dense(x), dense(m), resolve_threads(threads)
    offsets = offsets_of(m, count) if x.size else np.zeros(1, np.int64)
    total = TensorType(x.dtype, (int(offsets[-1]),))
    y, target = _target(out, total, (x, m))
    if total.size:
        compacting(x.dtype, x.size, count)([x, m, offsets], [y])
    return _handed(y, target, out, restore)


def _target(out: object, wanted: TensorType, inputs: tuple[Array, ...]) -> tuple[Array, Array | None]:
    """Dense memory for the result, and the caller's array."""
    if out is None:
        return empty_output(wanted.shape, wanted.dtype), None
    (target,) = check_out(out, (wanted,), inputs)
    return (target if target.flags.c_contiguous else np.empty(wanted.shape, wanted.dtype)), target


def _handed(y: Array, target: Array | None, out: object, restore: Restore) -> Any:
    if target is None:
        return restore(y)
    if target is not y:
        target[...] = y
    return out


@composed(returns="Any")
def nonzero(input: Given, *, as_tuple: bool = False, out: Target, threads: Threads) -> Any:
    """The coordinates (int64) of the elements that are not zero, in row-major order: shape (count, axes).

    NaN is not zero. With `as_tuple` a list of coordinates per axis instead, as numpy.nonzero gives (`out` must be
    None); a scalar then counts as a list of one.
    """
    x, restore = given_array("input", input)
    if as_tuple and out is not None:
        raise ArgumentError("out must be None with as_tuple")
    if x.dtype.kind not in "iufb" and x.dtype.name != "bfloat16":
        raise DTypeError(f"input has type {x.dtype}, expected numbers or bools; cast it")
    shape = (1,) if as_tuple and not x.ndim else x.shape
    x, count = dense(x).reshape(shape), resolve_threads(threads)
    offsets = offsets_of(x, count) if x.size else np.zeros(1, np.int64)
    total = TensorType(INT64, (int(offsets[-1]), x.ndim))
    y, target = _target(out, total, (x,))
    if total.size:
        locating(x.dtype, x.shape, count)([x, offsets], [y])
    if as_tuple:
        return tuple(restore(np.ascontiguousarray(y[:, axis])) for axis in range(x.ndim))
    return _handed(y, target, out, restore)
