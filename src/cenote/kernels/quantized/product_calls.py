"""Calls of a product of bytes: B in panels, what zero points add to sums, the product.

Zero points here are those of the kernel's own bytes, u8 for A and s8 for B: 128 more or less where a flip of the
highest bit has made them.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any

import numpy as np

from cenote.codegen.dots import BYTES, WIDE, arranged
from cenote.codegen.tiles import ROW
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Argument, Call, Packed, View
from cenote.kernels.conv.tile_widths import tile_widths, widest
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.product.calls import Product
from cenote.kernels.product.panels import Panels
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.product import (
    OPERANDS,
    QuantizedPanelSpec,
    QuantizedProductSpec,
    RowSumSpec,
)
from cenote.kernels.quantized.product_tiles import ProductQuantizedTilesSpec
from cenote.kernels.quantized.tile_cut import FILTERS, ByteTileCut
from cenote.kernels.strided_axes import Axis, axis_words, position_count

INT16, INT32 = np.dtype(np.int16), np.dtype(np.int32)
_MACS_PER_SECOND = 150e9  # of one core, to size pieces of work
_PIECE = 1e-3  # seconds of work that a thread takes at a time
_BAND = 64  # tiles of rows, at most, that use a panel while it is in the nearer caches


@dataclass(frozen=True)
class ByteWeights:
    """A constant B as kernels see it: s8 (images, depth, columns), and what is left of its zero point, one number per
    column or None where it has been taken off."""

    values: Array
    zeros: Array | None

    @staticmethod
    def of(b: Array, zero: Array | None) -> ByteWeights:
        """`b`: u8 or s8; `zero`: of its type, one for all or one per column."""
        centre = np.zeros(1, np.int16) if zero is None else zero.astype(np.int16).reshape(-1)
        low = int(b.min(initial=0)) - int(centre.max())
        high = int(b.max(initial=0)) - int(centre.min())
        if low >= -128 and high <= 127:
            return ByteWeights((b.astype(np.int16) - centre).astype(np.int8), None)
        flipped, moved = (b ^ 128).view(np.int8) if b.dtype == np.uint8 else b, 128 * (b.dtype == np.uint8)
        columns = np.broadcast_to(centre - moved, b.shape[-1:])
        return ByteWeights(flipped, np.ascontiguousarray(columns, np.int32))

    @property
    def sums(self) -> Array:
        """Sums of columns, which A's zero point is a factor of: (images, columns), int32, which wraps around."""
        depth, totals = self.values.shape[-2], self.values.sum(axis=-2, dtype=np.int64)
        left = totals if self.zeros is None else totals - depth * self.zeros.astype(np.int64)
        return np.ascontiguousarray(left.reshape(-1, left.shape[-1]).astype(np.int32))


@dataclass(frozen=True)
class ProductResult:
    """Result that sums become: `y` of int32, or of float32 by `scales` (one per column), `bias` and `activation`, or of
    bytes by `scales` and `levels`."""

    y: View
    scales: View | Array | None = None
    bias: View | Array | None = None
    activation: Activation = field(default_factory=Activation)
    levels: Levels | None = None


@dataclass(frozen=True)
class QuantizedProduct:
    """Sizes and steps of a product of bytes. `product` has no memory yet; its residual's steps are those of sums of
    A's rows. `a_type` and `b_type`: uint8 or int8; `dots`: the way of `codegen.dots`; `tiles`: that of `codegen.tiles`,
    where tile registers multiply, with bytes as STORED."""

    product: Product
    a_type: np.dtype[Any]
    b_type: np.dtype[Any]
    target: Target
    dots: str
    tiles: str = ""

    @property
    def panels(self) -> Panels:
        if not self.tiles:
            return self.product.panels(self.target)
        lanes = self.target.lanes()
        return Panels(self.product.k, self.product.n, FILTERS // lanes, lanes)

    @property
    def filled(self) -> int:
        """The depth, filled up to fours, or to what a row of a tile holds."""
        unit = ROW if self.tiles else BYTES
        return -(-self.product.k // unit) * unit

    @property
    def cut(self) -> ByteTileCut:
        """The division of the product on tiles."""
        product = self.product
        pairs = position_count(product.axes)
        return ByteTileCut(product.m, product.k, ROW, product.n, pairs, self.target.l2_bytes)

    @property
    def image(self) -> int:
        """Number of bytes of a matrix B in panels."""
        return self.filled * self.panels.padded

    @property
    def images(self) -> int:
        """Number of matrices B."""
        return position_count(self.product.b_axes)

    @property
    def signed(self) -> bool:
        return self.a_type == np.int8

    def pack(self, values: Array) -> Packed:
        """Put s8 numbers (…, depth, columns) into panels."""
        images = math.prod(values.shape[:-2])
        return Packed((images * self.image,), lambda: self._packed(values), np.dtype(np.int8))

    def _packed(self, values: Array) -> Array:
        panels, lanes = self.panels, self.panels.lanes
        fours = self.filled // BYTES
        images = values.reshape(-1, panels.depth, panels.columns)
        padded = np.zeros((len(images), fours * BYTES, panels.padded), np.int8)
        padded[:, : panels.depth, : panels.columns] = images
        split = padded.reshape(len(images), fours, BYTES, -1, lanes)
        result, done = np.empty((len(images), self.image), np.int8), 0
        every = ((panels.wide, panels.blocks), (panels.narrow, panels.blocks - 1))
        for groups, blocks in (each for each in every if each[0]):
            vectors = split[:, :, :, done : done + groups * blocks]
            grouped = vectors.reshape(len(images), fours, BYTES, groups, blocks, lanes)
            ordered = arranged(grouped.transpose(0, 3, 1, 4, 5, 2), self.dots).astype(np.int8)
            size = fours * BYTES * lanes
            end = done + groups * blocks
            result[:, done * size : end * size] = ordered.reshape(len(images), -1)
            done = end
        return result.ravel()

    def pack_call(self, b: View, zeros: View | Array | None, to: View, sums: View) -> Call:
        """Return the call that packs B, and adds up its columns around `zeros`, when the program runs."""
        panels, axes = self.panels, self.product.b_axes
        spec = QuantizedPanelSpec(
            self.dots,
            self.b_type == np.uint8,
            zeros is not None,
            panels.blocks,
            panels.mixed,
            len(axes),
        )
        words: dict[str, Argument] = {"x": b, "zeros": zeros, "y": to, "sums": sums, "rows": panels.depth}
        words |= {
            "fours": self.filled // BYTES,
            "columns": panels.columns,
            "wide_groups": panels.wide,
            "groups": panels.groups,
        }
        words |= {"row": self.product.b.row, "to_image": self.image, **axis_words(axes, ("x",))}
        return Call.named(spec, words, position_count(axes) * panels.groups)

    def widening_call(self, a: View, rows: int, to: View) -> Call:
        """Return the call that copies A's rows as numbers of 16 bits, filled up to fours: what is behind a row's end is
        multiplied by zeros, whatever it is."""
        depth = self.product.k
        source = replace(a, type=TensorType(self.a_type, (rows, depth)), strides=(depth, 1))
        result = replace(to, type=TensorType(INT16, (rows, depth)), strides=(self.filled, 1))
        steps: tuple[Step, ...] = (Step("cast", (0,), INT16),)
        if self.signed:
            steps += (Step("constant", (), INT16, (128,)), Step("add", (1, 2), INT16))
        return elementwise_call(Expression(1, steps), (), [Operand(source, (depth, 1))], result, self.target)

    def row_sum_call(self, a: View, rows: int, to: View) -> Call:
        """Return the call that adds up A's rows."""
        words: dict[str, Argument] = {"x": a, "y": to, "depth": self.product.k}
        grain = maximum(1, (64 << 10) // maximum(1, self.product.k))
        return Call.named(RowSumSpec(self.signed), words, rows, grain)

    def zeros_call(self, zero: View, to: View) -> Call:
        """Return the call that spreads B's zero point, which a program computes, over all columns."""
        moved = np.full(1, 128 if self.b_type == np.uint8 else 0, np.int32)
        expression = Expression(2, (Step("cast", (0,), INT32), Step("sub", (2, 1), INT32)))
        single = zero.type.size == 1
        operands = [
            Operand(zero, (0,) if single else (1,), is_scalar=single),
            Operand(moved, (0,), is_scalar=True),
        ]
        return elementwise_call(expression, (), operands, to, self.target)

    def offsets_call(self, sums: View | Array, a_zero: View | Array, to: View) -> Call:
        """Return the call that computes what is the same for all rows: the columns' sums times A's zero point, taken
        off."""
        operands = [Operand(sums, (self.product.n, 1)), Operand(a_zero, (0, 0), is_scalar=True)]
        moved = np.full(1, 128 if self.signed else 0, np.int32)
        operands.append(Operand(moved, (0, 0), is_scalar=True))
        steps = (
            Step("cast", (1,), INT32),
            Step("add", (3, 2), INT32),
            Step("mul", (0, 4), INT32),
            Step("neg", (5,), INT32),
        )
        return elementwise_call(Expression(3, steps), (), operands, to, self.target)

    def call(
        self,
        a: View,
        b: View | Packed,
        offsets: View | Array,
        zeros: View | Array | None,
        sums: View | None,
        result: ProductResult,
    ) -> Call:
        """Return the call of the product. `offsets` (images of B, columns), `zeros` (columns) and `sums` (A's rows)
        as in the kernel; without zeros there are no sums."""
        product, panels, target, y = self.product, self.panels, self.target, result.y
        words = self._words(a, b, offsets, zeros, sums, result)
        if self.tiles:
            return self._tile_call(words, result, zeros is not None)
        cut = tile_widths(product.m, widest(panels.blocks, target.registers))
        axes = self._axes()
        specs = tuple(
            QuantizedProductSpec(
                self.dots,
                self.signed,
                zeros is not None,
                y.type.dtype,
                panels.blocks,
                panels.mixed,
                width,
                len(axes),
                panels.clipped,
                result.bias is not None,
                result.activation,
            )
            for width in cut.widths
        )
        width = max(cut.widths)
        band = minimum(_BAND, maximum(1, target.l2_bytes // 2 // (width * maximum(1, product.k))))
        bands = -(-cut.tiles // band)
        band = -(-cut.tiles // bands)
        bands = -(-cut.tiles // band)
        words |= {"depth": self.filled if self.dots == WIDE else product.k}
        words |= {"wide": cut.wide, "tiles": cut.tiles, "narrow": cut.narrow, "band": band, "bands": bands}
        words |= {"wide_groups": panels.wide, "groups": panels.groups}
        positions = position_count(axes)
        items = positions * bands * panels.groups
        per_item = maximum(1, band * width * panels.width * product.k) / _MACS_PER_SECOND
        grain = maximum(1, minimum(math.floor(_PIECE / per_item), -(-items // 8)))
        executed = 2 * positions * product.m * panels.padded * product.k
        call = Call.named(specs[0], words, items, grain, operations=executed)
        return call.among(specs, cut.chosen)

    def _tile_call(self, words: dict[str, Argument], result: ProductResult, rows: bool) -> Call:
        """Return the call on tile registers."""
        spec = ProductQuantizedTilesSpec(
            self.tiles,
            self.signed,
            rows,
            result.y.type.dtype,
            len(self._axes()),
            self.panels.clipped > 0,
            result.bias is not None,
            result.activation,
        )
        cut = self.cut
        words |= {"depth": self.product.k, **cut.words}
        return Call.named(spec, words, cut.items, cut.grain, cut.scratch(0), cut.operations)

    def _words(
        self,
        a: View,
        b: View | Packed,
        offsets: View | Array,
        zeros: View | Array | None,
        sums: View | None,
        result: ProductResult,
    ) -> dict[str, Argument]:
        """The words that kernels in vectors and on tiles have in common."""
        product, levels, residual = self.product, result.levels or Levels(0, 0, 0), self.product.residual
        words: dict[str, Argument] = {"a": a, "b": b, "offsets": offsets, "zeros": zeros, "row_sums": sums}
        words |= {"scales": result.scales, "bias": result.bias, "y": result.y, "columns": product.n}
        words |= {"a_row": product.a.row, "r_row": 0 if residual is None else residual.row}
        words |= {"y_row": product.y.row, "zero": levels.zero, "low": float(levels.low)}
        return words | {"high": float(levels.high), **axis_words(self._axes(), OPERANDS)}

    def _axes(self) -> list[Axis]:
        """The batch axes with steps of (A, panels, offsets, sums of rows, y)."""
        axes: list[Axis] = []
        image = 1
        for extent, (a, b, r, y) in reversed(self.product.axes):
            differs = is_size(b) or b != 0
            at = image if differs else 0
            axes.append((extent, [a, at * self.image, at * self.product.n, r, y]))
            image = image * extent if differs else image
        return list(reversed(axes))
