"""Convolutions by products of float16 parts on tiles: float32 as accurate as its own sums.

    item = region (image, band of output rows), share of the groups of 32 filters         emitted
      for group of filters, for 32 positions of the band:                                 emitted
        for channel block, for tap:                                                       emitted
          2 x 2 tiles += low(x) high(w), high(x) high(w), high(x) low(w)                  12 products, 8 loads
        y = activation((sums 2^-(e + f)) + bias + residual), of the positions that are outputs

The product of both low parts, at most 2^-22 of |x w|, is left out. A sum is off by at most

    2^-20 sum |x w| + 2^-38 (max |x| sum |w| + max |w| sum |x|)  and the roundings of its additions in float32,

max |x| over the region, at most 2^24 times the largest number of any pixel's block (`split`), and max |w| over the
filter; a plain float32 sum of n terms by n 2^-24 sum |x w|. Nothing overflows that is not too large for float32 itself:
scaled sums are below 2^30 times their terms. A region kept whole is summed in float32 multiply-adds, with x as it is
and w as the sum of its parts.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import ROW, ROWS, SQUARE, WORDS, Tiles, clear_square, store_square
from cenote.codegen.values import F16, F32, I32, I64, U16, U32, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation, Destination, store_activated
from cenote.kernels.parts.regions import CHANNELS, FILTERS, PARTS, POSITIONS
from cenote.kernels.parts.split import WHOLE, region_exponent

SCRATCH = 4 * POSITIONS * FILTERS  # bytes: the sums of an item's step
TILE_WORDS = ROWS * WORDS
# Words of the weights of a channel block and a tap: [part][tile][pair][filter].
ENTRY = PARTS * 2 * TILE_WORDS
# Products of parts of x and of w, in an order in which each but the first finds one side in its tiles.
_STEPS = ((1, 0), (0, 0), (0, 1))
_NUMBERS = split_words(
    "blocks taps room pairs pitch band bands share shares groups vectors columns out_w out_h "
    "y_image y_block y_h y_w r_image r_block r_h r_w"
)


@dataclass(frozen=True)
class ConvPartsSpec(KernelSpec):
    """Kernel of products of parts that writes blocks of `lanes` filters. `way`: that of `codegen.tiles`; `clip`: y is a
    plain matrix whose columns past `columns` are not touched."""

    lanes: int
    residual: bool
    activation: Activation
    way: str
    clip: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(U16, "parts"),
            *pointers_to(U32, "sizes"),
            *pointers_to(I32, "weights", "filter_exponents", "places"),
            *float_pointers(("bias", "residual", "y"), ("residual", "y")),
            *numbers_named(_NUMBERS),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        with k.tiles("f16", self.way) as t:
            _Emitter(self, k, t).run()
        return k


class _Emitter:
    def __init__(self, spec: ConvPartsSpec, k: Kernel, t: Tiles) -> None:
        self.spec, self.k, self.t, self.lanes = spec, k, t, spec.lanes
        self.sums = k.scratch.cast(F32)

    def run(self) -> None:
        k, n = self.k, self.k.number
        region_elements = n("blocks") * n("room") * (PARTS * CHANNELS)
        for item in k.range(k.begin, k.end):
            region, share = item // n("shares"), item % n("shares")
            exponent = region_exponent(k, k.pointer("sizes"), region)
            is_split = exponent < WHOLE
            parts = k.pointer("parts") + region * region_elements
            last = k.min_drop_nan((share + 1) * n("share"), n("groups"))
            for group in k.range(share * n("share"), last):
                weights = k.pointer("weights") + group * (n("blocks") * n("taps") * ENTRY)
                for pair in k.range(0, n("pairs")):
                    first = pair * POSITIONS
                    with k.when(is_split):
                        self.multiply(parts + first * CHANNELS, weights)
                    with k.unless(is_split):
                        self.sum_plainly(parts + first * CHANNELS, weights, group)
                    undoing = k.select(is_split, exponent, k.constant(I32, 0))
                    self.finish(region, group, first, undoing, is_split)

    # ---- sums ---------------------------------------------------------------------------------------------------

    def multiply(self, parts: Pointer, weights: Pointer) -> None:
        """Leave the sums of 32 positions and 32 filters, by tiles, in scratch."""
        k, n, t = self.k, self.k.number, self.t
        clear_square(t)
        at = k.cursor(weights)
        for block in k.range(0, n("blocks")):
            source = parts + block * (n("room") * (PARTS * CHANNELS))
            for tap in k.range(0, n("taps")):
                x = source + k.pointer("places").load(tap).to(I64) * CHANNELS
                self._entry(x, at.at)
                at.move(ENTRY)
        store_square(t, self.sums)

    def _entry(self, x: Pointer, w: Pointer) -> None:
        """All products of a channel block at a tap; a tile is loaded just before its first use."""
        part_of_x = self.k.number("room") * CHANNELS
        held: dict[int, int] = {}  # tile: the part in it
        for x_part, w_part in _STEPS:
            for total, left, right in SQUARE:
                if held.get(left) != x_part:
                    place = x + part_of_x if x_part else x
                    self.t.load(left, place + (left - 4) * ROWS * CHANNELS, ROW)
                if held.get(right) != w_part:
                    self.t.load(right, w + (2 * w_part + right - 6) * TILE_WORDS, ROW)
                held |= {left: x_part, right: w_part}
                self.t.dot(total, left, right)

    def sum_plainly(self, parts: Pointer, weights: Pointer, group: Value) -> None:
        """Leave the sums of a region kept whole in scratch."""
        k, n = self.k, self.k.number
        for position in k.range(0, POSITIONS):
            for tile in k.range(0, 2):
                exponents = k.pointer("filter_exponents").load(group * FILTERS + tile * WORDS, WORDS)
                scale = _power(exponents)
                total, at = k.variable(k.constant(F32, 0.0, WORDS)), k.cursor(weights + tile * TILE_WORDS)
                for block in k.range(0, n("blocks")):
                    source = parts + (block * (n("room") * (PARTS * CHANNELS)) + position * CHANNELS)
                    for tap in k.range(0, n("taps")):
                        x = source + k.pointer("places").load(tap).to(I64) * CHANNELS
                        for pair in k.range(0, ROWS):
                            upper = (x + pair * 2).cast(U32).load(0)
                            lower = (x + (n("room") * CHANNELS + pair * 2)).cast(U32).load(0)
                            numbers = (upper << 16) | (lower & 0xFFFF), (upper & 0xFFFF0000) | (lower >> 16)
                            rows = [
                                at.at.load(part * 2 * TILE_WORDS + pair * WORDS, WORDS) for part in (0, 1)
                            ]
                            for half, number in enumerate(numbers):
                                w = _number(rows[0], half) + _number(rows[1], half)
                                spread = k.splat(number.bits(F32), WORDS)
                                total.value = k.fma(spread, w * scale, total.value)
                        at.move(ENTRY)
                self.sums.store(total.value, position * FILTERS + tile * WORDS)

    # ---- results ------------------------------------------------------------------------------------------------

    def finish(self, region: Value, group: Value, first: Value, exponent: Value, is_split: Value) -> None:
        """Write 32 filters of the positions from `first` on that are outputs."""
        k, n, lanes = self.k, self.k.number, self.lanes
        image, top = region // n("bands"), region % n("bands") * n("band")
        first_row, first_column = first // n("pitch"), first % n("pitch")
        each = FILTERS // lanes
        vectors = k.min_drop_nan(n("vectors") - group * each, k.integer(each))
        # The last band's rows end with the map.
        rows = k.min_drop_nan(n("band"), n("out_h") - top)
        for vector in k.range(0, vectors):
            filters = group * FILTERS + vector * lanes
            scales = self._scales(filters, exponent, is_split)
            bias = k.pointer("bias").load(filters, lanes)
            mask = k.tail_mask(n("columns") - filters, lanes) if self.spec.clip else None
            places = {
                name: image * n(f"{name}_image") + (group * each + vector) * n(f"{name}_block")
                for name in ("y", "r")
            }
            row, column = k.variable(first_row), k.variable(first_column)
            for position in k.range(0, POSITIONS):
                is_output = (row.value < rows) & (column.value < n("out_w"))
                with k.when(is_output):
                    sums = self.sums.load(position * FILTERS + vector * lanes, lanes)
                    result = k.fma(sums * scales[0], scales[1], bias)
                    at = {
                        name: start + ((top + row.value) * n(f"{name}_h") + column.value * n(f"{name}_w"))
                        for name, start in places.items()
                    }
                    if self.spec.residual:
                        result = result + k.pointer("residual").load(at["r"], lanes, mask)
                    place = Destination(k.pointer("y") + at["y"], mask)
                    store_activated(k, self.spec.activation, [place], [result])
                following = column.value + 1
                ends = following.equals(n("pitch"))
                column.value = k.select(ends, k.integer(0), following)
                row.value = k.select(ends, row.value + 1, row.value)

    def _scales(self, filters: Value, exponent: Value, is_split: Value) -> tuple[Value, Value]:
        """Two powers of two whose product undoes the scales: their exponents may add up to 252."""
        k, lanes = self.k, self.lanes
        exponents = k.pointer("filter_exponents").load(filters, lanes) + k.splat(exponent, lanes)
        exponents = k.select(k.splat(is_split, lanes), exponents, k.constant(I32, 0, lanes))
        return _power(exponents >> 1), _power(exponents - (exponents >> 1))


def _power(exponents: Value) -> Value:
    """2 to exponents between -126 and 127."""
    return ((exponents + 127) << 23).bits(F32)


def _number(words: Value, half: int) -> Value:
    """One of both float16 numbers of words, in float32."""
    return (words.bits(U32) >> (16 * half)).to(U16).bits(F16).to(F32)
