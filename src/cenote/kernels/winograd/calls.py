"""Calls of a Winograd convolution, from its sizes: transformed weights, blocks of tiles, scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cenote.core.computed import whole_of
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.constants import CostConstants, constants_of
from cenote.kernels.cost_model import peak_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.row_shares import row_shares
from cenote.kernels.tables import tiles_per_block
from cenote.kernels.winograd.kernel import TABLE, WinogradSpec
from cenote.kernels.winograd.products import runs_ahead, widths
from cenote.kernels.winograd.transforms import Filtering, filtering, shortened
from cenote.kernels.winograd.weights import WinogradWeights

_USED = {  # words that each phase reads
    "input": ("x", "v"),
    "product": ("u", "bias", "scales", "residual", "y", "v"),
    "fused": ("x", "u", "bias", "scales", "residual", "y"),
}
# Tiles of a block, to reuse weights in the level 2 cache; twice as many for weights beyond it.
_LEAST_TILES = 12
SKEW = 16  # floats between products, so that their streams do not meet in the same cache sets


@dataclass(frozen=True)
class WinogradTiling:
    """Tiling of one layer; it depends on sizes only. `shape` has one or two spatial axes given as height and width.

    With `pool` the calls write the 2x2 maxima, two apart; shape.out, mv and mh are even then.
    """

    shape: ConvShape
    mv: int
    mh: int
    target: Target
    pool: bool = False

    kind = WinogradSpec
    may_be_empty = False  # at sizes other than that at hand

    @property
    def vertical(self) -> Filtering:
        return filtering(self.mv, self.shape.window[-2], self.shape.strides[-2])

    @property
    def horizontal(self) -> Filtering:
        return filtering(self.mh, self.shape.window[-1], self.shape.strides[-1])

    @property
    def efficiency(self) -> float:
        """Fraction of the multiply-adds' peak that the products reach."""
        return self.constants.winograd_products

    @property
    def exposed(self) -> float:
        """Part of the shorter one of multiplying and reading that the longer one does not hide."""
        return self.constants.winograd_exposed

    @property
    def constants(self) -> CostConstants:
        return constants_of(self.target)

    def read_seconds(self, nbytes: float) -> float:
        """Time to read weights of so many bytes, once."""
        near, far = self.constants.winograd_near, self.constants.winograd_far
        return nbytes / (near if plain(nbytes) <= self.target.l2_bytes else far)

    @property
    def products(self) -> int:
        return self.vertical.a * self.horizontal.a

    @property
    def lanes(self) -> int:
        return self.target.lanes()

    @property
    def channel_blocks(self) -> int:
        return -(-self.shape.channels // self.lanes)

    @property
    def filter_blocks(self) -> int:
        return -(-self.shape.filters // self.lanes)

    @property
    def last_v(self) -> int:
        """Outputs of the last tile of a column where they are fewer, else 0."""
        return self.shape.out[-2] % self.mv

    @property
    def last_h(self) -> int:
        return self.shape.out[-1] % self.mh

    @property
    def rows(self) -> int:
        """Number of whole tiles of a column."""
        return self.shape.out[-2] // self.mv

    @property
    def columns(self) -> int:
        return self.shape.out[-1] // self.mh

    @property
    def ends(self) -> tuple[int, int, int]:
        """Numbers of tiles up to the end of the last columns, the inner tiles, the last rows; corners follow."""
        last_columns = self.rows * minimum(self.last_h, 1)
        inner = last_columns + self.rows * self.columns
        last_rows = inner + self.columns * minimum(self.last_v, 1)
        return self.shape.n * last_columns, self.shape.n * inner, self.shape.n * last_rows

    @property
    def map_tiles(self) -> int:
        return (self.rows + minimum(self.last_v, 1)) * (self.columns + minimum(self.last_h, 1))

    @property
    def tiles(self) -> int:
        return self.map_tiles * self.shape.n

    @property
    def group_blocks(self) -> int:
        """Number of filter vectors in registers: few, for those that the last group lacks are computed too.

        Where 32 registers have room for four, two take no more time (AVX-512, one thread, us of processor time with
        four and with two): 64 to 64 channels at 56x56 718 and 730, 256 to 256 at 14x14 1032 and 913, at 56x56 11041
        and 10591; 80 to 80 at 80x80 3103 and 2445.
        """
        if self.filter_blocks % 2 and self.filter_blocks % 3 == 0:
            return 3
        return min(2, self.filter_blocks)

    @property
    def groups(self) -> int:
        return -(-self.filter_blocks // self.group_blocks)

    @property
    def split(self) -> bool:
        """Whether to make two calls: where the weights outweigh the transformed input, so that each weight is read
        once. Not with one group of filters, for then threads can only share out tiles."""
        few, threads = plain(self.tiles) < 2 * _LEAST_TILES, self.target.threads
        return self.shape.filters > plain(self.tiles) and (self.groups > 1 or (few and threads == 1))

    @cached_property
    def block(self) -> int:
        """Number of tiles per block."""
        per_tile = self.products * self.channel_blocks * self.lanes * 4
        weights = 4 * self.weights.points * self.channel_blocks * self.filter_blocks * self.lanes**2
        least = _LEAST_TILES if weights <= self.target.l2_bytes else 2 * _LEAST_TILES
        most = max(24, min(96, self.target.l2_bytes // 2 // per_tile))
        tiles = maximum(1, self.tiles) if self.may_be_empty else self.tiles
        for_caches = whole_of(tiles_per_block, 1, 96, tiles, self.split, least, most)
        return maximum(1, minimum(for_caches, -(-self.tiles // self.shares)))

    @property
    def shares(self) -> int:
        """Threads' shares of the tiles."""
        return row_shares(self.tiles, self.shape.channels, self.shape.filters, self.target.threads)

    @property
    def blocks(self) -> int:
        return -(-self.tiles // self.block)

    @property
    def spare(self) -> int:
        """Number of spare tiles at the end of V and of each group's M: a run may reach past a product's tiles.

        They are not in the strides (49 tiles 50 apart took 4 % longer): what is there is never used.
        """
        return widths(self.group_blocks, self.target)[0] - 1

    @property
    def v_xi(self) -> int:
        return self.channel_blocks * self.block * self.lanes + SKEW

    @property
    def m_xi(self) -> int:
        return self.block * self.group_blocks * self.lanes + SKEW

    @property
    def v_elements(self) -> int:
        """Number of floats of V of one block."""
        return self.products * self.v_xi + self.spare * self.lanes

    @property
    def m_elements(self) -> int:
        """Number of floats of M of one group."""
        return self.products * self.m_xi + self.spare * self.group_blocks * self.lanes

    @property
    def temporary_elements(self) -> int:
        """Number of floats of V between the two calls; 0 when fused."""
        return self.blocks * self.v_elements if self.split else 0

    def seconds(self) -> float:
        """Estimated time: products at their share of peak or at the memory's speed for the weights, and the
        transforms. Products that no two threads can share count for more. It is the same for any number of them."""
        if self.target.threads > 1:
            return replace(self, target=replace(self.target, threads=1)).seconds()
        products = self.product_operations
        weights = 4 * self.weights.points * self.panel * self.groups
        passes = 1 if self.split or weights <= self.target.l3_bytes // 2 else maximum(1, self.blocks)
        operations = self.transform_operations(self.channel_blocks, self.filter_blocks)
        factor = self.constants.winograd_strided if self.horizontal.stride > 1 else 1
        transforms = peak_seconds(2 * factor * operations, self.target, self.constants.winograd_transforms)
        multiplying = peak_seconds(products, self.target, self.efficiency)
        if self.split and self.groups == 1:
            # One thread takes less by it, two more: 1.4 % less, 7 % more of DenseNet-121 (F(4x4) instead of F(3x3)).
            multiplying *= self.constants.winograd_alone
        reading = self.read_seconds(weights) * passes
        return maximum(multiplying, reading) + minimum(multiplying, reading) * self.exposed + transforms

    @property
    def product_operations(self) -> int:
        """Multiply-adds of the products, padding lanes included, each counted as 2 operations."""
        lanes = self.lanes
        per_tile = 2 * self.channel_blocks * self.groups * self.group_blocks * lanes * lanes
        return per_tile * self.products_of(self.ends, self.tiles)

    @property
    def pitch(self) -> int:
        """Distance of neighbouring elements of a row."""
        return self.lanes

    @property
    def panel(self) -> int:
        """Number of the weights of one product and one group of filters."""
        return self.channel_blocks * self.lanes * self.group_blocks * self.lanes

    def transform_operations(self, inputs: int, outputs: int) -> int:
        """Approximate operations of the transforms of so many blocks of channels and of filters: 5 vector instructions
        per product."""
        return 5 * self.products * (inputs + outputs) * self.tiles * self.lanes

    def products_of(self, ends: tuple[int, int, int], tiles: int) -> int:
        """Products times the tiles that have them."""
        columns, inner, rows = ends
        last_v, last_h = plain(self.last_v), plain(self.last_h)
        down = shortened(self.vertical, last_v).a if last_v else 0
        across = shortened(self.horizontal, last_h).a if last_h else 0
        tall, wide = self.vertical.a, self.horizontal.a
        return (
            columns * tall * across
            + (inner - columns) * tall * wide
            + (rows - inner) * down * wide
            + (tiles - rows) * down * across
        )

    def pack(self, weights: Array) -> Packed:
        """Return weights (M, C, kh, kw) as U: (group, xi, channel, filter vector, lane), rounded once."""
        return self.weights.packed(1, lambda: [weights])

    @property
    def weights(self) -> WinogradWeights:
        """Parameters of the transformation of weights."""
        channels, width = self.channel_blocks * self.lanes, self.group_blocks * self.lanes
        return WinogradWeights(self.vertical, self.horizontal, self.groups, channels, width)

    def calls(
        self,
        u: Array | Packed,
        bias: Array | None,
        activation: Activation,
        x: View,
        y: View,
        residual: View | None,
        v: View | None,
    ) -> list[Call]:
        """Return the launches: one when fused, two with `v` between them."""
        offsets = np.zeros(self.groups * self.group_blocks * self.lanes, np.float32)
        if bias is not None:
            offsets[: bias.size] = bias
        specs = [self._spec(phase, activation, residual is not None) for phase in self.phases]
        return self.launched(specs, {"u": u, "bias": offsets}, {}, x, y, residual, v)

    def steps(self, view: View) -> dict[str, int]:
        """Steps, in elements, from image to image, block to block, row to row (0 where there is one row)."""
        strides = view.strides
        return {"n": strides[0], "block": strides[1], "h": strides[-2] if len(strides) > 3 else 0}

    def launched(
        self,
        specs: Sequence[WinogradSpec],
        constants: dict[str, Argument],
        further: dict[str, Argument],
        x: View,
        y: View,
        residual: View | None,
        v: View | None,
    ) -> list[Call]:
        """Return a launch per kernel. `constants`: arrays by their words; `further`: numbers of these kernels alone."""
        if not self.may_be_empty and not self.tiles:
            return []
        steps = {"x": self.steps(x), "y": self.steps(y), "r": self.steps(residual or y)}
        pads, row = self.shape.pads, self.pitch
        above = pads[-2][0] * steps["x"]["h"] if len(pads) > 1 else 0
        source = x.at(-(above + pads[-1][0] * row))
        pointers: dict[str, Argument] = {**constants, "x": source, "residual": residual, "y": y, "v": v}
        return [self._call(spec, pointers, further, steps) for spec in specs]

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases of the calls, in order."""
        return ("input", "product") if self.split else ("fused",)

    def _spec(self, phase: str, activation: Activation, residual: bool) -> WinogradSpec:
        is_input = phase == "input"
        return self.kind(
            phase,
            self.mv,
            self.vertical.r,
            self.mh,
            self.horizontal.r,
            1 if is_input else self.group_blocks,
            self.shape.channels % self.lanes > 0 and phase != "product",
            residual and not is_input,
            Activation() if is_input else activation,
            self.pool and not is_input,
            (self.vertical.stride, self.horizontal.stride),
        )

    def _call(
        self,
        spec: WinogradSpec,
        pointers: dict[str, Argument],
        further: dict[str, Argument],
        steps: dict[str, dict[str, int]],
    ) -> Call:
        phase, is_input = spec.phase, spec.phase == "input"
        numbers = self.numbers(phase)
        for side, along in steps.items():
            numbers |= {f"{side}_{axis}": step for axis, step in along.items()}
        scratch = numbers["table_bytes"] + numbers["temporary_bytes"] + numbers["v_bytes"]
        scratch += 0 if is_input else numbers["bundle"] * numbers["m_group"] * 4
        items = self.blocks * numbers["group_parts"]
        executed = self.transform_operations(
            0 if phase == "product" else self.channel_blocks, 0 if is_input else self.filter_blocks
        )
        executed += 0 if is_input else self.product_operations
        used = {name: place if name in _USED[phase] else None for name, place in pointers.items()}
        used |= {word.name: further[word.name] for word in spec.words if word.name in further}
        return Call.named(spec, {**used, **numbers}, items, scratch=scratch, operations=executed)

    def numbers(self, phase: str) -> dict[str, int]:
        """Numbers of a launch, except the tensors' strides."""
        columns_end, inner_end, rows_end = self.ends
        pieces = self.channel_blocks if phase == "input" else self.groups
        share = pieces if phase == "fused" else self._share(pieces, phase == "input")
        return {
            "channels": self.shape.channels,
            "channel_blocks": self.channel_blocks,
            "filter_blocks": self.filter_blocks,
            "groups": self.groups,
            "group_share": share,
            "group_parts": -(-pieces // share),
            "bundle": self._bundle(share),
            "tiles": self.tiles,
            "block": self.block,
            "rows": self.rows,
            "columns": self.columns,
            "columns_end": columns_end,
            "inner_end": inner_end,
            "rows_end": rows_end,
            "last_v": self.last_v,
            "last_h": self.last_h,
            "v_xi": self.v_xi,
            "v_block": self.block * self.lanes,
            "v_item": self.v_elements,
            "m_xi": self.m_xi,
            "m_group": self.m_elements,
            "u_xi": self.panel,
            "ahead": runs_ahead(self.target),
            "table_bytes": -(-self.block * TABLE * 8 // 64) * 64,
            "temporary_bytes": -(-(self.products + 1) * self.lanes * 4 // 64) * 64,
            "v_bytes": -(-self.v_elements * 4 // 64) * 64 if phase == "fused" else 0,
        }

    def _bundle(self, share: int) -> int:
        """Number of filter groups at a time: those of a piece, while their products fit half the level 2 cache.

        V[xi] is then read from the level 3 cache once for all of them; when fused it stays in level 2 as it is.
        """
        if not self.split:
            return 1
        return maximum(1, minimum(share, self.target.l2_bytes // 2 // (4 * self.m_elements)))

    def _share(self, pieces: int, is_input: bool) -> int:
        """Number of channel blocks, or filter groups, per piece of work: some 16 pieces in all, none very small."""
        wanted = max(1, -(-16 // max(1, plain(self.blocks))))
        least = max(1, 64 // plain(self.block)) if is_input else 1
        return min(pieces, max(least, pieces // wanted))
