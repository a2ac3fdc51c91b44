"""Largest or smallest value of each window, and its place.

    for item in items:                              # a strip of columns of a band of output rows of one plane
        for row in output rows of the band:
            for plane, row in the window, within the input: copy the row, with edges, to a scratch row
            for column in vectors of the strip:
                for plane, row in the window, within the input:            (loops)
                    for tap in the window's row:                           (unrolled, or a loop when wide)
                        better = x[tap] > best;  best, index = (x[tap], place of tap) where better

Windows are searched in row-major order with a strict comparison, so of equal values the first wins. Places are counted
in 32-bit lanes and widened when they are stored. NaN rules: "propagate", a NaN beats everything before it, and nothing
but another NaN beats it (the last NaN wins, as in PyTorch); "ignore", everything else beats a NaN.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.lanes import every_second, in_order, second_order
from cenote.kernels.pool.common import INDEX_PARAMETERS, MAXIMUM, SLACK, PoolSpec, Strip, spans, taps_inside
from cenote.kernels.pool.problem import (
    Candidate,
    Partition,
    PoolProblem,
    default_band,
    estimate,
    group_of,
    index_words,
    lanes_for,
    scratch_pitch,
    spec_fields,
    strip_in_l1,
    strip_within,
    window_build,
)
from cenote.kernels.pool.van_herk import goes_by_blocks, strip_room

WIDEST = 16  # columns of a window that are unrolled
FIRST_ROW = 1  # of the copied rows in scratch


@dataclass(frozen=True)
class PoolArgmaxGeneric(PoolSpec):
    """Kernel of windows of any size; their columns are `unrolled`, or a loop over the word `window_w`."""

    unrolled: bool

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        return INDEX_PARAMETERS

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            first_plane = strip.depth * n("stride_d") - n("pad_d")
            for row in k.range(strip.first_row, strip.last_row):
                search = _RowSearch(strip, first_plane, row * n("stride_h") - n("pad_h"))
                search.copy_rows()
                search.shift = index_shift(strip, row)
                search.results(strip.y_offset + row * n("y_h"))
        return k

    @property
    def raw(self) -> bool:
        """Whether NaN is kept while searching, although it is ignored in the end."""
        return self.nan == "ignore" and self.compute.is_float


def index_shift(strip: Strip, row: Value) -> Value:
    """Distance, in elements, from the values of an output row to their indices."""
    n, parts = strip.k.number, (strip.batch, strip.channel, strip.depth, row)
    moves = [part * (n(f"j_{axis}") - n(f"y_{axis}")) for part, axis in zip(parts, "ncdh", strict=True)]
    return moves[0] + moves[1] + moves[2] + moves[3]


class _RowSearch:
    """Search of one output row."""

    def __init__(self, strip: Strip, first_plane: Value, first_row: Value) -> None:
        self.strip, self.k, self.spec = strip, strip.k, strip.spec
        assert isinstance(strip.spec, PoolArgmaxGeneric)
        self.indices: PoolArgmaxGeneric = strip.spec
        self.first_plane, self.first_row = first_plane, first_row
        self.planes, self.rows = taps_inside(self.k, first_plane, "d"), taps_inside(self.k, first_row, "h")
        self.many = self.rows[1] - self.rows[0]
        self.shift: Value = strip.k.integer(0)  # distance from a value to its index
        self.by_pairs = strip.spec.step == 1 and strip.spec.stride == 2 and strip.spec.out_lanes > 1

    def copy_rows(self) -> None:
        """Copy the rows of the windows, in search order, with neutral values beyond their ends."""
        k, n, strip, spec = self.k, self.k.number, self.strip, self.spec
        nothing = float("nan") if self.indices.raw else spec.identity
        blank = k.constant(spec.compute, nothing, spec.lanes)
        for plane in k.range(*self.planes):
            z = self.first_plane + plane * n("dilation_d")
            for tap in k.range(*self.rows):
                source = strip.x + (z * n("x_d") + (self.first_row + tap * n("dilation_h")) * n("x_h"))
                row = strip.row(self._slot(plane, tap))
                for at in k.range(0, strip.left, spec.lanes):
                    row.store(blank, at)
                end = strip.left + strip.length
                for at in k.range(end, end + strip.right, spec.lanes):
                    row.store(blank, at)
                for at in spans(k, strip.length, spec.lanes):
                    (row + strip.left).store(source.load(at, spec.lanes).to(spec.compute), at)

    def _slot(self, plane: Value, tap: Value) -> Value:
        return (plane - self.planes[0]) * self.many + (tap - self.rows[0] + FIRST_ROW)

    def results(self, offset: Value) -> None:
        """Emit the output row that starts at the offset."""
        k, spec, step = self.k, self.spec, self.strip.step
        lanes = spec.out_lanes
        if spec.step == 1:
            for at in spans(k, self.strip.count, lanes):
                first = at * spec.stride
                self._output(first, k.splat(first.to(I32), lanes) + self._columns(lanes), offset + at)
            return
        for column in k.range(0, self.strip.count):
            for channel in spans(k, step, lanes):
                first = column * spec.stride
                columns = k.splat(first.to(I32), lanes)
                self._output(first * step + channel, columns, offset + (column * step + channel), channel)

    def _columns(self, lanes: int) -> Value:
        """First columns of the windows in the lanes, in the order that strided loads give."""
        order = second_order(self.spec.compute, lanes) if self.by_pairs else range(lanes)
        return self.k.lanes_constant(I32, [lane * self.spec.stride for lane in order])

    def _output(self, place: Value, columns: Value, at: Value, channel: Value | None = None) -> None:
        """Compute one vector of outputs: `place` is the first tap in the scratch rows, `columns` the columns of that
        tap in the lanes, relative to the first output's."""
        k, n, spec, lanes = self.k, self.k.number, self.spec, columns.lanes
        width = k.splat(n("i_w").to(I32), lanes)
        base = (columns + k.splat(self.strip.origin.to(I32), lanes)) * width
        nothing = float("nan") if self.indices.raw else spec.identity
        best = k.variable(k.constant(spec.compute, nothing, lanes))
        index = k.variable(self._first(columns, base))
        for plane in k.range(*self.planes):
            z = (self.first_plane + plane * n("dilation_d")) * n("i_d")
            for tap in k.range(*self.rows):
                row = self.strip.row(self._slot(plane, tap)) + place
                y = (self.first_row + tap * n("dilation_h")) * n("i_h")
                here = base + k.splat((z + y).to(I32), lanes)
                taps = range(spec.width) if self.indices.unrolled else k.range(0, n("window_w"))
                for column in taps:
                    distance = column * spec.dilation
                    where = k.splat((n("i_w") * distance).to(I32), lanes)
                    self._take(best, index, self._strided(row + self.strip.step * distance), here + where)
        self._write(best.value, index.value, at, channel)

    def _first(self, columns: Value, base: Value) -> Value:
        """Place of the first tap within the input: the result where nothing is larger than the identity."""
        k, n, spec, lanes = self.k, self.k.number, self.spec, base.lanes
        # Distance from the first tap to column 0.
        short = k.splat((k.integer(0) - self.strip.origin).to(I32), lanes) - columns
        taps = k.maximum((short + (spec.dilation - 1)) // spec.dilation, k.constant(I32, 0, lanes))
        z = (self.first_plane + self.planes[0] * n("dilation_d")) * n("i_d")
        y = (self.first_row + self.rows[0] * n("dilation_h")) * n("i_h")
        return (
            base + taps * k.splat((n("i_w") * spec.dilation).to(I32), lanes) + k.splat((z + y).to(I32), lanes)
        )

    def _strided(self, row: Pointer) -> Value:
        """Load one tap of every window in the lanes."""
        lanes = self.spec.out_lanes
        return (
            every_second(self.k, row.load(0, lanes), row.load(lanes, lanes), 0)
            if self.by_pairs
            else row.load(0, lanes)
        )

    def _take(self, best: Variable, index: Variable, value: Value, place: Value) -> None:
        k, old = self.k, best.value
        better = value > old if self.spec.reduction == MAXIMUM else value < old
        if value.type.is_float and self.indices.raw:
            better = (better | old.is_nan()) & ~value.is_nan()
        elif value.type.is_float:
            better = better | value.is_nan()
        best.value = k.select(better, value, old)
        index.value = k.select(better, place, index.value)

    def _write(self, best: Value, index: Value, at: Value, channel: Value | None) -> None:
        k, n, spec = self.k, self.k.number, self.spec
        if self.by_pairs:
            best, index = in_order(k, best), in_order(k, index, spec.compute)
        if self.indices.raw:
            best = k.select(best.is_nan(), k.constant(spec.compute, spec.identity, best.lanes), best)
        k.pointer("y").store(best.to(spec.storage), at)
        base = self.strip.batch * n("i_n") + self.strip.channel * (
            n("i_c") * (spec.step if spec.step > 1 else 1)
        )
        wide = index.to(I64) + base
        if channel is not None:
            lane = k.iota(best.lanes, I64) if best.lanes > 1 else k.integer(0)
            wide = wide + (lane + channel) * n("i_c")
        k.pointer("indices").store(wide, at + self.shift)


# ---- the offer ------------------------------------------------------------------------------------------------------


def index_strip(problem: PoolProblem, target: Target) -> int:
    """Number of output columns of a strip when indices are wanted."""
    geometry = problem.geometry
    if goes_by_blocks(geometry):
        return strip_within(problem, strip_room(geometry, target))
    return strip_in_l1(problem, target)


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan any windows, with indices."""
    geometry = problem.geometry
    cut = Partition.of(geometry, index_strip(problem, target), default_band(problem, target))
    lanes = lanes_for(problem, cut, target, shuffled=(1, 2))
    if lanes is None:
        return None
    spec = PoolArgmaxGeneric(**spec_fields(problem, *lanes), unrolled=geometry.window[2] <= WIDEST)
    pitch = scratch_pitch(problem, cut.strip, spec.lanes)
    planes, rows, width = geometry.window
    build = window_build(
        problem,
        spec,
        cut,
        pitch=pitch,
        scratch=(1 + planes * rows) * pitch + SLACK,
        group=group_of(problem, cut),
        more=index_words(problem),
    )
    taps = planes * rows * (width * 5 + 2)
    return Candidate(
        estimate(
            "argmax_generic",
            problem,
            spec.out_lanes,
            down=2 * planes * rows,
            across=taps,
            passes=planes * rows,
        ),
        build,
    )
