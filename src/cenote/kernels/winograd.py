"""Winograd convolution, stride 1: a block of tiles goes through transform, products and back while it is in cache.

    item = block of `tiles` output tiles [, range of filters]          emitted
      for channel block, tile:                                         phase "input"
        d = window of the halo'd input; V[xi][channel block][tile] = B^T d B
      for bundle of groups of `blocks` filter vectors:                 phase "product"
        for xi (a * a products), group of the bundle:                  emitted
          for `width` or `width - 1` tiles: M[xi][tile] = sum over channels of V[xi] * U[xi]    as in conv_direct
        for group, tile, filter vector: y = activation(A^T M A + bias + residual), or the maxima of 2x2 of these

"fused" runs both phases per block of tiles, with V and M in the thread's scratch; "input" and "product" are two calls
with V between them: better where the weights are larger than V (small maps, many channels), for then items are ranges
of filters and the weights are read once. A map that is no multiple of the tile has last tiles that overlap the ones
before: nothing outside the map is read, and what was already written is not written again.

With `pool` the map's extents are even (an odd map's last row or column is in no window), so tiles start on even rows
and columns, and the output transform keeps the largest of every 2x2: a quarter of the stores, no step for the pool.

The structure follows Z. Jia, A. Zlateski, F. Durand, K. Li, "Optimizing N-dimensional, Winograd-based convolution for
manycore CPUs" (PPoPP 2018); the transforms are those of toom_cook.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cenote.codegen.builder import Kernel, Parameter, Variable
from cenote.codegen.values import F32, I64, Pointer, Value
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.epilogue import Activation
from cenote.kernels.toom_cook import Filtering, apply_input, apply_output, filtering

NUMBERS = (
    "channels", "channel_blocks", "filter_blocks", "groups", "group_share", "group_parts",
    "tiles", "block", "map_tiles", "row_tiles", "wide", "narrow", "wide_last", "narrow_last",
    "out_h", "out_w", "x_n", "x_block", "x_h", "y_n", "y_block", "y_h", "r_n", "r_block", "r_h",
    "v_xi", "v_block", "v_item", "m_xi", "m_group", "u_xi", "bundle", "table_bytes", "temporary_bytes", "v_bytes",
)  # fmt: skip
LINE = 16  # floats of a cache line
TABLE = 4  # words per tile: offset in x, offset in y, offset in r, rows * 256 + columns already written


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """F(mv, rv) down and F(mh, rh) across; `blocks` filter vectors by `width` tiles in registers.

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

    def emit(self, target: Target) -> Kernel:
        pointers = ("x", "u", "bias", "residual", "y", "v")
        aliases = ("residual", "y")
        parameters = [Parameter(name, F32, pointer=True, may_alias=name in aliases) for name in pointers]
        parameters += [Parameter(name) for name in NUMBERS]
        kernel = Kernel(self.symbol, target, parameters)
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


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
            count = _smaller(k, k.number("block"), k.number("tiles") - first)
            self.locate(first, count)
            v = self.v if spec.phase == "fused" else self.v + block * k.number("v_item")
            if spec.phase == "input":
                share = k.number("group_share")
                self.input(
                    v, count, part * share, _smaller(k, part * share + share, k.number("channel_blocks"))
                )
                continue
            if spec.phase == "fused":
                self.input(v, count, k.integer(0), k.number("channel_blocks"))
            begin = part * k.number("group_share")
            is_last = (first + k.number("block")) > k.number("tiles")
            wide = k.select(is_last, k.number("wide_last"), k.number("wide"))
            narrow = k.select(is_last, k.number("narrow_last"), k.number("narrow"))
            end = _smaller(k, begin + k.number("group_share"), k.number("groups"))
            for first_group in k.range(begin, end, k.number("bundle")):
                last_group = _smaller(k, first_group + k.number("bundle"), end)
                self.products(v, first_group, last_group, wide, narrow)
                for group in k.range(first_group, last_group):
                    self.output(group, self.m + (group - first_group) * k.number("m_group"), count)

    # ---- where the tiles are ----------------------------------------------------------------------------------

    def locate(self, first: Value, count: Value) -> None:
        """Fill the table: per tile its offsets, and how much of it the tile before has written."""
        k, spec = self.k, self.spec
        for index in k.range(0, count):
            tile = first + index
            n, rest = tile // k.number("map_tiles"), tile % k.number("map_tiles")
            h, w = (rest // k.number("row_tiles")) * spec.mv, (rest % k.number("row_tiles")) * spec.mh
            top = _smaller(k, h, k.number("out_h") - spec.mv)
            left = _smaller(k, w, k.number("out_w") - spec.mh)
            slot = index * TABLE
            for offset, side in enumerate("xyr"):
                row, column = (top, left) if side == "x" else (top // spec.step, left // spec.step)
                place = n * k.number(f"{side}_n") + row * k.number(f"{side}_h") + column * self.lanes
                self.table.store(place, slot + offset)
            written = (h - top) // spec.step * 256 + (w - left) // spec.step
            self.table.store(written, slot + 3)

    # ---- transforms -------------------------------------------------------------------------------------------

    def input(self, v: Pointer, count: Value, begin: Value, end: Value) -> None:
        """V of the channel blocks begin..end."""
        k, lanes = self.k, self.lanes
        for block in k.range(begin, end):
            mask = k.tail_mask(k.number("channels") - block * lanes, lanes) if self.spec.ragged else None
            for index in k.range(0, count):
                x = k.pointer("x") + (self.table.load(index * TABLE) + block * k.number("x_block"))
                self.input_tile(x, v + (block * k.number("v_block") + index * lanes), mask)

    def input_tile(self, x: Pointer, to: Pointer, mask: Value | None) -> None:
        """One tile of one channel block: down the columns into a small square, then along its rows."""
        k, lanes, down, across = self.k, self.lanes, self.spec.vertical, self.spec.horizontal

        def load(i: int, j: Value | int) -> Value:
            value = x.load(k.number("x_h") * i + j * lanes, lanes)
            return value if mask is None else k.select(mask, value, k.constant(F32, 0.0, lanes))

        def store(i: Value | int, results: Sequence[Value]) -> None:
            self.store_row(to, i, results)

        self.down_then_across(
            load, down.a, across.a,
            lambda d: apply_input(k, down, d), lambda d: apply_input(k, across, d),
            down.a, k.integer(0), store,
        )  # fmt: skip

    def store_row(self, to: Pointer, i: Value | int, results: Sequence[Value]) -> None:
        for j, value in enumerate(results):
            to.store(value, (self.k.number("v_xi") * len(results)) * i + self.k.number("v_xi") * j)

    def down_then_across(
        self,
        load: Callable[[int, Value | int], Value],
        rows_in: int,
        columns: int,
        down: Callable[[Sequence[Value]], list[Value]],
        across: Callable[[Sequence[Value]], list[Value]],
        rows_out: int,
        first_row: Value,
        store: Callable[[Value | int, Sequence[Value]], None],
        step: int = 1,
    ) -> None:
        """A separable transform: through a square in scratch, or along the one row there is.

        `store` gets the results of `step` rows at once; `first_row` and `rows_out` count these.
        """
        k, lanes = self.k, self.lanes
        if rows_in == 1:
            store(0, across([load(0, j) for j in range(columns)]))
            return
        for j in k.range(0, columns):
            for i, value in enumerate(down([load(i, j) for i in range(rows_in)])):
                self.temporary.store(value, j * lanes + i * columns * lanes)
        for row in k.range(first_row, rows_out):
            if columns == 1:
                store(row, [self.temporary.load(row * lanes, lanes)])
            else:
                results: list[Value] = []
                for i in range(step):
                    square = self.temporary + (row * (step * columns * lanes) + i * columns * lanes)
                    results += across([square.load(j * lanes, lanes) for j in range(columns)])
                store(row, results)

    def output(self, group: Value, products: Pointer, count: Value) -> None:
        """y of the group's filter vectors, tile by tile."""
        k, lanes, spec = self.k, self.lanes, self.spec
        left = k.number("filter_blocks") - group * spec.blocks
        for index in k.range(0, count):
            for o in k.range(0, _smaller(k, k.integer(spec.blocks), left)):
                block = group * spec.blocks + o
                m = products + (index * (spec.blocks * lanes) + o * lanes)
                self.output_tile(m, index, block)

    def output_tile(self, m: Pointer, index: Value, block: Value) -> None:
        k, lanes, spec = self.k, self.lanes, self.spec
        down, across = spec.vertical, spec.horizontal
        y = k.pointer("y") + (self.table.load(index * TABLE + 1) + block * k.number("y_block"))
        r = k.pointer("residual") + (self.table.load(index * TABLE + 2) + block * k.number("r_block"))
        written = self.table.load(index * TABLE + 3)
        bias = k.pointer("bias").load(block * lanes, lanes)
        step = k.number("m_xi")

        def load(i: int, j: Value | int) -> Value:
            return m.load(step * (i * across.a) + step * j, lanes)

        def finish(value: Value, i: Value | int, j: int) -> Value:
            total = value + bias
            if spec.residual:
                total = total + r.load(k.number("r_h") * i + j * lanes, lanes)
            return spec.activation.emit(k, total)

        # A maximum is the same before and after what never decreases, and there are fewer after it.
        late = not spec.pool or spec.activation.never_decreases

        def along(d: Sequence[Value]) -> list[Value]:
            values = apply_output(k, across, d)
            if not late:
                values = [finish(value, 0, 0) for value in values]
            return _larger_of_pairs(k, values[::2], values[1::2]) if spec.pool else values

        def store(i: Value | int, results: Sequence[Value]) -> None:
            if spec.pool:
                results = _larger_of_pairs(k, results[: len(results) // 2], results[len(results) // 2 :])
            for j, value in enumerate(results):
                # What the tile before has written goes to the scratch square instead.
                place = y + (k.number("y_h") * i + j * lanes)
                if j < len(results) - 1:
                    place = _either(k, (written & 255) > j, self.temporary + down.a * across.a * lanes, place)
                k.store(finish(value, i, j) if late else value, place)

        self.down_then_across(
            load, down.a, across.a, lambda d: apply_output(k, down, d), along, down.m // spec.step, written >> 8,
            store, spec.step,
        )  # fmt: skip

    # ---- products ---------------------------------------------------------------------------------------------

    def products(self, v: Pointer, begin: Value, end: Value, wide: Value, narrow: Value) -> None:
        """M[group][xi] = V[xi] U[group][xi] for all xi and the groups begin..end, which share V[xi] while it is near.

        Tiles past the block's count are computed from whatever V holds there.
        """
        k, spec = self.k, self.spec
        panel, groups = k.number("u_xi"), end - begin
        to_next_group = panel * spec.products
        to_next_product = panel - (groups - 1) * to_next_group
        for xi in k.range(0, spec.products):
            source = v + xi * k.number("v_xi")
            for index in k.range(0, groups):
                weights = k.pointer("u") + ((begin + index) * spec.products + xi) * panel
                to = self.m + (index * k.number("m_group") + xi * k.number("m_xi"))
                ahead = k.variable(k.select((index + 1) < groups, to_next_group, to_next_product))
                for tile in k.range(0, wide):
                    self.product(source, to, weights, tile * spec.width, spec.width, ahead)
                if spec.width > 1:
                    for tile in k.range(0, narrow):
                        first = wide * spec.width + tile * (spec.width - 1)
                        self.product(source, to, weights, first, spec.width - 1, ahead)

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


def _smaller(k: Kernel, a: Value, b: Value) -> Value:
    return k.select(a < b, a, b)


def _larger_of_pairs(k: Kernel, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Elementwise maxima, NaN where either is NaN."""
    return [k.maximum(a, b) for a, b in zip(left, right, strict=True)]


def _either(k: Kernel, condition: Value, a: Pointer, b: Pointer) -> Pointer:
    """Pointer a where the condition holds, else b."""
    chosen = k.assign(f"select i1 {condition.text}, ptr {a.text}, ptr {b.text}", I64, 1)
    return Pointer(k, a.element, chosen.text)
