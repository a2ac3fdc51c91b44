"""Reductions of many short rows, several of them side by side.

    for item in begin .. end:                    emitted; an item is 64 neighbouring rows
        for group of 8 rows:                     emitted
            for block of 16 vectors:             emitted; a vector of each row at a time
                partial results, joined to the totals
            the rest of the rows                 under a mask
            the lanes of all totals by halves, those of two rows in one vector, of four …
            8 results, stored at once

A row alone has one chain of additions and ends in a tree over the lanes of one vector: 13 ns for 64 elements of float32
(AVX-512), of which 9 are that end and the way to the row. Eight rows share both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import is_float
from cenote.kernels.base import View, numbers_named, pointers_to
from cenote.kernels.reduction.axes import ReduceAxis
from cenote.kernels.reduction.reduce import DEEP, ReduceSpec
from cenote.kernels.strided_axes import axis_names, axis_pointers

ROWS = 64  # of an item
GROUP = 8  # rows side by side, at most
# Prefetch distance in bytes, into the second cache: eight rows at once are no stream that the processor foresees
# (65,536 rows of 64: 0.8 of the time without; of 256, 64 MB: 0.5).
AHEAD = 8192
SHORT = 2 * DEEP  # vectors of a row, at most: in longer ones the end does not count


@dataclass(frozen=True)
class ReduceRowsSpec(ReduceSpec):
    """Kernel of a reduction along rows `row_stride` apart, whose results lie side by side; `kept` counts the axes
    outside."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.result), "y"),
            *pointers_to(Scalar.of(self.source), "x"),
            Parameter("count", F64),
            *numbers_named(["columns", "rows", "row_stride", *axis_names(self.kept, ("y", "x"))]),
        )

    @property
    def group(self) -> int:
        """Number of rows side by side."""
        return min(GROUP, self.lanes)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        rows, group = k.number("rows"), self.group
        blocks = (rows + (ROWS - 1)) // ROWS
        for item in k.range(k.begin, k.end):
            first = item % blocks * ROWS
            y, x = axis_pointers(k, self.kept, ("y", "x"), item // blocks)
            for row in k.range(first, k.minimum(first + ROWS, rows), group):
                # Rows behind the last one repeat it.
                places = [row, *(k.minimum(row + number, rows - 1) for number in range(1, group))]
                totals = self._totals(k, [x + place * k.number("row_stride") for place in places])
                value = self._finished(k, joined_lanes(k, totals, self.combine), None).to(y.element)
                with k.when(row + group <= rows):
                    y.store(value, row)
                with k.when(row + group > rows):
                    y.store(value, row, k.tail_mask(rows - row, group))
        return k

    def _totals(self, k: Kernel, rows: Sequence[Pointer]) -> list[Value]:
        """Join each row along its length; the lanes of a row stay apart."""
        lanes, columns = self.lanes, k.number("columns")
        whole = columns // lanes * lanes
        width = lanes // 2 if self.total is not self.compute else lanes
        totals = [self._fresh(k, self.total, width) for _ in rows]
        for begin in k.range(0, whole, DEEP * lanes):
            partial = [self._fresh(k, self.compute, lanes) for _ in rows]
            for place in k.range(begin, k.minimum(begin + DEEP * lanes, whole), lanes):
                self._add(k, rows, partial, place, None)
            for total, each in zip(totals, partial, strict=True):
                self._join(k, total, self._narrowed(k, each.value, width))
        if self.tail:
            mask = k.tail_mask(columns - whole, lanes)
            partial = [self._fresh(k, self.compute, lanes) for _ in rows]
            self._add(k, rows, partial, whole, mask)
            for total, each in zip(totals, partial, strict=True):
                self._join(k, total, self._narrowed(k, each.value, width))
        return [total.value for total in totals]

    def _narrowed(self, k: Kernel, value: Value, lanes: int) -> Value:
        """Join the halves of a vector that has twice as many lanes: a total of wider numbers has as many bytes."""
        return value if value.lanes == lanes else joined_halves(k, value, self.combine)

    def _add(
        self, k: Kernel, rows: Sequence[Pointer], states: Sequence[Variable], place: Value, mask: Value | None
    ) -> None:
        """Add a vector of each row."""
        for row, state in zip(rows, states, strict=True):
            if mask is None:
                k.prefetch(row, place + AHEAD // row.element.nbytes, level=2)
            value = self.term(k, row.load(place, self.lanes, mask), None)
            if mask is not None:
                value = k.select(mask, value, k.constant(value.type, self.neutral(value.type), self.lanes))
            state.value = self.combine(k, state.value, value)


def joined_lanes(k: Kernel, rows: Sequence[Value], combine: Callable[[Kernel, Value, Value], Value]) -> Value:
    """Return one vector of the rows' results, each the lanes of one of as many vectors. They are joined by halves, as
    those of a long row are."""
    vectors = list(rows)
    while vectors[0].lanes > len(rows):
        vectors = [joined_halves(k, v, combine) for v in vectors]
    lanes = vectors[0].lanes
    size = lanes // 2
    while size:
        low = [lane for lane in range(2 * lanes) if not lane & size]
        high = [lane + size for lane in low]
        vectors = [
            combine(k, k.shuffle(a, b, low), k.shuffle(a, b, high))
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        size //= 2
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [k.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
    return vectors[0]


def joined_halves(k: Kernel, value: Value, combine: Callable[[Kernel, Value, Value], Value]) -> Value:
    """Join the lanes of a vector's lower half with those of its upper one."""
    lanes = value.lanes // 2
    halves = [range(lanes), range(lanes, 2 * lanes)]
    return combine(k, *(k.shuffle(value, value, half) for half in halves))


def takes_rows(
    kind: str, x: View, reduced: Sequence[ReduceAxis], kept: Sequence[ReduceAxis], lanes: int
) -> bool:
    """Whether rows are so many and so short that several are done side by side."""
    if kind == "log_sum_exp" or len(reduced) != 1 or not kept or kept[-1].y != 1:
        return False
    if x.type.dtype.itemsize < 4 and not is_float(x.type.dtype):
        return False
    length, rows = reduced[0].extent, kept[-1].extent
    return not is_size(length) and length <= SHORT * lanes and (is_size(rows) or rows >= GROUP)
