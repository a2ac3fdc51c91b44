"""Pooling whose windows differ in size and place, given as a range of the input per output (adaptive pooling).

for item in items:                              # a band of output rows of one plane
    for row in output rows of the band:
        combined = combine(x[row], x[row + 1] …)                       (`fewest_rows` unrolled, a scratch row)
        for plane, row in the rest of the ranges of the output row:    (rows by eights)
            combined = combine(combined, x[row], x[row + 1] …)
        for column in output columns:
            y[row][column] = combine(combined[range of the column])    (`fewest` columns unrolled)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Value
from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, minimum, plain
from cenote.core.target import Target
from cenote.kernels.base import Argument
from cenote.kernels.pool.common import SLACK, PoolSpec, Strip, combine_all, load, spans
from cenote.kernels.pool.generic import take_rows
from cenote.kernels.pool.problem import (
    Bounds,
    Build,
    Candidate,
    Geometry,
    Partition,
    PoolProblem,
    estimate,
    spec_fields,
    window_build,
)
from cenote.kernels.row_lanes import fitting
from cenote.kernels.tables import whole_numbers

UNROLLED = 16  # columns of a window that are unrolled at most
MOST_TAPS = 96  # of an axis that are unrolled, where windows differ


@dataclass(frozen=True)
class PoolAdaptive(PoolSpec):
    """Kernel of pooling over ranges. `bounds` holds (begin, end) of every output plane, then row, then column. Every
    window has at least `fewest` columns and `fewest_rows` rows. `columns`: the ranges of columns where they are few
    enough to be part of the machine code (plain), else empty. With 1, 1 and no columns the kernel takes ranges of any
    size.
    """

    fewest: int
    fewest_rows: int
    columns: tuple[tuple[int, int], ...]

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        return (Parameter("bounds", I64, pointer=True),)

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            strip.take_all_columns()
            combined = strip.row(1)
            planes = self._range(k, strip.depth)
            for row in k.range(strip.first_row, strip.last_row):
                low, high = self._range(k, n("out_d") + row)
                source = strip.x + planes[0] * n("x_d")
                self._first_rows(strip, combined, source + low * n("x_h"))
                take_rows(strip, combined, source, low + min(self.fewest_rows, UNROLLED), high, n("x_h"))
                for plane in k.range(planes[0] + 1, planes[1]):
                    take_rows(strip, combined, strip.x + plane * n("x_d"), low, high, n("x_h"))
                self._across(strip, combined, row)
        return k

    def _first_rows(self, strip: Strip, combined: Pointer, x: Pointer) -> None:
        """Combine the first rows, of which every window has at least so many."""
        k = strip.k
        rows = [x + k.number("x_h") * row for row in range(min(self.fewest_rows, UNROLLED))]
        for at in spans(k, strip.length, self.lanes, unroll=2):
            values = [load(self, row, at, self.lanes) for row in rows]
            combined.store(combine_all(k, self.reduction, values), at)

    def _range(self, k: Kernel, index: Value) -> tuple[Value, Value]:
        bounds = k.pointer("bounds") + index * 2
        return bounds.load(0), bounds.load(1)

    def _across(self, strip: Strip, combined: Pointer, row: Value) -> None:
        k, n = strip.k, strip.k.number
        y, factor = strip.y + row * n("y_h"), strip.factor(row)
        for place, (start, stop) in enumerate(self.columns):
            taps = [combined.load(tap, 1) for tap in range(start, stop)]
            column = k.integer(place)
            strip.store(combine_all(k, self.reduction, taps), y, column, factor, column)
        if self.columns:
            return
        for column in k.range(0, n("out_w")):
            low, high = self._range(k, n("out_d") + n("out_h") + column)
            for channel in spans(k, strip.step, self.out_lanes):
                value = self._window(strip, combined + channel, low, high)
                strip.store(value, y, column * strip.step + channel, factor, column)

    def _window(self, strip: Strip, combined: Pointer, low: Value, high: Value) -> Value:
        """Combine columns low..high-1: the first ones unrolled, the others in a loop."""
        k, step, lanes = strip.k, strip.step, self.out_lanes
        taps = [(combined + low * step).load(step * tap, lanes) for tap in range(min(self.fewest, UNROLLED))]
        total = k.variable(combine_all(k, self.reduction, taps))
        done = low + len(taps)
        if self.fewest > UNROLLED:  # in parts of as many columns, so that sums have short chains
            for start in k.range(done, high - (UNROLLED - 1), UNROLLED):
                taps = [(combined + start * step).load(step * tap, lanes) for tap in range(UNROLLED)]
                total.value = combine_all(k, self.reduction, [total.value, *taps])
            done = done + (((high - done) >> (UNROLLED.bit_length() - 1)) << (UNROLLED.bit_length() - 1))
        for column in k.range(done, high):
            total.value = combine_all(
                k, self.reduction, [total.value, (combined + column * step).load(0, lanes)]
            )
        return total.value


# ---- the offer ------------------------------------------------------------------------------------------------------


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan any ranges."""
    bounds, geometry, step = problem.bounds, problem.geometry, problem.memory.step
    assert bounds is not None
    fields = range_fields(problem, target)
    variants, chosen = _variants(fields, bounds, geometry, step)
    spec = variants[0]
    pitch = (geometry.size[2] * step + 2 * SLACK + 8 * spec.lanes) // 16 * 16 + 16
    table = computed(whole_numbers, tuple(pair for axis in bounds for pair in axis))
    build = range_build(problem, variants, pitch, 2 * pitch + SLACK, {"bounds": table}, chosen)
    bounds = tuple(tuple((plain(begin), plain(end)) for begin, end in axis) for axis in bounds)
    taps = sum(end - begin for begin, end in bounds[1]) * sum(end - begin for begin, end in bounds[0])
    scalar = sum(end - begin for begin, end in bounds[2]) * step / (geometry.out[2] * step / spec.out_lanes)
    rows = taps / (geometry.out[1] * geometry.out[0])
    across = scalar * spec.lanes / spec.out_lanes
    return Candidate(
        estimate("adaptive", problem, spec.lanes, down=2 * rows, across=2 * across, passes=2), build
    )


def range_fields(problem: PoolProblem, target: Target) -> dict[str, Any]:
    """Return the fields of PoolSpec for ranges."""
    widest, step = problem.widest(target), problem.memory.step
    out_lanes = 1 if step == 1 else fitting(widest, step)
    return spec_fields(problem, fitting(widest, problem.geometry.size[2] * step), out_lanes)


def range_build(
    problem: PoolProblem,
    spec: PoolSpec | tuple[PoolSpec, ...],
    pitch: int,
    scratch: int,
    more: Mapping[str, Argument],
    chosen: int = 0,
) -> Build:
    """Return the builder of the call for ranges: an item is a plane of the output."""
    geometry = problem.geometry
    cut = Partition(geometry.out[2], 1, geometry.out[1], 1)
    work = geometry.size[1] * geometry.size[2] * problem.memory.step * problem.dtype.itemsize
    return window_build(
        problem,
        spec,
        cut,
        pitch=pitch,
        scratch=scratch,
        work=work,
        more=more,
        chosen=chosen,
    )


def _variants(
    fields: Mapping[str, Any], bounds: Bounds, geometry: Geometry, step: int
) -> tuple[tuple[PoolSpec, ...], int]:
    """Return the kernels that may be used, and the index of the right one: for sizes that are not known yet one whose
    loops take ranges of any length, and one that unrolls long ones."""
    sized = [is_size(geometry.size[axis]) for axis in (1, 2)]
    if not any(sized):
        columns = min(min(end - begin for begin, end in bounds[2]), 2 * UNROLLED)
        rows = min(min(end - begin for begin, end in bounds[1]), UNROLLED)
        return (
            PoolAdaptive(**fields, fewest=columns, fewest_rows=rows, columns=_fixed_columns(bounds[2], step)),
        ), 0
    # A range holds at least as many elements as the quotient of the extents.
    columns, rows = (geometry.size[axis] // geometry.out[axis] for axis in (2, 1))
    longest = minimum(columns // (2 * UNROLLED), rows // UNROLLED)
    variants = tuple(
        PoolAdaptive(**fields, fewest=most_columns, fewest_rows=most_rows, columns=())
        for most_columns, most_rows in ((1, 1), (2 * UNROLLED, UNROLLED))
    )
    return variants, minimum(1, longest)


def _fixed_columns(ranges: Sequence[tuple[int, int]], step: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of columns if all their taps may be unrolled, so that no bounds are read nor compared."""
    few = step == 1 and sum(end - begin for begin, end in ranges) <= MOST_TAPS
    return tuple((int(begin), int(end)) for begin, end in ranges) if few else ()
