"""Pointwise convolutions by Strassen's algorithm: seven eighths of the multiplications."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.core.target import Target
from cenote.core.types import Layout
from cenote.kernels.base import Call, View, present
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.product.strassen_calls import (
    PixelSteps,
    PixelTensor,
    StrassenProblem,
    strassen_seconds,
    suits,
)
from cenote.ops.base import Lowering
from cenote.ops.conv.direct import efficiency
from cenote.ops.conv.problem import ConvProblem


def strassen(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of 1x1 windows of one group, whose channels and filters fill vectors."""
    shape = problem.shape
    is_pointwise = shape.groups == 1 and set(shape.window) == {1} and not any(map(any, shape.pads))
    if problem.local or not is_pointwise:
        return
    weights = present(problem.weights).reshape(shape.filters, shape.channels)
    if not suits(weights, target):
        return
    deep = shape.deep()
    depth, height, width = deep.out
    known = StrassenProblem(shape.n, (depth, height, width), weights, problem.bias, problem.fused.activation)

    def calls(x: View, y: View, residual: View | None) -> Iterator[Call]:
        n, c, *steps = deep_strides(x)
        moved = (step * stride for step, stride in zip(steps, deep.strides, strict=True))
        added = None if residual is None else PixelTensor(residual, PixelSteps(*deep_strides(residual)))
        return known.calls(
            PixelTensor(x, PixelSteps(n, c, *moved)),
            PixelTensor(y, PixelSteps(*deep_strides(y))),
            added,
            target,
        )

    estimate = strassen_seconds(shape.n, shape.pixels, weights, target, efficiency(shape, target))
    # Rounding errors: tests/kernels/product/test_strassen.py.
    yield problem.lowering("strassen", Layout(problem.lanes), estimate, calls, rounding=4)
