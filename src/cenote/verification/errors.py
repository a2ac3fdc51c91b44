"""How far arrays are apart, and how far rounding alone may put them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cenote.core.types import Array, is_float

Arrays = Sequence[Array | None]
_PERTURBED = 4 * 2.0**-24  # of each input: a few roundings of float32
AMPLIFIED = 16.0  # times what such a change does to a result: still rounding
ALLOWED = {"float64": 1e-11, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Relative to the largest element: the error that one operator may have by the type that it computes in."""


def widened(array: Array | None) -> Array | None:
    """Floats as float64; others as they are."""
    if array is None or not is_float(array.dtype):
        return array
    return array.astype(np.float64)


def relative_error(got: Array, wanted: Array, least: float = 0.0) -> float:
    """The largest difference, relative to the largest finite element of `wanted` (to `least` where that is smaller).

    Infinite where shapes differ, or one array has a NaN, infinity or text that the other has not.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return math.inf
    if not got.size:
        return 0.0
    if any(array.dtype.kind in "OSUT" for array in (got, wanted)):
        return 0.0 if np.array_equal(got, wanted) else math.inf
    numbers = np.complex128 if "c" in (got.dtype.kind, wanted.dtype.kind) else np.float64
    a, b = got.astype(numbers), wanted.astype(numbers)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return math.inf
    difference = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    if not difference:
        return 0.0
    scale = max(float(np.abs(b[finite]).max(initial=0.0)), least)
    return difference / scale if scale else math.inf


def relative_error_to(theirs: Array, ours: Array) -> float:
    """The error of ours; engines may leave out axes of extent 1 of a scalar."""
    from_them = theirs.reshape(ours.shape) if theirs.size == ours.size == 1 else theirs
    return relative_error(ours, from_them)


def nearest(got: Array, *wanted: Array) -> Array:
    """Of several arrays that are right, element by element, what is nearest to another."""
    if got.dtype.kind in "OSUTc" or any(each.shape != got.shape for each in wanted):
        return wanted[0]
    near, (found, *others) = got.astype(np.float64), [each.astype(np.float64) for each in wanted]
    with np.errstate(
        invalid="ignore"
    ):  # infinities: their distances are NaN, and nothing is nearer than that
        for each in others:
            exact = (near == each) | (np.isnan(near) & np.isnan(each))
            found = np.where(exact | (np.abs(near - each) < np.abs(near - found)), each, found)
    return found


def steps_of(wanted: Array, steps: float) -> float:
    """So many steps of a quantised value (integers of one or two bytes), relative to its largest; 0 of others: engines
    round halves differently."""
    if wanted.dtype.kind not in "iu" or wanted.dtype.itemsize > 2 or not wanted.size:
        return 0.0
    return (steps + 1e-3) / max(1.0, float(np.abs(wanted.astype(np.float64)).max()))


def least_scale(inputs: Arrays) -> float:
    """What counts as nothing beside these inputs: a sum of theirs that cancels is not exact."""
    floats = [x for x in inputs if x is not None and x.size and is_float(x.dtype)]
    largest = max((float(np.nanmax(np.abs(x[np.isfinite(x)]), initial=0.0)) for x in floats), default=0.0)
    return largest * 2.0**-20


def is_amplified(
    compute: Callable[[Arrays], Array], inputs: Arrays, got: Array, wanted: Array, times: float = AMPLIFIED
) -> bool:
    """Whether rounding the inputs of a computation explains the difference: it is ill-conditioned where they are.

    The inputs move twice, in opposite directions, so that a quotient on the edge between two integers falls once
    to either side; each by another amount, so that they do not cancel.
    """
    if got.shape != wanted.shape or not np.array_equal(np.isnan(got), np.isnan(wanted)):
        return False
    moved = 0.0
    with np.errstate(all="ignore"):
        for sign in (1.0, -1.0):
            generator = np.random.default_rng(0)
            changed = [
                _changed(x, generator, sign * _PERTURBED / place) for place, x in enumerate(inputs, start=1)
            ]
            moved = max(moved, float(np.nanmax(np.abs(compute(changed) - wanted), initial=0.0)))
        return bool(float(np.nanmax(np.abs(got - wanted), initial=0.0)) <= times * moved)


def _changed(x: Array | None, generator: np.random.Generator, part: float) -> Array | None:
    if x is None or x.dtype != np.float64:
        return x
    signs: Array = generator.choice(np.array([-1.0, 1.0]), x.shape)
    return x * (1.0 + part * signs)
