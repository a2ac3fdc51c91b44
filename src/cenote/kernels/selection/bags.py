"""Sums, means and maxima of the rows of a table that the indices of a bag name.

for bag in begin .. end:                         emitted
    for block of columns:                        emitted
        for index of the bag:                    emitted
            the row's part is combined with the partial result, in float32 at least
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import IndexRule, Noted, index_type

WIDE = 4  # vectors of a block
NO_PADDING = -1


@dataclass(frozen=True)
class BagSpec(KernelSpec):
    """Kernel of bags. `mode` is "sum", "mean" or "max"; `weighted`: each index has a factor. `offsets` has one number
    more than there are bags. Indices equal to `padding` are skipped."""

    dtype: np.dtype[Any]
    index: np.dtype[Any]
    mode: str
    weighted: bool
    rule: IndexRule

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        return (
            *pointers_to(element, "y", "table", "weights"),
            *pointers_to(index_type(self.index), "index"),
            *pointers_to(I64, "offsets", "found"),
            *numbers_named(["rows", "columns", "total", "padding"]),
        )

    @property
    def compute(self) -> Scalar:
        return F64 if self.dtype.itemsize == 8 else F32

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        columns = k.number("columns")
        lanes = target.vector_bytes // self.compute.nbytes
        for bag in k.range(k.begin, k.end):
            noted = Noted(k, bag, self.rule)
            zero, total = k.integer(0), k.number("total")
            begin = k.minimum(k.maximum(k.pointer("offsets").load(bag), zero), total)
            end = k.minimum(k.maximum(k.pointer("offsets").load(bag + 1), zero), total)
            done = zero
            for width, count in ((lanes, WIDE), (lanes, 1), (1, 1)):
                step = width * count
                stop = columns // step * step
                for column in k.range(done, stop, step):
                    self._block(k, noted, bag, (begin, end), column, width, count)
                done = stop
            with k.when(columns.equals(0)):
                self._block(k, noted, bag, (begin, end), zero, 1, 0)
        return k

    def _block(
        self,
        k: Kernel,
        noted: Noted,
        bag: Value,
        span: tuple[Value, Value],
        column: Value,
        lanes: int,
        count: int,
    ) -> None:
        least = float("-inf") if self.mode == "max" else 0.0
        partial = [k.variable(k.constant(self.compute, least, lanes)) for _ in range(count)]
        used = k.variable(k.integer(0))
        for number in k.range(*span):
            index = k.pointer("index").load(number).to(I64)
            place, valid = self.rule.place(k, index, k.number("rows"))
            noted.note(valid, number, index, k.number("rows"))
            with k.when(valid & place.differs(k.number("padding"))):
                used.value = used.value + 1
                row = k.pointer("table") + (place * k.number("columns") + column)
                factor = k.pointer("weights").load(number).to(self.compute) if self.weighted else None
                for part, total in enumerate(partial):
                    value = row.load(part * lanes, lanes).to(self.compute)
                    value = value if factor is None else value * k.splat(factor, lanes)
                    old = total.value
                    total.value = k.maximum(old, value) if self.mode == "max" else old + value
        y = k.pointer("y") + (bag * k.number("columns") + column)
        for part, total in enumerate(partial):
            result = total.value
            if self.mode == "mean":
                result = result / k.splat(k.maximum(used.value, k.integer(1)).to(self.compute), lanes)
            if self.mode == "max":
                result = k.select(
                    k.splat(used.value > 0, lanes), result, k.constant(self.compute, 0.0, lanes)
                )
            y.store(result.to(y.element), part * lanes)


def bag_call(
    table: View,
    index: View,
    offsets: View,
    weights: View | None,
    y: View,
    found: View,
    mode: str,
    padding: int,
    rule: IndexRule,
) -> Call:
    """Return the launch for plain views; `found` has a row per bag."""
    spec = BagSpec(table.type.dtype, index.type.dtype, mode, weights is not None, rule)
    words: dict[str, Argument] = {
        "y": y,
        "table": table,
        "weights": weights,
        "index": index,
        "offsets": offsets,
        "found": found,
        "rows": table.shape[0],
        "columns": table.shape[1],
        "total": index.type.size,
        "padding": padding,
    }
    return Call.named(spec, words, y.shape[0], maximum(1, (1 << 14) // maximum(1, table.shape[1])))
