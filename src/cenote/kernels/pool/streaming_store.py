"""Output rows that are written to memory by whole cache lines, past the caches, although rows end anywhere in a line.

Rows are first written to a scratch buffer, in which they lie as in memory; from there whole lines are streamed out,
and the rest that does not fill a line waits for the next rows. Only the first and the last line of a strip, which
other items may write too, are written by ordinary stores. This is for results larger than the last cache: a line that
is written whole need not be read first, which saves a third of the traffic (a plain copy of 51 MB takes 4.8 ms, past
the caches 2.8 ms).
"""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.kernels.pool.common import Strip


class StreamingStore:
    """Results of one strip, whose rows lie side by side in memory from `y` on (by default in its own plane). `buffer`
    has room for a group of rows, and for as much before it unless all are sent at once."""

    def __init__(self, strip: Strip, buffer: Pointer, y: Pointer | None = None) -> None:
        k, n = strip.k, strip.k.number
        self.k: Kernel = k
        self.strip, self.width, self.buffer = strip, n("out_w"), buffer
        self.line = k.target.line // strip.spec.storage.nbytes
        first = (y or strip.y) + strip.first_row * n("y_h")
        # Number of elements before it in the first line.
        self.before = k.misaligned(first, k.target.line) // strip.spec.storage.nbytes
        self.start = first.offset_unchecked(0 - self.before)
        self.sent = k.variable(k.integer(0))  # elements from `start` on that are in memory, in whole lines
        rows = strip.last_row - strip.first_row
        for place in (k.integer(0), self._place(rows)):
            k.prefetch(self.start, place, write=True)

    @staticmethod
    def scratch_rows(group: int) -> int:
        """Number of scratch rows that a buffer needs, for groups of so many rows."""
        return 2 * group + 3

    def row(self, row: Value) -> Pointer:
        """Address to write an output row to."""
        return self.buffer + (self._place(row - self.strip.first_row) - self.sent.value)

    def flush(self, rows: Value) -> None:
        """Stream out the full lines, once all before output row `rows` is there (in steps of a line or more)."""
        k, line, lanes, sent = self.k, self.line, self.strip.spec.out_lanes, self.sent.value
        whole = (self._place(rows - self.strip.first_row) - sent) & ~(line - 1)
        is_first = sent.equals(0) & (self.before > 0)
        begin = k.select(is_first, k.integer(line), k.integer(0))
        target = self.start + sent
        for at in k.range(k.select(is_first, self.before, begin), begin):
            target.store(self.buffer.load(at), at)
        for at in k.range(begin, whole, line):
            vectors = [self.buffer.load(at + place, lanes) for place in range(0, line, lanes)]
            for number, vector in enumerate(vectors):
                k.store_nontemporal(vector, target + (at + number * lanes))
        for place in range(0, line, lanes):
            self.buffer.store(self.buffer.load(whole + place, lanes), place)
        self.sent.value = sent + whole

    def finish(self) -> None:
        """Write the rest."""
        sent = self.sent.value
        for at in self.k.range(0, self._place(self.strip.last_row - self.strip.first_row) - sent):
            (self.start + sent).store(self.buffer.load(at), at)

    def _place(self, rows: Value) -> Value:
        return rows * self.width + self.before
