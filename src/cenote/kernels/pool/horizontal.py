"""Windows along a row: the horizontal half of separable pooling.

The rows of a window, already combined, lie in a scratch row with identities where the window hangs over an edge, so
nothing here knows about edges. The cost per output does not grow with the window:

- up to 5 columns (or any with dilation): one load and one step per column;
- wider, plain: windows of 2, 4 … g columns by doubling in registers (`doubling`), then m = width // g of
  those side by side: up to 4 directly, more by the block scheme of van Herk (1992) and Gil & Werman (1993) on whole
  vectors. What is left over, for maxima, is one more window of g that overlaps the last; sums may not overlap and add
  the binary pieces of the rest. No difference of sums is ever taken, so nothing cancels and an infinity stays where
  it is;
- wider, channels innermost: doubling through scratch rows, a row per level.
"""

from __future__ import annotations

from collections.abc import Callable

from cenote.codegen.values import Pointer, Value
from cenote.kernels.lanes import deinterleave, every_second, in_order
from cenote.kernels.pool.common import SUM, PoolSpec, Strip, combine_all, spans
from cenote.kernels.pool.doubling import (
    UNROLLED,
    Ladder,
    Use,
    WindowPart,
    binary_parts,
    ends_of,
    lined_up_spans,
    parts_of,
)

DIRECT = 5  # widest window taken column by column: 6 columns by doubling take as many instructions
SIDE_BY_SIDE = 4  # most vectors combined one by one
Windows = Callable[[Value | int, int], Value]
ENDS = 1  # scratch row for the ends of rows that are written past the caches
FIRST_ROW = 2  # scratch rows from here on are this module's


def levels(width: int) -> list[int]:
    """Return 1, 2, 4 … up to the largest power of two within the width."""
    return [1 << bit for bit in range(width.bit_length())]


def scratch_rows(spec: PoolSpec) -> int:
    """Number of scratch rows that `Across` uses from FIRST_ROW on."""
    if not _needs_levels(spec) or (spec.step == 1 and _in_registers(spec)):
        return 0
    return 4 if spec.step == 1 else len(levels(spec.width)) - 1


def _needs_levels(spec: PoolSpec) -> bool:
    return spec.dilation == 1 and spec.width > DIRECT


def steps(spec: PoolSpec) -> float:
    """Number of loads, shuffles, combinations and stores per vector of results."""
    width, stride = spec.width, spec.stride
    if not _needs_levels(spec):
        per_vector = 2 * width
        if spec.step != 1 or stride == 1:
            return per_vector + 1
        return (3 * width if stride == 2 and width <= 4 else stride * per_vector) + 2
    doublings = len(levels(width)) - 1
    if spec.step != 1:
        return 4 * doublings * stride + 4
    wide = 0 if width // spec.lanes <= SIDE_BY_SIDE else 8
    return (2 * doublings + 3 + wide + (0 if _in_registers(spec) else 4)) * stride + 1


class Across:
    """Windows of one scratch row (`source`), for one kernel and strip."""

    def __init__(self, strip: Strip, source: Pointer, exact: bool = True, past_caches: bool = False) -> None:
        self.strip, self.k, self.spec, self.source, self.exact = strip, strip.k, strip.spec, source, exact
        self.past_caches = past_caches
        self._at: Windows = self._columns
        self._ladder: Ladder | None = None
        self._along: Callable[[Value, int], None] = lambda at, turn: None

    def also(self, along: Callable[[Value, int], None]) -> None:
        """Call a function beside the work on windows in registers: with the place, in elements, and the number of the
        vector within the turn of the loop."""
        self._along = along

    def use(self, windows: Windows) -> None:
        """Take windows from elsewhere: a function of the place and the number of lanes."""
        self._at = windows

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, self.exact)

    # ---- windows at any place, one per lane ---------------------------------------------------------------------

    def _columns(self, offset: Value | int, lanes: int) -> Value:
        """Combine a window column by column."""
        source = self.source + offset
        distance = self.strip.step * self.spec.dilation
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
        if _in_registers(spec):
            self._ladder = self._ladder_of(parts_of(spec.width, lanes, spec.reduction == SUM))
            return
        group = _group(spec)
        blocks, rest = divmod(spec.width, group)
        groups, rests = self.strip.row(FIRST_ROW), self.strip.row(FIRST_ROW + 1)
        windows = (self.strip.count - 1) * spec.stride + 1
        disjoint = spec.reduction == SUM
        ladder = self._ladder_of([WindowPart(group, 0)], *([binary_parts(rest)] if rest and disjoint else []))

        def use(values: list[Value], at: Value, turn: int) -> None:
            self._along(at, turn)
            for row, value in zip((groups, rests), values, strict=False):
                (row + at).store(value)

        ladder.run(((windows + (spec.width + lanes - 1)) // lanes, UNROLLED, use))

        def beyond(offset: Value | int, lanes: int) -> list[Value]:
            """Rest of the window beside the blocks: nothing, or one value."""
            if not rest:
                return []
            if disjoint:
                return [(rests + offset).load(blocks * group, lanes)]
            return [(groups + offset).load(spec.width - group, lanes)]

        if blocks <= SIDE_BY_SIDE:

            def side_by_side(offset: Value | int, lanes: int) -> Value:
                parts = [(groups + offset).load(block * group, lanes) for block in range(blocks)]
                return self._combine(*parts, *beyond(offset, lanes))

            self._at = side_by_side
            return
        whole = self.strip.row(FIRST_ROW + 2)
        self._van_herk(groups, whole, windows, blocks)
        self._at = lambda offset, lanes: self._combine(
            (whole + offset).load(0, lanes), *beyond(offset, lanes)
        )

    def _ladder_of(self, *windows: list[WindowPart]) -> Ladder:
        return Ladder(self.k, self._combine, self.source, self.spec.lanes, windows)

    def _van_herk(self, groups: Pointer, whole: Pointer, windows: Value, blocks: int) -> None:
        """Compute windows of `blocks` vectors: in blocks of that many, suffixes of one block joined to prefixes of
        the next."""
        k, lanes = self.k, self.spec.lanes
        suffixes = self.strip.row(FIRST_ROW + 3)
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
        spec, k, step = self.spec, self.k, self.strip.step
        rows = {1: self.source}
        columns = (self.strip.count - 1) * spec.stride + spec.width
        for index, size in enumerate(levels(spec.width)[1:]):
            rows[size] = self.strip.row(FIRST_ROW + index)
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
        factor, strip, lanes = self.strip.factor(row), self.strip, self.spec.out_lanes
        if self.spec.step != 1:
            self._results_channels(y, factor)
        elif self._ladder is not None:
            self._results_in_registers(self._ladder, y, factor)
        elif self.past_caches:
            for at, aligned in lined_up_spans(self.k, y, strip.count, lanes):
                strip.store(self.strided(at, lanes), y, at, factor, at, past_caches=aligned)
        else:
            for at in spans(self.k, strip.count, lanes, unroll=2):
                strip.store(self.strided(at, lanes), y, at, factor, at)

    def _results_in_registers(self, ladder: Ladder, y: Pointer, factor: Value | None) -> None:
        k, strip, lanes = self.k, self.strip, self.spec.lanes
        if self.past_caches:
            self._results_past_caches(ladder, y, factor)
            return
        (window,), rest, last = ladder.windows, strip.count & (lanes - 1), strip.count - lanes

        def use(values: list[Value], at: Value, turn: int) -> None:
            strip.store(values[0], y, at, factor, at)

        ladder.run((strip.count // lanes, UNROLLED, use))
        with k.when(rest > 0):
            strip.store(ladder.at(window, last), y, last, factor, last)

    def _results_past_caches(self, ladder: Ladder, y: Pointer, factor: Value | None) -> None:
        """Write whole cache lines past the caches; the rest at the ends goes by way of a scratch row."""
        k, strip, lanes = self.k, self.strip, self.spec.lanes
        count, ends = strip.count, strip.row(ENDS).cast(self.spec.storage)
        head, rest = ends_of(k, y, count, lanes)
        before, after = (head + (lanes - 1)) // lanes, (rest + (lanes - 1)) // lanes
        begin = head - before * lanes  # up to a vector before the row
        whole = count - head - rest
        tail = begin + before * lanes + whole

        def aside(place: Value) -> Use:
            def use(values: list[Value], at: Value, turn: int) -> None:
                strip.store(values[0], ends, at - place, factor, begin + at)

            return use

        def use(values: list[Value], at: Value, turn: int) -> None:
            self._along(at, turn)
            strip.store(values[0], y, begin + at, factor, begin + at, past_caches=True)

        ladder.source = self.source + begin
        ladder.run(
            (before, 1, aside(k.integer(0))),
            (whole // lanes, UNROLLED, use),
            (after, 1, aside(whole)),
        )
        for start, stop, moved in ((k.integer(0), head, begin), (count - rest, count, tail - before * lanes)):
            for at in k.range(start, stop, lanes):
                place = k.intrinsic("smin", at, stop - lanes)
                y.store(ends.load(place - moved, lanes), place)

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
                taps += [every_second(k, low, high, first) for first in range(min(2, spec.width - tap))]
            return in_order(k, self._combine(*taps))
        return deinterleave(
            k, [self._at(at * spec.stride + part * lanes, lanes) for part in range(spec.stride)]
        )

    def _results_channels(self, y: Pointer, factor: Value | None) -> None:
        k, spec, step = self.k, self.spec, self.strip.step
        if spec.stride == 1 and spec.scale != "both":
            for at in spans(k, self.strip.count * step, spec.out_lanes, unroll=2):
                self.strip.store(self._at(at, spec.out_lanes), y, at, factor, at)
            return
        for column in k.range(0, self.strip.count):
            base = column * step
            for channel in spans(k, step, spec.out_lanes):
                value = self._at(base * spec.stride + channel, spec.out_lanes)
                self.strip.store(value, y, base + channel, factor, column)


def _in_registers(spec: PoolSpec) -> bool:
    """Whether results of a wide window, plain, are computed in one pass over the row."""
    return spec.stride == 1 and spec.lanes == spec.out_lanes and spec.width // spec.lanes <= SIDE_BY_SIDE


def _group(spec: PoolSpec) -> int:
    """Number of columns of the windows that are put side by side: up to four vectors, but one where they go by
    blocks."""
    group = min(levels(spec.width)[-1], SIDE_BY_SIDE * spec.lanes)
    return group if spec.width // group <= SIDE_BY_SIDE else min(group, spec.lanes)
