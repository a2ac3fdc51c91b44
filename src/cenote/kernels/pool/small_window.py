"""Small windows over plain rows, in registers: no scratch rows, no copies, every element loaded from its own place.

    for item in items:                              # a band of output rows of one plane
        for `together` output rows, one below the other:
            for columns in vectors of the row:
                stride 1: across every input row (loads at neighbouring columns), then down those results
                stride 2: down the columns, then even and odd columns apart, and the odd ones moved on by one

Rows that neighbouring windows share are loaded, and combined as far as possible, once. Places outside of the input
count as the nearest element inside for maxima (it is in the window, and once more changes nothing) and as zero for
sums. The first and the last vector of a row, which may hang over, are code of their own.

Maxima are taken with one instruction each, which loses NaN; products of all elements are summed beside them, and
where that sum is NaN the item is done again with maxima that propagate. (Against scratch rows: 3x3 with stride 2 on
64x112x112 0.085 ms, not 0.112; with stride 1 on 1536 maps of 28x28 0.29 ms, not 0.39. Windows of 5 columns gain only
where rows are too short for scratch rows to pay: 5x5 on 512 maps of 20x20 0.096 ms, not 0.120, but on 64 maps of
56x56 0.071 ms instead of 0.061.)
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.cost_model import PoolWork
from cenote.kernels.lanes import even_odd, shift_in, shift_lanes
from cenote.kernels.pool.common import (
    SLACK,
    SUM,
    NanGuard,
    PoolSpec,
    Strip,
    choose,
    combine_all,
    fill_blank,
    load,
    load_column,
)
from cenote.kernels.pool.problem import (
    Candidate,
    Partition,
    PoolProblem,
    default_band,
    estimate,
    group_of,
    scratch_pitch,
    spec_fields,
    window_build,
)
from cenote.kernels.row_lanes import fitting

MOST_ROWS = 5  # of a window: with more, loads and maxima outnumber those that scratch rows need
MOST_COLUMNS = 5
AHEAD = 2048  # bytes that prefetches run ahead: 3x3 with stride 2 on 64x112x112 0.090 to 0.077 ms; none for stride 1


@dataclass(frozen=True)
class PoolSmallWindow(PoolSpec):
    """Kernel of windows of `rows` x `width`, undilated, in one plane, plain; the stride of the rows is that of the
    columns.

    `left`, `right`: columns by which windows hang over the ends of a row. `clipped`: some hang over the first or last
    row. `together`: output rows computed at once. `alone`: a row of output is one vector; `tail`: it is not a whole
    number of vectors, or hangs over. With stride 2, `width` is 3.
    """

    rows: int
    left: int
    right: int
    clipped: bool
    together: int
    alone: bool
    tail: bool

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        if self.clipped and self.reduction == SUM:
            fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            guard = NanGuard(k, self)
            self._bands(strip, guard, self.together)
            if guard.needed:
                with k.when(guard.seen()):
                    self._bands(strip, None, 1)
        return k

    def _bands(self, strip: Strip, guard: NanGuard | None, together: int) -> None:
        k = strip.k
        for following in k.range(strip.first_row, strip.last_row, together):
            # The last rows reach back, as `spans` does.
            row = following if together == 1 else k.minimum(following, strip.last_row - together)
            kind = _StrideTwo if self.stride == 2 else _StrideOne
            kind(strip, self._sources(strip, row, together), row, guard, together).emit()

    def _sources(self, strip: Strip, row: Value, together: int) -> list[Pointer]:
        """Start addresses of the rows of the windows: outside, the nearest row inside, or zeros."""
        k, n = strip.k, strip.k.number
        sources = []
        for tap in range((together - 1) * self.stride + self.rows):
            y = row * self.stride - n("pad_h") + tap
            if self.clipped and self.reduction != SUM:
                y = k.minimum(k.maximum(y, k.integer(0)), n("size_h") - 1)
            source = strip.x + y * n("x_h")
            if self.clipped and self.reduction == SUM:
                source = choose(k, y.bits(U64) < n("size_h").bits(U64), source, k.scratch.cast(self.storage))
            sources.append(source)
        return sources

    @property
    def scratch_rows(self) -> int:
        """Number of scratch rows that a thread needs: the row of zeros."""
        return 1


class _Rows:
    """Output rows computed together."""

    def __init__(
        self, strip: Strip, sources: Sequence[Pointer], row: Value, guard: NanGuard | None, together: int
    ) -> None:
        assert isinstance(strip.spec, PoolSmallWindow)
        self.strip, self.k, self.spec = strip, strip.k, strip.spec
        self.sources, self.guard = sources, guard
        self.rows = [row + index for index in range(together)]
        self.targets = [strip.y + each * self.k.number("y_h") for each in self.rows]
        self.factors = [strip.factor(each) for each in self.rows]
        self.lanes = strip.spec.out_lanes

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, exact=self.guard is None)

    def _down(self, values: Sequence[Value]) -> list[Value]:
        """Combine each output row's window of the rows' values; rows that neighbours share are combined once."""
        spec, last = self.spec, len(self.rows) - 1
        if spec.stride == 1:
            return self._shared(values, 0, last, None, 0, 0)
        starts = range(0, last * spec.stride + 1, spec.stride)
        return [self._combine(*values[start : start + spec.rows]) for start in starts]

    def _shared(
        self, values: Sequence[Value], first: int, last: int, common: Value | None, begin: int, end: int
    ) -> list[Value]:
        """Combine windows first..last, one row apart; `common` is rows begin..end-1, which all of them hold."""
        low, high = last, first + self.spec.rows
        if low < high:
            fresh = range(low, high) if common is None else [*range(low, begin), *range(end, high)]
            parts = ([] if common is None else [common]) + [values[row] for row in fresh]
            common, begin, end = self._combine(*parts), low, high
        if first == last:
            assert common is not None
            return [common]
        middle = (first + last) // 2
        return [
            *self._shared(values, first, middle, common, begin, end),
            *self._shared(values, middle + 1, last, common, begin, end),
        ]

    def _store(self, values: Sequence[Value], at: Value) -> None:
        for value, target, factor in zip(values, self.targets, self.factors, strict=True):
            self.strip.store(value, target, at, factor, at)


class _StrideOne(_Rows):
    """Rows with stride 1."""

    def emit(self) -> None:
        k, spec, count, lanes = self.k, self.spec, self.strip.count, self.lanes
        if spec.alone:
            self._vector(k.integer(0), first=True, last=True)
            return
        if spec.left:
            self._vector(k.integer(0), first=True)
        latest = count - (spec.right + lanes)  # from here on, vectors hang over the end
        for at in k.range(lanes if spec.left else 0, count - lanes, lanes):
            self._vector(k.minimum(at, latest) if spec.right else at)
        self._vector(count - lanes, last=True)

    def _vector(self, at: Value, first: bool = False, last: bool = False) -> None:
        taps = [
            [self._tap(source, at, tap, first, last) for tap in range(self.spec.width)]
            for source in self.sources
        ]
        if self.guard is not None:
            self.guard.see_products([row[self.spec.left] for row in taps])
            if last and self.spec.left + self.spec.right < self.spec.width - 1:
                self.guard.see_products([row[-1 - self.spec.right] for row in taps])
        self._store(self._down([self._combine(*row) for row in taps]), at)

    def _tap(self, source: Pointer, at: Value, tap: int, first: bool, last: bool) -> Value:
        """Load one column of all windows of the vector."""
        spec = self.spec
        under = spec.left - tap if first else 0
        over = tap - (spec.width - 1 - spec.right) if last else 0
        return load_column(self.k, spec, source, (at, tap - spec.left), (under, over), self.lanes)


class _StrideTwo(_Rows):
    """Rows with stride 2: a window is a pair of columns and the second column of the pair before."""

    def emit(self) -> None:
        k, spec, count, lanes = self.k, self.spec, self.strip.count, self.lanes
        before = [k.variable(value) for value in self._before_first()]
        if spec.tail and spec.alone:
            self._vector(k.integer(0), [variable.value for variable in before], spec.right)
            return
        last = count - lanes
        for at in k.range(0, last if spec.tail else count, lanes):
            odds = self._vector(at, [variable.value for variable in before], 0)
            for variable, value in zip(before, odds, strict=True):
                variable.value = value
        if spec.tail:
            self._vector(last, self._column(last * 2 - spec.left), spec.right)

    def _before_first(self) -> list[Value]:
        """Values before the first pair of a row: identities, or a column of the input."""
        k, spec = self.k, self.spec
        if spec.left:
            return [k.constant(spec.compute, spec.identity, self.lanes) for _ in self.rows]
        return self._column(k.integer(0), fresh=True)

    def _column(self, column: Value, fresh: bool = False) -> list[Value]:
        """Combine one column down, in every lane; `fresh`: no vector holds it."""
        loaded = [load(self.spec, source, column, 1) for source in self.sources]
        if fresh and self.guard is not None:
            self.guard.see_products([self.k.splat(value, self.lanes) for value in loaded])
        return [self.k.splat(value, self.lanes) for value in self._down(loaded)]

    def _vector(self, at: Value, before: Sequence[Value], over: int) -> list[Value]:
        """Compute outputs at, at+1 …; returns the odd columns, for the next vector. `over`: the last pair lacks its
        second column."""
        k, spec, lanes = self.k, self.spec, self.lanes
        start = at * 2 + (1 - spec.left)
        for source in self.sources[1:]:
            k.prefetch(source, start + AHEAD // spec.storage.nbytes)
        low = [load(spec, source, start, lanes) for source in self.sources]
        high = [load(spec, source, start + (lanes - over), lanes) for source in self.sources]
        if self.guard is not None:
            self.guard.see_products([*low, *high])
        odds, results = [], []
        for a, b, last in zip(self._down(low), self._down(high), before, strict=True):
            even, odd = even_odd(k, a, shift_lanes(k, b, over, repeat=spec.reduction != SUM) if over else b)
            results.append(self._combine(even, odd, shift_in(k, last, odd)))
            odds.append(odd)
        self._store(results, at)
        return odds


# ---- the offer ------------------------------------------------------------------------------------------------------

# Output columns: windows of 2, 4 or 5 columns pay in no longer rows (2x2 on 224x224: 1.8 times `separable`).
SHORT_ROW = 32
FEWEST_LANES = 4  # shuffles at the ends of rows need as many as two columns


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan small undilated windows in one plane, plain: 2 to 5 columns with stride 1, or 3 with stride 2."""
    if is_size(problem.nbytes):
        return None  # the machine code depends on sizes
    geometry = problem.geometry
    if problem.memory.step != 1 or problem.norm or problem.converts:
        return None  # 16-bit floats would be converted once per column of a window
    rows, width, stride = *geometry.window[1:], geometry.stride[2]
    if (
        not geometry.is_flat
        or geometry.dilation[1:] != (1, 1)
        or geometry.stride[1] != stride
        or rows > MOST_ROWS
    ):
        return None
    left, right = geometry.pad[2], max(geometry.overhang(2), 0)
    fits = takes_neighbours(width, left, right) if stride == 1 else takes_pairs(width, stride, left, right)
    lanes = _lanes(problem, target, left, right) if fits and left >= 0 else None
    if lanes is None:
        return None
    cut = Partition.of(geometry, None, default_band(problem, target))
    shortest = geometry.out[1] - (cut.bands - 1) * cut.band
    spec = PoolSmallWindow(
        **spec_fields(problem, lanes, lanes),
        rows=rows,
        left=left,
        right=right,
        clipped=not geometry.inside(1),
        alone=geometry.out[2] == lanes,
        tail=right > 0 or geometry.out[2] % lanes > 0,
        together=min(4 if stride == 1 else 2, fitting(4, shortest)),
    )
    pitch, group = scratch_pitch(problem, cut.strip, lanes), group_of(problem, cut)
    scratch = (spec.scratch_rows + group) * pitch + SLACK
    build = window_build(problem, spec, cut, pitch=pitch, scratch=scratch, group=group)
    return Candidate(_work(problem, spec), build)


def _work(problem: PoolProblem, spec: PoolSmallWindow) -> PoolWork:
    # Rows of the input that are read per row of the output.
    rows = ((spec.together - 1) * spec.stride + spec.rows) / spec.together
    loads = rows * (spec.width if spec.stride == 1 else 2)
    guards, shuffles = (loads / 2 if spec.is_guarded else 0), (0 if spec.stride == 1 else 5)
    proven = spec.width == 3 or problem.geometry.out[2] <= SHORT_ROW
    return estimate(
        "small_window",
        problem,
        spec.lanes,
        across=2 * loads + guards + shuffles + 1,
        passes=1 / 2,
        proven=proven,
    )


def takes_neighbours(width: int, left: int, right: int) -> bool:
    """Whether windows are one apart and hang over by less than themselves, and by no more than a few lanes."""
    return 2 <= width <= MOST_COLUMNS and left + right < width and max(left, right) <= FEWEST_LANES // 2


def takes_pairs(width: int, stride: int, left: int, right: int) -> bool:
    """Whether windows have three columns and are two apart."""
    return stride == 2 and width == 3 and max(left, right) <= 1


def _lanes(problem: PoolProblem, target: Target, left: int, right: int) -> int | None:
    """Number of lanes with which a row is one vector, or its first and last vector lie apart enough."""
    geometry, lanes = problem.geometry, target.lanes(problem.dtype)
    count = geometry.out[2]
    while lanes >= FEWEST_LANES:
        fits = count == lanes or count >= lanes + max(left, right)
        if fits and geometry.size[2] >= lanes:
            return lanes
        lanes //= 2
    return None
