"""Places of the tiles of a Winograd convolution: kinds of tiles in a block, and addresses of pixels and maps."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass


@dataclass(frozen=True)
class TilesOfKind:
    """Tiles of one kind in a block: from `begin` to `end`; `down` by `across` outputs each."""

    begin: Value
    end: Value
    is_last_row: Value
    is_last_column: Value
    down: Value
    across: Value


@dataclass(frozen=True)
class MapOfResults:
    """Addresses of a map's products and of its parts of y and of the residual."""

    m: Pointer
    y: Pointer
    r: Pointer


class Pixels:
    """Place of a tile's elements: one address, or several whose elements are worked on together."""

    def __init__(self, places: Sequence[Pointer]) -> None:
        self.places = places

    def __add__(self, offset: Value | int) -> Pixels:
        return Pixels([place + offset for place in self.places])
