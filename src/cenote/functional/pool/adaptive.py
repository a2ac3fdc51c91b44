"""Pools to a given output size."""

from __future__ import annotations

from typing import Annotated

from cenote.core.errors import ArgumentError, shown
from cenote.functional.arguments import TORCH, Form, whole
from cenote.functional.kinds import BatchedMap, Kind, Rules, RulesOfExtremes
from cenote.functional.record import function
from cenote.functional.types import Accumulate
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.gradient import PoolGradient

Extents = Annotated[object, Kind("int | Sequence[int | None] | None")]


def _output(input: Form, value: object) -> tuple[int | None, ...]:
    """The output size; None keeps an extent."""
    rank = input.rank
    items = value if isinstance(value, list | tuple) else (value,) * rank
    if len(items) not in (1, rank) or (rank > 1 and len(items) == 1):
        raise ArgumentError(f"output_size must be one number or {rank}, got {shown(tuple(items))}")
    return tuple(None if item is None else whole("output_size", item, 0) for item in items)


# A plain map must be asked for (layout="HW"): PyTorch's own error samples have it that rank 2 is a mistake.
@function(
    ranks=(1, 2, 3),
    twins="Largest value of each adaptive window over {axes}: see adaptive_max_pool2d.",
    gradient=PoolGradient,
    indexed=True,
)
def adaptive_max_pool(
    input: BatchedMap, output_size: Extents, return_indices: bool = False, *, rules: RulesOfExtremes
) -> AdaptiveMaxPool:
    """Largest value of each adaptive window, as torch.nn.functional.adaptive_max_pool2d.

    output_size  number or pair; None keeps an extent, 0 gives an empty result. Window o of an axis covers
                 floor(o in / out) to ceil((o + 1) in / out), in exact integers
    layout       "NCHW", "NHWC" (batch optional), or "HW" for a plain map, which must be asked for
    return_indices, out, threads, semantics, nan: see max_pool2d
    """
    output, index = _output(input, output_size), rules.semantics.index
    return AdaptiveMaxPool(output, input.channels_last, return_indices, index, rules.of_nan)


@function(
    ranks=(1, 2, 3),
    twins="Mean of each adaptive window over {axes}: see adaptive_avg_pool2d.",
    gradient=PoolGradient,
)
def adaptive_avg_pool(
    input: BatchedMap, output_size: Extents, *, semantics: Rules = TORCH, accumulate: Accumulate | None = None
) -> AdaptiveAveragePool:
    """Mean of each adaptive window, as torch.nn.functional.adaptive_avg_pool2d: see adaptive_max_pool2d, avg_pool2d
    (`accumulate` too)."""
    output, way = _output(input, output_size), input.summed(accumulate)
    return AdaptiveAveragePool(output, input.channels_last, semantics.rounding, way)
