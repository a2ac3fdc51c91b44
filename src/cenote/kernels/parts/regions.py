"""Regions of a map: the parts that a band of output rows reads, where products on tiles find them.

A region holds, for each block of 32 channels and each of the two parts, the pixels of x that the band's windows see,
zeros where they see padding:

    [channel block][part][phase of the rows][phase of the columns][row][column][32]

Strides larger than one part rows and columns into phases, so that neighbouring outputs read neighbouring pixels in
each. Output (row, column) is position row * pitch + column, a tap adds a constant (`places`), and 16 positions in a row
are the rows of a tile, across the ends of rows: positions past the last column are computed and dropped. Rows one apart
share the padding between them: what lies to the right of a row is to the left of the next.
"""

from __future__ import annotations

import numpy as np

from cenote.core.computed import computed
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import maximum, minimum, plain
from cenote.core.types import Array, TensorType
from cenote.kernels.cost_model import conversion_seconds, moved_seconds, stream_seconds, tile_seconds
from cenote.kernels.tables import region_places

CHANNELS = 32  # of a block: float16 elements in a row of a tile
FILTERS = 32  # two tiles of columns
POSITIONS = 32  # two tiles of rows
PARTS = 2
# Bytes of a region: with a group's weights in a level 2 cache of 2 MB, which processors with such tiles have.
_REGION_BYTES = 768 << 10
_ITEMS = 16  # pieces of work that there should be, for threads


@dataclass(frozen=True)
class Regions:
    """Regions of a convolution over three axes, of which the depth has one element, one tap and no padding, with one
    group and no negative padding."""

    shape: ConvShape

    @cached_property
    def phases(self) -> tuple[int, int]:
        """Phases of rows and columns that taps see."""
        height, width = (
            1 + max(tap * step % stride for tap in range(taps)) for taps, step, stride in self._axes
        )
        return height, width

    @property
    def _axes(self) -> list[tuple[int, int, int]]:
        shape = self.shape
        return [(shape.window[axis], shape.dilations[axis], shape.strides[axis]) for axis in (1, 2)]

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns of a phase that a window reaches past its first."""
        height, width = ((taps - 1) * step // stride for taps, step, stride in self._axes)
        return height, width

    @cached_property
    def pitch(self) -> int:
        """Columns from row to row."""
        (begin, end), width, out = self.shape.pads[2], self.shape.size[2], self.shape.out[2]
        if self.shape.strides[2] > 1:
            return out + self.reach[1]
        return maximum(out, width + max(begin, end))

    @property
    def blocks(self) -> int:
        """Channel blocks."""
        return -(-self.shape.channels // CHANNELS)

    @property
    def groups(self) -> int:
        """Groups of filters."""
        return -(-self.shape.filters // FILTERS)

    @cached_property
    def bands(self) -> int:
        """Bands of an image. A band has at least as many rows as its windows reach beyond them: each band has a copy of
        these."""
        height, width = self.phases
        row_bytes = self.blocks * CHANNELS * 2 * PARTS * height * width * self.pitch
        most = maximum(max(1, self.reach[0]), _REGION_BYTES // row_bytes - self.reach[0])
        return -(-self.shape.out[1] // minimum(self.shape.out[1], most))

    @cached_property
    def band(self) -> int:
        """Output rows of a band; the last one's may be fewer."""
        return -(-self.shape.out[1] // self.bands)

    @cached_property
    def rows(self) -> int:
        """Rows of a phase."""
        return self.band + self.reach[0]

    @cached_property
    def room(self) -> int:
        """Pixels of a block's part: the last tiles read past the last phase."""
        height, width = self.phases
        return height * width * self.rows * self.pitch + self.reach[1] + POSITIONS

    @property
    def elements(self) -> int:
        """Elements of a region."""
        return self.blocks * PARTS * self.room * CHANNELS

    @property
    def count(self) -> int:
        """Number of regions."""
        return self.shape.n * self.bands

    @property
    def pairs(self) -> int:
        """Pairs of tiles that a band's positions fill."""
        return -(-self.band * self.pitch // POSITIONS)

    @property
    def dots(self) -> int:
        """Products of tiles in all."""
        return self.count * self.pairs * self.groups * self.blocks * self.shape.taps * 12

    @cached_property
    def shares(self) -> tuple[int, int]:
        """Groups of filters that a piece of work computes, and the number of such shares."""
        wanted = minimum(self.groups, -(-_ITEMS // maximum(1, self.count)))
        each = -(-self.groups // wanted)
        return each, -(-self.groups // each)

    @property
    def memory(self) -> tuple[TensorType, TensorType]:
        """The memory of the parts, and of the sizes of their pixels."""
        parts = TensorType(np.dtype(np.float16), (self.count * self.elements,))
        return parts, TensorType(np.dtype(np.uint32), (2 * self.count * self.blocks,))

    @property
    def seconds(self) -> float:
        """The estimate: products or the weights' way from memory, the split, the result."""
        shape, (parts, _) = self.shape, self.memory
        weights = stream_seconds(4 * shape.filters * shape.channels * shape.taps)
        dots = plain(self.dots)  # of 12 in an entry, 8 have tiles to load
        products = max(tile_seconds(dots, dots * 8 / 12), weights)
        result = 4 * plain(shape.n * shape.filters * shape.pixels)
        return products + conversion_seconds(2 * plain(parts.nbytes)) + moved_seconds(result)

    def places(self) -> Array:
        """Pixels from a position to where each tap reads."""
        shape = self.shape
        return computed(
            region_places,
            shape.window[1:],
            shape.dilations[1:],
            shape.strides[1:],
            self.phases[1],
            self.rows,
            self.pitch,
        )
