"""Winograd convolution, stride 1 or 2: a block of tiles goes through transform, products and back while it is in cache.

    item = block of `tiles` output tiles [, range of filters]          emitted
      for channel block, tile:                                         phase "input"
        d = window of the halo'd input; V[xi][channel block][tile] = B^T d B
      for bundle of groups of `blocks` filter vectors:                 phase "product"
        for xi (a * a products), group of the bundle:                  emitted
          for runs of up to `widest` tiles: M[xi][tile] = sum over channels of V[xi] * U[xi]    as in direct.py
        for group, tile, filter vector: y = activation(A^T M A + bias + residual), or the maxima of 2x2 of these

"fused" runs both phases per block of tiles, with V and M in the thread's scratch; "input" and "product" are two calls
with V between them: better where the weights are larger than V (small maps, many channels), for then items are ranges
of filters and the weights are read once.

A map that is no multiple of the tile ends in shorter tiles: F(2, 3) after F(4, 3), on some of its points, so that the
transformed weights are the same, and the products of the other points leave them out (14x14: 484 tile products instead
of 576). Tiles are sorted so that each product's lie together: last column, inner ones, last row, corner.

No size of the data is in the text. A tile's transforms are chosen by its own outputs down and across, one after the
other, so that four lengths (F(4, 3)) make eight pieces of code and not sixteen pairs; the products have code for every
number of tiles in registers, and a count of tiles is cut into runs that differ by one.

With `pool` the map's extents are even (an odd map's last row or column is in no window), so tiles start on even rows
and columns, and the output transform keeps the largest of every 2x2: a quarter of the stores, no step for the pool.

The structure follows Z. Jia, A. Zlateski, F. Durand, K. Li, "Optimizing N-dimensional, Winograd-based convolution for
manycore CPUs" (PPoPP 2018); the transforms are those of `transforms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named
from cenote.kernels.elementwise.activations import Activation, activated
from cenote.kernels.winograd.places import MapOfResults, Pixels, TilesOfKind
from cenote.kernels.winograd.products import Products
from cenote.kernels.winograd.transforms import Filtering, apply_input, apply_output, filtering, shortened

NUMBERS = split_words(
    "channels channel_blocks filter_blocks groups group_share group_parts bundle",
    "tiles block rows columns columns_end inner_end rows_end last_v last_h",
    "x_n x_block x_h y_n y_block y_h r_n r_block r_h",
    "v_xi v_block v_item m_xi m_group u_xi table_bytes temporary_bytes v_bytes",
    # Runs of tiles, at most, that prefetch the next weights.
    "ahead",
)
WORDS = (
    *float_pointers(("x", "u", "bias", "residual", "y", "v"), ("residual", "y")),
    *numbers_named(NUMBERS),
)
APART = "columns_apart"  # dilation along rows, or the step from column to column of a spread y
PHASE_NUMBERS = split_words(
    # Sets of every d-th row and column that are maps of their own; steps from row to next row.
    "row_phases column_phases x_next_row y_next_row r_next_row",
)
TABLE = 3  # words per tile: offset in x, offset in y, offset in r
KINDS = 4  # of tiles, in their order: last in their row, inner ones, last in their column, both


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """Kernel of F(mv, rv) down and F(mh, rh) across; `blocks` filter vectors in registers, by as many tiles as fit.

    The words `last_v`, `last_h` are the outputs of the last tile of a column, of a row, if fewer; else 0. `dilated`: a
    map is every d-th row and column of an image, which has several. `spread`: y is, but x is not.
    """

    phase: str
    mv: int
    rv: int
    mh: int
    rh: int
    blocks: int
    ragged: bool
    residual: bool
    activation: Activation
    pool: bool = False
    strides: tuple[int, int] = (1, 1)
    dilated: bool = False
    spread: bool = False

    @property
    def step(self) -> int:
        """Number of elements of the convolution per element of y, along either axis."""
        return 2 if self.pool else 1

    @property
    def vertical(self) -> Filtering:
        return filtering(self.mv, self.rv, self.strides[0])

    @property
    def horizontal(self) -> Filtering:
        return filtering(self.mh, self.rh, self.strides[1])

    @property
    def products(self) -> int:
        """Number of matrix products per block: elements of a transformed tile."""
        return self.vertical.a * self.horizontal.a

    @property
    def words(self) -> tuple[Parameter, ...]:
        apart = (APART,) if self.dilated or self.spread else ()
        return (*WORDS, *numbers_named((*apart, *(PHASE_NUMBERS if self.dilated else ()))))

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        WinogradEmitter(self, kernel, target).run()
        return kernel


class WinogradEmitter:
    """Emitter of one kernel. `word`: the type of V, M and the squares between transforms, in memory."""

    word = F32

    def __init__(self, spec: WinogradSpec, k: Kernel, target: Target) -> None:
        self.spec, self.k, self.lanes = spec, k, target.lanes()
        # From element to element of a row: of x, and of y and the residual.
        apart: Value | int = k.number(APART) * self.lanes if spec.dilated or spec.spread else self.lanes
        self.x_pitch, self.pitch = self.lanes if spec.spread else apart, apart
        self.table = k.scratch.cast(I64)
        self.temporary = (k.scratch + k.number("table_bytes")).cast(self.word)
        after = k.scratch + (k.number("table_bytes") + k.number("temporary_bytes"))
        self.v = after.cast(self.word) if spec.phase == "fused" else k.pointer("v")
        self.m = (after + k.number("v_bytes")).cast(self.word)

    def run(self) -> None:
        k, spec = self.k, self.spec
        parts = k.number("group_parts")
        for item in k.range(k.begin, k.end):
            block, part = item // parts, item % parts
            self.enter(block)
            v = self.v if spec.phase == "fused" else self.v + block * k.number("v_item")
            if spec.phase == "input":
                share = k.number("group_share")
                self.input(v, part * share, k.min_drop_nan(part * share + share, k.number("channel_blocks")))
                continue
            if spec.phase == "fused":
                self.input(v, k.integer(0), k.number("channel_blocks"))
            begin = part * k.number("group_share")
            end = k.min_drop_nan(begin + k.number("group_share"), k.number("groups"))
            for first_group in k.range(begin, end, k.number("bundle")):
                last_group = k.min_drop_nan(first_group + k.number("bundle"), end)
                self.products().emit(v, self.m, first_group, last_group)
                for group in k.range(first_group, last_group):
                    self.output(group, self.m + (group - first_group) * k.number("m_group"))

    def enter(self, block: Value) -> None:
        """Emit what is done first in a block: find its tiles."""
        k = self.k
        first = block * k.number("block")
        self.count = k.min_drop_nan(k.number("block"), k.number("tiles") - first)
        self.sort(first)
        self.locate(first)

    def products(self) -> Products:
        """Return the emitter of the products of a block of tiles."""
        spec = self.spec
        return Products(self.k, self.lanes, spec.blocks, spec.vertical, spec.horizontal, self.ends)

    # ---- where the tiles are ----------------------------------------------------------------------------------

    def sort(self, first: Value) -> None:
        """Compute where each kind of tile begins and ends in the block."""
        k = self.k
        self.ends = [k.integer(0)]
        for name in ("columns_end", "inner_end", "rows_end"):
            left = k.number(name) - first
            self.ends.append(k.select(left < 0, k.integer(0), k.min_drop_nan(left, self.count)))
        self.ends.append(self.count)

    def pick(self, kind: Value, values: Sequence[Value]) -> Value:
        """Return the value that belongs to a kind of tiles."""
        chosen = values[-1]
        for index in reversed(range(KINDS - 1)):
            chosen = self.k.select(kind.equals(index), values[index], chosen)
        return chosen

    def kinds(self) -> Iterator[tuple[Value, TilesOfKind]]:
        """Emit a loop over the kinds of tiles."""
        k, spec = self.k, self.spec
        for kind in k.range(0, KINDS):
            last_row, last_column = kind >= 2, kind.equals(0) | kind.equals(3)
            yield (
                kind,
                TilesOfKind(
                    self.pick(kind, self.ends[:-1]),
                    self.pick(kind, self.ends[1:]),
                    last_row,
                    last_column,
                    k.select(last_row, k.number("last_v"), k.integer(spec.mv)),
                    k.select(last_column, k.number("last_h"), k.integer(spec.mh)),
                ),
            )

    def locate(self, first: Value) -> None:
        """Fill the table of the tiles' offsets."""
        k, spec = self.k, self.spec
        rows, columns, one = k.number("rows"), k.number("columns"), k.integer(1)
        before = [k.integer(0), *(k.number(name) for name in ("columns_end", "inner_end", "rows_end"))]
        for kind, tiles in self.kinds():
            across = k.select(tiles.is_last_column, one, columns)
            per_image = k.select(tiles.is_last_row, one, rows) * across
            skipped = self.pick(kind, before)
            for index in k.range(tiles.begin, tiles.end):
                tile = first + index - skipped
                n, rest = tile // per_image, tile % per_image
                top = k.select(tiles.is_last_row, rows, rest // across) * spec.mv
                left = k.select(tiles.is_last_column, columns, rest % across) * spec.mh
                inputs = [place * stride for place, stride in zip((top, left), spec.strides, strict=True)]
                for offset, side in enumerate("xyr"):
                    row, column = inputs if side == "x" else (top // spec.step, left // spec.step)
                    pitch = self.x_pitch if side == "x" else self.pitch
                    place = self.map_at(n, side) + row * k.number(f"{side}_h") + column * pitch
                    self.table.store(place, index * TABLE + offset)

    def map_at(self, index: Value, side: str) -> Value:
        """Place of a map in x, y or the residual."""
        if not self.spec.dilated:
            return self.image_at(index, side)
        columns, rows = self.k.number("column_phases"), self.k.number("row_phases")
        row = index // columns
        inside = row % rows * self.k.number(f"{side}_next_row") + index % columns * self.lanes
        return self.image_at(row // rows, side) + inside

    def image_at(self, index: Value, side: str) -> Value:
        return index * self.k.number(f"{side}_n")

    # ---- transforms -------------------------------------------------------------------------------------------

    def lengths(self, outputs: Value, full: Filtering) -> Iterator[Filtering]:
        """Yield every filtering that a tile may have along an axis, each emitted for tiles of so many outputs."""
        with self.k.when(outputs.equals(full.m)):
            yield full
        shorter = range(full.m - self.spec.step, 0, -self.spec.step)
        if shorter:
            with self.k.when(outputs < full.m):
                for m in shorter:
                    with self.k.when(outputs.equals(m)):
                        yield shortened(full, m)

    def place(self, index: Value, count: Value, full: Filtering) -> Value:
        """Place of a point's product among those of the full filtering: the same, but infinity is always the last."""
        return self.k.select(index.equals(count - 1), self.k.integer(full.a - 1), index)

    def input(self, v: Pointer, begin: Value, end: Value) -> None:
        """Compute V of the channel blocks begin..end."""
        k, lanes = self.k, self.lanes
        self.x_rows = [k.number("x_h") * i for i in range(self.spec.vertical.a)]
        self.v_columns = [k.number("v_xi") * j for j in range(self.spec.horizontal.a)]
        for block in k.range(begin, end):
            for source, to in self.inputs(self.source(block), v + block * k.number("v_block")):
                for _, tiles in self.kinds():
                    for index in k.range(tiles.begin, tiles.end):
                        x = source + self.table.load(index * TABLE)
                        self.input_tile(x, to + index * lanes, tiles.down, tiles.across)

    def inputs(self, source: Pixels, v: Pointer) -> Iterator[tuple[Pixels, Pointer]]:
        """Emit a loop over the maps of a block of channels; yield each one's places in x and in V."""
        yield source, v

    def source(self, block: Value) -> Pixels:
        """Return where the block's channels begin in x."""
        k = self.k
        self.mask = (
            k.tail_mask(k.number("channels") - block * self.lanes, self.lanes) if self.spec.ragged else None
        )
        return Pixels([k.pointer("x") + block * k.number("x_block")])

    def loaded(self, source: Pixels) -> Value:
        """Load one pixel of a block's channels, as the transforms take it."""
        (place,) = source.places
        value = place.load(0, self.lanes)
        if self.mask is None:
            return value
        return self.k.select(self.mask, value, self.k.constant(F32, 0.0, self.lanes))

    def as_words(self, value: Value) -> Value:
        """Return a transformed value as it is stored."""
        return value

    def of_words(self, value: Value) -> Value:
        """Return the value that `as_words` has turned into this."""
        return value

    def input_tile(self, x: Pixels, to: Pointer, down: Value, across: Value) -> None:
        """Transform one tile of one channel block: down the columns into a small square, then along its rows."""
        k, full_v, full_h = self.k, self.spec.vertical, self.spec.horizontal
        rows, columns = full_v.samples(down), full_h.samples(across)

        def along(f: Filtering, d: Sequence[Value], row: Pointer) -> None:
            for j, value in enumerate(d if f.is_trivial else apply_input(k, f, d)):
                row.store(self.as_words(value), self.v_columns[_place(j, f, full_h)])

        if full_v.is_trivial:
            for f in self.lengths(across, full_h):
                along(f, [self.loaded(x + self.x_pitch * j) for j in range(f.a)], to)
            return
        for f in self.lengths(down, full_v):
            for j in k.range(0, columns):
                column = x + j * self.x_pitch
                values = apply_input(k, f, [self.loaded(column + self.x_rows[i]) for i in range(f.a)])
                self.store_column(j, [self.as_words(value) for value in values])
        for f in self.lengths(across, full_h):
            for i in k.range(0, rows):
                row = to + k.number("v_xi") * (self.place(i, rows, full_v) * full_h.a)
                along(f, [self.of_words(value) for value in self.square_row(i, f)], row)

    def store_column(self, j: Value, values: Sequence[Value]) -> None:
        """Store a column of the square between the two transforms of a tile."""
        for i, value in enumerate(values):
            self.temporary.store(value, j * self.lanes + i * self.spec.horizontal.a * self.lanes)

    def square_row(self, i: Value, f: Filtering) -> list[Value]:
        row = self.temporary + i * (self.spec.horizontal.a * self.lanes)
        return [row.load(j * self.lanes, self.lanes) for j in range(f.a)]

    def output(self, group: Value, products: Pointer) -> None:
        """Compute y of the group's filter vectors, tile by tile."""
        k, lanes, spec = self.k, self.lanes, self.spec
        self.m_rows = [k.number("m_xi") * (i * spec.horizontal.a) for i in range(spec.vertical.a)]
        left = k.number("filter_blocks") - group * spec.blocks
        blocks = k.min_drop_nan(k.integer(spec.blocks), left)
        for places in self.outputs(products):
            for _, tiles in self.kinds():
                for index in k.range(tiles.begin, tiles.end):
                    for o in k.range(0, blocks):
                        block = group * spec.blocks + o
                        m = places.m + (index * (spec.blocks * lanes) + o * lanes)
                        self.y = places.y + (self.table.load(index * TABLE + 1) + block * k.number("y_block"))
                        self.r = places.r + (self.table.load(index * TABLE + 2) + block * k.number("r_block"))
                        self.output_tile(m, block, tiles.down, tiles.across)

    def outputs(self, m: Pointer) -> Iterator[MapOfResults]:
        """Emit a loop over the maps of results."""
        yield MapOfResults(m, self.k.pointer("y"), self.k.pointer("residual"))

    def output_tile(self, m: Pointer, block: Value, down: Value, across: Value) -> None:
        k, lanes, spec = self.k, self.lanes, self.spec
        full_v, full_h = spec.vertical, spec.horizontal
        self.bias = k.pointer("bias").load(block * lanes, lanes)
        columns = full_h.samples(across)
        if full_v.is_trivial:
            for f in self.lengths(across, full_h):
                places = [k.number("m_xi") * _place(j, f, full_h) for j in range(f.a)]
                self.finish_row(k.integer(0), f, [[m.load(place, lanes) for place in places]])
            return
        for f in self.lengths(down, full_v):
            for j in k.range(0, columns):
                column = m + k.number("m_xi") * self.place(j, columns, full_h)
                d = [column.load(self.m_rows[_place(i, f, full_v)], lanes) for i in range(f.a)]
                self.store_column(j, apply_output(k, f, d))
        for f in self.lengths(across, full_h):
            for i in k.range(0, down // spec.step):
                self.finish_row(i, f, [self.square_row(i * spec.step + s, f) for s in range(spec.step)])

    def finish_row(self, i: Value, f: Filtering, rows: Sequence[Sequence[Value]]) -> None:
        """Finish row i of the tile's part of y, from one row of the square; from two where their maxima are taken."""
        k, spec = self.k, self.spec
        results: list[list[Value]] = []
        # Activations that never decrease may be applied after the maximum, where there are fewer values.
        late = not spec.pool or spec.activation.never_decreases
        for d in rows:
            values = list(d) if f.is_trivial else apply_output(k, f, d)
            if not late:
                values = self.finish(values, i)
            results.append(list(map(k.maximum, values[::2], values[1::2])) if spec.pool else values)
        final = list(map(k.maximum, *results)) if spec.pool else results[0]
        self.store_row(self.y + k.number("y_h") * i, self.finish(final, i) if late else final)

    def store_row(self, row: Pointer, values: Sequence[Value]) -> None:
        """Store values of neighbouring pixels, as `finish` returns them."""
        for j, value in enumerate(values):
            row.store(value, self.pitch * j)

    def finish(self, values: Sequence[Value], i: Value) -> list[Value]:
        k, spec = self.k, self.spec
        totals = [value + self.bias for value in values]
        if spec.residual:
            row = self.r + k.number("r_h") * i
            totals = [total + row.load(self.pitch * j, self.lanes) for j, total in enumerate(totals)]
        return activated(k, spec.activation, totals)


def _place(index: int, f: Filtering, full: Filtering) -> int:
    """Return `WinogradEmitter.place` of an index that is known."""
    return full.a - 1 if index == f.a - 1 else index
