"""Values of references and samples: wider types to compute in, one rounding at the end, seeded noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.types import BFLOAT16, FLOAT64, Array, is_float

# Error, relative to the largest result, where operands are rounded to bfloat16 that the reference takes as they are.
ROUNDED_OPERANDS = 2.0**-6


def wide(x: Array) -> Array:
    """Float arrays as float64, others as they are: what references compute in."""
    return x.astype(FLOAT64) if is_float(x.dtype) else x


def narrow(y: Array, dtype: np.dtype[Any]) -> Array:
    """Round a reference's result once, to the declared dtype (no warning on overflow to infinity)."""
    y = np.asarray(y)
    with np.errstate(over="ignore", invalid="ignore"):
        return (odd_float32(y) if dtype == BFLOAT16 else y).astype(dtype)


def added(x: Array, axes: tuple[int, ...], accumulate: str | None = None, keepdims: bool = False) -> Array:
    """The sum over axes of what is added up: `wide` floats, whole numbers in 64 bits; "compensated" keeps what each
    addition loses."""
    if accumulate != "compensated":
        return np.asarray(np.sum(x, axis=axes, keepdims=keepdims))
    kept = [extent for axis, extent in enumerate(x.shape) if axis not in axes]
    total = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*kept, -1) if axes else x[..., None]
    lost = np.zeros_like(total)
    while total.shape[-1] > 1:  # in pairs; of an odd number the last waits
        rest = total.shape[-1] % 2
        a, b = total[..., : total.shape[-1] - rest : 2], total[..., 1::2]
        both = a + b
        moved = both - a
        less = (a - (both - moved)) + (b - moved) + (lost[..., : lost.shape[-1] - rest : 2] + lost[..., 1::2])
        total = np.concatenate((both, total[..., -1:]), -1) if rest else both
        lost = np.concatenate((less, lost[..., -1:]), -1) if rest else less
    result = np.where(np.isfinite(total), total + lost, total).sum(-1)
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)] if keepdims else kept
    return np.asarray(result.reshape(shape))


def odd_float32(y: Array) -> Array:
    """float64 as float32 rounded to odd, from where a second rounding to a smaller type is as good as one.

    ml_dtypes rounds float64 to float32 first: 1 + 2**-8 + 2**-40 would become the bfloat16 1, not 1 + 2**-7. The last
    bit set in an inexact result stands for all that was cut off (Boldo and Melquiond, "When double rounding is odd").
    Other types pass unchanged.
    """
    if y.dtype != FLOAT64:
        return y
    near = y.astype(np.float32)
    inexact = np.isfinite(y) & (near.astype(FLOAT64) != y)
    outward = inexact & (np.abs(near.astype(FLOAT64)) > np.abs(y))
    bits = np.asarray(near).view(np.uint32) - outward.astype(np.uint32)
    return np.asarray(bits | inexact.astype(np.uint32)).view(np.float32)


def seeded(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> Array:
    """Noise for samples: standard normal for floats, small integers otherwise."""
    generator = np.random.default_rng(seed + math.prod(shape))
    if is_float(np.dtype(dtype)):
        return generator.standard_normal(tuple(shape)).astype(dtype)
    if np.dtype(dtype) == np.bool_:
        return generator.integers(0, 2, tuple(shape)).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return generator.integers(low, 10, tuple(shape)).astype(dtype)


def hostile(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Noise with NaN, infinities, both zeros and a denormal number among it, for floats."""
    array = seeded(shape, seed, dtype)
    if is_float(np.dtype(dtype)) and array.size >= 8:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-41, 3e4, -3e4]
        with np.errstate(over="ignore"):
            array.reshape(-1)[:: max(1, array.size // 8)][:8] = np.asarray(special).astype(dtype)
    return array


def special(shape: Sequence[int], dtype: type = np.float32) -> Array:
    """Noise with NaN, infinities and zeros of both signs sprinkled over it."""
    x = seeded(shape, 5, dtype).ravel()
    for offset, value in enumerate((np.nan, np.inf, -np.inf, 0.0, -0.0)):
        x[offset::7] = value
    return x.reshape(tuple(shape))
