"""Sums of float32 rounded once, and numbers to try them on."""

from __future__ import annotations

import numpy as np

from cenote.core.types import Array

SMALLEST = np.float32(np.finfo(np.float32).smallest_normal)


def flushed(values: Array) -> Array:
    """Zeros of their sign for float32 numbers below the smallest normal one."""
    return np.where(np.abs(values) < SMALLEST, np.copysign(np.float32(0), values), values).astype(np.float32)


def odd(values: Array, exact: Array) -> Array:
    """float64 sums whose last bit says whether they are inexact (`exact`: what was lost), so that rounding them to
    float32 is rounding once."""
    bits = values.view(np.int64)
    toward = np.where((exact != 0) & np.isfinite(values), 1, 0)
    down = (exact < 0) == (values > 0)
    truncated = np.where(toward & down, bits - 1, bits)
    return (truncated | toward).view(np.float64)


def multiply_added(total: Array, x: Array, w: Array) -> Array:
    """float32 of total + x w, rounded once: the product of bfloat16 numbers is exact in float64, and so is what a sum
    loses, by Knuth's TwoSum."""
    a, b = total.astype(np.float64), x.astype(np.float64) * w.astype(np.float64)
    y = a + b
    back = y - a
    lost = (a - (y - back)) + (b - back)
    return odd(y, np.nan_to_num(lost)).astype(np.float32)


def numbers(random: np.random.Generator, shape: tuple[int, ...], spread: int) -> Array:
    """Numbers of either sign with exponents within `spread` of one another."""
    magnitude = np.exp2(random.uniform(-spread, spread, shape))
    return (random.choice([-1.0, 1.0], shape) * magnitude).astype(np.float32)
