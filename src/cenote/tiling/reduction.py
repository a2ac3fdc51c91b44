"""Pools whose windows do not fit into the buffer, or are too few for the cores: reduced axis by axis, in several
passes.

A maximum of maxima is the maximum, and averages and Lp norms of boxes are those of rows, then of columns (the divisors
of an average are products of one factor per axis). So a pool becomes one pool along each axis, in the order of the
fewest cycles; each reads what the one before wrote, and is planned like any other. A single window whose row does not
fit either is cut into pieces, and these are reduced in one more pass. Between passes averages and norms are kept in the
policy's accumulator type (float32, float64 for float64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError
from cenote.core.types import TensorType, is_float
from cenote.ops.base import Op
from cenote.ops.pool.adaptive import AdaptivePool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool, GlobalPool
from cenote.ops.pool.window import ExtremePool, MaxPool, WindowPool
from cenote.tiling.cost import TilingCost, wide_type
from cenote.tiling.kinds.pools import pool_layer
from cenote.tiling.problem import Problem, TilingPlan, titled

Planner = Callable[[Problem], TilingPlan]


@dataclass(frozen=True, repr=False)
class ReductionPlan(TilingPlan):
    """A plan in several passes, one after the other. `cost`, `tasks` and `trace` are those of all passes, `bytes` is
    the most that one of them takes; `tile` and `parts` are those of the first pass."""

    passes: tuple[TilingPlan, ...] = ()

    @property
    def bytes(self) -> int:
        return max(each.bytes for each in self.passes)

    @property
    def parts(self) -> tuple[int, int, int, int]:
        return self.passes[0].parts

    @property
    def tasks(self) -> int:
        return sum(each.tasks for each in self.passes)

    @property
    def fits(self) -> bool:
        return all(each.fits for each in self.passes)

    @property
    def fed(self) -> bool:
        return all(each.fed for each in self.passes)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, with that of each pass."""
        return {**super().to_dict(), "passes": [each.to_dict() for each in self.passes]}


def planned(planner: Planner, strategy: str, problem: Problem) -> TilingPlan:
    """Return the plan of a layer in one pass, or, where it does not fit (with the search also where that takes fewer
    cycles), in several. Raises CapacityError where neither is possible."""
    try:
        single = planner(problem)
    except CapacityError as error:
        passes = _reduced(planner, strategy, problem, str(error))
        if passes is None:
            raise
        return passes
    if strategy == "search":
        why = f"one pass takes {single.cycles:,} cycles"
        return _reduced(planner, strategy, problem, why, single.cycles) or single
    return single


def _reduced(
    planner: Planner, strategy: str, problem: Problem, why: str, below: float = math.inf
) -> ReductionPlan | None:
    """Return the plan in several passes, with the axes in the order of the fewest cycles; None where there is none, or
    none that could take fewer cycles than `below`."""
    least: list[TilingPlan] = []
    for order in permutations(range(len(problem.layer.inputs[0].shape) - 2)):
        passes = _in_order(planner, problem, order, below)
        cycles = sum(each.cycles for each in passes)
        if passes and cycles < below:
            least, below = passes, cycles
    if not least:
        return None
    title = problem.layer.title
    passes = [titled(each, f"{title}, pass {n} of {len(least)}") for n, each in enumerate(least, 1)]
    cycles, bytes_in, bytes_out, bursts = (
        sum(getattr(each.cost, name) for each in passes)
        for name in ("cycles", "bytes_in", "bytes_out", "bursts")
    )
    cost = TilingCost(cycles, bytes_in, bytes_out, bursts, exact=all(each.cost.exact for each in passes))
    trace = (
        f"several passes: {why}",
        *(f"{each.layer.title}: {line}" for each in passes for line in each.trace),
    )
    bound = problem.least_cycles(computing=False)
    return ReductionPlan(
        problem, strategy, "passes", passes[0].tile, cost, bound, trace, passes=tuple(passes)
    )


def _in_order(planner: Planner, problem: Problem, order: Sequence[int], below: float) -> list[TilingPlan]:
    """Return the plans of passes along the axes in this order; none where one of them does not fit, or where all
    together must take as many cycles as `below`."""
    layer = problem.layer
    x, dtype = layer.inputs[0], layer.dtype
    between = dtype if isinstance(layer.op, ExtremePool) else problem.policy.sum_type or wide_type(dtype)
    passes: list[TilingPlan] = []
    steps = list(_steps(layer.op, x, order))
    bounds = _bounds(problem, steps, x, between)
    try:
        for number, step in enumerate(steps):
            if sum(each.cycles for each in passes) + sum(bounds[number:]) >= below:
                return []
            passes += _pass(planner, problem, step, x, between)
            x = passes[-1].layer.outputs[0]
        if passes:
            last = passes[-1].layer
            finish = pool_layer(last.op, last.inputs[0], fused=layer.fused, result=dtype)
            passes[-1] = planner(replace(problem, layer=finish))
    except CapacityError:
        return []
    return passes


def _bounds(problem: Problem, steps: Sequence[Op], x: TensorType, between: np.dtype[Any]) -> list[int]:
    """Return lower bounds of the cycles of passes, each of which reads its input and writes its output once."""
    bounds = []
    for step in steps:
        layer = pool_layer(step, x, result=between)
        bounds.append(replace(problem, layer=layer).least_cycles())
        x = layer.outputs[0]
    return bounds


def _pass(
    planner: Planner, problem: Problem, op: Op, x: TensorType, between: np.dtype[Any]
) -> list[TilingPlan]:
    """Return the plan of one pass; several where it has a single window along its axis that must be cut into pieces."""
    try:
        return [planner(replace(problem, layer=pool_layer(op, x, result=between)))]
    except CapacityError:
        pieces = list(_pieces(op, x))
        if not pieces:
            raise
    for first, second in pieces:
        try:
            one = planner(replace(problem, layer=pool_layer(first, x, result=between)))
        except CapacityError:
            continue
        return [one, *_pass(planner, problem, second, one.layer.outputs[0], between)]
    raise CapacityError(f"tiling {problem.layer.title}: not even a piece of a window fits")


def _steps(op: Op, x: TensorType, order: Sequence[int]) -> Iterator[WindowPool | AdaptivePool]:
    """Yield pools along one axis each, in this order, whose composition is the pool; none where it cannot be split."""
    exact = isinstance(op, ExtremePool) and not op.return_indices
    sums = is_float(x.dtype) and getattr(op, "accumulate", None) is None
    is_average = isinstance(op, AveragePool | GlobalAveragePool) or op.name == "adaptive_average_pool"
    is_norm = isinstance(op, LpPool | GlobalLpPool) and not getattr(op, "signed_powers", False)
    if not (exact or (sums and (is_average or is_norm))):
        return
    if isinstance(op, AdaptivePool):
        if op.ranges:
            return
        extents = [size if out is None else out for out, size in zip(op.output, x.shape[2:], strict=True)]
        sizes = list(x.shape[2:])
        for axis in order:
            if extents[axis] != sizes[axis]:
                sizes[axis] = extents[axis]
                yield replace(op, output=tuple(sizes))
        return
    window = op if isinstance(op, WindowPool) else _sliding(op, x)
    yield from _along_axes(window, order)


def _sliding(op: Op, x: TensorType) -> WindowPool:
    """Return a global pool as one window that slides."""
    size = x.shape[2:]
    assert isinstance(op, GlobalPool)
    if isinstance(op, GlobalMaxPool):
        return MaxPool(size, size, nan=op.nan)
    return LpPool(size, size, p=op.p) if isinstance(op, GlobalLpPool) else AveragePool(size, size)


def _along_axes(op: WindowPool, order: Sequence[int]) -> Iterator[WindowPool]:
    rank = len(order)
    stride, dilation = op.stride or (1,) * rank, op.dilation or (1,) * rank
    pads = op.pads or ((0, 0),) * rank
    axes = [a for a in order if op.window[a] > 1 or stride[a] > 1 or pads[a] != (0, 0)]
    for number, axis in enumerate(axes):

        def only(values: tuple[Any, ...], other: object, axis: int = axis) -> tuple[Any, ...]:
            return tuple(value if place == axis else other for place, value in enumerate(values))

        single = replace(
            op,
            window=only(op.window, 1),
            stride=only(stride, 1),
            pads=only(pads, (0, 0)),
            dilation=only(dilation, 1),
        )
        if isinstance(single, AveragePool) and single.divisor_override and number < len(axes) - 1:
            single = replace(single, divisor_override=1)
        yield single


def _pieces(op: Op, x: TensorType) -> Iterator[tuple[WindowPool, WindowPool]]:
    """Yield a single window along an axis as windows of a half, a quarter, ... of it, and the one that reduces
    those."""
    if not isinstance(op, WindowPool) or any(begin or end for begin, end in op.pads or ()):
        return
    axis = next((a for a, extent in enumerate(op.window) if extent > 1), None)
    if axis is None or op.window[axis] != x.shape[2 + axis] or (op.dilation and op.dilation[axis] > 1):
        return
    size, length = x.shape[2 + axis], x.shape[2 + axis]
    while length > 1:
        length = -(-length // 2)
        first = _windowed(op, axis, length)
        second = _windowed(op, axis, -(-size // length))
        if isinstance(first, AveragePool) and isinstance(second, AveragePool):
            # Sums, as the last piece may be shorter.
            first = replace(first, divisor_override=1)
            second = replace(second, divisor_override=op.divisor_override or size)  # type: ignore[attr-defined]  # an average, as both are
        yield first, second


def _windowed(op: WindowPool, axis: int, extent: int) -> WindowPool:
    """Return a pool with other windows along one axis, side by side; the last may be shorter."""
    windows = tuple(extent if a == axis else 1 for a in range(len(op.window)))
    return replace(op, window=windows, stride=windows, auto_pad="NOTSET", ceil_mode=True)
