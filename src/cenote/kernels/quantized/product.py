"""Matrix products of bytes: y = A B around zero points, sums in 32 bits, which are exact and wrap around.

    item = pair, band of A's rows, group of B's columns                  emitted
      for tile of `width` or `width - 1` rows:                           emitted
        sums[row][block] = offsets[block]
        for four steps of the depth (UNROLL at a time):                  emitted
          for row: broadcast four bytes of A; for block: sums += A * B   unrolled
        one to three steps that are left                                 emitted
        sums -= zeros[block] * row_sums[row]
        y[row][block] = sums, or float32(sums) * scales + bias, or that as bytes

A is u8, or s8 whose highest bit is flipped as it is loaded, and is read where it lies, or a copy of it in 16 bits whose
rows are filled up to fours ("wide" in `codegen.dots`). B is s8 in panels as float32's
are (`product/panels.py`), four steps of the depth next to each other. A sum around zero points is

    (a - p) (b - q) = a b - p (sum of b's column) - q (sum of a's row) + depth p q

`offsets` has what is the same for a column. q is taken off b before where the differences fit 8 bits; else `zeros` has
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES, WIDE, Dots
from cenote.codegen.values import F32, I8, I16, I32, U8, Pointer, Scalar, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import is_float
from cenote.kernels.base import KernelSpec, float_pointers, numbers_named, pointers_to
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.product.panels import group_columns
from cenote.kernels.product.tiles import row_tiles
from cenote.kernels.quantized.requantize import requantized
from cenote.kernels.strided_axes import axis_names, axis_pointers

UNROLL = 4  # fours of the depth at a time
OPERANDS = ("a", "b", "offsets", "row_sums", "y")
# As in `product/tiles.py`.
NUMBERS = split_words("columns depth a_row r_row y_row wide tiles narrow band bands wide_groups groups zero")


def product_words(a: Scalar, y: np.dtype[Any], numbers: Sequence[str], outer: int) -> tuple[Parameter, ...]:
    """Parameters of a product of bytes, in vectors or on tiles. `a`: what the kernel reads A as."""
    return (
        *pointers_to(a, "a"),
        *pointers_to(I8, "b"),
        *pointers_to(I32, "offsets", "zeros", "row_sums"),
        *float_pointers(("scales", "bias")),
        *pointers_to(Scalar.of(y), "y"),
        *numbers_named(numbers),
        Parameter("low", F32),
        Parameter("high", F32),
        *numbers_named(axis_names(outer, OPERANDS)),
    )


@dataclass(frozen=True)
class QuantizedProductSpec(KernelSpec):
    """Kernel with `blocks` vectors of columns by `width` rows in registers; `mixed`, `outer` and `clip` as in
    ProductSpec.

    `dots`: the way of `codegen.dots`; `signed`: A is s8; `rows`: sums of A's rows are a part of the result; `y`: its
    type, int32, float32 (then `bias` says whether one is added, before the activation), uint8 or int8.
    """

    dots: str
    signed: bool
    rows: bool
    y: np.dtype[Any]
    blocks: int
    mixed: bool
    width: int
    outer: int
    clip: int
    bias: bool = False
    activation: Activation = field(default_factory=Activation)

    @property
    def words(self) -> tuple[Parameter, ...]:
        return product_words(I16 if self.dots == WIDE else U8, self.y, NUMBERS, self.outer)

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


class _Emitter:
    def __init__(self, spec: QuantizedProductSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.dots = Dots(k, spec.dots, lanes)
        depth = k.number("depth")
        self.whole, self.rest = depth // BYTES, depth % BYTES

    def run(self) -> None:
        k, spec = self.k, self.spec
        groups, bands, band = (k.number(name) for name in ("groups", "bands", "band"))
        for item in k.range(k.begin, k.end):
            group, place = item % groups, item // groups
            pointers = axis_pointers(k, spec.outer, OPERANDS, place // bands)
            self.a, b, offsets, self.row_sums, y = pointers
            first = (place % bands) * band
            last = k.min_drop_nan(first + band, k.number("tiles"))
            for column, blocks in group_columns(k, group, spec.blocks, spec.mixed):
                self.blocks, self.panel = blocks, b + column * ((k.number("depth") + 3) // BYTES * BYTES)
                self.offsets, self.y, self.column = offsets + column, y + column, column
                left = k.number("columns") - column
                self.masks = [
                    k.tail_mask(left - block * self.lanes, self.lanes)
                    if block >= blocks - spec.clip
                    else None
                    for block in range(blocks)
                ]
                for start, _, width in row_tiles(k, spec.width, first, last):
                    self.tile(start, width)

    def by_column(self, values: Pointer) -> list[Value]:
        """Load one number per column of the group."""
        lanes = self.lanes
        return [values.load(block * lanes, lanes, mask) for block, mask in enumerate(self.masks)]

    def tile(self, start: Value, width: int) -> None:
        k = self.k
        offsets = self.by_column(self.offsets)
        sums = [[k.variable(offset) for offset in offsets] for _ in range(width)]
        self.multiply(sums, [self.a + (start + row) * k.number("a_row") for row in range(width)])
        totals = [[total.value for total in row] for row in sums]
        if self.spec.rows:
            zeros = self.by_column(k.pointer("zeros") + self.column)
            for row, values in enumerate(totals):
                one = k.splat(self.row_sums.load((start + row) * k.number("r_row")), self.lanes)
                totals[row] = [value - zero * one for value, zero in zip(values, zeros, strict=True)]
        self.finish(totals, start)

    def multiply(self, sums: Sequence[Sequence[Variable]], rows: Sequence[Pointer]) -> None:
        """Add the products of the whole depth."""
        k, panel = self.k, self.k.cursor(self.panel)
        cursors = [k.cursor(row) for row in rows]
        flipped = self.spec.signed

        def fours(count: int) -> None:
            for four in range(count):
                if self.spec.dots == WIDE:
                    self.add_wide(
                        sums, [cursor.at + four * BYTES for cursor in cursors], panel.at + four * self.step
                    )
                    continue
                spread = [self.dots.spread(cursor.at + four * BYTES, flipped) for cursor in cursors]
                self.add(sums, spread, panel.at + four * self.step)
            panel.move(count * self.step)
            for cursor in cursors:
                cursor.move(count * BYTES)

        unrolled = self.whole // UNROLL
        for _ in k.range(0, unrolled):
            fours(UNROLL)
        for _ in k.range(unrolled * UNROLL, self.whole):
            fours(1)
        if self.spec.dots == WIDE:
            return
        with k.when(self.rest > 0):
            self.add(sums, [self.last_of(cursor) for cursor in cursors], panel.at)

    @property
    def step(self) -> int:
        """Number of a panel's bytes for four steps of the depth."""
        return self.blocks * self.lanes * BYTES

    def add(
        self, sums: Sequence[Sequence[Variable]], spread: Sequence[Sequence[Value]], panel: Pointer
    ) -> None:
        """Add the products of four steps of the depth."""
        vectors = [self.dots.weights(panel + block * self.lanes * BYTES) for block in range(self.blocks)]
        for x, totals in zip(spread, sums, strict=True):
            for vector, total in zip(vectors, totals, strict=True):
                total.value = self.dots.added(total.value, list(x), vector)

    def add_wide(self, sums: Sequence[Sequence[Variable]], rows: Sequence[Pointer], panel: Pointer) -> None:
        """Add the products of four steps of the depth, two at a time: all registers are in use."""
        for part in range(self.dots.parts):
            vectors = [
                self.dots.weights(panel + block * self.lanes * BYTES, [part])[0]
                for block in range(self.blocks)
            ]
            for row, totals in zip(rows, sums, strict=True):
                (x,) = self.dots.spread(row, parts=[part])
                for vector, total in zip(vectors, totals, strict=True):
                    total.value = self.dots.pair_added(total.value, x, vector)

    def last_of(self, row: Cursor) -> list[Value]:
        """Load the one to three bytes at a row's end."""
        k = self.k
        word = k.variable(k.constant(I32, 0))
        for index in k.range(0, self.rest):
            byte = row.at.load(index).to(I32)
            word.value = word.value | (byte ^ (128 if self.spec.signed else 0)) << (index * 8).to(I32)
        return self.dots.spread_word(k.splat(word.value, self.lanes))

    def finish(self, totals: Sequence[Sequence[Value]], start: Value) -> None:
        """Turn sums into elements of y and store them."""
        k, spec = self.k, self.spec
        scales = [] if spec.y == np.int32 else self.by_column(k.pointer("scales") + self.column)
        biases = self.by_column(k.pointer("bias") + self.column) if spec.bias else []
        for row, values in enumerate(totals):
            y = self.y + (start + row) * k.number("y_row")
            results = results_of(k, spec, values, scales, biases)
            for block, (value, mask) in enumerate(zip(results, self.masks, strict=True)):
                y.store(value, block * self.lanes, mask)


class Results(Protocol):
    """Protocol of a spec that says what a product's results are."""

    @property
    def y(self) -> np.dtype[Any]: ...
    @property
    def activation(self) -> Activation: ...


def results_of(
    k: Kernel, spec: Results, sums: Sequence[Value], scales: Sequence[Value], biases: Sequence[Value]
) -> Sequence[Value]:
    """Return elements of y from sums, their scales (none for int32) and biases, if there are any."""
    values = sums
    if scales:
        values = [total.to(F32) * scale for total, scale in zip(values, scales, strict=True)]
    if biases:
        values = [value + bias for value, bias in zip(values, biases, strict=True)]
    if is_float(spec.y):
        if spec.activation.is_long:
            return spec.activation.emit_together(k, values)
        return [spec.activation.emit(k, value) for value in values]
    if scales:
        return [requantized(k, value, Scalar.of(spec.y)) for value in values]
    return values


@dataclass(frozen=True)
class RowSumSpec(KernelSpec):
    """Kernel that adds the bytes of each row; `signed`: s8 whose highest bit is flipped."""

    signed: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*pointers_to(U8, "x"), *pointers_to(I32, "y"), *numbers_named(("depth",)))

    def emit(self, target: Target) -> Kernel:
        k, lanes, flip = self.kernel(target), target.lanes(), 128 if self.signed else 0
        depth = k.number("depth")
        whole = depth // lanes * lanes
        for row in k.range(k.begin, k.end):
            x = k.pointer("x") + row * depth
            total = k.variable(k.constant(I32, 0, lanes))
            for at in k.range(0, whole, lanes):
                total.value = total.value + (x.load(at, lanes) ^ flip).to(I32)
            one = k.variable(k.reduce(total.value, "add"))
            for at in k.range(whole, depth):
                one.value = one.value + (x.load(at) ^ flip).to(I32)
            k.pointer("y").store(one.value, row)
        return k


@dataclass(frozen=True)
class QuantizedPanelSpec(KernelSpec):
    """Kernel that copies matrices of bytes with contiguous rows into panels of s8, and adds up their columns.
    `unsigned`: they are u8, whose highest bit is flipped; `zeros`: columns have zero points, which the sums are around;
    `dots`: the way of `codegen.dots`; the rest as in PanelSpec. A panel has `fours` times four rows, zeros behind.
    """

    dots: str
    unsigned: bool
    zeros: bool
    blocks: int
    mixed: bool
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ("rows", "fours", "columns", "wide_groups", "groups", "row", "to_image")
        pointers = (*pointers_to(I8, "x", "y"), *pointers_to(I32, "zeros", "sums"))
        return (*pointers, *numbers_named(numbers), *numbers_named(axis_names(self.outer, ("x",))))

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes()
        dots, groups, columns = Dots(k, self.dots, lanes), k.number("groups"), k.number("columns")
        fours = k.number("fours")
        for item in k.range(k.begin, k.end):
            image, group = item // groups, item % groups
            (x,) = axis_pointers(k, self.outer, ("x",), image)
            panels, sums = k.pointer("y") + image * k.number("to_image"), k.pointer("sums") + image * columns
            for column, blocks in group_columns(k, group, self.blocks, self.mixed):
                panel = panels + column * (fours * BYTES)
                for at in k.steps(blocks * lanes, lanes):
                    mask = k.tail_mask(columns - column - at, lanes)
                    total = k.variable(k.constant(I32, 0, lanes))
                    for four in k.range(0, fours):
                        numbers = self._four(k, x + (column + at), four * BYTES, mask)
                        for number in numbers:
                            total.value = total.value + number
                        dots.store_weights(panel + (four * blocks * lanes + at) * BYTES, numbers)
                    if self.zeros:
                        zeros = k.pointer("zeros").load(column + at, lanes, mask)
                        total.value = total.value - zeros * k.number("rows").to(I32)
                    (sums + (column + at)).store(total.value, 0, mask)
        return k

    def _four(self, k: Kernel, x: Pointer, first: Value, mask: Value) -> list[Value]:
        """Load four rows of a vector of columns, zeros past the last row."""
        lanes, last = mask.lanes, k.number("rows") - 1
        numbers = []
        for row in range(BYTES):
            place = first + row
            loaded = x.load(k.min_drop_nan(place, last) * k.number("row"), lanes, mask)
            number = (loaded ^ -128 if self.unsigned else loaded).to(I32)
            numbers.append(k.select(place > last, k.constant(I32, 0, lanes), number))
        return numbers
