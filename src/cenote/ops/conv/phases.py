"""Transposed convolutions: a plain one for each remainder of output pixels by the stride."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import maximum, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Layout, TensorType
from cenote.kernels.base import present
from cenote.kernels.conv.depthwise import suits
from cenote.kernels.conv.groups_apart import inputs_apart, outputs_apart
from cenote.kernels.conv.transposed import (
    apart_transpose_calls,
    phase_shapes,
    transpose_calls,
    transpose_halo,
)
from cenote.kernels.cost_model import conversion_seconds, moved_seconds, peak_seconds
from cenote.kernels.winograd.spread_calls import WinogradSpreadTiling, spread_calls
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem, is_near
from cenote.ops.conv.winograd import flat_shape, tiles_of

MOST_PHASES = 256  # calls of a transposed convolution: one per output phase, the product of the strides


def phases(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of one group, of groups that fill whole vectors, and of groups that lie within one."""
    if not _serves(problem):
        return
    within = _lies_within(problem)
    if not within and not _is_whole(problem):
        return
    shape, fused = problem.shape, problem.fused
    deep, weights, bias = shape.deep(), present(problem.weights), problem.bias
    seconds = peak_seconds(_operations(shape), target, 0.6 if within else 0.8)
    if within:
        moved = 4 * shape.n * shape.channels * (math.prod(shape.size) + shape.pixels)
        seconds = maximum(seconds, moved_seconds(moved))
    yield problem.lowering(
        "phases",
        Layout(problem.lanes, transpose_halo(shape)),
        seconds,
        lambda x, y, _: transpose_calls(
            deep, weights, bias, fused.activation, x, y, target, within, exact=fused.exact
        ),
    )


def apart(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of other groups, each in blocks of its own."""
    if not _serves(problem) or _lies_within(problem) or _is_whole(problem):
        return
    shape, lanes, fused = problem.shape, problem.lanes, problem.fused
    weights, bias = present(problem.weights), problem.bias
    inside, outside = inputs_apart(shape, lanes, transpose_halo(shape)), outputs_apart(shape, lanes)
    temporaries = tuple(TensorType(FLOAT32, (blocks.elements,)) for blocks in (inside, outside) if blocks)
    padded = -(-shape.group_filters // lanes) * lanes / max(1, shape.group_filters)
    seconds = peak_seconds(_operations(shape) * padded, target, 0.8)
    yield problem.lowering(
        "phases_apart",
        PLAIN,
        seconds + sum(conversion_seconds(2 * each.nbytes) for each in temporaries),
        lambda x, y, _, *memory: apart_transpose_calls(
            shape, weights, bias, fused.activation, x, y, memory, target, exact=fused.exact
        ),
        y=PLAIN if outside else None,
        temporaries=temporaries,
    )


def winograd(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowerings by Winograd's algorithm where all phases have the same window, on maps at least as large as
    a tile."""
    shape, activation, bias = problem.shape, problem.fused.activation, problem.bias
    if not _serves(problem) or problem.local or not problem.can_transform or shape.rank > 2:
        return
    deep, weights = shape.deep(), present(problem.weights)
    pieces = [flat_shape(piece) for _, piece in phase_shapes(deep)]
    if len({piece.window for piece in pieces}) > 1:
        return
    for tall, wide in tiles_of(pieces[0]):
        if any(plain(piece.out[0]) < tall or plain(piece.out[1]) < wide for piece in pieces):
            continue
        apart = shape.strides[-1]
        tilings = [WinogradSpreadTiling(piece, tall, wide, target, apart=apart) for piece in pieces]
        room = reduce(maximum, (each.temporary_elements for each in tilings))
        yield problem.lowering(
            f"phases_winograd_f{max(tall, wide)}",
            Layout(problem.lanes, transpose_halo(shape)),
            sum(each.seconds() for each in tilings),
            lambda x, y, _, between=None, tilings=tilings: spread_calls(
                deep, tilings, weights, bias, activation, x, y, between
            ),
            temporaries=(TensorType(FLOAT32, (room,)),) if room else (),
            rounding=4,
        )


def _serves(problem: ConvProblem) -> bool:
    """Whether there are pixels, and not too many phases."""
    shape = problem.shape
    return math.prod(shape.strides) <= MOST_PHASES and 0 not in (shape.n, *shape.size)


def _lies_within(problem: ConvProblem) -> bool:
    return suits(problem.shape, problem.lanes) and is_near(problem.shape, problem.lanes)


def _is_whole(problem: ConvProblem) -> bool:
    """Whether each group begins with a block."""
    shape, lanes = problem.shape, problem.lanes
    return shape.groups == 1 or not (shape.group_channels % lanes or shape.group_filters % lanes)


def _operations(shape: ConvShape) -> int:
    return 2 * shape.n * shape.channels * math.prod(shape.size) * shape.group_filters * shape.taps
