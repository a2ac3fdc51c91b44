"""Pooling whose windows have few rows: each output row combines the rows of its window, then the columns.

    for item in items:                              # a strip of columns of a band of output rows of one plane
        for group of output rows of the band:
            for row, column in vectors of the group:    # down: rows of the window, from memory, into scratch rows
                scratch[row][column] = combine(x[row 0][column], x[row 1][column] …)       (rows unrolled)
            for row, column in vectors of the group:    # across: `horizontal`
                y[row][column] = combine(scratch[row][column], scratch[row][column + 1] …) (columns unrolled)

Groups are there for short rows: a load that spans two stores has to wait until both have left the store buffer, and
in a group they have (3x3 on 1536 maps of 28x28: 0.58 ms row by row, 0.49 ms in groups).

A row of the window outside the input is read from a scratch row of identities, so there is one loop for edges and
inside. Where windows neither overlap along the row nor hang over its ends (2x2 with stride 2), both halves happen in
registers (`fused`) and no scratch row is used.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, minimum, plain
from cenote.core.target import Target
from cenote.kernels.cost_model import PoolWork
from cenote.kernels.lanes import every_second, in_order
from cenote.kernels.pool import horizontal
from cenote.kernels.pool.common import (
    SLACK,
    NanGuard,
    PoolSpec,
    Strip,
    choose,
    combine_all,
    fill_blank,
    load,
    spans,
)
from cenote.kernels.pool.problem import (
    Candidate,
    Geometry,
    Partition,
    PoolProblem,
    default_band,
    estimate,
    group_of,
    row_lanes,
    scratch_pitch,
    spec_fields,
    streams,
    strip_in_l1,
    window_build,
)
from cenote.kernels.pool.streaming_store import StreamingStore

AHEAD = 4096  # bytes that prefetches run ahead: beyond the page, where the hardware's prefetcher stops
MOST_ROWS = 27  # rows of a window (planes times rows) that are unrolled


@dataclass(frozen=True)
class PoolSeparable(PoolSpec):
    """Kernel of windows of `planes` x `rows` rows, unrolled. `clipped`: some of them may lie outside the input.

    `fused`: no window overlaps its neighbour in the row or leaves the input sideways (width equal to stride, plain,
    a power of two; or channels innermost). `together`: output rows, one below the other, whose windows' rows are
    loaded once (1, 2 or 4; more than 1 only for windows one row apart, undilated).
    """

    planes: int
    rows: int
    clipped: bool
    fused: bool
    together: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        if self.clipped:
            fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            if self.fused:
                for row in k.range(strip.first_row, strip.last_row):
                    sources = [source for planes in self._sources(strip, row, self.rows) for source in planes]
                    self._fused(strip, sources, strip.y + row * k.number("y_h"), row)
                continue
            guard = NanGuard(k, self)
            for index in k.range(0, k.number("group")):
                strip.fill_edges(strip.edged_row(index + self.scratch_rows))
            self._separate(strip, guard)
            if guard.needed:
                with k.when(guard.seen()):
                    self._separate(strip, None)
        if self.past_caches:
            k.fence()
        return k

    def _separate(self, strip: Strip, guard: NanGuard | None) -> None:
        """Combine down into scratch rows, then across: quickly while there is a guard for NaN, else exactly."""
        k, group = strip.k, strip.k.number("group")
        store = self._streaming_store(strip) if self.past_caches else None
        for following in k.range(strip.first_row, strip.last_row, group):
            # The last group reaches back, as `spans` does.
            start = k.minimum(following, strip.last_row - group)
            for row in k.range(0, group, self.together):
                first = row if self.together == 1 else k.minimum(row, group - self.together)
                self._rows_down(strip, start, first, guard)
            for row in k.range(0, group):
                across = horizontal.Across(strip, self._combined(strip, row), exact=guard is None)
                across.prepare()
                y = store.row(start + row) if store else strip.y + (start + row) * k.number("y_h")
                across.results(y, start + row)
            if store:
                store.flush(start + group)
        if store:
            store.finish()

    def _streaming_store(self, strip: Strip) -> StreamingStore:
        k, group = strip.k, strip.k.number("group")
        buffer = strip.row(group + self.scratch_rows).cast(self.storage)
        room = group * k.number("out_w") + 2 * k.target.line  # before the buffer: the last group reaches back
        return StreamingStore(strip, buffer + ((room + (k.target.line - 1)) & ~(k.target.line - 1)))

    def _combined(self, strip: Strip, row: Value) -> Pointer:
        return strip.edged_row(row + self.scratch_rows)

    def _rows_down(self, strip: Strip, start: Value, first: Value, guard: NanGuard | None) -> None:
        """Combine the rows of `together` windows, one below the other; rows that two neighbours share are combined
        only once."""
        k, exact = strip.k, guard is None
        sources = self._sources(strip, start + first, self.rows + self.together - 1)
        results = [self._combined(strip, first + index) + strip.left for index in range(self.together)]
        for at in spans(k, strip.length, self.lanes, unroll=2 if self.together == 1 else 1):
            loaded = [[load(self, source, at, self.lanes) for source in planes] for planes in sources]
            if guard is not None:
                guard.see([value for planes in loaded for value in planes])
            rows = [combine_all(k, self.reduction, planes, exact) for planes in loaded]
            for index in range(0, self.together, 2):
                if self.together == 1 or self.rows == 1:
                    for each in range(index, min(index + 2, self.together)):
                        results[each].store(
                            combine_all(k, self.reduction, rows[each : each + self.rows], exact), at
                        )
                    continue
                shared = combine_all(k, self.reduction, rows[index + 1 : index + self.rows], exact)
                upper = combine_all(k, self.reduction, [rows[index], shared], exact)
                lower = combine_all(k, self.reduction, [shared, rows[index + self.rows]], exact)
                results[index].store(upper, at)
                results[index + 1].store(lower, at)

    def _sources(self, strip: Strip, row: Value, rows: int) -> list[list[Pointer]]:
        """Start addresses, in each plane, of so many rows from the first of the window of an output row on."""
        k, n = strip.k, strip.k.number
        blank = k.scratch.cast(self.storage)
        first_plane = strip.depth * n("stride_d") - n("pad_d")
        first_row = row * n("stride_h") - n("pad_h")
        sources: list[list[Pointer]] = []
        for tap in range(rows):
            y = first_row + n("dilation_h") * tap
            sources.append([])
            for plane in range(self.planes):
                z = first_plane + n("dilation_d") * plane if self.deep else k.integer(0)
                source = strip.x + (z * n("x_d") + y * n("x_h"))
                if self.clipped:
                    inside = y.bits(U64) < n("size_h").bits(U64)
                    if self.deep:
                        inside = inside & (z.bits(U64) < n("size_d").bits(U64))
                    source = choose(k, inside, source, blank)
                sources[-1].append(source)
        return sources

    def _down(self, k: Kernel, sources: list[Pointer], at: Value, lanes: int) -> Value:
        return combine_all(k, self.reduction, [load(self, source, at, lanes) for source in sources])

    def _fused(self, strip: Strip, sources: list[Pointer], y: Pointer, row: Value) -> None:
        k, lanes, factor = strip.k, self.out_lanes, strip.factor(row)
        if self.step == 1:
            for at in spans(k, strip.count, lanes, unroll=2):
                places = [at * self.stride + part * lanes for part in range(self.stride)]
                self._ask(k, sources, places)
                parts = [self._down(k, sources, place, lanes) for place in places]
                strip.store(self._neighbours(k, parts), y, at, factor, at)
            return
        for column in k.range(0, strip.count):
            base = column * strip.step
            for channel in spans(k, strip.step, lanes):
                offsets = [
                    base * self.stride + (strip.step * (tap * self.dilation) + channel)
                    for tap in range(self.width)
                ]
                taps = [self._down(k, sources, offset, lanes) for offset in offsets]
                strip.store(combine_all(k, self.reduction, taps), y, base + channel, factor, column)

    def _ask(self, k: Kernel, sources: list[Pointer], places: list[Value]) -> None:
        """Prefetch the next data of the loop, AHEAD bytes on. 2x2 on 64x224x224: 0.40 to 0.29 ms from the level 3
        cache, 1.2 to 0.9 ms from memory. With planes, or where windows overlap and reuse what they read, it does not
        pay.
        """
        if self.deep:
            return
        for source in sources:
            for place in places[:: max(1, k.target.line // (self.lanes * self.storage.nbytes))]:
                k.prefetch(source, place + AHEAD // self.storage.nbytes)

    def _neighbours(self, k: Kernel, parts: list[Value]) -> Value:
        """Combine windows as wide as there are parts, none overlapping, of the concatenated parts."""
        if parts[0].lanes == 1:
            return combine_all(k, self.reduction, parts)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            split = [[every_second(k, a, b, first) for first in (0, 1)] for a, b in pairs]
            parts = [in_order(k, combine_all(k, self.reduction, both)) for both in split]
        return parts[0]

    @property
    def scratch_rows(self) -> int:
        """Number of scratch rows that a thread needs, besides combined rows (as many as the word `group` says)."""
        return horizontal.FIRST_ROW + horizontal.scratch_rows(self)


# ---- the offer ------------------------------------------------------------------------------------------------------


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan windows of up to MOST_ROWS rows (planes times rows)."""
    geometry, memory = problem.geometry, problem.memory
    planes, rows = geometry.window[:2]
    if planes * rows > MOST_ROWS:
        return None
    fused = is_fused(geometry, memory.step)
    cut = Partition.of(geometry, strip_in_l1(problem, target), default_band(problem, target))
    lanes = row_lanes(problem, cut, target, by_column=fused)
    if lanes is None:
        return None
    group = group_of(problem, cut)
    clipped = not geometry.inside(1) or not geometry.inside(0)
    each, rows_chosen = _together(geometry, group)
    variants = tuple(
        PoolSeparable(
            **spec_fields(
                problem, *pair, not fused and streams(problem, cut, target, pair[1], dense_rows=True)
            ),
            planes=planes,
            rows=rows,
            clipped=clipped,
            fused=fused,
            together=together,
        )
        for pair in lanes.pairs
        for together in each
    )
    chosen = lanes.chosen * len(each) + rows_chosen
    pitch = scratch_pitch(problem, cut.strip, variants[0].lanes)
    more = StreamingStore.scratch_rows(group) if variants[0].past_caches else 0
    scratch = (max(spec.scratch_rows for spec in variants) + group + more) * pitch + SLACK
    return Candidate(
        _work(problem, variants[plain(chosen)]),
        window_build(problem, variants, cut, pitch=pitch, scratch=scratch, group=group, chosen=chosen),
    )


def _work(problem: PoolProblem, spec: PoolSeparable) -> PoolWork:
    loads = spec.planes * (spec.rows + spec.together - 1) / spec.together
    if spec.fused:
        return estimate("separable", problem, spec.lanes, across=loads * (2 * spec.width) + 1, passes=1)
    guarded = 3 if spec.is_guarded else 2  # a load, a step, and for maxima of floats a check for NaN
    return estimate(
        "separable",
        problem,
        spec.lanes,
        down=guarded * loads + 1,
        across=horizontal.steps(spec),
        passes=2 / 3,
    )


def is_fused(geometry: Geometry, step: int) -> bool:
    """Whether windows neither overlap along the row nor leave it, and are few enough columns for registers."""
    width, stride = geometry.window[2], geometry.stride[2]
    if not geometry.inside(2) or geometry.window[0] * geometry.window[1] > 4:
        return False
    if geometry.dilation[2] > 1 and width > 1:
        return False
    if step == 1:
        return width == stride and width in (1, 2, 4) and (width == 1 or geometry.dilation[2] == 1)
    return width <= stride and width <= 4


def _together(geometry: Geometry, group: int) -> tuple[tuple[int, ...], int]:
    """Return the numbers of output rows that may share the rows of their windows in registers, and the index of the
    right one: fewer rows with planes, which need more pointers."""
    if geometry.window[1] == 1 or geometry.stride[1] != 1 or geometry.dilation[1] != 1:
        return (1,), 0
    most = 4 if geometry.window[0] == 1 and geometry.window[1] <= 5 else 2
    if not is_size(group):
        return (4 if group >= most == 4 else min(group, 2),), 0
    return (1, 2, 4)[: most.bit_length()], minimum(group // 2, most.bit_length() - 1)
