"""Weighted taps along the last two axes of plain maps: linear and cubic interpolation in vectors of columns.

for row in begin .. end:                           emitted; an item is one output row
    rows first:
        scratch = sum of weight * x rows           by vectors of the input's columns
        y = sum of weight * scratch[columns]       by vectors of the output's columns, gathered (or one by one)
    columns first:
        for tap of the row that is not in scratch: emitted
            scratch[tap] = sum of weight * x row[columns]
        y = sum of weight * scratch[taps]

Columns first gathers once per row of the input, rows first once per row of the output: the one is for maps that grow,
the other for those that shrink. An axis that keeps its size has one tap of weight 1 and is left out. Tables of columns
have a run of places per tap, as long as whole vectors, so that only what is stored is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I32, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT64
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.plane_items import covering_vectors
from cenote.kernels.strided_axes import axis_names, axis_pointers


@dataclass(frozen=True)
class ResizeRowsSpec(KernelSpec):
    """Kernel of `row_taps` x `column_taps` weighted elements; 1: the axis keeps its size.
    `columns_first`: see above."""

    row_taps: int
    column_taps: int
    dtype: np.dtype[Any]
    outer: int
    columns_first: bool

    @property
    def compute(self) -> Scalar:
        """Type of weights and sums."""
        return F64 if self.dtype == FLOAT64 else F32

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = (*pointers_to(Scalar.of(self.dtype), "y", "x"), *pointers_to(I64, "row_index"))
        pointers += (
            *pointers_to(I32, "column_index"),
            *pointers_to(self.compute, "row_weight", "column_weight"),
        )
        numbers = ["rows", "columns", "places", "x_columns", "x_row", "y_row"]
        return (*pointers, *numbers_named([*numbers, *axis_names(self.outer, ("y", "x"))]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        row_table = k.pointer("row_index")
        for item in k.range(k.begin, k.end):
            row, index = item % k.number("rows"), item // k.number("rows")
            plane, x = axis_pointers(k, self.outer, ("y", "x"), index)
            y = plane + row * k.number("y_row")
            taps = [row * self.row_taps + tap for tap in range(self.row_taps)]
            indices = [row_table.load(tap) for tap in taps]
            weights = [k.pointer("row_weight").load(tap) for tap in taps]
            if self.columns_first:
                rows = self._resized_rows(k, item, row, x, indices)
                self._blend(k, rows, weights, y, k.number("columns"))
                continue
            rows = [x + place * k.number("x_row") for place in indices]
            if self.column_taps == 1:
                self._blend(k, rows, weights, y, k.number("columns"))
                continue
            if self.row_taps == 1 and y.element is self.compute:
                self._spread(k, rows[0], y)
                continue
            scratch = k.scratch.cast(self.compute)
            self._blend(k, rows, weights, scratch, k.number("x_columns"))
            self._spread(k, scratch, y)
        return k

    def _resized_rows(
        self, k: Kernel, item: Value, row: Value, x: Pointer, indices: Sequence[Value]
    ) -> list[Pointer]:
        """Resize the rows of x that a row of y reads to the width of y. Each row has its slot of scratch by its
        number; taps are neighbours, so that those of the previous row are still there, if it is of the same call."""
        table, scratch = k.pointer("row_index"), k.scratch.cast(self.compute)
        before = k.maximum(row - 1, k.integer(0)) * self.row_taps
        lowest, highest = table.load(before), table.load(before + (self.row_taps - 1))
        follows = (item > k.begin) & (row > 0)
        for tap in k.range(0, self.row_taps):
            place = table.load(row * self.row_taps + tap)
            again = (tap > 0) & place.equals(
                table.load(row * self.row_taps + k.maximum(tap - 1, k.integer(0)))
            )
            there = again | (follows & (place >= lowest) & (place <= highest))
            with k.unless(there):
                slot = scratch + place % self.row_taps * k.number("places")
                self._spread(k, x + place * k.number("x_row"), slot, whole=True)
        return [scratch + place % self.row_taps * k.number("places") for place in indices]

    def _blend(
        self, k: Kernel, rows: Sequence[Pointer], weights: Sequence[Value], y: Pointer, width: Value
    ) -> None:
        """Blend rows into one; the scratch row has room for whole vectors."""
        lanes = vector_lanes(self.dtype, k.target)
        spread = [k.splat(weight, lanes) for weight in weights]
        for column, mask in covering_vectors(k, width, lanes):
            total = rows[0].load(column, lanes, mask).to(self.compute)
            if self.row_taps > 1:
                total = total * spread[0]
            for source, weight in zip(rows[1:], spread[1:], strict=True):
                total = k.fma(source.load(column, lanes, mask).to(self.compute), weight, total)
            y.store(total.to(y.element), column, mask)

    def _spread(self, k: Kernel, x: Pointer, y: Pointer, whole: bool = False) -> None:
        """Resize a row to the width of y; `whole`: there is room for whole vectors."""
        lanes, width, places = vector_lanes(self.dtype, k.target), k.number("columns"), k.number("places")
        if not k.target.has_gather:
            for column in k.range(0, width):
                y.store(self._taken(k, x, column, 1).to(y.element), column)
            return
        columns = ((column, None) for column in k.range(0, places, lanes))
        for column, mask in columns if whole else covering_vectors(k, width, lanes):
            y.store(self._taken(k, x, column, lanes).to(y.element), column, mask)

    def _taken(self, k: Kernel, x: Pointer, column: Value, lanes: int) -> Value:
        """Compute so many columns from one on."""
        total: Value | None = None
        for tap in range(self.column_taps):
            place = k.number("places") * tap + column
            offset = k.pointer("column_index").load(place, lanes)
            value = k.gather(x, offset) if lanes > 1 else x.load(offset.to(I64))
            weight = k.pointer("column_weight").load(place, lanes)
            total = value * weight if total is None else k.fma(value, weight, total)
        assert total is not None
        return total
