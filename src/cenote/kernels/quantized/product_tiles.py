"""Matrix product of bytes on tile registers (AMX): to the loops of `tile_loops.py` a row of A is a position, and a
column of B is a filter.

A is u8, or s8 whose highest bit is flipped as it is copied, so that offsets, zero points and sums of rows are those of
`product.py`, and so is what becomes of the sums. B is s8 in panels of 32 columns, whose depth is filled with zeros up
to whole entries: what lies behind a row of A in the last one is multiplied by them, whatever it is.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES, FLIP
from cenote.codegen.tiles import ROW, Tiles
from cenote.codegen.values import I32, U8, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.product import OPERANDS, product_words, results_of
from cenote.kernels.quantized.tile_cut import ENTRY, FILTERS, NUMBERS
from cenote.kernels.quantized.tile_loops import TileLoops
from cenote.kernels.strided_axes import axis_pointers

PRODUCT_NUMBERS = (*NUMBERS, "columns", "depth", "a_row", "r_row", "y_row")


@dataclass(frozen=True)
class ProductQuantizedTilesSpec(KernelSpec):
    """Kernel of such products. `tiles`: the way of `codegen.tiles`; `clip`: the last vector of columns may be cut;
    the other fields as in QuantizedProductSpec."""

    tiles: str
    signed: bool
    rows: bool
    y: np.dtype[Any]
    outer: int
    clip: bool
    bias: bool = False
    activation: Activation = field(default_factory=Activation)

    @property
    def words(self) -> tuple[Parameter, ...]:
        return product_words(U8, self.y, PRODUCT_NUMBERS, self.outer)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        with k.tiles("u8s8", self.tiles) as registers:
            _Emitter(self, k, registers).run()
        return k


class _Emitter(TileLoops):
    weight_pitch = 2 * ROW

    def __init__(self, spec: ProductQuantizedTilesSpec, k: Kernel, registers: Tiles) -> None:
        super().__init__(k, registers)
        self.spec, self.lanes = spec, k.target.lanes()

    def enter(self, group: Value) -> Pointer:
        self.a, b, self.offsets, self.row_sums, self.y = axis_pointers(
            self.k, self.spec.outer, OPERANDS, group
        )
        return b.cast(U8)

    def copy(self, position: Value, place: Value, to: Pointer, entry: Value, end: Value) -> None:
        """Copy the bytes of a row that there are."""
        k, depth = self.k, self.k.number("depth")
        row = self.a + position * k.number("a_row")
        whole = k.min_drop_nan(end, depth // ROW)
        for each in k.range(entry, whole):
            self._move(row + each * ROW, to + (each - entry) * ENTRY, ROW // BYTES)
        with k.when(whole < end):
            last, rest = to + (whole - entry) * ENTRY, depth % ROW
            for word in k.range(0, rest // BYTES * BYTES, BYTES):
                self._move(row + whole * ROW + word, last + word, 1)
            for byte in k.range(rest // BYTES * BYTES, rest):
                value = row.load(whole * ROW + byte)
                last.store(value ^ 128 if self.spec.signed else value, byte)

    def _move(self, source: Pointer, to: Pointer, words: int) -> None:
        """Copy words of four bytes."""
        value = source.cast(I32).load(0, words) if words > 1 else source.cast(I32).load(0)
        to.cast(I32).store(value ^ FLIP if self.spec.signed else value)

    def finish(self, position: Value, place: Value, sums: Pointer, filters: Value) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        y = self.y + position * k.number("y_row")
        for part in range(FILTERS // lanes):
            column = filters * FILTERS + part * lanes
            left = k.number("columns") - column
            with k.when(left > 0):
                mask = k.tail_mask(left, lanes) if spec.clip else None

                def by_column(values: Pointer, at: Value = column, mask: Value | None = mask) -> Value:
                    return values.load(at, lanes, mask)

                total = sums.load(part * lanes, lanes) + by_column(self.offsets)
                if spec.rows:
                    one = k.splat(self.row_sums.load(position * k.number("r_row")), lanes)
                    total = total - by_column(k.pointer("zeros")) * one
                (result,) = results_of(
                    k,
                    spec,
                    [total],
                    [] if spec.y == np.int32 else [by_column(k.pointer("scales"))],
                    [by_column(k.pointer("bias"))] if spec.bias else [],
                )
                y.store(result, column, mask)
