"""Largest or smallest value of each window and where it was, for undilated windows in one plane: separable.

    for item in items:                              # a strip of columns of a band of output rows of one plane
        for row in output rows of the band:
            for input rows of the window not seen yet:             across: best of the row's taps, and which tap it was
                ring[input row] = (values, indices) of every window's piece of that row
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

from dataclasses import dataclass

from cenote.codegen.builder import I32, I64, Kernel, Parameter
from cenote.codegen.values import Pointer, Value
from cenote.core.target import Target
from cenote.kernels.pool.argmax_generic import PLACES, index_shift
from cenote.kernels.pool.common import (
    MAXIMUM,
    NanGuard,
    PoolSpec,
    Strip,
    in_order,
    larger_of,
    new_kernel,
    pick,
    picked_order,
    smaller_of,
    spans,
)
from cenote.kernels.pool.small_window import apart, following

DIRECT = 6  # columns compared one by one
MOST_ROWS = 5  # rows of a window that are unrolled
SOURCE, LEVELS, RING = 0, 1, 3  # scratch rows of values: a row of input with edges, two of levels, the ring
INDEX_RING = 2  # rows of indices: two of levels, the ring

Best = tuple[Value, Value]


@dataclass(frozen=True)
class PoolArgmaxSeparable(PoolSpec):
    """Windows of `rows` rows (0: the word `window_h`). `unit`: neighbouring columns' indices differ by 1. `pairs`:
    plain windows of 2 or 3 columns with stride 2, `left` and `right` (0 or 1) columns over the ends of a row."""

    rows: int
    unit: bool
    pairs: bool
    left: int
    right: int

    def emit(self, target: Target) -> Kernel:
        words = [
            Parameter("indices", I64, pointer=True),
            *(Parameter(word) for word in (*PLACES, "window_w")),
        ]
        k = new_kernel(self, target, words)
        for item in k.range(k.begin, k.end):
            piece = Strip(k, self, item)
            watch = NanGuard(k, self)
            self._band(piece, watch)
            if watch.needed:
                with k.when(watch.seen()):
                    self._band(piece, None)
        return k

    def _band(self, piece: Strip, watch: NanGuard | None) -> None:
        k, n = piece.k, piece.k.number
        across = (_Pairs if self.pairs else _Taps)(piece, watch)
        down = _Down(piece, watch)
        seen = k.variable(k.integer(0))  # input rows below this one are in the ring, or no longer needed
        for row in k.range(piece.first_row, piece.last_row):
            first = row * n("stride_h") - n("pad_h")
            high = smaller_of(k, first + n("window_h"), n("size_h"))
            low = larger_of(k, first, 0)
            for y in k.range(larger_of(k, seen.value, low), high):
                across.row(y)
            seen.value = high
            down.row(row, first, low, high)

    @property
    def raw(self) -> bool:
        """True when NaN is kept while searching, although it is ignored in the end."""
        return self.nan == "ignore" and self.compute.is_float

    def scratch_rows(self, rows: int) -> int:
        """Scratch rows a thread needs for windows of so many rows."""
        return RING + rows + (INDEX_RING + rows) * max(1, I32.nbytes // self.compute.nbytes)


class _Search:
    """What going across and down share."""

    def __init__(self, piece: Strip, watch: NanGuard | None) -> None:
        self.piece, self.k, self.watch = piece, piece.k, watch
        assert isinstance(piece.spec, PoolArgmaxSeparable)
        self.spec: PoolArgmaxSeparable = piece.spec
        self.lanes = piece.spec.out_lanes
        n = self.k.number
        self.many: Value = self.k.integer(self.spec.rows) if self.spec.rows else n("window_h")
        self._indices = piece.row(self.many + RING).cast(I32)

    def value_row(self, slot: Value | int) -> Pointer:
        return self.piece.row(slot)

    def index_row(self, slot: Value | int) -> Pointer:
        return self._indices + self.k.number("pitch") * slot

    def ring(self, y: Value) -> tuple[Pointer, Pointer]:
        """Where the results of an input row are: values and indices."""
        slot = y % self.many
        return self.value_row(slot + RING), self.index_row(slot + INDEX_RING)

    def better(self, best: Best, other: Best) -> Best:
        """The other where it beats the best."""
        k, (old, index), (value, place) = self.k, best, other
        wins = value > old if self.spec.reduction == MAXIMUM else value < old
        if value.type.is_float and self.spec.raw:
            wins = (wins | old.is_nan()) & ~value.is_nan()
        elif value.type.is_float and self.watch is None:
            wins = wins | value.is_nan()
        return k.select(wins, value, old), k.select(wins, place, index)

    def tap(self, number: Value | int, lanes: int) -> Value:
        if isinstance(number, Value):
            return self.k.splat(number.to(I32), lanes)
        return self.k.constant(I32, number, lanes)

    def place(self, y: Value, columns: Value) -> Value:
        """Indices of columns of an input row."""
        k, n = self.k, self.k.number
        if not self.spec.unit:
            columns = columns * k.splat(n("i_w").to(I32), columns.lanes)
        return columns + k.splat((y * n("i_h")).to(I32), columns.lanes)


class _Taps(_Search):
    """Across a row by way of a copy with edges."""

    def row(self, y: Value) -> None:
        """Emit what puts an input row into the ring."""
        k, piece, spec, step = self.k, self.piece, self.spec, self.piece.step
        self._copy(y)
        levels = self._levels() if spec.width > DIRECT else None
        values, indices = self.ring(y)
        if spec.step == 1:
            for at in spans(k, piece.count, self.lanes):
                best = self._window(at * spec.stride, levels)
                columns = k.splat((at * spec.stride + piece.origin).to(I32), self.lanes) + self._order()
                self._keep(y, best, columns, values + at, indices + at)
            return
        for column in k.range(0, piece.count):
            first = column * spec.stride
            for channel in spans(k, step, self.lanes):
                best = self._window(first * step + channel, levels)
                columns = k.splat((first + piece.origin).to(I32), self.lanes)
                at = column * step + channel
                self._keep(y, best, columns, values + at, indices + at)

    def _copy(self, y: Value) -> None:
        k, piece, spec = self.k, self.piece, self.spec
        row, source = self.value_row(SOURCE), piece.x + y * k.number("x_h")
        nothing = float("nan") if spec.raw else spec.identity
        blank = k.constant(spec.compute, nothing, spec.lanes)
        end = piece.left + piece.length
        for begin, stop in ((k.integer(0), piece.left), (end, end + piece.right)):
            for at in k.range(begin, stop, spec.lanes):
                row.store(blank, at)
        for at in spans(k, piece.length, spec.lanes):
            value = source.load(at, spec.lanes).to(spec.compute)
            if self.watch is not None:
                self.watch.see([value])
            (row + piece.left).store(value, at)

    def _order(self) -> Value:
        """Columns of the windows in the lanes, from the first one's, in the order that strided loads give."""
        order = picked_order(self.spec.compute, self.lanes) if self.by_pairs else range(self.lanes)
        return self.k.lanes_constant(I32, [lane * self.spec.stride for lane in order])

    @property
    def by_pairs(self) -> bool:
        return self.spec.step == 1 and self.spec.stride == 2 and self.lanes > 1

    def _strided(self, row: Pointer) -> Value:
        """One element of every window in the lanes."""
        if not self.by_pairs:
            return row.load(0, self.lanes)
        return picked(self.k, row.load(0, self.lanes), row.load(self.lanes, self.lanes), self.spec)

    def _window(self, place: Value, levels: tuple[Pointer, Pointer, int] | None) -> Best:
        """The best of the windows that start at a place of the copied row, and which tap it is."""
        step, lanes, width = self.piece.step, self.lanes, self.spec.width
        if levels is None:
            row = self.value_row(SOURCE) + place
            best = self._strided(row), self.tap(0, lanes)
            for tap in range(1, width):
                best = self.better(best, (self._strided(row + step * tap), self.tap(tap, lanes)))
            return best
        values, taps, size = levels[0] + place, levels[1] + place, levels[2]
        best = self._strided(values), self._strided(taps)
        if width > size:
            far = step * (width - size)
            other = self._strided(taps + far) + self.tap(width - size, lanes)
            best = self.better(best, (self._strided(values + far), other))
        return best

    def _levels(self) -> tuple[Pointer, Pointer, int]:
        """Windows of 2, 4, 8 … columns everywhere in the row; the largest within the width."""
        k, piece, spec, lanes = self.k, self.piece, self.spec, self.spec.lanes
        columns = (piece.count - 1) * spec.stride + spec.width
        values, taps, size, level = self.value_row(SOURCE), self.index_row(0), 1, 0
        while size * 2 <= spec.width:
            new_values, new_taps = self.value_row(LEVELS + level), self.index_row(level)
            far = piece.step * size
            for at in spans(k, (columns - (2 * size - 1)) * piece.step, min(lanes, self.lanes)):
                width = min(lanes, self.lanes)
                near = k.constant(I32, 0, width) if size == 1 else taps.load(at, width)
                there = near if size == 1 else taps.load(at + far, width)
                value, tap = self.better(
                    (values.load(at, width), near),
                    (values.load(at + far, width), there + self.tap(size, width)),
                )
                new_values.store(value, at)
                new_taps.store(tap, at)
            values, taps, size, level = new_values, new_taps, size * 2, 1 - level
        return values, taps, size

    def _keep(self, y: Value, best: Best, columns: Value, values: Pointer, indices: Pointer) -> None:
        """Put results into the ring. The first tap stands where nothing beats it; in the padding, that is column 0."""
        k = self.k
        column = k.intrinsic("smax", columns + best[1], k.constant(I32, 0, self.lanes))
        value, index = best[0], self.place(y, column)
        if (
            self.by_pairs
        ):  # vectors overlap at the end of the row, so they cannot stay in an order of their own
            value, index = in_order(k, value), in_order(k, index, self.spec.compute)
        values.store(value)
        indices.store(index)


def picked(k: Kernel, a: Value, b: Value, spec: PoolArgmaxSeparable) -> Value:
    """Even lanes of two vectors, of the compute type or of int32, in the order of `pick` for the compute type."""
    if a.type is spec.compute:
        return pick(k, a, b, 0)
    order = picked_order(spec.compute, a.lanes)
    return k.shuffle(a, b, [2 * lane for lane in order])


class _Pairs(_Search):
    """Across a row of windows of 2 or 3 columns with stride 2, in registers: a pair of columns, and (3) the second
    column of the pair before."""

    def row(self, y: Value) -> None:
        k, spec, lanes, count = self.k, self.spec, self.lanes, self.piece.count
        source = self.piece.x + y * k.number("x_h")
        values, indices = self.ring(y)
        last = count - lanes
        if spec.width == 2:
            for at in k.range(0, last, lanes):
                self._vector(source, y, at, None, 0, values, indices)
            self._vector(source, y, last, None, spec.right, values, indices)
            return
        before = k.variable(self._before(source, k.integer(0)))
        for at in k.range(0, last, lanes):
            before.value = self._vector(source, y, at, before.value, 0, values, indices)
        column = k.variable(before.value)
        with k.when(k.integer(0) < last):
            column.value = k.splat(source.load(last * 2 - spec.left, 1).to(spec.compute), lanes)
        self._vector(source, y, last, column.value, spec.right, values, indices)

    def _before(self, source: Pointer, column: Value) -> Value:
        k, spec = self.k, self.spec
        if spec.left:
            return k.constant(spec.compute, float("nan") if spec.raw else spec.identity, self.lanes)
        value = k.splat(source.load(column, 1).to(spec.compute), self.lanes)
        if self.watch is not None:
            self.watch.see([value])
        return value

    def _vector(
        self,
        source: Pointer,
        y: Value,
        at: Value,
        before: Value | None,
        over: int,
        values: Pointer,
        indices: Pointer,
    ) -> Value:
        k, spec, lanes = self.k, self.spec, self.lanes
        start = at * 2 + (0 if before is None else 1 - spec.left)
        low = source.load(start, lanes).to(spec.compute)
        high = source.load(start + (lanes - over), lanes).to(spec.compute)
        if self.watch is not None:
            self.watch.see_products([low, high])
        if over:
            nothing = k.constant(spec.compute, float("nan") if spec.raw else spec.identity, lanes)
            high = k.shuffle(high, nothing, range(1, lanes + 1))
        even, odd = apart(k, low, high)
        taps = [even, odd] if before is None else [following(k, before, odd), even, odd]
        best = taps[0], self.tap(0, lanes)
        for number, tap in enumerate(taps[1:], 1):
            best = self.better(best, (tap, self.tap(number, lanes)))
        columns = k.splat((at * 2 - spec.left).to(I32), lanes) + k.lanes_constant(I32, range(0, 2 * lanes, 2))
        column = columns + best[1]
        if spec.left:  # only the first window has a tap before column 0
            column = k.intrinsic("smax", column, k.constant(I32, 0, lanes))
        values.store(best[0], at)
        indices.store(self.place(y, column), at)
        return odd


class _Down(_Search):
    """The best of the rows of a window."""

    def row(self, row: Value, first: Value, low: Value, high: Value) -> None:
        """Emit one output row, whose windows start at input row `first` and have low..high-1."""
        k, piece, spec, lanes = self.k, self.piece, self.spec, self.lanes
        target = piece.y_offset + row * k.number("y_h")
        self.shift = index_shift(piece, row)
        sources = []
        for tap in range(spec.rows):
            sources.append(self.ring(smaller_of(k, larger_of(k, first + tap, 0), high - 1)))
        if spec.step == 1:
            for at in spans(k, piece.count, lanes):
                self._write(self._best(sources, low, high, at), target, at, None)
            return
        for column in k.range(0, piece.count):
            for channel in spans(k, piece.step, lanes):
                at = column * piece.step + channel
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
        after = smaller_of(k, slot + (high - low), many)
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
        wide = index.to(I64) + (self.piece.batch * n("i_n") + self.piece.channel * channels)
        if channel is not None:
            lane = k.iota(index.lanes, I64) if index.lanes > 1 else k.integer(0)
            wide = wide + (lane + channel) * n("i_c")
        k.pointer("indices").store(wide, target + at + self.shift)


__all__ = ["PoolArgmaxSeparable"]
