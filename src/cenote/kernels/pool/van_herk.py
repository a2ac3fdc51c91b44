"""Pooling whose windows have many rows: the block scheme of van Herk (1992) and Gil & Werman (1993), down the rows.

The rows of the padded input are cut into blocks as high as the window. A window then is the end of one block and the
beginning of the next: a suffix joined to a prefix, three combinations per row however high the window is. With sums
in place of maxima the same scheme gives averages without a running sum: nothing is ever subtracted.

    for item in items:                              # a strip of columns of a run of blocks of one plane
        for block of the run:
            for row in the block, upwards:          # suffixes, each in the place of the row below
                block[row + 1] = suffix = combine(block[row], suffix)
            for row in output rows that start in the block:
                prefix = combine(prefix, x[last row of the window])
                combined = combine(block[row + 1], prefix)
                block[row - 1] = x[last row of the window]      # which is a row of the next block
                across: `horizontal`

So the input is read once, and what is kept of it lies close together: rows of images 2^n wide would push each other out
of the caches (31x31 on 3x2048x2048 twice as slow). `x[row]` is the combination of the window's planes (unrolled)
when there are several. Runs do not depend on each other. The maxima are computed twice if need be: first with one
instruction each, which may lose a NaN, while the inputs are summed up lane by lane; where that sum is NaN, again
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cenote.codegen.builder import Kernel
from cenote.codegen.values import U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.pool import horizontal
from cenote.kernels.pool.common import SLACK, NanGuard, PoolSpec, Strip, choose, combine_all, fill_blank, load
from cenote.kernels.pool.problem import (
    Candidate,
    Geometry,
    Partition,
    PoolProblem,
    estimate,
    group_of,
    lanes_for,
    scratch_pitch,
    spec_fields,
    streams,
    strip_within,
    window_build,
)

TOGETHER = 2  # output rows joined at a time: a prefix then stays in registers for as many rows
UPWARDS = 4  # suffixes made at a time


@dataclass(frozen=True)
class PoolVanHerk(PoolSpec):
    """Kernel of windows of `planes` planes (unrolled) and any number of rows.

    The word `band` counts the rows of a run: whole blocks. `together`: output rows joined at a time; more than 1 only
    for windows one row apart.
    """

    planes: int
    together: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        fill_blank(k, self)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            guard = NanGuard(k, self)
            _Run(strip, guard).emit()
            if guard.needed:
                with k.when(guard.seen()):
                    _Run(strip, None).emit()
        if self.past_caches:
            k.fence()
        return k

    @property
    def scratch_rows(self) -> int:
        """Number of scratch rows that a thread needs, without those of a block (as many as the window has rows)."""
        return self.first_combined + self.together + 2

    @property
    def tail(self) -> int:
        return horizontal.FIRST_ROW + horizontal.scratch_rows(self)

    @property
    def first_combined(self) -> int:
        return self.tail + 3


class _Run:
    """Pooling of one strip: exact where there is no guard for NaN, else quick."""

    def __init__(self, strip: Strip, guard: NanGuard | None) -> None:
        assert isinstance(strip.spec, PoolVanHerk)
        self.strip, self.k, self.guard = strip, strip.k, guard
        self.spec: PoolVanHerk = strip.spec
        self.rows = strip.k.number("window_h")
        self.tail = strip.row(self.spec.tail)
        self.combined = [
            strip.edged_row(self.spec.first_combined + index) for index in range(self.spec.together)
        ]

    def emit(self) -> None:
        k, n, strip, stride = self.k, self.k.number, self.strip, self.k.number("stride_h")
        for combined in self.combined:
            strip.fill_edges(combined)
        strip.fill(self.tail + self.spec.lanes, k.integer(self.spec.lanes))
        begin = strip.band * n("band")
        end = k.minimum(begin + n("band"), (n("out_h") - 1) * stride + 1)
        taken = k.variable(k.integer(0))  # rows of the block that are there already
        for start in k.range(begin, end, self.rows):
            self.top = start - n("pad_h")  # input row of the block's first row
            for row in k.range(taken.value, self.rows - 1):
                self._take(row, row)
            self._take(self.rows - 1, self.rows)
            self._suffixes()
            for turn in (0, 1):
                strip.fill(self._prefix(turn), strip.length)
            taken.value = self._join_all(start, k.minimum(start + self.rows, end))

    def _join_all(self, start: Value, stop: Value) -> Value:
        """Emit the output rows of windows that start in rows start..stop-1; returns the number of rows taken of the
        next block."""
        k, stride, together = self.k, self.k.number("stride_h"), self.spec.together
        if together > 1:
            whole = (stop - start) & ~(together - 1)
            for offset in k.range(0, whole, together):
                self._join(start + offset, offset, offset // together, together)
            for offset in k.range(whole, stop - start):
                self._join(start + offset, offset, offset - whole + whole // together, 1)
            return stop - start - 1
        first, last = (start + stride - 1) // stride, (stop + stride - 1) // stride
        for row in k.range(first, last):
            offset = row * stride - start
            for skipped in k.range(k.maximum(offset - stride, k.integer(0)), offset - 1):
                self._skip(skipped)
            self._join(row, offset, offset + 1, 1)
        return (last - 1) * stride - start

    def _block(self, row: Value | int) -> Pointer:
        """Address of a row of the block; its suffix is in the place of the next. Row -1 exists as well, for unused
        results."""
        return self.strip.row(row + (self.spec.first_combined + self.spec.together + 1))

    def _prefix(self, turn: Value | int) -> Pointer:
        """Address of the prefix before a turn: two rows alternate, because LLVM makes in-place maxima masked stores,
        which are slow."""
        return self.strip.row((turn & 1) + (self.spec.tail + 1))

    def _take(self, row: Value, place: Value) -> None:
        """Fetch a row of the block."""
        sources = self._sources(row)
        for at, is_tail in self._vectors():
            self._block(place).store(self._loaded(sources, at, is_tail), at)

    def _skip(self, row: Value) -> None:
        """Take a row of the next block that no window ends in: into the prefix, and into its place."""
        sources, lanes = self._sources(self.rows + row), self.spec.lanes
        before, after = self._prefix(row), self._prefix(row + 1)
        for at, is_tail in self._vectors():
            value = self._loaded(sources, at, is_tail)
            after.store(self._combine(before.load(at, lanes), value), at)
            self._block(row).store(value, at)

    def _suffixes(self) -> None:
        """Combine the block's rows from each row to the last, upwards."""
        k, last = self.k, self.rows - 1
        rest = last % UPWARDS
        for index in k.range(0, rest):
            self._upwards(last - 1 - index, 1)
        for index in k.range(rest, last, UPWARDS):
            self._upwards(last - UPWARDS - index, UPWARDS)

    def _upwards(self, top: Value, count: int) -> None:
        """Compute the suffixes of `count` rows from `top` on; runs over by up to a vector."""
        rows = [self._block(top + index) for index in range(count + 2)]
        for at in self.k.range(0, self.strip.length, self.spec.lanes):
            suffix = rows[count + 1].load(at, self.spec.lanes)
            for index in reversed(range(count)):
                suffix = self._combine(rows[index].load(at, self.spec.lanes), suffix)
                rows[index + 1].store(suffix, at)

    def _join(self, first: Value, offset: Value, turn: Value, count: int) -> None:
        """Emit the output rows from `first` on, whose windows start `offset` rows into the block: take the windows'
        last rows into the prefix, one after the other, join each to its suffix, and go across."""
        k, strip, lanes = self.k, self.strip, self.spec.lanes
        sources = [
            self._sources(self.rows - 1 + (offset + index), (offset > 0) if index == 0 else None)
            for index in range(count)
        ]
        before, after = self._prefix(turn), self._prefix(turn + 1)
        rows = [self._block(offset + (index - 1)) for index in range(count + 2)]
        targets = [strip.y + (first + index) * k.number("y_h") for index in range(count)]
        if self.spec.past_caches:
            self._ask_for_ends(targets)
        for at, is_tail in self._vectors():
            prefix = before.load(at, lanes)
            for index in range(count):
                value = self._loaded(sources[index], at, is_tail)
                prefix = self._combine(prefix, value)
                joined = self._combine(rows[index + 2].load(at, lanes), prefix)
                rows[index].store(value, at)
                (self.combined[index] + strip.left).store(joined, at)
            after.store(prefix, at)
        for index in range(count):
            exact, past_caches = self.guard is None, self.spec.past_caches
            across = horizontal.Across(strip, self.combined[index], exact, past_caches)
            if self.spec.past_caches:
                across.also(self._asking(self.rows - 1 + offset + (index + self.spec.together)))
            across.prepare()
            across.results(targets[index], first + index)

    def _ask_for_ends(self, targets: list[Pointer]) -> None:
        """Prefetch the cache lines that are not written past the caches: waiting for them took a
        quarter of the time."""
        k, count = self.k, self.strip.count
        line = k.target.line // self.spec.storage.nbytes
        for target in targets:
            for place in (k.integer(0), k.integer(line), count - line, count - 1):
                k.prefetch(target, place, write=True)

    def _asking(self, row: Value) -> Callable[[Value, int], None]:
        """Prefetch a row of the input while results are written, so that memory is read and written at once."""
        k, lanes = self.k, self.spec.lanes
        line = max(1, k.target.line // (lanes * self.spec.storage.nbytes))
        offset = (self.top + row) * k.number("x_h")

        def ask(at: Value, turn: int) -> None:
            if turn % line == 0:
                k.prefetch(self.strip.x, offset + at)

        return ask

    def _vectors(self) -> Iterator[tuple[Value, bool]]:
        """Starts of vectors that cover a row, each element once; the last, which may run over, is the tail."""
        k, length, lanes = self.k, self.strip.length, self.spec.lanes
        whole = length & ~(lanes - 1)
        for at in k.range(0, whole, lanes):
            yield at, False
        if lanes > 1:
            with k.when(whole < length):
                yield whole, True

    def _loaded(self, sources: list[Pointer], at: Value, is_tail: bool) -> Value:
        """Load the planes' rows, combined. The tail is loaded so that it ends with the row, and moved in memory."""
        lanes, values = self.spec.lanes, []
        for source in sources:
            if is_tail:
                last = self.strip.length - lanes
                self.tail.store(load(self.spec, source, last, lanes))
                values.append((self.tail + (at - last)).load(0, lanes))
            else:
                values.append(load(self.spec, source, at, lanes))
        if self.guard is not None:
            self.guard.see(values)
        return self._combine(*values)

    def _combine(self, *values: Value) -> Value:
        return combine_all(self.k, self.spec.reduction, values, exact=self.guard is None)

    def _sources(self, row: Value, wanted: Value | None = None) -> list[Pointer]:
        """Start address, in each plane, of a row of the block (or of the next one); blanks where it is not in the
        input."""
        k, n, strip = self.k, self.k.number, self.strip
        y = self.top + row
        inside = y.bits(U64) < n("size_h").bits(U64)
        if wanted is not None:
            inside = inside & wanted
        blank = k.scratch.cast(self.spec.storage)
        sources: list[Pointer] = []
        for plane in range(self.spec.planes):
            here, source = inside, strip.x + y * n("x_h")
            if self.spec.deep:
                z = strip.depth * n("stride_d") + (n("dilation_d") * plane - n("pad_d"))
                here, source = here & (z.bits(U64) < n("size_d").bits(U64)), source + z * n("x_d")
            sources.append(choose(k, here, source, blank))
        return sources


# ---- the offer ------------------------------------------------------------------------------------------------------

FEWEST_ROWS = 8  # with fewer, going row by row costs no more
MOST_PLANES = 8  # windows of more planes are not unrolled
RUNS = ((16, 8), (8, 3))  # runs of blocks over all planes that are aimed at, and the fewest blocks of each


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan overlapping, undilated windows of two rows or more."""
    if is_size(problem.nbytes):
        return None  # the machine code depends on sizes
    geometry = problem.geometry
    if not _serves(geometry):
        return None
    planes, rows = geometry.window[:2]
    widest = strip_within(problem, strip_room(geometry, target))
    strips = -(-geometry.out[2] // widest)
    starts = (geometry.out[1] - 1) * geometry.stride[1] + 1
    cut = Partition.of(geometry, widest, _run(geometry, problem.planes * strips), starts)
    lanes = lanes_for(problem, cut, target)
    if lanes is None:
        return None
    together = TOGETHER if planes == 1 and geometry.stride[1] == 1 else 1
    fields = spec_fields(problem, *lanes, streams(problem, cut, target, lanes[1]))
    spec = PoolVanHerk(**fields, planes=planes, together=together)
    pitch = scratch_pitch(problem, cut.strip, spec.lanes)
    work = estimate(
        "van_herk",
        problem,
        spec.lanes,
        down=(2 * planes + 8) * geometry.stride[1],
        across=horizontal.steps(spec),
        passes=1 + 2 * geometry.stride[1],
        proven=rows >= FEWEST_ROWS,
    )
    scratch = (spec.scratch_rows + rows) * pitch + SLACK
    build = window_build(problem, spec, cut, pitch=pitch, scratch=scratch, group=group_of(problem, cut))
    return Candidate(work, build)


def _serves(geometry: Geometry) -> bool:
    planes, rows = geometry.window[:2]
    return planes <= MOST_PLANES and rows >= 2 and geometry.dilation[1] == 1 and geometry.stride[1] < rows


def goes_by_blocks(geometry: Geometry) -> bool:
    """Whether windows have rows enough for blocks of scratch rows, which lie in the level 2 cache."""
    return _serves(geometry) and geometry.window[1] >= FEWEST_ROWS


def strip_room(geometry: Geometry, target: Target) -> int:
    """Bytes of a scratch row; a window needs as many such rows as it has: narrower strips are slower, with more ends
    of rows and more overlap."""
    return target.l2_bytes * 9 // 16 // geometry.window[1]


def _run(geometry: Geometry, columns: int) -> int:
    """Number of rows of a run of blocks, of which there are `columns` side by side: enough runs for many threads, but
    long enough that fetching their first blocks separately does not matter."""
    rows = geometry.window[1]
    blocks = ((geometry.out[1] - 1) * geometry.stride[1]) // rows + 1
    runs = max(1, *(min(-(-aim // columns), blocks // fewest) for aim, fewest in RUNS))
    return -(-blocks // runs) * rows
