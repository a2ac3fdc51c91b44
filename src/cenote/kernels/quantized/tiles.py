"""Convolution of bytes on tile registers (AMX): to the loops of `tile_loops.py` a position is an output pixel, and its
bytes are its window's.

A window's bytes are those of all its taps and blocks of channels, one after the other, so that few channels fill tiles
as well as many. Positions run through all images. Nothing beyond x and its halo is read, at any stride or dilation. A
tap's bytes are copied for each window that has them, an estimated 1.3 of 4.6 ms of ResNet-50's convolutions. Planes of
rows as in `bfloat/tiles.py`, from which neighbouring windows read the same copy, would have positions between rows:
the estimate is 0.4 ms less (59 of 142 us with 64 channels at 56 x 56, 17 of 91 with 256 at 14 x 14); not done.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.tiles import ROW, Tiles
from cenote.codegen.values import F32, I8, I32, I64, U8, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.requantize import requantized
from cenote.kernels.quantized.residual import residual_words, with_residual
from cenote.kernels.quantized.tile_cut import ENTRY, FILTERS, NUMBERS, SIDE
from cenote.kernels.quantized.tile_loops import TileLoops

_PLACES = "x", "y", "r"
STEPS = "image group outer h w"
CONV_NUMBERS = (
    *NUMBERS,
    *split_words("out_d out_h out_w y_block y_blocks"),
    *(f"{place}_{step}" for place in _PLACES[:2] for step in STEPS.split()),
)
RESIDUAL_NUMBERS = tuple(f"r_{step}" for step in (*STEPS.split(), "block"))
PLACE_BYTES = 16  # of a position: where its results and what is added to them lie


@dataclass(frozen=True)
class ConvQuantizedTilesSpec(KernelSpec):
    """Kernel of such convolutions. `tiles`: the way of `codegen.tiles`; `signed`: x is s8, not u8; `unit`: bytes of a
    block of channels, a power of two up to 64; `y`: the result's type, `added` and `activation`: as in
    ConvQuantizedSpec; `residual`: bytes of y's type are added as `residual` says, `short_sum`: by two multiply-adds."""

    tiles: str
    signed: bool
    unit: int
    y: np.dtype[Any]
    residual: bool
    short_sum: bool = False
    added: bool = False
    activation: Activation = field(default_factory=Activation)

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.y)
        return (
            *pointers_to(U8, "x"),
            *pointers_to(I8, "weights"),
            *pointers_to(I32, "bias"),
            *pointers_to(F32, "scales"),
            *(pointers_to(F32, "added") if self.added else ()),
            *(pointers_to(element, "residual", may_alias=True) if self.residual else ()),
            *pointers_to(element, "y", may_alias=self.residual),
            *pointers_to(I32, "table"),
            *numbers_named(CONV_NUMBERS),
            Parameter("low", F32),
            Parameter("high", F32),
            *((*numbers_named(RESIDUAL_NUMBERS), *residual_words(self.short_sum)) if self.residual else ()),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        with k.tiles("s8s8" if self.signed else "u8s8", self.tiles) as registers:
            _Emitter(self, k, registers).run()
        return k


class _Emitter(TileLoops):
    place_bytes = PLACE_BYTES

    def __init__(self, spec: ConvQuantizedTilesSpec, k: Kernel, registers: Tiles) -> None:
        super().__init__(k, registers)
        self.spec, self.lanes = spec, k.target.lanes()
        self.y_places = self.places.cast(I64)
        self.r_places = self.y_places + k.number("band") * SIDE

    def enter(self, group: Value) -> Pointer:
        self.group, self.first_step = group, group * self.k.number("filter_steps")
        return self.k.pointer("weights").cast(U8) + self.first_step * self.k.number("entries") * ENTRY

    def copy(self, position: Value, place: Value, to: Pointer, entry: Value, end: Value) -> None:
        """Copy the window of a position, and write where its results lie."""
        k, n = self.k, self.k.number
        rest, w = position // n("out_w"), position % n("out_w")
        rest, h = rest // n("out_h"), rest % n("out_h")
        image, outer = rest // n("out_d"), rest % n("out_d")

        def lies(name: str) -> Value:
            indices = zip((image, self.group, outer, h, w), STEPS.split(), strict=True)
            first, *others = (index * n(f"{name}_{step}") for index, step in indices)
            for each in others:
                first = first + each
            return first

        self.y_places.store(lies("y"), place)
        if self.spec.residual:
            self.r_places.store(lies("r"), place)
        x, per_row = k.pointer("x") + lies("x"), ROW // self.spec.unit
        for each in k.range(entry, end):
            for part in range(per_row):
                offset = k.pointer("table").load(each * per_row + part).to(I64)
                self.move(x + offset, to + ((each - entry) * ENTRY + part * self.spec.unit))

    def move(self, source: Pointer, to: Pointer) -> None:
        """Copy a block's bytes."""
        words = self.spec.unit // 4
        to.cast(I32).store(source.cast(I32).load(0, words) if words > 1 else source.cast(I32).load(0))

    def finish(self, position: Value, place: Value, sums: Pointer, filters: Value) -> None:
        """Write the elements of a position for 32 filters, of which the last step may have fewer."""
        k, lanes = self.k, self.lanes
        y, blocks = k.pointer("y") + self.y_places.load(place), FILTERS // lanes
        first = (self.first_step + filters) * FILTERS
        for part in range(blocks):
            block = filters * blocks + part
            with k.when(block < k.number("y_blocks")):

                def by_filter(name: str, at: int = part * lanes) -> Value:
                    return (k.pointer(name) + first).load(at, lanes)

                total = sums.load(part * lanes, lanes) + by_filter("bias")
                if self.spec.y == np.int32:
                    result = total
                elif self.spec.y == np.float32:
                    scaled = total.to(F32) * by_filter("scales")
                    scaled = scaled + by_filter("added") if self.spec.added else scaled
                    result = self.spec.activation.emit(k, scaled)
                else:
                    scaled = total.to(F32) * by_filter("scales")
                    if self.spec.residual:
                        residual = k.pointer("residual") + (
                            self.r_places.load(place) + block * k.number("r_block")
                        )
                        scaled = with_residual(k, self.spec.short_sum, scaled, residual.load(0, lanes))
                    result = requantized(k, scaled, y.element)
                (y + block * k.number("y_block")).store(result)
