"""Reductions over any axes of a plain tensor, or over the places of a blocked map.

    along (the last axis is reduced), an item is one      across (the last axis stays), an item is a block of
    element of the output:                                columns, done `width` vectors at a time:
        for the reduced axes outside:  emitted                for the reduced axes outside:  emitted
            for block in the run:      emitted                    for block of 16 rows:      emitted
                4 partial results, 16 deep                            partial results, 16 deep
                joined to the total                                   joined to the totals
        the total's lanes by halves                           stored

Partial results of sums are float32 and totals float64, so that 16 million elements add up with a relative error
below 1e-6; products, and squares under a root, are float64 throughout. The order of the operations depends on the
shape alone. Few outputs of many elements are split into pieces, whose totals a second launch joins (launches.py). Many
short rows are done side by side (rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT64
from cenote.kernels.base import KernelSpec, numbers_named
from cenote.kernels.strided_axes import (
    axis_names,
    axis_offsets,
    axis_pointers,
    nested,
)

DEEP = 16  # terms of a partial sum
WIDE = 4  # vectors side by side
# Prefetch distance in bytes in rows of sums, into the second cache: 4,096 rows of 4,096 take 0.75 of the time without,
# and 0.8 of that with prefetches into the first cache. The largest and smallest are quicker without any (0.85).
AHEAD = 4096
KINDS = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp")
# float64 from the first term on: float32 may overflow where the result does not, and the logarithm of a sum that
# almost cancels magnifies its error.
EXACT = frozenset({"prod", "l2", "log_sum"})
SUMS = frozenset({"sum", "mean", "l1", "l2", "sum_square", "log_sum"})  # kinds that `accumulate` applies to
INTEGER = frozenset({"sum", "max", "min", "prod", "l1", "sum_square"})


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """Kernel of `kind` over `reduced` axes (of an `along` kernel the last of them is the run); `kept` outer axes
    stay.

    The squares, absolute values or powers of a `partial` source have been taken already; `finish` applies what
    follows the sum (a root, a logarithm, the division by the count). `tail`: the columns may end in a part of a
    vector. For "log_sum_exp", `shift` holds the largest terms, in the layout of y: they are subtracted before powers
    are taken, and added to the logarithm. `accumulate` "float64": SUMS are float64 from the first term on
    ("compensated": compensated.py).
    """

    kind: str
    along: bool
    source: np.dtype[Any]
    result: np.dtype[Any]
    lanes: int
    width: int
    kept: int
    reduced: int
    partial: bool
    finish: bool
    tail: bool
    accumulate: str | None = field(default=None, kw_only=True)

    @property
    def words(self) -> tuple[Parameter, ...]:
        types = {"y": Scalar.of(self.result), "x": Scalar.of(self.source)}
        if self.shifted:
            wide = self.source == FLOAT64 == self.result  # either may be that of totals
            types["shift"] = F64 if wide else F32
        pointers = (Parameter(name, type, pointer=True) for name, type in types.items())
        numbers = ["columns", "pieces", "piece_step", "piece_stride"]
        numbers += [f"{what}_r{axis}" for axis in range(self.reduced) for what in ("extent", "stride")]
        return (
            *pointers,
            Parameter("count", F64),
            *numbers_named([*numbers, *axis_names(self.kept, ("y", "x"))]),
        )

    @property
    def shifted(self) -> bool:
        return self.kind == "log_sum_exp"

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        step = self.lanes * self.width
        blocks = k.integer(1) if self.along else (k.number("columns") + step - 1) // step
        for item in k.range(k.begin, k.end):
            piece, rest = item % k.number("pieces"), item // k.number("pieces")
            y, x, shift = self._pointers(k, rest // blocks)
            y = y + piece * k.number("piece_stride")
            low = piece * k.number("piece_step")
            high = low + k.number("piece_step")
            span = (low, k.select(high < k.number("extent_r0"), high, k.number("extent_r0")))
            if self.along:
                held = None if shift is None else _finite_or_zero(k, shift.load())
                self._write(k, y, self._run(k, x, span, held), held, 0, None)
            else:
                self._columns(k, (y, x, shift), rest % blocks * step, span)
        return k

    def _pointers(self, k: Kernel, index: Value) -> tuple[Pointer, Pointer, Pointer | None]:
        """Addresses of y, x and the shift at a position of the outer axes."""
        if not self.shifted:
            y, x = axis_pointers(k, self.kept, ("y", "x"), index)
            return y, x, None
        to, at = axis_offsets(k, self.kept, ("y", "x"), index)
        return k.pointer("y") + to, k.pointer("x") + at, k.pointer("shift") + to

    # ---- arithmetic -------------------------------------------------------------------------------------------

    @property
    def compute(self) -> Scalar:
        """The type of partial results: float32 or float64 for floats, the result's for integers."""
        source = Scalar.of(self.source)
        if source.is_float and (self.kind in EXACT or source is F64 or self.accumulate == "float64"):
            return F64
        return F32 if source.is_float else Scalar.of(self.result)

    @property
    def total(self) -> Scalar:
        """The type of totals: float64 for floats that are added or multiplied."""
        adds = self.compute.is_float and self.kind not in ("max", "min")
        return F64 if adds else self.compute

    def neutral(self, type: Scalar) -> float | int:
        if self.kind in ("max", "min"):
            sign = -1 if self.kind == "max" else 1
            if type.is_float:
                return sign * float("inf")
            limits = np.iinfo(self.source)
            return int(limits.min if sign < 0 else limits.max)
        return 1 if self.kind == "prod" else 0

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        if self.kind == "max":
            return k.maximum(a, b)
        if self.kind == "min":
            return k.minimum(a, b)
        return a * b if self.kind == "prod" else a + b

    def term(self, k: Kernel, value: Value, shift: Value | None) -> Value:
        value = value.to(self.compute)
        if self.partial:
            return value
        if shift is not None:
            return math.exp(k, value - k.splat(shift, value.lanes))
        if self.kind == "l1":
            return k.absolute(value)
        return value * value if self.kind in ("l2", "sum_square") else value

    def _finished(self, k: Kernel, total: Value, shift: Value | None) -> Value:
        if not self.finish:
            return total
        if self.kind == "mean":
            return total / k.splat(k.number("count"), total.lanes)
        if self.kind == "l2":
            return k.square_root(total)
        if shift is not None:
            return math.log(k, total) + shift.to(self.total)
        return math.log(k, total) if self.kind == "log_sum" else total

    def _write(
        self,
        k: Kernel,
        y: Pointer,
        total: tuple[Value, ...],
        shift: Value | None,
        place: int,
        mask: Value | None,
    ) -> None:
        """Write a total to the output, finished if it is the last."""
        y.store(self._finished(k, total[0], shift).to(y.element), place, mask)

    def _fresh(self, k: Kernel, type: Scalar, lanes: int) -> Variable:
        return k.variable(k.constant(type, self.neutral(type), lanes))

    def _join(self, k: Kernel, total: Variable, value: Value) -> None:
        total.value = self.combine(k, total.value, value.to(self.total))

    # ---- along ------------------------------------------------------------------------------------------------

    def _outside(self, k: Kernel, span: tuple[Value, Value], count: int) -> Iterator[Value]:
        """Emit loops over the first reduced axes; yields the offset in x. The first loop runs over the span."""
        if not count:
            yield k.integer(0)
            return
        extents = [k.number(f"extent_r{axis}") for axis in range(1, count)]
        strides = [k.number(f"stride_r{axis}") for axis in range(1, count)]
        for place in k.range(*span):
            for (offset,) in nested(k, extents, [strides]):
                yield offset + place * k.number("stride_r0")

    def _run(
        self, k: Kernel, x: Pointer, span: tuple[Value, Value], shift: Value | None
    ) -> tuple[Value, ...]:
        """The total of a run."""
        lanes, outside = self.lanes, self.reduced - 1
        total, single = self._fresh(k, self.total, lanes), self._fresh(k, self.total, 1)
        begin, end = span if not outside else (k.integer(0), k.number(f"extent_r{outside}"))
        block = DEEP * WIDE * lanes
        for offset in self._outside(k, span, outside):
            row = x + offset
            blocks = begin + (end - begin) // block * block
            for first in k.range(begin, blocks, block):
                self._join(k, total, self._partial(k, row, (first, first + block), WIDE, shift))
            whole = begin + (end - begin) // lanes * lanes
            for first in k.range(blocks, whole, DEEP * lanes):
                part = (first, k.min_drop_nan(first + DEEP * lanes, whole))
                self._join(k, total, self._partial(k, row, part, 1, shift))
            for place in k.range(whole, end):
                self._join(k, single, self.term(k, row.load(place), shift))
        value = total.value
        while value.lanes > 1:
            half = value.lanes // 2
            low, high = k.shuffle(value, value, range(half)), k.shuffle(value, value, range(half, 2 * half))
            value = self.combine(k, low, high)
        return (self.combine(k, value, single.value),)

    def _partial(
        self, k: Kernel, row: Pointer, part: tuple[Value, Value], width: int, shift: Value | None
    ) -> Value:
        """Reduce a part of a row, `width` vectors side by side."""
        sums = [self._fresh(k, self.compute, self.lanes) for _ in range(width)]
        for place in k.range(*part, width * self.lanes):
            for number, each in enumerate(sums):
                if self.kind not in ("max", "min"):
                    k.prefetch(row, place + number * self.lanes + AHEAD // row.element.nbytes, level=2)
                value = self.term(k, row.load(place + number * self.lanes, self.lanes), shift)
                each.value = self.combine(k, each.value, value)
        values = [each.value for each in sums]
        while len(values) > 1:
            values = [self.combine(k, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    # ---- across -----------------------------------------------------------------------------------------------

    def _columns(self, k: Kernel, starts: Places, column: Value, span: tuple[Value, Value]) -> None:
        columns = k.number("columns")
        if not self.tail:
            self._block(k, _moved(starts, column), self.lanes, None, span)
            return
        with k.when(column + self.lanes <= columns):
            self._block(k, _moved(starts, column), self.lanes, None, span)
        with k.when(column + self.lanes > columns):
            if min(self.source.itemsize, self.result.itemsize) >= 4:
                mask = k.tail_mask(columns - column, self.lanes)
                self._block(k, _moved(starts, column), self.lanes, mask, span)
            else:
                for place in k.range(column, columns):
                    self._block(k, _moved(starts, place), 1, None, span)

    def _block(
        self, k: Kernel, starts: Places, lanes: int, mask: Value | None, span: tuple[Value, Value]
    ) -> None:
        y, x, shift = starts
        shifts: list[Value | None] = [None] * self.width
        if shift is not None:
            shifts = [_finite_or_zero(k, shift.load(n * lanes, lanes, mask)) for n in range(self.width)]
        totals = [self._fresh(k, self.total, lanes) for _ in range(self.width)]
        last = self.reduced - 1
        begin, end = span if not last else (k.integer(0), k.number(f"extent_r{last}"))
        for offset in self._outside(k, span, last):
            for first in k.range(begin, end, DEEP):
                partial = [self._fresh(k, self.compute, lanes) for _ in range(self.width)]
                stop = k.select(first + DEEP < end, first + DEEP, end)
                for row in k.range(first, stop):
                    source = x + (offset + row * k.number(f"stride_r{last}"))
                    for number, each in enumerate(partial):
                        value = self.term(k, source.load(number * lanes, lanes, mask), shifts[number])
                        each.value = self.combine(k, each.value, value)
                for total, each in zip(totals, partial, strict=True):
                    self._join(k, total, each.value)
        for number, total in enumerate(totals):
            self._write(k, y, (total.value,), shifts[number], number * lanes, mask)


Places = tuple[Pointer, Pointer, Pointer | None]


def _moved(starts: Places, column: Value) -> Places:
    y, x, shift = starts
    return y + column, x + column, None if shift is None else shift + column


def _finite_or_zero(k: Kernel, value: Value) -> Value:
    """Return what may be subtracted from all terms: 0 for an infinity, which would make NaN of equal terms."""
    infinite = k.absolute(value).equals(float("inf"))
    return k.select(infinite, k.constant(value.type, 0.0, value.lanes), value)
