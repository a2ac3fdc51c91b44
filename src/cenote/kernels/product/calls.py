"""Calls of a product, from its sizes and views: the kernel, and how bands and groups share the work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.conv.tile_widths import TileWidths, tile_widths, widest
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import SumBlocks
from cenote.kernels.product.panels import Panels, order_of, panel_call
from cenote.kernels.product.tiles import OPERANDS, ProductSpec, chunk, panel_row
from cenote.kernels.product.vector import COLUMNS, MOST_ROWS, RUN, SUMS, VectorSpec
from cenote.kernels.row_shares import row_shares
from cenote.kernels.strided_axes import Axis, axis_words, is_one, position_count

_MACS_PER_SECOND = 50e9  # multiply-adds of one core, to size pieces of work; a factor of 2 either way is fine
# Seconds of work that a thread takes at a time: the groups of a piece share a copy of A's band. With 0.2 ms each item
# of a 2048 x 2048 x 2048 product had a piece, and a copy, of its own: 69.5 ms on two threads instead of 57.
_PIECE = 3e-3
_FEW_GROUPS = 2  # groups of columns that count as few
_SMALL = 16 << 10  # elements of a matrix that stays in the nearest caches
_PART = 2  # of B's numbers that a thread's share of rows has at least; on one thread shares cost 1 to 3 %
FAR = 1 << 20  # bytes of a matrix that is not in the second cache
FARTHEST = 24 << 20  # bytes of one that is in no cache
_RUN = 256  # columns of B that are copied together,
# where it has so many bytes: a Xeon reads its third cache ahead by shorter pieces of rows, too. 49 rows there, in runs
# and chunk by chunk, ms by 512x1,024 0.372, 0.348; 3,072x768 1.73, 1.54; 768x3,072 1.75, 1.62; 2,048x2,048 3.31, 3.33.
_RUNS_WIDE = 16 << 20
# Tiles of a band that is larger than the second cache, at most: of B in panels, and of B where it lies.
_FEW_TILES = 8
_FEW_TILES_UNPACKED = 32
_BAND = 64  # tiles of rows that use a group's part of B while it is in the first cache


@dataclass(frozen=True)
class Matrix:
    """Layout of a matrix, or of the first of several: steps in elements from row to row and column to column."""

    source: View | Array
    row: int
    column: int


@dataclass(frozen=True)
class Product:
    """Problem of y = activation(alpha A B + bias + beta residual) for pairs of matrices.

    `axes` are batch axes with their steps in (A, B, residual, y). `packed` holds B in panels if it is a constant. The
    bias has one number per column; the residual's columns are contiguous, its row step may be 0. `exact`: sums are
    made of shorter chains.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    y: Matrix
    axes: tuple[Axis, ...]
    packed: Packed | None = None
    bias: View | Array | None = None
    residual: Matrix | None = None
    activation: Activation = field(default_factory=Activation)
    alpha: float = 1.0
    beta: float = 1.0
    exact: bool = False

    @property
    def b_axes(self) -> list[Axis]:
        """Batch axes along which B differs."""
        return [(extent, [steps[1]]) for extent, steps in self.axes if is_size(steps[1]) or steps[1] != 0]

    @property
    def blocks(self) -> SumBlocks:
        """Sizes of the blocks of sums."""
        return SumBlocks.of(self.exact)

    def panels(self, target: Target) -> Panels:
        return Panels.cut(self.m, self.n, self.k, target)

    def reads_b_in_place(self) -> bool:
        """Whether a row of A, or a few, are multiplied by B in place: bound by reading B once."""
        return (
            not is_size(self.m)
            and self.m <= self._most_rows()
            and self.packed is None
            and is_one(self.b.column)
            and self.residual is None
        )

    def _most_rows(self) -> int:
        """Number of rows that are multiplied by B in place: tiles compute faster, and read B slower."""
        if self._is_beyond(FARTHEST):
            return MOST_ROWS
        return MOST_ROWS // 2 if self._is_beyond(FAR) else 1

    def packs(self, target: Target) -> bool:
        """Whether B is packed before the product. Where all rows of A are one band, it is read only once anyway."""
        if self.packed is not None or self.reads_b_in_place():
            return False
        tiles = self._tiles(self.panels(target), target)
        return is_size(tiles.tiles) or tiles.tiles > self._band(
            self.panels(target), tiles, target, packed=False
        )

    def _tiles(self, panels: Panels, target: Target) -> TileWidths:
        return tile_widths(self.m, widest(panels.blocks, target.registers))

    def _tile_elements(self, panels: Panels, tiles: TileWidths) -> int:
        """Number of elements of the copy of a tile's rows."""
        depth = chunk(panels.blocks, panels.lanes)
        return max(tiles.widths) * maximum(1, -(-self.k // depth)) * depth

    def _band(self, panels: Panels, tiles: TileWidths, target: Target, packed: bool) -> int:
        """Number of tiles of a band: the copy of their rows stays in half of the second cache. That of a few tiles may
        take eight times as much, since each band reads all of B (256 rows by 4,096 x 4,096: 105 ms, by bands of two
        tiles 136); where B is not packed, that of more (128 rows: 62 ms, packed 100)."""
        elements = self._tile_elements(panels, tiles)
        few = _FEW_TILES if packed else _FEW_TILES_UNPACKED
        most = maximum(target.l2_bytes // 8 // elements, minimum(few, 2 * target.l2_bytes // elements))
        return minimum(_BAND, maximum(1, most))

    def _reads_a_in_place(self, panels: Panels, dtype: np.dtype[Any]) -> bool:
        """Whether A is read in place: a copy costs 3 to 30 % where B has few columns, and helps only where rows that
        are multiples of 4 KiB apart, and so fall into one set of the first cache, are read again and again."""
        order = order_of(self.a.row, self.a.column)
        apart = self.a.row if order == "rows" else self.a.column
        if not order or dtype != np.float32 or self.alpha != 1 or is_size(apart):
            return False
        return bool(apart % 1024 != 0) or (not is_size(panels.groups) and panels.groups <= _FEW_GROUPS)

    def _b_mode(self, packed: bool, panels: Panels, tiles: TileWidths, target: Target) -> str:
        """Return how the kernel reads B (see ProductSpec). A chunk is copied if tiles would come back to it so often
        that it matters how many sets of the first cache its rows share (49 rows, 1,024 by 1,024: 1.4 times as long in
        place; 49 rows, 64 by 128: 5 % less).
        """
        order = order_of(self.b.row, self.b.column)
        if packed:
            return "packed"
        if order != "rows" or is_size(tiles.tiles):
            return order
        if self._is_beyond(_RUNS_WIDE if target.is_wide and self.m > MOST_ROWS else FAR):
            return "runs"
        near = tiles.tiles <= 2
        if not is_size(self.b.row):
            near |= tiles.tiles <= 4 and self.b.row <= 512
            near |= self.b.row <= panels.width or (not is_size(self.k) and self.k * self.b.row <= _SMALL)
        return "direct" if near else order

    def packed_elements(self, target: Target) -> int:
        """Number of elements of B in panels, where they are made when the program runs."""
        return position_count(self.b_axes) * self.panels(target).size if self.packs(target) else 0

    def calls(self, target: Target, between: View | None) -> Iterator[Call]:
        """Yield the calls that pack B into `between` where need be, then the product."""
        if self.reads_b_in_place():
            yield self._vector(target)
            return
        panels, axes = self.panels(target), self.axes
        b: View | Array | Packed = self.b.source
        if self.packs(target):
            assert between is not None
            assert isinstance(b, View)
            yield panel_call(panels, b, self.b.row, self.b.column, self.b_axes, between)
            b = between
        elif self.packed is not None:
            b = self.packed
        if b is not self.b.source:
            axes = self._packed_axes(panels)
        yield self._multiply(panels, b, axes, target)

    def _packed_axes(self, panels: Panels) -> tuple[Axis, ...]:
        """Return the axes with B's steps from panels to panels."""
        axes: list[Axis] = []
        step = panels.size
        for extent, steps in reversed(self.axes):
            differs = is_size(steps[1]) or steps[1] != 0
            axes.append((extent, [steps[0], step if differs else 0, *steps[2:]]))
            step = step * extent if differs else step
        return tuple(reversed(axes))

    def _multiply(
        self, panels: Panels, b: View | Array | Packed, axes: tuple[Axis, ...], target: Target
    ) -> Call:
        cut = self._tiles(panels, target)
        packed = b is not self.b.source
        y, a = _view(self.y), _view(self.a)
        order, in_place = order_of(self.a.row, self.a.column), self._reads_a_in_place(panels, a.type.dtype)
        b_type = FLOAT32 if packed else _view(self.b).type.dtype
        mode = self._b_mode(packed, panels, cut, target)
        together = max(2, _RUN // panels.width) if mode == "runs" else 1
        specs = tuple(
            ProductSpec(
                panels.blocks,
                panels.mixed,
                width,
                len(axes),
                order,
                in_place,
                mode,
                panels.clipped,
                self.bias is not None,
                self.residual is not None,
                self.activation,
                a.type.dtype,
                b_type,
                y.type.dtype,
                together,
            )
            for width in cut.widths
        )
        width, copied = max(cut.widths), self._tile_elements(panels, cut)
        band = self._band(panels, cut, target, packed)
        if self.packed is not None and not axes:
            shares = row_shares(self.m, self.k, self.n, target.threads, _PART)
            band = maximum(1, minimum(band, -(-cut.tiles // shares)))
        bands = -(-cut.tiles // band)
        band = -(-cut.tiles // bands)
        bands = -(-cut.tiles // band)
        residual = self.residual
        r_row = 0 if residual is None else residual.row
        words: dict[str, Argument] = {"a": self.a.source, "b": b, "bias": self.bias, "y": y}
        words |= {"residual": None if residual is None else residual.source}
        words |= {"columns": self.n, "depth": self.k, "a_row": self.a.row, "a_column": self.a.column}
        words |= {"b_row": self.b.row, "b_column": self.b.column, "r_row": r_row, "y_row": self.y.row}
        words |= {"wide": cut.wide, "tiles": cut.tiles, "narrow": cut.narrow, "band": band, "bands": bands}
        words |= {"wide_groups": panels.wide, "groups": panels.groups}
        words |= {"alpha": float(self.alpha), "beta": float(self.beta)}
        words |= self.blocks.words | axis_words(axes, OPERANDS)
        items = position_count(axes) * bands * -(-panels.groups // together)
        sums = width * panels.width * together * self.blocks.slots(self.k)
        panel = chunk(panels.blocks, panels.lanes) * panel_row(panels.blocks, panels.lanes, together)
        scratch = 4 * (band * ((0 if in_place else copied) + sums) + panel)
        per_item = maximum(1, band * width * panels.width * together * self.k) / _MACS_PER_SECOND
        grain = maximum(1, minimum(math.floor(_PIECE / per_item), -(-items // 8)))
        executed = 2 * position_count(axes) * self.m * panels.padded * self.k
        call = Call.named(specs[0], words, items, grain, scratch, executed)
        return call.among(specs, cut.chosen)

    def _is_beyond(self, nbytes: int, itemsize: int = 4) -> bool:
        """Whether B is known to have so many bytes."""
        size = self.n * self.k * itemsize
        return not is_size(size) and bool(size >= nbytes)

    def _vector(self, target: Target) -> Call:
        y = _view(self.y)
        spec = VectorSpec(
            len(self.axes),
            self.bias is not None,
            self.activation,
            _view(self.a).type.dtype,
            _view(self.b).type.dtype,
            y.type.dtype,
            self.m,
        )
        run = maximum(RUN, minimum(COLUMNS, -(-self.n // (2 * RUN)) * RUN))
        words: dict[str, Argument] = {
            "a": self.a.source,
            "b": self.b.source,
            "bias": self.bias,
            "y": y,
            "columns": self.n,
            "run": run,
            "depth": self.k,
            "a_row": self.a.row,
            "a_column": self.a.column,
            "b_row": self.b.row,
            "y_row": self.y.row,
            "alpha": float(self.alpha),
            **self.blocks.words,
            **axis_words(
                [(extent, [steps[0], steps[1], steps[3]]) for extent, steps in self.axes], ("a", "b", "y")
            ),
        }
        items = position_count(self.axes) * -(-self.n // run)
        scratch = 4 * (SUMS * self.m * self.blocks.slots(self.k) + target.lanes())
        moved = maximum(1, minimum(run, self.n) * self.k * 4)
        return Call.named(spec, words, items, maximum(1, (256 << 10) // moved), scratch)


def _view(matrix: Matrix) -> View:
    assert isinstance(matrix.source, View)
    return matrix.source
