"""Convolutions of float32 by products of float16 parts on tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cenote.core.target import EMULATED, Target
from cenote.core.types import Layout
from cenote.kernels.base import Call, View, present
from cenote.kernels.parts.calls import parts_calls
from cenote.kernels.parts.regions import Regions
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem


def parts(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of one group, along one or two axes, where it is asked for; tiles may be emulated."""
    shape, weights = problem.shape.deep(), present(problem.weights)
    way = target.tiles.f16 or EMULATED
    if not problem.on_tiles or shape.groups > 1 or problem.fused.pool:
        return
    is_flat = (shape.size[0], shape.window[0], shape.out[0], shape.pads[0]) == (1, 1, 1, (0, 0))
    if not is_flat or min(min(pair) for pair in shape.pads) < 0 or not np.isfinite(weights).all():
        return
    direct, regions = problem.direct, Regions(shape)

    def calls(x: View, y: View, residual: View | None, *memory: View) -> Iterator[Call]:
        yield from parts_calls(direct, regions, way, x, y, residual, memory)

    yield problem.lowering("parts", Layout(problem.lanes), regions.seconds, calls, temporaries=regions.memory)
