"""Pooling with many rows per window, for windows that blocks do not suit: dilated, not overlapping, or with many
planes.

for item in items:                              # a strip of columns of a band of output rows of one plane
    for row in output rows of the band:
        for plane, row in the window, within the input:                (loops; rows by eights)
            combined = combine(combined, x[row], x[row + 1] …)         (a scratch row)
        across: `horizontal`
"""

from __future__ import annotations

from collections.abc import Iterator

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.kernels.pool import horizontal
from cenote.kernels.pool.common import SLACK, PoolSpec, Strip, combine_all, load, taps_inside
from cenote.kernels.pool.problem import (
    Candidate,
    Partition,
    PoolProblem,
    default_band,
    estimate,
    group_of,
    row_lanes,
    scratch_pitch,
    spec_fields,
    strip_in_l1,
    window_build,
)

TOGETHER = 8  # rows combined before they meet the scratch row: fewer passes, and sums with shorter chains


@dataclass(frozen=True)
class PoolGeneric(PoolSpec):
    """Kernel of windows of any number of planes and rows, given by the words `window_d` and `window_h`."""

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            combined = strip.edged_row(1)
            strip.fill_edges(combined)
            across = horizontal.Across(strip, combined)
            first_plane = strip.depth * n("stride_d") - n("pad_d")
            planes = taps_inside(k, first_plane, "d")
            for row in k.range(strip.first_row, strip.last_row):
                inner = combined + strip.left
                strip.fill(inner, strip.length)
                first = row * n("stride_h") - n("pad_h")
                low, high = taps_inside(k, first, "h")
                for plane in k.range(*planes):
                    x = strip.x + (first_plane + plane * n("dilation_d")) * n("x_d")
                    take_rows(strip, inner, x + first * n("x_h"), low, high, n("dilation_h") * n("x_h"))
                across.prepare()
                across.results(strip.y + row * n("y_h"), row)
        return k

    @property
    def scratch_rows(self) -> int:
        """Number of scratch rows that a thread needs."""
        return horizontal.FIRST_ROW + horizontal.scratch_rows(self)


def take_rows(strip: Strip, inner: Pointer, x: Pointer, low: Value, high: Value, distance: Value) -> None:
    """Combine rows low..high-1 of x, `distance` apart, into the scratch row `inner`."""
    k, spec = strip.k, strip.spec
    whole = low + ((high - low) & ~(TOGETHER - 1))
    for start, stop, together in ((low, whole, TOGETHER), (whole, high, 1)):
        for tap in k.range(start, stop, together):
            rows = [x + (tap + index) * distance for index in range(together)]
            for at, fresh in once(k, strip.length, spec.lanes):
                value = combine_all(k, spec.reduction, [load(spec, row, at, spec.lanes) for row in rows])
                if fresh is not None:
                    value = k.select(fresh, value, k.constant(spec.compute, spec.identity, spec.lanes))
                inner.store(combine_all(k, spec.reduction, [inner.load(at, spec.lanes), value]), at)


def once(k: Kernel, length: Value, lanes: int) -> Iterator[tuple[Value, Value | None]]:
    """Yield vectors like `spans`, for bodies that must not process an element twice: the last vector has a mask of
    new lanes."""
    whole = length & ~(lanes - 1)
    for at in k.range(0, whole, lanes):
        yield at, None
    if lanes > 1:
        with k.when(whole < length):
            yield length - lanes, ~k.tail_mask(whole - length + lanes, lanes)


# ---- the offer ------------------------------------------------------------------------------------------------------


def offer(problem: PoolProblem, target: Target) -> Candidate | None:
    """Plan any windows."""
    geometry = problem.geometry
    cut = Partition.of(geometry, strip_in_l1(problem, target), default_band(problem, target))
    lanes = row_lanes(problem, cut, target)
    if lanes is None:
        return None
    variants = tuple(PoolGeneric(**spec_fields(problem, *pair)) for pair in lanes.pairs)
    spec = variants[plain(lanes.chosen)]
    pitch, group = scratch_pitch(problem, cut.strip, variants[0].lanes), group_of(problem, cut)
    scratch = (max(each.scratch_rows for each in variants) + group) * pitch + SLACK
    planes, rows = geometry.window[:2]
    work = estimate(
        "generic",
        problem,
        spec.lanes,
        down=planes * (2 * rows + 3 * (rows // TOGETHER + rows % TOGETHER)) + 1,
        across=horizontal.steps(spec),
        passes=1 + planes * (rows // TOGETHER + rows % TOGETHER),
    )
    build = window_build(
        problem, variants, cut, pitch=pitch, scratch=scratch, group=group, chosen=lanes.chosen
    )
    return Candidate(work, build)
