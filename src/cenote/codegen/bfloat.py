"""Sums of two products of bfloat16, added to float32 lanes, and float32 rounded to bfloat16.

    lane i of total = round(round(total + x[1] w[i][1]) + x[0] w[i][0])

Numbers below the smallest normal one count as zeros of their sign, in operands, sums and results, and all is rounded
to nearest even, whatever the thread's control register says: so Intel defines VDPBF16PS and VCVTNEPS2BF16, and AMD's
Zen 4 gave these bits in 3 million random sums (tests/codegen/test_bfloat.py asks again). "avx512bf16" has both
instructions; "emulated" is the same by shifts and fused multiply-adds. Without those (SSE) a product outside
float32's normal range may be rounded once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.half import SMALLEST_NORMAL, first_half, flushed, second_half
from cenote.codegen.values import BF16, F32, I32, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import EMULATED
from cenote.core.types import BFLOAT16, Array

PAIR = 2  # products of a sum
_BFLOAT = Scalar("bfloat", "float", 16, "bfloat")  # the operands of LLVM's functions


def rounded(numbers: Array) -> Array:
    """Return float32 numbers in bfloat16 as `Bfloat.narrowed` gives them."""
    numbers = np.asarray(numbers, np.float32)
    with np.errstate(all="ignore"):
        small = np.abs(numbers) < np.float32(SMALLEST_NORMAL)
        return np.where(small, np.copysign(np.float32(0), numbers), numbers).astype(BFLOAT16)


class Bfloat:
    """Emitter of these sums and roundings in one kernel. `way` is the extension that has them, or "emulated"."""

    def __init__(self, k: Kernel, way: str, lanes: int) -> None:
        self.k, self.way, self.lanes = k, way, lanes
        if way != EMULATED:
            k.extend(way)

    def spread(self, place: Pointer) -> Value:
        """Load two numbers of x for all lanes."""
        return self.k.splat(place.cast(I32).load(0), self.lanes)

    def weights(self, place: Pointer) -> Value:
        """Load two weights of each lane, which lie side by side."""
        return place.cast(I32).load(0, self.lanes)

    def added(self, total: Value, x: Value, weights: Value) -> Value:
        """Return the sums with these products added."""
        if self.way != EMULATED:
            pairs = [self._bitcast(each, _BFLOAT, PAIR * self.lanes) for each in (x, weights)]
            return self.k.call(f"llvm.x86.{self.way}.dpbf16ps.512", F32, self.lanes, [total, *pairs])
        for half in (second_half, first_half):
            a, b = self._flushed(half(x)), self._flushed(half(weights))
            total = self._flushed(self.k.fma(a, b, self._flushed(total)))
        return total

    def narrowed(self, value: Value) -> Value:
        """Return float32 numbers in bfloat16."""
        if self.way == EMULATED or value.lanes != self.lanes:
            return self._flushed(value).to(BF16)
        narrow = self.k.call(f"llvm.x86.{self.way}.cvtneps2bf16.512", _BFLOAT, self.lanes, [value])
        return self._bitcast(narrow, BF16, self.lanes)

    def _flushed(self, value: Value) -> Value:
        return flushed(self.k, value)

    def _bitcast(self, value: Value, type: Scalar, lanes: int) -> Value:
        """Return the same bits in another number of lanes."""
        return self.k.assign(f"bitcast {value.ir} {value.text} to {type.vector(lanes)}", type, lanes)


@dataclass(frozen=True, eq=False)
class BfloatMemory(Pointer):
    """Address of bfloat16 numbers that are loaded as float32 and, with a `bfloat`, stored from it: kernels of float32
    work on such memory as they are."""

    bfloat: Bfloat | None = None

    def __add__(self, offset: Value | int) -> Pointer:
        return replace(self, text=super().__add__(offset).text)

    def offset_unchecked(self, offset: Value | int) -> Pointer:
        return replace(self, text=super().offset_unchecked(offset).text)

    def load(self, offset: Value | int = 0, lanes: int = 1, mask: Value | None = None) -> Value:
        return super().load(offset, lanes, mask).to(F32)

    def store(self, value: Value, offset: Value | int = 0, mask: Value | None = None) -> None:
        assert self.bfloat is not None, "this memory is only read"
        super().store(self.bfloat.narrowed(value), offset, mask)


def keep_in_bfloat(k: Kernel, names: Sequence[str], way: str, lanes: int) -> None:
    """Make of a kernel's pointers with these names such memory; "y" is what is written."""
    for name in names:
        pointer = k.pointer(name)
        writer = Bfloat(k, way, lanes) if name == "y" else None
        k.arguments[name] = BfloatMemory(k, BF16, pointer.text, writer)
