"""Products with a constant matrix by Strassen's algorithm: seven products of half matrices in place of eight.

    item = image, band of tiles, run of filter groups                     emitted
      for tile: the seven sums of quarters of x, in scratch               emitted; again only when the band changes
      for group of filters, half of them beside the other half:           emitted
        for factor (0 .. 6):                                              emitted
          for chunk of half the channels (its weights stay near):         emitted
            for tile of `width` or `width - 1` pairs of pixels:           emitted
              acc[pixel][block] += sums of x * weights, by channel        unrolled
        for tile: the four quarters of y from seven products              unrolled

Quarters of x are the first and second half of the channels at even and at odd pixels. Those of y are the groups' first
and second half of the filters at these pixels. Sums of weights are made when they are packed. V. Strassen, "Gaussian
elimination is not optimal", Numer. Math. 1969, in Winograd's form of 15 sums (N. Higham, Accuracy and Stability of
Numerical Algorithms, 2002, 23.1).

Where channels or filters are an odd number of vectors, the second half lacks one, which counts as zeros.

Sums of numbers of unequal size lose the smaller ones, and this algorithm adds those of different filters, channels and
pixels. So all three are brought to one size first, by powers of two, which round nothing: filters and channels when
weights are packed, each pixel here, by the largest of what its channels contribute. A pixel that is not finite is taken
for zeros, and its results are NaN: no pixel, row or picture reaches another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named
from cenote.kernels.conv.direct import PixelWalk
from cenote.kernels.elementwise.activations import Activation, Destination, store_activated
from cenote.kernels.product.panels import LINE

PRODUCTS = 7
# Cache lines of the next chunk's weights that are prefetched with each vector of channels. Zen 3,
# 49 rows of 512 by 2048: 1323 us without, 1165, 993 and 1080 with 1, 2 and 4; 197 of 768 by 3072: 11.0, 9.6, 9.5, 10.1.
AHEAD = 2
_SIZE, _INFINITY, _NAN = 0x7FFFFFFF, 0x7F800000, 0x7FC00000  # of a float32: all bits but the sign's; others
NUMBERS = split_words(
    # Vectors of half the channels, and those of a chunk; vectors of channels and of filters that there are.
    "half chunk channel_blocks filter_blocks",
    # Pixels; tiles of `width` pairs, all tiles, pairs of the narrow tile, tiles in a band, bands.
    "pixels wide tiles narrow band bands",
    # Groups of filters, those of an item, and items of a band.
    "groups run runs",
    "out_w out_h",
    "x_w x_h x_outer x_image x_block",
    "y_w y_h y_outer y_image y_block",
    "r_w r_h r_outer r_image r_block",
)


@dataclass(frozen=True)
class StrassenSpec(KernelSpec):
    """Kernel with `blocks` vectors of filters by `width` pixels in registers; a group of filters has twice as many.

    `flat_x`, `flat_y`: the distance from pixel to pixel is the same throughout x, or y and the residual. `odd_x`,
    `odd_y`: halves have a vector more than there is.
    """

    blocks: int
    width: int
    flat_x: bool
    flat_y: bool
    residual: bool
    activation: Activation
    odd_x: bool = False
    odd_y: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        names = ("x", "weights", "channel_scales", "filter_scales", "bias", "residual", "y")
        return (*float_pointers(names, ("residual", "y")), *numbers_named(NUMBERS))

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


@dataclass
class _Pixel:
    """Offsets of a pixel, and the place of its factor in scratch."""

    offsets: dict[str, Value]
    factor: Pointer


@dataclass
class _Pair:
    """A pair of pixels: its tile's number in the band, its own in the tile, the tile's pairs, the even and odd one."""

    tile: Value
    number: Value
    count: Value
    pixels: tuple[_Pixel, _Pixel]


class _Emitter:
    def __init__(self, spec: StrassenSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.row = spec.blocks * lanes
        self.half = k.number("half")
        self.quarter = self.half * (spec.width * lanes)  # numbers of one sum of x, of a tile
        self.product = spec.width * self.row  # numbers of one product of a tile
        self.sums = k.scratch.cast(F32)
        self.products = self.sums + k.number("band") * self.quarter * PRODUCTS
        self.factors = self.products + k.number("band") * (self.product * PRODUCTS)

    def run(self) -> None:
        k = self.k
        bands, runs = k.number("bands"), k.number("runs")
        last = k.variable(k.integer(-1))
        for item in k.range(k.begin, k.end):
            place, run = item // runs, item % runs
            image, band = place // bands, place % bands
            self.first = band * k.number("band")
            self.last = k.min_drop_nan(self.first + k.number("band"), k.number("tiles"))
            with k.when(place.differs(last.value)):
                self.transform(image)
            last.value = place
            begin = run * k.number("run")
            for group in k.range(begin, k.min_drop_nan(begin + k.number("run"), k.number("groups"))):
                self.multiply(group)
                self.finish(image, group)

    def tiles(self) -> Iterator[tuple[Value, int]]:
        """Emit loops over tiles of the band; yields (number in the band, pairs of pixels)."""
        k, wide, width = self.k, self.k.number("wide"), self.spec.width
        for tile in k.range(self.first, k.min_drop_nan(self.last, wide)):
            yield tile - self.first, width
        if width > 1:
            for tile in k.range(k.max_drop_nan(self.first, wide), self.last):
                yield tile - self.first, width - 1

    def pairs(self, names: Sequence[str], image: Value, flat: bool) -> Iterator[_Pair]:
        """Emit loops over the band's pairs of pixels, tile by tile. Where the odd one is missing at the end, it is the
        even one again."""
        k, narrow, wide = self.k, self.k.number("narrow"), self.k.number("wide")
        start = self.first * narrow + k.min_drop_nan(self.first, wide)
        bases = {name: image * k.number(f"{name}_image") for name in names}
        walk = PixelWalk(k, start * 2, bases, names if flat else (), True)
        for tile in k.range(self.first, self.last):
            count = k.select(tile < wide, k.integer(self.spec.width), narrow)
            begin, inside = tile * narrow + k.min_drop_nan(tile, wide), tile - self.first
            for pair in k.range(0, count):
                even, odd = walk.take(2, k.number(f"{names[0]}_w"))
                exists = (begin + pair) * 2 + 1 < k.number("pixels")
                odd = {name: k.select(exists, odd[name], even[name]) for name in names}
                factors = self.factors + (inside * self.spec.width + pair) * 2
                yield _Pair(inside, pair, count, (_Pixel(even, factors), _Pixel(odd, factors + 1)))

    # ---- sums of x ------------------------------------------------------------------------------------------------

    def transform(self, image: Value) -> None:
        k, lanes, scales = self.k, self.lanes, self.k.pointer("channel_scales")
        for pair in self.pairs(("x",), image, self.spec.flat_x):
            rows = [k.pointer("x") + pixel.offsets["x"] for pixel in pair.pixels]
            factors, masks = self.factors_of(rows, pair.pixels)
            to = self.sums + (pair.tile * self.quarter * PRODUCTS + pair.number * lanes)
            for block in k.range(0, self.half):
                quarters = []
                for at in (block, block + self.half):
                    scale, offset = scales.load(at * lanes, lanes), self.channels_at(at)
                    for row, factor, mask in zip(rows, factors, masks, strict=True):
                        value = ((row + offset).load(0, lanes) * scale).bits(I32) & mask
                        quarters.append(value.bits(F32) * factor)
                place = to + block * pair.count * lanes
                for index, value in enumerate(input_sums(*quarters)):
                    (place + self.quarter * index).store(value)

    def channels_at(self, block: Value) -> Value:
        """Offset of a vector of channels in x: of the last one for that which is lacking, whose scale is 0."""
        k = self.k
        if self.spec.odd_x:
            block = k.min_drop_nan(block, k.number("channel_blocks") - 1)
        return block * k.number("x_block")

    def factors_of(
        self, rows: Sequence[Pointer], pixels: Sequence[_Pixel]
    ) -> tuple[list[Value], list[Value]]:
        """Write by how much the products of each pixel are multiplied, a power of two, and return the reciprocals, and
        masks, in all lanes: of a pixel that is not finite NaN, and 0 in all bits."""
        k, lanes, scales = self.k, self.lanes, self.k.pointer("channel_scales")
        zero = k.constant(I32, 0, lanes)
        largest = [[k.variable(zero) for _ in range(2)] for _ in rows]
        for block in k.range(0, self.half):
            for half, at in enumerate((block, block + self.half)):
                offset, scale = self.channels_at(at), scales.load(at * lanes, lanes)
                for row, most in zip(rows, largest, strict=True):
                    size = ((row + offset).load(0, lanes) * scale).bits(I32) & _SIZE
                    most[half].value = k.maximum(most[half].value, size)
        factors, masks = [], []
        for (near, far), pixel in zip(largest, pixels, strict=True):
            size = k.reduce(k.maximum(near.value, far.value), "maximum")
            exponent = k.minimum(k.maximum(size >> 23, 1), 253)
            is_finite = size < _INFINITY
            pixel.factor.store(k.select(is_finite, exponent << 23, _NAN).bits(F32))
            factors.append(k.splat(((k.constant(I32, 254) - exponent) << 23).bits(F32), lanes))
            masks.append(k.splat(k.select(is_finite, k.constant(I32, -1), 0), lanes))
        return factors, masks

    # ---- products -------------------------------------------------------------------------------------------------

    def multiply(self, group: Value) -> None:
        k, row, chunk = self.k, self.row * self.lanes, self.k.number("chunk")
        slab = k.pointer("weights") + group * self.half * (row * PRODUCTS)
        for index in k.range(0, PRODUCTS):
            for begin in k.range(0, self.half, chunk):
                count = k.min_drop_nan(chunk, self.half - begin)
                weights = slab + (index * self.half + begin) * row
                for tile, pairs in self.tiles():
                    sums = self.sums + (tile * PRODUCTS + index) * self.quarter
                    kept = self.products + (tile * PRODUCTS + index) * self.product
                    x = sums + begin * (pairs * self.lanes)
                    coming = weights.offset_unchecked(chunk * row + tile * count * (AHEAD * LINE))
                    self.tile(x, weights, coming, kept, count, pairs, begin)

    def tile(
        self,
        x: Pointer,
        weights: Pointer,
        coming: Pointer,
        kept: Pointer,
        count: Value,
        pairs: int,
        begin: Value,
    ) -> None:
        """Add a chunk's products to those of a tile. `coming`: weights of the next chunk, which it prefetches."""
        k, lanes, blocks = self.k, self.lanes, self.spec.blocks
        zero = k.constant(F32, 0.0, lanes)
        sums = [[k.variable(zero) for _ in range(blocks)] for _ in range(pairs)]
        source, right, ahead = k.cursor(x), k.cursor(weights), k.cursor(coming)
        for _ in k.range(0, count):
            for line in range(AHEAD):
                k.prefetch(ahead.at, line * LINE, level=2)
            ahead.move(AHEAD * LINE)
            for channel in range(lanes):
                vectors = [right.at.load(channel * self.row + o * lanes, lanes) for o in range(blocks)]
                for pair, totals in enumerate(sums):
                    spread = source.at.broadcast(pair * lanes + channel, lanes)
                    for vector, total in zip(vectors, totals, strict=True):
                        total.value = k.fma(spread, vector, total.value)
            source.move(pairs * lanes)
            right.move(self.row * lanes)
        every = [total for totals in sums for total in totals]
        with k.when(begin.differs(0)):
            for index, total in enumerate(every):
                total.value = total.value + kept.load(index * lanes, lanes)
        for index, total in enumerate(every):
            kept.store(total.value, index * lanes)

    # ---- results --------------------------------------------------------------------------------------------------

    def finish(self, image: Value, group: Value) -> None:
        k, lanes, blocks = self.k, self.lanes, self.spec.blocks
        names = ("y", "r") if self.spec.residual else ("y",)
        first = group * (2 * blocks)
        for pair in self.pairs(names, image, self.spec.flat_y):
            kept = self.products + (pair.tile * (PRODUCTS * self.product) + pair.number * self.row)
            for o in range(blocks):
                found = [kept.load(index * self.product + o * lanes, lanes) for index in range(PRODUCTS)]
                quarters = output_sums(*found)
                # The odd pixel first: where there is none, it has the even one's place.
                if not self.spec.odd_y:
                    self.store(
                        pair, [(quarters[n], n % 2, first + (o + n // 2 * blocks)) for n in (1, 3, 0, 2)]
                    )
                    continue
                for half in range(2):
                    block = first + (o + half * blocks)
                    with k.when(block < k.number("filter_blocks")):
                        self.store(pair, [(quarters[2 * half + n], n, block) for n in (1, 0)])

    def store(self, pair: _Pair, parts: Sequence[tuple[Value, int, Value]]) -> None:
        """Store quarters of y, each with the number of its pixel and its block of filters."""
        k, block_step = self.k, self.k.number("y_block")
        found = [(value, pair.pixels[number], block) for value, number, block in parts]
        values = [self.added(*part) for part in found]
        places = [
            Destination(k.pointer("y") + (pixel.offsets["y"] + block * block_step))
            for _, pixel, block in found
        ]
        store_activated(k, self.spec.activation, places, values)

    def added(self, value: Value, pixel: _Pixel, block: Value) -> Value:
        """The result in a block of filters, before the activation."""
        k, lanes = self.k, self.lanes
        scale, bias = (k.pointer(name).load(block * lanes, lanes) for name in ("filter_scales", "bias"))
        value = k.fma(value, scale * pixel.factor.broadcast(0, lanes), bias)
        if self.spec.residual:
            place = k.pointer("residual") + (pixel.offsets["r"] + block * k.number("r_block"))
            value = value + place.load(0, lanes)
        return value


def input_sums(a: Value, b: Value, c: Value, d: Value) -> tuple[Value, ...]:
    """The factors that x has in the seven products, from its quarters: first channels at even and odd pixels, second
    channels at these."""
    first = b - a
    second = d - first
    return a, c, d, second - c, first, second, d - b


def output_sums(*p: Value) -> tuple[Value, Value, Value, Value]:
    """The quarters of y from the seven products: first filters at even and odd pixels, second filters at these."""
    both = p[0] + p[5]
    third = both + p[6]
    return p[0] + p[1], both + p[4] + p[2], third - p[3], third + p[4]
