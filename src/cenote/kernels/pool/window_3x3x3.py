"""Small windows in volumes, plain: every row is read once, and what windows of several planes share is kept.

    for item in items:                              # a band of output rows, through all planes
        for two output planes, one after the other:
            for columns in vectors of a row:
                for two output rows, one below the other:
                    across: the columns of the window, from memory, of each plane's two new input rows
                    down:   slide over those rows (what is kept of the rows above stays in registers)
                    deep:   slide over the planes (what is kept of the planes before lies in `kept`)

To slide by two over windows of three takes three steps for two results: with a, b new, p the two before and q the last
of them, the results are p + a and q + (a + b), and what is kept are a + b and b. So a vector of results takes 3 loads
of the input, one load and one store of what is kept, and 5 steps for 27 elements. What is kept lies in the order in
which it is used.

What lies outside of the input counts as the nearest row inside for maxima (it is in the window, and once more changes
nothing) and as zeros for sums; columns at the ends of rows as in `small_window`. Maxima are taken quickly and, where
there was a NaN, again exactly (`NanGuard`). Results larger than the last cache are written past it by way of rows in
the caches (`streaming_store`): half lines at a time, column after column, took four times as long. Windows of two
planes, or of one row, are no faster so than by `separable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.pool.common import (
    SUM,
    NanGuard,
    PoolSpec,
    Strip,
    choose,
    combine_all,
    fill_blank,
    load_column,
)
from cenote.kernels.pool.problem import (
    Candidate,
    Geometry,
    Partition,
    PoolProblem,
    estimate,
    group_of,
    scratch_pitch,
    spec_fields,
    streams,
    window_build,
)
from cenote.kernels.pool.small_window import FEWEST_LANES, takes_neighbours
from cenote.kernels.pool.streaming_store import StreamingStore
from cenote.kernels.row_lanes import fitting

WINDOW = 3  # planes, rows and columns
PAIR = 2  # planes, and rows, at a time: as many as are kept, one less than a window has
# Bytes of rows in which prefetches run ahead: 3x3x3 on 16x512x1024 4.1 ms on two threads, not 4.9. In shorter ones they
# go to the next planes: 32x32x112x112 on one thread 6.3 ms, not 10.9, without any 14.
LONG_ROW = 2048


@dataclass(frozen=True)
class PoolWindow3x3x3(PoolSpec):
    """Kernel of windows of 3 x 3 x 3 with stride 1, undilated, plain. `left`, `right`: columns by which windows hang
    over the ends of a row."""

    left: int
    right: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        bands = k.number("bands")
        fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item // bands * (k.number("out_d") * bands) + item % bands)  # plane 0
            guard = NanGuard(k, self)
            _BandPass(strip, guard).emit()
            if guard.needed:
                with k.when(guard.seen()):
                    _BandPass(strip, None).emit()
        if self.past_caches:
            k.fence()
        return k

    def scratch_elements(self, band: int, columns: int, pitch: int, line: int) -> int:
        """Number of elements that a thread needs: a blank row and one for dropped results, what is kept, and two
        streaming stores."""
        kept = PAIR * (band + 1) * (columns + 2 * self.lanes)
        tables = 2 * PAIR * (band + WINDOW) * -(-8 // self.storage.nbytes)
        return (
            2 * pitch + tables + kept + (PAIR * ((band + 1) * columns + 4 * line) if self.past_caches else 0)
        )


class _BandPass:
    """Pooling of one strip: exact where there is no guard for NaN, else quick."""

    def __init__(self, strip: Strip, guard: NanGuard | None) -> None:
        assert isinstance(strip.spec, PoolWindow3x3x3)
        self.strip, self.k, self.guard = strip, strip.k, guard
        self.spec: PoolWindow3x3x3 = strip.spec
        self.lanes = strip.spec.lanes
        k, n = self.k, strip.k.number
        self.rows = strip.last_row - strip.first_row
        self.pairs = (self.rows + 1) & ~1
        self.blank = k.scratch.cast(self.spec.storage)
        self.dropped = self.blank + n("pitch")
        tables = self.blank + n("pitch") * 2
        self.tables = tables.cast(U64)
        kept = (self.tables + (self.pairs + PAIR) * (2 * PAIR)).cast(self.spec.storage)
        self.kept = (
            kept + ((0 - k.misaligned(kept, k.target.line)) & (k.target.line - 1)) // self.spec.storage.nbytes
        )
        self.line = k.target.line // self.spec.storage.nbytes
        long = n("x_h") >= LONG_ROW // self.spec.storage.nbytes
        self.ahead = k.select(long, k.integer(4 * self.line), n("x_d") * PAIR)

    def emit(self) -> None:
        k, out_d = self.k, self.k.number("out_d")
        first = 0 - k.number("pad_d")
        sources = [_InputPlane(self, first + index) for index in range(PAIR)]
        self._columns(sources, None, k.integer(0))
        for plane in k.range(0, out_d, PAIR):
            sources = [_InputPlane(self, first + (plane + (PAIR + index))) for index in range(PAIR)]
            if self.spec.past_caches:
                self._past_caches(sources, plane)
            else:
                self._columns(sources, self._in_place(plane), plane)

    def _past_caches(self, sources: Sequence[_InputPlane], plane: Value) -> None:
        k, n = self.k, self.k.number
        vectors = (n("out_w") - 1) // self.lanes + 1
        buffer = self.kept + vectors * self.pairs * (self.lanes * PAIR)
        room = ((self.pairs * n("out_w") + 2 * self.line) & ~(self.line - 1)) + self.line
        buffer = (
            buffer
            + ((0 - k.misaligned(buffer, k.target.line)) & (k.target.line - 1)) // self.spec.storage.nbytes
        )
        stores = [
            StreamingStore(self.strip, buffer + room * index, self.strip.y + n("y_d") * (plane + index))
            for index in range(PAIR)
        ]
        self._columns(sources, lambda index, row, _: stores[index].row(row), plane)
        for index, store in enumerate(stores):
            with k.when(plane + index < n("out_d")):
                store.flush(self.strip.last_row)
                store.finish()

    def _in_place(self, plane: Value) -> Callable[[int, Value, int], Pointer]:
        """Return the function that gives the addresses of results; those of a row or plane too many are dropped."""
        k, n, strip = self.k, self.k.number, self.strip

        def target(index: int, row: Value, turn: int) -> Pointer:
            place = strip.y + (n("y_d") * (plane + index) + n("y_h") * row)
            if turn:
                place = choose(k, row < strip.last_row, place, self.dropped)
            return choose(k, plane + index < n("out_d"), place, self.dropped) if index else place

        return target

    def _columns(
        self,
        sources: Sequence[_InputPlane],
        target: Callable[[int, Value, int], Pointer] | None,
        plane: Value,
    ) -> None:
        """Compute all columns of the band in two planes, or, without a target, what is kept of the planes before the
        first."""
        k, n, spec, strip, lanes = self.k, self.k.number, self.spec, self.strip, self.lanes
        count = strip.count
        work = (len(sources), target is not None, plane)
        for row in k.range(0, self.pairs + PAIR):
            for index, source in enumerate(sources):
                self._note(index, row, source.row(strip.first_row - n("pad_h") + row))
        if target is not None:
            for row in k.range(0, self.pairs, PAIR):
                for turn in range(PAIR):
                    for index in range(PAIR):
                        self._note(
                            PAIR + index, row + turn, target(index, strip.first_row + (row + turn), turn)
                        )
        if spec.left:
            self._down(*work, k.integer(0), k.integer(0), first=True)
        latest = count - (spec.right + lanes)  # from here on, vectors hang over the end
        for at in k.range(lanes if spec.left else 0, count - lanes, lanes):
            place = k.minimum(at, latest) if spec.right else at
            self._down(*work, place, at // lanes)
        self._down(*work, count - lanes, (count - 1) // lanes, last=True)

    def _slot(self, table: int, row: Value) -> str:
        return (self.tables + (row * (2 * PAIR) + table)).text

    def _note(self, table: int, row: Value, pointer: Pointer) -> None:
        """Store the address of a row, so that the loops over columns need not compute it."""
        self.k.line(f"store ptr {pointer.text}, ptr {self._slot(table, row)}, align 8")

    def _noted(self, table: int, row: Value) -> Pointer:
        text = self.k.assign(f"load ptr, ptr {self._slot(table, row)}, align 8", U64, 1).text
        return Pointer(self.k, self.spec.storage, text)

    def _down(
        self,
        planes: int,
        results: bool,
        plane: Value,
        at: Value,
        number: Value,
        first: bool = False,
        last: bool = False,
    ) -> None:
        """Compute one vector of columns, down the band."""
        k, strip, spec, n = self.k, self.strip, self.spec, self.k.number
        size = self.lanes * PAIR
        kept = self.kept + number * self.pairs * size
        before = []
        for source in range(planes):
            rows = [self._across(source, k.integer(row), at, first, last) for row in range(PAIR)]
            before.append([k.variable(value) for value in self._begin(*rows)])
        scales = [strip.row_scale + (n("out_h") * (plane + index) + strip.first_row) for index in range(PAIR)]
        for row in k.range(0, self.pairs, PAIR):
            values = []
            for source, variables in enumerate(before):
                fresh = [self._across(source, row + (PAIR + turn), at, first, last) for turn in range(PAIR)]
                down, keep = self._slide([v.value for v in variables], *fresh)
                for variable, value in zip(variables, keep, strict=True):
                    variable.value = value
                values.append(down)
            here = kept + row * size
            for turn in range(PAIR):
                places = [here + (turn * size + index * self.lanes) for index in range(PAIR)]
                newest = [each[turn] for each in values]
                if not results:
                    state = self._begin(*newest)
                else:
                    done, state = self._slide([place.load(0, self.lanes) for place in places], *newest)
                    for index, value in enumerate(done):
                        factor = scales[index].load(row + turn) if spec.scale != "none" else None
                        strip.store(value, self._noted(PAIR + index, row + turn), at, factor, at)
                for place, value in zip(places, state, strict=True):
                    place.store(value)

    def _begin(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return what is kept of the first two rows or planes."""
        return self._combine(a, b), b

    def _slide(
        self, kept: Sequence[Value], a: Value, b: Value
    ) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
        """Return two windows that end in a and b, and what the next two need."""
        both = self._combine(a, b)
        return (self._combine(kept[0], a), self._combine(kept[1], both)), (both, b)

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, exact=self.guard is None)

    def _across(self, source: int, row: Value, at: Value, first: bool, last: bool) -> Value:
        """Combine the windows' columns in one row of the input."""
        spec, pointer = self.spec, self._noted(source, row)
        if self.spec.past_caches:
            self.k.prefetch(pointer, at + self.ahead)
        taps = [self._tap(pointer, at, tap, first, last) for tap in range(WINDOW)]
        if self.guard is not None:
            self.guard.see_products([taps[spec.left]])
            if last and spec.left + spec.right < WINDOW - 1:
                self.guard.see_products([taps[-1 - spec.right]])
        return self._combine(*taps)

    def _tap(self, source: Pointer, at: Value, tap: int, first: bool, last: bool) -> Value:
        """Load one column of all windows of the vector."""
        spec = self.spec
        under = spec.left - tap if first else 0
        over = tap - (WINDOW - 1 - spec.right) if last else 0
        return load_column(self.k, spec, source, (at, tap - spec.left), (under, over), self.lanes)


class _InputPlane:
    """Plane of the input, by its number; outside, its substitute."""

    def __init__(self, band: _BandPass, number: Value) -> None:
        self.band, k, n = band, band.k, band.k.number
        self.inside = number.bits(U64) < n("size_d").bits(U64)
        if band.spec.reduction != SUM:
            number = k.minimum(k.maximum(number, k.integer(0)), n("size_d") - 1)
        self.start = band.strip.x + number * n("x_d")

    def row(self, row: Value) -> Pointer:
        k, n = self.band.k, self.band.k.number
        if self.band.spec.reduction != SUM:
            return self.start + k.minimum(k.maximum(row, k.integer(0)), n("size_h") - 1) * n("x_h")
        inside = self.inside & (row.bits(U64) < n("size_h").bits(U64))
        return choose(k, inside, self.start + row * n("x_h"), self.band.blank)


# ---- the offer ------------------------------------------------------------------------------------------------------

BAND_ROWS = 14  # of a band: 28 rows of 112 take a tenth longer, 8 no less
BAND_COLUMNS = BAND_ROWS * 112
WIDEST_VECTOR = 32  # bytes: AVX2 (Zen 3) takes a third less than `separable`, AVX-512 1.3 to 2 times as long


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan windows of 3 x 3 x 3, one apart, plain."""
    if is_size(problem.nbytes):
        return None  # the machine code depends on sizes
    geometry = problem.geometry
    if problem.memory.step != 1 or problem.norm or problem.converts:
        return None
    if geometry.window != (WINDOW,) * 3 or geometry.stride != (1,) * 3 or geometry.dilation != (1,) * 3:
        return None
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    if min(geometry.pad) < 0 or not takes_neighbours(WINDOW, left, right):
        return None
    lanes = target.lanes(problem.dtype)
    while geometry.out[2] < lanes + max(left, right) or geometry.size[2] < lanes:
        lanes //= 2
    if lanes < FEWEST_LANES:
        return None
    cut = Partition.of(geometry, None, _band(geometry, problem.memory.batches * problem.memory.channels))
    widest = fitting(problem.widest(target), geometry.out[2])
    past_caches = streams(problem, cut, target, widest, dense_rows=True)
    spec = PoolWindow3x3x3(**spec_fields(problem, lanes, lanes, past_caches), left=left, right=right)
    pitch = scratch_pitch(problem, cut.strip, lanes)
    build = window_build(
        problem,
        spec,
        cut,
        pitch=pitch,
        scratch=spec.scratch_elements(cut.band, geometry.out[2], pitch, target.line),
        group=group_of(problem, cut),
        planes_of_item=geometry.out[0],
    )
    proven = target.vector_bytes <= WIDEST_VECTOR
    across = 2 * WINDOW + 6
    return Candidate(
        estimate("window_3x3x3", problem, lanes, across=across, passes=1 / 2, proven=proven), build
    )


def _band(geometry: Geometry, volumes: int) -> int:
    """Number of output rows of an item that goes through all planes of one of so many volumes: the kept rows stay in
    the level 1 cache, and there are enough items for many threads."""
    most = max(BAND_ROWS, BAND_COLUMNS // geometry.out[2])
    most = max(4, min(most, geometry.out[1] * volumes // 16))
    bands = -(-geometry.out[1] // most)
    return min((-(-geometry.out[1] // bands) + 1) & ~1, geometry.out[1])
