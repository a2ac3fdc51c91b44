"""Softmax and its logarithm along one axis of a plain tensor.

    along (the axis is contiguous), an item is a line:     across, an item is a block of columns:
        largest: maximum over the line, by vectors             for each vector of columns:
        exponentials, stored, and their sum                        the same three passes down the axis,
        scaled by 1 / sum                                          one line per lane

Exponentials wait in y (in float32 scratch for types of 16 bits). Sums run in float64, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

COLUMNS = 64  # of one item across


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """`along`: the axis has stride 1; else columns beside each other are done together."""

    logarithm: bool
    along: bool
    dtype: np.dtype[Any]
    outer: int

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
        count = k.number("count")
        compute = _compute(x)
        whole = count // lanes * lanes
        low = k.constant(compute, float("-inf"), lanes)
        state = k.variable(low)

        def widest(place: Value, width: int, mask: Value | None) -> None:
            value = x.load(place, width, mask).to(compute)
            state.value = k.maximum(state.value, value if mask is None else k.select(mask, value, low))

        self._walk(k, count, whole, lanes, widest)
        largest = k.reduce(state.value, "maximum")
        total = k.variable(k.constant(F64, 0.0, lanes))
        waiting = self._waiting(k, y, compute)

        def exponential(place: Value, width: int, mask: Value | None) -> None:
            value = math.exp(k, x.load(place, width, mask).to(compute) - largest)
            if not self.logarithm:
                waiting.store(value, place, mask)
            kept = value if mask is None else k.select(mask, value, k.constant(compute, 0.0, lanes))
            total.value = total.value + kept.to(F64)

        self._walk(k, count, whole, lanes, exponential)
        finish = self._finish(k, k.reduce(total.value, "add"), largest, compute)

        def scaled(place: Value, width: int, mask: Value | None) -> None:
            source = x if self.logarithm else waiting
            y.store(finish(source.load(place, width, mask).to(compute)).to(y.element), place, mask)

        self._walk(k, count, whole, lanes, scaled)

    def _walk(
        self,
        k: Kernel,
        count: Value,
        whole: Value,
        lanes: int,
        body: Callable[[Value, int, Value | None], None],
    ) -> None:
        for place in k.range(0, whole, lanes):
            body(place, lanes, None)
        with k.when(whole < count):
            body(whole, lanes, k.tail_mask(count - whole, lanes))

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
        compute = _compute(x)
        count, x_step, y_step = k.number("count"), k.number("x_step"), k.number("y_step")
        state = k.variable(k.constant(compute, float("-inf"), lanes))
        for place in k.range(0, count):
            state.value = k.maximum(state.value, x.load(place * x_step, lanes, mask).to(compute))
        largest = state.value
        total = k.variable(k.constant(F64, 0.0, lanes))
        waiting = self._waiting(k, y, compute)
        step = y_step if waiting is y else k.integer(lanes)
        for place in k.range(0, count):
            value = math.exp(k, x.load(place * x_step, lanes, mask).to(compute) - largest)
            if not self.logarithm:
                waiting.store(value, place * step, mask)
            total.value = total.value + value.to(F64)
        finish = self._finish(k, total.value, largest, compute)
        for place in k.range(0, count):
            source, stride = (x, x_step) if self.logarithm else (waiting, step)
            value = source.load(place * stride, lanes, mask).to(compute)
            y.store(finish(value).to(y.element), place * y_step, mask)


def _compute(x: Pointer) -> Scalar:
    return F64 if x.element is F64 else F32


def softmax_call(x: View, y: View, axes: Sequence[int], logarithm: bool, target: Target) -> Call:
    """Softmax over neighbouring axes (one, or all from one on), which must be dense as one."""
    first, last = axes[0], axes[-1] + 1
    count = prod(x.shape[first:last])
    x_step, y_step = x.strides[last - 1], y.strides[last - 1]
    columns = prod(x.shape[last:])
    along = columns == 1
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    spec = SoftmaxSpec(logarithm, along, y.type.dtype, len(outer))
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
        0 if y.type.dtype.itemsize >= 4 else 4 * count * (1 if along else vector_lanes(y.type.dtype, target))
    )
    work = maximum(1, count * (1 if along else COLUMNS))
    return Call.named(spec, words, items, grain=maximum(1, 32768 // work), scratch=scratch)
