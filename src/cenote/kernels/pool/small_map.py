"""Pooling of small maps with wide windows: whole planes in scratch memory, so that loops run over planes, not rows.

    for item in items:                                  # one plane
        S = x, with rows of identities above and below                       (one loop)
        T[i] = combine(S[i], S[i + one row] …)          # windows of `part` rows      (one loop, unrolled taps)
        for output row: R[row] = combine(T[row], T[row + part] …)            # windows of all rows; edges left and right
        Q[i] = combine(R[i], R[i + one column] …)       # windows of `part` columns   (one loop)
        for output row: y[row] = combine(Q[row], Q[row + part] …)

A window of k taps made of windows of `part` taps costs about 2 sqrt(k) steps instead of k: for k of 6 to 40 fewer than
doubling, in half the passes. Maxima may overlap at the end; sums add single taps for what is left.
"""

from __future__ import annotations

from functools import cache

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.kernels.cost_model import PoolWork
from cenote.kernels.pool.common import SLACK, SUM, NanGuard, PoolSpec, Strip, combine_all, load, spans
from cenote.kernels.pool.horizontal import Across
from cenote.kernels.pool.problem import (
    Candidate,
    Partition,
    PoolProblem,
    estimate,
    group_of,
    lanes_for,
    row_pitch,
    spec_fields,
    window_build,
)

BUFFERS = 5  # scratch rows of `pitch` elements: the first is not used


@dataclass(frozen=True)
class Parts:
    """Division of a window into windows of `part` taps at `places`, and single taps at `singles`."""

    part: int
    places: tuple[int, ...]
    singles: tuple[int, ...]

    @staticmethod
    @cache
    def of(window: int, reduction: str) -> Parts:
        """Return the cheapest division of a window."""
        choices = [Parts._with(window, part, reduction == SUM) for part in range(1, window + 1)]
        return min(choices, key=lambda parts: parts.cost)

    @staticmethod
    def _with(window: int, part: int, disjoint: bool) -> Parts:
        whole, rest = divmod(window, part)
        places = tuple(range(0, whole * part, part))
        if not rest:
            return Parts(part, places, ())
        if disjoint:
            return Parts(part, places, tuple(range(whole * part, window)))
        return Parts(part, (*places, window - part), ())

    @property
    def cost(self) -> int:
        """Number of loads and stores per element."""
        for_parts = self.part + 1 if self.part > 1 else 0
        return for_parts + len(self.places) + len(self.singles)


@dataclass(frozen=True)
class PoolSmallMap(PoolSpec):
    """Kernel of windows of `rows` x `width`, undilated, over planes whose rows lie side by side in memory."""

    rows: int

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        blank = k.constant(self.compute, self.identity, self.lanes)
        for at in k.range(0, n("pitch") * BUFFERS, self.lanes):
            k.scratch.cast(self.compute).store(blank, at)
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            guard = NanGuard(k, self)
            source = strip.row(1)
            row = n("size_w") * strip.step
            inside = source + n("pad_h") * row
            for at in spans(k, n("size_h") * row, self.lanes, unroll=4):
                value = load(self, strip.x, at, self.lanes)
                guard.see([value])
                inside.store(value, at)
            _SmallMap(strip, source, exact=not guard.needed).emit()
            if guard.needed:
                with k.when(guard.seen()):
                    _SmallMap(strip, source, exact=True).emit()
        return k


class _SmallMap:
    """Pooling of one plane, from its copy on."""

    def __init__(self, strip: Strip, source: Pointer, exact: bool) -> None:
        assert isinstance(strip.spec, PoolSmallMap)
        self.strip, self.k, self.spec, self.exact = strip, strip.k, strip.spec, exact
        self.source = source

    def emit(self) -> None:
        k, n, strip, spec = self.k, self.k.number, self.strip, self.spec
        down, across = Parts.of(spec.rows, spec.reduction), Parts.of(spec.width, spec.reduction)
        length, pitch = n("size_w") * strip.step, n("row_pitch")
        rows = (n("out_h") - 1) * n("stride_h") + (spec.rows - down.part + 1)
        parts = self._parts(self.source, strip.row(2), down.part, length, rows * length)
        combined = strip.row(3)
        for row in k.range(0, n("out_h")):
            start = row * n("stride_h") * length
            into = combined + (row * pitch + strip.left)
            for at in spans(k, strip.length, spec.lanes, unroll=2):
                into.store(self._joined(parts, self.source, down, length, start + at, spec.lanes), at)
        strips = self._parts(combined, strip.row(4), across.part, strip.step, n("out_h") * pitch)
        for row in k.range(0, n("out_h")):
            windows = Across(strip, combined + row * pitch, self.exact)
            base = row * pitch
            windows.use(
                lambda offset, lanes, base=base: self._joined(  # type: ignore[misc]
                    strips, combined, across, strip.step, base + offset, lanes
                )
            )
            windows.results(strip.y + row * n("y_h"), row)

    def _parts(self, source: Pointer, into: Pointer, part: int, distance: Value, length: Value) -> Pointer:
        """Combine windows of `part` taps, `distance` apart, of `length` elements."""
        if part == 1:
            return source
        for at in self.k.range(0, length, 2 * self.spec.lanes):
            for place in (at, at + self.spec.lanes):
                taps = [(source + place).load(distance * tap, self.spec.lanes) for tap in range(part)]
                into.store(combine_all(self.k, self.spec.reduction, taps, self.exact), place)
        return into

    def _joined(
        self, parts: Pointer, source: Pointer, division: Parts, distance: Value, at: Value, lanes: int
    ) -> Value:
        """Combine the whole windows at a place."""
        taps = [(parts + at).load(distance * place, lanes) for place in division.places]
        taps += [(source + at).load(distance * single, lanes) for single in division.singles]
        return combine_all(self.k, self.spec.reduction, taps, self.exact)


# ---- the offer ------------------------------------------------------------------------------------------------------

NARROWEST = 3  # narrower windows are no faster plane by plane
WIDEST = 64
LONGEST_ROW = 40  # longer rows keep vectors busy row by row; with windows below 5, rows half as long


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan undilated windows in one plane whose rows lie side by side, if its scratch fits the level 2 cache."""
    if is_size(problem.nbytes):
        return None  # the machine code depends on sizes
    geometry, memory = problem.geometry, problem.memory
    if not geometry.is_flat or memory.x[3] != geometry.size[2] * memory.step:
        return None
    if geometry.dilation[1:] != (1, 1) or max(geometry.window[1:]) > WIDEST:
        return None
    if BUFFERS * _plane_elements(problem) * 4 > target.l2_bytes // 2:
        return None
    cut = Partition.of(geometry, None, geometry.out[1])
    lanes = lanes_for(problem, cut, target)
    if lanes is None:
        return None
    spec = PoolSmallMap(**spec_fields(problem, *lanes), rows=geometry.window[1])
    pitch = _plane_elements(problem) // 16 * 16 + 16
    build = window_build(
        problem, spec, cut, pitch=pitch, scratch=BUFFERS * pitch + SLACK, group=group_of(problem, cut)
    )
    return Candidate(_work(problem, spec), build)


def _work(problem: PoolProblem, spec: PoolSmallMap) -> PoolWork:
    geometry, widest = problem.geometry, max(problem.geometry.window[1:])
    longest = LONGEST_ROW if widest >= 5 else LONGEST_ROW // 2
    proven = widest >= NARROWEST and geometry.size[2] * problem.memory.step <= longest
    down, across = (2 * Parts.of(taps, spec.reduction).cost for taps in (spec.rows, spec.width))
    return estimate(
        "small_map", problem, spec.lanes, down=2 + down, across=across + 1, passes=1, proven=proven
    )


def _plane_elements(problem: PoolProblem) -> int:
    """Number of elements of one scratch plane with its edges."""
    geometry, step = problem.geometry, problem.memory.step
    rows = max(
        (geometry.out[1] - 1) * geometry.stride[1] + geometry.window[1], geometry.pad[1] + geometry.size[1]
    )
    return rows * max(row_pitch(problem), geometry.size[2] * step) + 2 * SLACK + 256
