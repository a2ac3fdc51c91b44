"""Pooling whose windows have few rows: each output row combines the rows of its window, then the columns.

    for item in items:                              # a strip of columns of a band of output rows of one plane
        for group of output rows of the band:
            for row, column in vectors of the group:    # down: rows of the window, from memory, into scratch rows
                scratch[row][column] = combine(x[row 0][column], x[row 1][column] …)       (rows unrolled)
            for row, column in vectors of the group:    # across: `pool_across`
                y[row][column] = combine(scratch[row][column], scratch[row][column + 1] …) (columns unrolled)

Groups are there for short rows: a load that spans two stores has to wait until both have left the store buffer, and
in a group they have (3x3 on 1536 maps of 28x28: 0.58 ms row by row, 0.49 ms in groups).

A row of the window outside the input is read from a scratch row of identities, so there is one loop for edges and
inside. Where windows neither overlap along the row nor hang over its ends (2x2 with stride 2), both halves happen in
registers (`fused`) and no scratch row is used.
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U64, Pointer, Value
from cenote.core.target import Target
from cenote.kernels import pool_across
from cenote.kernels.pool_base import (
    Piece,
    PoolSpec,
    Watch,
    choose,
    combine_all,
    fill_blank,
    in_order,
    load,
    new_kernel,
    pick,
    smaller_of,
    spans,
)

MOST_ROWS = 27  # rows of a window (planes times rows) that are unrolled


@dataclass(frozen=True)
class PoolRows(PoolSpec):
    """Windows of `planes` x `rows` rows, unrolled. `clipped`: some of them may lie outside the input.

    `fused`: no window overlaps its neighbour in the row or leaves the input sideways (width equal to stride, plain,
    a power of two; or channels innermost).
    """

    planes: int
    rows: int
    clipped: bool
    fused: bool

    def emit(self, target: Target) -> Kernel:
        k = new_kernel(self, target)
        if self.clipped:
            fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            piece = Piece(k, self, item)
            if self.fused:
                for row in k.range(piece.first_row, piece.last_row):
                    self._fused(piece, self._sources(piece, row), piece.y + row * k.number("y_h"), row)
                continue
            watch = Watch(k, self)
            for index in k.range(0, k.number("group")):
                piece.fill_edges(piece.edged_row(index + self.scratch_rows))
            self._separate(piece, watch)
            if watch.needed:
                with k.when(watch.seen()):
                    self._separate(piece, None)
        return k

    def _separate(self, piece: Piece, watch: Watch | None) -> None:
        """Down into scratch rows, then across: quickly while there is a watch for NaN, else exactly."""
        k, group = piece.k, piece.k.number("group")
        for start in k.range(piece.first_row, piece.last_row, group):
            stop = smaller_of(k, start + group, piece.last_row)
            for row in k.range(start, stop):
                sources = self._sources(piece, row)
                inner = piece.edged_row(row - start + self.scratch_rows) + piece.left
                for at in spans(k, piece.length, self.lanes, unroll=2):
                    values = [load(self, source, at, self.lanes) for source in sources]
                    if watch is not None:
                        watch.see(values)
                    inner.store(combine_all(k, self.reduction, values, exact=watch is None), at)
            for row in k.range(start, stop):
                combined = piece.edged_row(row - start + self.scratch_rows)
                across = pool_across.Across(piece, combined, exact=watch is None)
                across.prepare()
                across.results(piece.y + row * k.number("y_h"), row)

    def _sources(self, piece: Piece, row: Value) -> list[Pointer]:
        """Where the rows of the window of an output row start."""
        k, n = piece.k, piece.k.number
        blank = k.scratch.cast(self.storage)
        first_plane = piece.depth * n("stride_d") - n("pad_d")
        first_row = row * n("stride_h") - n("pad_h")
        sources: list[Pointer] = []
        for plane in range(self.planes):
            z = first_plane + n("dilation_d") * plane if self.deep else k.integer(0)
            for tap in range(self.rows):
                y = first_row + n("dilation_h") * tap
                source = piece.x + (z * n("x_d") + y * n("x_h"))
                if self.clipped:
                    inside = y.bits(U64) < n("size_h").bits(U64)
                    if self.deep:
                        inside = inside & (z.bits(U64) < n("size_d").bits(U64))
                    source = choose(k, inside, source, blank)
                sources.append(source)
        return sources

    def _down(self, k: Kernel, sources: list[Pointer], at: Value, lanes: int) -> Value:
        return combine_all(k, self.reduction, [load(self, source, at, lanes) for source in sources])

    def _fused(self, piece: Piece, sources: list[Pointer], y: Pointer, row: Value) -> None:
        k, lanes, factor = piece.k, self.out_lanes, piece.factor(row)
        if self.step == 1:
            for at in spans(k, piece.count, lanes, unroll=2):
                places = [at * self.stride + part * lanes for part in range(self.stride)]
                parts = [self._down(k, sources, place, lanes) for place in places]
                piece.store(self._neighbours(k, parts), y, at, factor, at)
            return
        for column in k.range(0, piece.count):
            base = column * piece.step
            for channel in spans(k, piece.step, lanes):
                offsets = [
                    base * self.stride + (piece.step * (tap * self.dilation) + channel)
                    for tap in range(self.width)
                ]
                taps = [self._down(k, sources, offset, lanes) for offset in offsets]
                piece.store(combine_all(k, self.reduction, taps), y, base + channel, factor, column)

    def _neighbours(self, k: Kernel, parts: list[Value]) -> Value:
        """Windows as wide as there are parts, none overlapping, of the parts put end to end."""
        if parts[0].lanes == 1:
            return combine_all(k, self.reduction, parts)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            split = [[pick(k, a, b, first) for first in (0, 1)] for a, b in pairs]
            parts = [in_order(k, combine_all(k, self.reduction, both)) for both in split]
        return parts[0]

    @property
    def scratch_rows(self) -> int:
        """Scratch rows a thread needs, besides those of combined rows (as many as the word `group` says)."""
        return pool_across.FIRST_ROW + pool_across.scratch_rows(self)


__all__ = ["MOST_ROWS", "PoolRows"]
