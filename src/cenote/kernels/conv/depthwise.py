"""Convolution whose groups lie within a vector, on channel-blocked tensors: depthwise, where no lane sees another,
groups of 2 or 4 channels, whose lanes see each other only, and either with several times as many filters as channels.

    item = image, channel block, band of output rows       emitted
      for row of the band:                                 emitted
        for tile of `width` or `width - 1` output pixels:  emitted
          for row of the window (kd, kh):                  emitted, offsets come from a table
            for kw, pixel: acc[pixel] += x * weights[kw]   unrolled

Pixels of a tile lie constant steps apart, so LLVM loads each input vector once per row and uses it for all kw.

With groups of several channels the inner loops are

          for tap of the window (kd, kh, kw):              emitted, offsets come from a table
            for pixel, channel of the group:               unrolled
              acc[pixel] += x[lanes of the channel] * weights[channel]

where x[lanes of the channel] gives every lane of a group that channel: one shuffle within the vector. Every
multiply-add counts; with groups joined until they fill a vector (`direct_calls.merge_groups`) half or more are by zero.

Windows of more terms than a block of `partial_sums.py` has are added in such blocks, of whole rows, and these in one
chain: 63x63 terms of 0.1 are 1.7e-5 off in a single chain, 2.5e-6 in blocks, 9e-7 in the shorter ones of "exact".

With m times as many filters, m blocks of y come from one block of x: each loads the few channels that its groups have
and shuffles them to the lanes of their filters. Which channels go where repeats from block to block of y, at the latest
after m: one kernel, and one call, per such pattern (`Groups`): one for 2, 4 or 8 filters a channel, three for 3 or 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named
from cenote.kernels.elementwise.activations import Activation, activated

# Channels of a group up to which this kernel is the quickest: a shuffle within 128 bits is one instruction. Groups of
# 8 on 16 lanes need one and a half per product, all on one port: 1.93 ms for 256 channels of 56x56, where joined
# groups take 1.71 (Emerald Rapids; 2.1 and 2.7 on Zen 4).
QUICKEST_GROUP = 4

AXES = ("image", "block", "outer", "h")
NUMBERS = (
    "rows",
    "wide",
    "tiles",
    "narrow",
    "blocks",
    "out_d",
    "out_h",
    "band",
    "bands",
    "slab",
    *(f"{side}_{axis}" for side in "xyr" for axis in AXES),
)


def widest_row(taps: int, registers: int, filters: int = 1) -> int:
    """Return the most pixels of a tile: 8 sums keep two multiply-adds per cycle of latency 4 busy; the weights need
    registers too, and so do shuffles where a channel has several `filters`."""
    return min(8, registers - 3 - taps - 3 * (filters > 1))


def widest_group(registers: int, group: int) -> int:
    """Return the most pixels of a tile with groups of several channels: LLVM keeps a tile's input beside its sums."""
    return (registers - 4 - (2 * group if group > QUICKEST_GROUP else 0)) // 2


@dataclass(frozen=True)
class Groups:
    """Groups of `channels` and of `filters`, a multiple of them, in vectors of `lanes`, a multiple of the channels too.

    Block b of y has the same `pattern` as block b + `patterns`, and reads `parts` of a block of x in turns.
    """

    channels: int
    filters: int
    lanes: int
    pattern: int = 0

    @property
    def patterns(self) -> int:
        return self.filters // math.gcd(self.filters, self.lanes)

    @property
    def parts(self) -> int:
        return math.gcd(self.filters, self.lanes) // self.channels

    def _first_channel(self, lane: int) -> int:
        """First channel, counted from the start of a part, of the group that the filter in a lane belongs to."""
        return (self.pattern * self.lanes + lane) // self.filters * self.channels

    @property
    def read(self) -> tuple[int, int]:
        """Place in a part from which a block of y reads channels, and how many: a power of 2 that is enough."""
        first, stop = self._first_channel(0), self._first_channel(self.lanes - 1) + self.channels
        count = 1 << (stop - first - 1).bit_length()
        return min(first, self.lanes // self.parts - count), count

    def spread(self, k: Kernel, source: Pointer, offset: int) -> Iterator[Value]:
        """Yield for each channel of a group a vector that has it in the lanes of the group's filters. They are made
        one by one, as they are used: all at once they would exceed the registers. `source` points to the place that
        `read` gives.
        """
        first, count = self.read
        value = source.load(offset, count).to(F32)
        for channel in range(self.channels):
            places = [self._first_channel(lane) + channel - first for lane in range(self.lanes)]
            if count == 1:
                yield k.splat(value, self.lanes)
            elif places == list(range(self.lanes)):
                yield value
            else:
                yield k.shuffle(value, value, places)


@dataclass
class Filters:
    """Filters of a block of y: their weights, the number of the first among those of the call, their bias."""

    weights: Pointer
    first: Value
    bias: Value = field(init=False)


POINTERS = ("x", "weights", "bias", "residual", "y")
TABLE = Parameter("table", I32, pointer=True)
BLOCK = "rows_of_block"
WORDS = (*float_pointers(POINTERS, ("residual", "y")), TABLE, *numbers_named(NUMBERS))


@dataclass(frozen=True)
class DepthwiseSpec(KernelSpec):
    """Depthwise kernel of `width` pixels per tile (fewer than fit only in rows under 42 pixels: `direct.cut`) and a
    window row (or a part of one, `unrolled_taps`) of `taps` columns; pixels lie `stride` vectors apart in x.

    `group` and `filters`: channels and filters of a group; more than 1 channel goes with 1 tap. `pattern`: see
    `Groups`. `spread`: pixels of y lie so many vectors apart (one phase of a transposed convolution). `long`: sums
    are made of blocks of rows.
    """

    width: int
    taps: int
    stride: int
    residual: bool
    activation: Activation
    group: int = 1
    filters: int = 1
    pattern: int = 0
    spread: int = 1
    long: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*WORDS, *numbers_named((BLOCK,))) if self.long else WORDS

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.lanes()
        rows_in_all = k.number("out_d") * k.number("out_h")
        for item in k.range(k.begin, k.end):
            band, rest = item % k.number("bands"), item // k.number("bands")
            block, image = rest % k.number("blocks"), rest // k.number("blocks")
            bases = {s: image * k.number(f"{s}_image") + block * k.number(f"{s}_block") for s in "yr"}
            bases["x"] = image * k.number("x_image") + self._input(k, block, lanes)
            filters = Filters(k.pointer("weights") + block * k.number("slab"), block * lanes)
            filters.bias = k.pointer("bias").load(filters.first, lanes)
            first = band * k.number("band")
            stop = first + k.number("band")
            for row in k.range(first, k.select(stop < rows_in_all, stop, rows_in_all)):
                outer, h = row // k.number("out_h"), row % k.number("out_h")
                at = {s: bases[s] + outer * k.number(f"{s}_outer") + h * k.number(f"{s}_h") for s in "xyr"}
                self._row(k, at, filters, lanes)
        return k

    def _input(self, k: Kernel, block: Value, lanes: int) -> Value:
        """Offset in x of the channels that a block of y reads."""
        groups = self._groups(lanes)
        inside, step = groups.read[0], k.number("x_block")
        if groups.parts == 1:
            return block * step + inside
        part = block % groups.parts * (lanes // groups.parts)
        return block // groups.parts * step + part + inside

    def _groups(self, lanes: int) -> Groups:
        return Groups(self.group, self.filters, lanes, self.pattern)

    def _row(self, k: Kernel, at: dict[str, Value], filters: Filters, lanes: int) -> None:
        """One output row: the wide tiles, then the narrow ones."""
        wide, tiles, narrow = k.number("wide"), k.number("tiles"), k.number("narrow")
        for tile in k.range(0, wide):
            self._tile(k, at, tile * self.width, filters, self.width, lanes)
        if self.width > 1:
            for tile in k.range(wide, tiles):
                self._tile(k, at, tile * narrow + wide, filters, self.width - 1, lanes)

    def _tile(
        self,
        k: Kernel,
        at: dict[str, Value],
        pixel: Value,
        filters: Filters,
        width: int,
        lanes: int,
    ) -> None:
        x = k.pointer("x") + (at["x"] + pixel * (self.stride * lanes))
        y = k.pointer("y") + (at["y"] + pixel * (self.spread * lanes))
        weights, bias = filters.weights, filters.bias
        accumulators = [k.variable(bias) for _ in range(width)]
        if self.residual:
            r = k.pointer("residual") + (at["r"] + pixel * lanes)
            for index, accumulator in enumerate(accumulators):
                accumulator.value = bias + r.load(index * lanes, lanes)
        rows = k.number("rows")
        if not self.long:
            self._window(k, x, weights, accumulators, k.integer(0), rows, lanes)
        for begin in k.range(0, rows, k.number(BLOCK)) if self.long else ():
            block = [k.variable(k.constant(F32, 0.0, lanes)) for _ in accumulators]
            end = begin + k.number(BLOCK)
            self._window(k, x, weights, block, begin, k.select(end < rows, end, rows), lanes)
            for accumulator, part in zip(accumulators, block, strict=True):
                accumulator.value = accumulator.value + part.value
        self._finish(k, [each.value for each in accumulators], filters, y)

    def _finish(self, k: Kernel, sums: list[Value], filters: Filters, y: Pointer) -> None:
        """Store the elements of y for sums of neighbouring pixels, the first of which is at `y`."""
        for index, value in enumerate(activated(k, self.activation, sums)):
            y.store(value, index * (self.spread * value.lanes))

    def _window(
        self,
        k: Kernel,
        x: Pointer,
        weights: Pointer,
        accumulators: Sequence[Variable],
        begin: Value,
        end: Value,
        lanes: int,
    ) -> None:
        """Add the rows of the window for all pixels of a tile."""
        for row in k.range(begin, end):
            source = x + k.pointer("table").load(row).to(I64)
            factors = weights + row * (self.taps * self.group * lanes)
            if self.group > 1:
                self._window_tap(k, source, factors, accumulators, lanes)
            else:
                self._window_row(k, source, factors, accumulators, lanes)

    def _window_row(
        self, k: Kernel, source: Pointer, factors: Pointer, accumulators: Sequence[Variable], lanes: int
    ) -> None:
        """Add one row of the window, with input columns in the outer loop, so that each vector is loaded once and
        lives briefly."""
        groups = self._groups(lanes)
        vectors = [factors.load(tap * lanes, lanes) for tap in range(self.taps)]
        columns = (len(accumulators) - 1) * self.stride + self.taps
        for column in range(columns):
            users = [
                (pixel, column - pixel * self.stride)
                for pixel in range(len(accumulators))
                if 0 <= column - pixel * self.stride < self.taps
            ]
            if not users:
                continue
            (value,) = groups.spread(k, source, column * lanes)
            for pixel, tap in users:
                accumulators[pixel].value = k.fma(value, vectors[tap], accumulators[pixel].value)

    def _window_tap(
        self, k: Kernel, source: Pointer, factors: Pointer, accumulators: Sequence[Variable], lanes: int
    ) -> None:
        """Add one tap for all pixels: each channel of a group goes to all lanes of its group."""
        groups = self._groups(lanes)
        vectors = [factors.load(channel * lanes, lanes) for channel in range(self.group)]
        for pixel, accumulator in enumerate(accumulators):
            values = groups.spread(k, source, pixel * self.stride * lanes)
            for value, vector in zip(values, vectors, strict=True):
                accumulator.value = k.fma(value, vector, accumulator.value)


MOST_PATTERNS = 8  # kernels of one convolution: each takes some 30 ms to compile


def suits(shape: ConvShape, lanes: int) -> bool:
    """Whether every group's channels lie within a vector and its filters are a multiple of them."""
    channels, filters = shape.group_channels, shape.group_filters
    return (
        shape.groups > 1
        and 0 < channels < lanes
        and filters > 0
        and lanes % channels == filters % channels == 0
        and Groups(channels, filters, lanes).patterns <= MOST_PATTERNS
    )
