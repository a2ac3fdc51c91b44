"""Reductions across many columns, whose rows are read in order.

    for item in begin .. end:                    emitted; an item is a run of columns
        for block of 16 rows:                    emitted
            for 8 rows of it:                    unrolled
                for vector of columns:           emitted
                    joined to partial results    in scratch memory, as the totals are
                    after the last 8: joined to the totals
            the rest of the rows, a column of vectors at a time
        results                                  stored

Eight rows are eight streams, each as long as the run: the processor fetches them ahead. Block by block of a few
columns, as reduce.py does it, each row is a page of its own. Sixteen rows at once would need no partial results, but
where they are multiples of 4 KiB apart they fall into one set of the first cache (4,096 by 1,024 floats: 28 GB/s, eight
at once 48, four 45; 4,096 by 4,096: 20, 23 and 18). The results are those of reduce.py to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, View
from cenote.kernels.reduction.axes import ReduceAxis
from cenote.kernels.reduction.reduce import DEEP, ReduceSpec

STREAMS = 8  # rows at a time
RUN = 512  # fewest columns of an item
COLUMNS = 2048  # most: their totals and partial results take 24 KiB
_FROM = 1 << 20  # bytes of a matrix, from which its rows do not stay in the second cache


@dataclass(frozen=True)
class ReduceColumnsSpec(ReduceSpec):
    """Kernel of a reduction across whole vectors of columns over one axis, `run` columns an item."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*super().words, Parameter("run", I64))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        run, columns, extent = k.number("run"), k.number("columns"), k.number("extent_r0")
        runs = (columns + run - 1) // run
        totals = k.scratch.cast(self.total)
        partial = (totals + run).cast(self.compute)
        for item in k.range(k.begin, k.end):
            piece, rest = item % k.number("pieces"), item // k.number("pieces")
            y, x, _ = self._pointers(k, rest // runs)
            column = rest % runs * run
            y, x = y + (piece * k.number("piece_stride") + column), x + column
            count = k.minimum(run, columns - column)
            begin = piece * k.number("piece_step")
            end = k.minimum(begin + k.number("piece_step"), extent)
            for at in k.range(0, count, self.lanes):
                totals.store(k.constant(self.total, self.neutral(self.total), self.lanes), at)
            whole = begin + (end - begin) // DEEP * DEEP
            for first in k.range(begin, whole, DEEP):
                for group in range(0, DEEP, STREAMS):
                    rows = [self._row(k, x, first + (group + number)) for number in range(STREAMS)]
                    self._add_rows(k, (totals, partial), rows, count, group)
            with k.when(whole < end):
                self._add_rest(k, totals, x, (whole, end), count)
            for at in k.range(0, count, self.lanes):
                self._write(k, y + at, (totals.load(at, self.lanes),), None, 0, None)
        return k

    def _row(self, k: Kernel, x: Pointer, row: Value) -> Pointer:
        return x + row * k.number("stride_r0")

    def _add_rows(
        self, k: Kernel, sums: tuple[Pointer, Pointer], rows: Sequence[Pointer], count: Value, begin: int
    ) -> None:
        """Join some rows of a block, which begin there, to its partial results, and these at its end to the totals."""
        totals, partial = sums
        for at in k.range(0, count, self.lanes):
            value = partial.load(at, self.lanes) if begin else self._fresh(k, self.compute, self.lanes).value
            for row in rows:
                value = self.combine(k, value, self.term(k, row.load(at, self.lanes), None))
            if begin + len(rows) < DEEP:
                partial.store(value, at)
            else:
                self._join_at(k, totals, at, value)

    def _add_rest(
        self, k: Kernel, totals: Pointer, x: Pointer, span: tuple[Value, Value], count: Value
    ) -> None:
        """Join the partial results of the last rows, fewer than a block."""
        for at in k.range(0, count, self.lanes):
            partial = self._fresh(k, self.compute, self.lanes)
            for row in k.range(*span):
                value = self.term(k, self._row(k, x, row).load(at, self.lanes), None)
                partial.value = self.combine(k, partial.value, value)
            self._join_at(k, totals, at, partial.value)

    def _join_at(self, k: Kernel, totals: Pointer, at: Value, value: Value) -> None:
        totals.store(self.combine(k, totals.load(at, self.lanes), value.to(self.total)), at)


def takes_columns(kind: str, x: View, reduced: Sequence[ReduceAxis], columns: int) -> bool:
    """Whether rows of so many columns are read in order."""
    rows = reduced[0].extent
    if kind == "log_sum_exp" or len(reduced) != 1 or is_size(rows) or is_size(columns):
        return False
    return rows >= DEEP and columns >= RUN and rows * columns * x.type.dtype.itemsize >= _FROM


def in_runs(spec: ReduceSpec, words: Mapping[str, Argument], outer: int, pieces: int) -> Call:
    """Return the launch that reads rows in order in place of that of `spec`, which has these words."""
    spec = ReduceColumnsSpec(**{each.name: getattr(spec, each.name) for each in fields(spec)})
    columns = words["columns"]
    assert isinstance(columns, int)
    run = max(RUN, min(COLUMNS, -(-columns // (2 * RUN)) * RUN))
    items = outer * -(-columns // run) * pieces
    return Call.named(
        spec, {**words, "run": run}, items, scratch=run * (spec.total.nbytes + spec.compute.nbytes)
    )
