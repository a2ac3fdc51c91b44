"""Winograd convolution of rows by windows of any number of taps, stride 1, also dilated.

    item = image, block of phases, block of tiles [, range of filters]                    emitted
      for channel block, phase, tile: V[xi][phase][channel block][tile] = B^T d
      for xi, group of filter vectors, part of a sum, phase, runs of up to `widest` tiles:
        M[xi][phase][tile] += sum over pieces of the window, channels of V[xi][phase][tile + piece] * U[xi][piece]
      for group, phase, tile, filter vector: y = activation(A^T M + bias + residual)

A phase is every d-th element, d being the dilation.

The window is cut into pieces of as many taps as a tile has results, so that what a piece sees is the transform of one
of the next tiles: F(4, 4) has 7 products for 4 results by 4 taps, and 25 taps need 49 products for 4 results, not 100.
All pieces are added up before the results are transformed back. Zeros fill up the last piece and x's last tiles; a last
tile stores the results that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Value
from cenote.codegen.variables import Cursor
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import numbers_named
from cenote.kernels.elementwise.activations import activated
from cenote.kernels.winograd.kernel import TABLE, WORDS, WinogradEmitter, WinogradSpec
from cenote.kernels.winograd.places import MapOfResults, Pixels, TilesOfKind
from cenote.kernels.winograd.products import PartOfSum, Products, Runs
from cenote.kernels.winograd.transforms import apply_input

ROW_NUMBERS = split_words(
    # Pieces of the window; the dilation; results of a row; blocks of tiles in every d-th element of one.
    "pieces dilation results tile_blocks",
    # Phases (sets of every d-th element) of a block, blocks of them, and their distances in V and M.
    "phase_block phase_blocks v_phase m_phase",
)


@dataclass(frozen=True)
class WinogradRowsSpec(WinogradSpec):
    """Kernel of rows; the fields as in WinogradSpec, F(1, 1) down and without `pool`. `rh` is a piece's taps."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*WORDS, *numbers_named(ROW_NUMBERS))

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target).run()
        return kernel


@dataclass(frozen=True)
class _RowProducts(Products):
    """Emitter of the products of a block.

    A part of a sum is a chain of additions, whose weights stay in the first cache for all tiles: those of all taps
    exceed the second. Jasper (768 channels, 25 taps, 100 results) at 71 % of peak without parts.
    """

    phases: Value

    def maps(self, v: Pointer, m: Pointer, weights: Pointer, ahead: Value, runs: Runs) -> None:
        k, blocks, row = self.k, self.k.number("channel_blocks"), self.lanes * self.blocks * self.lanes
        every, part = k.number("pieces") * blocks, self.chain
        for first in k.range(0, every, part):
            count = k.min_drop_nan(first + part, every) - first
            source = v + ((first // blocks) * self.lanes + (first % blocks) * k.number("v_block"))
            is_last = (first + count).equals(every)
            following = k.select(is_last, ahead - first * row, count * row)
            for phase in k.range(0, self.phases):
                self.run_of_tiles(
                    source + phase * k.number("v_phase"),
                    m + phase * k.number("m_phase"),
                    weights + first * row,
                    following,
                    runs,
                    PartOfSum(count, phase.equals(0), first),
                )

    def moves(self, source: Cursor, first: Value | int) -> Callable[[], None]:
        """Return to the first channels after the last ones, one tile further.

        Blocks are counted down: a remainder of their number in this loop takes its time twice (256 channels, 12 taps,
        96 results: 1.18 instead of 0.58 ms).
        """
        k = self.k
        blocks, usual = k.number("channel_blocks"), k.number("v_block") - self.lanes
        back = usual - blocks * k.number("v_block") + self.lanes
        begin = first if isinstance(first, Value) else k.integer(first)
        left = k.variable(blocks - begin % blocks)

        def move_on() -> None:
            fewer = left.value - 1
            ends = fewer.equals(0)
            source.move(k.select(ends, back, usual))
            left.value = k.select(ends, blocks, fewer)

        return move_on


class _Emitter(WinogradEmitter):
    def enter(self, block: Value) -> None:
        k, step = self.k, self.k.number("dilation")
        row, place = block // k.number("tile_blocks"), block % k.number("tile_blocks")
        self.image = row // k.number("phase_blocks")
        self.begin = row % k.number("phase_blocks") * k.number("phase_block")
        self.end = k.min_drop_nan(self.begin + k.number("phase_block"), step)
        self.pitch = pitch = step * self.lanes
        self.columns = [pitch * j for j in range(self.spec.horizontal.a)]
        self.first = place * k.number("block")
        super().enter(place)

    def products(self) -> Products:
        spec = self.spec
        return _RowProducts(
            self.k, self.lanes, spec.blocks, spec.vertical, spec.horizontal, self.ends, self.end - self.begin
        )

    def locate(self, first: Value) -> None:
        k = self.k
        for index in k.range(0, self.count + (k.number("pieces") - 1)):
            place = (first + index) * (self.pitch * self.spec.mh)
            for offset, side in enumerate("xyr"):
                self.table.store(place + self.image * k.number(f"{side}_n"), index * TABLE + offset)

    def input(self, v: Pointer, begin: Value, end: Value) -> None:
        k = self.k
        self.v_columns = [k.number("v_xi") * j for j in range(self.spec.horizontal.a)]
        tiles = self.count + (k.number("pieces") - 1)
        for block in k.range(begin, end):
            for source, to in self.inputs(self.source(block), v + block * k.number("v_block")):
                for index in k.range(0, tiles):
                    x = source + self.table.load(index * TABLE)
                    self.input_tile(x, to + index * self.lanes, k.integer(1), k.integer(self.spec.mh))

    def inputs(self, source: Pixels, v: Pointer) -> Iterator[tuple[Pixels, Pointer]]:
        k = self.k
        for phase in k.range(self.begin, self.end):
            yield source + phase * self.lanes, v + (phase - self.begin) * k.number("v_phase")

    def input_tile(self, x: Pixels, to: Pointer, down: Value, across: Value) -> None:
        values = [self.loaded(x + column) for column in self.columns]
        for place, value in zip(
            self.v_columns, apply_input(self.k, self.spec.horizontal, values), strict=True
        ):
            to.store(value, place)

    def outputs(self, m: Pointer) -> Iterator[MapOfResults]:
        k, step = self.k, self.k.number("dilation")
        for phase in k.range(self.begin, self.end):
            # Results in the tiles from the first one on.
            self.results = (k.number("results") - phase + (step - 1)) // step - self.first * self.spec.mh
            place = phase * self.lanes
            yield MapOfResults(
                m + (phase - self.begin) * k.number("m_phase"),
                k.pointer("y") + place,
                k.pointer("residual") + place,
            )

    def kinds(self) -> Iterator[tuple[Value, TilesOfKind]]:
        """Emit a loop over whole tiles, and a last one that has fewer results, or none."""
        k, most = self.k, self.spec.mh
        whole = k.min_drop_nan(self.results // most, self.count)
        for kind in k.range(0, 2):
            is_last = kind.equals(1)
            begin, end = k.select(is_last, whole, k.integer(0)), k.select(is_last, self.count, whole)
            across = k.select(is_last, self.results - whole * most, k.integer(most))
            yield kind, TilesOfKind(begin, end, is_last, is_last, k.integer(1), across)

    def output_tile(self, m: Pointer, block: Value, down: Value, across: Value) -> None:
        k = self.k
        self.across = across
        self.bias = k.pointer("bias").load(block * self.lanes, self.lanes)
        places = [k.number("m_xi") * j for j in range(self.spec.horizontal.a)]
        self.finish_row(k.integer(0), self.spec.horizontal, [[m.load(place, self.lanes) for place in places]])

    def store_row(self, row: Pointer, values: Sequence[Value]) -> None:
        for j, value in enumerate(values):
            with self.k.when(self.across > j):
                row.store(value, self.columns[j])

    def finish(self, values: Sequence[Value], i: Value) -> list[Value]:
        k, lanes = self.k, self.lanes
        totals = [value + self.bias for value in values]
        if self.spec.residual:
            present = [k.tail_mask((self.across - j) * lanes, lanes) for j in range(len(totals))]
            added = [self.r.load(self.columns[j], lanes, mask) for j, mask in enumerate(present)]
            totals = [total + other for total, other in zip(totals, added, strict=True)]
        return activated(k, self.spec.activation, totals)
