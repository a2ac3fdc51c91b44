"""Calls of products by Strassen's algorithm: packed weights, tiles, bands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.constants import constants_of
from cenote.kernels.conv.tile_widths import tile_widths, widest
from cenote.kernels.cost_model import GIGAHERTZ, peak_seconds, weight_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import FAST_TERMS, can_be_added
from cenote.kernels.product.strassen import PRODUCTS, StrassenSpec
from cenote.kernels.product.strassen_weights import balanced, filled_up, packed_weights
from cenote.kernels.row_shares import row_shares

_LEAST_VECTORS = 4  # of channels and of filters
_LEAST_BAND = 24  # tiles that share a pass over the weights,
_MOST_SCRATCH = 8 << 20  # but no more than have sums of so many bytes


class PixelSteps(NamedTuple):
    """Distances in elements: of images, blocks of channels, planes, rows and pixels."""

    image: int
    block: int
    plane: int
    row: int
    pixel: int


class PixelTensor(NamedTuple):
    """A tensor in memory."""

    view: View
    steps: PixelSteps


def filter_blocks(filters: int, target: Target) -> int:
    """Return the vectors of filters of a tile, two of which make a group: the most of those whose groups need the least
    filling up."""
    options = (4, 3, 2) if target.registers > 16 else (2,)
    return min(options, key=lambda each: -filters % (2 * each * target.lanes()))


def suits(weights: Array, target: Target) -> bool:
    """Whether channels and filters are whole vectors, and some, and sums of the weights are finite."""
    lanes = target.lanes()
    fits = not any(extent % lanes or extent < _LEAST_VECTORS * lanes for extent in weights.shape)
    return fits and can_be_added(weights)


def _filled_up(weights: Array, target: Target) -> tuple[int, int]:
    """Return the numbers of filters and of channels whose halves are whole groups, and whole vectors."""
    filters, channels = weights.shape
    group, pair = 2 * filter_blocks(filters, target) * target.lanes(), 2 * target.lanes()
    return -(-filters // group) * group, -(-channels // pair) * pair


def strassen_seconds(images: int, pixels: int, weights: Array, target: Target, share: float) -> float:
    """Estimated seconds on one core, where plain sums reach a share of the peak.

    Zen 3, AVX2, one thread, how many times as fast as plain sums (medians of turns), by channels and filters: pixels of
    maps 64, 256: 0.8 to 0.9; 256, 64: 0.8 to 0.9; 128, 512: 1.0; 256, 256: 1.0; 384, 384: 1.09; 512, 512: 1.1;
    256, 1024 and 1024, 256: 1.05 to 1.09; 512, 2048 at 7x7, whose weights come from memory: 1.2; rows 192, 768: 1.06;
    768, 3072: 1.25; 96, 384: 0.9.
    """
    constants, (filters, channels) = constants_of(target), _filled_up(weights, target)
    each, half = images * 2 * -(-pixels // 2), channels / 2
    products = each * PRODUCTS / 4 * filters * channels  # 2 operations in seven eighths
    share *= half / (half + constants.strassen_setup)
    vectors = channels * constants.strassen_transform + filters * constants.strassen_finish
    sums = each * vectors / target.lanes() / (GIGAHERTZ * 1e9)
    read = weight_seconds(PRODUCTS * filters * channels)
    estimate: float = maximum(peak_seconds(products, target, share), read) + sums
    return estimate


@dataclass(frozen=True)
class StrassenProblem:
    """A matrix of (filters, channels) times each pixel of some images: activation(weights x + bias + residual).

    `extents`: planes, rows and pixels of a row; rows of a plain matrix are pixels of one row.
    """

    images: int
    extents: tuple[int, int, int]
    weights: Array
    bias: Array | None
    activation: Activation

    def calls(
        self, x: PixelTensor, y: PixelTensor, residual: PixelTensor | None, target: Target
    ) -> Iterator[Call]:
        """Yield the one call; none for no images."""
        if not is_size(self.images) and not self.images:
            return
        lanes, (filters, channels), pixels = (
            target.lanes(),
            _filled_up(self.weights, target),
            math.prod(self.extents),
        )
        blocks, half = filter_blocks(len(self.weights), target), channels // (2 * lanes)
        row, pairs = blocks * lanes, -(-pixels // 2)
        cut, groups = tile_widths(pairs, widest(blocks, target.registers)), filters // (2 * row)
        width = max(cut.widths)
        per_tile = 4 * (PRODUCTS * width * (half * lanes + row) + 2 * width)  # bytes
        bands = self._bands(cut.tiles, per_tile, target)
        band = -(-cut.tiles // bands)
        bands = -(-cut.tiles // band)
        run = self._run(groups, self.images * bands, target)
        even = balanced(filled_up(self.weights, filters, channels))
        even.channels[self.weights.shape[1] :] = 0
        words: dict[str, Argument] = {"x": x.view, "y": y.view}
        words |= {"residual": None if residual is None else residual.view}
        words |= {
            "weights": packed_weights(self.weights, row, half * lanes),
            "channel_scales": even.channels,
            "filter_scales": even.filters,
            "bias": self._bias(filters),
        }
        there = len(self.weights) // lanes, self.weights.shape[1] // lanes
        words |= {"filter_blocks": there[0], "channel_blocks": there[1]}
        words |= {"half": half, "chunk": _chunk(half, row, target), "pixels": pixels}
        words |= {"wide": cut.wide, "tiles": cut.tiles, "narrow": cut.narrow, "band": band, "bands": bands}
        words |= {"groups": groups, "run": run, "runs": -(-groups // run)}
        words |= {"out_w": self.extents[2], "out_h": self.extents[1]}
        for name, tensor in (("x", x), ("y", y), ("r", residual or y)):
            steps = tensor.steps
            words |= {f"{name}_w": steps.pixel, f"{name}_h": steps.row, f"{name}_outer": steps.plane}
            words |= {f"{name}_image": steps.image, f"{name}_block": steps.block}
        odd = channels > self.weights.shape[1], filters > len(self.weights)
        flat = self._is_flat(x), self._is_flat(y) and (residual is None or self._is_flat(residual))
        specs = tuple(
            StrassenSpec(blocks, each, *flat, residual is not None, self.activation, *odd)
            for each in cut.widths
        )
        executed = self.images * pairs * PRODUCTS * filters * channels // 2
        items = self.images * bands * -(-groups // run)
        yield Call.named(specs[0], words, items, 1, band * per_tile, executed).among(specs, cut.chosen)

    def _bands(self, tiles: int, per_tile: int, target: Target) -> int:
        """Number of bands of tiles: their sums stay in half of the second cache where that is enough of them, and
        threads have equally many."""
        (filters, channels), pixels = self.weights.shape, math.prod(self.extents)
        room = max(target.l2_bytes // 2, min(_LEAST_BAND * per_tile, _MOST_SCRATCH))
        bands = -(-tiles // max(1, room // per_tile))
        shares = row_shares(pixels * self.images, channels, filters, target.threads)
        return minimum(tiles, -(-bands // shares) * shares)

    def _run(self, groups: int, bands: int, target: Target) -> int:
        """Number of filter groups of a piece of work: all where there are bands for all threads."""
        parts = target.threads // maximum(1, minimum(target.threads, bands))
        return -(-groups // maximum(1, minimum(groups, parts)))

    def _is_flat(self, tensor: PixelTensor) -> bool:
        """Whether the distance from pixel to pixel is the same throughout an image."""
        (planes, rows, width), steps = self.extents, tensor.steps
        one_row, one_plane = (not is_size(extent) and extent == 1 for extent in (rows, planes))
        in_planes = one_row or steps.row == width * steps.pixel
        return in_planes and (one_plane or steps.plane == rows * width * steps.pixel)

    def _bias(self, filters: int) -> Array:
        bias = np.zeros(filters, np.float32)
        if self.bias is not None:
            bias[: self.bias.size] = self.bias.reshape(-1)
        return bias


def _chunk(half: int, row: int, target: Target) -> int:
    """Number of vectors of channels of a pass, a power of two: its weights take two thirds of the first cache, and it
    is no longer than a block of a sum, whose error would grow with it."""
    lanes = target.lanes()
    fitting = min(FAST_TERMS // lanes, target.l1_bytes * 2 // 3 // (4 * lanes * row))
    return max(1, min(half, 1 << max(0, fitting.bit_length() - 1)))
