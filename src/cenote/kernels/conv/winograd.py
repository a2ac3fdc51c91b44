"""Winograd convolution, stride 1: a block of tiles goes through transform, products and back while it is in cache.

    item = block of `tiles` output tiles [, range of filters]          emitted
      for channel block, tile:                                         phase "input"
        d = window of the halo'd input; V[xi][channel block][tile] = B^T d B
      for bundle of groups of `blocks` filter vectors:                 phase "product"
        for xi (a * a products), group of the bundle:                  emitted
          for `width` or `width - 1` tiles: M[xi][tile] = sum over channels of V[xi] * U[xi]    as in direct.py
        for group, tile, filter vector: y = activation(A^T M A + bias + residual), or the maxima of 2x2 of these

"fused" runs both phases per block of tiles, with V and M in the thread's scratch; "input" and "product" are two calls
with V between them: better where the weights are larger than V (small maps, many channels), for then items are ranges
of filters and the weights are read once.

A map that is no multiple of the tile ends in shorter tiles: F(2, 3) after F(4, 3), on some of its points, so that the
transformed weights are the same, and the products of the other points leave them out (14x14: 484 tile products instead
of 576). Tiles are sorted so that each product's lie together: last column, inner ones, last row, corner.

With `pool` the map's extents are even (an odd map's last row or column is in no window), so tiles start on even rows
and columns, and the output transform keeps the largest of every 2x2: a quarter of the stores, no step for the pool.

The structure follows Z. Jia, A. Zlateski, F. Durand, K. Li, "Optimizing N-dimensional, Winograd-based convolution for
manycore CPUs" (PPoPP 2018); the transforms are those of winograd_transforms.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cenote.codegen.builder import Kernel, Parameter, Variable
from cenote.codegen.values import F32, I64, Pointer, Value
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named
from cenote.kernels.conv.winograd_transforms import Filtering, apply_input, apply_output, filtering, shortened
from cenote.kernels.elementwise.activations import Activation, activated

NUMBERS = (
    "channels", "channel_blocks", "filter_blocks", "groups", "group_share", "group_parts", "bundle",
    "tiles", "block", "rows", "columns", "columns_end", "inner_end", "rows_end",
    "x_n", "x_block", "x_h", "y_n", "y_block", "y_h", "r_n", "r_block", "r_h",
    "v_xi", "v_block", "v_item", "m_xi", "m_group", "u_xi", "table_bytes", "temporary_bytes", "v_bytes",
)  # fmt: skip
WORDS = (
    *float_pointers(("x", "u", "bias", "residual", "y", "v"), ("residual", "y")),
    *numbers_named(NUMBERS),
)
LINE = 16  # floats of a cache line
TABLE = 3  # words per tile: offset in x, offset in y, offset in r


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """F(mv, rv) down and F(mh, rh) across; `blocks` filter vectors by `width` tiles in registers.

    `last_v`, `last_h`: outputs of the last tile of a column, of a row, if fewer; else 0.

    `ahead`: cache lines of the next product's weights that are asked for per step of a tile's sums (a channel block):
    they come from memory while this product's are in use. 20 % less time for 512 channels at 14x14.
    """

    phase: str
    mv: int
    rv: int
    mh: int
    rh: int
    blocks: int
    width: int
    ragged: bool
    residual: bool
    activation: Activation
    pool: bool = False
    ahead: int = 0
    last_v: int = 0
    last_h: int = 0

    @property
    def step(self) -> int:
        """Elements of the convolution per element of y, along either axis."""
        return 2 if self.pool else 1

    @property
    def vertical(self) -> Filtering:
        return filtering(self.mv, self.rv)

    @property
    def horizontal(self) -> Filtering:
        return filtering(self.mh, self.rh)

    @property
    def products(self) -> int:
        """Matrix products per block: elements of a transformed tile."""
        return self.vertical.a * self.horizontal.a

    @property
    def kinds(self) -> list[tuple[bool, bool]]:
        """Kinds of tiles in their order: whether they are last in their column, in their row."""
        wanted = ((False, True), (False, False), (True, False), (True, True))
        return [(v, h) for v, h in wanted if (self.last_v or not v) and (self.last_h or not h)]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return WORDS

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


@dataclass(frozen=True)
class _Tiles:
    """Tiles of one kind in a block: from `begin` to `end`, with their filterings and where those products lie."""

    begin: Value
    end: Value
    down: Filtering
    across: Filtering


class _Emitter:
    def __init__(self, spec: WinogradSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.table = k.scratch.cast(I64)
        self.temporary = (k.scratch + k.number("table_bytes")).cast(F32)
        after = k.scratch + (k.number("table_bytes") + k.number("temporary_bytes"))
        self.v = after.cast(F32) if spec.phase == "fused" else k.pointer("v")
        self.m = (after + k.number("v_bytes")).cast(F32)

    def run(self) -> None:
        k, spec = self.k, self.spec
        parts = k.number("group_parts")
        for item in k.range(k.begin, k.end):
            block, part = item // parts, item % parts
            first = block * k.number("block")
            count = k.min_drop_nan(k.number("block"), k.number("tiles") - first)
            self.sort(first, count)
            self.locate(first)
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
                self.products(v, first_group, last_group, count)
                for group in k.range(first_group, last_group):
                    self.output(group, self.m + (group - first_group) * k.number("m_group"))

    # ---- where the tiles are ----------------------------------------------------------------------------------

    def sort(self, first: Value, count: Value) -> None:
        """Where each kind of tile begins and ends in the block."""
        k, spec = self.k, self.spec
        ends = []
        for name in ("columns_end", "inner_end", "rows_end"):
            left = k.number(name) - first
            ends.append(k.select(left < 0, k.integer(0), k.min_drop_nan(left, count)))
        self.columns_end, self.inner_end, self.rows_end = ends
        limits = {
            (False, True): (k.integer(0), self.columns_end),
            (False, False): (self.columns_end, self.inner_end),
            (True, False): (self.inner_end, self.rows_end),
            (True, True): (self.rows_end, count),
        }
        self.kinds = {
            (v, h): _Tiles(
                *limits[v, h],
                shortened(spec.vertical, spec.last_v) if v else spec.vertical,
                shortened(spec.horizontal, spec.last_h) if h else spec.horizontal,
            )
            for v, h in spec.kinds
        }

    def locate(self, first: Value) -> None:
        """Fill the table: per tile its offsets."""
        k, spec = self.k, self.spec
        rows, columns, zero = k.number("rows"), k.number("columns"), k.integer(0)
        before = {
            (False, True): zero,
            (False, False): k.number("columns_end"),
            (True, False): k.number("inner_end"),
            (True, True): k.number("rows_end"),
        }
        for (v, h), tiles in self.kinds.items():
            across = k.integer(1) if h else columns
            per_image = across if v else rows * across
            for index in k.range(tiles.begin, tiles.end):
                tile = first + index - before[v, h]
                n, rest = tile // per_image, tile % per_image
                top = (rows if v else rest // across) * spec.mv
                left = (columns if h else rest % across) * spec.mh
                for offset, side in enumerate("xyr"):
                    row, column = (top, left) if side == "x" else (top // spec.step, left // spec.step)
                    place = n * k.number(f"{side}_n") + row * k.number(f"{side}_h") + column * self.lanes
                    self.table.store(place, index * TABLE + offset)

    # ---- transforms -------------------------------------------------------------------------------------------

    def input(self, v: Pointer, begin: Value, end: Value) -> None:
        """V of the channel blocks begin..end."""
        k, lanes = self.k, self.lanes
        for block in k.range(begin, end):
            mask = k.tail_mask(k.number("channels") - block * lanes, lanes) if self.spec.ragged else None
            for tiles in self.kinds.values():
                for index in k.range(tiles.begin, tiles.end):
                    x = k.pointer("x") + (self.table.load(index * TABLE) + block * k.number("x_block"))
                    to = v + (block * k.number("v_block") + index * lanes)
                    self.input_tile(x, to, mask, tiles.down, tiles.across)

    def input_tile(
        self, x: Pointer, to: Pointer, mask: Value | None, down: Filtering, across: Filtering
    ) -> None:
        """One tile of one channel block: down the columns into a small square, then along its rows."""
        k, lanes, spec = self.k, self.lanes, self.spec

        def load(i: int, j: Value | int) -> Value:
            value = x.load(k.number("x_h") * i + j * lanes, lanes)
            return value if mask is None else k.select(mask, value, k.constant(F32, 0.0, lanes))

        def store(i: Value | int, results: Sequence[Value]) -> None:
            row = self.place(i, down, spec.vertical) * spec.horizontal.a
            for j, value in enumerate(results):
                column = self.place(j, across, spec.horizontal)
                to.store(value, k.number("v_xi") * row + k.number("v_xi") * column)

        self.down_then_across(
            load, down.a, across.a,
            lambda d: apply_input(k, down, d), lambda d: apply_input(k, across, d), down.a, store,
        )  # fmt: skip

    def place(self, index: Value | int, f: Filtering, full: Filtering) -> Value | int:
        """Where a point's product is among the full filtering's: the same, but infinity is always the last."""
        if f.a == full.a:
            return index
        if isinstance(index, int):
            return full.a - 1 if index == f.a - 1 else index
        return self.k.select(index.equals(f.a - 1), self.k.integer(full.a - 1), index)

    def down_then_across(
        self,
        load: Callable[[int, Value | int], Value],
        rows_in: int,
        columns: int,
        down: Callable[[Sequence[Value]], list[Value]],
        across: Callable[[Sequence[Value]], list[Value]],
        rows_out: int,
        store: Callable[[Value | int, Sequence[Value]], None],
        step: int = 1,
    ) -> None:
        """A separable transform: through a square in scratch, or along the one row there is.

        `store` gets the results of `step` rows at once; `rows_out` counts these.
        """
        k, lanes = self.k, self.lanes
        if rows_in == 1:
            store(0, across([load(0, j) for j in range(columns)]))
            return
        for j in k.range(0, columns):
            for i, value in enumerate(down([load(i, j) for i in range(rows_in)])):
                self.temporary.store(value, j * lanes + i * columns * lanes)
        for row in k.range(0, rows_out):
            if columns == 1:
                store(row, [self.temporary.load(row * lanes, lanes)])
            else:
                results: list[Value] = []
                for i in range(step):
                    square = self.temporary + (row * (step * columns * lanes) + i * columns * lanes)
                    results += across([square.load(j * lanes, lanes) for j in range(columns)])
                store(row, results)

    def output(self, group: Value, products: Pointer) -> None:
        """y of the group's filter vectors, tile by tile."""
        k, lanes, spec = self.k, self.lanes, self.spec
        left = k.number("filter_blocks") - group * spec.blocks
        for tiles in self.kinds.values():
            for index in k.range(tiles.begin, tiles.end):
                for o in k.range(0, k.min_drop_nan(k.integer(spec.blocks), left)):
                    block = group * spec.blocks + o
                    m = products + (index * (spec.blocks * lanes) + o * lanes)
                    self.output_tile(m, index, block, tiles.down, tiles.across)

    def output_tile(self, m: Pointer, index: Value, block: Value, down: Filtering, across: Filtering) -> None:
        k, lanes, spec = self.k, self.lanes, self.spec
        y = k.pointer("y") + (self.table.load(index * TABLE + 1) + block * k.number("y_block"))
        r = k.pointer("residual") + (self.table.load(index * TABLE + 2) + block * k.number("r_block"))
        bias = k.pointer("bias").load(block * lanes, lanes)
        step = k.number("m_xi")

        def load(i: int, j: Value | int) -> Value:
            row = self.place(i, down, spec.vertical) * spec.horizontal.a
            return m.load(step * row + step * self.place(j, across, spec.horizontal), lanes)

        def finish(values: Sequence[Value], i: Value | int) -> list[Value]:
            totals = [value + bias for value in values]
            if spec.residual:
                row = r + k.number("r_h") * i
                totals = [total + row.load(j * lanes, lanes) for j, total in enumerate(totals)]
            return activated(k, spec.activation, totals)

        # A maximum is the same before and after what never decreases, and there are fewer after it.
        late = not spec.pool or spec.activation.never_decreases

        def along(d: Sequence[Value]) -> list[Value]:
            values = apply_output(k, across, d)
            if not late:
                values = finish(values, 0)
            return list(map(k.maximum, values[::2], values[1::2])) if spec.pool else values

        def store(i: Value | int, results: Sequence[Value]) -> None:
            if spec.pool:
                half = len(results) // 2
                results = list(map(k.maximum, results[:half], results[half:]))
            for j, value in enumerate(finish(results, i) if late else results):
                y.store(value, k.number("y_h") * i + j * lanes)

        self.down_then_across(
            load, down.a, across.a, lambda d: apply_output(k, down, d), along, down.m // spec.step, store,
            spec.step,
        )  # fmt: skip

    # ---- products ---------------------------------------------------------------------------------------------

    def products(self, v: Pointer, begin: Value, end: Value, count: Value) -> None:
        """M[group][xi] = V[xi] U[group][xi] for all xi and the groups begin..end, which share V[xi] while it is near.

        Tiles past those that a product is for are computed from whatever V holds there.
        """
        k, spec = self.k, self.spec
        panel, groups = k.number("u_xi"), end - begin
        to_next_group = panel * spec.products
        to_next_product = panel - (groups - 1) * to_next_group
        for xi in k.range(0, spec.products):
            start, stop = self.involved(xi, count)
            source = v + xi * k.number("v_xi")
            passes = (stop - start + (spec.width - 1)) // spec.width
            narrow = k.min_drop_nan(passes, passes * spec.width - (stop - start))
            wide = passes - narrow if spec.width > 1 else passes
            for index in k.range(0, groups):
                weights = k.pointer("u") + ((begin + index) * spec.products + xi) * panel
                to = self.m + (index * k.number("m_group") + xi * k.number("m_xi"))
                ahead = k.variable(k.select((index + 1) < groups, to_next_group, to_next_product))
                for tile in k.range(0, wide):
                    self.product(source, to, weights, start + tile * spec.width, spec.width, ahead)
                if spec.width > 1:
                    for tile in k.range(0, narrow):
                        first = start + wide * spec.width + tile * (spec.width - 1)
                        self.product(source, to, weights, first, spec.width - 1, ahead)

    def involved(self, xi: Value, count: Value) -> tuple[Value, Value]:
        """The tiles that have the product xi: short ones lack some points."""
        k, spec, zero = self.k, self.spec, self.k.integer(0)
        start, stop = zero, count
        if spec.last_h:
            short = shortened(spec.horizontal, spec.last_h)
            has_all = self.is_point(xi % spec.horizontal.a, short, spec.horizontal)
            start = k.select(has_all, zero, self.columns_end)
            stop = k.select(has_all, count, self.rows_end)
        if spec.last_v:
            short = shortened(spec.vertical, spec.last_v)
            has_all = self.is_point(xi // spec.horizontal.a, short, spec.vertical)
            stop = k.select(has_all, stop, self.inner_end)
        return start, stop

    def is_point(self, index: Value, f: Filtering, full: Filtering) -> Value:
        """Whether a shorter filtering has the point."""
        k = self.k
        one, zero = k.integer(1), k.integer(0)
        found = k.select(index.equals(full.a - 1), one, k.select(index < (f.a - 1), one, zero))
        return found.differs(0)

    def product(
        self, v: Pointer, m: Pointer, weights: Pointer, tile: Value, width: int, ahead: Variable
    ) -> None:
        k, lanes, blocks = self.k, self.lanes, self.spec.blocks
        row = blocks * lanes
        zero = k.constant(F32, 0.0, lanes)
        sums: list[list[Variable]] = [[k.variable(zero) for _ in range(blocks)] for _ in range(width)]
        source = v + tile * lanes
        for block in k.range(0, k.number("channel_blocks")):
            here, factors = source + block * k.number("v_block"), weights + block * (lanes * row)
            if self.spec.ahead:
                soon = ahead.value
                for line in range(self.spec.ahead):
                    k.prefetch(weights, soon + line * LINE)
                ahead.value = soon + self.spec.ahead * LINE
            for channel in range(lanes):
                vectors = [factors.load(channel * row + o * lanes, lanes) for o in range(blocks)]
                for i in range(width):
                    spread = here.broadcast(i * lanes + channel, lanes)
                    for o in range(blocks):
                        sums[i][o].value = k.fma(spread, vectors[o], sums[i][o].value)
        for i in range(width):
            for o in range(blocks):
                m.store(sums[i][o].value, (tile + i) * row + o * lanes)
