"""Small windows over plain rows, in registers: no scratch rows, no copies, every element loaded from where it lies.

    for item in items:                              # a band of output rows of one plane
        for `together` output rows, one below the other:
            for columns in vectors of the row:
                stride 1: across every input row (loads at neighbouring columns), then down those results
                stride 2: down the columns, then even and odd columns apart, and the odd ones moved on by one

Rows that neighbouring windows share are loaded, and what can be is combined, once. What lies outside of the input
counts as the nearest element inside for maxima (it is in the window, and once more changes nothing) and as zero for
sums. The first and the last vector of a row, which may hang over, are code of their own.

Maxima are taken with one instruction each, which loses NaN; products of all elements are summed beside them, and where
that sum is NaN the item is done again with maxima that propagate.
(Against scratch rows: 3x3 with stride 2 on 64x112x112 0.085 ms, not 0.112; with stride 1 on 1536 maps of 28x28 0.29
ms, not 0.39. Windows of 5 columns gain only where rows are too short for scratch rows to pay: 5x5 on 512 maps of 20x20
0.096 ms, not 0.120, but on 64 maps of 56x56 0.071 ms instead of 0.061.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U8, U16, U32, U64, Pointer, Value
from cenote.core.target import Target
from cenote.kernels.pool.common import (
    SUM,
    NanGuard,
    PoolSpec,
    Strip,
    choose,
    combine_all,
    fill_blank,
    larger_of,
    load,
    new_kernel,
    smaller_of,
)

MOST_ROWS = 5  # of a window: with more, loads and maxima outnumber those that scratch rows need
MOST_COLUMNS = 5
AHEAD = 2048  # bytes that prefetches run ahead: 3x3 with stride 2 on 64x112x112 0.090 to 0.077 ms; none for stride 1
PIECE_BYTES = 16  # lanes within such pieces are shuffled in one step, across them in two or three


@dataclass(frozen=True)
class PoolSmallWindow(PoolSpec):
    """Windows of `rows` x `width`, undilated, in one plane, plain; the stride of the rows is that of the columns.

    `left`, `right`: columns by which windows hang over the ends of a row. `clipped`: some hang over the first or last
    row. `together`: output rows computed at once. `alone`: a row of output is one vector; `tail`: it is no whole
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
        k = new_kernel(self, target)
        if self.clipped and self.reduction == SUM:
            fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            piece = Strip(k, self, item)
            watch = NanGuard(k, self)
            self._bands(piece, watch, self.together)
            if watch.needed:
                with k.when(watch.seen()):
                    self._bands(piece, None, 1)
        return k

    def _bands(self, piece: Strip, watch: NanGuard | None, together: int) -> None:
        k = piece.k
        for following in k.range(piece.first_row, piece.last_row, together):
            # The last rows reach back, as `spans` does.
            row = following if together == 1 else smaller_of(k, following, piece.last_row - together)
            kind = _Pairs if self.stride == 2 else _Neighbours
            kind(piece, self._sources(piece, row, together), row, watch, together).emit()

    def _sources(self, piece: Strip, row: Value, together: int) -> list[Pointer]:
        """Where the rows of the windows start: outside, the nearest row inside, or zeros."""
        k, n = piece.k, piece.k.number
        sources = []
        for tap in range((together - 1) * self.stride + self.rows):
            y = row * self.stride - n("pad_h") + tap
            if self.clipped and self.reduction != SUM:
                y = smaller_of(k, larger_of(k, y, 0), n("size_h") - 1)
            source = piece.x + y * n("x_h")
            if self.clipped and self.reduction == SUM:
                source = choose(k, y.bits(U64) < n("size_h").bits(U64), source, k.scratch.cast(self.storage))
            sources.append(source)
        return sources

    @property
    def scratch_rows(self) -> int:
        """Scratch rows a thread needs: that of zeros."""
        return 1


class _Rows:
    """Output rows computed together."""

    def __init__(
        self, piece: Strip, sources: Sequence[Pointer], row: Value, watch: NanGuard | None, together: int
    ) -> None:
        assert isinstance(piece.spec, PoolSmallWindow)
        self.piece, self.k, self.spec = piece, piece.k, piece.spec
        self.sources, self.watch = sources, watch
        self.rows = [row + index for index in range(together)]
        self.targets = [piece.y + each * self.k.number("y_h") for each in self.rows]
        self.factors = [piece.factor(each) for each in self.rows]
        self.lanes = piece.spec.out_lanes

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, exact=self.watch is None)

    def _down(self, values: Sequence[Value]) -> list[Value]:
        """Each output row's window of the rows' values, what neighbours share combined once."""
        spec, last = self.spec, len(self.rows) - 1
        if spec.stride == 1:
            return self._shared(values, 0, last, None, 0, 0)
        starts = range(0, last * spec.stride + 1, spec.stride)
        return [self._combine(*values[start : start + spec.rows]) for start in starts]

    def _shared(
        self, values: Sequence[Value], first: int, last: int, common: Value | None, begin: int, end: int
    ) -> list[Value]:
        """Windows first..last, one row apart; `common` is rows begin..end-1, which all of them hold."""
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
            self.piece.store(value, target, at, factor, at)


class _Neighbours(_Rows):
    """Stride 1."""

    def emit(self) -> None:
        k, spec, count, lanes = self.k, self.spec, self.piece.count, self.lanes
        if spec.alone:
            self._vector(k.integer(0), first=True, last=True)
            return
        if spec.left:
            self._vector(k.integer(0), first=True)
        latest = count - (spec.right + lanes)  # from here on, vectors hang over
        for at in k.range(lanes if spec.left else 0, count - lanes, lanes):
            self._vector(smaller_of(k, at, latest) if spec.right else at)
        self._vector(count - lanes, last=True)

    def _vector(self, at: Value, first: bool = False, last: bool = False) -> None:
        taps = [
            [self._tap(source, at, tap, first, last) for tap in range(self.spec.width)]
            for source in self.sources
        ]
        if self.watch is not None:
            self.watch.see_products([row[self.spec.left] for row in taps])
            if last and self.spec.left + self.spec.right < self.spec.width - 1:
                self.watch.see_products([row[-1 - self.spec.right] for row in taps])
        self._store(self._down([self._combine(*row) for row in taps]), at)

    def _tap(self, source: Pointer, at: Value, tap: int, first: bool, last: bool) -> Value:
        """One column of all windows of the vector."""
        spec, lanes = self.spec, self.lanes
        under = spec.left - tap if first else 0
        over = tap - (spec.width - 1 - spec.right) if last else 0
        if under > 0:
            return moved(self.k, load(spec, source, 0, lanes), -under, spec)
        if over > 0:
            return moved(self.k, load(spec, source, self.k.number("size_w") - lanes, lanes), over, spec)
        return load(spec, source, at + (tap - spec.left), lanes)


class _Pairs(_Rows):
    """Stride 2: a window is a pair of columns and the second column of the pair before."""

    def emit(self) -> None:
        k, spec, count, lanes = self.k, self.spec, self.piece.count, self.lanes
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
        """What stands before the first pair of a row: nothing, or a column of the input."""
        k, spec = self.k, self.spec
        if spec.left:
            return [k.constant(spec.compute, spec.identity, self.lanes) for _ in self.rows]
        return self._column(k.integer(0), fresh=True)

    def _column(self, column: Value, fresh: bool = False) -> list[Value]:
        """One column down, in every lane; `fresh`: no vector holds it."""
        loaded = [load(self.spec, source, column, 1) for source in self.sources]
        if fresh and self.watch is not None:
            self.watch.see_products([self.k.splat(value, self.lanes) for value in loaded])
        return [self.k.splat(value, self.lanes) for value in self._down(loaded)]

    def _vector(self, at: Value, before: Sequence[Value], over: int) -> list[Value]:
        """Outputs at, at+1 …; the odd columns, for the next vector. `over`: the last pair lacks its second column."""
        k, spec, lanes = self.k, self.spec, self.lanes
        start = at * 2 + (1 - spec.left)
        for source in self.sources[1:]:
            k.prefetch(source, start + AHEAD // spec.storage.nbytes)
        low = [load(spec, source, start, lanes) for source in self.sources]
        high = [load(spec, source, start + (lanes - over), lanes) for source in self.sources]
        if self.watch is not None:
            self.watch.see_products([*low, *high])
        odds, results = [], []
        for a, b, last in zip(self._down(low), self._down(high), before, strict=True):
            even, odd = apart(k, a, moved(k, b, over, spec) if over else b)
            results.append(self._combine(even, odd, following(k, last, odd)))
            odds.append(odd)
        self._store(results, at)
        return odds


def apart(k: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Even and odd lanes of a followed by b."""
    lanes, half = a.lanes, a.lanes // 2
    even = list(range(0, 2 * lanes, 2))
    if lanes * a.type.nbytes == 2 * PIECE_BYTES:  # whole pieces first, then lanes within them: 4 cheap steps
        low = [*range(half), *range(lanes, lanes + half)]
        a, b = k.shuffle(a, b, low), k.shuffle(a, b, [lane + half for lane in low])
        even = [
            lane + start
            for start in (0, half)
            for source in (0, lanes)
            for lane in range(source, source + half, 2)
        ]
    return k.shuffle(a, b, even), k.shuffle(a, b, [lane + 1 for lane in even])


def following(k: Kernel, before: Value, value: Value) -> Value:
    """The last lane of `before`, then all but the last of the value: as integers, which x86 does in fewer steps."""
    lanes = value.lanes
    kind = {1: U8, 2: U16, 4: U32, 8: U64}[value.type.nbytes]
    return k.shuffle(before.bits(kind), value.bits(kind), range(lanes - 1, 2 * lanes - 1)).bits(value.type)


def moved(k: Kernel, value: Value, by: int, spec: PoolSpec) -> Value:
    """Lanes moved down (up) by so many; those that come free hold the last (first) lane for maxima, zero for sums."""
    lanes = value.lanes
    places = [lane + by for lane in range(lanes)]
    if spec.reduction != SUM:
        return k.shuffle(value, value, [min(max(place, 0), lanes - 1) for place in places])
    zero = k.constant(value.type, 0, lanes)
    return k.shuffle(value, zero, [place if 0 <= place < lanes else lanes for place in places])


__all__ = ["MOST_COLUMNS", "MOST_ROWS", "PoolSmallWindow"]
