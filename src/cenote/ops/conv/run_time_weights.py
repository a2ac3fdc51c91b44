"""Convolutions whose weights are computed at run time: the lowerings for constant weights, with packing before them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import is_size
from cenote.core.types import FLOAT32, PLAIN, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.direct_calls import joined_groups
from cenote.kernels.conv.numbered_weights import MOST, numbered, unpacked_calls
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem

_PICK = 2e-9  # seconds to pick a number: 1 where there are few of them, 2.5 with two million
# In squares of filters by weights: of up to a million, and of more, which leave the level 2 cache on the way.
_SQUARE, _SQUARE_FAR, _MOST_NEAR = 3e-10, 9e-10, 1 << 20


def run_time_weight_lowerings(
    problem: ConvProblem, calls: int, offer: Callable[[ConvProblem], Iterator[Lowering]]
) -> Iterator[Lowering]:
    """Lowerings of `offer` for weights or a bias (inputs 1 and 2) that only a run computes.

    `offer` yields lowerings for constant weights and bias, of at most `calls` calls each; they are yielded here with
    calls that pack the values at run time.
    """
    inputs, weights = problem.inputs, present(problem.inputs[1])
    packed, biases = packed_sizes(problem.shape, problem.lanes, calls)
    if any(map(is_size, weights.shape)) or not weights.size or max(weights.size, packed) > MOST:
        return
    known: list[TensorType | None] = list(inputs)
    places = []
    for index, x in enumerate(inputs[:3]):
        if index and x is not None and x.value is None:
            known[index] = TensorType.known(numbered(x.shape))
            places.append(index)
    problem = replace(problem, local=True)
    # Filters within vectors are not joined with zeros between them.
    picked = weights.size if problem.lies_within else packed
    in_squares = problem.shape.groups == 1 and math.prod(weights.shape[1:]) >= problem.lanes
    number = (_SQUARE if packed <= _MOST_NEAR else _SQUARE_FAR) if in_squares else _PICK
    seconds = number * picked + _PICK * biases
    for option in offer(replace(problem, inputs=known)):
        yield _packing(option, places, packed + biases, seconds, problem.lanes)


def _packing(option: Lowering, places: Sequence[int], size: int, seconds: float, lanes: int) -> Lowering:
    layouts = list(option.inputs)
    for index in places:
        layouts[index] = PLAIN

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        calls = option.bind(views, made[:-1])
        names = {1: "weights", 2: "bias"}
        sources = {names[index]: present(views[index]) for index in places}
        return unpacked_calls(calls, sources, made[-1], lanes)

    temporaries = (*option.temporaries, TensorType(FLOAT32, (size,)))
    return replace(
        option,
        inputs=tuple(layouts),
        bind=bind,
        temporaries=temporaries,
        seconds=option.seconds + seconds,
    )


def packed_sizes(shape: ConvShape, lanes: int, calls: int) -> tuple[int, int]:
    """The most numbers in packed weights and biases: groups are joined until they fill vectors, or stay apart."""
    groups, filters, channels, taps = shape.groups, shape.group_filters, shape.group_channels, shape.taps
    joined = joined_groups(shape, lanes)
    blocks = -(-joined * filters // lanes) * lanes
    merged, apart = groups // joined, groups * (-(-filters // lanes)) * lanes
    most = max(
        merged * blocks * joined * channels * taps,
        apart * channels * taps,
        -(-groups * filters // lanes) * lanes * channels * taps,
    )
    return most, (max(merged * blocks, apart) + lanes) * calls
