"""Sums of four products of bytes, u8 by s8, added to 32-bit lanes: exact on every machine, one instruction on some.

    lane i of total += x[0] w[i][0] + x[1] w[i][1] + x[2] w[i][2] + x[3] w[i][3]

"avx512vnni" and "avxvnni" are extensions with the instruction for it, VPDPBUSD: 64 or 32 products at once. "pairs"
multiplies 16-bit numbers (VPMADDWD, which SSE2 has): the bytes of x are taken apart into even and odd ones, and the
weights are stored that way, so that a sum costs two multiplications and two additions. "wide" is the same on x that is
stored as 16-bit numbers, which need not be taken apart. VPMADDUBSW multiplies bytes, but adds two products in 16 bits,
where 255 * 127 + 255 * 127 saturates: of four channels by 16 filters of nine networks 26 to 58 % have a pair that may.
Its peak, measured with x broadcast, is 91 GMAC/s (Zen 4, AVX2, one core); convolutions by "wide", for any weights, were
measured at 72 to 85. A kernel that took it for the fours that cannot saturate and "wide" for the others had 0.80 to
1.00 of the speed of "wide" (1x1 layers of ResNet-50, Zen 3): both multiply twice for 32 products, on the same ports.

Zen 3 multiplies 100 GMAC/s by VPMADDWD, but its additions take the same ports: sums of 6 pixels by 2 vectors reach 62,
and convolutions come to 60. 3 by 3 reach 71, 3 by 4 with weights as operands in memory 69, while weights lie in the
level 1 cache; they read twice the weights for a product, and ResNet-50 takes 1.05 times as long with 3 by 3. All
products of a pixel before their additions, and 5 by 2 (67), take as long as 6 by 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I8, I16, I32, U32, Pointer, Scalar, Value
from cenote.core.target import PAIRS
from cenote.core.types import Array

BYTES = 4  # products of a sum
WIDE = "wide"
STORED = "stored"  # no way to add products: weights are bytes as instructions and tiles take them
_IN_16_BITS = (PAIRS, WIDE)
FLIP = -0x7F7F7F80  # the highest bit of each of four bytes
_VPDPBUSD = {16: "llvm.x86.avx512.vpdpbusd.512", 8: "llvm.x86.avx512.vpdpbusd.256"}  # by lanes
_VPDPWSSD = {16: "llvm.x86.avx512.vpdpwssd.512", 8: "llvm.x86.avx512.vpdpwssd.256"}
_VPMADDWD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}


def weight_type(way: str) -> Scalar:
    """Return the type in which weights are stored."""
    return I16 if way in _IN_16_BITS else I8


def arranged(weights: Array, way: str) -> Array:
    """Return int8 weights (..., lanes, 4) as kernels read them: (..., elements of all lanes)."""
    flat = (*weights.shape[:-2], -1)
    if way not in _IN_16_BITS:
        return np.ascontiguousarray(weights, np.int8).reshape(flat)
    halves = (weights[..., :2], weights[..., 2:]) if way == WIDE else (weights[..., 0::2], weights[..., 1::2])
    parts = np.stack(halves, axis=-3)
    return np.ascontiguousarray(parts, np.int16).reshape(flat)


class Dots:
    """Emitter of these sums in one kernel. `way` is "pairs" or the extension that has the instruction."""

    def __init__(self, k: Kernel, way: str, lanes: int) -> None:
        self.k, self.way, self.lanes = k, way, lanes
        self.parts = 2 if way in _IN_16_BITS else 1
        k.adds_in_order = True
        if way not in (*_IN_16_BITS, STORED):
            k.extend(way)

    @property
    def stages(self) -> tuple[Sequence[int], ...]:
        """Parts of a sum whose operands are loaded together: one at a time, where they are apart in memory."""
        return ((0,), (1,)) if self.way == WIDE else (range(self.parts),)

    def spread(self, place: Pointer, flipped: bool = False, parts: Sequence[int] = ()) -> list[Value]:
        """Load four numbers of x, or some parts of them, for all lanes. `flipped`: x is s8, and becomes the u8 that is
        larger by 128."""
        if self.way == WIDE:
            return [self.k.splat(place.cast(I32).load(part), self.lanes) for part in parts]
        x = self.k.splat(place.cast(I32).load(0), self.lanes)
        return self.spread_word(x ^ FLIP if flipped else x)

    def spread_word(self, x: Value) -> list[Value]:
        """Return four bytes of x, the same in all lanes, as `added` takes them."""
        if self.way != PAIRS:
            return [x]
        return [x & 0x00FF00FF, (x.bits(U32) >> 8).bits(I32) & 0x00FF00FF]

    def weights(self, place: Pointer, parts: Sequence[int] = ()) -> list[Value]:
        """Load the weights of all lanes, or some parts of them, as `arranged` has stored them, or as bytes."""
        words = place.cast(I32)
        if place.element is I8 and self.way in _IN_16_BITS:
            count = 2 * self.lanes
            halves = [place.load(part * count, count).to(I16) for part in parts or range(self.parts)]
            return [self.recast(half, I32, self.lanes) for half in halves]
        return [words.load(part * self.lanes, self.lanes) for part in parts or range(self.parts)]

    def store_weights(self, place: Pointer, numbers: Sequence[Value]) -> None:
        """Store four s8 numbers of each lane (as i32), as bytes that `weights` loads."""
        low = [number & 255 for number in numbers]
        if self.way not in _IN_16_BITS:
            place.cast(I32).store(low[0] | low[1] << 8 | low[2] << 16 | numbers[3] << 24)
            return
        for part, (first, second) in enumerate(((0, 1), (2, 3)) if self.way == WIDE else ((0, 2), (1, 3))):
            place.cast(I16).store((low[first] | low[second] << 8).to(I16), part * self.lanes)

    def added(self, total: Value, x: list[Value], weights: list[Value]) -> Value:
        """Return the sums with these products added."""
        for spread, vector in zip(x, weights, strict=True):
            if self.way not in _IN_16_BITS:
                total = self.k.call(_VPDPBUSD[self.lanes], I32, self.lanes, [total, spread, vector])
            else:
                total = self.pair_added(total, spread, vector)
        return total

    def pair_added(self, total: Value, x: Value, weights: Value) -> Value:
        """Return the sums with two products of 16-bit numbers added in each lane."""
        if self.way not in _IN_16_BITS:
            return self.k.call(_VPDPWSSD[self.lanes], I32, self.lanes, [total, x, weights])
        if not self.k.target.triple.startswith("x86"):
            low = ((x << 16) >> 16) * ((weights << 16) >> 16)
            return total + low + (x >> 16) * (weights >> 16)
        halves = [self.recast(each, I16, 2 * self.lanes) for each in (x, weights)]
        return total + self.k.call(_VPMADDWD[self.lanes], I32, self.lanes, halves)

    def recast(self, value: Value, type: Scalar, lanes: int) -> Value:
        """Return the same bits in another number of lanes."""
        return self.k.assign(f"bitcast {value.ir} {value.text} to {type.vector(lanes)}", type, lanes)
