"""Algorithms and rewrites of a user: a pooling algorithm, a convolution algorithm, two rewrites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import cenote
from cenote.algorithms import (
    Activation,
    Call,
    Candidate,
    Constant,
    ConvProblem,
    DirectProblem,
    Graph,
    Layout,
    Lowering,
    Match,
    Partition,
    Pattern,
    PoolProblem,
    PoolSpec,
    Strip,
    Target,
    View,
    combine,
    default_band,
    direct_calls,
    lanes_for,
    load,
    spans,
    spec_fields,
    window_build,
)
from cenote.kernels import Kernel
from cenote.ops.elementwise.unary import Neg

SOONER = 1e-9  # seconds that are estimated: less than of any rival


@dataclass(frozen=True)
class PoolDirect(PoolSpec):
    """Undilated columns one apart, plain, all windows inside the input."""

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


@cenote.register_algorithm("shop.direct", of="pool")
def direct(problem: PoolProblem, target: Target) -> Candidate | None:
    """Serves windows that lie inside the input, one apart along the row, plain."""
    geometry = problem.geometry
    if problem.memory.step != 1 or geometry.stride[2] != 1 or geometry.dilation[2] != 1:
        return None
    if not all(geometry.inside(axis) for axis in range(3)):
        return None
    cut = Partition.of(geometry, None, default_band(problem, target))
    lanes = lanes_for(problem, cut, target)
    if lanes is None:
        return None
    spec = PoolDirect(**spec_fields(problem, *lanes))
    return Candidate(SOONER, window_build(problem, spec, cut, pitch=0, scratch=0))


@cenote.register_algorithm("shop.by_rows", of="convolution")
def by_rows(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Serves windows of 2 or 3 rows in one plane, and groups that fill whole vectors: a convolution for each row."""
    shape = problem.shape
    if problem.joins or shape.rank > 2 or not 1 < shape.deep().window[1] <= 3:
        return
    whole = problem.direct
    yield problem.lowering(
        "shop.by_rows",
        Layout(problem.lanes, shape.halo),
        SOONER,
        lambda x, y, residual: _rows(whole, x, y, residual, target),
    )


def _rows(whole: DirectProblem, x: View, y: View, residual: View | None, target: Target) -> Iterator[Call]:
    shape = whole.shape
    last = shape.window[1] - 1
    for row in range(last + 1):
        above = (shape.pads[1][0] - row * shape.dilations[1], 0)
        one = DirectProblem(
            replace(shape, window=(1, 1, shape.window[2]), pads=(shape.pads[0], above, shape.pads[2])),
            whole.weights[:, :, :, row : row + 1],
            None if row else whole.bias,
            whole.activation if row == last else Activation(),
            exact=whole.exact,
        )
        yield from direct_calls(one, x, y, y if row else residual, target)


SHIFTED = Pattern("add", ["x", Constant("shift")], any_order=True)


@cenote.register_rewrite("shop.fold", before=Pattern("mul", [SHIFTED, Constant("scale")], any_order=True))
def fold(match: Match) -> object:
    """(x + shift) * scale is x * scale + shift * scale."""
    scale = match.constant("scale")
    return match.compute("add", match.compute("mul", match["x"], scale), match.constant("shift") * scale)


@cenote.register_rewrite("shop.cancel")
def cancel(graph: Graph) -> Graph:
    """Two negations in a row cancel: what reads the second reads what the first does."""
    makers = graph.producers()
    source = {}
    for node in graph.nodes:
        first = makers.get(node.inputs[0]) if isinstance(node.op, Neg) else None
        if first is not None and isinstance(first.op, Neg) and node.outputs[0] not in graph.outputs:
            source[node.outputs[0]] = first.inputs[0]
    if not source:
        return graph
    nodes = [
        replace(node, inputs=tuple(source.get(name, name) for name in node.inputs)) for node in graph.nodes
    ]
    return graph.replace(nodes=tuple(nodes))
