"""Windows along a row: the horizontal half of separable pooling.

The rows of a window, already combined, lie in a scratch row with identities where the window hangs over an edge, so
nothing here knows about edges. The cost per output does not grow with the window:

- up to 5 columns (or any with dilation): one load and one step per column;
- wider, plain: windows of 2, 4 … g columns by doubling in registers (g: up to one vector), then m = width // g of
  those side by side: up to 4 directly, more by the block scheme of van Herk (1992) and Gil & Werman (1993) on whole
  vectors. What is left over, for maxima, is one more window of g that overlaps the last; sums may not overlap and add
  the binary pieces of the rest. No difference of sums is ever taken, so nothing cancels and an infinity stays where
  it is;
- wider, channels innermost: doubling through scratch rows, a row per level.
"""

from __future__ import annotations

from collections.abc import Callable

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.kernels.pool_base import (
    SUM,
    Piece,
    PoolSpec,
    combine_all,
    evens,
    in_order,
    pick,
    spans,
)

DIRECT = 5  # widest window taken column by column: 6 columns by doubling take as many instructions
SIDE_BY_SIDE = 4  # most vectors combined one by one
Windows = Callable[[Value | int, int], Value]
FIRST_ROW = 2  # scratch rows from here on are this module's


def levels(width: int) -> list[int]:
    """1, 2, 4 … up to the largest power of two within the width."""
    return [1 << bit for bit in range(width.bit_length())]


def scratch_rows(spec: PoolSpec) -> int:
    """Scratch rows that `Across` uses from FIRST_ROW on."""
    if not _needs_levels(spec):
        return 0
    return 4 if spec.step == 1 else len(levels(spec.width)) - 1


def _needs_levels(spec: PoolSpec) -> bool:
    return spec.dilation == 1 and spec.width > DIRECT


class Across:
    """Windows of one scratch row (`source`), for one kernel and piece."""

    def __init__(self, piece: Piece, source: Pointer, exact: bool = True) -> None:
        self.piece, self.k, self.spec, self.source, self.exact = piece, piece.k, piece.spec, source, exact
        self._at: Windows = self._columns

    def use(self, windows: Windows) -> None:
        """Take windows from elsewhere: a function of the place and the number of lanes."""
        self._at = windows

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, self.exact)

    # ---- windows at any place, one per lane ---------------------------------------------------------------------

    def _columns(self, offset: Value | int, lanes: int) -> Value:
        """Column by column."""
        source = self.source + offset
        distance = self.piece.step * self.spec.dilation
        return self._combine(*(source.load(distance * tap, lanes) for tap in range(self.spec.width)))

    def prepare(self) -> None:
        """Emit the loops that come before the first result of a row, if the window is wide."""
        if not _needs_levels(self.spec):
            return
        if self.spec.step == 1:
            self._prepare_plain()
        else:
            self._prepare_channels()

    # ---- wide windows, plain ------------------------------------------------------------------------------------

    def _prepare_plain(self) -> None:
        spec, lanes = self.spec, self.spec.lanes
        group = min(levels(spec.width)[-1], lanes)
        blocks, rest = divmod(spec.width, group)
        groups, rests = self.piece.row(FIRST_ROW), self.piece.row(FIRST_ROW + 1)
        windows = (self.piece.count - 1) * spec.stride + 1
        self._double(group, rest if spec.reduction == SUM else 0, windows + spec.width, groups, rests)

        def beyond(offset: Value | int, lanes: int) -> list[Value]:
            """What the blocks leave of the window: nothing, or one value."""
            if not rest:
                return []
            if spec.reduction == SUM:
                return [(rests + offset).load(blocks * group, lanes)]
            return [(groups + offset).load(spec.width - group, lanes)]

        if blocks <= SIDE_BY_SIDE:

            def side_by_side(offset: Value | int, lanes: int) -> Value:
                parts = [(groups + offset).load(block * group, lanes) for block in range(blocks)]
                return self._combine(*parts, *beyond(offset, lanes))

            self._at = side_by_side
            return
        whole = self.piece.row(FIRST_ROW + 2)
        self._van_herk(groups, whole, windows, blocks)
        self._at = lambda offset, lanes: self._combine(
            (whole + offset).load(0, lanes), *beyond(offset, lanes)
        )

    def _double(self, group: int, rest: int, count: Value, groups: Pointer, rests: Pointer) -> None:
        """Windows of `group` columns at 0, 1 … count-1 into `groups`, and of `rest` columns into `rests`.

        Each turn of the loop reads one vector and moves every level one vector on; level j lags j-1 vectors behind.
        """
        k, spec, lanes = self.k, self.spec, self.spec.lanes
        sizes = levels(group)
        lag = max(len(sizes) - 2, 0)
        junk = k.constant(spec.compute, 0, lanes)
        # history[level][age]: the level's vector of `age` turns before the newest
        history = {size: [k.variable(junk) for _ in range(lag + 2)] for size in sizes[1:]}
        for at in k.range(0, count + lag * lanes, lanes):
            newest: dict[int, list[Value]] = {}
            for level, size in enumerate(sizes[1:], 1):
                before = [variable.value for variable in history[size][:-1]]
                if size == 2:
                    made = self._combine(self.source.load(at, lanes), self.source.load(at + 1, lanes))
                else:
                    half = newest[size // 2]
                    made = self._combine(half[1], shifted(k, half[1], half[0], size // 2))
                newest[size] = [made, *before]
                assert level - 1 <= lag
            if group == 1:
                (groups + at).store(self.source.load(at, lanes))
                continue
            (groups + (at - lag * lanes)).store(newest[group][0])
            if rest:
                (rests + (at - lag * lanes)).store(self._rest(newest, rest, at, lag))
            for size, variables in history.items():
                for variable, value in zip(variables, newest[size], strict=False):
                    variable.value = value

    def _rest(self, newest: dict[int, list[Value]], rest: int, at: Value, lag: int) -> Value:
        """The window of `rest` < group columns, from the levels of its binary digits."""
        k, lanes, offset = self.k, self.spec.lanes, 0
        parts: list[Value] = []
        for size in reversed(levels(rest)):
            if not rest & size:
                continue
            if size == 1:
                parts.append(self.source.load(at + (offset - lag * lanes), lanes))
            else:
                age = lag - (size.bit_length() - 2)  # turns since the level made the vector of that place
                vectors = newest[size]
                parts.append(shifted(k, vectors[age], vectors[age - 1], offset) if offset else vectors[age])
            offset += size
        return self._combine(*parts)

    def _van_herk(self, groups: Pointer, whole: Pointer, windows: Value, blocks: int) -> None:
        """Windows of `blocks` vectors: in blocks of that many, suffixes of one block joined to prefixes of the next."""
        k, lanes = self.k, self.spec.lanes
        suffixes = self.piece.row(FIRST_ROW + 3)
        for start in k.range(0, windows, blocks * lanes):
            suffix = k.variable((groups + start).load((blocks - 1) * lanes, lanes))
            (suffixes + (blocks - 1) * lanes).store(suffix.value)
            for index in k.range(1, blocks):
                place = (blocks - 1 - index) * lanes
                suffix.value = self._combine((groups + start).load(place, lanes), suffix.value)
                suffixes.store(suffix.value, place)
            (whole + start).store(suffix.value)
            prefix = k.variable((groups + start).load(blocks * lanes, lanes))
            (whole + start).store(self._combine(suffixes.load(lanes, lanes), prefix.value), lanes)
            for index in k.range(2, blocks):
                place = index * lanes
                prefix.value = self._combine(
                    prefix.value, (groups + start).load(place + (blocks - 1) * lanes, lanes)
                )
                (whole + start).store(self._combine(suffixes.load(place, lanes), prefix.value), place)

    # ---- wide windows, channels innermost -------------------------------------------------------------------------

    def _prepare_channels(self) -> None:
        spec, k, step = self.spec, self.k, self.piece.step
        rows = {1: self.source}
        columns = (self.piece.count - 1) * spec.stride + spec.width
        for index, size in enumerate(levels(spec.width)[1:]):
            rows[size] = self.piece.row(FIRST_ROW + index)
            length = (columns - (size - 1)) * step
            for at in k.range(0, length, spec.lanes):
                half = rows[size // 2] + at
                rows[size].store(
                    self._combine(half.load(0, spec.lanes), half.load(step * (size // 2), spec.lanes)), at
                )
        largest = levels(spec.width)[-1]

        def windows(offset: Value | int, lanes: int) -> Value:
            if spec.reduction != SUM:
                row, rest = rows[largest] + offset, spec.width - largest
                return self._combine(row.load(0, lanes), *([row.load(step * rest, lanes)] if rest else []))
            parts, place = [], 0
            for size in reversed(levels(spec.width)):
                if spec.width & size:
                    parts.append((rows[size] + offset).load(step * place, lanes))
                    place += size
            return self._combine(*parts)

        self._at = windows

    # ---- results --------------------------------------------------------------------------------------------------

    def results(self, y: Pointer, row: Value) -> None:
        """Emit one output row: windows at every stride-th column, scaled and written."""
        factor = self.piece.factor(row)
        if self.spec.step != 1:
            self._results_channels(y, factor)
            return
        for at in spans(self.k, self.piece.count, self.spec.out_lanes, unroll=2):
            self.piece.store(self.strided(at, self.spec.out_lanes), y, at, factor, at)

    def strided(self, at: Value, lanes: int) -> Value:
        """Windows of outputs at, at+1 … in the lanes (plain)."""
        k, spec = self.k, self.spec
        if spec.stride == 1 or lanes == 1:
            return self._at(at * spec.stride, lanes)
        if spec.stride == 2 and spec.dilation == 1 and spec.width <= 4:
            taps: list[Value] = []
            for tap in range(0, spec.width, 2):
                low, high = (
                    self.source.load(at * 2 + tap, lanes),
                    self.source.load(at * 2 + (tap + lanes), lanes),
                )
                taps += [pick(k, low, high, first) for first in range(min(2, spec.width - tap))]
            return in_order(k, self._combine(*taps))
        return evens(k, [self._at(at * spec.stride + part * lanes, lanes) for part in range(spec.stride)])

    def _results_channels(self, y: Pointer, factor: Value | None) -> None:
        k, spec, step = self.k, self.spec, self.piece.step
        if spec.stride == 1 and spec.scale != "both":
            for at in spans(k, self.piece.count * step, spec.out_lanes, unroll=2):
                self.piece.store(self._at(at, spec.out_lanes), y, at, factor, at)
            return
        for column in k.range(0, self.piece.count):
            base = column * step
            for channel in spans(k, step, spec.out_lanes):
                value = self._at(base * spec.stride + channel, spec.out_lanes)
                self.piece.store(value, y, base + channel, factor, column)


def shifted(k: Kernel, a: Value, b: Value, count: int) -> Value:
    """Lanes count, count+1 … of a followed by b: the vector that starts `count` lanes later."""
    return k.shuffle(a, b, range(count, count + a.lanes))


__all__ = ["FIRST_ROW", "Across", "scratch_rows"]
