"""Calls of a Winograd convolution of volumes: those of planes, with blocks of planes and taps across them."""

from __future__ import annotations

import dataclasses

from cenote.core.computed import whole_of
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.types import Array
from cenote.kernels.base import Packed, View
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.tables import planes_per_block, tiles_per_plane
from cenote.kernels.winograd.calls import SKEW, WinogradTiling
from cenote.kernels.winograd.kernel import APART, WinogradSpec
from cenote.kernels.winograd.products import widths
from cenote.kernels.winograd.volume import WinogradVolumeSpec


@dataclass(frozen=True)
class WinogradVolumeTiling(WinogradTiling):
    """Tiling of one layer of three axes: across planes, down and across a plane.

    `apart`: dilations; of a volume they make several, and `shape` is one of those of one size, its n counts all.
    `begins`: the numbers of planes, rows and columns where these begin, from the first element of the calls' tensors
    on. `axes`: the axes of x that these are; the last one is the last. `shape` has them in this order. Every plane of y
    sees at least one of x: pads across planes are smaller than the window.
    """

    axes: tuple[int, int, int] = (0, 1, 2)
    apart: tuple[int, ...] = (1, 1, 1)
    begins: tuple[int, ...] = (1, 1, 1)

    kind = WinogradVolumeSpec

    @property
    def pitch(self) -> int:
        return self.lanes * self.apart[2]

    @property
    def taps(self) -> int:
        """Number of taps across planes."""
        return self.shape.window[0]

    @property
    def before(self) -> int:
        """Number of planes of padding before x."""
        return self.shape.pads[0][0]

    @property
    def ends(self) -> tuple[int, int, int]:
        """Numbers of tiles of one plane, up to the end of each kind but the last."""
        last_columns = self.rows * minimum(self.last_h, 1)
        inner = last_columns + self.rows * self.columns
        return last_columns, inner, inner + self.columns * minimum(self.last_v, 1)

    @property
    def tiles(self) -> int:
        """Number of tiles of all planes of y."""
        return self.map_tiles * self.shape.n * self.shape.out[0]

    @property
    def most(self) -> int:
        """Number of tiles of V in a block."""
        if self.split:
            return 64
        per_tile = self.products * self.channel_blocks * self.lanes * 4
        return max(24, min(96, self.target.l2_bytes * 5 // 8 // per_tile))

    @cached_property
    def plane_block(self) -> int:
        """Number of planes of y in a block."""
        planes, size, tiles = map(self._some, (self.shape.out[0], self.shape.size[0], self.map_tiles))
        block = whole_of(planes_per_block, 1, 96, planes, self.most, minimum(self.taps, size), tiles)
        return maximum(1, minimum(block, -(-planes // self.shares)))

    @property
    def may_be_empty(self) -> bool:  # type: ignore[override]  # those of two axes have a tiling of their own
        return self.is_dilated and is_size(self.tiles)

    def _some(self, count: int) -> int:
        """Return a number by which work is cut into blocks; 1 where there is no work."""
        return maximum(1, count) if self.may_be_empty else count

    @property
    def seen(self) -> int:
        """Number of planes of x in a block."""
        return minimum(self.plane_block + self.taps - 1, self._some(self.shape.size[0]))

    @property
    def run(self) -> int:
        """Number of tiles of which a block of them should be a multiple: fewer take as long.

        With one filter vector that is 8: 32 to 16 channels at 24x24x24 took 1.19 ms in blocks of 9 tiles, and take
        0.84 in blocks of 8 (Emerald Rapids).
        """
        runs = widths(self.group_blocks, self.target)
        return runs[-1] if len(runs) == 1 else 1

    @cached_property
    def block(self) -> int:
        """Number of tiles of a plane in a block."""
        return whole_of(tiles_per_plane, 1, 96, self._some(self.map_tiles), self.seen, self.most, self.run)

    @property
    def tile_blocks(self) -> int:
        return -(-self.map_tiles // self.block)

    @property
    def plane_blocks(self) -> int:
        return -(-self.shape.out[0] // self.plane_block)

    @property
    def blocks(self) -> int:
        return self.shape.n * self.plane_blocks * self.tile_blocks

    @property
    def v_plane(self) -> int:
        return self.channel_blocks * self.block * self.lanes

    @property
    def v_xi(self) -> int:
        return self.seen * self.v_plane + SKEW

    @property
    def m_plane(self) -> int:
        return self.block * self.group_blocks * self.lanes

    @property
    def m_xi(self) -> int:
        return self.plane_block * self.m_plane + SKEW

    @property
    def panel(self) -> int:
        return self.taps * super().panel

    @property
    def planes_seen(self) -> int:
        """Number of planes of x that planes of y see, one after the other: those of padding do not count."""
        out, size = self.shape.out[0], self.shape.size[0]
        starts = [(maximum(0, self.before - tap), size + self.before - tap) for tap in range(self.taps)]
        return sum(maximum(0, minimum(out, last) - first) for first, last in starts)

    @property
    def product_operations(self) -> int:
        per_tile = 2 * self.groups * super().panel
        return per_tile * self.products_of(self.ends, self.map_tiles) * self.planes_seen * self.shape.n

    def transform_operations(self, inputs: int, outputs: int) -> int:
        of_x = inputs * self.seen * self.plane_blocks
        of_y = outputs * self.shape.out[0]
        return 5 * self.products * self.lanes * self.shape.n * self.map_tiles * (of_x + of_y)

    def pack(self, weights: Array) -> Packed:
        """Return weights (M, C, taps, kh, kw) as U: (group, xi, tap, channel, filter vector, lane), rounded once."""
        return self.weights.packed(self.taps, lambda: [weights[:, :, tap] for tap in range(self.taps)])

    @property
    def is_dilated(self) -> bool:
        return max(self.apart) > 1

    def _spec(self, phase: str, activation: Activation, residual: bool) -> WinogradSpec:
        spec = super()._spec(phase, activation, residual)
        assert isinstance(spec, WinogradVolumeSpec)
        return dataclasses.replace(spec, dilated=self.is_dilated)

    def steps(self, view: View) -> dict[str, int]:
        n, block, *spatial = view.strides
        plane, row, _ = (spatial[axis] for axis in self.axes)
        steps = {"n": n, "block": block, "h": row * self.apart[1], "plane": plane * self.apart[0]}
        return steps | ({"next_plane": plane, "next_row": row} if self.is_dilated else {})

    def numbers(self, phase: str) -> dict[str, int]:
        names = ("plane_phases", "row_phases", "column_phases") if self.is_dilated else ()
        phases = dict(zip(names, self.begins, strict=False))
        return (
            super().numbers(phase)
            | phases
            | ({APART: self.apart[2]} if phases else {})
            | {
                "tiles": self.map_tiles,
                "taps": self.taps,
                "before": self.before,
                "x_planes": self.shape.size[0],
                "y_planes": self.shape.out[0],
                "plane_block": self.plane_block,
                "plane_blocks": self.plane_blocks,
                "tile_blocks": self.tile_blocks,
                "v_plane": self.v_plane,
                "m_plane": self.m_plane,
            }
        )
