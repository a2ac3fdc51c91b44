"""Pooling whose windows have many rows: the block scheme of van Herk (1992) and Gil & Werman (1993), down the rows.

The rows of the padded input are cut into blocks as high as the window. A window then is the end of one block and the
beginning of the next: a suffix joined to a prefix, three combinations per row however high the window is. With sums
in place of maxima the same scheme gives averages without a running sum: nothing is ever subtracted.

    for item in items:                              # a strip of columns of one block of one plane
        for row in the block, upwards:              # suffixes, into scratch rows
            suffix[row] = combine(x[row], suffix[row + 1])
        for row in output rows that start in the block:
            prefix = combine(prefix, x[last row of the window])        # in one scratch row
            combined = combine(suffix[first row of the window], prefix)
            across: `pool_across`

`x[row]` is the combination of the window's planes (unrolled) when there are several. Blocks do not depend on each
other, so they are the pieces of work. The maxima are computed twice if need be: first with one instruction each,
which may lose a NaN, while the inputs are summed up lane by lane; where that sum is NaN, again exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.codegen.builder import BOOL, Kernel
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
    larger_of,
    load,
    new_kernel,
    smaller_of,
    spans,
)


@dataclass(frozen=True)
class PoolBlocks(PoolSpec):
    """Windows of `planes` planes (unrolled) and any number of rows, which the word `band` tells."""

    planes: int

    def emit(self, target: Target) -> Kernel:
        k = new_kernel(self, target)
        fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            piece = Piece(k, self, item)
            watch = Watch(k, self)
            _Block(piece, watch).emit()
            if watch.needed:
                with k.when(watch.seen()):
                    _Block(piece, None).emit()
        return k

    @property
    def scratch_rows(self) -> int:
        """Scratch rows a thread needs, without the suffixes (as many as the window has rows)."""
        return pool_across.FIRST_ROW + pool_across.scratch_rows(self) + 2


class _Block:
    """One piece of work: exact where there is no watch for NaN, else quick."""

    def __init__(self, piece: Piece, watch: Watch | None) -> None:
        assert isinstance(piece.spec, PoolBlocks)
        self.piece, self.k, self.watch = piece, piece.k, watch
        self.spec: PoolBlocks = piece.spec
        n = piece.k.number
        self.rows = n("band")
        self.top = piece.band * self.rows - n("pad_h")  # input row of the block's first row
        self.first_suffix = self.spec.scratch_rows

    def emit(self) -> None:
        k, n, piece = self.k, self.k.number, self.piece
        combined = piece.edged_row(1)
        piece.fill_edges(combined)
        for turn in (0, 1):
            piece.fill(self._prefix(k.integer(turn)), piece.length)
        self._suffixes()
        across = pool_across.Across(piece, combined, exact=self.watch is None)
        stride, start = n("stride_h"), piece.band * self.rows
        first = (start + stride - 1) // stride
        last = smaller_of(k, (start + self.rows + stride - 1) // stride, n("out_h"))
        for row in k.range(first, last):
            offset = row * stride - start
            for skipped in k.range(larger_of(k, offset - stride, 0), offset - 1):
                sources = self._sources(self.rows + skipped)
                before, after = self._prefix(skipped), self._prefix(skipped + 1)
                for at in spans(k, piece.length, self.spec.lanes):
                    after.store(self._joined(sources, at, before), at)
            self._join(offset, combined, piece.y + row * n("y_h"))
            across.prepare()
            across.results(piece.y + row * n("y_h"), row)

    def _prefix(self, count: Value) -> Pointer:
        """The scratch row of the prefix of `count` rows: two in turn, because `spans` may do an element twice."""
        return self.piece.row((count & 1) + (self.spec.scratch_rows - 2))

    def _suffixes(self) -> None:
        """The block's rows combined from each row to the last."""
        k, piece = self.k, self.piece
        for index in k.range(0, self.rows):
            row = self.rows - 1 - index
            sources = self._sources(row)
            mine = piece.row(row + self.first_suffix)
            below = piece.row(
                k.select(index > 0, row + (self.first_suffix + 1), k.integer(self.spec.scratch_rows - 1))
            )
            for at in spans(k, piece.length, self.spec.lanes, unroll=2):
                mine.store(self._joined(sources, at, below), at)

    def _join(self, offset: Value, combined: Pointer, y: Pointer) -> None:
        """Take the window's last row into the prefix, and join the prefix to the suffix."""
        k, piece, lanes = self.k, self.piece, self.spec.lanes
        sources = self._sources(self.rows - 1 + offset, offset > 0)
        before, after = self._prefix(offset + 1), self._prefix(offset)
        suffix, combined = piece.row(offset + self.first_suffix), combined + piece.left
        for at in spans(k, piece.length, lanes, unroll=2):
            if self.spec.prefetch:  # the next row, and this one's outputs: 31x31 on 2048x2048 takes 15 % less
                k.prefetch(piece.x, (self.top + self.rows + offset) * k.number("x_h") + at)
                k.prefetch(y + at, write=True)
            prefix = self._joined(sources, at, before)
            after.store(prefix, at)
            combined.store(self._combine(suffix.load(at, lanes), prefix), at)

    def _joined(self, sources: list[Pointer], at: Value, row: Pointer) -> Value:
        """The planes' rows and a scratch row."""
        values = [load(self.spec, source, at, self.spec.lanes) for source in sources]
        if self.watch is not None:
            self.watch.see(values)
        return self._combine(*values, row.load(at, self.spec.lanes))

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, exact=self.watch is None)

    def _sources(self, row: Value, wanted: Value | None = None) -> list[Pointer]:
        """Where a row of the block (or of the next one) starts in each plane; blanks where it is not in the input."""
        k, n, piece = self.k, self.k.number, self.piece
        y = self.top + row
        inside = y.bits(U64) < n("size_h").bits(U64)
        if wanted is not None:
            inside = inside & wanted
        blank = k.scratch.cast(self.spec.storage)
        sources: list[Pointer] = []
        for plane in range(self.spec.planes):
            here, source = inside, piece.x + y * n("x_h")
            if self.spec.deep:
                z = piece.depth * n("stride_d") + (n("dilation_d") * plane - n("pad_d"))
                here, source = here & (z.bits(U64) < n("size_d").bits(U64)), source + z * n("x_d")
            sources.append(choose(k, here, source, blank))
        return sources


__all__ = ["BOOL", "PoolBlocks"]
