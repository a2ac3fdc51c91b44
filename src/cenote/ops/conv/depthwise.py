"""Convolutions whose groups lie within a vector. One filter per channel: bound by the caches' bandwidth; more: by the
shuffles."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cenote.core.conv_geometry import ConvShape
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import Layout
from cenote.kernels.base import Call, View, present
from cenote.kernels.constants import constants_of
from cenote.kernels.conv.depthwise_calls import depthwise_calls
from cenote.kernels.conv.regions import WORTH_REGIONS, border, region_calls, row_seconds, share_of_taps
from cenote.kernels.cost_model import moved_seconds, peak_seconds
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem

_DEPTHWISE = 0.6  # share of the peak


def depthwise(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of groups of one channel, and of a convolution of one channel and one filter."""
    if problem.lies_within and problem.shape.group_channels == 1:
        yield _within(problem, "depthwise", _DEPTHWISE)


def regions(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of dilated groups within a vector with many taps in the padding."""
    shape, weights, bias, fused = problem.shape.deep(), present(problem.weights), problem.bias, problem.fused
    if not problem.lies_within or max(shape.dilations) == 1 or share_of_taps(shape) > WORTH_REGIONS:
        return
    if problem.local:  # weights that come at run time may be packed once only
        return
    by_tap = weights.reshape(shape.filters, shape.group_channels, shape.taps)

    def of_region(
        region: ConvShape, taps: tuple[int, ...], x: View, y: View, residual: View | None
    ) -> Iterator[Call]:
        seen = by_tap[:, :, taps]
        return depthwise_calls(region, seen, bias, fused.activation, x, y, residual, target, fused.exact)

    moved = 4 * shape.n * (shape.channels * math.prod(shape.size) + shape.filters * shape.pixels)
    yield problem.lowering(
        "depthwise_regions",
        Layout(problem.lanes),
        moved_seconds(moved) + shape.group_channels * row_seconds(shape, problem.lanes),
        lambda x, y, residual: region_calls(shape, of_region, x, y, residual),
    )


def grouped(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of groups of a few channels, where whole groups fill a vector."""
    if problem.lies_within and problem.shape.group_channels > 1:
        yield _within(problem, "grouped", constants_of(problem.target).grouped_share)


def _within(problem: ConvProblem, name: str, share: float) -> Lowering:
    shape, target, fused = problem.shape, problem.target, problem.fused
    deep, weights, bias = shape.deep(), present(problem.weights), problem.bias
    moved = 4 * shape.n * shape.filters * (math.prod(shape.size) + shape.pixels)
    if max(shape.dilations) > 1:
        moved += 8 * border(shape)
    return problem.lowering(
        name,
        Layout(problem.lanes, shape.halo),
        maximum(peak_seconds(shape.operations, target, share), moved_seconds(moved)),
        lambda x, y, residual: depthwise_calls(
            deep, weights, bias, fused.activation, x, y, residual, target, fused.exact
        ),
    )
