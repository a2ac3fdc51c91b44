"""Weights of Strassen's algorithm: sums of their quarters, by NumPy, or by a kernel from the quarters as they are.

The sums have seven quarters' numbers. A program that keeps its weights in a file keeps the four quarters, and this
kernel makes the sums of them when it is loaded: both add the same numbers in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Value
from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.kernels.base import Packed, Preparation
from cenote.kernels.packing import PackingSpec
from cenote.kernels.product.strassen import PRODUCTS

T = TypeVar("T", Array, Value)
_LARGEST_POWER = 100  # of two, by which weights are multiplied


class Balanced(NamedTuple):
    """Weights (filters, channels) of one size, and what was taken out of them: powers of two near the largest weight of
    each channel, then of each filter. What a channel contributes to a sum is near the size of its numbers times its
    scale, and sums of channels lose nothing of the smaller ones."""

    weights: Array
    channels: Array
    filters: Array


def balanced(weights: Array) -> Balanced:
    """Bring the channels and filters of weights to one size, without rounding."""
    channels = _sizes(weights, 0)
    weights = weights * (1 / channels)
    filters = _sizes(weights, 1)
    weights *= (1 / filters)[:, None]
    return Balanced(weights, channels, filters)


def _sizes(weights: Array, axis: int) -> Array:
    largest = np.maximum(weights.max(axis), -weights.min(axis))
    _, powers = np.frexp(np.where(largest > 0, largest, np.float32(1)))
    sizes: Array = np.ldexp(np.float32(1), powers.clip(-_LARGEST_POWER, _LARGEST_POWER))
    return sizes


def filled_up(weights: Array, filters: int, channels: int) -> Array:
    """Return weights with zeros behind their filters and channels."""
    missing = (0, filters - weights.shape[0]), (0, channels - weights.shape[1])
    return np.pad(weights, missing) if any(map(any, missing)) else weights


def packed_weights(weights: Array, row: int, half: int) -> Packed:
    """Return the factors that weights (filters, channels), brought to one size, have in the seven products: (group,
    product, channel, filter), of groups of twice `row` filters, and `half` the channels, filled up with zeros. No copy
    of them is kept until then."""
    groups = -(-len(weights) // (2 * row))

    def source() -> Array:
        """Quarters: (group, quarter, channel, filter), first filters first."""
        whole = filled_up(weights, groups * 2 * row, 2 * half)
        parts = balanced(whole).weights.reshape(groups, 2, row, 2, half).transpose(0, 1, 3, 4, 2)
        return np.ascontiguousarray(parts).reshape(groups, 4, half, row)

    def make() -> Array:
        packed = np.empty((groups, PRODUCTS, half, row), np.float32)
        for number, total in enumerate(weight_sums(*source().transpose(1, 0, 2, 3))):
            packed[:, number] = total
        return packed

    call = StrassenWeightsSpec().call(groups, half * row)
    return Packed((groups, PRODUCTS, half, row), make, prepared=Preparation(source, call))


def weight_sums(a: T, b: T, c: T, d: T) -> tuple[T, ...]:
    """Return the factors that weights have in the seven products, from their quarters: first filters of first and of
    second channels, second filters of these."""
    first = c + d
    second = first - a
    return a, b, b - second, d, first, second, a - c


@dataclass(frozen=True)
class StrassenWeightsSpec(PackingSpec):
    """Kernel that adds quarters of weights."""

    sources = 4
    results = PRODUCTS

    def made(self, k: Kernel, numbers: Sequence[Value]) -> tuple[Value, ...]:
        return weight_sums(*numbers)
