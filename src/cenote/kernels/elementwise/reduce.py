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
shape alone. Few outputs of many elements are split into pieces: a second launch joins the pieces' totals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.target import Target
from cenote.kernels.base import KernelSpec
from cenote.kernels.strided_axes import nested, slab_names, slab_pointers

DEEP = 16  # terms of a partial sum
WIDE = 4  # vectors side by side
KINDS = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum")
# float64 from the first term on: float32 may overflow where the result does not, and the logarithm of a sum that
# almost cancels magnifies its error.
EXACT = frozenset({"prod", "l2", "log_sum"})
INTEGER = frozenset({"sum", "max", "min", "prod", "l1", "sum_square"})


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """`kind` over `reduced` axes (of an `along` kernel the last of them is the run); `kept` outer axes stay.

    A `partial` source has had its squares or absolute values taken; `finish` applies what follows the sum (a root,
    a logarithm, the division by the count). `tail`: the columns may end in a part of a vector.
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

    def emit(self, target: Target) -> Kernel:
        names = ("y", "x")
        types = {"y": Scalar.of(self.result), "x": Scalar.of(self.source)}
        numbers = ["columns", "pieces", "piece_step", "piece_stride"]
        numbers += [f"{what}_r{axis}" for axis in range(self.reduced) for what in ("extent", "stride")]
        numbers += slab_names(self.kept, names)
        pointers = [Parameter(name, types[name], pointer=True) for name in names]
        k = Kernel(
            self.symbol, target, [*pointers, Parameter("count", F64), *(Parameter(n) for n in numbers)]
        )
        step = self.lanes * self.width
        blocks = k.integer(1) if self.along else (k.number("columns") + step - 1) // step
        for item in k.range(k.begin, k.end):
            piece, rest = item % k.number("pieces"), item // k.number("pieces")
            y, x = slab_pointers(k, self.kept, names, rest // blocks)
            y = y + piece * k.number("piece_stride")
            low = piece * k.number("piece_step")
            high = low + k.number("piece_step")
            span = (low, k.select(high < k.number("extent_r0"), high, k.number("extent_r0")))
            if self.along:
                y.store(self._finished(k, self._run(k, x, span)).to(y.element))
            else:
                self._columns(k, y, x, rest % blocks * step, span)
        return k

    # ---- arithmetic -------------------------------------------------------------------------------------------

    @property
    def compute(self) -> Scalar:
        """The type of partial results: float32 for narrower floats, else the source's."""
        source = Scalar.of(self.source)
        if source.is_float and (self.kind in EXACT or source is F64):
            return F64
        return F32 if source.is_float else source

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

    def term(self, k: Kernel, value: Value) -> Value:
        value = value.to(self.compute)
        if self.partial:
            return value
        if self.kind == "l1":
            return k.absolute(value)
        return value * value if self.kind in ("l2", "sum_square") else value

    def _finished(self, k: Kernel, total: Value) -> Value:
        if not self.finish:
            return total
        if self.kind == "mean":
            return total / k.splat(k.number("count"), total.lanes)
        if self.kind == "l2":
            return k.square_root(total)
        return math.log(k, total) if self.kind == "log_sum" else total

    def _fresh(self, k: Kernel, type: Scalar, lanes: int) -> Variable:
        return k.variable(k.constant(type, self.neutral(type), lanes))

    def _join(self, k: Kernel, total: Variable, value: Value) -> None:
        total.value = self.combine(k, total.value, value.to(self.total))

    # ---- along ------------------------------------------------------------------------------------------------

    def _outside(self, k: Kernel, span: tuple[Value, Value], count: int) -> Iterator[Value]:
        """Emitted loops over the first reduced axes; gives the offset in x. The first runs over the span."""
        if not count:
            yield k.integer(0)
            return
        extents = [k.number(f"extent_r{axis}") for axis in range(1, count)]
        strides = [k.number(f"stride_r{axis}") for axis in range(1, count)]
        for place in k.range(*span):
            for (offset,) in nested(k, extents, [strides]):
                yield offset + place * k.number("stride_r0")

    def _run(self, k: Kernel, x: Pointer, span: tuple[Value, Value]) -> Value:
        lanes, outside = self.lanes, self.reduced - 1
        total, single = self._fresh(k, self.total, lanes), self._fresh(k, self.total, 1)
        begin, end = span if not outside else (k.integer(0), k.number(f"extent_r{outside}"))
        block = DEEP * WIDE * lanes
        for offset in self._outside(k, span, outside):
            row = x + offset
            blocks = begin + (end - begin) // block * block
            for first in k.range(begin, blocks, block):
                partial = [self._fresh(k, self.compute, lanes) for _ in range(WIDE)]
                for place in k.range(first, first + block, WIDE * lanes):
                    for number, each in enumerate(partial):
                        value = self.term(k, row.load(place + number * lanes, lanes))
                        each.value = self.combine(k, each.value, value)
                left, right = (self.combine(k, partial[i].value, partial[i + 1].value) for i in (0, 2))
                self._join(k, total, self.combine(k, left, right))
            whole = begin + (end - begin) // lanes * lanes
            for place in k.range(blocks, whole, lanes):
                self._join(k, total, self.term(k, row.load(place, lanes)))
            for place in k.range(whole, end):
                self._join(k, single, self.term(k, row.load(place)))
        value = total.value
        while value.lanes > 1:
            half = value.lanes // 2
            low, high = k.shuffle(value, value, range(half)), k.shuffle(value, value, range(half, 2 * half))
            value = self.combine(k, low, high)
        return self.combine(k, value, single.value)

    # ---- across -----------------------------------------------------------------------------------------------

    def _columns(self, k: Kernel, y: Pointer, x: Pointer, column: Value, span: tuple[Value, Value]) -> None:
        columns = k.number("columns")
        if not self.tail:
            self._block(k, y + column, x + column, self.lanes, None, span)
            return
        with k.when(column + self.lanes <= columns):
            self._block(k, y + column, x + column, self.lanes, None, span)
        with k.when(column + self.lanes > columns):
            if min(self.source.itemsize, self.result.itemsize) >= 4:
                mask = k.tail_mask(columns - column, self.lanes)
                self._block(k, y + column, x + column, self.lanes, mask, span)
            else:
                for place in k.range(column, columns):
                    self._block(k, y + place, x + place, 1, None, span)

    def _block(
        self, k: Kernel, y: Pointer, x: Pointer, lanes: int, mask: Value | None, span: tuple[Value, Value]
    ) -> None:
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
                        value = self.term(k, source.load(number * lanes, lanes, mask))
                        each.value = self.combine(k, each.value, value)
                for total, each in zip(totals, partial, strict=True):
                    self._join(k, total, each.value)
        for number, total in enumerate(totals):
            y.store(self._finished(k, total.value).to(y.element), number * lanes, mask)
