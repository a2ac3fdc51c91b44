"""Winograd convolution of bytes in whole numbers: every sum is exact.

    V = B^T d B         d u8                   16 bits for F(4x4, 3x3): at most 90 * 255
    U = s (G g G^T) s   g s8, s: `scale`       16 bits: at most 144 * 128
    M = sum of U V      pairs of channels      32 bits, wrapping around
    scale^2 y = A^T M A                        32 bits, wrapping around

B, A and s G have whole numbers. Whatever wraps around on the way, the last line holds modulo 2^32. F(4x4, 3x3) has
scale 24, and 576 is 9 * 64: the inverse of 9 modulo 2^32 leaves 64 y, which is shifted. So y is exact where |y| < 2^25
(`most_exact`), as 1036 products of 255 and 127 are. Filters of 4608 weights (512 channels) whose largest is 127 stay
below half of it where weights are spread as trained ones are. Windows that move by two have scale 6, and y < 2^29.

The structure is that of `kernel.py`, with two blocks of x's channels at a time: a word of V, 32 bits as float32's, has
two channels. Elements of U are zeros where there is no channel, so what V has there does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import Dots
from cenote.codegen.values import F32, I16, I32, U8, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import PAIRS, Target
from cenote.kernels.base import numbers_named, pointers_to
from cenote.kernels.quantized.requantize import store_requantized
from cenote.kernels.quantized.residual import residual_words, with_residual
from cenote.kernels.winograd.kernel import NUMBERS, WinogradEmitter, WinogradSpec
from cenote.kernels.winograd.places import Pixels
from cenote.kernels.winograd.products import Products
from cenote.kernels.winograd.transforms import Filtering, whole_filtering

UINT8 = np.dtype(np.uint8)


@dataclass(frozen=True)
class WinogradQuantizedSpec(WinogradSpec):
    """Kernel of bytes. `dots`: the way of `codegen.dots`; `signed`: x is s8; `y`: its type, and that of a `residual`,
    which is added as `quantized.residual` says, `short_sum`: by two multiply-adds; the other fields as in
    WinogradSpec."""

    dots: str = PAIRS
    signed: bool = False
    y: np.dtype[Any] = UINT8
    short_sum: bool = False

    @property
    def vertical(self) -> Filtering:
        return whole_filtering(self.mv, self.rv, self.strides[0])

    @property
    def horizontal(self) -> Filtering:
        return whole_filtering(self.mh, self.rh, self.strides[1])

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(U8, "x"),
            *pointers_to(Scalar.of(self.y), "residual", may_alias=self.residual),
            *pointers_to(I32, "u", "bias", "v"),
            *pointers_to(F32, "scales"),
            *pointers_to(Scalar.of(self.y), "y", may_alias=self.residual),
            *numbers_named(NUMBERS),
            Parameter("zero"),
            Parameter("low", F32),
            Parameter("high", F32),
            *(residual_words(self.short_sum) if self.residual else ()),
        )

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target).run()
        return kernel


@dataclass(frozen=True)
class _PairProducts(Products):
    """Emitter of products of pairs of channels."""

    dots: Dots

    word = I32

    @property
    def chain(self) -> Value:
        return self.k.number("channel_blocks")

    def added(self, total: Value, v: Value, weights: Value) -> Value:
        return self.dots.pair_added(total, v, weights)


class _Emitter(WinogradEmitter):
    word = I32

    def __init__(self, spec: WinogradQuantizedSpec, k: Kernel, target: Target) -> None:
        super().__init__(spec, k, target)
        self.quantized = spec
        self.dots = Dots(k, spec.dots, self.lanes)

    def products(self) -> Products:
        spec = self.spec
        return _PairProducts(
            self.k, self.lanes, spec.blocks, spec.vertical, spec.horizontal, self.ends, self.dots
        )

    def source(self, block: Value) -> Pixels:
        """Return where two blocks of channels begin in x; the last one twice, where their number is odd."""
        k = self.k
        last = (k.number("channels") - 1) // self.lanes
        first = block * 2
        blocks = (first, k.min_drop_nan(first + 1, last))
        return Pixels([k.pointer("x") + each * k.number("x_block") for each in blocks])

    def loaded(self, source: Pixels) -> Value:
        bytes_ = self.k.joined([place.load(0, self.lanes) for place in source.places])
        return (bytes_ ^ 0x80 if self.quantized.signed else bytes_).to(I16)

    def as_words(self, value: Value) -> Value:
        return self.dots.recast(value, I32, self.lanes)

    def of_words(self, value: Value) -> Value:
        return self.dots.recast(value, I16, 2 * self.lanes)

    def output_tile(self, m: Pointer, block: Value, down: Value, across: Value) -> None:
        self.scales = self.k.pointer("scales").load(block * self.lanes, self.lanes)
        super().output_tile(m, block, down, across)

    def finish(self, values: Sequence[Value], i: Value) -> list[Value]:
        spec = self.quantized
        inverse, shift = undone(spec.vertical, spec.horizontal)
        sums = [((value * inverse) >> shift) + self.bias for value in values]
        scaled = [total.to(F32) * self.scales for total in sums]
        if spec.residual:
            row = self.r + self.k.number("r_h") * i
            added = [row.load(j * self.lanes, self.lanes) for j in range(len(scaled))]
            scaled = [
                with_residual(self.k, spec.short_sum, own, other)
                for own, other in zip(scaled, added, strict=True)
            ]
        return scaled

    def store_row(self, row: Pointer, values: Sequence[Value]) -> None:
        places = [row + j * self.lanes for j in range(len(values))]
        store_requantized(self.k, values, places, adjacent=True)


def undone(vertical: Filtering, horizontal: Filtering) -> tuple[int, int]:
    """Return the factor and the shift by which whole filterings' results become y: the inverse of the scale's odd part
    modulo 2^32 (as a signed number), and the number of its factors of two."""
    scale = _scale(vertical, horizontal)
    shift = (scale & -scale).bit_length() - 1
    inverse = pow(scale >> shift, -1, 1 << 32)
    return inverse - (inverse >> 31 << 32), shift


def most_exact(vertical: Filtering, horizontal: Filtering) -> int:
    """Return the number below which a sum's magnitude must be."""
    return 1 << 31 - undone(vertical, horizontal)[1]


def _scale(*filterings: Filtering) -> int:
    scale: int = np.prod([cast(Any, each).scale for each in filterings]).item()
    return scale
