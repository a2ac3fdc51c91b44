"""Calls of a Winograd convolution of rows, whose windows are cut into pieces."""

from __future__ import annotations

import numpy as np

from cenote.core.computed import whole_of
from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array
from cenote.kernels.base import Packed, View
from cenote.kernels.tables import tiles_per_plane
from cenote.kernels.winograd.calls import SKEW, WinogradTiling
from cenote.kernels.winograd.kernel import TABLE
from cenote.kernels.winograd.rows import WinogradRowsSpec
from cenote.kernels.winograd.transforms import Filtering, filtering


@dataclass(frozen=True)
class WinogradRowsTiling(WinogradTiling):
    """Tiling of one layer of one axis, with tiles of `mh` results. A window of several pieces has pieces of `mh` taps.

    A dilation d is d convolutions, each of every d-th element.
    """

    kind = WinogradRowsSpec

    @property
    def dilation(self) -> int:
        return self.shape.dilations[-1]

    @property
    def pieces(self) -> int:
        """Number of pieces of the window."""
        return -(-self.shape.window[-1] // self.piece)

    @property
    def piece(self) -> int:
        """Number of taps of a piece."""
        return min(self.mh, self.shape.window[-1])

    @property
    def vertical(self) -> Filtering:
        return filtering(1, 1)

    @property
    def horizontal(self) -> Filtering:
        return filtering(self.mh, self.piece)

    @property
    def further(self) -> int:
        """Number of elements of x that are read past those that the results see, zeros: of the last tile, of the last
        piece, and where the dilation does not divide the row."""
        d, taps = self.dilation, self.pieces * self.piece
        return d * (taps - self.shape.window[-1]) + d * (self.mh - 1) + d - 1

    @property
    def last_v(self) -> int:
        return 0

    @property
    def last_h(self) -> int:
        return 0

    @property
    def row_tiles(self) -> int:
        """Number of tiles of every d-th element of a row."""
        return -(-self.shape.out[-1] // (self.mh * self.dilation))

    @property
    def ends(self) -> tuple[int, int, int]:
        return 0, self.row_tiles, self.row_tiles

    @property
    def tiles(self) -> int:
        return self.row_tiles * self.dilation * self.shape.n

    @cached_property
    def block(self) -> int:
        return whole_of(tiles_per_plane, 1, 96, self.row_tiles, 1, max(24, self.most - (self.pieces - 1)))

    @property
    def most(self) -> int:
        """Number of tiles of V in a block."""
        per_tile = self.products * self.channel_blocks * self.lanes * 4
        return 64 if self.split else max(24, min(96, self.target.l2_bytes * 5 // 8 // per_tile))

    @cached_property
    def phase_block(self) -> int:
        """Number of phases in a block."""
        return whole_of(tiles_per_plane, 1, self.dilation, self.dilation, self.read, self.most)

    @property
    def phase_blocks(self) -> int:
        return -(-self.dilation // self.phase_block)

    @property
    def v_phase(self) -> int:
        return self.channel_blocks * self.read * self.lanes

    @property
    def m_phase(self) -> int:
        return self.block * self.group_blocks * self.lanes

    @property
    def tile_blocks(self) -> int:
        return -(-self.row_tiles // self.block)

    @property
    def blocks(self) -> int:
        return self.shape.n * self.phase_blocks * self.tile_blocks

    @property
    def read(self) -> int:
        """Number of tiles of V of a block and phase."""
        return self.block + self.pieces - 1

    @property
    def v_xi(self) -> int:
        return self.phase_block * self.v_phase + SKEW

    @property
    def m_xi(self) -> int:
        return self.phase_block * self.m_phase + SKEW

    @property
    def panel(self) -> int:
        return self.pieces * super().panel

    @property
    def product_operations(self) -> int:
        return 2 * self.groups * self.panel * self.products * self.tiles

    def transform_operations(self, inputs: int, outputs: int) -> int:
        tiles = inputs * self.read * self.tile_blocks * self.dilation * self.shape.n + outputs * self.tiles
        return 5 * self.products * self.lanes * tiles

    def pack(self, weights: Array) -> Packed:
        """Return weights (M, C, 1, taps) as U: (group, xi, piece, channel, filter vector, lane), rounded once."""

        def pieces() -> list[Array]:
            spare = self.pieces * self.piece - weights.shape[-1]
            filled = np.pad(weights, [(0, 0)] * 3 + [(0, spare)])
            return [
                filled[..., first : first + self.piece] for first in range(0, filled.shape[-1], self.piece)
            ]

        return self.weights.packed(self.pieces, pieces)

    def steps(self, view: View) -> dict[str, int]:
        return super().steps(view) | {"h": 0}

    def numbers(self, phase: str) -> dict[str, int]:
        columns_end, inner_end, rows_end = self.ends
        return super().numbers(phase) | {
            "tiles": self.row_tiles,
            "columns_end": columns_end,
            "inner_end": inner_end,
            "rows_end": rows_end,
            "v_block": self.read * self.lanes,
            "table_bytes": -(-self.read * TABLE * 8 // 64) * 64,
            "pieces": self.pieces,
            "dilation": self.dilation,
            "results": self.shape.out[-1],
            "tile_blocks": self.tile_blocks,
            "phase_block": self.phase_block,
            "phase_blocks": self.phase_blocks,
            "v_phase": self.v_phase,
            "m_phase": self.m_phase,
        }
