"""Depthwise convolution of bytes where one instruction adds four products: those of a window's row at once.

    v = four columns of x, channels by columns              one load, two shuffles
    acc[pixel] += weights of the row, one of four 0 . v     two pixels read the same columns

A window of 3 columns starts at the first or at the second of the four, so that there are two vectors of weights to a
row. The last columns of a tile are its last four: nothing behind the window is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import cast

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES, Dots
from cenote.codegen.values import I32, I64, U8, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import PAIRS
from cenote.core.types import Array
from cenote.kernels.base import Call, KernelSpec
from cenote.kernels.conv.depthwise import DepthwiseSpec
from cenote.kernels.quantized.depthwise import DepthwiseQuantizedSpec

# Shuffles of 32-bit numbers, and of bytes in each 16, by lanes. Their orders are read from memory: LLVM makes five
# instructions of two whose orders it knows.
_DWORDS = {16: "llvm.x86.avx512.permvar.si.512", 8: "llvm.x86.avx2.permd"}
_BYTES = {16: "llvm.x86.avx512.pshuf.b.512", 8: "llvm.x86.avx2.pshuf.b"}


@dataclass(frozen=True)
class DepthwiseRowsSpec(DepthwiseQuantizedSpec):
    """Kernel of bytes whose rows have `taps` of 2 to 4 columns; `dots`: an extension of `codegen.dots`."""

    dots: str = ""

    @property
    def words(self) -> tuple[Parameter, ...]:
        own = (
            replace(word, type=I32) if word.name in ("weights", "bias") else word for word in super().words
        )
        return (*own, Parameter("orders", I32, pointer=True))

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
        dots, starts = Dots(k, self.dots, lanes), places(self.taps)
        last = (len(accumulators) - 1) * self.stride + self.taps - BYTES
        for row in k.range(begin, end):
            source = x + k.pointer("table").load(row).to(I64)
            vectors = [(weights + row * (starts * lanes)).load(i * lanes, lanes) for i in range(starts)]
            read: dict[int, Value] = {}
            for pixel, accumulator in enumerate(accumulators):
                column = pixel * self.stride
                start = min(column - column % starts, last)
                if start not in read:
                    read[start] = self._columns(k, source + start * lanes, lanes)
                factors = vectors[column - start]
                accumulator.value = dots.added(accumulator.value, [read[start]], [factors])

    def _columns(self, k: Kernel, place: Pointer, lanes: int) -> Value:
        """Load four columns; each lane gets its channel's bytes of them."""
        value = place.cast(I32).load(0, lanes)
        if self.x == np.int8:
            value = value ^ -0x7F7F7F80
        columns, turned = (k.pointer("orders").load(i * lanes, lanes) for i in range(2))
        fours = k.call(_DWORDS[lanes], I32, lanes, [value, columns])
        count = BYTES * lanes
        halves = [
            k.assign(f"bitcast {each.ir} {each.text} to {U8.vector(count)}", U8, count)
            for each in (fours, turned)
        ]
        bytes_ = k.call(_BYTES[lanes], U8, count, halves)
        return k.assign(f"bitcast {bytes_.ir} {bytes_.text} to {I32.vector(lanes)}", I32, lanes)


def orders(lanes: int) -> Array:
    """Return the orders in which four columns of `lanes` channels are shuffled: first fours of channels, the columns of
    each next to each other, then channels by columns among these."""
    words = lanes // BYTES
    columns = np.arange(lanes, dtype=np.int32).reshape(BYTES, words).T.ravel()
    square = np.tile(np.arange(BYTES**2, dtype=np.uint8).reshape(BYTES, BYTES).T.ravel(), words)
    return np.concatenate((columns, square.view(np.int32)))


def places(taps: int) -> int:
    """Return the number of columns among four at which a row of `taps` may start."""
    return BYTES + 1 - taps


def suits_rows(spec: KernelSpec, dots: str) -> bool:
    """Whether a depthwise convolution of bytes has such a kernel: four columns lie within each tile."""
    assert isinstance(spec, DepthwiseSpec)
    narrowest = max(1, spec.width - 1)
    plain = spec.group == spec.filters == 1 and not spec.long
    return (
        dots != PAIRS
        and plain
        and 2 <= spec.taps <= BYTES
        and (narrowest - 1) * spec.stride + spec.taps >= BYTES
    )


def rows_call(call: Call, weights: Array, bias: Array, dots: str) -> Call:
    """The call of a depthwise convolution of bytes with such a kernel: its weights (filters, 1, d, h, w) int8, its bias
    that of unsigned bytes."""
    specs = tuple(_of_rows(spec, dots) for spec in call.specs)
    taps, scales = specs[0].taps, cast(Array, call.word("scales"))
    starts, lanes = places(taps), cast(int, call.word("slab")) // (weights[0].size)
    blocks = scales.size // lanes
    packed = np.zeros((blocks * lanes, weights[0].size // taps, starts, BYTES), np.int8)
    for start in range(starts):
        packed[: len(weights), :, start, start : start + taps] = weights.reshape(len(weights), -1, taps)
    ordered = packed.reshape(blocks, lanes, -1, BYTES).transpose(0, 2, 1, 3)
    offsets = np.zeros(blocks * lanes, np.int32)
    offsets[: len(bias)] = bias
    words = {
        **dict(zip((word.name for word in call.spec.words), call.arguments, strict=True)),
        "weights": np.ascontiguousarray(ordered).view(np.int32),
        "bias": offsets,
        "orders": orders(lanes),
        "slab": lanes * starts * (weights[0].size // taps),
    }
    own = Call.named(specs[0], words, call.items, call.grain, call.scratch, call.operations)
    return replace(own, independent=call.independent).among(specs, call.chosen)


def _of_rows(spec: KernelSpec, dots: str) -> DepthwiseRowsSpec:
    assert isinstance(spec, DepthwiseQuantizedSpec)
    return DepthwiseRowsSpec(**{each.name: getattr(spec, each.name) for each in fields(spec)}, dots=dots)
