"""Largest or smallest value of each window and its place, for undilated windows in one plane: separable.

    for item in items:                              # a strip of columns of a band of output rows of one plane
        for row in output rows of the band:
            for input rows of the window not seen yet:             across: best of the row's taps, and which tap it was
                ring[input row] = (values, indices) of every window's strip of that row
            for column in vectors of the strip:                    down: best of those
                for input row in the window:
                    better = ring[input row] > best;  best, index = ring[input row] where better

Across first and down second, both in order and with strict comparison, so of equal values the first in row-major order
wins; the other way round it would be the first column's. A row's taps are compared one by one up to DIRECT of them (in
registers for windows of 2 or 3 columns with stride 2), else windows of 2, 4, 8 … columns are joined from two halves,
which may overlap: of two equal values the first half's stands. So a 13x13 window costs 4 + 13 comparisons, not 169.

NaN rules: "propagate", a NaN beats everything before it, and nothing but another NaN beats it (the last NaN wins, as
in PyTorch); a quick pass leaves that out, and an item where there was a NaN is done again. "ignore": everything else
beats a NaN. Rows outside of the input count as the nearest row inside: equal values change nothing.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, I64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.pool.argmax_generic import index_shift, index_strip
from cenote.kernels.pool.argmax_horizontal import (
    DIRECT,
    INDEX_RING,
    RING,
    ArgmaxSpec,
    Best,
    PairSearch,
    RowSearch,
    Search,
)
from cenote.kernels.pool.common import INDEX_PARAMETERS, SLACK, NanGuard, Strip, spans
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
    window_build,
)
from cenote.kernels.pool.small_window import FEWEST_LANES, takes_pairs

MOST_ROWS = 5  # rows of a window that are unrolled


@dataclass(frozen=True)
class PoolArgmaxSeparable(ArgmaxSpec):
    """Kernel of undilated windows in one plane."""

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            guard = NanGuard(k, self)
            self._band(strip, guard)
            if guard.needed:
                with k.when(guard.seen()):
                    self._band(strip, None)
        return k

    def _band(self, strip: Strip, guard: NanGuard | None) -> None:
        k, n = strip.k, strip.k.number
        across = (PairSearch if self.pairs else RowSearch)(strip, guard)
        down = _Down(strip, guard)
        seen = k.variable(k.integer(0))  # input rows below this one are in the ring, or no longer needed
        for row in k.range(strip.first_row, strip.last_row):
            first = row * n("stride_h") - n("pad_h")
            high = k.minimum(first + n("window_h"), n("size_h"))
            low = k.maximum(first, k.integer(0))
            for y in k.range(k.maximum(seen.value, low), high):
                across.row(y)
            seen.value = high
            down.row(row, first, low, high)

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        return INDEX_PARAMETERS

    def scratch_rows(self, rows: int) -> int:
        """Number of scratch rows that a thread needs for windows of so many rows."""
        return RING + rows + (INDEX_RING + rows) * max(1, I32.nbytes // self.compute.nbytes)


class _Down(Search):
    """Search of the rows of a window."""

    def row(self, row: Value, first: Value, low: Value, high: Value) -> None:
        """Emit one output row, whose windows start at input row `first` and have low..high-1."""
        k, strip, spec, lanes = self.k, self.strip, self.spec, self.lanes
        target = strip.y_offset + row * k.number("y_h")
        self.shift = index_shift(strip, row)
        sources = []
        for tap in range(spec.rows):
            sources.append(self.ring(k.minimum(k.maximum(first + tap, k.integer(0)), high - 1)))
        if spec.step == 1:
            for at in spans(k, strip.count, lanes):
                self._write(self._best(sources, low, high, at), target, at, None)
            return
        for column in k.range(0, strip.count):
            for channel in spans(k, strip.step, lanes):
                at = column * strip.step + channel
                self._write(self._best(sources, low, high, at), target, at, channel)

    def _best(self, sources: list[tuple[Pointer, Pointer]], low: Value, high: Value, at: Value) -> Best:
        k, lanes = self.k, self.lanes
        if sources:
            loaded = [(values.load(at, lanes), indices.load(at, lanes)) for values, indices in sources]
            best = loaded[0]
            for other in loaded[1:]:
                best = self.better(best, other)
            return best
        values, indices = self.ring(low)
        value, index = k.variable(values.load(at, lanes)), k.variable(indices.load(at, lanes))
        # The rows lie in the ring from the lowest one's slot on, and from its beginning.
        slot, many = low % self.many, self.many
        after = k.minimum(slot + (high - low), many)
        for begin, stop in ((slot + 1, after), (k.integer(0), slot + (high - low) - many)):
            for each in k.range(begin, stop):
                place = self.value_row(each + RING) + at, self.index_row(each + INDEX_RING) + at
                better = self.better(
                    (value.value, index.value), (place[0].load(0, lanes), place[1].load(0, lanes))
                )
                value.value, index.value = better
        return value.value, index.value

    def _write(self, best: Best, target: Value, at: Value, channel: Value | None) -> None:
        k, n, spec, (value, index) = self.k, self.k.number, self.spec, best
        if spec.raw:
            value = k.select(value.is_nan(), k.constant(spec.compute, spec.identity, value.lanes), value)
        k.pointer("y").store(value.to(spec.storage), target + at)
        channels = n("i_c") * (spec.step if spec.step > 1 else 1)
        wide = index.to(I64) + (self.strip.batch * n("i_n") + self.strip.channel * channels)
        if channel is not None:
            lane = k.iota(index.lanes, I64) if index.lanes > 1 else k.integer(0)
            wide = wide + (lane + channel) * n("i_c")
        k.pointer("indices").store(wide, target + at + self.shift)


# ---- the offer ------------------------------------------------------------------------------------------------------


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan undilated windows in one plane, with indices."""
    geometry, memory = problem.geometry, problem.memory
    if not geometry.is_flat or geometry.dilation[1:] != (1, 1):
        return None
    rows, width, stride = *geometry.window[1:], geometry.stride[2]
    band = default_band(problem, target)  # neighbouring bands both search the rows that they share
    band = min(max(band, 2 * rows), geometry.out[1])
    cut = Partition.of(geometry, index_strip(problem, target), band)
    lanes = lanes_for(problem, cut, target, shuffled=(1, 2))
    if lanes is None:
        return None
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    plain = memory.step == 1 and cut.strips == 1 and lanes[1] >= FEWEST_LANES
    even = width == 2 and stride == 2 and left == 0 and right <= 1
    pairs = plain and left >= 0 and (even or takes_pairs(width, stride, left, right))
    spec = PoolArgmaxSeparable(
        **spec_fields(problem, lanes[1] if pairs else lanes[0], lanes[1]),
        rows=rows if rows <= MOST_ROWS else 0,
        pairs=pairs,
        unit=problem.index is not None and problem.index.adds[2] == 1,
        # Numbers: the kernel's text depends on them. SAME of an open width has a padding that follows from it.
        left=int(left) if pairs else 0,
        right=1 if pairs and right > 0 else 0,
    )
    pitch = scratch_pitch(problem, cut.strip, spec.lanes)
    build = window_build(
        problem,
        spec,
        cut,
        pitch=pitch,
        scratch=spec.scratch_rows(rows) * pitch + SLACK,
        group=group_of(problem, cut),
        more=index_words(problem),
    )
    levels = width if width <= DIRECT else 3 * width.bit_length()
    across = 4 * geometry.stride[1] * (levels + 2) + 4 * rows + 4
    work = estimate("argmax_separable", problem, spec.out_lanes, across=across, passes=2)
    return Candidate(work, build)
