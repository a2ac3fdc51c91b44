"""Calls of a direct convolution, from its sizes and views: packed weights, tap table, tiles, bands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace
from operator import eq

import numpy as np

from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.conv.direct import ConvDirectSpec
from cenote.kernels.conv.tile_widths import tile_widths, widest, widest_by_lane
from cenote.kernels.conv.weights_ahead import WORD, prefetches
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.partial_sums import SumBlocks
from cenote.kernels.row_shares import row_shares
from cenote.kernels.tables import part_table, tap_table

# Multiply-adds per second of one core, to size pieces of work; a factor of 2 either way does no harm.
MACS_PER_SECOND = 50e9
_SHARED_TILES = 24  # tiles that share a pass over weights which no cache near the core holds
PIECE = 100e-6  # seconds of work that a thread should take at a time


@dataclass(frozen=True)
class DirectProblem:
    """A convolution over three axes with groups that suit the lanes; weights are (filters, C/g, d, h, w).

    `unroll` is the number of channels per tap (the lanes of a blocked input), or the window's width where x is plain:
    then a tap is one row of the window in one channel. `taps`: where `shape` has only a part of the weights' window,
    the numbers of its taps in the whole; `packed` then keeps the packed weights that the calls of all parts read, and
    `pixels` is the number of pixels by which filters are grouped. `exact`: sums are made of shorter chains. `joined`:
    channels and filters of the groups that are joined to one of `shape`, if any (`joined_groups.py`).
    """

    shape: ConvShape
    weights: Array
    bias: Array | None
    activation: Activation
    plain: bool = False
    taps: tuple[int, ...] = ()
    pixels: int = 0
    exact: bool = False
    joined: tuple[int, int] = (0, 0)
    packed: dict[int, tuple[Packed, Array]] = field(default_factory=dict, compare=False)


def joined_groups(shape: ConvShape, lanes: int) -> int:
    """Return the number of neighbouring groups that fill whole vectors together."""
    if shape.groups == 1:
        return 1
    return next(
        (
            m
            for m in range(1, shape.groups + 1)
            if shape.groups % m == 0
            and m * shape.group_channels % lanes == 0
            and m * shape.group_filters % lanes == 0
        ),
        shape.groups,
    )


def merge_groups(shape: ConvShape, weights: Array, lanes: int) -> tuple[ConvShape, Array]:
    """Join neighbouring groups, with zeros between them, until a group fills whole vectors.

    The cost is a factor of the number of groups joined; with 4 channels per group that is 2 on 8 lanes. An infinity or
    NaN of one group times these zeros is NaN in the others: `groups_apart` and `depthwise` keep it in its group.
    """
    joined = joined_groups(shape, lanes)
    if joined == 1:
        return shape, weights
    cg, og, groups = shape.group_channels, shape.group_filters, shape.groups // joined
    parts = weights.reshape(groups, joined, og, cg, *weights.shape[2:])
    wide = np.zeros((groups, joined, og, joined, cg, *weights.shape[2:]), weights.dtype)
    for index in range(joined):
        wide[:, index, :, index] = parts[:, index]
    merged = ConvShape(
        shape.n,
        shape.channels,
        shape.filters,
        groups,
        shape.size,
        shape.out,
        shape.window,
        shape.strides,
        shape.pads,
        shape.dilations,
    )
    return merged, wide.reshape(shape.filters, joined * cg, *weights.shape[2:])


def block_runs(blocks: int, pixels: int, registers: int) -> list[tuple[int, int, int]]:
    """Cut a group's blocks into runs of (first block, groups, blocks per group); no block is left alone where that
    can be.

    16 registers: pairs, and a triple where the number is odd; all triples when 3 divides an odd number. 32 registers:
    fours, and what is left. Under 4 pixels more blocks keep enough sums in flight.
    """
    if not is_size(pixels) and pixels < 4:
        each = min(blocks, 8 if pixels == 1 else 4)
        groups, left = divmod(blocks, each)
        return [(0, groups, each), *([(blocks - left, 1, left)] if left else [])]
    if registers > 16:
        fours, left = divmod(blocks, 4)
        if left == 1 and fours:
            fours, left = fours - 1, 5
        runs = [(0, fours, 4)] if fours else []
        parts = [3, 2] if left == 5 else [left] if left else []
    else:
        if blocks % 2 and blocks % 3 == 0:
            return [(0, blocks // 3, 3)]
        pairs = blocks // 2 if blocks % 2 == 0 else max(0, (blocks - 3) // 2)
        runs = [(0, pairs, 2)] if pairs else []
        parts = [blocks - 2 * pairs] if blocks > 2 * pairs else []
    for part in parts:
        done = sum(count * each for _, count, each in runs)
        runs.append((done, 1, part))
    return runs


def direct_calls(
    problem: DirectProblem, x: View, y: View, residual: View | None, target: Target
) -> Iterator[Call]:
    """Yield the calls of one convolution: one, or two when the channel blocks are odd in number.

    Each writes blocks of its own.
    """
    if not problem.shape.n:
        return
    lanes = y.layout.lanes
    blocks = -(-problem.shape.group_filters // lanes)
    pixels = problem.pixels if problem.taps else problem.shape.pixels * problem.shape.n
    for first, groups, each in block_runs(blocks, pixels, target.registers):
        call = FilterGroups(problem, x, y, residual, target, first, groups, each).call()
        yield replace(call, independent=first > 0)


class FilterGroups:
    """Builder of one call: `groups` filter groups of `each` blocks from block `first` of every convolution group."""

    weight_bytes = 4  # of a weight as the kernel reads it

    def __init__(
        self,
        problem: DirectProblem,
        x: View,
        y: View,
        residual: View | None,
        target: Target,
        first: int,
        groups: int,
        each: int,
    ) -> None:
        self.problem, self.x, self.y, self.residual, self.target = problem, x, y, residual, target
        self.first, self.groups, self.each = first, groups, each
        self.shape, self.lanes = problem.shape, y.layout.lanes
        self.unit = x.layout.lanes or self.lanes  # channels of a block of x
        self.inner = problem.weights.shape[-1] if problem.plain else self.unit
        if problem.plain and self.shape.dilations[2] != 1:
            self.inner = 1
        # Small maps of several images fill tiles together.
        small = not is_size(self.shape.pixels) and self.shape.pixels < 24
        self.joins_images = small and not always_equal(self.shape.n, 1) and not self.may_be_deep
        self.images = 1 if self.joins_images else self.shape.n
        # A part of a map of open size may be empty.
        self.present = minimum(1, self.shape.pixels) if problem.taps and is_size(self.shape.pixels) else 1
        self.pixels = self.shape.pixels * (self.shape.n if self.joins_images else 1)
        if is_size(self.present):
            self.pixels = maximum(1, self.pixels)
        pointwise = self.shape.is_pointwise and not self.joins_images
        self.flat_x = pointwise and not problem.plain and self._is_flat(x)
        self.flat_y = self.flat_x and self._is_flat(y) and (residual is None or self._is_flat(residual))
        self.joined = (self.joins_images or self.may_be_deep) and not self.flat_y

    @property
    def may_be_deep(self) -> bool:
        """Whether y has several planes, as it may have where their number is open."""
        return is_size(self.shape.out[0]) or self.shape.out[0] > 1

    def _is_flat(self, view: View) -> bool:
        """Whether the pixels of a channel block lie one after the other."""
        _, _, d, h, w = deep_strides(view)
        depth, height, width = self.shape.out
        # Whether a part of a map of open size is all of it is not asked: that would part sizes.
        same = always_equal if self.problem.taps else eq
        rows = always_equal(height, 1) or same(h, width * w)
        planes = always_equal(depth, 1) or same(d, height * width * w)
        return w == self.lanes and rows and planes

    def call(self) -> Call:
        rest_channels = 0 if self.problem.plain else self.shape.group_channels % self.inner
        table, entries, rest = self._table()
        by_lane = self.target.by_lane and self.inner == self.target.lanes()
        most = (widest_by_lane if by_lane else widest)(self.each, self.target.registers)
        cut = tile_widths(self.pixels, most)
        specs = tuple(self._spec(width, rest_channels > 0) for width in cut.widths)
        weights, bias = self.problem.packed.get(self.first) or (self._pack(), self._bias())
        if self.problem.taps:
            self.problem.packed[self.first] = weights, bias
        slab = weights.shape[1]
        blocks = SumBlocks.of(self.problem.exact, self.terms)
        numbers = {
            "entries": entries,
            "chunk": self._chunk(entries + rest, slab),
            "rest": rest,
            **blocks.words,
            "rest_channels": rest_channels,
            "wide": cut.wide,
            "tiles": cut.tiles,
            "narrow": cut.narrow,
            "filter_groups": self.shape.groups * self.groups,
            "per_group": self.groups,
            "out_w": self.shape.out[2],
            "out_h": self.shape.out[1],
            "slab": slab,
            "weights_image": 0,
            "columns": 0,
            # Parts of a window have their weights apart.
            WORD: 0 if self.problem.taps else prefetches(self.target),
            "bias_group": self.groups * self.each * self.lanes,
            **self._steps(),
        }
        items, grain, shares = self._split(cut.tiles, max(cut.widths), self._weights_read(slab))
        numbers |= shares
        kept = shares["band"] * max(cut.widths) * self.each * self.lanes * blocks.slots(entries + rest)
        pointers: dict[str, Argument] = {
            "x": self.x,
            "weights": weights,
            "bias": bias,
            "y": self._first_block(self.y),
            "table": table,
            "residual": None if self.residual is None else self._first_block(self.residual),
        }
        executed = 2 * self.images * self.pixels * self._weights_read(slab) * self.shape.groups * self.groups
        words = self._words({**pointers, **numbers})
        return Call.named(specs[0], words, items, grain, 4 * kept, executed).among(specs, cut.chosen)

    @property
    def terms(self) -> int:
        """Number of terms of a sum's chain that a tap counts for."""
        return self.inner

    def _weights_read(self, slab: int) -> int:
        """Number of weights that a filter group reads, on average, of the `slab` that it has."""
        taps = self.problem.taps
        return slab // math.prod(self.problem.weights.shape[2:]) * len(taps) if taps else slab

    def _spec(self, width: int, ragged: bool) -> ConvDirectSpec:
        return ConvDirectSpec(
            blocks=self.each,
            width=width,
            unroll=self.inner,
            ragged=ragged,
            flat_x=self.flat_x,
            flat_y=self.flat_y,
            residual=self.residual is not None,
            activation=self.problem.activation,
            joined=self.joined,
            scattered=bool(self.problem.taps),
        )

    def _words(self, words: dict[str, Argument]) -> dict[str, Argument]:
        """The words of a call whose kernel is float32's, as the kernel at hand has them."""
        return words

    def _first_block(self, view: View) -> View:
        return view.at(self.first * view.strides[1])

    def _table(self) -> tuple[Argument, int, int]:
        """Offsets of the taps from a window's origin, the number of whole taps, and the number of ragged ones."""
        shape, (_, c, d, h, w) = self.shape, deep_strides(self.x)
        steps = tuple(step * dilation for step, dilation in zip((d, h, w), shape.dilations, strict=True))
        window = shape.window
        if self.problem.plain and self.inner > 1:
            window = (*window[:2], 1)
        channels = shape.group_channels
        count = channels if self.problem.plain else -(-channels // self.unit)
        whole = channels if self.problem.plain else channels // self.unit
        origin = 0 if self.problem.plain else self._pad(d, h, w)
        taps = math.prod(window)
        table = computed(tap_table, window, steps, origin, count, c)
        if self.problem.taps:
            table = computed(part_table, window, steps, origin, count, c, self.problem.taps)
        return table, whole * taps, (count - whole) * taps

    def _pad(self, *steps: int) -> int:
        return sum(begin * step for (begin, _), step in zip(self.shape.pads, steps, strict=True))

    def _pack(self) -> Packed:
        """Weights in the order the kernel reads: (group, run, channel block, d, h, w, channel, block, lane), or where
        calls read parts of the window, each of them in one piece, (group, run, d, h, w, channel, block, lane)."""
        rows, cg, *window = self.shape.groups * self.groups, *self.problem.weights.shape[1:]
        return Packed((rows, cg * math.prod(window) * self.each * self.lanes), self._packed)

    def _packed(self) -> Array:
        shape, lanes, (cg, *window) = self.shape, self.lanes, self.problem.weights.shape[1:]
        wanted, start = self.groups * self.each * lanes, self.first * lanes
        w = self.problem.weights.reshape(shape.groups, shape.group_filters, cg, *window)
        w = w[:, start : start + wanted]
        if w.shape[1] < wanted:
            padded = np.zeros((shape.groups, wanted, cg, *window), np.float32)
            padded[:, : w.shape[1]] = w
            w = padded
        w = w.reshape(shape.groups, self.groups, self.each, lanes, cg, *window)
        if self.problem.plain:
            return np.ascontiguousarray(w.transpose(0, 1, 4, 5, 6, 7, 2, 3), np.float32)
        taps = math.prod(window) * self.each * lanes
        packed = np.empty((shape.groups, self.groups, cg * taps), np.float32)
        run = cg if self.problem.taps else self.inner
        for begin in range(0, cg, run):
            block = w[:, :, :, :, begin : begin + run].transpose(0, 1, 5, 6, 7, 4, 2, 3)
            to = packed[:, :, begin * taps : begin * taps + block.shape[5] * taps]
            to.reshape(block.shape)[...] = block
        return packed

    def _bias(self) -> Array:
        shape, size = self.shape, self.groups * self.each * self.lanes
        bias = np.zeros((shape.groups, size), np.float32)
        if self.problem.bias is not None:
            start = self.first * self.lanes
            part = self.problem.bias.reshape(shape.groups, -1)[:, start : start + size]
            bias[:, : part.shape[1]] = part
        return bias

    def _chunk(self, entries: int, slab: int) -> int:
        """Number of taps per pass: all, or a power of two, as the blocks of a sum have.

        Where a filter group's weights outgrow the level 1 cache, passes whose weights take at most two thirds of it
        raise the speed: the input needs the rest. GFLOP/s with passes of 1.25, 0.8, 0.5 and 0.3 of the cache (48 KiB,
        AVX-512): 133, 153, 147, 150 for 256 channels at 14x14; 93, 119, 130, 133 for 1x1 from 2048 to 512 at 7x7; with
        AVX2 59, 71, 69, 72. Since the next pass's weights are prefetched (`weights_ahead.py`), ResNet-50 and
        ResNet-18 take 1.5 % less with passes of 0.67 than of 0.33 of the cache.
        """
        if slab * self.weight_bytes < self.target.l1_bytes:
            return max(1, entries)
        per_entry = self.inner * self.each * self.lanes * self.weight_bytes
        return 1 << max(0, (self.target.l1_bytes * 2 // 3 // per_entry).bit_length() - 1)

    def _steps(self) -> dict[str, int]:
        shape, steps = self.shape, {}
        views = {"x": self.x, "y": self.y, "r": self.residual or self.y}
        for name, view in views.items():
            n, c, *spatial = deep_strides(view)
            if name == "x":
                spatial = [step * stride for step, stride in zip(spatial, shape.strides, strict=True)]
            steps[f"{name}_w"], steps[f"{name}_h"] = spatial[2], spatial[1]
            steps[f"{name}_outer"] = n if self.joins_images else spatial[0]
            steps[f"{name}_image"] = n
            channels = shape.group_channels if name == "x" else shape.group_filters
            unit = 1 if name == "x" and self.problem.plain else self.unit if name == "x" else self.lanes
            steps[f"{name}_group"] = -(-channels // unit) * c if shape.groups > 1 else 0
            steps[f"{name}_block"] = c
        return {name: step for name, step in steps.items() if name != "x_block"}

    def _shares(self) -> int:
        """Number of threads' shares of the pixels, each of which passes over all weights."""
        shape, pixels = self.shape, plain(self.pixels * self.images)
        weights = shape.group_channels * shape.taps, shape.group_filters
        return row_shares(pixels, *weights, self.target.threads)

    def _split(self, tiles: int, width: int, slab: int) -> tuple[int, int, dict[str, int]]:
        """Return items, grain, and the words that describe how tiles form bands and which loop is inside."""
        shape, groups = self.shape, self.shape.groups * self.groups
        per_tile = max(1, slab) * width / MACS_PER_SECOND  # seconds
        total = per_tile * tiles * groups * self.images
        piece = minimum(PIECE, maximum(5e-6, total / 32))
        band = maximum(1, math.floor(piece / per_tile))
        area = math.prod(shape.strides)
        inside = groups > 1 and groups * slab < plain(self.pixels * self.images) * shape.group_channels * area
        if inside:  # a band's input is read by every filter group: keep it in the level 2 cache
            read = width * shape.group_channels * 4 * area
            band = minimum(band, max(4, self.target.l2_bytes // 2 // max(1, read)))
        elif groups > 1 and (shares := self._shares()) > 1:
            inside, band = True, maximum(1, -(-tiles // shares))
        elif slab * 8 > self.target.l2_bytes:
            # Weights come from beyond the level 2 cache: one pass serves many tiles.
            band = maximum(band, _SHARED_TILES)
        bands = -(-tiles // band)
        band = -(-tiles // bands)
        bands = -(-tiles // band)
        items = self.images * bands * groups * self.present if is_size(self.pixels) or self.pixels else 0
        grain = maximum(1, minimum(math.floor(piece / (per_tile * band)), items // 8))
        return items, grain, {"band": band, "bands": bands, "groups_inside": int(inside)}
