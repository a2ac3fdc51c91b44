"""Convolutions of few channels: rows of plain memory, weights as the model has them, constant or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.direct_rows import VECTORS, filters_of_tiles, rows_call
from cenote.kernels.cost_model import moved_seconds, peak_seconds
from cenote.kernels.layout.reorder import pad_call
from cenote.kernels.partial_sums import EXACT_TERMS, FAST_TERMS, summation_tolerance
from cenote.ops.base import Lowering
from cenote.ops.conv.problem import ConvProblem

_CHANNELS = 16  # most: of 64 channels and 1x1 it takes as long as others, of 256 up to 1.7 times
_SHARE = 0.92  # of the peak, for whole tiles
_SETUP = 3  # taps that a tile's begin and its stores take as long as
_SUMS = 8  # that do not wait for each other


def rows(problem: ConvProblem, target: Target) -> Iterator[Lowering]:
    """Yield the lowering of one group, of windows that move by one along rows, where a sum is one chain."""
    shape, inputs, fused = problem.shape, problem.inputs, problem.fused
    pads = [pad for pair in shape.pads for pad in pair]
    terms = shape.channels * shape.taps
    if shape.groups > 1 or shape.strides[-1] != 1 or any(is_size(pad) or pad < 0 for pad in pads):
        return
    if (
        is_size(shape.filters)
        or not shape.filters
        or shape.channels > _CHANNELS
        or not 0 < terms <= (EXACT_TERMS if fused.exact else FAST_TERMS)
    ):
        return
    deep, halo = shape.deep(), shape.halo
    padded = tuple(extent + begin + end for extent, (begin, end) in zip(shape.size, halo, strict=True))
    between = (TensorType(FLOAT32, (shape.n, shape.channels, *padded)),) if any(pads) else ()

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        x, y, calls = present(views[0]), made[0], list[Call]()
        if between:
            calls.append(pad_call(x, made[1], [begin for begin, _ in halo]))
            x = made[1]
        bias, residual = (
            None if place is None else present(views[place]) for place in (fused.bias, fused.residual)
        )
        weights = present(views[1])
        return [*calls, rows_call(deep, x, weights, bias, residual, y, fused.activation, target)]

    yield Lowering(
        "direct_rows",
        tuple(None if each is None else PLAIN for each in inputs),
        (PLAIN,),
        bind,
        _seconds(problem, terms) + sum(moved_seconds(2 * each.nbytes) for each in between),
        summation_tolerance(terms),
        between,
        in_place=() if fused.residual is None else (fused.residual,),
        layout_sensitive=True,
    )


def _seconds(problem: ConvProblem, terms: int) -> float:
    """Estimate, with whole vectors of pixels; the few sums of a tile of one or two filters wait for each other."""
    shape, lanes = problem.shape, problem.lanes
    columns, (each, _, _) = shape.out[-1], filters_of_tiles(problem.shape.filters, problem.target)
    operations = (
        shape.operations * (-(-columns // lanes) * lanes / columns) * max(1.0, _SUMS / (each * VECTORS))
    )
    return peak_seconds(operations, problem.target, _SHARE * terms / (terms + _SETUP))
