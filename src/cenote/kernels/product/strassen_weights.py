"""Weights of Strassen's algorithm: sums of their quarters, by NumPy, or by a kernel from the quarters as they are.

The sums have seven quarters' numbers. A program that keeps its weights in a file keeps the four quarters, and this
kernel makes the sums of them when it is loaded: both add the same numbers in the same order.

    for item in begin .. end:                         a run of (channel, filter) pairs of a group
        for each vector of pairs:
            the sums of the quarters
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Value
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Call, KernelSpec, Packed, Preparation, float_pointers, numbers_named
from cenote.kernels.plane_items import vectors
from cenote.kernels.product.strassen import PRODUCTS

T = TypeVar("T", Array, Value)
RUN = 1 << 12  # pairs of an item
_LARGEST_POWER = 100  # of two, by which weights are multiplied


def packed_weights(weights: Array, row: int) -> Packed:
    """Return the factors that weights (filters, channels) have in the seven products, scales taken out: (group,
    product, channel, filter), of groups of twice `row` filters."""
    filters, channels = weights.shape
    groups, half = filters // (2 * row), channels // 2

    def source() -> Array:
        return np.ascontiguousarray(quarters(weights, row), np.float32)

    def make() -> Array:
        return np.stack(weight_sums(*quarters(weights, row).transpose(1, 0, 2, 3)), 1)

    call = StrassenWeightsSpec().call(groups, half * row)
    return Packed((groups, PRODUCTS, half, row), make, prepared=Preparation(source, call))


def quarters(weights: Array, row: int) -> Array:
    """Arrange weights (filters, channels), scales taken out: (group, quarter, channel, filter), first filters first."""
    weights = weights / channel_scales(weights) / filter_scales(weights)[:, None]
    filters, channels = weights.shape
    parts = weights.reshape(filters // (2 * row), 2, row, 2, channels // 2).transpose(0, 1, 3, 4, 2)
    return parts.reshape(len(parts), 4, channels // 2, row)


def weight_sums(a: T, b: T, c: T, d: T) -> tuple[T, ...]:
    """Return the factors that weights have in the seven products, from their quarters: first filters of first and of
    second channels, second filters of these."""
    first = c + d
    second = first - a
    return a, b, b - second, d, first, second, a - c


def channel_scales(weights: Array) -> Array:
    """Return powers of two near the size of each channel's weights (filters, channels): what a channel contributes is
    near the size of its numbers times its scale, and sums of channels lose nothing of the smaller ones."""
    return _powers(weights, 0)


def filter_scales(weights: Array) -> Array:
    """Return powers of two near the size of each filter's weights, those of the channels taken out."""
    return _powers(weights / channel_scales(weights), 1)


def _powers(numbers: Array, axis: int) -> Array:
    sizes = np.sqrt(np.mean(np.square(numbers, dtype=np.float64), axis))
    powers = np.rint(np.log2(np.where(sizes > 0, sizes, 1.0))).clip(-_LARGEST_POWER, _LARGEST_POWER)
    scales: Array = np.exp2(powers).astype(np.float32)
    return scales


@dataclass(frozen=True)
class StrassenWeightsSpec(KernelSpec):
    """Kernel that adds quarters of weights."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*float_pointers(("y", "x")), *numbers_named(("size", "runs")))

    def call(self, groups: int, size: int) -> Call:
        """Return the launch for so many groups of quarters of `size` numbers, without its arrays."""
        runs = -(-size // RUN)
        return Call.named(self, {"y": None, "x": None, "size": size, "runs": runs}, groups * runs)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        size, runs = k.number("size"), k.number("runs")
        for item in k.range(k.begin, k.end):
            group, start = item // runs, item % runs * RUN
            x, y = (k.pointer(n) + (group * c * size + start) for n, c in (("x", 4), ("y", PRODUCTS)))
            count = k.minimum(size - start, k.integer(RUN))
            for begin, end, lanes in vectors(k, count, target.lanes()):
                for at in k.range(begin, end, lanes):
                    parts = [(x + size * number).load(at, lanes) for number in range(4)]
                    for number, value in enumerate(weight_sums(*parts)):
                        (y + size * number).store(value, at)
        return k
