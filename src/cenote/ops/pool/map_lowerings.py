"""Native ways to pool ranges of the input, whole maps, and windows whose elements are looked at together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce

from cenote.core.errors import ArgumentError
from cenote.core.pool_geometry import AxisWindow
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import FLOATS, PLAIN, Layout, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import WHOLE_WINDOW_TAP, stream_seconds
from cenote.kernels.pool.adaptive_argmax import search_call
from cenote.kernels.pool.common import SUM
from cenote.kernels.pool.problem import Bounds, PoolProblem, Scale
from cenote.kernels.pool.whole_map import Maps, Reduce, partials, whole_maps
from cenote.kernels.pool_variants.median import MOST_TAPS, PoolMedian
from cenote.kernels.pool_variants.whole_window import MOST_COLUMNS, WholeWindowSpec, band_rows, window_call
from cenote.kernels.reduction.axes import ReduceAxis
from cenote.kernels.reduction.launches import partial_totals, pieces_of, reduce_calls
from cenote.ops.base import Lowering
from cenote.ops.pool.algorithms import (
    TOLERANCES,
    Pool,
    _may_overflow,
    algorithm_lowerings,
    arranged,
    divided_type,
    layouts,
    problem_of,
    source,
    tolerance,
)

# ---- ranges ---------------------------------------------------------------------------------------------------------


def range_lowerings(
    reduction: str,
    bounds: Bounds,
    x: TensorType,
    y: TensorType,
    target: Target,
    *,
    channels_last: bool = False,
    nan: str = "propagate",
    mean: bool = False,
    rounding: str = "even",
    accumulate: str | None = None,
) -> Iterator[Lowering]:
    """Yield lowerings that pool ranges of the input, one (begin, end) per axis and output; `mean` divides by their
    sizes, `accumulate` names the type of sums."""
    if not x.size or not y.size:
        return
    if _may_overflow(
        reduction, x.dtype, [reduce(maximum, [end - begin for begin, end in axis]) for axis in bounds]
    ):
        return
    axes = tuple(
        AxisWindow(size, 1, out=len(axis))
        for size, axis in zip(_spatial(x, channels_last), bounds, strict=True)
    )
    pool = Pool(reduction, axes, channels_last, nan=nan, rounding=rounding, accumulate=accumulate)
    for layout in layouts(channels_last, target):

        def problem(x: View, outputs: Sequence[View], layout: Layout = layout) -> PoolProblem:
            whole = problem_of(pool, layout, x, outputs[0])
            axes, _ = arranged(pool, x, outputs[0])
            ranges = [((0, 1),) if axis is None else bounds[axis] for axis in axes]
            counts = [[end - begin for begin, end in axis] for axis in ranges]
            scale = Scale.of(counts, divided_type(pool, x.type.dtype)) if mean else Scale()
            return replace(whole, bounds=ranges, scale=scale)

        error = tolerance(reduction, x.dtype, 0)
        yield from algorithm_lowerings(problem, layout, x, (y,), target, error)


def search_lowerings(
    bounds: Bounds, x: TensorType, y: TensorType, index: str, nan: str, target: Target, *, channels_last: bool
) -> Iterator[Lowering]:
    """Yield the lowering of the largest values of ranges with their indices, on plain memory."""
    if not x.size or not y.size or x.size // x.shape[0] >= 1 << 31:
        return

    call = partial(
        search_call, bounds=bounds, rule=index, nan=nan, target=target, channels_last=channels_last
    )
    seconds = stream_seconds(x.nbytes + 3 * y.nbytes + 2 * x.size)
    yield Lowering.of_call("range search", (PLAIN,), (PLAIN, PLAIN), call, seconds)


def _spatial(x: TensorType, channels_last: bool) -> tuple[int, ...]:
    return x.shape[1:-1] if channels_last else x.shape[2:]


# ---- whole maps -----------------------------------------------------------------------------------------------------


def whole_map_lowerings(
    reduce: Reduce, x: TensorType, y: TensorType, target: Target, channels_last: bool = False
) -> Iterator[Lowering]:
    """Yield lowerings that reduce every map to one value."""
    if not x.size:
        return
    for layout in layouts(channels_last, target):
        dense = Maps(x.shape[0], x.shape[1], (0, 0), (0, 0), math.prod(x.shape[2:]))
        between = None if layout.is_blocked or channels_last else partials(reduce, dense)

        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> list[Call]:
            view = source(inputs)
            temporary = outputs[1] if len(outputs) > 1 else None
            return whole_maps(
                reduce, maps_of(view, outputs[0], channels_last), target, view, outputs[0], temporary
            )

        yield Lowering(
            "whole maps",
            (layout,),
            (layout,),
            bind,
            stream_seconds(x.nbytes + y.nbytes),
            tolerance(reduce.reduction, x.dtype, reduce.norm),
            (between,) if between else (),
        )


def summed_map_lowerings(
    kind: str, accumulate: str, x: TensorType, y: TensorType, target: Target, channels_last: bool = False
) -> Iterator[Lowering]:
    """Yield lowerings that reduce every map of floats to a sum, mean or norm (a kind of kernels/reduction)."""
    if not x.size:
        return
    for layout in layouts(channels_last, target):
        pieces, between = 1, None
        if not layout.is_blocked:
            axes = range(1, x.rank - 1) if channels_last else range(2, x.rank)
            pieces = pieces_of(x.shape, axes, target)
            kept = (x.shape[0], x.shape[-1] if channels_last else x.shape[1])
        if pieces > 1:
            between = partial_totals(kind, x.dtype, pieces, kept, accumulate)

        def bind(inputs: Sequence[View | None], outputs: Sequence[View], pieces: int = pieces) -> list[Call]:
            view, (result, *more) = source(inputs), outputs
            shape = view.shape if view.layout.lanes < 2 else (view.shape[0], view.blocks, *view.shape[2:])
            channel = len(shape) - 1 if channels_last else 1
            over = [
                ReduceAxis(extent, step, to if axis in (0, channel) else None)
                for axis, (extent, step, to) in enumerate(
                    zip(shape, view.strides, result.strides, strict=True)
                )
            ]
            partial = more[0] if more else None
            return reduce_calls(kind, over, view, result, pieces, partial, target, accumulate=accumulate)

        seconds = stream_seconds(x.nbytes + y.nbytes)
        error = tolerance(SUM, x.dtype, 0)
        more = (between,) if between else ()
        yield Lowering("reduce", (layout,), (layout,), bind, seconds, error, more)


def maps_of(x: View, y: View, channels_last: bool) -> Maps:
    """Memory of the maps: one run if there are no gaps, else a run per row, and slices of rows."""
    first = 1 if channels_last else 2
    spatial = x.shape[first : first + len(x.shape) - 2]
    strides = x.strides[first : first + len(spatial)]
    step = x.layout.lanes or (x.shape[-1] if channels_last else 1)
    length = 1
    outer_axes: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(spatial), reversed(strides), strict=True):
        if not outer_axes and (stride == length * step or (not is_size(extent) and extent == 1)):
            length *= extent
        else:
            outer_axes.append((extent, stride))
    if len(outer_axes) > 2:
        raise ArgumentError(f"pooling: memory with strides {x.strides} is too scattered for a whole-map pool")
    (runs, between), (slices, apart) = (*outer_axes, (1, 0), (1, 0))[:2]
    channels = x.blocks if x.layout.is_blocked else 1 if channels_last else x.shape[1]
    outer = [(view.strides[0], 0 if channels_last else view.strides[1]) for view in (x, y)]
    return Maps(x.shape[0], channels, outer[0], outer[1], length, (runs, between, slices, apart), step)


# ---- windows whose elements are looked at together ---------------------------------------------------------------

MOST_STRIDE = 8  # of plain columns, whose vectors are shuffled together


def whole_window_lowerings(
    name: str,
    kind: type[WholeWindowSpec],
    axes: Sequence[AxisWindow],
    x: TensorType,
    y: TensorType,
    target: Target,
    channels_last: bool,
) -> Iterator[Lowering]:
    """Windows over one or two axes that are small enough to be unrolled; others are left to the reference."""
    if not x.size or not y.size or len(axes) > 2 or x.dtype not in FLOATS:
        return
    rows, columns = (AxisWindow(1, 1, out=1), *axes)[-2:]
    taps = math.prod(axis.window for axis in axes)
    is_median = kind is PoolMedian
    if taps > MOST_TAPS if is_median else columns.window > MOST_COLUMNS or rows.window > 1 << 16:
        return
    if not channels_last and columns.stride > MOST_STRIDE:
        return
    if not band_rows(rows, columns, x.shape[-1] if channels_last else 1, max(4, x.dtype.itemsize)):
        return
    seconds = stream_seconds(x.nbytes + y.nbytes) + y.size * taps * WHOLE_WINDOW_TAP
    exact = is_median and x.dtype.itemsize >= 4
    error = 0.0 if exact else TOLERANCES[x.dtype.name]
    call = partial(window_call, kind, axes, target=target, channels_last=channels_last)
    yield Lowering.of_call(name, (PLAIN,), (PLAIN,), call, seconds, error)
