"""Direct convolution of bytes: the nest of `conv/direct.py`, four channels at a time, sums in 32 bits, which are exact.

    y = saturate(round((sum + bias) * scale) + zero point)     bytes
    y = sum + bias                                             int32
    y = activation(float32(sum + bias) * scale + added)        float32

x is u8, or s8 whose highest bit is flipped as it is loaded. The weights are s8, their zero point taken off; what x's
zero point adds to a sum is the same for all pixels, as the padding holds it, too, and is a part of the bias. Sums wrap
around in 32 bits, as ONNX's integer operators say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES, WIDE, Dots, weight_type
from cenote.codegen.values import F32, I8, I16, I32, I64, U8, Pointer, Scalar, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.conv.direct import TABLE, ConvDirectSpec, DirectEmitter, Pixel, PixelWalk, TapChunk
from cenote.kernels.conv.weights_ahead import WORD
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.requantize import store_requantized
from cenote.kernels.quantized.residual import residual_words, with_residual
from cenote.kernels.quantized.widened import COPY_NUMBERS, copy_pixels

_COUNTS = (
    "entries chunk wide tiles band bands narrow filter_groups per_group groups_inside out_w out_h slab zero"
)
_STEPS = "w h outer image group"
NUMBERS = (
    *_COUNTS.split(),
    *(f"{side}_{axis}" for side in "xy" for axis in _STEPS.split()),
    *("y_block", "weights_image", "bias_group", WORD),
)
RESIDUAL_NUMBERS = tuple(f"r_{axis}" for axis in (*_STEPS.split(), "block"))


class Levels(NamedTuple):
    """The least and the largest number of a quantised result, from its zero point, and that."""

    low: int
    high: int
    zero: int


@dataclass(frozen=True)
class ConvQuantizedSpec(KernelSpec):
    """Kernel of bytes. `dots`: the way of `codegen.dots`, x has 16 bits for "wide"; `copies`: x is bytes even so, of
    which each thread copies the pixels of a band to scratch memory; `signed`: x is s8; `quads`: groups of four channels
    per tap; `short`: the last two channels of a tap fill it, and "wide" leaves them out; `y`: the result's type;
    `added`: whether floats have a bias of floats, before the `activation`; `residual`: bytes of y's type are added as
    `residual` says, `short_sum`: by two multiply-adds; the other fields as in ConvDirectSpec."""

    dots: str
    signed: bool
    y: np.dtype[Any]
    blocks: int
    width: int
    quads: int
    flat_x: bool
    flat_y: bool
    joined: bool = False
    added: bool = False
    activation: Activation = field(default_factory=Activation)
    residual: bool = False
    short_sum: bool = False
    copies: bool = False
    short: bool = False

    # What the emitter of float32's direct convolution asks of its spec, and bytes do not have.
    clip = False
    ragged = False
    ranged = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(self._x, "x"),
            *pointers_to(weight_type(self.dots), "weights"),
            *pointers_to(I32, "bias"),
            *pointers_to(F32, "scales"),
            *(pointers_to(F32, "added") if self.added else ()),
            *(pointers_to(Scalar.of(self.y), "residual", may_alias=True) if self.residual else ()),
            *pointers_to(Scalar.of(self.y), "y", may_alias=self.residual),
            TABLE,
            *numbers_named(NUMBERS),
            Parameter("low", F32),
            Parameter("high", F32),
            *((*numbers_named(RESIDUAL_NUMBERS), *residual_words(self.short_sum)) if self.residual else ()),
            *(numbers_named(COPY_NUMBERS) if self.copies else ()),
        )

    @property
    def _x(self) -> Scalar:
        if self.copies:
            return I8 if self.signed else U8
        return I16 if self.dots == WIDE else U8

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


class _Emitter(DirectEmitter):
    def __init__(self, spec: ConvQuantizedSpec, k: Kernel, lanes: int) -> None:
        # The pixels of a copy lie one after the other.
        super().__init__(cast(ConvDirectSpec, replace(spec, flat_x=spec.flat_x or spec.copies)), k, lanes)
        self.quantized = spec
        self.dots = Dots(k, spec.dots, lanes)
        if spec.copies:
            self.x = (k.scratch + k.number("kept")).cast(I16)

    def run(self) -> None:
        if not self.quantized.copies:
            super().run()
            return
        k, bands, groups = self.k, self.k.number("bands"), self.k.number("filter_groups")
        held = k.variable(k.integer(-1))  # the band whose copy is at hand
        for item in k.range(k.begin, k.end):
            place, group = item // groups, item % groups
            image, band = place // bands, place % bands
            with k.when(place.differs(held.value)):
                self.copy(image, band)
            held.value = place
            self.item(image, band, group)

    def copy(self, image: Value, band: Value) -> None:
        """Copy the pixels of a band as numbers of 16 bits."""
        k = self.k
        first, end = (
            tile * k.number("narrow") + k.min_drop_nan(tile, k.number("wide"))
            for tile in (
                band * k.number("band"),
                k.min_drop_nan((band + 1) * k.number("band"), k.number("tiles")),
            )
        )
        flat = ("s",) * self.quantized.flat_x
        walk = PixelWalk(k, first, {"s": image * k.number("s_image")}, flat, self.quantized.joined)
        copy_pixels(k, walk, end - first, self.x, self.lanes)

    def x_base(self, base: Value, start: Value) -> Value:
        return base - start * self.lanes if self.quantized.copies else base

    @property
    def per_entry(self) -> int:
        """Number of a tap's weights."""
        return self.quantized.quads * BYTES * self.row

    def weights_from(self, taps: TapChunk) -> Pointer:
        return taps.slab + taps.begin * self.per_entry

    def tile(self, walk: PixelWalk, width: int, taps: TapChunk, tile: Value) -> None:
        k, lanes = self.k, self.lanes
        pixels = list(self.pixels(walk, width))
        accumulators = [
            [k.variable(k.constant(I32, 0, lanes)) for _ in range(self.spec.blocks)] for _ in pixels
        ]
        every = [accumulator for row in accumulators for accumulator in row]
        kept = k.scratch.cast(I32) + (tile - self.first_tile) * (self.spec.width * self.row)
        is_first = taps.begin.equals(0)
        with k.when(is_first):
            for row in accumulators:
                for block, accumulator in enumerate(row):
                    accumulator.value = self.bias.load(block * lanes, lanes)
        with k.unless(is_first):
            for place, accumulator in enumerate(every):
                accumulator.value = kept.load(place * lanes, lanes)
        self.ahead = self.weights_ahead(self.weights_from(taps), tile, self.per_entry)
        self.multiply_taps(accumulators, [self.x + pixel.x for pixel in pixels], taps)
        with k.when(taps.is_last):
            self.finish(accumulators, pixels)
        with k.unless(taps.is_last):
            for place, accumulator in enumerate(every):
                kept.store(accumulator.value, place * lanes)

    def multiply_taps(
        self, accumulators: Sequence[Sequence[Variable]], origins: Sequence[Pointer], taps: TapChunk
    ) -> None:
        """Add the products of a chunk's taps."""
        k, weights = self.k, self.k.cursor(self.weights_from(taps))
        for entry in k.range(taps.begin, taps.end):
            offset = k.pointer("table").load(entry).to(I64)
            for quad in range(self.quantized.quads):
                self.ahead.ask(BYTES * self.row)
                self.multiply_quad(
                    accumulators, [origin + offset + quad * BYTES for origin in origins], weights, quad
                )
            weights.move(self.per_entry)

    def multiply_quad(
        self,
        accumulators: Sequence[Sequence[Variable]],
        places: Sequence[Pointer],
        weights: Cursor,
        quad: int,
    ) -> None:
        """Add the products of four channels of one tap."""
        step = BYTES * self.lanes
        first = quad * self.spec.blocks * step
        ends_early = self.quantized.short and quad == self.quantized.quads - 1
        for parts in self.dots.stages[:1] if ends_early else self.dots.stages:
            vectors = [
                self.dots.weights(weights.at + (first + block * step), parts)
                for block in range(self.spec.blocks)
            ]
            for place, row in zip(places, accumulators, strict=True):
                spread = self.dots.spread(place, self.quantized.signed, parts)
                for vector, accumulator in zip(vectors, row, strict=True):
                    accumulator.value = self.dots.added(accumulator.value, spread, vector)

    def finish(self, accumulators: Sequence[Sequence[Variable]], pixels: Sequence[Pixel]) -> None:
        block, spec = self.k.number("y_block"), self.quantized
        for o in range(spec.blocks):
            result = self.result(o)
            values = [result(row[o].value, pixel) for pixel, row in zip(pixels, accumulators, strict=True)]
            places = [self.y + pixel.y + block * o for pixel in pixels]
            if spec.y.itemsize == 1:
                # Where sums take 12 of 16 registers, four vectors at a time make LLVM keep sums on the stack.
                most = 4 if self.k.target.registers > 16 else 2
                store_requantized(self.k, values, places, spec.flat_y, most)
                continue
            for place, value in zip(places, values, strict=True):
                place.store(value)

    def result(self, block: int) -> Callable[[Value, Pixel], Value]:
        """Return what makes elements of y of the sums of a block at a pixel; numbers at the scale of y where these are
        bytes."""
        k, lanes, spec = self.k, self.lanes, self.quantized
        if spec.y == np.int32:
            return lambda total, _: total
        scales = (k.pointer("scales") + self.filters).load(block * lanes, lanes)
        if spec.residual:
            return lambda total, pixel: with_residual(
                k, spec.short_sum, total.to(F32) * scales, self.residual(pixel, block)
            )
        if spec.y != np.float32:
            return lambda total, _: total.to(F32) * scales
        added = (k.pointer("added") + self.filters).load(block * lanes, lanes) if spec.added else None

        def floats(total: Value, _: Pixel) -> Value:
            scaled = total.to(F32) * scales
            return spec.activation.emit(k, scaled if added is None else scaled + added)

        return floats

    def residual(self, pixel: Pixel, block: int) -> Value:
        """Load what is added to a block's results at a pixel."""
        assert pixel.r is not None
        place = self.k.pointer("residual") + pixel.r
        return place.load(self.k.number("r_block") * block, self.lanes)
