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

from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.target import Target
from cenote.kernels.pool.common import SUM, NanGuard, PoolSpec, Strip, combine_all, load, new_kernel, spans
from cenote.kernels.pool.horizontal import Across

BUFFERS = 5  # scratch rows of `pitch` elements: the first is not used


@dataclass(frozen=True)
class Parts:
    """A window as windows of `part` taps at `places`, and single taps at `singles`."""

    part: int
    places: tuple[int, ...]
    singles: tuple[int, ...]

    @staticmethod
    def of(window: int, reduction: str) -> Parts:
        """The cheapest division of a window."""
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
        """Loads and stores per element."""
        made = self.part + 1 if self.part > 1 else 0
        return made + len(self.places) + len(self.singles)


@dataclass(frozen=True)
class PoolSmallMap(PoolSpec):
    """Windows of `rows` x `width`, undilated, over planes whose rows lie side by side in memory."""

    rows: int

    def emit(self, target: Target) -> Kernel:
        k = new_kernel(self, target)
        n = k.number
        blank = k.constant(self.compute, self.identity, self.lanes)
        for at in k.range(0, n("pitch") * BUFFERS, self.lanes):
            k.scratch.cast(self.compute).store(blank, at)
        for item in k.range(k.begin, k.end):
            piece = Strip(k, self, item)
            watch = NanGuard(k, self)
            source = piece.row(1)
            row = n("size_w") * piece.step
            inside = source + n("pad_h") * row
            for at in spans(k, n("size_h") * row, self.lanes, unroll=4):
                value = load(self, piece.x, at, self.lanes)
                watch.see([value])
                inside.store(value, at)
            _Plane(piece, source, exact=not watch.needed).emit()
            if watch.needed:
                with k.when(watch.seen()):
                    _Plane(piece, source, exact=True).emit()
        return k


class _Plane:
    """One plane, from its copy on."""

    def __init__(self, piece: Strip, source: Pointer, exact: bool) -> None:
        assert isinstance(piece.spec, PoolSmallMap)
        self.piece, self.k, self.spec, self.exact = piece, piece.k, piece.spec, exact
        self.source = source

    def emit(self) -> None:
        k, n, piece, spec = self.k, self.k.number, self.piece, self.spec
        down, across = Parts.of(spec.rows, spec.reduction), Parts.of(spec.width, spec.reduction)
        length, pitch = n("size_w") * piece.step, n("row_pitch")
        rows = (n("out_h") - 1) * n("stride_h") + (spec.rows - down.part + 1)
        parts = self._parts(self.source, piece.row(2), down.part, length, rows * length)
        combined = piece.row(3)
        for row in k.range(0, n("out_h")):
            start = row * n("stride_h") * length
            into = combined + (row * pitch + piece.left)
            for at in spans(k, piece.length, spec.lanes, unroll=2):
                into.store(self._joined(parts, self.source, down, length, start + at, spec.lanes), at)
        strips = self._parts(combined, piece.row(4), across.part, piece.step, n("out_h") * pitch)
        for row in k.range(0, n("out_h")):
            windows = Across(piece, combined + row * pitch, self.exact)
            base = row * pitch
            windows.use(
                lambda offset, lanes, base=base: self._joined(  # type: ignore[misc]
                    strips, combined, across, piece.step, base + offset, lanes
                )
            )
            windows.results(piece.y + row * n("y_h"), row)

    def _parts(self, source: Pointer, into: Pointer, part: int, distance: Value, length: Value) -> Pointer:
        """Windows of `part` taps, `distance` apart, of `length` elements."""
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
        """The whole windows at a place."""
        taps = [(parts + at).load(distance * place, lanes) for place in division.places]
        taps += [(source + at).load(distance * single, lanes) for single in division.singles]
        return combine_all(self.k, self.spec.reduction, taps, self.exact)


__all__ = ["BUFFERS", "Parts", "PoolSmallMap"]
