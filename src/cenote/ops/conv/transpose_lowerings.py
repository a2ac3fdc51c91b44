"""Native ways to compute a transposed convolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cenote.core.conv_geometry import ConvShape
from cenote.core.target import Target
from cenote.core.types import Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.transposed import transpose_calls, transpose_halo
from cenote.kernels.cost_model import peak_seconds
from cenote.ops.base import Lowering
from cenote.ops.conv.conv_lowerings import constant, layouts, summation_tolerance
from cenote.ops.epilogue import Epilogue

MOST_PHASES = 256  # calls of a transposed convolution: one per output phase, the product of the strides


def transpose_lowerings(
    shape: ConvShape, inputs: Sequence[TensorType | None], fused: Epilogue, target: Target
) -> Iterator[Lowering]:
    """Candidates for a transposed convolution in float32 with constant weights and bias."""
    weights, bias = constant(inputs, 1), constant(inputs, fused.bias)
    if (
        weights is None
        or (fused.bias is not None and bias is None)
        or not weights.size
        or 0 in (*shape.out, shape.n)
    ):
        return
    if math.prod(shape.strides) > MOST_PHASES or 0 in shape.size:
        return
    lanes, deep = target.lanes(), shape.deep()
    taps = weights.reshape(*weights.shape[:2], *deep.window)

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        return list(transpose_calls(deep, taps, bias, fused.activation, x, outputs[0], target))

    operations = 2 * shape.n * shape.channels * math.prod(shape.size) * shape.group_filters * shape.taps
    yield Lowering(
        "phases",
        layouts(inputs, Layout(lanes, transpose_halo(shape)), None, lanes),
        (Layout(lanes),),
        bind,
        peak_seconds(operations, target, 0.8),
        summation_tolerance(shape),
    )
