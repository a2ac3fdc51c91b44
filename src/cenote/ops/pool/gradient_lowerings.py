"""Native ways to compute gradients of pools, in the caller's memory: plain or channels-last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import PLACED_VALUE, stream_seconds
from cenote.kernels.pool_gradient.average_backward_calls import (
    AxisSpread,
    average_backward_call,
    scratch_bytes,
)
from cenote.kernels.pool_gradient.index_scatter import scatter_call
from cenote.ops.base import Lowering, Op
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.algorithms import TOLERANCES
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.index_lowerings import index_check
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.power_lowerings import inner_sum, power_gradient
from cenote.ops.pool.weighted import GemPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool
from cenote.ops.pool.window import MaxPool, spatial_of

SCRATCH = 1 << 28  # bytes a thread may need; windows that need more are left to the reference


def gradient_lowerings(forward: Op, g: TensorType, x: TensorType, target: Target) -> Iterator[Lowering]:
    """Yield lowerings of the gradient of `forward` for grad_output g and the input x."""
    if not g.size or not x.size or not 1 <= x.rank - 2 <= 3:
        return
    if isinstance(forward, MaxPool | AdaptiveMaxPool | GlobalMaxPool):
        yield from _by_search(forward, g, x, target)
        return
    if isinstance(forward, LpPool | GlobalLpPool | GemPool):
        yield from _by_powers(forward, g, x, target)
        return
    axes = spread_axes(forward, x.shape)
    if axes is not None and scratch_bytes(axes, _step(forward, x)) <= SCRATCH:
        yield _by_spread(forward, axes, g, x, target)


def _step(forward: Op, x: TensorType) -> int:
    return x.shape[-1] if forward.channels_last else 1


# ---- averages -------------------------------------------------------------------------------------------------------


def spread_axes(forward: Op, shape: tuple[int, ...]) -> list[AxisSpread] | None:
    """Windows of an average and their weights; None for pools that are no averages."""
    if isinstance(forward, AveragePool):
        divisors = forward.divisors(shape)
        return [regular(axis, d) for axis, d in zip(forward.geometry(shape), divisors, strict=True)]
    spatial = spatial_of(shape, forward.channels_last)
    if isinstance(forward, AdaptiveAveragePool):
        return [ranges(size, b) for size, b in zip(spatial, forward.bounds(shape), strict=True)]
    if isinstance(forward, GlobalAveragePool):
        return [ranges(size, ((0, size),)) for size in spatial]
    return None


def regular(axis: AxisWindow, divisors: Sequence[int]) -> AxisSpread:
    """Windows of a pool, each divided by its share of the divisor."""
    return AxisSpread(axis.size, axis, tuple(1.0 / divisor for divisor in divisors))


def ranges(size: int, bounds: Sequence[tuple[int, int]]) -> AxisSpread:
    """Means of ranges."""
    return AxisSpread(size, tuple(bounds), tuple(1.0 / (end - begin) for begin, end in bounds))


def _by_spread(
    forward: Op, axes: Sequence[AxisSpread], g: TensorType, x: TensorType, target: Target
) -> Lowering:
    last = forward.channels_last
    call = partial(average_backward_call, axes, target=target, channels_last=last)
    seconds = stream_seconds(g.nbytes + x.nbytes)
    return Lowering.of_call("spread", (PLAIN, PLAIN), (PLAIN,), call, seconds, TOLERANCES[x.dtype.name])


# ---- norms and generalised means ------------------------------------------------------------------------------------


def _by_powers(
    forward: LpPool | GlobalLpPool | GemPool, g: TensorType, x: TensorType, target: Target
) -> Iterator[Lowering]:
    last, p = forward.channels_last, forward.p
    signed = isinstance(forward, LpPool) and forward.signed_powers
    if not 1 <= p < math.inf or (signed and p != 2):
        return
    if isinstance(forward, GlobalLpPool):
        spreads = [AxisSpread(size, ((0, size),), (1.0,)) for size in spatial_of(x.shape, last)]
        inner = inner_sum(None, (), x, g, target, last)
        yield from power_gradient(inner, spreads, g, x, target, p, base="absolute", channels_last=last)
        return
    axes = forward.geometry(x.shape)
    ones = [(1.0,) * axis.out for axis in axes]
    shares = ones
    if isinstance(forward, GemPool):
        shares = [tuple(1.0 / count for count in axis.counts()) for axis in axes]
    elif signed:
        shares = [tuple(axis.window / count for count in axis.padded_counts()) for axis in axes]
    counts = tuple(tuple(1.0 / share for share in column) for column in shares) if shares is not ones else ()
    spreads = [AxisSpread(axis.size, axis, share) for axis, share in zip(axes, shares, strict=True)]
    inner = inner_sum(axes, counts, x, g, target, last)
    base, floor = ("above", forward.eps) if isinstance(forward, GemPool) else ("absolute", 0.0)
    yield from power_gradient(inner, spreads, g, x, target, p, base=base, floor=floor, channels_last=last)


# ---- maxima ---------------------------------------------------------------------------------------------------------


def _by_search(forward: Op, g: TensorType, x: TensorType, target: Target) -> Iterator[Lowering]:
    """Yield the lowering that computes the indices once more and then adds the gradient at each of them."""
    if isinstance(forward, GlobalMaxPool):
        forward = AdaptiveMaxPool((1,) * (x.rank - 2), forward.channels_last, nan=forward.nan)
    assert isinstance(forward, MaxPool | AdaptiveMaxPool)
    search = replace(forward, return_indices=True, index="plane")
    last, counted = search.channels_last, spatial_of(x.shape, search.channels_last)
    y, places = search.infer(x)
    for option in search.lowerings((x,), target):
        if option.inputs != (PLAIN,) or any(layout != PLAIN for layout in option.outputs):
            continue
        noted, _ = index_check(g, PLAIN, counted, "plane", last)

        def bind(
            inputs: Sequence[View | None], outputs: Sequence[View], option: Lowering = option
        ) -> list[Call]:
            grad, values = inputs
            assert grad is not None
            result, pooled, index, found, *rest = outputs
            first = option.bind([values], [pooled, index, *rest])
            send = scatter_call(grad, index, result, found, counted, "plane", adds=True, channels_last=last)
            return [*first, send]

        seconds = option.seconds + stream_seconds(g.nbytes + x.nbytes + places.nbytes) + g.size * PLACED_VALUE
        made = (y, TensorType(INT64, y.shape), noted, *option.temporaries)
        yield Lowering(
            f"{option.name}, scatter", (PLAIN, PLAIN), (PLAIN,), bind, seconds, TOLERANCES[x.dtype.name], made
        )
