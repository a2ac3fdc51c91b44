"""Matrix products by tiles: y = activation(alpha A B + bias + beta residual), for any number of pairs of matrices.

    item = pair, band of A's rows, group of B's columns                  emitted
      copy the band of A (again only when the band changes): scratch     emitted, unless it is read in place
      for chunk of the depth (its part of B stays in the first cache):   emitted
        for tile of `width` or `width - 1` rows:                         emitted
          sums[row][block] = 0, or what the last chunk left in scratch of a block of the sum
          for step of the depth (UNROLL at a time):                      emitted
            for row: broadcast A; for block: sums += A * B               unrolled
          sums += those of earlier blocks; or to scratch                 `partial_sums.py`
          y[row][block] = activation(sums + bias + residual)             after the last chunk

A is read where it lies, or copied: then its rows lie `CHUNK` elements apart whatever they did before (rows 4 KiB
apart fall into one set of the first cache: 1,024 columns took 1.35 times as long), matrices without contiguous rows or
columns and 16-bit ones become rows of float32, and alpha is a factor of the copy. B comes in panels (`panels.py`); or
it is read where it lies, by few tiles or where it is small; or a chunk of a group is copied to scratch when its turn
comes, which is less work than panels where there is one band only. The first tile then copies what it reads (49 rows,
768 by 256: 119 us, 128 in two loops), unless columns are contiguous. Of a matrix beyond the second cache an item takes
several groups, whose rows are copied together: memory is read in longer runs (8 rows, 4,096 by 4,096: 37 to 17 ms).
Every sum is over the depth in one order, and in the same blocks, whatever the sizes and threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32
from cenote.kernels import partial_sums
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation, in_parts
from cenote.kernels.partial_sums import PartialSum
from cenote.kernels.product.panels import LINE, copy_panel, copy_wide_rows, group_columns
from cenote.kernels.product.rows import TileRows, copy_elements, copy_vectors
from cenote.kernels.strided_axes import axis_names, axis_pointers

UNROLL = 8  # steps of the depth at a time
AHEAD = 2  # cache lines of the next chunk's B that are prefetched at each of them
OPERANDS = ("a", "b", "residual", "y")
NUMBERS = (
    *split_words(
        "columns depth a_row a_column b_row b_column r_row y_row",
        # Tiles of `width`, all tiles, columns of the narrow tile, tiles in a band, bands.
        "wide tiles narrow band bands",
        # Groups of `blocks` vectors, all groups.
        "wide_groups groups",
    ),
    *partial_sums.WORDS,
)


def chunk(blocks: int, lanes: int) -> int:
    """Number of steps of the depth in a pass, a power of two: a group's part of B takes 32 KiB of the first cache at
    most."""
    return 1 << min(8, ((32 << 10) // (4 * blocks * lanes)).bit_length() - 1)


def panel_row(blocks: int, lanes: int, together: int) -> int:
    """Number of elements from row to row of a copied chunk. Rows of several groups are a cache line further apart, so
    that a group's part of them does not fall into a few sets of the first cache."""
    return blocks * lanes * together + (LINE if together > 1 else 0)


@dataclass(frozen=True)
class ProductSpec(KernelSpec):
    """Kernel with `blocks` vectors of columns by `width` rows in registers; `mixed`: some groups have one vector
    less.

    `outer`: batch axes. `a`: the contiguous axis of A, "rows", "columns" or "" (neither); with `in_place` A is read
    in place. `b`: "packed" in panels; "rows", "columns" or "", and its chunks are copied; "runs", and rows of chunks
    are copied for `together` groups at a time; "direct", rows read in place. `clip`: so many vectors at the end of a
    group may have fewer columns, or none. `a_type`, `b_type` and `y_type` are the types of the matrices in memory (bias
    and residual as y); sums are in float32. `bias` and `residual` say which of them is added.
    """

    blocks: int
    mixed: bool
    width: int
    outer: int
    a: str
    in_place: bool
    b: str
    clip: int
    bias: bool
    residual: bool
    activation: Activation
    a_type: np.dtype[Any] = field(default=FLOAT32)
    b_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)
    together: int = 1

    @property
    def words(self) -> tuple[Parameter, ...]:
        y = Scalar.of(self.y_type)
        return (
            *pointers_to(Scalar.of(self.a_type), "a"),
            *pointers_to(Scalar.of(self.b_type), "b"),
            *pointers_to(y, "bias"),
            *pointers_to(y, "residual", "y", may_alias=True),
            *numbers_named(NUMBERS),
            Parameter("alpha", F32),
            Parameter("beta", F32),
            *numbers_named(axis_names(self.outer, OPERANDS)),
        )

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


def row_tiles(k: Kernel, width: int, first: Value, last: Value) -> Iterator[tuple[Value, Value, int]]:
    """Emit loops over tiles of `width` rows, and of one row less; yields (first row, tile, number of rows)."""
    wide, narrow = k.number("wide"), k.number("narrow")
    for tile in k.range(first, k.min_drop_nan(last, wide)):
        yield tile * width, tile, width
    if width > 1:
        for tile in k.range(k.max_drop_nan(first, wide), last):
            yield tile * narrow + wide, tile, width - 1


class _Emitter:
    def __init__(self, spec: ProductSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.chunk = chunk(spec.blocks, lanes)
        self.copied = k.scratch.cast(F32)

    def run(self) -> None:
        k = self.k
        bands, depth = k.number("bands"), k.number("depth")
        self.step = k.min_drop_nan(k.integer(1) << k.number("block"), k.integer(self.chunk))
        self.chunks = k.max_drop_nan((depth + (self.chunk - 1)) // self.chunk, k.integer(1))
        spec, rows = self.spec, k.number("band") * self.spec.width
        runs = (k.number("groups") + (spec.together - 1)) // spec.together
        self.panel = self.copied + (0 if spec.in_place else rows * self.chunks * self.chunk)
        self.sums = self.panel + self.chunk * panel_row(spec.blocks, self.lanes, spec.together)
        of_group = rows * (spec.blocks * self.lanes)  # sums of a band's part of one group
        self.apart = of_group * spec.together  # distance from slot to slot
        last_copied = k.variable(k.integer(-1))
        for item in k.range(k.begin, k.end):
            run, place = item % runs, item // runs
            pointers = axis_pointers(k, spec.outer, OPERANDS, place // bands)
            self.a, self.b, self.residual, self.y = pointers
            self.first = (place % bands) * k.number("band")
            self.last = k.min_drop_nan(self.first + k.number("band"), k.number("tiles"))
            if not spec.in_place:
                with k.when(place.differs(last_copied.value)):
                    for start, tile, width in self.tiles(self.first, self.last):
                        self.copy_tile(start, tile, width)
                last_copied.value = place
            if spec.b != "runs":
                for column, blocks in group_columns(k, run, spec.blocks, spec.mixed):
                    self.blocks, self.row = blocks, blocks * self.lanes
                    self.group(column)
                continue
            first = run * spec.together
            last = k.min_drop_nan(first + spec.together, k.number("groups"))
            for part in self.parts():
                begin = self.copy_run(part, first, last)
                for group in k.range(first, last):
                    for column, blocks in group_columns(k, group, spec.blocks, spec.mixed):
                        self.blocks, self.row = blocks, blocks * self.lanes
                        self.columns_from(column)
                        following = self.b + (part.begin + self.step) * k.number("b_row") + column
                        kept = self.sums + (group - first) * of_group
                        self.tiles_of(part, self.panel + (column - begin), following, column, kept)

    def tiles(self, first: Value, last: Value) -> Iterator[tuple[Value, Value, int]]:
        """Emit loops over tiles of the band; yields (first row, number in the band, number of rows)."""
        for start, tile, width in row_tiles(self.k, self.spec.width, first, last):
            yield start, tile - self.first, width

    def copy_of(self, tile: Value) -> Pointer:
        """Address of the copy of a tile's rows."""
        return self.copied + tile * (self.chunks * (self.spec.width * self.chunk))

    # ---- the sums ---------------------------------------------------------------------------------------------

    def parts(self) -> Iterator[PartialSum]:
        """Emit the loop over the chunks of the depth."""
        k, depth = self.k, self.k.number("depth")
        for begin in k.range(0, k.max_drop_nan(depth, k.integer(1)), self.step):
            yield PartialSum(k, begin, k.min_drop_nan(begin + self.step, depth), depth)

    def columns_from(self, column: Value) -> None:
        """Say which columns the sums belong to, and which of them exist."""
        self.bias = self.k.pointer("bias") + column
        self.masks: list[Value | None] = [None] * self.blocks
        self.left = self.k.number("columns") - column
        for block in range(max(0, self.blocks - self.spec.clip), self.blocks):
            self.masks[block] = self.k.tail_mask(self.left - block * self.lanes, self.lanes)

    def group(self, column: Value) -> None:
        """Compute all chunks of the depth for one group of columns."""
        k, b_row, b_column = self.k, self.k.number("b_row"), self.k.number("b_column")
        packed = self.spec.b == "packed"
        in_place = self.b + column * (k.number("depth") if packed else b_column)
        self.columns_from(column)
        for part in self.parts():
            b = in_place + part.begin * (self.row if packed else b_row)
            following = in_place + (part.begin + self.step) * (self.row if packed else b_row)
            if self.spec.b in ("columns", ""):
                count = part.end - part.begin
                copy_panel(k, self.spec.b, b, (b_row, b_column), self.panel, self.left, count, self.blocks)
                b = self.panel
            self.tiles_of(part, b, following, column, self.sums)

    def tiles_of(
        self, part: PartialSum, b: Pointer, following: Pointer, column: Value, sums_at: Pointer
    ) -> None:
        """Compute a chunk for a group of columns, whose sums are kept there. `following`: the next chunk's B."""
        k = self.k
        for (start, tile, width), source, panel in self.in_turn(b):
            kept = sums_at + tile * (self.spec.width * self.row)
            zero = k.constant(F32, 0.0, self.lanes)
            sums = [[k.variable(zero) for _ in range(self.blocks)] for _ in range(width)]
            every = [total for row in sums for total in row]
            part.resume(every, kept)
            rows = self.rows_of(start, tile, width, part.begin)
            self.multiply(sums, rows, source, panel, part.end - part.begin, self.ahead(following, tile))
            part.fold(every, kept, self.apart)
            with k.when(part.is_last):
                self.finish(sums, kept, start, column)

    def copy_run(self, part: PartialSum, first: Value, last: Value) -> Value:
        """Copy a chunk's rows of some groups of columns; returns the first column."""
        k, row = self.k, self.spec.blocks * self.lanes
        start, end = first * row, last * row
        if self.spec.mixed:
            wide, zero = k.number("wide_groups"), k.integer(0)
            start, end = (
                column - k.max_drop_nan(group - wide, zero) * self.lanes
                for column, group in ((start, first), (end, last))
            )
        end = k.min_drop_nan(end, k.number("columns"))
        x = self.b + (part.begin * k.number("b_row") + start)
        apart = panel_row(self.spec.blocks, self.lanes, self.spec.together)
        copy_wide_rows(k, x, k.number("b_row"), self.panel, apart, part.end - part.begin, end - start)
        return start

    def in_turn(self, b: Pointer) -> Iterator[tuple[tuple[Value, Value, int], Pointer, Pointer | None]]:
        """Yield the band's tiles, the address at which each reads B, and the panel to which it copies what it reads."""
        if self.spec.b != "rows":
            for place in self.tiles(self.first, self.last):
                yield place, b, None
            return
        second = self.first + 1
        for place in self.tiles(self.first, second):
            yield place, b, self.panel
        for place in self.tiles(second, self.last):
            yield place, self.panel, None

    def ahead(self, following: Pointer, tile: Value) -> tuple[Pointer, Value | int, int] | None:
        """Return the part of the next chunk's B that a tile prefetches: address, step, and cache lines per step."""
        steps = self.step // UNROLL
        if self.spec.b == "packed":
            return following + tile * (steps * AHEAD * LINE), AHEAD * LINE, AHEAD
        if self.spec.b not in ("rows", "runs", "direct"):
            return None
        b_row = self.k.number("b_row")
        return following + tile * steps * b_row, b_row, max(1, self.row // LINE)

    def copy_tile(self, start: Value, tile: Value, width: int) -> None:
        """Copy the rows of a tile, chunk by chunk."""
        k, depth = self.k, self.k.number("depth")
        to, step = self.copy_of(tile), self.spec.width * self.chunk
        rows = [self.a + (start + row) * k.number("a_row") for row in range(width)]
        for index in k.range(0, self.chunks):
            begin = index * self.chunk
            count = k.min_drop_nan(depth - begin, k.integer(self.chunk))
            if self.spec.a == "rows":
                copy_vectors(k, [row + begin for row in rows], to + index * step, self.chunk, count)
            else:
                rows_there = [row + begin * k.number("a_column") for row in rows]
                copy_elements(k, rows_there, to + index * step, self.chunk, count)

    def rows_of(self, start: Value, tile: Value, width: int, begin: Value) -> TileRows:
        """Rows of a tile from a step of the depth on."""
        k, spec = self.k, self.spec
        a_row, a_column = k.number("a_row"), k.number("a_column")
        if not spec.in_place:
            inside = begin % self.chunk
            place = self.copy_of(tile) + ((begin - inside) * spec.width + inside)
            return TileRows([k.cursor(place)], self.chunk)
        if spec.a == "rows":
            return TileRows([k.cursor(self.a + ((start + row) * a_row + begin)) for row in range(width)], 0)
        return TileRows([k.cursor(self.a + (begin * a_column + start))], 1, a_column)

    def multiply(
        self,
        sums: Sequence[Sequence[Variable]],
        rows: TileRows,
        b: Pointer,
        panel: Pointer | None,
        count: Value,
        ahead: tuple[Pointer, Value | int, int] | None,
    ) -> None:
        """Add a chunk's products. With `panel`, B is read in place and copied to the panel."""
        k, direct = self.k, self.spec.b == "direct" or panel is not None
        apart = self.row
        if self.spec.b == "runs":
            apart = panel_row(self.spec.blocks, self.lanes, self.spec.together)
        right, copy = k.cursor(b), None if panel is None else k.cursor(panel)
        coming = None if ahead is None else k.cursor(ahead[0])
        whole = count // UNROLL

        def steps(count: int) -> None:
            for index in range(count):
                vectors = self.vectors(right.at + (0 if direct else index * apart), direct)
                for row, totals in enumerate(sums):
                    spread = rows.spread(row, index, self.lanes)
                    for vector, total in zip(vectors, totals, strict=True):
                        total.value = k.fma(spread, vector, total.value)
                # Copied after the sums: before them, the vectors did not stay in registers.
                if copy is not None:
                    for block, vector in enumerate(vectors):
                        copy.at.store(vector, index * self.row + block * self.lanes)
                rows.step()
                if direct:
                    right.move(k.number("b_row"))
            rows.move(count)
            if not direct:
                right.move(count * apart)
            if copy is not None:
                copy.move(count * self.row)

        for _ in k.range(0, whole):
            if ahead is not None and coming is not None:
                for line in range(ahead[2]):
                    k.prefetch(coming.at, line * LINE, level=2)
                coming.move(ahead[1])
            steps(UNROLL)
        for _ in k.range(whole * UNROLL, count):
            steps(1)

    def vectors(self, b: Pointer, direct: bool) -> list[Value]:
        """Load a row of a group of B, masked where it is read in place."""
        masks = self.masks if direct else [None] * self.blocks
        return [b.load(at * self.lanes, self.lanes, mask).to(F32) for at, mask in enumerate(masks)]

    # ---- the result -------------------------------------------------------------------------------------------

    def finish(self, sums: Sequence[Sequence[Variable]], kept: Pointer, start: Value, column: Value) -> None:
        """Apply the activation after the last chunk and store to y.

        Long activations take the sums from scratch, some at a time: beside a tile there are no registers for them.
        """
        k, lanes, activation = self.k, self.lanes, self.spec.activation
        places = [(row, block) for row in range(len(sums)) for block in range(self.blocks)]

        if activation.is_long:
            for row, block in places:
                kept.store(sums[row][block].value, row * self.row + block * lanes)
        y, residual = self.y + column, self.residual + column
        y_row, r_row = k.number("y_row"), k.number("r_row")
        for part in in_parts(places, k.target) if activation.is_long else [places]:
            values = [
                kept.load(row * self.row + block * lanes, lanes)
                if activation.is_long
                else sums[row][block].value
                for row, block in part
            ]
            added = [
                self.added(value, block, residual + (start + row) * r_row)
                for value, (row, block) in zip(values, part, strict=True)
            ]
            if activation.is_long:
                added = activation.emit_together(k, added)
            else:
                added = [activation.emit(k, value) for value in added]
            for value, (row, block) in zip(added, part, strict=True):
                place = y + ((start + row) * y_row + block * lanes)
                if self.masks[block] is None or self.spec.clip > 1:
                    place.store(value.to(y.element), 0, self.masks[block])
                else:
                    k.store_first(value.to(y.element), place, self.left - block * lanes)

    def added(self, value: Value, block: int, residual: Pointer) -> Value:
        """Add bias and residual to a sum."""
        k, lanes, mask = self.k, self.lanes, self.masks[block]
        if self.spec.bias:
            value = value + self.bias.load(block * lanes, lanes, mask).to(F32)
        if self.spec.residual:
            extra = residual.load(block * lanes, lanes, mask).to(F32)
            value = k.fma(extra, k.splat(k.number("beta"), lanes), value)
        return value
