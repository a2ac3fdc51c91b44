"""Distances between arrays, and the distances that rounding alone can cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cenote.core.types import Array, is_float

Arrays = Sequence[Array | None]
# Relative change of each input: a few roundings of float32.
_PERTURBED = 4 * 2.0**-24
# A difference of up to this many times the effect of such a change on a result is still rounding.
AMPLIFIED = 16.0
ALLOWED = {"float64": 1e-11, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Error that one operator may have, by the type that it computes in, relative to the largest element."""

INHERITED = {"bfloat16": 0.2}
"""Error that a value may inherit, by the `precision` of a plan: networks amplify the rounding of each layer (random
weights, at the outputs: 3e-3 on SqueezeNet, 0.11 on ResNet-50)."""
INHERITED_OF_FLOAT32 = 1e-4


def allowed_of(precision: str) -> float:
    """Return the error that a value may inherit under a precision."""
    return INHERITED.get(precision, INHERITED_OF_FLOAT32)


def widened(array: Array | None) -> Array | None:
    """Return floats as float64; others unchanged."""
    if array is None or not is_float(array.dtype):
        return array
    return array.astype(np.float64)


def relative_error(got: Array, wanted: Array, least: float = 0.0) -> float:
    """Return the largest difference, relative to the largest finite element of `wanted` (`least` if that is larger).

    It is infinite where shapes differ, or one array has a NaN, infinity or text that the other does not have.
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
    """Return the error of ours; engines may omit axes of extent 1 of a scalar."""
    from_them = theirs.reshape(ours.shape) if theirs.size == ours.size == 1 else theirs
    return relative_error(ours, from_them)


def nearest(got: Array, *wanted: Array) -> Array:
    """Return, element by element, the one of several correct arrays that is nearest to another array."""
    if got.dtype.kind in "OSUTc" or any(each.shape != got.shape for each in wanted):
        return wanted[0]
    near, (closest, *others) = got.astype(np.float64), [each.astype(np.float64) for each in wanted]
    # Infinities: their distances are NaN, and nothing is nearer than NaN.
    with np.errstate(invalid="ignore"):
        for each in others:
            exact = (near == each) | (np.isnan(near) & np.isnan(each))
            closest = np.where(exact | (np.abs(near - each) < np.abs(near - closest)), each, closest)
    return closest


def steps_of(wanted: Array, steps: float) -> float:
    """Return so many steps of a quantised value (integers of one or two bytes), relative to its largest element; 0
    for other values. Engines round halves differently."""
    if wanted.dtype.kind not in "iu" or wanted.dtype.itemsize > 2 or not wanted.size:
        return 0.0
    return (steps + 1e-3) / max(1.0, float(np.abs(wanted.astype(np.float64)).max()))


def least_scale(inputs: Arrays) -> float:
    """Return the size that counts as zero beside these inputs: a sum of them that cancels is not exact."""
    floats = [x for x in inputs if x is not None and x.size and is_float(x.dtype)]
    largest = max((float(np.nanmax(np.abs(x[np.isfinite(x)]), initial=0.0)) for x in floats), default=0.0)
    return largest * 2.0**-20


def is_amplified(
    compute: Callable[[Arrays], Array], inputs: Arrays, got: Array, wanted: Array, times: float = AMPLIFIED
) -> bool:
    """Return whether rounding of a computation's inputs explains the difference: it is ill-conditioned there.

    The inputs are moved twice, in opposite directions, so that a quotient on the edge between two integers falls once
    to either side; each input by another amount, so that the changes do not cancel.
    """
    if got.shape != wanted.shape or not np.array_equal(np.isnan(got), np.isnan(wanted)):
        return False
    moved = 0.0
    with np.errstate(all="ignore"):
        for sign in (1.0, -1.0):
            generator = np.random.default_rng(0)
            changed = [
                None if x is None else perturbed(x, generator, sign / place)
                for place, x in enumerate(inputs, start=1)
            ]
            moved = max(moved, float(np.nanmax(np.abs(compute(changed) - wanted), initial=0.0)))
        return bool(float(np.nanmax(np.abs(got - wanted), initial=0.0)) <= times * moved)


def perturbed(x: Array, generator: np.random.Generator, times: float) -> Array:
    """Return floats of which each is changed by so many times a few roundings of float32, up or down; others
    unchanged."""
    if not is_float(x.dtype):
        return x
    signs: Array = generator.choice(np.array([-1.0, 1.0]), x.shape)
    return (x * (1.0 + times * _PERTURBED * signs)).astype(x.dtype)
