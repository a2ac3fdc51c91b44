"""Normalisation of many short rows by their own statistics, several of them side by side.

    for item in begin .. end:                    emitted; an item is 16 neighbouring rows
        for group of 8 rows:                     emitted
            a vector of each row at a time       sums; the lanes of all rows joined together
            a vector of each row at a time       sums of differences from the means, and of their squares
            8 means and factors                  in float64, one vector
            row by row                           (x - mean) * factor * scale + bias

A row alone ends in two trees over the lanes of a vector, a square root and divisions, each of which waits for the one
before, and in place its first load waits for the masked store of the row before: rows of 24 take 42 ns, in place 89.
Eight rows share all that: 16 ns (Emerald Rapids; with AVX2 36 and 14).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named
from cenote.kernels.elementwise.statistics import Centre, Moments, centred_moments
from cenote.kernels.reduction.rows import GROUP, joined_lanes
from cenote.kernels.strided_axes import joined_axes

ROWS = 16  # of an item
LONGEST = 768  # elements of a row; twice as fast up to 64, 1.09 times at this length, as fast at 1,024
STATISTICS = ("layer", "rms")
_POINTERS = ("y", "x", "scale", "bias")
_NUMBERS = ("columns", "rows", "y_row", "x_row")
WORDS = (
    *(Parameter(name, F32, pointer=True, may_alias=True) for name in _POINTERS),
    Parameter("epsilon", F64),
    *numbers_named(_NUMBERS),
)


@dataclass(frozen=True)
class NormalizeShortRows(KernelSpec):
    """Kernel of rows of float32. `statistic`: mean and variance ("layer") or the root of the mean square ("rms");
    scale and bias lie along the row. `tail`: a row's last vector is no whole one."""

    statistic: str
    scaled: bool
    biased: bool
    tail: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        return WORDS

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        rows, group = k.number("rows"), min(GROUP, target.lanes())
        for item in k.range(k.begin, k.end):
            first = item * ROWS
            for row in k.range(first, k.min_drop_nan(first + ROWS, rows), group):
                _Group(self, k, row, target.lanes(), group).emit()
        return k


class _Group:
    """Rows side by side. Those behind the last one repeat it, and are not written."""

    def __init__(self, spec: NormalizeShortRows, k: Kernel, row: Value, lanes: int, group: int) -> None:
        self.spec, self.k, self.lanes, self.first = spec, k, lanes, row
        self.columns = k.number("columns")
        self.whole = self.columns // lanes * lanes
        self.mask = k.tail_mask(self.columns - self.whole, lanes) if spec.tail else None
        last = k.number("rows") - 1
        places = [row, *(k.min_drop_nan(row + number, last) for number in range(1, group))]
        self.sources = [k.pointer("x") + place * k.number("x_row") for place in places]
        self.results = [k.pointer("y") + place * k.number("y_row") for place in places]

    def emit(self) -> None:
        k, spec = self.k, self.spec
        moments = self._moments()
        factors = moments.factor(k, spec.statistic, False, k.number("epsilon"))
        centre = Centre(moments.mean, F32) if moments.mean is not None else None
        shifts = None if centre is None else (-centre.low * factors).to(F32)
        for number in range(len(self.sources)):
            with k.when(self.first + number < k.number("rows")):
                high = None if centre is None else self._spread(centre.high, number)
                shift = None if shifts is None else self._spread(shifts, number)
                self._finish(number, high, self._spread(factors.to(F32), number), shift)

    def _spread(self, values: Value, number: int) -> Value:
        """One row's lane, in all lanes."""
        return self.k.shuffle(values, values, [number] * self.lanes)

    def _moments(self) -> Moments:
        """Moments of the rows, one per lane."""
        count = self.k.splat(self.columns.to(F64), len(self.sources))
        if self.spec.statistic == "rms":
            (square,) = self._sums(1, lambda value, _: [value * value])
            return Moments(None, square / count)
        (total,) = self._sums(1, lambda value, _: [value])
        centre = (total / count).to(F32)

        def apart(value: Value, number: int) -> Sequence[Value]:
            moved = value - self._spread(centre, number)
            return [moved, moved * moved]

        rest, square = self._sums(2, apart)
        return centred_moments(self.k, centre, rest, square, count)

    def _sums(self, number: int, formula: Callable[[Value, int], Sequence[Value]]) -> list[Value]:
        """Sums of what a formula gives for each element of a row, one row per lane, in float64."""
        k, zero = self.k, self.k.constant(F32, 0.0, self.lanes)
        totals = [[k.variable(zero) for _ in self.sources] for _ in range(number)]

        def add(place: Value, mask: Value | None) -> None:
            for row, source in enumerate(self.sources):
                values = formula(source.load(place, self.lanes, mask), row)
                for total, value in zip(totals, values, strict=True):
                    total[row].value = total[row].value + (
                        value if mask is None else k.select(mask, value, zero)
                    )

        self._walk(add)
        return [joined_lanes(k, [row.value for row in total], _sum).to(F64) for total in totals]

    def _walk(self, body: Callable[[Value, Value | None], None]) -> None:
        """Emit a loop over the vectors of a row, the last of which may be under a mask."""
        for place in self.k.range(0, self.whole, self.lanes):
            body(place, None)
        if self.mask is not None:
            body(self.whole, self.mask)

    def _finish(self, number: int, centre: Value | None, factor: Value, shift: Value | None) -> None:
        """Write a row."""
        k, spec = self.k, self.spec
        x, y, scale, bias = self.sources[number], self.results[number], k.pointer("scale"), k.pointer("bias")

        def write(place: Value, mask: Value | None) -> None:
            value = x.load(place, self.lanes, mask)
            value = value if centre is None else value - centre
            value = value * factor if shift is None else k.fma(value, factor, shift)
            if spec.scaled and spec.biased:
                value = k.fma(value, scale.load(place, self.lanes, mask), bias.load(place, self.lanes, mask))
            elif spec.scaled:
                value = value * scale.load(place, self.lanes, mask)
            elif spec.biased:
                value = value + bias.load(place, self.lanes, mask)
            y.store(value, place, mask)

        self._walk(write)


def _sum(k: Kernel, a: Value, b: Value) -> Value:
    return a + b


def short_rows_call(
    statistic: str,
    x: View,
    y: View,
    first: int,
    scale: View | Array | None,
    bias: View | Array | None,
    epsilon: float,
    target: Target,
) -> Call | None:
    """Return the call that normalises rows of the axes from `first` on; None where they are long, or few."""
    outer = joined_axes(x.shape[:first], (y.strides[:first], x.strides[:first]))
    columns, kinds = math.prod(x.shape[first:]), [each for each in (scale, bias) if each is not None]
    types = [
        x.type.dtype,
        y.type.dtype,
        *(each.type.dtype if isinstance(each, View) else each.dtype for each in kinds),
    ]
    if (
        statistic not in STATISTICS
        or len(outer) != 1
        or is_size(columns)
        or any(each != np.float32 for each in types)
    ):
        return None
    ((rows, (y_row, x_row)),) = outer
    if not 0 < columns <= LONGEST or (not is_size(rows) and rows < GROUP):
        return None
    spec = NormalizeShortRows(statistic, scale is not None, bias is not None, columns % target.lanes() > 0)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "scale": scale,
        "bias": bias,
        "epsilon": float(epsilon),
        "columns": columns,
        "rows": rows,
        "y_row": y_row,
        "x_row": x_row,
    }
    return Call.named(spec, words, -(-rows // ROWS), grain=maximum(1, 16384 // (ROWS * columns)))
