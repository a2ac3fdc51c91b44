"""Normalisation of columns beside each other: one of them per lane.

item = block of columns
    for a vector of columns:
        for row: sums, by lanes     emitted
        for row: the results        emitted
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named
from cenote.kernels.elementwise.elementwise import vector_lanes
from cenote.kernels.elementwise.normalize import NOTES, NotedStatistics, Parameters, RowNormalization
from cenote.kernels.elementwise.statistics import CENTRED, Centre, Moments, compute_type
from cenote.kernels.strided_axes import (
    axis_names,
    axis_pointers,
    axis_words,
    joined_axes,
    position_count,
)

COLUMNS = 64  # of one item


@dataclass(frozen=True)
class NormalizeColumns(KernelSpec):
    """Kernel of columns: rows lie a step apart, columns beside each other; scale and bias have an entry per column."""

    form: RowNormalization
    scaled: bool
    biased: bool
    dtypes: tuple[np.dtype[Any], ...]
    outer: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        y, x, parameter, statistic = map(Scalar.of, self.dtypes)
        pairs = [("y", y), ("x", x), ("scale", parameter), ("bias", parameter)]
        pairs += [(name, statistic) for name in NOTES[self.form.noted]]
        pointers = [Parameter(name, scalar, pointer=True, may_alias=True) for name, scalar in pairs]
        numbers = ("rows", "columns", "y_row", "x_row", *axis_names(self.outer, ("y", "x")))
        return (*pointers, *self.form.numbers(), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes, columns = vector_lanes(self.dtypes[1], target), k.number("columns")
        for item in k.range(k.begin, k.end):
            blocks = (columns + COLUMNS - 1) // COLUMNS
            y, x = axis_pointers(k, self.outer, ("y", "x"), item // blocks)
            first = item % blocks * COLUMNS
            last = k.select(first + COLUMNS < columns, first + COLUMNS, columns)
            whole = first + (last - first) // lanes * lanes
            for column in k.range(first, whole, lanes):
                self._columns(k, y, x, column, lanes, None)
            if min(dtype.itemsize for dtype in self.dtypes) < 4:
                for column in k.range(whole, last):
                    self._columns(k, y, x, column, 1, None)
                continue
            with k.when(whole < last):
                self._columns(k, y, x, whole, lanes, k.tail_mask(last - whole, lanes))
        return k

    def _columns(
        self, k: Kernel, y: Pointer, x: Pointer, column: Value, lanes: int, mask: Value | None
    ) -> None:
        y, x, compute, form = y + column, x + column, compute_type(x), self.form
        given = form.noted == "given"
        moments = form.given(k, column, lanes, mask) if given else self._moments(k, x, lanes, mask)
        factor = moments.factor(k, form.statistic, form.outside, k.number("epsilon"))
        form.note(k, moments, factor, column, mask)
        centre = Centre(moments.mean, compute) if moments.mean is not None else None
        shift = None if centre is None else (-centre.low * factor).to(compute)
        factor = factor.to(compute)
        if self.scaled:
            scale = k.pointer("scale").load(column, lanes, mask).to(compute)
            factor, shift = factor * scale, None if shift is None else shift * scale
        if self.biased:
            bias = k.pointer("bias").load(column, lanes, mask).to(compute)
            shift = bias if shift is None else shift + bias
        for row in k.range(0, k.number("rows")):
            value = x.load(row * k.number("x_row"), lanes, mask).to(compute)
            value = centre.of(value) if centre else value
            value = value * factor if shift is None else k.fma(value, factor, shift)
            y.store(value.to(y.element), row * k.number("y_row"), mask)

    def _moments(self, k: Kernel, x: Pointer, lanes: int, mask: Value | None) -> Moments:
        rows, step = k.number("rows"), k.number("x_row")
        largest = self.form.statistic == "largest"

        def total(formula: Any) -> Value:
            state = k.variable(k.constant(F64, 0.0, lanes))
            for row in k.range(0, rows):
                value = formula(x.load(row * step, lanes, mask).to(F64))
                state.value = k.maximum(state.value, value) if largest else state.value + value
            return state.value

        if self.form.statistic == CENTRED:
            mean = total(lambda value: value) / rows.to(F64)
            square = total(lambda value: (value - mean) * (value - mean))
            return Moments(mean, square / rows.to(F64))
        if self.form.statistic in ("rms", "l2"):
            square = total(lambda value: value * value)
            return Moments(None, square / rows.to(F64) if self.form.statistic == "rms" else square)
        return Moments(None, total(k.absolute))


def normalize_columns_call(
    form: RowNormalization,
    x: View,
    y: View,
    axes: Sequence[int],
    parameters: Parameters,
    epsilon: float,
    notes: NotedStatistics | None = None,
) -> Call:
    """Normalise over neighbouring axes that are not the last ones."""
    first, last = axes[0], axes[-1] + 1
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    rows, columns = math.prod(x.shape[first:last]), math.prod(x.shape[last:])
    statistic = notes.dtype if notes else np.dtype(np.float32)
    dtypes = (y.type.dtype, x.type.dtype, parameters.dtype(np.dtype(np.float32)), statistic)
    spec = NormalizeColumns(
        form, parameters.scale is not None, parameters.bias is not None, dtypes, len(outer)
    )
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "scale": parameters.scale,
        "bias": parameters.bias,
        "epsilon": float(epsilon),
        "rows": rows,
        "columns": columns,
        "y_row": y.strides[last - 1],
        "x_row": x.strides[last - 1],
        **axis_words(outer, ("y", "x")),
        **(notes.words if notes else {}),
    }
    items = position_count(outer) * -(-columns // COLUMNS) if y.type.size else 0
    return Call.named(spec, words, items, grain=maximum(1, 16384 // maximum(1, rows * COLUMNS)))
