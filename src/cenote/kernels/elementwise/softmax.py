"""Softmax and its logarithm along one axis of a plain tensor.

    along (the axis is contiguous), an item is a line:     across, an item is a block of columns:
        largest: maximum over the line, by vectors             for each vector of columns:
        exponentials, stored, and their sum                        the same three passes down the axis,
        scaled by 1 / sum                                          one line per lane

Exponentials wait in y (in float32 scratch for types of 16 bits). Sums run in float64 from piece to piece (within a
piece of 4,096 elements in float32), always in the same order. Lines of more than 65,536 elements do not stay in the
caches: largest and sum come from one pass, and the exponentials are computed again in the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.elementwise.statistics import (
    PIECE,
    UNROLL,
    compute_type,
    goes_past_caches,
    walk,
    write,
)
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

COLUMNS = 64  # of one item across
LONG = 1 << 16  # elements of a line


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """Kernel of softmax. `along`: the axis has stride 1; else neighbouring columns are computed together. `long`:
    lines exceed the caches, so that exponentials are computed twice and memory is read only twice."""

    logarithm: bool
    along: bool
    long: bool
    dtype: np.dtype[Any]
    outer: int
    past_caches: bool = False

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x", may_alias=True)
        numbers = ["count", "y_step", "x_step", "columns", *axis_names(self.outer, ("y", "x"))]
        return (*pointers, *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = vector_lanes(self.dtype, target)
        for item in k.range(k.begin, k.end):
            if self.along:
                y, x = axis_pointers(k, self.outer, ("y", "x"), item)
                self._line(k, y, x, lanes)
                if self.past_caches:
                    k.fence()
                continue
            blocks = (k.number("columns") + COLUMNS - 1) // COLUMNS
            y, x = axis_pointers(k, self.outer, ("y", "x"), item // blocks)
            first = item % blocks * COLUMNS
            last = k.select(first + COLUMNS < k.number("columns"), first + COLUMNS, k.number("columns"))
            for column in k.range(first, last, lanes):
                with k.when(column + lanes <= last):
                    self._columns(k, y + column, x + column, lanes, None)
                with k.when(column + lanes > last):
                    self._tail_columns(k, y + column, x + column, lanes, last - column)
        return k

    # ---- along ------------------------------------------------------------------------------------------------

    def _line(self, k: Kernel, y: Pointer, x: Pointer, lanes: int) -> None:
        count, compute = k.number("count"), compute_type(x)
        line = _Line(k, x, lanes)
        if self.long:
            largest, total = line.in_pieces(count)
        else:
            largest = line.largest(k.integer(0), count)
            waiting = None if self.logarithm else self._waiting(k, y, compute)
            total = line.total(k.integer(0), count, largest, waiting)
        finish = self._finish(k, total, largest, compute)

        def scaled(place: Value, width: int, mask: Value | None) -> Value:
            source = x if self.logarithm or self.long else self._waiting(k, y, compute)
            value = source.load(place, width, mask).to(compute)
            if self.long and not self.logarithm:
                value = math.exp_falling(k, value - largest)
            return finish(value).to(y.element)

        write(k, x, y, count, lanes, self.past_caches, scaled)

    def _waiting(self, k: Kernel, y: Pointer, compute: Scalar) -> Pointer:
        return y if y.element is compute else k.scratch.cast(compute)

    def _finish(self, k: Kernel, total: Value, largest: Value, compute: Scalar) -> Callable[[Value], Value]:
        if self.logarithm:
            logarithm = math.log(k, total).to(compute)
            return lambda value: value - largest - logarithm
        factor = (1.0 / total).to(compute)
        return lambda value: value * factor

    # ---- across -----------------------------------------------------------------------------------------------

    def _tail_columns(self, k: Kernel, y: Pointer, x: Pointer, lanes: int, left: Value) -> None:
        if x.element.nbytes < 4:
            for column in k.range(0, left):
                self._columns(k, y + column, x + column, 1, None)
        else:
            self._columns(k, y, x, lanes, k.tail_mask(left, lanes))

    def _columns(self, k: Kernel, y: Pointer, x: Pointer, lanes: int, mask: Value | None) -> None:
        compute = compute_type(x)
        count, x_step, y_step = k.number("count"), k.number("x_step"), k.number("y_step")
        state = k.variable(k.constant(compute, float("-inf"), lanes))
        for place in k.range(0, count):
            state.value = k.maximum(state.value, x.load(place * x_step, lanes, mask).to(compute))
        largest = state.value
        total = k.variable(k.constant(F64, 0.0, lanes))
        waiting = self._waiting(k, y, compute)
        step = y_step if waiting is y else k.integer(lanes)
        for place in k.range(0, count):
            value = math.exp_falling(k, x.load(place * x_step, lanes, mask).to(compute) - largest)
            if not self.logarithm:
                waiting.store(value, place * step, mask)
            total.value = total.value + value.to(F64)
        finish = self._finish(k, total.value, largest, compute)
        for place in k.range(0, count):
            source, stride = (x, x_step) if self.logarithm else (waiting, step)
            value = source.load(place * stride, lanes, mask).to(compute)
            y.store(finish(value).to(y.element), place * y_step, mask)


class _Line:
    """Reductions of a line: its largest element and the sum of exponentials of the differences from it."""

    def __init__(self, k: Kernel, x: Pointer, lanes: int) -> None:
        self.k, self.x, self.lanes, self.compute = k, x, lanes, compute_type(x)

    def _chains(self, value: float, number: int = UNROLL) -> list[Variable]:
        return [self.k.variable(self.k.constant(self.compute, value, self.lanes)) for _ in range(number)]

    def largest(self, begin: Value, end: Value) -> Value:
        """Return the largest element. NaN is skipped: its exponential makes the sum NaN, and so the whole line."""
        k, low = self.k, self.k.constant(self.compute, float("-inf"), self.lanes)
        chains, single = self._chains(float("-inf")), k.variable(k.constant(self.compute, float("-inf")))

        def widest(place: Value, width: int, mask: Value | None, chain: int) -> None:
            value = self.x.load(place, width, mask).to(self.compute)
            value = value if mask is None else k.select(mask, value, low)
            state = chains[chain] if width == self.lanes else single
            state.value = k.max_drop_nan(value, state.value)

        walk(k, begin, end, self.lanes, self.x.element.nbytes, widest)
        a, b, c, d = (chain.value for chain in chains)
        both = k.max_drop_nan(k.max_drop_nan(a, b), k.max_drop_nan(c, d))
        return k.max_drop_nan(k.reduce(both, "max_drop_nan"), single.value)

    def total(self, begin: Value, end: Value, largest: Value, waiting: Pointer | None) -> Value:
        """Return the sum, in float64 from piece to piece; exponentials are written to `waiting`."""
        k, total = self.k, self.k.variable(self.k.constant(F64, 0.0))
        for first in k.range(begin, end, PIECE):
            last = k.select(first + PIECE < end, first + PIECE, end)
            total.value = total.value + self._piece(first, last, largest, waiting)
        return total.value

    def _piece(self, begin: Value, end: Value, largest: Value, waiting: Pointer | None) -> Value:
        k, zero = self.k, self.k.constant(self.compute, 0.0, self.lanes)
        chains, single = self._chains(0.0), k.variable(k.constant(self.compute, 0.0))

        def exponential(place: Value, width: int, mask: Value | None, chain: int) -> None:
            value = math.exp_falling(k, self.x.load(place, width, mask).to(self.compute) - largest)
            if waiting is not None:
                waiting.store(value, place, mask)
            state = chains[chain] if width == self.lanes else single
            state.value = state.value + (value if mask is None else k.select(mask, value, zero))

        walk(k, begin, end, self.lanes, self.x.element.nbytes, exponential)
        a, b, c, d = (chain.value for chain in chains)
        return (k.reduce((a + b) + (c + d), "add") + single.value).to(F64)

    def in_pieces(self, count: Value) -> tuple[Value, Value]:
        """Return both in one pass over memory: the sum is scaled down when a piece holds a larger element."""
        k, compute = self.k, self.compute
        low = k.constant(compute, float("-inf"))
        largest, total = k.variable(low), k.variable(k.constant(F64, 0.0))
        for first in k.range(0, count, PIECE):
            last = k.select(first + PIECE < count, first + PIECE, count)
            before = largest.value
            now = k.maximum(before, self.largest(first, last))
            # Only -infinity so far: their exponentials are 0, not those of -inf - (-inf).
            shift = k.select(now.equals(float("-inf")), k.constant(compute, 0.0), now)
            factor = k.select(now.equals(before), k.constant(compute, 1.0), math.exp_falling(k, before - now))
            total.value = total.value * factor.to(F64) + self._piece(first, last, shift, None)
            largest.value = now
        return largest.value, total.value


def softmax_call(x: View, y: View, axes: Sequence[int], logarithm: bool, target: Target) -> Call:
    """Return the launch of softmax over neighbouring axes (one, or all from one on), which must be dense as one."""
    first, last = axes[0], axes[-1] + 1
    count = prod(x.shape[first:last])
    x_step, y_step = x.strides[last - 1], y.strides[last - 1]
    columns = prod(x.shape[last:])
    along = columns == 1
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    long = bool(along and count > LONG)
    # Exponentials that wait in y are in the caches anyhow.
    past_caches = long and goes_past_caches(x, y)
    spec = SoftmaxSpec(logarithm, along, long, y.type.dtype, len(outer), past_caches)
    items = position_count(outer) * (1 if along else -(-columns // COLUMNS)) if y.type.size else 0
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "count": count,
        "y_step": y_step,
        "x_step": x_step,
        "columns": columns,
        **axis_words(outer, ("y", "x")),
    }
    scratch = (
        0
        if y.type.dtype.itemsize >= 4 or long
        else 4 * count * (1 if along else vector_lanes(y.type.dtype, target))
    )
    work = maximum(1, count * (1 if along else COLUMNS))
    return Call.named(spec, words, items, grain=maximum(1, 32768 // work), scratch=scratch)
