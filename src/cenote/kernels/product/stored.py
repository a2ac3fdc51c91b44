"""Product of few rows and a matrix that is stored in few bits, decoded in registers: bound by reading the matrix.

    item = group of columns                                                emitted
      for chunk of `batch` rows of x:                                      emitted
        for block of the depth:                                            emitted
          for eight steps of it: for step:                                 emitted, unrolled
            for vector of columns: part[row][vector] += x[row][step] * decoded weights       unrolled
          sums[row][vector] += part * scale of the vector's columns
        y = activation(sums + bias)

Weights lie in the order in which they are read. Eight numbers of 4 bits, of the eight steps, are in a word of 32,
lowest bits first. With AVX-512 a number is looked up in a vector of sixteen, which takes its index from the lowest four
bits of a lane (4,096 by 4,096, one row: 0.54 ms instead of 0.84); elsewhere two shifts and a conversion decode it.

Rows of the matrix as streams, eight at a time, with the lanes along the depth, as `gemv.py` has them, took 1.15 times
as long for one row, and 2 times for four, for they read x again for every eight rows.

A row of x has the same bits whatever the number of rows beside it. No chain of additions is longer than a block, or
than the number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16, F16, F32, I8, I32, U32, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, minimum
from cenote.core.target import Target
from cenote.core.types import Array, short_name
from cenote.kernels.base import (
    Argument,
    Call,
    KernelSpec,
    Packed,
    View,
    float_pointers,
    numbers_named,
    pointers_to,
)
from cenote.kernels.elementwise.activations import Activation

BATCH = 4  # rows of x at a time
BLOCKS = (32, 64)  # weights that share a scale
STEPS = 8  # numbers of 4 bits in a word
_PLAIN_BLOCK = 64  # of weights without scales
_LEAST_VECTORS = 4  # of columns at a time: as many chains hide the latency of a multiply-add
_GROUPS = 8  # groups of columns that share the work among threads, where there are enough
_AHEAD = 2048  # prefetch distance in bytes
_GRAIN = 256 << 10  # bytes of weights that a thread takes at a time
_ELEMENTS = {"f16": F16, "bf16": BF16, "i8": I8, "i4": I32}


@dataclass(frozen=True)
class StoredColumnsSpec(KernelSpec):
    """Kernel of `vectors` vectors of columns by `batch` rows of x. `stored`: "f16", "bf16", "i8" or "i4"; `scaled`:
    whether blocks have scales."""

    vectors: int
    batch: int
    stored: str
    scaled: bool
    bias: bool
    activation: Activation

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *float_pointers(("x",)),
            *pointers_to(_ELEMENTS[self.stored], "w"),
            *float_pointers(("scales", "bias", "y")),
            *numbers_named(("m", "n", "k", "block", "blocks", "chunks")),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        _Emitter(self, k, target.lanes()).run()
        return k


class _Emitter:
    def __init__(self, spec: StoredColumnsSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.depth, self.columns = k.number("k"), spec.vectors * lanes
        # Elements of eight steps, and their number in a group of columns.
        self.eight = self.columns if spec.stored == "i4" else self.columns * STEPS
        self.eights = (self.depth + (STEPS - 1)) // STEPS

    def run(self) -> None:
        k, spec, n = self.k, self.spec, self.k.number("n")
        for item in k.range(k.begin, k.end):
            weights = k.pointer("w") + item * (self.eights * self.eight)
            scales = k.pointer("scales") + item * (k.number("blocks") * self.columns)
            first = item * self.columns
            masks = [k.tail_mask(n - first - at, self.lanes) for at in range(0, self.columns, self.lanes)]
            for chunk in k.range(0, k.number("chunks")):
                # The last chunk reaches back over rows of the one before: they get the same bits twice.
                start, last = chunk * spec.batch, k.number("m") - spec.batch
                start = k.select(start < last, start, last)
                x = [k.pointer("x") + (start + row) * self.depth for row in range(spec.batch)]
                sums = self.sums(x, weights, scales)
                for row, totals in enumerate(sums):
                    self.finish(totals, k.pointer("y") + ((start + row) * n + first), first, masks)

    def sums(self, x: Sequence[Pointer], weights: Pointer, scales: Pointer) -> list[list[Variable]]:
        """Return sums of the whole depth, by row of x and vector of columns."""
        k, spec = self.k, self.spec
        zero = k.constant(F32, 0.0, self.lanes)
        sums, parts = ([[k.variable(zero) for _ in range(spec.vectors)] for _ in x] for _ in range(2))
        whole = self.depth - self.depth % STEPS
        for number in k.range(0, k.number("blocks")):
            for part in (part for row in parts for part in row):
                part.value = zero
            begin = number * k.number("block")
            end = begin + k.number("block")
            for at in k.range(begin, k.min_drop_nan(end, whole), STEPS):
                self.multiply(x, weights, parts, at, None)
            with k.when((whole < self.depth) & (end > whole)):
                self.multiply(x, weights, parts, whole, self.depth - whole)
            for vector in range(spec.vectors):
                self.scale(sums, parts, vector, scales + number * self.columns)
        return sums

    def scale(
        self, sums: list[list[Variable]], parts: list[list[Variable]], vector: int, scales: Pointer
    ) -> None:
        """Add the sums of a block to the others."""
        scale = scales.load(vector * self.lanes, self.lanes) if self.spec.scaled else None
        for totals, row in zip(sums, parts, strict=True):
            total, part = totals[vector], row[vector].value
            total.value = total.value + part if scale is None else self.k.fma(part, scale, total.value)

    def multiply(
        self,
        x: Sequence[Pointer],
        weights: Pointer,
        parts: list[list[Variable]],
        at: Value,
        left: Value | None,
    ) -> None:
        """Add the products of eight steps, of which `left` exist (None: all)."""
        k, lanes = self.k, self.lanes
        place = weights + at // STEPS * self.eight
        size = place.element.nbytes
        for line in range(0, self.eight * size, 64):
            k.prefetch(place, (line + _AHEAD) // size)
        words = (
            [place.load(vector * lanes, lanes) for vector in range(self.spec.vectors)] if size == 4 else []
        )
        for step in range(STEPS):
            spread = [k.splat(self.element(row + at, step, left), lanes) for row in x]
            for vector in range(self.spec.vectors):
                if words:
                    weight = self.nibble(words[vector], step)
                else:
                    weight = place.load(step * self.columns + vector * lanes, lanes).to(F32)
                for value, row in zip(spread, parts, strict=True):
                    row[vector].value = k.fma(value, weight, row[vector].value)

    def element(self, x: Pointer, step: int, left: Value | None) -> Value:
        """Return an element of x: zero past the last one, where the weights are zero."""
        if left is None or not step:
            return x.load(step)
        k, exists = self.k, left > step
        return k.select(exists, x.load(k.select(exists, k.integer(step), k.integer(0))), k.constant(F32, 0.0))

    def nibble(self, words: Value, step: int) -> Value:
        """Return the numbers of 4 bits of a step as float32."""
        if self.lanes == 16:
            table = self.k.lanes_constant(F32, [*range(8), *range(-8, 0)])
            index = (words.bits(U32) >> (4 * step)).bits(I32) if step else words
            return self.k.call("llvm.x86.avx512.permvar.sf.512", F32, 16, [table, index])
        high = words << (28 - 4 * step) if step < STEPS - 1 else words
        return (high >> 28).to(F32)

    def finish(self, totals: Sequence[Variable], y: Pointer, first: Value, masks: Sequence[Value]) -> None:
        k, lanes = self.k, self.lanes
        for vector, (total, mask) in enumerate(zip(totals, masks, strict=True)):
            value = total.value
            if self.spec.bias:
                value = value + k.pointer("bias").load(first + vector * lanes, lanes, mask)
            y.store(self.spec.activation.emit(k, value), vector * lanes, mask)


def vectors_at_a_time(n: int, batch: int, target: Target) -> int:
    """Number of vectors of columns of a group."""
    vectors = -(-n // target.lanes())
    most = min(8, target.registers // 2 // batch)
    each = min(most, max(_LEAST_VECTORS, vectors // _GROUPS))
    return -(-vectors // -(-vectors // each))


def arranged(weights: Array, columns: int) -> Array:
    """Return weights (N, K) as the kernel reads them: by group of columns, eight steps and step; numbers of 4 bits in
    words."""
    n, depth = weights.shape
    stored = short_name(weights.dtype)
    half = weights.dtype.itemsize == 2
    bits: Array = weights.view(np.uint16) if half else weights.astype(np.int8).view(np.uint8)
    whole = np.pad(bits, ((0, -n % columns), (0, -depth % STEPS)))
    groups = whole.reshape(-1, columns, whole.shape[1] // STEPS, STEPS).transpose(0, 2, 3, 1)
    if stored != "i4":
        return np.ascontiguousarray(groups).view(np.int8 if stored == "i8" else weights.dtype)
    words = np.zeros((*groups.shape[:2], columns), np.uint32)
    for step in range(STEPS):
        words |= np.bitwise_and(groups[:, :, step], 15).astype(np.uint32) << np.uint32(4 * step)
    return words.view(np.int32)


def arranged_scales(scales: Array, columns: int) -> Array:
    """Return scales (N, blocks) by group of columns and block."""
    whole = np.pad(scales.astype(np.float32), ((0, -len(scales) % columns), (0, 0)))
    return np.ascontiguousarray(whole.reshape(-1, columns, scales.shape[1]).swapaxes(1, 2))


def stored_product_call(
    x: View,
    weights: Array,
    scales: Array | None,
    bias: View | Array | None,
    y: View,
    rows: int,
    block: int,
    activation: Activation,
    target: Target,
) -> Call:
    """Return the call of y (rows, n) = activation(x (rows, k) @ W' + bias (n,)), where W is `weights` (n, k), times
    `scales` (n, k / block)."""
    n, k = weights.shape
    stored = short_name(weights.dtype)
    batches = tuple(range(1, BATCH + 1)) if is_size(rows) else (min(BATCH, rows),)
    vectors = vectors_at_a_time(n, max(batches), target)
    columns = vectors * target.lanes()
    groups, eights, block = -(-n // columns), -(-k // STEPS), block or _PLAIN_BLOCK
    packed = Packed(
        (groups, eights, columns) if stored == "i4" else (groups, eights, STEPS, columns),
        lambda: arranged(weights, columns),
        np.dtype({"i4": np.int32, "i8": np.int8}[stored]) if scales is not None else weights.dtype,
    )
    factors: Packed | None = None
    if scales is not None:
        factors = Packed((groups, scales.shape[1], columns), lambda: arranged_scales(scales, columns))
    chunks = -(-rows // BATCH)
    words: dict[str, Argument] = {"x": x, "w": packed, "scales": factors, "bias": bias, "y": y}
    words |= {"m": rows, "n": n, "k": k, "block": block, "blocks": -(-k // block), "chunks": chunks}
    specs = tuple(
        StoredColumnsSpec(vectors, batch, stored, scales is not None, bias is not None, activation)
        for batch in batches
    )
    grain = max(1, _GRAIN // (packed.size // groups * packed.dtype.itemsize))
    return Call.named(specs[0], words, groups, grain).among(specs, minimum(BATCH, rows) - 1)
