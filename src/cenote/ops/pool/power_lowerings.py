"""Norms and generalised means of any exponent, and their gradients: float64 powers around the sums of other pools."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import FLOAT64, PLAIN, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import POWER
from cenote.kernels.pool.common import SUM
from cenote.kernels.pool.whole_map import Reduce
from cenote.kernels.pool_gradient.average_backward import ABOVE, BY_POWER, BY_SIGN, BY_X
from cenote.kernels.pool_gradient.average_backward_calls import (
    AxisSpread,
    average_backward_call,
    scratch_bytes,
)
from cenote.kernels.pool_variants.power import MOST_WHOLE, power_call
from cenote.ops.base import Lowering
from cenote.ops.pool.algorithms import TOLERANCES, Pool, source, window_lowerings
from cenote.ops.pool.map_lowerings import summed_map_lowerings, whole_map_lowerings

SCRATCH = 1 << 28  # bytes a thread may need


def multiplied(p: float) -> bool:
    """Whether x^p is a product, which has a sign where x has one."""
    return p == int(p) and 1 <= p <= MOST_WHOLE


def inner_sum(
    axes: Sequence[AxisWindow] | None,
    counts: tuple[Sequence[float], ...],
    x: TensorType,
    y: TensorType,
    target: Target,
    channels_last: bool,
    reduction: str = SUM,
    accumulate: str | None = None,
) -> Lowering | None:
    """Lowering that sums the float64 powers of each window (axes None: of each whole map), in plain memory."""
    wide = TensorType(FLOAT64, x.shape), TensorType(FLOAT64, y.shape)
    if axes is None and accumulate is not None:
        options = summed_map_lowerings("sum", accumulate, *wide, target, channels_last)
    elif axes is None:
        options = whole_map_lowerings(Reduce(reduction, FLOAT64), *wide, target, channels_last)
    else:
        pool = Pool(reduction, tuple(axes), channels_last, counts, accumulate=accumulate)
        options = window_lowerings(pool, *wide, target)
    return next((option for option in options if option.inputs == (PLAIN,)), None)


def power_lowerings(
    inner: Lowering | None, x: TensorType, y: TensorType, p: float, *, base: str, floor: float = 0.0
) -> Iterator[Lowering]:
    """(sum base(x)^p)^(1 / p); with p infinite the powers are left out."""
    if inner is None:
        return
    exponent, root = (1.0, 1.0) if math.isinf(p) else (p, 1.0 / p)

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> list[Call]:
        values = source(inputs)
        result, powers, sums, *rest = outputs
        first = power_call(values, powers, exponent, base=base, floor=floor)
        return [first, *inner.bind([powers], [sums, *rest]), power_call(sums, result, root)]

    made = (TensorType(FLOAT64, x.shape), TensorType(FLOAT64, y.shape), *inner.temporaries)
    seconds = inner.seconds + (x.size + y.size) * POWER
    yield Lowering("powers", (PLAIN,), (PLAIN,), bind, seconds, TOLERANCES[x.dtype.name], made)


def power_gradient(
    inner: Lowering | None,
    axes: Sequence[AxisSpread],
    g: TensorType,
    x: TensorType,
    target: Target,
    p: float,
    *,
    base: str,
    floor: float = 0.0,
    channels_last: bool,
) -> Iterator[Lowering]:
    """Yield the lowering of the gradient of `inner`'s norm: g * sum^(1 / p - 1) is spread over each window with the
    weights in `axes`, then multiplied by base(x)^(p - 1)."""
    step = x.shape[-1] if channels_last else 1
    if inner is None or scratch_bytes(axes, step) > SCRATCH:
        return
    slope = ABOVE if base == "above" else BY_X if p == 2 else BY_SIGN if p == 1 else BY_POWER
    spread = partial(average_backward_call, slope=slope, exponent=p - 1.0, floor=floor)

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> list[Call]:
        grad, values = inputs
        assert grad is not None
        assert values is not None
        result, powers, sums, shares, *rest = outputs
        return [
            power_call(values, powers, p, base=base, floor=floor),
            *inner.bind([powers], [sums, *rest]),
            power_call(sums, shares, 1.0 / p - 1.0, times=grad),
            spread(axes, shares, values, result, target, channels_last=channels_last),
        ]

    powers, sums = TensorType(FLOAT64, x.shape), TensorType(FLOAT64, g.shape)
    made = (powers, sums, sums, *inner.temporaries)
    seconds = inner.seconds + (2 * x.size + g.size) * POWER
    error = 2 * TOLERANCES[x.dtype.name]
    yield Lowering("powers, spread", (PLAIN, PLAIN), (PLAIN,), bind, seconds, error, made)
