"""Division of products of bytes on tiles into pieces of work, what they keep in scratch, and an estimate."""

from __future__ import annotations

import math

from cenote.codegen.tiles import ROW, ROWS
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.text import split_words
from cenote.kernels.cost_model import LAUNCH, TILE_FINISH, TILE_MOVE, tile_seconds

_BAND = 8  # steps, at most, that use weights while they are in the level 2 cache
_ITEMS = 8  # pieces that a layer is cut into, where that costs little
_PIECE = 5e-6  # seconds of the smallest pieces
_SHARED_COPY = 8  # steps of filters, at least, that share a copy
_MOST_KEPT = 64  # steps of filters, at most, whose sums are kept from one part of the entries to the next

SIDE = FILTERS = 2 * ROWS  # positions and filters of a step
SUMS = SIDE * FILTERS  # of a step
ENTRY = SIDE * ROW  # bytes of a step's positions, and of its filters
# Positions, 32 at a time: all, and of a band; steps of the filters of a group, and of a part; entries of a window, and
# of those that are copied at once; sums from one step of filters to the next, 0 where they are not kept.
NUMBERS = split_words("positions steps band bands filter_steps part_steps parts entries chunk kept zero")


@dataclass(frozen=True)
class ByteTileCut:
    """Division of `positions` windows of `row_bytes` bytes each, by `filters`, in each of `groups`, into bands and
    parts. `unit`: bytes that are copied at once."""

    positions: int
    row_bytes: int
    unit: int
    filters: int
    groups: int
    l2_bytes: int

    @staticmethod
    def of(shape: ConvShape, unit: int, l2_bytes: int) -> ByteTileCut:
        """The division of a convolution over three axes, whose x lies in blocks of `unit` channels."""
        row_bytes = blocks_of(shape, unit) * unit * shape.taps
        return ByteTileCut(
            shape.n * shape.pixels, row_bytes, unit, shape.group_filters, shape.groups, l2_bytes
        )

    @property
    def entries(self) -> int:
        return -(-self.row_bytes // ROW)

    @property
    def chunk(self) -> int:
        """Entries that are copied at once: as many as half of the level 2 cache holds of a step's positions."""
        return minimum(self.entries, max(1, self.l2_bytes // 2 // ENTRY))

    @property
    def is_whole(self) -> bool:
        """Whether all entries are known to be copied at once, so that sums need not be kept."""
        return not is_size(self.entries) and self.chunk == self.entries

    @property
    def steps(self) -> int:
        return -(-self.positions // SIDE)

    @property
    def filter_steps(self) -> int:
        return -(-self.filters // FILTERS)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a group's weights."""
        return self.filter_steps * self.entries * ENTRY

    @property
    def outgrows(self) -> bool:
        """Whether weights are known to come from beyond the level 2 cache, unless several steps share them."""
        return not is_size(self.weight_bytes) and self.weight_bytes > self.l2_bytes // 2

    @property
    def band(self) -> int:
        """Steps of a band: one, unless weights come from beyond the level 2 cache."""
        if not self.outgrows or not self.is_whole:
            return 1
        most = max(1, min(_BAND, self.l2_bytes // 4 // (self.entries * ENTRY)))
        return most if is_size(self.steps) else max(1, min(most, self.steps))

    @property
    def bands(self) -> int:
        return -(-self.steps // self.band)

    @property
    def part_steps(self) -> int:
        """Steps of the filters of a part. Each part makes a copy of its own."""
        pieces, each = self.bands * self.groups, self.filter_steps
        if not is_size(pieces) and not is_size(each):
            wanted = _ITEMS // max(1, pieces)
            each = -(-each // max(1, min(wanted, each // _SHARED_COPY)))
        return each if self.is_whole else minimum(each, _MOST_KEPT)

    @property
    def parts(self) -> int:
        return -(-self.filter_steps // self.part_steps)

    @property
    def items(self) -> int:
        return self.groups * self.bands * self.parts

    @property
    def grain(self) -> int:
        """Pieces that a thread should take at a time."""
        each = math.floor(_PIECE / (self.step_seconds() * self.band))
        return maximum(1, minimum(each, self.items // _ITEMS))

    def scratch(self, place_bytes: int) -> int:
        """Bytes of scratch memory: sums, `place_bytes` for each position of a band, and copies of windows."""
        held = 4 * SUMS * (1 if self.is_whole else self.part_steps)
        return held + self.band * SIDE * place_bytes + self.band * self.chunk * ENTRY

    @property
    def words(self) -> dict[str, int]:
        """The words of a kernel but `zero`."""
        return {
            "positions": self.positions,
            "steps": self.steps,
            "band": self.band,
            "bands": self.bands,
            "filter_steps": self.filter_steps,
            "part_steps": self.part_steps,
            "parts": self.parts,
            "entries": self.entries,
            "chunk": self.chunk,
            "kept": 0 if self.is_whole else SUMS,
        }

    def step_seconds(self) -> float:
        """Estimate for 32 positions and the filters of a part."""
        product = self.entries * tile_seconds(4, 4, far=2 if self.outgrows and self.band == 1 else 0)
        copies = self.entries * SIDE * ROW // self.unit * TILE_MOVE
        return copies + self.part_steps * (product + TILE_FINISH)

    def seconds(self) -> float:
        return LAUNCH + self.step_seconds() * self.steps * self.groups * self.parts

    @property
    def operations(self) -> int:
        """Operations executed, those of tiles that are not full too."""
        return 2 * self.steps * self.groups * self.filter_steps * self.entries * SUMS * ROW


def blocks_of(shape: ConvShape, unit: int) -> int:
    """Blocks of `unit` channels in a group."""
    return -(-shape.group_channels // unit)
