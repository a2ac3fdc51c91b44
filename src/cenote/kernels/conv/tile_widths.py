"""How many pixels a kernel's tiles have, so that tiles of two neighbouring widths cover a row or map exactly.

A kernel computes `wide` tiles of `width` pixels and then tiles of `width - 1`; for known sizes `direct.cut` says which.
For sizes that are not known yet the width is the largest, which covers every large map; where maps may be small, the
kernel is chosen among a few widths when the size is there. A pixel's bits depend on neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.core.computed import whole_of
from cenote.core.formulas.expressions import Formula
from cenote.core.sizes import is_size, plain
from cenote.kernels.conv.direct import cut
from cenote.kernels.tables import first_that_covers

_LADDER = (8, 5, 3, 2)  # widths that together cover every number of pixels
# Times the pixels that the widest tiles always cover: maps this large are taken to stay large (a picture of 640x640
# pixels has 44 times as many as one of 96x96).
_SURELY = 64


@dataclass(frozen=True)
class TileWidths:
    """`widths` are those to choose among; `chosen` says which, where there are several. Then `wide` tiles of that
    width come first among `tiles`, the others have `narrow` pixels."""

    widths: tuple[int, ...]
    chosen: int
    wide: int
    tiles: int
    narrow: int


def tile_widths(pixels: int, most: int) -> TileWidths:
    """Tiles of at most so many pixels that cover this many."""
    if not is_size(pixels):
        width, tiles, wide = cut(pixels, most)
        return TileWidths((width,), 0, wide, tiles, width - 1)
    least = most * (most - 1)  # from here on there is always a sum of tiles of both widths
    if plain(pixels) >= _SURELY * least and pixels >= least:
        tiles = -(-pixels // most)
        return TileWidths((most,), 0, pixels - tiles * (most - 1), tiles, most - 1)
    widths = (most, *(width for width in _LADDER if width < most))
    chosen = whole_of(first_that_covers, 0, len(widths) - 1, pixels, widths)
    trace = pixels.trace  # type: ignore[attr-defined]  # a Size
    width = trace.unknown(Formula(trace, "item", widths, chosen), 1, most)
    tiles = -(-pixels // width)
    return TileWidths(widths, chosen, pixels - tiles * (width - 1), tiles, width - 1)
