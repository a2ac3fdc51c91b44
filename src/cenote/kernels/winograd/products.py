"""Matrix products of a Winograd convolution, for a block of tiles: M[xi] = V[xi] U[xi] at every point xi.

A run of tiles by a group's filter vectors stays in registers while the channels pass, as in direct.py. There is code
for every length of a run that may be needed, and a number of tiles is cut into runs that differ by one, so that
nothing is computed in vain and no kernel depends on how many tiles there are.

While a product's weights are in use, the next product's are prefetched, line by line: they come from memory, or from
a far cache. Each line is prefetched once, by the first AHEAD runs, which prefetch one line per AHEAD lines read. On
Zen 4 more runs are too late, or never come where a block has few tiles, and one has too many lines under way. The
first cache has room for the weights in use only, and for few lines under way: with the next ones prefetched there,
weights came at 14 GB/s, where the core reads 34. ms of chains of layers whose weights exceed the caches (Zen 4, one
thread), into the first cache, by 2 runs into the second, into the last one that a prefetch can name: 8 layers of 256
channels at 14x14, 5 of 512 at 7x7, 3 of 512 at 14x14: 7.07, 6.24, 5.99; 8.72, 7.39, 6.09; 10.5, 8.16, 8.06 with 8
lanes; by 4 runs 6.07, by 2 runs 5.56, 5.26; 6.85, 6.81, 5.78; 8.97, 8.65, 7.84 with 16. By 1 and 3 runs into the
last: 5.86, 6.19; 6.79, 6.38; 9.38, 8.61. Every second line only takes 1.2 to 1.4 times as long as every one. Intel's
AVX-512 reads the last cache at 16 GB/s, where two runs ask for 22: there up to _WIDE_AHEAD runs prefetch, as many as
a block has. Medians in turns, one and two threads, ms, by 2 and by 12 runs: VGG-16 102.9, 94.5 and 53.4, 48.9;
ResNet-18 15.1, 14.4 and 8.1, 7.7; U-Net 65.5, 62.4 and 33.6, 32.3; Inception-v3 52.4, 51.9 and 28.9, 28.0; YOLOv8n
39.8, 39.3 and 20.9, 20.5. By 4 and by 6 VGG-16 97.1 and 95.3, 49.9 and 48.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F32, Pointer, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.conv.tile_widths import widest, widest_by_lane
from cenote.kernels.partial_sums import FAST_TERMS
from cenote.kernels.winograd.transforms import Filtering, weights_of_window

LINE = 16  # floats of a cache line
AHEAD = 2  # runs that prefetch the next product's weights, at least
_WIDE_AHEAD = 12
SHORT = 4  # channels unrolled for rare runs; unrolling all of a vector takes 3 to 10 % less time where a core is shared


def widths(blocks: int, target: Target) -> range:
    """Return the numbers of tiles that may be in registers at once: from as few as hide the multiply-adds' latency to
    as many as fit.

    Under eight sums a run takes as long as with eight.
    """
    most = (widest_by_lane if target.by_lane else widest)(blocks, target.registers)
    return range(min(most, -(-8 // blocks)), most + 1)


def runs_ahead(target: Target) -> int:
    """Return the number of runs that prefetch the next product's weights, where a block has so many."""
    return _WIDE_AHEAD if target.is_wide else AHEAD


Runs = tuple[tuple[Value, Value], tuple[Value, Value]]
"""The longer runs of tiles and the shorter ones: number of runs, tiles in one."""


@dataclass(frozen=True)
class PartOfSum:
    """Sums of another number of `blocks` than the channels have, from block `first` on: what M has is added to those of
    later ones. `asks`: whether they prefetch the next weights."""

    blocks: Value
    asks: Value
    first: Value | int = 0


@dataclass(frozen=True)
class Products:
    """Emitter of the products. `blocks`: filter vectors of a group; `ends`: the ends of the kinds of tiles in the
    block."""

    k: Kernel
    lanes: int
    blocks: int
    vertical: Filtering
    horizontal: Filtering
    ends: Sequence[Value]

    word = F32

    @property
    def widths(self) -> range:
        return widths(self.blocks, self.k.target)

    def emit(self, v: Pointer, m: Pointer, begin: Value, end: Value) -> None:
        """Emit M[group][xi] = V[xi] U[group][xi] for all xi and the groups begin..end, which share V[xi] while it is
        near.

        Where there are fewer tiles than the narrowest run has, whatever V holds past them is computed too.
        """
        k, products = self.k, self.vertical.a * self.horizontal.a
        panel, groups = k.number("u_xi"), end - begin
        of_group = weights_of_window(self.vertical, self.horizontal)
        to_next_group = panel * of_group
        most = self.widths[-1]
        for xi in k.range(0, products):
            start, stop = self.involved(xi)
            source = v + (xi * k.number("v_xi") + start * self.lanes)
            count = stop - start
            runs = (count + (most - 1)) // most
            least = count // k.max_drop_nan(runs, k.integer(1))
            longer = count - runs * least  # runs of one tile more
            place = self.weights_of(xi)
            to_next_product = (self.weights_of(xi + 1) - place) * panel - (groups - 1) * to_next_group
            for index in k.range(0, groups):
                weights = k.pointer("u") + ((begin + index) * of_group + place) * panel
                to = m + (
                    index * k.number("m_group") + xi * k.number("m_xi") + start * (self.blocks * self.lanes)
                )
                ahead = k.select((index + 1) < groups, to_next_group, to_next_product)
                self.maps(source, to, weights, ahead, ((longer, least + 1), (runs - longer, least)))

    def weights_of(self, xi: Value) -> Value:
        """Place of a product's weights among those of a group; behind the last product, of the next group's first."""
        down, across = self.vertical, self.horizontal
        if down.stride == across.stride == 1:
            return xi
        row, column = down.weight_row(xi // across.a), across.weight_row(xi % across.a)
        place = row * len(across.weight_matrix) + column
        return self.k.select(xi < down.a * across.a, place, self.k.integer(weights_of_window(down, across)))

    def maps(self, v: Pointer, m: Pointer, weights: Pointer, ahead: Value, runs: Runs) -> None:
        """Emit the products of one group, map by map where a block of tiles has several."""
        self.run_of_tiles(v, m, weights, ahead, runs)

    def run_of_tiles(
        self,
        v: Pointer,
        m: Pointer,
        weights: Pointer,
        ahead: Value,
        runs: Runs,
        terms: PartOfSum | None = None,
    ) -> None:
        """Emit the products of one group: first the runs of more tiles. `terms`: the blocks that are summed up; None:
        all channels' blocks."""
        k, lanes = self.k, self.lanes
        longer, shorter = runs
        narrowest = self.widths[0]
        asked = k.cursor(weights.offset_unchecked(ahead))
        asking = k.max_drop_nan(k.min_drop_nan(k.number("ahead"), longer[0] + shorter[0]), k.integer(AHEAD))
        done = longer[0] * longer[1]
        for turn in k.range(0, 2):
            is_first = turn.equals(0)
            count, tiles = (k.select(is_first, a, b) for a, b in zip(longer, shorter, strict=True))
            first = k.select(is_first, k.integer(0), done)
            padded = k.max_drop_nan(tiles, k.integer(narrowest))
            for width in reversed(self.widths):
                with k.when(padded.equals(width)):
                    for run in k.range(0, count):
                        tile = first + run * tiles
                        to = m + tile * (self.blocks * lanes)
                        asks = (run + k.select(is_first, k.integer(0), longer[0])) < asking
                        if terms is not None:
                            asks = asks & terms.asks
                        real = tiles if width == narrowest else None
                        share = k.select(asks, asking, k.integer(0))
                        self.product(v + tile * lanes, to, weights, width, asked, share, terms, real)

    def involved(self, xi: Value) -> tuple[Value, Value]:
        """Range of the tiles that have the product xi: short ones lack some points."""
        k = self.k
        _, columns_end, inner_end, rows_end, count = self.ends
        has_all = self.is_point(xi % self.horizontal.a, k.number("last_h"), self.horizontal)
        start = k.select(has_all, k.integer(0), columns_end)
        stop = k.select(has_all, count, rows_end)
        has_all = self.is_point(xi // self.horizontal.a, k.number("last_v"), self.vertical)
        return start, k.select(has_all, stop, inner_end)

    def is_point(self, index: Value, outputs: Value, full: Filtering) -> Value:
        """Condition that a shorter filtering, of so many outputs, has the point."""
        return index.equals(full.a - 1) | (index < full.samples(outputs) - 1)

    def product(
        self,
        v: Pointer,
        m: Pointer,
        weights: Pointer,
        width: int,
        asked: Cursor,
        share: Value,
        terms: PartOfSum | None,
        real: Value | None,
    ) -> None:
        """Emit the sums of `width` tiles by the group's filter vectors; where `share` is not 0, prefetch the lines from
        `asked` on, one of so many. A chain of additions has at most FAST_TERMS channels; chains are added to one
        another. `real`: the number of tiles where there may be fewer. Sums of parts leave the others alone: these
        places are the next map's, to whose sums a later part would add.

        The innermost loop reads at constant distances from two addresses that it moves itself: indexed addresses cost
        up to 20 %.
        """
        k, lanes, blocks = self.k, self.lanes, self.blocks
        row, zero = blocks * lanes, k.constant(self.word, 0, lanes)
        unroll = lanes if width >= self.widths[-1] - 1 else min(SHORT, lanes)
        sums: list[list[Variable]] = [[k.variable(zero) for _ in range(blocks)] for _ in range(width)]
        places = [[(sums[i][o], i * row + o * lanes) for o in range(blocks)] for i in range(width)]
        every = [place for tile in places for place in tile]
        source, factors = k.cursor(v), k.cursor(weights)
        before = 0 if terms is None else terms.first
        in_parts = isinstance(before, Value)
        part = k.integer(unroll * row) // k.max_drop_nan(share, k.integer(1))
        step = k.select(share > 0, part, k.integer(0))
        move_on = self.moves(source, before)
        channel_blocks = k.number("channel_blocks") if terms is None else terms.blocks
        most = self.chain
        for first in k.range(0, channel_blocks, most):
            for total, _ in every:
                total.value = zero
            for _ in k.range(first, k.min_drop_nan(first + most, channel_blocks)):
                for _ in k.steps(lanes, unroll):
                    soon = asked.at
                    for line in range(0, unroll * row, AHEAD * LINE):
                        k.prefetch(soon, line // AHEAD, level=3)
                    asked.move(step)
                    spread, now = self.spreading(source.at, width, unroll), factors.at
                    for channel in range(unroll):
                        vectors = [now.load(channel * row + o * lanes, lanes) for o in range(blocks)]
                        for i in range(width):
                            factor = spread(i, channel)
                            for o in range(blocks):
                                sums[i][o].value = self.added(sums[i][o].value, factor, vectors[o])
                    source.move(unroll)
                    factors.move(unroll * row)
                move_on()
            with k.when(first + before > 0):
                for total, place in every:
                    total.value = total.value + m.load(place, lanes)
            for tile, of_tile in enumerate(places):
                with k.when(real > tile) if real is not None and in_parts and tile else nullcontext():
                    for total, place in of_tile:
                        m.store(total.value, place)

    def spreading(self, here: Pointer, width: int, channels: int) -> Callable[[int, int], Value]:
        """Return the function from a tile and a channel to the vector of that number in V."""
        k, lanes = self.k, self.lanes
        if not (k.target.by_lane and channels == lanes and self.word is F32):
            return lambda tile, channel: here.broadcast(tile * lanes + channel, lanes)
        tiles = [here.load(tile * lanes, lanes) for tile in range(width)]
        return lambda tile, channel: k.shuffle(tiles[tile], tiles[tile], [channel] * lanes)

    def moves(self, source: Cursor, first: Value | int) -> Callable[[], None]:
        """Return what moves an address in V from the end of a block of channels to the next one that is summed up.
        `first`: the number of the block at hand."""
        to_next_block = self.k.number("v_block") - self.lanes
        return lambda: source.move(to_next_block)

    @property
    def chain(self) -> Value | int:
        """Number of channel blocks whose products are added in one chain."""
        return FAST_TERMS // self.lanes

    def added(self, total: Value, v: Value, weights: Value) -> Value:
        """Return the sums with one channel's products added."""
        return self.k.fma(v, weights, total)
