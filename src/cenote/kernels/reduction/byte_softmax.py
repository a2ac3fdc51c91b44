"""Softmax of bytes along contiguous lines, as bytes.

    item = line                                                          emitted
      the largest byte
      exponentials of the scaled differences from it, and their sum
      times 1 / (sum * scale of the result), rounded, around its zero point

A difference of bytes has 8 bits, so its exponential is a product: of one number for its lower four bits and one for
its upper four, from tables of a vector each (VPERMPS), or of three for three, three and two bits where vectors have 8
lanes. Zen 4 with AVX-512, 12 times 6x197x197: 1.5 ms with exponentials by polynomials, 1.1 with tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, U32, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.kernels.elementwise.statistics import UNROLL

_PERMUTE = {16: "llvm.x86.avx512.permvar.sf.512", 8: "llvm.x86.avx2.permps"}  # by lanes
_BITS = {16: (4, 4), 8: (3, 3, 2)}
_PIECE = 32768  # elements that a thread takes at a time


@dataclass(frozen=True)
class ByteSoftmaxSpec(KernelSpec):
    """Kernel from bytes of the type `x` to those of the type `y`."""

    x: np.dtype[Any]
    y: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = (*pointers_to(Scalar.of(self.y), "y"), *pointers_to(Scalar.of(self.x), "x"))
        scales = (Parameter("steps", F32), Parameter("y_scale", F32))
        return (*pointers, *pointers_to(F32, "tables"), *numbers_named(("count", "zero")), *scales)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            at = item * k.number("count")
            _Line(self, k, k.pointer("x") + at, k.pointer("y") + at).emit()
        return k


class _Line:
    """Emitter of a line."""

    def __init__(self, spec: ByteSoftmaxSpec, k: Kernel, x: Pointer, y: Pointer) -> None:
        self.k, self.x, self.y, self.limits = k, x, y, np.iinfo(spec.y)
        self.lanes, self.count = k.target.lanes(), k.number("count")
        self.whole = self.count // self.lanes * self.lanes
        self.waiting = k.scratch.cast(I32)
        self.bits = table_bits(k.target)
        self.tables = [
            k.pointer("tables").load(part * self.lanes, self.lanes) for part in range(len(self.bits))
        ]

    def emit(self) -> None:
        k = self.k
        total = self._exponentials(self._largest())
        factor = k.splat(1.0 / (total * k.number("y_scale")), self.lanes)
        zero = k.splat(k.number("zero").to(I32), self.lanes)
        for at in k.range(0, self.whole, self.lanes):
            self.y.store(self._rounded(at, factor, zero), at)
        with k.when(self.whole < self.count):
            # The bytes of the last vector wait in scratch, in place of the first floats, which are not needed any more.
            bytes_ = k.scratch.cast(self.y.element)
            bytes_.store(self._rounded(self.whole, factor, zero), 0)
            for at in k.range(self.whole, self.count):
                self.y.store(bytes_.load(at - self.whole), at)

    def _largest(self) -> Value:
        """Store the line as whole numbers of 32 bits; return the largest."""
        k, low = self.k, self.k.constant(I32, -128, self.lanes)
        state = k.variable(low)
        for at in k.range(0, self.whole, self.lanes):
            values = self.x.load(at, self.lanes).to(I32)
            self.waiting.store(values, at)
            state.value = k.maximum(values, state.value)
        with k.when(self.whole < self.count):
            self.waiting.store(low, self.whole)
            for at in k.range(self.whole, self.count):
                self.waiting.store(self.x.load(at).to(I32), at)
            state.value = k.maximum(self.waiting.load(self.whole, self.lanes), state.value)
        return k.reduce(state.value, "maximum")

    def _exponentials(self, largest: Value) -> Value:
        """Store the exponentials; return their sum."""
        k, lanes, floats = self.k, self.lanes, self.waiting.cast(F32)
        chains = [k.variable(k.constant(F32, 0.0, lanes)) for _ in range(UNROLL)]
        top = k.splat(largest, lanes)

        def vector(at: Value, chain: int, mask: Value | None = None) -> None:
            value = self._power(top - self.waiting.load(at, lanes))
            floats.store(value, at)
            counted = value if mask is None else k.select(mask, value, k.constant(F32, 0.0, lanes))
            chains[chain].value = chains[chain].value + counted

        step = lanes * UNROLL
        unrolled = self.count // step * step
        for at in k.range(0, unrolled, step):
            for number in range(UNROLL):
                vector(at + number * lanes, number)
        for at in k.range(unrolled, self.whole, lanes):
            vector(at, 0)
        with k.when(self.whole < self.count):
            vector(self.whole, 0, k.tail_mask(self.count - self.whole, lanes))
        a, b, c, d = (chain.value for chain in chains)
        return k.reduce((a + b) + (c + d), "add")

    def _power(self, below: Value) -> Value:
        """Return the exponentials of differences, 0 to 255, from the largest."""
        k = self.k
        if not self.bits:
            return math.exp_falling(k, below.to(F32) * k.splat(k.number("steps"), self.lanes))
        place, power = 0, None
        for bits, table in zip(self.bits, self.tables, strict=True):
            index = (below.bits(U32) >> place).bits(I32) & ((1 << bits) - 1)
            operands = [table, index]
            factor = k.call(_PERMUTE[self.lanes], F32, self.lanes, operands)
            place, power = place + bits, factor if power is None else power * factor
        assert power is not None
        return power

    def _rounded(self, at: Value, factor: Value, zero: Value) -> Value:
        limits = int(self.limits.min), int(self.limits.max)
        values = self.waiting.cast(F32).load(at, self.lanes) * factor
        return FORMULAS["quantized"].emit(self.k, values, zero, *limits).to(self.y.element)


def table_bits(target: Target) -> tuple[int, ...]:
    """Return how many bits of a difference each table is for; none where there is no instruction."""
    return _BITS.get(target.lanes(), ()) if target.triple.startswith("x86") else ()


def _tables(scale: float, target: Target) -> Array:
    """Exponentials of what each number of these bits takes off, a vector for each table."""
    made, place = [], 0
    for bits in table_bits(target):
        below = np.arange(1 << bits) * 2.0**place
        made.append(np.resize(np.exp(-below * scale), target.lanes()))
        place += bits
    return np.concatenate(made or [np.zeros(1)]).astype(np.float32)


@dataclass(frozen=True)
class SoftmaxLevels:
    """Scales of the bytes before and behind, and the zero point behind."""

    x_scale: float
    y_scale: float
    zero: int


def byte_softmax_call(x: View, y: View, levels: SoftmaxLevels, target: Target) -> Call:
    """Return the launch of softmax along the last axis of dense tensors."""
    shape: Sequence[int] = x.shape
    count = shape[-1]
    lines = 1
    for extent in shape[:-1]:
        lines = lines * extent
    words: dict[str, Argument] = {"y": y, "x": x, "count": count, "zero": levels.zero}
    words |= {"tables": _tables(levels.x_scale, target), "steps": -float(levels.x_scale)}
    words |= {"y_scale": float(levels.y_scale)}
    scratch = 4 * (-(-count // target.lanes()) * target.lanes())
    return Call.named(
        ByteSoftmaxSpec(x.type.dtype, y.type.dtype),
        words,
        lines,
        maximum(1, _PIECE // maximum(1, count)),
        scratch,
    )
