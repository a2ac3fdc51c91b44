"""Transformed weights of Winograd convolutions: U = G g G^T, by NumPy, or by a kernel from the windows as they are.

U has 4 times the numbers of the windows for F(4x4, 3x3). A program that keeps its weights in a file keeps the windows,
in U's order, and this kernel makes U of them when it is loaded: both compute the same products and sums in float64, in
the same order, and round once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F64, Value
from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.kernels.base import Packed, Preparation
from cenote.kernels.packing import PackingSpec
from cenote.kernels.winograd.transforms import Filtering, transform_weights, weights_of_window

_PIECE = 4096  # windows transformed at a time: their float64 values stay in the level 2 cache


@dataclass(frozen=True)
class WinogradWeights:
    """Weights of a convolution for filtering by `vertical` and `horizontal`: so many groups of filters, each `width`
    wide, and `channels`, padding included."""

    vertical: Filtering
    horizontal: Filtering
    groups: int
    channels: int
    width: int

    @property
    def points(self) -> int:
        """Number of transformed weights of a window."""
        return weights_of_window(self.vertical, self.horizontal)

    def packed(self, count: int, parts: Callable[[], Sequence[Array]]) -> Packed:
        """Return U of `count` parts of windows (M, C, kh, kw): (group, xi, part, channel, filter), rounded once."""
        rows = count * self.channels
        shape = (self.groups, self.points, rows, self.width)
        taps = (self.groups, self.vertical.r * self.horizontal.r, rows, self.width)

        def make() -> Array:
            u = np.zeros(shape, np.float32)
            for to, windows in self._pieces(u, parts()):
                flat = np.ascontiguousarray(windows).reshape(*windows.shape[:2], -1)
                product = transform_weights(flat, self.vertical, self.horizontal)
                to[...] = product.reshape(to.shape)
            return u

        def source() -> Array:
            arranged = np.zeros(taps, np.float32)
            for to, windows in self._pieces(arranged, parts()):
                to[...] = windows.reshape(to.shape)
            return arranged

        spec = WinogradWeightsSpec(self.vertical, self.horizontal)
        return Packed(shape, make, prepared=Preparation(source, spec.call(self.groups, rows * self.width)))

    def _pieces(self, whole: Array, parts: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
        """Yield places (xi, channel, filter) of an array in U's order, and their windows (kh, kw, channel, filter)."""
        step = max(1, _PIECE // self.width)
        for (number, part), group in itertools.product(enumerate(parts), range(self.groups)):
            filters = part[group * self.width : (group + 1) * self.width]
            for first in range(0, part.shape[1], step):
                windows = filters[:, first : first + step].transpose(2, 3, 1, 0)
                begin = number * self.channels + first
                yield whole[group, :, begin : begin + windows.shape[2], : windows.shape[3]], windows


@dataclass(frozen=True)
class WinogradWeightsSpec(PackingSpec):
    """Kernel that transforms windows."""

    vertical: Filtering
    horizontal: Filtering

    element = F64

    @property
    def sources(self) -> int:
        return self.vertical.r * self.horizontal.r

    @property
    def results(self) -> int:
        return weights_of_window(self.vertical, self.horizontal)

    def made(self, k: Kernel, numbers: Sequence[Value]) -> list[Value]:
        """Emit G g G^T: down, then across, as `transform_weights`."""
        wide = self.horizontal.r
        down = [_weighted(k, self.vertical, numbers[column::wide]) for column in range(wide)]
        rows = [_weighted(k, self.horizontal, row) for row in zip(*down, strict=True)]
        return [value for row in rows for value in row]


def _weighted(k: Kernel, f: Filtering, taps: Sequence[Value]) -> list[Value]:
    """Emit G g of one axis."""
    if f.is_trivial:
        return [*taps]
    results = []
    for row in f.weight_matrix:
        total = k.constant(F64, 0.0, taps[0].lanes)
        for factor, tap in zip(row, taps, strict=True):
            if factor:
                total = total + tap * float(factor)
        results.append(total)
    return results
