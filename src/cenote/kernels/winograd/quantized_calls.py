"""Calls of a Winograd convolution of bytes: those of float32's, whose words are pairs of channels."""

from __future__ import annotations

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.sizes import plain
from cenote.core.target import PAIRS
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.cost_model import stream_seconds, weight_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.conv_calls import QuantizedProblem
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.quantized import WinogradQuantizedSpec, most_exact
from cenote.kernels.winograd.transforms import Filtering, transform_weights, whole_filtering

INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class WinogradQuantizedTiling(WinogradTiling):
    """Tiling of one layer of bytes; its blocks of channels are pairs of x's."""

    @property
    def vertical(self) -> Filtering:
        return whole_filtering(self.mv, self.shape.window[-2], self.shape.strides[-2])

    @property
    def horizontal(self) -> Filtering:
        return whole_filtering(self.mh, self.shape.window[-1], self.shape.strides[-1])

    @property
    def channel_blocks(self) -> int:
        return -(-self.shape.channels // (2 * self.lanes))

    @property
    def efficiency(self) -> float:
        """Fraction of float32's peak at which pairs are multiplied: VPMADDWD needs an addition. Fitted to 3x3 layers of
        64 to 512 channels (Zen 4)."""
        return 0.8 if self.target.dots == PAIRS else 1.15

    @property
    def exposed(self) -> float:
        return 0.0

    def read_seconds(self, nbytes: float) -> float:
        """Time to read weights, half of float32's rule: with VNNI all estimates of products are half of what Zen 4
        takes, and weights of this size stay in its last cache. 256 channels at 14x14 take 306 us in tiles of 16
        results, 477 of 4, 496 as direct sums. More than half of that cache comes from memory: 512 channels at 7x7,
        18.9 MB, take 0.95 ms in tiles of 16 results, so that ResNet-50 on AVX2 takes 1.2 % longer than with tiles of 4
        (8.4 MB), 1.8 % at two threads. Where windows move by two, middle taps are read for each product of odd places:
        512 channels from 14x14 to 7x7 take 2.28 ms in tiles of 16 results, 1.69 of 4, 2.24 as direct sums (Zen 3)."""
        nbytes *= self.products / self.weights.points
        if 2 * plain(nbytes) > self.target.l3_bytes:
            return stream_seconds(nbytes)
        return weight_seconds(nbytes) / 2

    def is_exact(self, weights: Array) -> bool:
        """Whether no sum of bytes by these weights (filters, ...) is too large."""
        flat = weights.reshape(len(weights), -1).astype(np.int64)
        largest = max(np.maximum(flat, 0).sum(axis=1).max(), np.maximum(-flat, 0).sum(axis=1).max())
        return bool(255 * largest < most_exact(self.vertical, self.horizontal))

    def quantized_calls(
        self, problem: QuantizedProblem, x: View, y: View, residual: View | None, v: View | None
    ) -> list[Call]:
        """Return the launches: one when fused, two with `v` between them. `residual`: where the problem has one."""
        rows, levels = self.shape.window, problem.levels
        specs = [
            WinogradQuantizedSpec(
                phase,
                self.mv,
                rows[-2],
                self.mh,
                rows[-1],
                1 if phase == "input" else self.group_blocks,
                False,
                residual is not None and phase != "input",
                Activation(),
                strides=(self.vertical.stride, self.horizontal.stride),
                dots=problem.dots,
                signed=phase != "product" and x.type.dtype == np.int8,
                y=y.type.dtype,
                short_sum=phase != "input" and problem.has_short_sum,
            )
            for phase in self.phases
        ]
        constants: dict[str, Argument] = {
            "u": self.pack_pairs(problem.weights),
            "bias": self._by_filter(problem.bias),
            "scales": self._by_filter(problem.scales),
        }
        numbers: dict[str, Argument] = {
            "zero": levels.zero,
            "low": float(levels.low),
            "high": float(levels.high),
        }
        if problem.residual is not None:
            numbers |= problem.residual.words
        return self.launched(specs, constants, numbers, x, y, residual, v)

    def pack_pairs(self, weights: Array) -> Packed:
        """Return weights (M, C, kh, kw) as U: (group, xi, pair of channels, filter vector, lane), 16 bits each."""
        width, pairs = self.group_blocks * self.lanes, self.channel_blocks * self.lanes
        shape = (self.groups, self.weights.points, pairs, width)
        return Packed(shape, lambda: self._paired(weights, pairs, width), INT32)

    def _paired(self, weights: Array, pairs: int, width: int) -> Array:
        channels, *window = weights.shape[1:]
        points = self.weights.points
        u = np.zeros((self.groups, points, pairs, width, 2), np.int16)
        for group, to in enumerate(u):
            taps = np.zeros((*window, pairs * 2, width))
            part = weights[group * width : (group + 1) * width].transpose(2, 3, 1, 0)
            taps[:, :, :channels, : part.shape[3]] = part
            whole = np.rint(transform_weights(taps, self.vertical, self.horizontal))
            to[...] = whole.reshape(points, pairs, 2, width).swapaxes(2, 3)
        return u.view(np.int32)[..., 0]

    def _by_filter(self, values: Array) -> Array:
        """One number per filter, zeros for those that fill the last group."""
        padded = np.zeros(self.groups * self.group_blocks * self.lanes, values.dtype)
        padded[: values.size] = values
        return padded
