"""Direct convolution: a tile of pixels by channel vectors stays in registers while the window passes.

    item = image, group of filters, band of tiles                      emitted
      for chunk of the taps (keeps its weights in the first cache):    emitted
        for tile of `width` or `width - 1` output pixels:              emitted
          for part of the chunk, in one block of the sum:              emitted
            acc[pixel][block] = 0, or what the last part left in scratch; in the first part bias + residual
            for tap in part (channel block, kd, kh, kw):               emitted, offsets come from a table
              for channel of the block (`unroll`):                     unrolled
                for pixel: broadcast x; for block: acc += x * weights  unrolled
            acc += those of earlier blocks; or to scratch              `partial_sums.py`
          y[pixel][block] = activation(acc)                            after the last chunk

The table of tap offsets makes window, dilation, rank and channel count plain data, and a tile is a list of
pixels that may span rows and images, so that stride and map size are data too: one kernel serves nearly all
layers of a network, and a 7x7 map (49 pixels: 4 tiles of 6 and 5 of 5) wastes nothing. Unrolling over kw
instead of a run-time table would let LLVM merge the broadcasts of neighbouring taps and spill (28-60 % of
peak instead of 95-100 %).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64, Pointer, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels import partial_sums
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named
from cenote.kernels.conv.weights_ahead import WORD, WeightsAhead
from cenote.kernels.elementwise.activations import Activation, Destination, store_activated
from cenote.kernels.partial_sums import PartialSum

POINTERS = ("x", "weights", "bias", "residual", "y")
NUMBERS = (
    *split_words(
        # Whole taps, those of a chunk, ragged taps and the channels of each.
        "entries chunk rest rest_channels",
        # Tiles of `width`, all tiles, tiles in a band, bands, pixels of the narrow tile.
        "wide tiles band bands narrow",
        # Filter groups in all, per convolution group; whether their loop is the innermost.
        "filter_groups per_group groups_inside",
        "out_w out_h",
        # Steps in elements from one output pixel to the next.
        "x_w x_h x_outer x_image x_group",
        "y_w y_h y_outer y_image y_group y_block",
        "r_w r_h r_outer r_image r_group r_block",
        # Steps of the weights from filter group to filter group and from image to image (matrices), of the bias.
        "slab weights_image bias_group",
        # Columns of y, where the last vectors are clipped.
        "columns",
    ),
    WORD,  # whether tiles prefetch weights
    *partial_sums.WORDS,
)


TABLE = Parameter("table", I32, pointer=True)
WORDS = (*float_pointers(POINTERS, ("residual", "y")), TABLE, *numbers_named(NUMBERS))


@dataclass(frozen=True)
class ConvDirectSpec(KernelSpec):
    """Direct kernel with `blocks` channel vectors by `width` pixels in registers.

    `unroll`: channels (or columns of the window, for a plain input) per tap; `ragged`: some taps have fewer channels;
    `flat_x`, `flat_y`: pixels lie one after the other in x, or in y and the residual, so that their addresses are
    constants; `residual`: a tensor is added before the activation; `joined`: a tile may span images or depths;
    `clip`: y is a plain matrix whose columns past `columns` are not touched; `scattered`: behind the offsets the
    table has each tap's place among the weights; `ranged`: or the first tap and the number of taps of each filter
    group of a convolution group, where weights of others are zeros. Sizes decide `width` under 42 pixels (`cut`),
    `blocks` under 4 (`block_runs`), and `joined`: tiles of several images occur only where a map has under 24 pixels.
    """

    blocks: int
    width: int
    unroll: int
    ragged: bool
    flat_x: bool
    flat_y: bool
    residual: bool
    activation: Activation
    joined: bool = False
    clip: bool = False
    scattered: bool = False
    ranged: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        return WORDS

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        DirectEmitter(self, kernel, target.lanes()).run()
        return kernel


@dataclass
class Pixel:
    """Offsets of one output pixel, in elements: of its window's origin in x, of y, of the residual."""

    x: Value
    y: Value
    r: Value | None


class PixelWalk:
    """Iterator over output pixels: the next one's offsets in x, y and the residual; steps along w, then h, then the
    outer axis.

    Where pixels lie one after the other (`flat` names the tensors), an offset is a constant step from the tile's
    first.
    """

    def __init__(
        self, k: Kernel, start: Value, bases: Mapping[str, Value], flat: Collection[str], outer_moves: bool
    ) -> None:
        out_w, out_h = k.number("out_w"), k.number("out_h")
        row, w = start // out_w, start % out_w
        outer, h = row // out_h, row % out_h
        self.k, self.flat, self.outer_moves = k, flat, outer_moves
        self.w, self.h = k.variable(w), k.variable(h)
        self.offsets: dict[str, Variable] = {}
        self.row_jumps: dict[str, Value] = {}
        self.outer_jumps: dict[str, Value] = {}
        for name, base in bases.items():
            step_w, step_h, step_outer = (k.number(f"{name}_{axis}") for axis in ("w", "h", "outer"))
            self.offsets[name] = k.variable(base + w * step_w + h * step_h + outer * step_outer)
            self.row_jumps[name] = step_h - (out_w - 1) * step_w
            self.outer_jumps[name] = step_outer - out_h * step_h

    def take(self, width: int, step: Value | int) -> list[dict[str, Value]]:
        """Return the offsets of the next `width` pixels and move past them. `step` is the distance of flat pixels."""
        pixels: list[dict[str, Value]] = [{} for _ in range(width)]
        for name in self.flat:
            variable = self.offsets[name]
            first = variable.value
            for index, pixel in enumerate(pixels):
                pixel[name] = first + index * step
            variable.value = first + width * step
        walking = [name for name in self.offsets if name not in self.flat]
        for pixel in pixels if walking else ():
            pixel |= {name: self.offsets[name].value for name in walking}
            self._advance(walking)
        return pixels

    def _advance(self, names: Sequence[str]) -> None:
        k = self.k
        following = self.w.value + 1
        row_ends = following.equals(k.number("out_w"))
        self.w.value = k.select(row_ends, k.integer(0), following)
        steps = {name: k.select(row_ends, self.row_jumps[name], k.number(f"{name}_w")) for name in names}
        if self.outer_moves:
            row = k.select(row_ends, self.h.value + 1, self.h.value)
            map_ends = row.equals(k.number("out_h"))
            self.h.value = k.select(map_ends, k.integer(0), row)
            for name in names:
                steps[name] = steps[name] + k.select(map_ends, self.outer_jumps[name], k.integer(0))
        for name in names:
            self.offsets[name].value = self.offsets[name].value + steps[name]


class DirectEmitter:
    """Emitter of one kernel."""

    def __init__(self, spec: ConvDirectSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.row = spec.blocks * lanes  # weights of one channel
        self.x, self.y, self.weights = k.pointer("x"), k.pointer("y"), k.pointer("weights")

    def run(self) -> None:
        k = self.k
        bands, groups = k.number("bands"), k.number("filter_groups")
        for item in k.range(k.begin, k.end):
            image, rest = item // (bands * groups), item % (bands * groups)
            inside = k.number("groups_inside").differs(0)
            band = k.select(inside, rest // groups, rest % bands)
            group = k.select(inside, rest % groups, rest // bands)
            self.item(image, band, group)

    def item(self, image: Value, band: Value, group: Value) -> None:
        k = self.k
        convolution, member = group // k.number("per_group"), group % k.number("per_group")
        flat = ("x",) * self.spec.flat_x + ("y",) * self.spec.flat_y
        flat += ("r",) * (self.spec.flat_y and self.spec.residual)
        bases: dict[str, Value] = {}
        for name in ("x", "y", "r") if self.spec.residual else ("x", "y"):
            base = image * k.number(f"{name}_image") + convolution * k.number(f"{name}_group")
            bases[name] = (
                base if name == "x" else base + member * self.spec.blocks * k.number(f"{name}_block")
            )
        self.filters = convolution * k.number("bias_group") + member * self.row
        self.bias = k.pointer("bias") + self.filters
        first = band * k.number("band")
        last = k.min_drop_nan(first + k.number("band"), k.number("tiles"))
        wide_end = k.min_drop_nan(last, k.number("wide"))
        narrow_begin = k.max_drop_nan(first, k.number("wide"))
        start = first * k.number("narrow") + k.min_drop_nan(first, k.number("wide"))
        bases["x"] = self.x_base(bases["x"], start)
        slab = self.weights + (image * k.number("weights_image") + group * k.number("slab"))
        self.table, self.entries = k.pointer("table"), k.number("entries")
        if self.spec.ranged:
            begin, self.entries = ((self.table + self.entries).load(member * 2 + i).to(I64) for i in (0, 1))
            self.table, slab = self.table + begin, slab + begin * (self.spec.unroll * self.row)
        self.masks: list[Value | None] = [None] * self.spec.blocks
        if self.spec.clip:
            left = k.number("columns") - member * self.row
            self.masks = [k.tail_mask(left - o * self.lanes, self.lanes) for o in range(self.spec.blocks)]
        self.first_tile = first
        self.apart = k.number("band") * (self.spec.width * self.row)  # from slot to slot
        chunk, every = k.number("chunk"), self.all_taps()
        for begin in k.range(0, k.max_drop_nan(every, k.integer(1)), chunk):
            end = k.min_drop_nan(begin + chunk, every)
            taps = TapChunk(begin, end, slab, end >= every)
            walk = PixelWalk(k, start, bases, flat, self.spec.joined)
            for tile in k.range(first, wide_end):
                self.tile(walk, self.spec.width, taps, tile)
            if self.spec.width > 1:
                for tile in k.range(narrow_begin, last):
                    self.tile(walk, self.spec.width - 1, taps, tile)

    def x_base(self, base: Value, start: Value) -> Value:
        """Offset in x from which pixels count, for the band that begins at the pixel `start`."""
        return base

    def all_taps(self) -> Value:
        """Number of taps: those with all channels of their block, and behind them ragged ones."""
        return self.entries + self.k.number("rest") if self.spec.ragged else self.entries

    def weights_from(self, taps: TapChunk) -> Pointer:
        """Address of a chunk's first weights."""
        k, whole = self.k, taps.begin
        if not self.spec.ragged:
            return taps.slab + whole * (self.spec.unroll * self.row)
        whole = k.min_drop_nan(whole, k.number("entries"))
        ragged = (taps.begin - whole) * k.number("rest_channels")
        return taps.slab + (whole * self.spec.unroll + ragged) * self.row

    def tile(self, walk: PixelWalk, width: int, taps: TapChunk, tile: Value) -> None:
        k = self.k
        pixels = list(self.pixels(walk, width))
        zero = k.constant(F32, 0.0, self.lanes)
        accumulators = [[k.variable(zero) for _ in range(self.spec.blocks)] for _ in pixels]
        every = [accumulator for row in accumulators for accumulator in row]
        weights = k.cursor(self.weights_from(taps))
        origins = [self.x + pixel.x for pixel in pixels]
        kept = k.scratch.cast(F32) + (tile - self.first_tile) * (self.spec.width * self.row)
        self.ahead = self.weights_ahead(weights.at, tile, self.spec.unroll * self.row)
        step = k.min_drop_nan(k.integer(1) << k.number("block"), k.number("chunk"))
        for begin in k.range(taps.begin, k.max_drop_nan(taps.end, taps.begin + 1), step):
            part = PartialSum(k, begin, k.min_drop_nan(begin + step, taps.end), self.all_taps())
            self.begin(accumulators, pixels, begin.equals(0))
            part.resume(every, kept)
            self.whole_taps(accumulators, origins, weights, taps, part)
            if self.spec.ragged:
                self.ragged_taps(accumulators, origins, weights, part)
            part.fold(every, kept, self.apart)
        with k.when(taps.is_last):
            self.finish(accumulators, pixels)

    def whole_taps(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        weights: Cursor,
        taps: TapChunk,
        part: PartialSum,
    ) -> None:
        """Add the taps of a part that have all channels of their block."""
        k = self.k
        end = k.min_drop_nan(part.end, k.number("entries")) if self.spec.ragged else part.end
        for entry in k.range(part.begin, end):
            offset = self.table.load(entry).to(I64)
            now = weights.at
            if self.spec.scattered:
                place = k.pointer("table").load(k.number("entries") + entry).to(I64)
                now = taps.slab + place * (self.spec.unroll * self.row)
            self.multiply_block(accumulators, origins, offset, now)
            weights.move(self.spec.unroll * self.row)

    def multiply_block(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        offset: Value,
        weights: Pointer,
    ) -> None:
        """Multiply all channels of a block at one tap."""
        if self.by_lane:
            self.multiply_by_lane(accumulators, [origin + offset for origin in origins], weights)
            return
        for channel in range(self.spec.unroll):
            self.ahead.ask(self.row)
            self.multiply(accumulators, origins, offset, channel, weights, channel * self.row)

    def weights_ahead(self, weights: Pointer, tile: Value, per_entry: int) -> WeightsAhead:
        """Return what prefetches the next chunk's weights while a tile reads those from `weights` on."""
        distance, addresses = self.k.number("chunk") * per_entry, 1 if self.spec.flat_x else self.spec.width
        return WeightsAhead(self.k, weights, distance, tile - self.first_tile, addresses)

    @property
    def by_lane(self) -> bool:
        """Whether a tap's channels are the lanes of one vector, each of which is a factor."""
        return self.k.target.by_lane and self.spec.unroll == self.lanes

    def multiply_by_lane(
        self, accumulators: Sequence[Sequence[Variable]], places: Sequence[Pointer], weights: Pointer
    ) -> None:
        """Multiply all channels of a block at one tap, a pixel's read by one load."""
        k, lanes = self.k, self.lanes
        factors = [place.load(0, lanes) for place in places]
        for channel in range(self.spec.unroll):
            first = channel * self.row
            vectors = [weights.load(first + o * lanes, lanes) for o in range(self.spec.blocks)]
            for factor, row in zip(factors, accumulators, strict=True):
                spread = k.shuffle(factor, factor, [channel] * lanes)
                for vector, accumulator in zip(vectors, row, strict=True):
                    accumulator.value = k.fma(spread, vector, accumulator.value)

    def pixels(self, walk: PixelWalk, width: int) -> Iterator[Pixel]:
        """Yield the tile's pixels."""
        for offsets in walk.take(width, self.lanes):
            yield Pixel(offsets["x"], offsets["y"], offsets.get("r"))

    def begin(
        self, accumulators: Sequence[Sequence[Variable]], pixels: Sequence[Pixel], is_first: Value
    ) -> None:
        """Set the sums that a part begins from: bias and residual in the first part, zeros in others."""
        k, lanes = self.k, self.lanes
        for row in accumulators:
            for accumulator in row:
                accumulator.value = k.constant(F32, 0.0, lanes)
        with k.when(is_first):
            for pixel, row in zip(pixels, accumulators, strict=True):
                for o, accumulator in enumerate(row):
                    value = self.bias.load(o * lanes, lanes)
                    if self.spec.residual:
                        assert pixel.r is not None
                        place = k.pointer("residual") + pixel.r
                        value = value + place.load(k.number("r_block") * o, lanes, self.masks[o])
                    accumulator.value = value

    def multiply(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        offset: Value,
        channel: Value | int,
        weights: Pointer,
        weight_offset: int,
    ) -> None:
        """Multiply one channel of one tap: `blocks` weight vectors, one broadcast per pixel, blocks * pixels
        multiply-adds."""
        k, lanes = self.k, self.lanes
        vectors = [weights.load(weight_offset + o * lanes, lanes) for o in range(self.spec.blocks)]
        for origin, row in zip(origins, accumulators, strict=True):
            spread = (origin + offset).broadcast(channel, lanes)
            for vector, accumulator in zip(vectors, row, strict=True):
                accumulator.value = k.fma(spread, vector, accumulator.value)

    def ragged_taps(
        self,
        accumulators: Sequence[Sequence[Variable]],
        origins: Sequence[Pointer],
        weights: Cursor,
        part: PartialSum,
    ) -> None:
        """Add the taps of the last channel block: only its real channels, for the other lanes hold junk."""
        k = self.k
        for entry in k.range(k.max_drop_nan(part.begin, k.number("entries")), part.end):
            offset = k.pointer("table").load(entry).to(I64)
            for channel in k.range(0, k.number("rest_channels")):
                self.multiply(accumulators, origins, offset, channel, weights.at, 0)
                weights.move(self.row)

    def finish(self, accumulators: Sequence[Sequence[Variable]], pixels: Sequence[Pixel]) -> None:
        """Apply the activation to each sum and store it."""
        block = self.k.number("y_block")
        places = [
            Destination(self.y + pixel.y + block * o, self.masks[o])
            for pixel in pixels
            for o in range(self.spec.blocks)
        ]
        values = [accumulator.value for row in accumulators for accumulator in row]
        store_activated(self.k, self.spec.activation, places, values)


@dataclass
class TapChunk:
    """Chunk of the table: entries begin..end, the filter group's weights, and whether it is the last chunk."""

    begin: Value
    end: Value
    slab: Pointer
    is_last: Value
