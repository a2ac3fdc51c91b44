"""One of two values at every place of a new axis: `on` where the index names the place, `off` elsewhere.

an item is a row of classes (inner 1):                 an item is a row of indices and one class:
    filled with off; on where the index is             for place of the row:      emitted
                                                               on where the index is this class
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import IndexRule, Noted, bits_of, fill_row

ITEM = 1 << 13  # approximate number of elements of an item


@dataclass(frozen=True)
class OneHotSpec(KernelSpec):
    """Kernel of one-hot tensors. `index` is the indices' type; `inner`: there are axes after the new one. `values`
    are off and on."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    rule: IndexRule
    inner: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["rows", "item_rows", "depth", "columns"]
        return (
            *pointers_to(bits_of(self.dtype), "y", "values"),
            *pointers_to(Scalar.of(self.index), "index"),
            *pointers_to(I64, "found"),
            *numbers_named(numbers),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        off, on = (k.pointer("values").load(place) for place in range(2))
        for item in k.range(k.begin, k.end):
            noted = Noted(k, item, self.rule)
            first = item * k.number("item_rows")
            last = k.minimum(first + k.number("item_rows"), k.number("rows"))
            for row in k.range(first, last):
                if self.inner:
                    self._across(k, noted, row, off, on)
                    continue
                place, valid = self._place(k, noted, row)
                y = k.pointer("y") + row * k.number("depth")
                fill_row(k, y, off, k.number("depth"))
                with k.when(valid):
                    y.store(on, place)
        return k

    def _place(self, k: Kernel, noted: Noted, number: Value) -> tuple[Value, Value]:
        index = k.pointer("index").load(number).to(I64)
        place, valid = self.rule.place(k, index, k.number("depth"))
        noted.note(valid, number, index, k.number("depth"))
        return place, valid

    def _across(self, k: Kernel, noted: Noted, row: Value, off: Value, on: Value) -> None:
        """Fill one class of a row of indices."""
        outer, number = row // k.number("depth"), row % k.number("depth")
        y = k.pointer("y") + row * k.number("columns")
        for column in k.range(0, k.number("columns")):
            place, valid = self._place(k, noted, outer * k.number("columns") + column)
            y.store(k.select(valid & place.equals(number), on, off), column)


def one_hot_rows(outer: int, depth: int, inner: int) -> tuple[int, int]:
    """Return the number of rows of a one-hot tensor, and of an item."""
    along = not is_size(inner) and inner == 1
    rows, width = (outer, depth) if along else (outer * depth, inner)
    return rows, maximum(1, ITEM // maximum(1, width))


def one_hot_call(
    index: View, values: Argument, y: View, found: View, outer: int, depth: int, inner: int, rule: IndexRule
) -> Call:
    """Return the launch that fills y (outer, depth, inner) from plain indices; `values` are off and on."""
    rows, step = one_hot_rows(outer, depth, inner)
    across = is_size(inner) or inner != 1
    spec = OneHotSpec(y.type.dtype, index.type.dtype, rule, across)
    words: dict[str, Argument] = {
        "y": y,
        "values": values,
        "index": index,
        "found": found,
        "rows": rows,
        "item_rows": step,
        "depth": depth,
        "columns": inner,
    }
    return Call.named(spec, words, -(-rows // step))
