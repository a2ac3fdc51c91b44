"""Scales and zero points: u8 and asymmetric for activations, s8 and symmetric for weights, int32 for biases."""

from __future__ import annotations

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.quantization.ranges import LEVELS, ValueRange

# Scales below have no reciprocal in float32.
_LEAST = float(np.finfo(np.float32).tiny)
_MOST = float(np.finfo(np.float32).max)
# A bias in int32 at the scale of the sums leaves them another 2^30.
_MOST_BIAS = 2.0**30


@dataclass(frozen=True)
class ByteLevels:
    """Scale (float32) and zero point (uint8) of an activation: a number is scale * (level - zero)."""

    scale: np.float32
    zero: np.uint8

    @staticmethod
    def of(range_: ValueRange) -> ByteLevels:
        """Return the levels for a range; a scale of 1 where zero is its only number."""
        span = range_.largest - range_.least
        if span == 0:
            return ByteLevels(np.float32(1), np.uint8(0))
        scale = np.float32(max(span / LEVELS, _LEAST))
        zero = np.clip(np.rint(-range_.least / float(scale)), 0, LEVELS)
        return ByteLevels(scale, np.uint8(zero))

    def rounded(self, x: Array) -> Array:
        """Return the numbers of an array as these levels represent them, float32."""
        levels = np.clip(np.rint(x / self.scale) + np.float32(self.zero), 0, LEVELS)
        return np.asarray((levels - np.float32(self.zero)) * self.scale, np.float32)


@dataclass(frozen=True)
class RoundedWeights:
    """Weights in s8: `levels` of the weights' shape, `scales` (float32) one per filter, or one for all, of shape ()."""

    levels: Array
    scales: Array
    axis: int

    def numbers(self) -> Array:
        """Return the weights that the levels stand for, float32."""
        return self.levels.astype(np.float32) * _along(self.scales, self.levels.ndim, self.axis)


def quantized_weights(
    weights: Array, axis: int, per_channel: bool, most: int, bias: Array | None, x_scale: np.float32
) -> RoundedWeights:
    """Return weights in s8, from -`most` to `most`, with a scale per entry of `axis` or one for all.

    A scale is at least |bias| / (x_scale 2^30), so that the bias fits int32 at the scale of the sums. `bias`: one
    number per entry of `axis`. A filter of zeros gets scale 1 where it has no bias.
    """
    others = tuple(each for each in range(weights.ndim) if each != axis)
    largest = np.abs(weights).max(axis=others, initial=0).astype(np.float64)
    scales = np.maximum(largest / most, 0)
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (float(x_scale) * _MOST_BIAS))
    if not per_channel:
        scales = np.asarray(scales.max(initial=0))
    scales = np.where(scales == 0, 1, np.clip(scales, _LEAST, _MOST)).astype(np.float32)
    levels = np.rint(weights / _along(scales, weights.ndim, axis))
    return RoundedWeights(np.clip(levels, -most, most).astype(np.int8), scales, axis)


def quantized_bias(bias: Array, x_scale: np.float32, scales: Array) -> tuple[Array, Array]:
    """Return a bias in int32 and its scales, x_scale * w_scale in float32: one, or one per number of the bias."""
    own = np.clip(float(x_scale) * scales.astype(np.float64), _LEAST, _MOST).astype(np.float32)
    numbers = np.rint(bias.astype(np.float64) / own.astype(np.float64))
    return numbers.clip(-(2**31), 2**31 - 1).astype(np.int32), own


def _along(scales: Array, rank: int, axis: int) -> Array:
    return scales if scales.ndim == 0 else scales.reshape([-1 if each == axis else 1 for each in range(rank)])
