"""Sums of windows and ranges of any kind that keep what each addition loses (`kernels.compensated`).

for item in items:                              # a strip of columns of a band of output rows of one plane
    for row in output rows of the band:
        for plane, row in the window, within the input:        (loops)
            totals[column] += x[row][column]                   (two scratch rows: sums, and what they lost)
        for column in output columns:
            for tap in the window's columns: total += totals[tap]      (up to 8 unrolled)
            y[row][column] = total
"""

from __future__ import annotations

from collections.abc import Iterator

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, Pointer, Value
from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.kernels.compensated import Compensated
from cenote.kernels.cost_model import PoolWork
from cenote.kernels.lanes import strided
from cenote.kernels.pool.adaptive import range_build, range_fields
from cenote.kernels.pool.common import SLACK, PoolSpec, Strip, load, spans, taps_inside
from cenote.kernels.pool.generic import once
from cenote.kernels.pool.problem import (
    Candidate,
    Partition,
    PoolProblem,
    default_band,
    estimate,
    row_lanes,
    scratch_pitch,
    spec_fields,
    strip_in_l1,
    window_build,
)
from cenote.kernels.tables import whole_numbers

UNROLLED = 8  # columns of a window that are unrolled at most
ROWS = 2  # of scratch
STEPS = 6  # vector operations of an addition, beside loads and stores

Rows = tuple[Pointer, Pointer]


@dataclass(frozen=True)
class PoolCompensated(PoolSpec):
    """Kernel of windows of any number of planes and rows, or, with `ranges`, of the `bounds` of every output plane,
    row and column."""

    ranges: bool

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        return (Parameter("bounds", I64, pointer=True),) if self.ranges else ()

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            if self.ranges:
                strip.take_all_columns()
            rows = strip.edged_row(0), strip.edged_row(1)
            for each in rows:
                strip.fill_edges(each)
            totals = rows[0] + strip.left, rows[1] + strip.left
            for row in k.range(strip.first_row, strip.last_row):
                for each in totals:
                    strip.fill(each, strip.length)
                for x in self._rows(strip, row):
                    self._add(strip, totals, x)
                self._across(strip, rows, row)
        return k

    def _range(self, k: Kernel, index: Value) -> tuple[Value, Value]:
        bounds = k.pointer("bounds") + index * 2
        return bounds.load(0), bounds.load(1)

    def _rows(self, strip: Strip, row: Value) -> Iterator[Pointer]:
        """Emit loops over the input rows of an output row."""
        k, n = strip.k, strip.k.number
        if self.ranges:
            for plane in k.range(*self._range(k, strip.depth)):
                for tap in k.range(*self._range(k, n("out_d") + row)):
                    yield strip.x + (plane * n("x_d") + tap * n("x_h"))
            return
        first_plane, first = strip.depth * n("stride_d") - n("pad_d"), row * n("stride_h") - n("pad_h")
        for plane in k.range(*taps_inside(k, first_plane, "d")):
            for tap in k.range(*taps_inside(k, first, "h")):
                z, y = first_plane + plane * n("dilation_d"), first + tap * n("dilation_h")
                yield strip.x + (z * n("x_d") + y * n("x_h"))

    def _add(self, strip: Strip, totals: Rows, x: Pointer) -> None:
        """Add a row of the input to the totals."""
        k = strip.k
        for at, fresh in once(k, strip.length, self.lanes):
            value = load(self, x, at, self.lanes)
            if fresh is not None:
                value = k.select(fresh, value, k.constant(self.compute, 0, self.lanes))
            total = Compensated(k, self.compute, self.lanes)
            total.load(totals, at, self.lanes)
            total.add(value)
            total.store(totals, at)

    def _across(self, strip: Strip, rows: Rows, row: Value) -> None:
        """Compute the outputs of a row."""
        y, factor = strip.y + row * strip.k.number("y_h"), strip.factor(row)
        for column, channel in self._places(strip):
            place = column * strip.step + channel
            strip.store(self._window(strip, rows, column, channel), y, place, factor, column)

    def _places(self, strip: Strip) -> Iterator[tuple[Value, Value]]:
        k = strip.k
        if self.step == 1 and not self.ranges:
            for at in spans(k, strip.count, self.out_lanes):
                yield at, k.integer(0)
            return
        for column in k.range(0, strip.count):
            for channel in spans(k, strip.step, self.out_lanes):
                yield column, channel

    def _window(self, strip: Strip, rows: Rows, column: Value, channel: Value) -> Value:
        k, lanes = strip.k, self.out_lanes
        total = Compensated(k, self.compute, lanes)
        for tap in self._taps(strip, column):
            place = tap * strip.step + channel
            apart = self.stride if self.step == 1 and not self.ranges else 1
            total.add(*(strided(k, source + place, apart, lanes) for source in rows))
        return total.result()

    def _taps(self, strip: Strip, column: Value) -> Iterator[Value]:
        """Yield the columns of the window of an output column."""
        k, n = strip.k, strip.k.number
        if self.ranges:
            yield from k.range(*self._range(k, n("out_d") + n("out_h") + column))
            return
        for tap in range(self.width) if self.width <= UNROLLED else k.range(0, self.width):
            yield column * self.stride + tap * self.dilation


# ---- the offer ------------------------------------------------------------------------------------------------------


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan any windows and ranges."""
    return _windows(problem, target) if problem.bounds is None else _ranges(problem, target)


def _windows(problem: PoolProblem, target: Target) -> Candidate | None:
    geometry = problem.geometry
    cut = Partition.of(geometry, strip_in_l1(problem, target), default_band(problem, target))
    lanes = row_lanes(problem, cut, target, by_column=True)
    if lanes is None:
        return None
    variants = tuple(PoolCompensated(**spec_fields(problem, *pair), ranges=False) for pair in lanes.pairs)
    pitch = scratch_pitch(problem, cut.strip, variants[0].lanes)
    planes, rows, columns = geometry.window
    work = _work(problem, variants[plain(lanes.chosen)], planes * rows, columns)
    scratch = ROWS * pitch + SLACK
    return Candidate(
        work,
        window_build(problem, variants, cut, pitch=pitch, scratch=scratch, chosen=lanes.chosen),
    )


def _ranges(problem: PoolProblem, target: Target) -> Candidate:
    bounds, geometry = problem.bounds, problem.geometry
    assert bounds is not None
    spec = PoolCompensated(**range_fields(problem, target), ranges=True)
    pitch = (geometry.size[2] * problem.memory.step + 2 * SLACK + 8 * spec.lanes) // 16 * 16 + 16
    table = computed(whole_numbers, tuple(pair for axis in bounds for pair in axis))
    build = range_build(problem, spec, pitch, ROWS * pitch + SLACK, {"bounds": table})
    planes, rows, columns = (
        sum(plain(end) - plain(begin) for begin, end in axis) / len(axis) for axis in bounds
    )
    return Candidate(_work(problem, spec, planes * rows, columns), build)


def _work(problem: PoolProblem, spec: PoolCompensated, rows: float, columns: float) -> PoolWork:
    down, across = STEPS * rows, STEPS * columns * spec.lanes / spec.out_lanes
    return estimate("compensated", problem, spec.lanes, down=down, across=across, passes=1 + rows)
