"""Copies whose every axis has a table of where its places lie: mirrored and repeated borders, and the like.

    y[…, i, j] = x[… + table_i[i] + table_j[j]]

    for row in begin .. end:                         emitted; addresses by division and from the tables
        the places before `middle`                   by vectors where the row is rolled, else by the table
        `middle` places that lie side by side in x   emitted, by vectors
        the places behind                            element by element, by the table

Axes without a table come first, and are walked by strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count


@dataclass(frozen=True)
class TakeSpec(KernelSpec):
    """Elements of `nbytes`, `lanes` at once; so many `outer` axes by strides, so many by tables beside the rows.

    `rolled`: what is before `middle` in y lies side by side behind it in x.
    """

    nbytes: int
    lanes: int
    outer: int
    tables: int
    rolled: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(np.dtype(f"u{self.nbytes}"))
        tables = [*(f"table_{axis}" for axis in range(self.tables)), "columns_table"]
        numbers = [f"places_{axis}" for axis in range(self.tables)]
        numbers += ["columns", "before", "middle", "source", "rows", *axis_names(self.outer, ("y", "x"))]
        return (*pointers_to(element, "y", "x"), *pointers_to(I64, *tables), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        columns, before = k.number("columns"), k.number("before")
        for item in k.range(k.begin, k.end):
            row, rest = item % k.number("rows"), item // k.number("rows")
            y, x = axis_pointers(k, self.outer, ("y", "x"), rest)
            y = y + row * columns
            for axis in reversed(range(self.tables)):
                places = k.number(f"places_{axis}")
                place, row = (row % places, row // places) if axis else (row, row)
                x = x + k.pointer(f"table_{axis}").load(place)
            behind = before + k.number("middle")
            if self.rolled:
                self._run(k, y, x + k.number("middle"), k.integer(0), before)
            else:
                self._by_table(k, y, x, k.integer(0), before)
            self._run(k, y, x + k.number("source"), before, behind)
            self._by_table(k, y, x, behind, columns)
        return k

    def _by_table(self, k: Kernel, y: Pointer, x: Pointer, begin: Value, end: Value) -> None:
        for column in k.range(begin, end):
            y.store(x.load(k.pointer("columns_table").load(column)), column)

    def _run(self, k: Kernel, y: Pointer, x: Pointer, begin: Value, end: Value) -> None:
        length = end - begin
        whole = length // self.lanes * self.lanes
        for at in k.range(0, whole, self.lanes):
            y.store(x.load(at, self.lanes), begin + at)
        for at in k.range(whole, length):
            y.store(x.load(at), begin + at)


@dataclass(frozen=True)
class TakenAxis:
    """One axis of the result: its extent, and the table of where its places lie in x (in elements); None: `step`."""

    extent: int
    step: int
    table: Array | None = None


@dataclass(frozen=True)
class TakenRow:
    """The last axis: after `before` places come `middle` that lie side by side in x, from `source` on. `rolled`: the
    first places follow those in x."""

    before: int
    middle: int
    source: int
    rolled: bool = False


def take_call(x: View, y: View, axes: Sequence[TakenAxis], row: TakenRow, target: Target) -> Call:
    """The call for a plain dense y of elements of 1, 2, 4 or 8 bytes; the last of `axes` has a table."""
    dtype = np.dtype(f"u{y.type.dtype.itemsize}")
    source, result = (replace(v, type=TensorType(dtype, v.type.shape)) for v in (x, y))
    first = next(i for i, axis in enumerate(axes) if axis.table is not None)
    # Between axes with tables, one without has the table of its steps.
    tables = [axis.table for axis in axes[first:]]
    outer = joined_axes(
        [axis.extent for axis in axes[:first]],
        [list(y.strides[:first]), [axis.step for axis in axes[:first]]],
    )
    spec = TakeSpec(
        dtype.itemsize, target.vector_bytes // dtype.itemsize, len(outer), len(tables) - 1, row.rolled
    )
    rows = 1
    words: dict[str, Argument] = {"y": result, "x": source, "columns_table": tables[-1]}
    for number, axis in enumerate(axes[first:-1]):
        words |= {f"table_{number}": axis.table, f"places_{number}": axis.extent}
        rows = rows * axis.extent
    columns = axes[-1].extent
    words |= {
        "columns": columns, "before": row.before, "middle": row.middle, "source": row.source, "rows": rows,
        **axis_words(outer, ("y", "x")),
    }  # fmt: skip
    items = position_count(outer) * rows if y.type.size else 0
    return Call.named(spec, words, items, grain=maximum(1, 32768 // maximum(columns, 1)))
