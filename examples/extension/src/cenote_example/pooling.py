"""A pooling algorithm: each window from memory, for windows that lie inside the input and one column apart."""

from __future__ import annotations

from dataclasses import dataclass

import cenote
from cenote.algorithms import (
    Candidate,
    Partition,
    PoolProblem,
    PoolSpec,
    Strip,
    combine,
    default_band,
    lanes_for,
    load,
    spans,
    spec_fields,
    window_build,
)
from cenote.kernels import Kernel, Target

SECONDS = 1e-9  # less than any rival estimates, so that it is taken wherever it is switched on and serves


@dataclass(frozen=True)
class PlainWindows(PoolSpec):
    """Vectors of neighbouring outputs along a row."""

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n = k.number
        for item in k.range(k.begin, k.end):
            strip = Strip(k, self, item)
            plane = strip.depth * n("stride_d") - n("pad_d")
            for row in k.range(strip.first_row, strip.last_row):
                first = strip.x + (plane * n("x_d") + (row * n("stride_h") - n("pad_h")) * n("x_h"))
                for at in spans(k, strip.count, self.out_lanes):
                    total = k.variable(k.constant(self.compute, self.identity, self.out_lanes))
                    for z in k.range(0, n("window_d")):
                        for y in k.range(0, n("window_h")):
                            source = first + (z * n("dilation_d") * n("x_d") + y * n("dilation_h") * n("x_h"))
                            for x in range(self.width):
                                value = load(self, source, at + x, self.out_lanes)
                                total.value = combine(k, self.reduction, total.value, value)
                    strip.store(total.value, strip.y + row * n("y_h"), at, strip.factor(row), at)
        return k


@cenote.register_algorithm("example.plain_windows", of="pool")
def plain_windows(problem: PoolProblem, target: Target) -> Candidate | None:
    """Serve what needs no case for edges, strides or dilation along the row."""
    geometry = problem.geometry
    if problem.memory.step != 1 or geometry.stride[2] != 1 or geometry.dilation[2] != 1:
        return None
    if not all(geometry.inside(axis) for axis in range(3)):
        return None
    cut = Partition.of(geometry, None, default_band(problem, target))
    lanes = lanes_for(problem, cut, target)
    if lanes is None:
        return None
    spec = PlainWindows(**spec_fields(problem, *lanes))
    return Candidate(SECONDS, window_build(problem, spec, cut, pitch=0, scratch=0))
