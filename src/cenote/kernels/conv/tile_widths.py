"""Number of pixels in a kernel's tiles, so that tiles of two neighbouring widths cover a row or map exactly.

A kernel computes `wide` tiles of `width` pixels and then tiles of `width - 1`; for known sizes `direct.cut` gives
them. For sizes that are not known yet the width is the largest, which covers every large map; where maps may be
small, the kernel is chosen among a few widths once the size is known. The bits of a pixel depend on neither.
"""

from __future__ import annotations

from cenote.core.computed import whole_of
from cenote.core.deferred import dataclass
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.sizes import is_size, plain
from cenote.kernels.tables import first_that_covers

_LADDER = (8, 5, 3, 2)  # widths that together cover every number of pixels
# Times the pixels that the widest tiles always cover: larger maps are assumed to stay large (a picture of 640x640
# pixels has 44 times as many as one of 96x96).
_SURELY = 64


def widest_by_lane(blocks: int, registers: int) -> int:
    """Return the most pixels of a tile where a register of each pixel holds factors: sums, weights and these fill the
    registers. 32 registers: 4x5, 3x7, 2x8."""
    return max(1, min(8, (registers - blocks) // (blocks + 1)))


def widest(blocks: int, registers: int) -> int:
    """Return the most pixels of a tile of so many channel vectors: sums, weights and one broadcast fill the
    registers.

    16 registers: 8x1, 6x2, 4x3, 2x4; 7x2 would spill (45 % of peak), 3x4 does a little (80 %). More than 8 pixels
    need more addresses than there are general registers. One pixel takes any number of blocks: its weights are
    operands in memory.
    """
    return max(1, min(8, (registers - 1 - blocks) // blocks))


def cut(pixels: int, most: int) -> tuple[int, int, int]:
    """Cut pixels into tiles of `width` and of one pixel less that cover them exactly: (width, tiles, tiles of
    `width`).

    There are as few tiles as `most` pixels per tile allow. The width is `most` wherever it can be (for 6, from 20
    pixels on), so that kernels do not differ by the size of the map; smaller maps need a width of their own, of at
    most `most`.
    """
    width = most
    while width > 2 and pixels < -(-pixels // width) * (width - 1):
        width -= 1
    tiles = max(1, -(-pixels // width))
    return width, tiles, pixels - tiles * (width - 1)


@dataclass(frozen=True)
class TileWidths:
    """Widths that may be chosen, and the index `chosen` of the one that is, where there are several. Then `wide`
    tiles of that width come first among `tiles`; the others have `narrow` pixels."""

    widths: tuple[int, ...]
    chosen: int
    wide: int
    tiles: int
    narrow: int


def tile_widths(pixels: int, most: int) -> TileWidths:
    """Cut this number of pixels into tiles of at most `most`."""
    if not is_size(pixels):
        width, tiles, wide = cut(pixels, most)
        return TileWidths((width,), 0, wide, tiles, width - 1)
    least = most * (most - 1)  # from here on some sum of tiles of both widths always exists
    if plain(pixels) >= _SURELY * least and pixels >= least:
        tiles = -(-pixels // most)
        return TileWidths((most,), 0, pixels - tiles * (most - 1), tiles, most - 1)
    widths = (most, *(width for width in _LADDER if width < most))
    chosen = whole_of(first_that_covers, 0, len(widths) - 1, pixels, widths)
    trace = pixels.trace  # type: ignore[attr-defined]  # a Size
    width = trace.unknown(SizeFormula(trace, "item", widths, chosen), 1, most)
    tiles = -(-pixels // width)
    return TileWidths(widths, chosen, pixels - tiles * (width - 1), tiles, width - 1)
