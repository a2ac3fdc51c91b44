"""Elements by a mask, whose number is only known when they are counted: masked_select, nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.types import INT64, Array, TensorType
from cenote.functional.arguments import flag, given_array
from cenote.functional.outputs import check_out
from cenote.functional.record import public
from cenote.functional.types import A, DLPack
from cenote.ops.checks import broadcast_shapes
from cenote.ops.movement.compaction import compacting, locating, offsets_of
from cenote.runtime.arrays import Restore, dense
from cenote.runtime.memory import empty_output
from cenote.runtime.threads import resolve_threads


@public
def masked_select(input: A, mask: DLPack, *, out: A | None = None, threads: int | None = None) -> A:
    """The elements of `input` where `mask` (bool) holds, in row-major order, as a list; both broadcast.

    out: a list of as many elements as the mask lets through. The mask must not change meanwhile.
    Raises DTypeError, ShapeError; ArgumentError for an `out` of another size.
    """
    name = "masked_select"
    (x, restore), (m, _) = given_array(name, "input", input), given_array(name, "mask", mask)
    if m.dtype != np.bool_:
        raise DTypeError(f"{name}: mask must be bool, got {m.dtype}")
    if x.dtype.itemsize not in (1, 2, 4, 8) or x.dtype.kind in "OSU":
        raise DTypeError(f"{name}: input has type {x.dtype}, expected elements of 1, 2, 4 or 8 bytes")
    if x.shape != m.shape:
        shape = broadcast_shapes(name, x.shape, m.shape)
        x, m = np.broadcast_to(x, shape), np.broadcast_to(m, shape)
    x, m, count = dense(x), dense(m), resolve_threads(threads)
    offsets = offsets_of(m, count) if x.size else np.zeros(1, np.int64)
    total = TensorType(x.dtype, (int(offsets[-1]),))
    y, given = _target(name, out, total, (x, m))
    if total.size:
        compacting(x.dtype, x.size, count)([x, m, offsets], [y])
    return _handed(y, given, out, restore)


def _target(
    name: str, out: object, wanted: TensorType, inputs: tuple[Array, ...]
) -> tuple[Array, Array | None]:
    """Dense memory for the result, and the caller's array."""
    if out is None:
        return empty_output(wanted.shape, wanted.dtype), None
    (given,) = check_out(name, out, (wanted,), inputs)
    return (given if given.flags.c_contiguous else np.empty(wanted.shape, wanted.dtype)), given


def _handed(y: Array, given: Array | None, out: object, restore: Restore) -> Any:
    if given is None:
        return restore(y)
    if given is not y:
        given[...] = y
    return out


@public
def nonzero(input: A, *, as_tuple: bool = False, out: A | None = None, threads: int | None = None) -> Any:
    """The coordinates (int64) of the elements that are not zero, in row-major order: shape (count, axes).

    NaN is not zero. With `as_tuple` a list of coordinates per axis instead, as numpy.nonzero gives (`out` must be
    None); a scalar then counts as a list of one.
    """
    name = "nonzero"
    x, restore = given_array(name, "input", input)
    apart = flag(name, "as_tuple", as_tuple)
    if apart and out is not None:
        raise ArgumentError(f"{name}: out must be None with as_tuple")
    if x.dtype.kind not in "iufb" and x.dtype.name != "bfloat16":
        raise DTypeError(f"{name}: input has type {x.dtype}, expected numbers or bools; cast it")
    shape = (1,) if apart and not x.ndim else x.shape
    x, count = dense(x).reshape(shape), resolve_threads(threads)
    offsets = offsets_of(x, count) if x.size else np.zeros(1, np.int64)
    total = TensorType(INT64, (int(offsets[-1]), x.ndim))
    y, given = _target(name, out, total, (x,))
    if total.size:
        locating(x.dtype, x.shape, count)([x, offsets], [y])
    if apart:
        return tuple(restore(np.ascontiguousarray(y[:, axis])) for axis in range(x.ndim))
    return _handed(y, given, out, restore)
