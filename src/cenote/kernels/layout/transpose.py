"""Copies that walk their source by any strides: transposed, sliced, reversed, broadcast.

Where source and result share their innermost axis, rows are copied (kernels/layout/copy.py). Where the source is
dense along another axis of the result, squares are transposed in registers:

    for item in begin .. end:                emitted; a tile: 256 bytes of the source's dense axis by 512 columns
        for column in steps of lanes:        emitted
            for row in steps of lanes:       emitted
                load `lanes` vectors along the source's dense axis, transpose, store along the result's

The last square of an axis overlaps the one before it. Where one of the two axes is 2 to 4 long, rows are interleaved
or dealt out (kernels/layout/interleave.py). Everything else is element by element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.lanes import transposed
from cenote.kernels.layout.interleave import interleave_call
from cenote.kernels.strided_axes import (
    Axis,
    axis_names,
    axis_pointers,
    axis_words,
    joined_axes,
    position_count,
)

CHUNK = 512  # columns of an item: so many pages of the source at most


@dataclass(frozen=True)
class TransposeSpec(KernelSpec):
    """Kernel of squares of `lanes` elements of so many bytes, or with lanes = 1 of single elements."""

    nbytes: int
    lanes: int
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(np.dtype(f"u{self.nbytes}"))
        numbers = ["rows", "columns", "y_row", "x_row", "x_column", *axis_names(self.outer, ("y", "x"))]
        return (*pointers_to(element, "y", "x"), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        rows, columns = k.number("rows"), k.number("columns")
        blocks, chunks = (rows + self.tile - 1) // self.tile, (columns + CHUNK - 1) // CHUNK
        for item in k.range(k.begin, k.end):
            # Neighbours along the rows first: they read neighbouring lines of the same pages.
            first, rest = item % blocks * self.tile, item // blocks
            begin = rest % chunks * CHUNK
            y, x = axis_pointers(k, self.outer, ("y", "x"), rest // chunks)
            last = k.minimum(first + self.tile, rows)
            end = k.minimum(begin + CHUNK, columns)
            if self.lanes == 1:
                self._elements(k, y, x, (first, last), (begin, end))
                continue
            fits = (rows >= self.lanes) & (columns >= self.lanes)
            with k.when(fits):
                self._squares(k, y, x, (first, last), (begin, end))
            with k.unless(fits):
                self._elements(k, y, x, (first, last), (begin, end))
        return k

    @property
    def tile(self) -> int:
        """Number of rows of an item: a few cache lines of the source."""
        return max(self.lanes, 256 // self.nbytes) if self.lanes > 1 else 1

    def _squares(
        self, k: Kernel, y: Pointer, x: Pointer, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> None:
        lanes, x_column = self.lanes, k.number("x_column")
        for at in k.range(*columns, lanes):
            column = k.minimum(at, k.number("columns") - lanes)
            for down in k.range(*rows, lanes):
                row = k.minimum(down, k.number("rows") - lanes)
                corner = x + (row + column * x_column)
                vectors = [corner.load(x_column * i, lanes) for i in range(lanes)]
                for place, vector in enumerate(transposed(k, vectors)):
                    to = (row + place) * k.number("y_row") + column
                    # A store waits for its line, and one that begins inside a line for two, one after the other:
                    # 1,000x3,000 float64 on a Xeon 2.2 to 18.4 ms, by where arrays begin, and 2.0 with this.
                    k.prefetch(y, to + lanes, write=True)
                    y.store(vector, to)

    def _elements(
        self, k: Kernel, y: Pointer, x: Pointer, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> None:
        for row in k.range(*rows):
            for place in k.range(*columns):
                value = x.load(row * k.number("x_row") + place * k.number("x_column"))
                y.store(value, row * k.number("y_row") + place)


def _side(nbytes: int, extents: tuple[int, int], target: Target) -> int:
    """Return the lanes of a square: a register of 4 or 8 bytes. Of narrower elements 16 where both axes are as long, so
    that lines are written in fewer parts: 2,048 x 2,048 bytes take 0.97 ms, 2.4 by 8; of 2 bytes 1.6, 3.0 by 8."""
    if nbytes < 4 and not any(is_size(extent) or extent < 16 for extent in extents):
        return 16
    return target.lanes(np.float64 if nbytes == 8 else np.float32)


def strided_copy_call(x: View, strides: Sequence[int], y: View, target: Target) -> Call:
    """Return the call of y[i, j, …] = x[i * strides[0] + j * strides[1] + …], for plain tensors of elements of 1, 2,
    4 or 8 bytes."""
    dtype = np.dtype(f"u{y.type.dtype.itemsize}")
    source, result = (dataclasses.replace(v, type=TensorType(dtype, v.type.shape)) for v in (x, y))
    axes = joined_axes(y.shape, (y.strides, strides))
    if not axes or not y.type.size or (axes[-1][1][0] == 1 and axes[-1][1][1] in (0, 1)):
        return _rows_call(source, axes, result, target)
    call = interleave_call(source, axes, result, target)
    if call is not None:
        return call
    columns, (y_column, x_column) = axes.pop()
    assert y_column == 1, "a plain result is dense along its last axis"
    dense = next((i for i, (_, moves) in enumerate(axes) if moves[1] == 1), None)
    rows, (y_row, x_row) = axes.pop(len(axes) - 1 if dense is None else dense) if axes else (1, [0, 0])
    lanes = 1 if dense is None else _side(dtype.itemsize, (rows, columns), target)
    spec = TransposeSpec(dtype.itemsize, lanes, len(axes))
    items = position_count(axes) * -(-rows // spec.tile) * -(-columns // CHUNK)
    words: dict[str, Argument] = {
        "y": result,
        "x": source,
        "rows": rows,
        "columns": columns,
        "y_row": y_row,
        "x_row": x_row,
        "x_column": x_column,
        **axis_words(axes, ("y", "x")),
    }
    return Call.named(spec, words, items, grain=maximum(1, 16384 // (minimum(columns, CHUNK) * spec.tile)))


def _rows_call(x: View, axes: list[Axis], y: View, target: Target) -> Call:
    """Return the call that copies whole rows in the order of the source: it is read from start to end, and rows are
    written where they belong. The other way round the attention heads of (8, 196, 12, 64) take 1.06 times as long."""
    outer = sorted(axes[:-1], key=lambda axis: -plain(axis[1][1]))
    ordered = [*outer, *axes[-1:]]
    shape = tuple(extent for extent, _ in ordered)
    y_strides, x_strides = (tuple(moves[which] for _, moves in ordered) for which in (0, 1))
    result = dataclasses.replace(y, type=TensorType(y.type.dtype, shape), strides=y_strides)
    return elementwise_call("identity", (), [Operand(x, x_strides)], result, target)
