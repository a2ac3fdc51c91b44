"""float32 as the sum of two float16 parts: regions of a map, scaled by a power of two that fits each.

    item = region (image, band of output rows), channel block                              emitted
      largest and least size of its pixels, a pixel's being its largest |x|
    item = the same
      2^-e brings the largest of all blocks of the region below 2^15
      high = float16(x 2^-e), low = float16(x 2^-e - high)

A number x of a region whose largest is m loses at most max(2^-22 |x|, 2^-39 m): float16 has 11 bits from 2^-14 on, and
multiples of 2^-24 below. That is 2^-15 of its pixel's size if this is at least 2^-24 m (pixels of zeros lose nothing).
A region with a pixel below that, an infinity or a NaN is *kept whole*: its parts are the upper and the lower 16 bits
of float32, and its exponent e is `WHOLE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F16, F32, I32, U16, U32, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import Argument, Call, KernelSpec, View, float_pointers, numbers_named, pointers_to
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.parts.regions import CHANNELS, PARTS, Regions

Masks = Sequence[Value | None]
"""Masks of the vectors of a block: which channels there are; None: all."""
_ITEM_ELEMENTS = 128 << 10  # that a thread should take at a time: some 50 us
WHOLE = 1 << 10  # above all exponents
_SPREAD = 24  # powers of two between the largest and the least size of pixels
LARGEST_SCALE = 126  # the exponent of the largest power of two that float32 can divide by
_NUMBERS = split_words(
    "x_image x_block x_h x_w height width channels blocks bands band rows pitch room "
    "stride_h stride_w phases_h phases_w pad_h pad_w"
)


def region_exponent(k: Kernel, sizes: Pointer, region: Value) -> Value:
    """The exponent of a region, from the sizes of its blocks' pixels."""
    largest, least = k.variable(k.constant(U32, 0)), k.variable(k.constant(U32, 0xFFFFFFFF))
    for block in k.range(0, k.number("blocks")):
        place = (region * k.number("blocks") + block) * 2
        largest.value = k.maximum(largest.value, sizes.load(place))
        least.value = k.minimum(least.value, sizes.load(place + 1))
    power = (largest.value >> 23).bits(I32)  # 127 above the number's; 0 for denormals
    is_wide = (least.value + (_SPREAD << 23)) < largest.value
    is_wide = is_wide & least.value.differs(0xFFFFFFFF)
    exponent = k.maximum(power - (127 + 14), k.constant(I32, -LARGEST_SCALE))
    return k.select((power >= 255) | is_wide, k.constant(I32, WHOLE), exponent)


@dataclass(frozen=True)
class _RegionsSpec(KernelSpec):
    """Kernel that reads blocks of `lanes` channels. `ragged`: their number is no multiple of a region's block."""

    lanes: int
    ragged: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = (*float_pointers(("x",)), *pointers_to(U16, "parts"), *pointers_to(U32, "sizes"))
        return (*pointers, *numbers_named(_NUMBERS))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            region, block = item // n("blocks"), item % n("blocks")
            image, band = region // n("bands"), region % n("bands")
            x = k.pointer("x") + image * n("x_image") + block * (CHANNELS // self.lanes) * n("x_block")
            top = band * n("band") * n("stride_h") - n("pad_h")
            self.block(k, x, top, item, self.masks(k, block))
        return k

    def block(self, k: Kernel, x: Pointer, top: Value, item: Value, masks: Masks) -> None:
        """Emit the work on one block of a region, whose first row is row `top` of x."""
        raise NotImplementedError

    def masks(self, k: Kernel, block: Value) -> Masks:
        """Return the masks of a block's vectors."""
        vectors = range(0, CHANNELS, self.lanes)
        if not self.ragged:
            return [None for _ in vectors]
        left = k.number("channels") - block * CHANNELS
        return [k.tail_mask(left - first, self.lanes) for first in vectors]

    def loaded(self, k: Kernel, place: Pointer, masks: Masks) -> list[Value]:
        """Load a pixel's vectors; there is no memory for those without a channel."""
        return [
            place.offset_unchecked(k.number("x_block") * index).load(0, self.lanes, mask)
            for index, mask in enumerate(masks)
        ]


class PixelSizesSpec(_RegionsSpec):
    """Kernel that finds the largest and the least size of a block's pixels, as the bits of float32: NaN is larger than
    infinity. The least is 1 lower, so that pixels of zeros count as the largest of all."""

    def block(self, k: Kernel, x: Pointer, top: Value, item: Value, masks: Masks) -> None:
        n = k.number
        seen = (n("rows") - 1) * n("stride_h") + n("phases_h")
        first = k.max_drop_nan(top, k.integer(0))
        last = k.min_drop_nan(top + seen, n("height"))
        largest, least = k.variable(k.constant(U32, 0)), k.variable(k.constant(U32, 0xFFFFFFFF))
        for row in k.range(first, last):
            for w in k.range(0, n("width")):
                loaded = self.loaded(k, x + (row * n("x_h") + w * n("x_w")), masks)
                bits = [value.bits(U32) & 0x7FFFFFFF for value in loaded]
                size = k.reduce(reduce(k.maximum, bits), "maximum")
                largest.value = k.maximum(largest.value, size)
                least.value = k.minimum(least.value, size - 1)
        k.pointer("sizes").store(largest.value, item * 2)
        k.pointer("sizes").store(least.value, item * 2 + 1)


class SplitRegionsSpec(_RegionsSpec):
    """Kernel that splits a block into both parts."""

    def block(self, k: Kernel, x: Pointer, top: Value, item: Value, masks: Masks) -> None:
        n = k.number
        exponent = region_exponent(k, k.pointer("sizes"), item // n("blocks"))
        to = k.pointer("parts") + item * (n("room") * (PARTS * CHANNELS))
        is_split = exponent < WHOLE
        scale = k.select(is_split, (127 - exponent) << 23, k.constant(I32, 0)).bits(F32)
        rows, phases_w = n("rows"), n("phases_w")
        for line in k.range(0, n("phases_h") * phases_w * rows):
            phase, row = line // rows, line % rows
            phase_h, phase_w = phase // phases_w, phase % phases_w
            h = top + row * n("stride_h") + phase_h
            inside = (h >= 0) & (h < n("height"))
            left = n("pad_w") - phase_w  # columns of x, counted from 0, begin here, in steps of the stride
            first = k.select(inside, k.max_drop_nan(_divided_up(k, left), k.integer(0)), n("pitch"))
            first = k.min_drop_nan(first, n("pitch"))
            last = k.min_drop_nan(_divided_up(k, left + n("width")), n("pitch"))
            last = k.max_drop_nan(last, first)
            line_to = to + line * n("pitch") * CHANNELS
            self._clear(k, line_to, k.integer(0), first)
            source = (x + h * n("x_h")).offset_unchecked(-left * n("x_w"))
            step = n("stride_w") * n("x_w")
            for splits in (True, False):
                with k.when(is_split if splits else ~is_split):
                    for w in k.range(first, last):
                        loaded = self.loaded(k, source.offset_unchecked(w * step), masks)
                        at = line_to + w * CHANNELS
                        for index, value in enumerate(loaded):
                            high, low = _split(value * scale) if splits else _halves(value)
                            at.store(high, index * self.lanes)
                            (at + n("room") * CHANNELS).store(low, index * self.lanes)
            self._clear(k, line_to, last, n("pitch"))
        # What positions read behind the last row, as the padding to its right or to be dropped.
        self._clear(k, to, n("phases_h") * phases_w * rows * n("pitch"), n("room"))

    def _clear(self, k: Kernel, to: Pointer, first: Value, last: Value) -> None:
        """Write zeros to both parts of pixels."""
        zero = k.constant(U16, 0, CHANNELS)
        for w in k.range(first, last):
            to.store(zero, w * CHANNELS)
            to.store(zero, (w + k.number("room")) * CHANNELS)


def _divided_up(k: Kernel, count: Value) -> Value:
    """A number of columns, which may be negative, in steps of the stride, rounded up (or, below zero, to zero)."""
    return (count + (k.number("stride_w") - 1)) // k.number("stride_w")


def _split(value: Value) -> tuple[Value, Value]:
    """The bits of both parts of scaled numbers."""
    high = value.to(F16)
    return high.bits(U16), (value - high.to(F32)).to(F16).bits(U16)


def _halves(value: Value) -> tuple[Value, Value]:
    """The upper and the lower bits of numbers."""
    bits = value.bits(U32)
    return (bits >> 16).to(U16), (bits & 0xFFFF).to(U16)


def split_calls(regions: Regions, x: View, parts: View, sizes: View) -> Iterator[Call]:
    """Yield the calls that split x, in blocks, into regions."""
    shape, lanes = regions.shape, x.layout.lanes
    x_image, x_block, _, x_h, _ = deep_strides(x)
    words: dict[str, Argument] = {
        "x": x,
        "parts": parts,
        "sizes": sizes,
        "x_image": x_image,
        "x_block": x_block,
        "x_h": x_h,
        "x_w": deep_strides(x)[4],
        "height": shape.size[1],
        "width": shape.size[2],
        "channels": shape.channels,
        "blocks": regions.blocks,
        "bands": regions.bands,
        "band": regions.band,
        "rows": regions.rows,
        "pitch": regions.pitch,
        "room": regions.room,
        "stride_h": shape.strides[1],
        "stride_w": shape.strides[2],
        "phases_h": regions.phases[0],
        "phases_w": regions.phases[1],
        "pad_h": shape.pads[1][0],
        "pad_w": shape.pads[2][0],
    }
    ragged = shape.channels % CHANNELS > 0
    grain = maximum(1, _ITEM_ELEMENTS // maximum(1, regions.room * CHANNELS))
    for spec in (PixelSizesSpec(lanes, ragged), SplitRegionsSpec(lanes, ragged)):
        yield Call.named(spec, words, regions.count * regions.blocks, grain)
