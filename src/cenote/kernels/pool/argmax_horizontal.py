"""Largest or smallest value of each window's columns in one row, and its column: the horizontal half of
`argmax_separable`.

A row's taps are compared one by one up to DIRECT of them (`Pairs`: in registers, for windows of 2 or 3 columns with
stride 2), else windows of 2, 4, 8 … columns are joined from two halves, which may overlap: of two equal values the
first half's stands.
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I32, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.lanes import even_odd, every_second, in_order, second_order, shift_in
from cenote.kernels.pool.common import INDEX_PARAMETERS, MAXIMUM, NanGuard, PoolSpec, Strip, spans

DIRECT = 6  # columns compared one by one
SOURCE, LEVELS, RING = 0, 1, 3  # scratch rows of values: a row of input with edges, two of levels, the ring
INDEX_RING = 2  # rows of indices: two of levels, the ring

Best = tuple[Value, Value]


@dataclass(frozen=True)
class ArgmaxSpec(PoolSpec):
    """Kernel of windows of `rows` rows (0: the word `window_h`). `unit`: neighbouring columns' indices differ by 1.
    `pairs`: plain windows of 2 or 3 columns with stride 2, `left` and `right` (0 or 1) columns over the ends of a
    row.
    """

    rows: int
    unit: bool
    pairs: bool
    left: int
    right: int

    @property
    def more_words(self) -> tuple[Parameter, ...]:
        return INDEX_PARAMETERS

    @property
    def raw(self) -> bool:
        """Whether NaN is kept while searching, although it is ignored in the end."""
        return self.nan == "ignore" and self.compute.is_float


class Search:
    """Common part of the searches across and down."""

    def __init__(self, strip: Strip, guard: NanGuard | None) -> None:
        self.strip, self.k, self.guard = strip, strip.k, guard
        assert isinstance(strip.spec, ArgmaxSpec)
        self.spec: ArgmaxSpec = strip.spec
        self.lanes = strip.spec.out_lanes
        n = self.k.number
        self.many: Value = self.k.integer(self.spec.rows) if self.spec.rows else n("window_h")
        self._indices = strip.row(self.many + RING).cast(I32)

    def value_row(self, slot: Value | int) -> Pointer:
        return self.strip.row(slot)

    def index_row(self, slot: Value | int) -> Pointer:
        return self._indices + self.k.number("pitch") * slot

    def ring(self, y: Value) -> tuple[Pointer, Pointer]:
        """Addresses of the results of an input row: values and indices."""
        slot = y % self.many
        return self.value_row(slot + RING), self.index_row(slot + INDEX_RING)

    def better(self, best: Best, other: Best) -> Best:
        """Return the other where it beats the best, else the best."""
        k, (old, index), (value, place) = self.k, best, other
        wins = value > old if self.spec.reduction == MAXIMUM else value < old
        if value.type.is_float and self.spec.raw:
            wins = (wins | old.is_nan()) & ~value.is_nan()
        elif value.type.is_float and self.guard is None:
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


class RowSearch(Search):
    """Search across a row by way of a copy with edges."""

    def row(self, y: Value) -> None:
        """Emit the search of an input row, whose results go into the ring."""
        k, strip, spec, step = self.k, self.strip, self.spec, self.strip.step
        self._copy(y)
        levels = self._levels() if spec.width > DIRECT else None
        values, indices = self.ring(y)
        if spec.step == 1:
            for at in spans(k, strip.count, self.lanes):
                best = self._window(at * spec.stride, levels)
                columns = k.splat((at * spec.stride + strip.origin).to(I32), self.lanes) + self._order()
                self._keep(y, best, columns, values + at, indices + at)
            return
        for column in k.range(0, strip.count):
            first = column * spec.stride
            for channel in spans(k, step, self.lanes):
                best = self._window(first * step + channel, levels)
                columns = k.splat((first + strip.origin).to(I32), self.lanes)
                at = column * step + channel
                self._keep(y, best, columns, values + at, indices + at)

    def _copy(self, y: Value) -> None:
        k, strip, spec = self.k, self.strip, self.spec
        row, source = self.value_row(SOURCE), strip.x + y * k.number("x_h")
        nothing = float("nan") if spec.raw else spec.identity
        blank = k.constant(spec.compute, nothing, spec.lanes)
        end = strip.left + strip.length
        for begin, stop in ((k.integer(0), strip.left), (end, end + strip.right)):
            for at in k.range(begin, stop, spec.lanes):
                row.store(blank, at)
        for at in spans(k, strip.length, spec.lanes):
            value = source.load(at, spec.lanes).to(spec.compute)
            if self.guard is not None:
                self.guard.see([value])
            (row + strip.left).store(value, at)

    def _order(self) -> Value:
        """Columns of the windows in the lanes, relative to the first one's, in the order that strided loads give."""
        order = second_order(self.spec.compute, self.lanes) if self.by_pairs else range(self.lanes)
        return self.k.lanes_constant(I32, [lane * self.spec.stride for lane in order])

    @property
    def by_pairs(self) -> bool:
        return self.spec.step == 1 and self.spec.stride == 2 and self.lanes > 1

    def _strided(self, row: Pointer) -> Value:
        """Load one element of every window in the lanes."""
        if not self.by_pairs:
            return row.load(0, self.lanes)
        return picked(self.k, row.load(0, self.lanes), row.load(self.lanes, self.lanes), self.spec)

    def _window(self, place: Value, levels: tuple[Pointer, Pointer, int] | None) -> Best:
        """Find the best of the windows that start at a place of the copied row, and its tap."""
        step, lanes, width = self.strip.step, self.lanes, self.spec.width
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
        """Combine windows of 2, 4, 8 … columns everywhere in the row; returns the largest within the width."""
        k, strip, spec, lanes = self.k, self.strip, self.spec, self.spec.lanes
        columns = (strip.count - 1) * spec.stride + spec.width
        values, taps, size, level = self.value_row(SOURCE), self.index_row(0), 1, 0
        while size * 2 <= spec.width:
            new_values, new_taps = self.value_row(LEVELS + level), self.index_row(level)
            far = strip.step * size
            for at in spans(k, (columns - (2 * size - 1)) * strip.step, min(lanes, self.lanes)):
                width = min(lanes, self.lanes)
                near = k.constant(I32, 0, width) if size == 1 else taps.load(at, width)
                there = near if size == 1 else taps.load(at + far, width)
                first = values.load(at, width), near
                value, tap = self.better(first, (values.load(at + far, width), there + self.tap(size, width)))
                new_values.store(value, at)
                new_taps.store(tap, at)
            values, taps, size, level = new_values, new_taps, size * 2, 1 - level
        return values, taps, size

    def _keep(self, y: Value, best: Best, columns: Value, values: Pointer, indices: Pointer) -> None:
        """Put results into the ring. The first tap is the result where nothing beats it; in the padding, that is
        column 0."""
        k = self.k
        column = k.intrinsic("smax", columns + best[1], k.constant(I32, 0, self.lanes))
        value, index = best[0], self.place(y, column)
        # Vectors overlap at the end of the row, so they cannot stay in an order of their own.
        if self.by_pairs:
            value, index = in_order(k, value), in_order(k, index, self.spec.compute)
        values.store(value)
        indices.store(index)


def picked(k: Kernel, a: Value, b: Value, spec: ArgmaxSpec) -> Value:
    """Even lanes of two vectors, of the compute type or int32, in the order of `every_second` for the compute type."""
    if a.type is spec.compute:
        return every_second(k, a, b, 0)
    order = second_order(spec.compute, a.lanes)
    return k.shuffle(a, b, [2 * lane for lane in order])


class PairSearch(Search):
    """Search across a row of windows of 2 or 3 columns with stride 2, in registers: a pair of columns, and (3) the
    second column of the pair before."""

    def row(self, y: Value) -> None:
        k, spec, lanes, count = self.k, self.spec, self.lanes, self.strip.count
        source = self.strip.x + y * k.number("x_h")
        ring = self.ring(y)
        last = count - lanes
        if spec.width == 2:
            for at in k.range(0, last, lanes):
                self._vector(source, y, at, None, 0, ring)
            self._vector(source, y, last, None, spec.right, ring)
            return
        before = k.variable(self._before(source, k.integer(0)))
        for at in k.range(0, last, lanes):
            before.value = self._vector(source, y, at, before.value, 0, ring)
        column = k.variable(before.value)
        with k.when(k.integer(0) < last):
            column.value = k.splat(source.load(last * 2 - spec.left, 1).to(spec.compute), lanes)
        self._vector(source, y, last, column.value, spec.right, ring)

    def _before(self, source: Pointer, column: Value) -> Value:
        k, spec = self.k, self.spec
        if spec.left:
            return k.constant(spec.compute, float("nan") if spec.raw else spec.identity, self.lanes)
        value = k.splat(source.load(column, 1).to(spec.compute), self.lanes)
        if self.guard is not None:
            self.guard.see([value])
        return value

    def _vector(
        self,
        source: Pointer,
        y: Value,
        at: Value,
        before: Value | None,
        over: int,
        ring: tuple[Pointer, Pointer],
    ) -> Value:
        k, spec, lanes = self.k, self.spec, self.lanes
        start = at * 2 + (0 if before is None else 1 - spec.left)
        low = source.load(start, lanes).to(spec.compute)
        high = source.load(start + (lanes - over), lanes).to(spec.compute)
        if self.guard is not None:
            self.guard.see_products([low, high])
        if over:
            nothing = k.constant(spec.compute, float("nan") if spec.raw else spec.identity, lanes)
            high = k.shuffle(high, nothing, range(1, lanes + 1))
        even, odd = even_odd(k, low, high)
        taps = [even, odd] if before is None else [shift_in(k, before, odd), even, odd]
        best = taps[0], self.tap(0, lanes)
        for number, tap in enumerate(taps[1:], 1):
            best = self.better(best, (tap, self.tap(number, lanes)))
        columns = k.splat((at * 2 - spec.left).to(I32), lanes) + k.lanes_constant(I32, range(0, 2 * lanes, 2))
        column = columns + best[1]
        if spec.left:  # only the first window has a tap before column 0
            column = k.intrinsic("smax", column, k.constant(I32, 0, lanes))
        ring[0].store(best[0], at)
        ring[1].store(self.place(y, column), at)
        return odd
