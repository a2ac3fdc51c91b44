"""Copies by tables: every axis of the result may have a table of its places in x (borders of any kind, and the like).

    y[…, i, j] = x[… + table_i[i] + table_j[j]]

    for row in begin .. end:                         emitted; addresses by division and from the tables
        the places before `middle`                   see ENDS
        `middle` places that lie side by side in x   emitted, by vectors
        the places behind                            see ENDS

Axes without a table come first, and are walked by strides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

ENDS = ("table", "rolled", "filled", "flipped")
"""Places beside `middle`. "table": one by one, by a table. "rolled": those before it lie side by side behind it in x.
"filled": all are one element, as are whole rows where a table has -1. "flipped": there is no middle, the row is read
from its end."""


@dataclass(frozen=True)
class TakeSpec(KernelSpec):
    """Kernel for elements of `nbytes`, `lanes` at once; it walks `outer` axes by strides, and `tables` axes beside
    the rows by tables. `ends` is one of ENDS."""

    nbytes: int
    lanes: int
    outer: int
    tables: int
    ends: str = "table"

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(np.dtype(f"u{self.nbytes}"))
        tables = [f"table_{axis}" for axis in range(self.tables)]
        shared = pointers_to(element, "fill") if self.ends == "filled" else pointers_to(I64, "columns_table")
        shared = () if self.ends == "flipped" else shared
        numbers = [f"places_{axis}" for axis in range(self.tables)]
        numbers += ["columns", "before", "middle", "source", "rows", *axis_names(self.outer, ("y", "x"))]
        return (*pointers_to(element, "y", "x"), *shared, *pointers_to(I64, *tables), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        columns = k.number("columns")
        for item in k.range(k.begin, k.end):
            row, rest = item % k.number("rows"), item // k.number("rows")
            y, x = axis_pointers(k, self.outer, ("y", "x"), rest)
            y, places = y + row * columns, self._places(k, row)
            for place in places:
                x = x + (k.maximum(place, k.integer(0)) if self.ends == "filled" else place)
            if self.ends == "flipped":
                for at, lanes in self._vectors(k, columns):
                    value = x.load(columns - at - lanes, lanes)
                    y.store(k.shuffle(value, value, range(lanes)[::-1]) if lanes > 1 else value, at)
                continue
            before, middle = k.number("before"), k.number("middle")
            if self.ends == "filled":
                for place in places:
                    before = k.select(place < 0, columns, before)
                middle = k.minimum(middle, columns - before)
                fill = k.splat(k.pointer("fill").load(), self.lanes)
                self._fill(k, y, fill, k.integer(0), before)
                self._run(k, y, x + k.number("source"), before, before + middle)
                self._fill(k, y, fill, before + middle, columns)
                continue
            if self.ends == "rolled":
                self._run(k, y, x + middle, k.integer(0), before)
            else:
                self._by_table(k, y, x, k.integer(0), before)
            self._run(k, y, x + k.number("source"), before, before + middle)
            self._by_table(k, y, x, before + middle, columns)
        return k

    def _places(self, k: Kernel, row: Value) -> list[Value]:
        """Return the entries of the tables for a row."""
        entries = []
        for axis in reversed(range(self.tables)):
            places = k.number(f"places_{axis}")
            place, row = (row % places, row // places) if axis else (row, row)
            entries.append(k.pointer(f"table_{axis}").load(place))
        return entries

    def _by_table(self, k: Kernel, y: Pointer, x: Pointer, begin: Value, end: Value) -> None:
        for column in k.range(begin, end):
            y.store(x.load(k.pointer("columns_table").load(column)), column)

    def _run(self, k: Kernel, y: Pointer, x: Pointer, begin: Value, end: Value) -> None:
        y, length = y + begin, end - begin
        for at, lanes in self._vectors(k, length):
            y.store(x.load(at, lanes), at)

    def _fill(self, k: Kernel, y: Pointer, value: Value, begin: Value, end: Value) -> None:
        y, length = y + begin, end - begin
        for at, lanes in self._vectors(k, length):
            y.store(k.shuffle(value, value, range(lanes)), at)

    def _vectors(self, k: Kernel, length: Value) -> Iterator[tuple[Value, int]]:
        """Emit steps over a run: yields places, and the number of elements at each, whole vectors and then halves,
        quarters … (A last vector that overlaps the one before it is slower: rows of 58 float32 take 1.08 times as
        long.)
        """
        for at in k.range(0, length // self.lanes * self.lanes, self.lanes):
            yield at, self.lanes
        lanes = self.lanes // 2
        while lanes:
            with k.when((length & lanes).differs(0)):
                yield length & -2 * lanes, lanes
            lanes //= 2


@dataclass(frozen=True)
class TakenAxis:
    """One axis of the result: its extent, and the table of its places in x (in elements); without a table they lie
    `step` apart."""

    extent: int
    step: int
    table: Array | None = None


@dataclass(frozen=True)
class TakenRow:
    """Last axis: after `before` places come `middle` that lie side by side in x, from `source` on. `ends` is one of
    ENDS; `fill`: an array of the one element that fills the other places."""

    before: int
    middle: int
    source: int
    ends: str = "table"
    fill: Array | None = None


def take_call(x: View, y: View, axes: Sequence[TakenAxis], row: TakenRow, target: Target) -> Call:
    """Return the call for a plain dense y of elements of 1, 2, 4 or 8 bytes; the last of `axes` has a table."""
    dtype = np.dtype(f"u{y.type.dtype.itemsize}")
    source, result = (replace(v, type=TensorType(dtype, v.type.shape)) for v in (x, y))
    first = next(i for i, axis in enumerate(axes) if axis.table is not None)
    # An axis without a table between axes that have one gets a table of its steps.
    tables = [axis.table for axis in axes[first:]]
    outer = joined_axes(
        [axis.extent for axis in axes[:first]],
        [list(y.strides[:first]), [axis.step for axis in axes[:first]]],
    )
    spec = TakeSpec(
        dtype.itemsize, target.vector_bytes // dtype.itemsize, len(outer), len(tables) - 1, row.ends
    )
    rows = 1
    words: dict[str, Argument] = {"y": result, "x": source}
    if row.fill is not None:
        words["fill"] = row.fill.reshape(1).view(dtype)
    elif row.ends != "flipped":
        words["columns_table"] = tables[-1]
    for number, axis in enumerate(axes[first:-1]):
        words |= {f"table_{number}": axis.table, f"places_{number}": axis.extent}
        rows = rows * axis.extent
    columns = axes[-1].extent
    words |= {
        "columns": columns,
        "before": row.before,
        "middle": row.middle,
        "source": row.source,
        "rows": rows,
        **axis_words(outer, ("y", "x")),
    }
    items = position_count(outer) * rows if y.type.size else 0
    return Call.named(spec, words, items, grain=maximum(1, 32768 // maximum(columns, 1)))
