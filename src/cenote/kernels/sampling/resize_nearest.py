"""Nearest neighbours along the last two axes, plain or channel-blocked: bits are copied, whatever their type.

for row in begin .. end:                        emitted; an item is one output row, or several that are equal
    by what is known of the columns:
        all stay: copy the row
        each is there so many times: load a vector, shuffle it into so many, and store these in rows that are equal
        any, of the same row as the row before, of the same call: copy that one
        any: gather by a table (narrow types one by one); a vector of channels per column where the map is blocked

Rows are stored from the first whole vector of memory on, after one that it overlaps: NumPy's large arrays begin 16
bytes into a cache line, and a store of 64 bytes that crosses lines takes two turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.plane_items import vectors
from cenote.kernels.strided_axes import axis_names, axis_pointers


@dataclass(frozen=True)
class ResizeNearestSpec(KernelSpec):
    """Kernel of nearest neighbours. `lanes` elements lie side by side in each place: 1 for plain maps. `kept`: the
    columns stay as they are; `repeats`: each is repeated so many times (0: as the table says); so are the
    rows of an item, `equal_rows`."""

    dtype: np.dtype[Any]
    lanes: int
    outer: int
    kept: bool
    repeats: int
    equal_rows: int = 1

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x")
        numbers = ["rows", "columns", "x_columns", "y_row", *axis_names(self.outer, ("y", "x"))]
        return (
            *pointers,
            *pointers_to(I64, "row_offset"),
            *pointers_to(I32 if self.lanes == 1 else I64, "column_offset"),
            *numbers_named(numbers),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            row, index = item % k.number("rows"), item // k.number("rows")
            plane, x = axis_pointers(k, self.outer, ("y", "x"), index)
            row = row * self.equal_rows if self.equal_rows > 1 else row
            y = plane + row * k.number("y_row")
            offset, before = (
                k.pointer("row_offset").load(k.maximum(place, k.integer(0))) for place in (row, row - 1)
            )
            if self.kept:
                self._copy(k, x + offset, y)
                continue
            if self.repeats:
                self._repeat(k, x + offset, y)
                continue
            again = (item > k.begin) & (row > 0) & offset.equals(before)
            with k.when(again):
                self._copy(k, y.offset_unchecked(0 - k.number("y_row")), y)
            with k.unless(again):
                self._row(k, x + offset, y)
        return k

    def _columns(
        self, k: Kernel, y: Pointer, width: Value, count: int = 1
    ) -> Iterator[tuple[Value, int, Value | None]]:
        """Yield (begin, lanes, left) of vectors that cover so many columns, of which y has `count` elements each;
        `left` are the columns of one that is not whole. Narrow types end with single ones.

        Ends of rows are whole vectors, some of whose elements are stored twice: by masked stores (see
        `Kernel.store_first`) 64 maps of 56x56 took 0.26 ms with AVX2, in place of 0.12.
        """
        lanes = k.target.vector_bytes // self.dtype.itemsize
        if self.dtype.itemsize >= 4:
            with k.when(width < lanes):
                yield k.integer(0), lanes, width
            with k.unless(width < lanes):
                head = self._before_vectors(k, y, count)
                with k.when(head > 0):
                    yield k.integer(0), lanes, None
                whole = head + (width - head) // lanes * lanes
                for begin in k.range(head, whole, lanes):
                    yield begin, lanes, None
                with k.when(whole < width):
                    yield width - lanes, lanes, None
            return
        for start, end, step in vectors(k, width, lanes):
            for begin in k.range(start, end, step):
                yield begin, step, None

    def _before_vectors(self, k: Kernel, y: Pointer, count: int) -> Value:
        """Return the number of columns before the first whole vector of memory in a row; 0 where it begins within a
        column."""
        lanes = k.target.vector_bytes // self.dtype.itemsize
        elements = (lanes - k.misaligned(y, k.target.vector_bytes) // self.dtype.itemsize) & (lanes - 1)
        return k.select((elements % count).equals(0), elements // count, k.integer(0))

    def _copy(self, k: Kernel, x: Pointer, y: Pointer) -> None:
        """Copy a row of y from an equal one."""
        for column, lanes, left in self._columns(k, y, k.number("columns") * self.lanes):
            mask = None if left is None else k.tail_mask(left, lanes)
            y.store(x.load(column, lanes, mask), column, mask)

    def _row(self, k: Kernel, x: Pointer, y: Pointer) -> None:
        width, table = k.number("columns"), k.pointer("column_offset")
        if self.lanes > 1 or self.dtype.itemsize < 4 or not k.target.has_gather:
            for column in k.range(0, width):
                y.store(x.load(table.load(column).to(I64), self.lanes), column * self.lanes)
        else:
            for column, lanes, left in self._columns(k, y, width):
                mask = None if left is None else k.tail_mask(left, lanes)
                y.store(k.gather(x, table.load(column, lanes, mask)), column, mask)

    def _repeat(self, k: Kernel, x: Pointer, y: Pointer) -> None:
        """Repeat each column `repeats` times."""
        count = self.repeats
        for column, lanes, left in self._columns(k, y, k.number("x_columns"), count):
            value = x.load(column, lanes, None if left is None else k.tail_mask(left, lanes))
            for part in range(0, count * lanes, lanes):
                places = [place // count for place in range(part, part + lanes)]
                spread = k.shuffle(value, value, places) if lanes > 1 else value
                mask = None if left is None else k.tail_mask(left * count - part, lanes)
                for row in range(self.equal_rows):
                    y.store(spread, k.number("y_row") * row + column * count + part, mask)
