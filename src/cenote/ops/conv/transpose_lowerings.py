"""Native ways to compute a transposed convolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.depthwise import suits
from cenote.kernels.conv.groups_apart import inputs_apart, outputs_apart
from cenote.kernels.conv.transposed import apart_transpose_calls, transpose_calls, transpose_halo
from cenote.kernels.cost_model import conversion_seconds, moved_seconds, peak_seconds
from cenote.kernels.partial_sums import summation_tolerance
from cenote.ops.base import Lowering
from cenote.ops.conv.conv_lowerings import constant, is_near, layouts
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
    lanes = target.lanes()
    within = suits(shape, lanes) and is_near(shape, lanes)
    whole = shape.groups == 1 or not (shape.group_channels % lanes or shape.group_filters % lanes)
    if within or whole:
        yield _phases(shape, weights, bias, inputs, fused, target, within)
    else:
        yield _apart(shape, weights, bias, inputs, fused, target)


def _phases(
    shape: ConvShape, weights: Array, bias: Array | None, inputs: Sequence[TensorType | None], fused: Epilogue,
    target: Target, within: bool,
) -> Lowering:  # fmt: skip
    lanes, deep = target.lanes(), shape.deep()
    taps = weights.reshape(*weights.shape[:2], *deep.window)

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        x = present(inputs[0])
        made = transpose_calls(
            deep, taps, bias, fused.activation, x, outputs[0], target, within, exact=fused.exact
        )
        return list(made)

    seconds = peak_seconds(_operations(shape), target, 0.6 if within else 0.8)
    if within:
        moved = 4 * shape.n * shape.channels * (math.prod(shape.size) + shape.pixels)
        seconds = maximum(seconds, moved_seconds(moved))
    return Lowering(
        "phases",
        layouts(inputs, Layout(lanes, transpose_halo(shape)), None, lanes),
        (Layout(lanes),),
        bind,
        seconds,
        summation_tolerance(shape.group_channels * shape.taps),
    )


def _apart(
    shape: ConvShape, weights: Array, bias: Array | None, inputs: Sequence[TensorType | None], fused: Epilogue,
    target: Target,
) -> Lowering:  # fmt: skip
    """Groups that fill no whole vectors, each in blocks of its own."""
    lanes = target.lanes()
    inside, outside = inputs_apart(shape, lanes, transpose_halo(shape)), outputs_apart(shape, lanes)
    temporaries = [TensorType(FLOAT32, (blocks.elements,)) for blocks in (inside, outside) if blocks]

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        y, *memory = outputs
        x = present(inputs[0])
        made = apart_transpose_calls(
            shape, weights, bias, fused.activation, x, y, memory, target, exact=fused.exact
        )
        return list(made)

    padded = -(-shape.group_filters // lanes) * lanes / max(1, shape.group_filters)
    seconds = peak_seconds(_operations(shape) * padded, target, 0.8)
    return Lowering(
        "phases_apart",
        layouts(inputs, PLAIN, None, lanes),
        (PLAIN if outside else Layout(lanes),),
        bind,
        seconds + sum(conversion_seconds(2 * each.nbytes) for each in temporaries),
        summation_tolerance(shape.group_channels * shape.taps),
        tuple(temporaries),
    )


def _operations(shape: ConvShape) -> int:
    return 2 * shape.n * shape.channels * math.prod(shape.size) * shape.group_filters * shape.taps
