"""Copies that walk their source by any strides: transposed, sliced, reversed, broadcast.

Where source and result share their innermost axis, rows are copied (kernels/layout/copy.py). Where the source is dense
along another axis of the result, squares are put on their side in registers:

    for item in begin .. end:                emitted; `lanes` rows of the result
        for column in steps of lanes:        emitted
            load `lanes` vectors along the source's dense axis, transpose, store along the result's
        the columns left, and rows that do not fill a square, element by element

Everything else is element by element.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.lanes import transposed
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count


@dataclass(frozen=True)
class TransposeSpec(KernelSpec):
    """Squares of `lanes` elements of so many bytes, or with lanes = 1 single elements."""

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
        blocks = (rows + self.lanes - 1) // self.lanes
        for item in k.range(k.begin, k.end):
            y, x = axis_pointers(k, self.outer, ("y", "x"), item // blocks)
            first = item % blocks * self.lanes
            last = k.select(first + self.lanes < rows, first + self.lanes, rows)
            if self.lanes == 1:
                self._elements(k, y, x, first, last, k.integer(0))
                continue
            whole = k.select(first + self.lanes <= rows, columns // self.lanes * self.lanes, k.integer(0))
            for column in k.range(0, whole, self.lanes):
                corner = x + (first + column * k.number("x_column"))
                vectors = [corner.load(k.number("x_column") * i, self.lanes) for i in range(self.lanes)]
                for row, vector in enumerate(transposed(k, vectors)):
                    y.store(vector, (first + row) * k.number("y_row") + column)
            self._elements(k, y, x, first, last, whole)
        return k

    def _elements(self, k: Kernel, y: Pointer, x: Pointer, first: Value, last: Value, column: Value) -> None:
        for row in k.range(first, last):
            for place in k.range(column, k.number("columns")):
                value = x.load(row * k.number("x_row") + place * k.number("x_column"))
                y.store(value, row * k.number("y_row") + place)


def strided_copy_call(x: View, strides: Sequence[int], y: View, target: Target) -> Call:
    """y[i, j, …] = x[i * strides[0] + j * strides[1] + …], for plain tensors of elements of 1, 2, 4 or 8 bytes."""
    dtype = np.dtype(f"u{y.type.dtype.itemsize}")
    source, result = (dataclasses.replace(v, type=TensorType(dtype, v.type.shape)) for v in (x, y))
    axes = joined_axes(y.shape, (y.strides, strides))
    if not axes or not y.type.size or (axes[-1][1][0] == 1 and axes[-1][1][1] in (0, 1)):
        return elementwise_call("identity", (), [Operand(source, tuple(strides))], result, target)
    columns, (y_column, x_column) = axes[-1]
    assert y_column == 1, "a plain result is dense along its last axis"
    dense = next((i for i, (_, moves) in enumerate(axes[:-1]) if moves[1] == 1), None)
    lanes = 1 if dense is None else target.lanes(np.float64 if dtype.itemsize == 8 else np.float32)
    rows, (y_row, x_row) = (
        axes.pop(len(axes) - 2 if dense is None else dense) if len(axes) > 1 else (1, [0, 0])
    )
    outer = axes[:-1]
    spec = TransposeSpec(dtype.itemsize, lanes, len(outer))
    items = position_count(outer) * -(-rows // lanes)
    words: dict[str, Argument] = {
        "y": result, "x": source, "rows": rows, "columns": columns, "y_row": y_row, "x_row": x_row,
        "x_column": x_column, **axis_words(outer, ("y", "x")),
    }  # fmt: skip
    return Call.named(spec, words, items, grain=maximum(1, 16384 // (columns * lanes)))
