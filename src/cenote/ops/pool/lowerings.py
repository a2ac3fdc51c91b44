"""Native ways to compute pools: which kernel serves which operator, layout and type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError
from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import PLAIN, Layout, TensorType, is_float
from cenote.kernels.base import Call, View
from cenote.kernels.pool.adaptive_argmax import search_call
from cenote.kernels.pool.common import MAXIMUM, MINIMUM, SUM
from cenote.kernels.pool.plan import Bounds, Factors, Geometry, Memory, Places, bounded, factors, windowed
from cenote.kernels.pool.whole_map_plan import Maps, Reduce, partials, whole_maps
from cenote.ops.base import Lowering

SCRATCH = 1 << 31  # bytes of scratch rows at most, by an estimate up to 16 times too high for plain memory
STRIP = 8 << 10  # columns of a strip at most, unless windows are wider than a quarter of that
OTHER_ROWS = 32  # scratch rows besides those of a window
WIDEST_DILATED = 256  # dilated windows are unrolled along the row
BANDWIDTH = 20e9  # bytes per second of one core, for estimates

# Largest error of sums and means, relative to the largest output: of rounding to the type and of float32 sums.
TOLERANCES = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


@dataclass(frozen=True)
class Pool:
    """A windowed pool as kernels see it. `counts` holds each axis' share of an average's divisor, per position;
    `index` is what indices count (MaxPool's rule), empty when none are wanted."""

    reduction: str
    axes: tuple[AxisWindow, ...]
    channels_last: bool = False
    counts: tuple[tuple[float, ...], ...] = ()
    nan: str = "propagate"
    norm: int = 0
    index: str = ""
    rounding: str = "even"


def window_lowerings(pool: Pool, x: TensorType, y: TensorType, target: Target) -> Iterator[Lowering]:
    """Ways to compute a windowed pool with one input: on the arrays as they are, or blocked."""
    if not x.size or not y.size or (pool.index and x.size // x.shape[0] >= 1 << 31):
        return
    if _may_overflow(pool.reduction, x.dtype, [min(axis.window, axis.size) for axis in pool.axes]):
        return
    if not _is_reasonable(pool, x):
        return
    if any(axis.reach > max(1 << 16, 4 * axis.size) for axis in pool.axes):
        return  # nearly all padding: scratch rows would be as long as the window
    for layout in layouts(pool.channels_last, target):

        def bind(
            inputs: Sequence[View | None], outputs: Sequence[View], layout: Layout = layout
        ) -> list[Call]:
            return [window_call(pool, layout, target, source(inputs), outputs)]

        seconds = (x.nbytes + y.nbytes) / BANDWIDTH
        results = (layout, layout) if pool.index else (layout,)
        error = tolerance(pool.reduction, x.dtype, pool.norm)
        yield Lowering("windows", (layout,), results, bind, seconds, error)


def _may_overflow(reduction: str, dtype: np.dtype[Any], window: Sequence[int]) -> bool:
    """Whether the 32-bit sums of 8-bit integers could overflow: such windows are left to the reference."""
    return reduction == SUM and dtype.itemsize == 1 and math.prod(window) > 1 << 23


def _is_reasonable(pool: Pool, x: TensorType) -> bool:
    """Whether scratch rows, which hold the padding too, stay small, and no dilated row of a window is unrolled into
    thousands of instructions. Windows of 2^31 elements, or as far apart, are left to the reference."""
    *outer, row = pool.axes
    if row.dilation > 1 and row.window > WIDEST_DILATED:
        return False
    columns = min(row.out, 4 * row.reach + STRIP) * row.stride + 3 * row.reach
    rows = OTHER_ROWS + math.prod(axis.window for axis in outer)
    step = x.shape[-1] if pool.channels_last else 64 // x.dtype.itemsize
    spans = [axis.reach + axis.out * axis.stride for axis in pool.axes]
    return rows * columns * step * 4 <= SCRATCH and max(spans) < 1 << 31


def layouts(channels_last: bool, target: Target) -> list[Layout]:
    """The layouts that pools are computed in."""
    return [PLAIN] if channels_last else [Layout(target.lanes()), PLAIN]


def tolerance(reduction: str, dtype: np.dtype[Any], norm: int) -> float:
    """0 (the same bits) for maxima and minima, else what sums may be off."""
    return TOLERANCES[dtype.name] if reduction == SUM and is_float(dtype) else 0.0


def source(inputs: Sequence[View | None]) -> View:
    """The view of the only input."""
    view = inputs[0]
    assert view is not None
    return view


def window_call(pool: Pool, layout: Layout, target: Target, x: View, outputs: Sequence[View]) -> Call:
    """The call of the kernel for these views."""
    y = outputs[0]
    axes, memory = arranged(pool, x, y)
    scale = Factors()
    if pool.counts:
        shares = [pool.counts[index] if index is not None else (1.0,) for index in axes]
        shares[0] = tuple(share * _left_out(pool, axes) for share in shares[0])
        scale = factors(shares, x.type.dtype)
    call = windowed(
        pool.reduction, x.type.dtype, geometry_of(pool, axes), memory, target, x, y,
        scale=scale, nan=pool.nan, norm=pool.norm, blocked=layout.is_blocked, rounding=pool.rounding,
        places=Places(outputs[1], _places(pool, axes, x, outputs[1])) if pool.index else None,
    )  # fmt: skip
    assert call is not None, "a window without elements was let through"
    return call


Axes = tuple[
    int | None, int | None, int | None
]  # the operator's axis behind planes, rows, columns; None: missing


def arranged(pool: Pool, x: View, y: View) -> tuple[Axes, Memory]:
    """Which axes are planes, rows and columns, and where they lie.

    Axes of one element are left out where the memory allows it, so that a column of 1000 rows is taken as a row.
    """
    first = 1 if pool.channels_last else 2
    step = x.layout.lanes or (x.shape[-1] if pool.channels_last else 1)
    steps = [view.strides[first : first + len(pool.axes)] for view in (x, y)]
    kept = [index for index, axis in enumerate(pool.axes) if axis.size > 1 or axis.out > 1] or [
        len(pool.axes) - 1
    ]
    if any(view[kept[-1]] != step for view in steps):
        kept = list(range(len(pool.axes)))
    if any(view[kept[-1]] != step for view in steps) or (pool.channels_last and x.strides[-1] != 1):
        raise ArgumentError(
            f"pooling: the innermost axis must be contiguous, got strides {x.strides} and {y.strides}"
        )
    axes: Axes = (*(None,) * (3 - len(kept)), *kept)  # type: ignore[assignment]
    outer = [(v.strides[0], 0 if pool.channels_last else v.strides[1]) for v in (x, y)]
    inner = [tuple(0 if axis is None else view[axis] for axis in axes[:2]) for view in steps]
    channels = x.blocks if x.layout.is_blocked else 1 if pool.channels_last else x.shape[1]
    places = [(*outside, *inside) for outside, inside in zip(outer, inner, strict=True)]
    return axes, Memory(x.shape[0], channels, places[0], places[1], step)  # type: ignore[arg-type]


def _places(pool: Pool, axes: Axes, x: View, indices: View) -> tuple[int, ...]:
    """What an index adds, and where the indices lie."""
    first = 1 if pool.channels_last else 2
    inner = [0 if axis is None else indices.strides[first + axis] for axis in axes[:2]]
    outer = indices.strides[0], 0 if pool.channels_last else indices.strides[1]
    return (*_steps(pool, axes, x), *outer, *inner)


def _steps(pool: Pool, axes: Axes, x: View) -> tuple[int, int, int, int, int]:
    """What an index adds per plane, row, column, batch and channel."""
    spatial = [axis.size for axis in pool.axes]
    channels = x.shape[-1] if pool.channels_last else x.shape[1]
    size, unit = math.prod(spatial), channels if pool.index == "nhwc" else 1
    if pool.index == "column":
        steps = [math.prod(spatial[:index]) for index in range(len(spatial))]
    else:
        steps = [math.prod(spatial[index + 1 :]) * unit for index in range(len(spatial))]
    planes, rows, columns = (0 if axis is None else steps[axis] for axis in axes)
    batch, channel = {"plane": (0, 0), "nhwc": (0, 1)}.get(pool.index, (channels * size, size))
    return planes, rows, columns, batch, channel


def geometry_of(pool: Pool, axes: Axes) -> Geometry:
    """The windows over (planes, rows, columns)."""
    every = [AxisWindow(1, 1, out=1) if axis is None else pool.axes[axis] for axis in axes]

    def each(name: str) -> tuple[int, int, int]:
        return tuple(getattr(axis, name) for axis in every)

    return Geometry(
        each("size"), each("out"), each("window"), each("stride"), each("dilation"), each("begin")
    )


def _left_out(pool: Pool, axes: Axes) -> float:
    """The share of the divisor of axes of one element that were left out."""
    return math.prod(pool.counts[index][0] for index in range(len(pool.axes)) if index not in axes)


# ---- ranges ---------------------------------------------------------------------------------------------------------


def range_lowerings(
    reduction: str, bounds: Bounds, x: TensorType, y: TensorType, target: Target, *,
    channels_last: bool = False, nan: str = "propagate", mean: bool = False, rounding: str = "even",
) -> Iterator[Lowering]:  # fmt: skip
    """Ways to pool ranges of the input, one (begin, end) per axis and output; `mean` divides by their sizes."""
    if not x.size or not y.size:
        return
    if _may_overflow(reduction, x.dtype, [max(end - begin for begin, end in axis) for axis in bounds]):
        return
    axes = tuple(
        AxisWindow(size, 1, out=len(axis))
        for size, axis in zip(_spatial(x, channels_last), bounds, strict=True)
    )
    pool = Pool(reduction, axes, channels_last)
    for layout in layouts(channels_last, target):

        def bind(
            inputs: Sequence[View | None], outputs: Sequence[View], layout: Layout = layout
        ) -> list[Call]:
            view = source(inputs)
            every, memory = arranged(pool, view, outputs[0])
            ranges = [((0, 1),) if axis is None else bounds[axis] for axis in every]
            scale = Factors()
            if mean:
                scale = factors([[end - begin for begin, end in axis] for axis in ranges], x.dtype)
            size = geometry_of(pool, every).size
            return [
                bounded(
                    reduction, x.dtype, ranges, size, memory, target, view, outputs[0],
                    scale=scale, nan=nan, blocked=layout.is_blocked, rounding=rounding,
                )
            ]  # fmt: skip

        seconds = (x.nbytes + y.nbytes) / BANDWIDTH
        yield Lowering("ranges", (layout,), (layout,), bind, seconds, tolerance(reduction, x.dtype, 0))


def search_lowerings(
    bounds: Bounds, x: TensorType, y: TensorType, index: str, nan: str, target: Target, *, channels_last: bool
) -> Iterator[Lowering]:
    """The largest values of ranges with their indices, in the caller's memory."""
    if not x.size or not y.size or x.size // x.shape[0] >= 1 << 31:
        return

    def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> list[Call]:
        y, places = outputs
        return [
            search_call(source(inputs), y, places, bounds, index, nan, target, channels_last=channels_last)
        ]

    seconds = (x.nbytes + 3 * y.nbytes) / BANDWIDTH + 2 * x.size / BANDWIDTH
    yield Lowering("range search", (PLAIN,), (PLAIN, PLAIN), bind, seconds)


def _spatial(x: TensorType, channels_last: bool) -> tuple[int, ...]:
    return x.shape[1:-1] if channels_last else x.shape[2:]


# ---- whole maps -----------------------------------------------------------------------------------------------------


def whole_map_lowerings(
    reduce: Reduce, x: TensorType, y: TensorType, target: Target, channels_last: bool = False
) -> Iterator[Lowering]:
    """Ways to reduce every map to one value."""
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
            "whole maps", (layout,), (layout,), bind, (x.nbytes + y.nbytes) / BANDWIDTH,
            tolerance(reduce.reduction, x.dtype, reduce.norm), (between,) if between else (),
        )  # fmt: skip


def maps_of(x: View, y: View, channels_last: bool) -> Maps:
    """Where the maps lie: one run if memory has no gaps, else a run per row, and slices of rows."""
    first = 1 if channels_last else 2
    spatial = x.shape[first : first + len(x.shape) - 2]
    strides = x.strides[first : first + len(spatial)]
    step = x.layout.lanes or (x.shape[-1] if channels_last else 1)
    length = 1
    outer_axes: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(spatial), reversed(strides), strict=True):
        if not outer_axes and (extent == 1 or stride == length * step):
            length *= extent
        else:
            outer_axes.append((extent, stride))
    if len(outer_axes) > 2:
        raise ArgumentError(f"pooling: memory with strides {x.strides} is too scattered for a whole-map pool")
    (runs, between), (slices, apart) = (*outer_axes, (1, 0), (1, 0))[:2]
    channels = x.blocks if x.layout.is_blocked else 1 if channels_last else x.shape[1]
    outer = [(view.strides[0], 0 if channels_last else view.strides[1]) for view in (x, y)]
    return Maps(x.shape[0], channels, outer[0], outer[1], length, (runs, between, slices, apart), step)


# ---- operators ------------------------------------------------------------------------------------------------------


def max_pool(
    axes: Sequence[AxisWindow], largest: bool, nan: str, channels_last: bool, index: str = ""
) -> Pool:
    """The largest or smallest value of each window, with indices by a rule of MaxPool unless it is empty."""
    return Pool(MAXIMUM if largest else MINIMUM, tuple(axes), channels_last, nan=nan, index=index)


def lp_pool(
    axes: Sequence[AxisWindow],
    p: float,
    channels_last: bool,
    signed: bool,
    overhang: tuple[tuple[float, ...], ...],
) -> Pool | None:
    """The p-norm of each window for p 1, 2 and infinities; None for others. With `signed`, PyTorch's powers, whose sums
    are divided by `overhang`."""
    if math.isinf(p):
        return Pool(MAXIMUM if p > 0 else MINIMUM, tuple(axes), channels_last, norm=1)
    if p not in (1.0, 2.0):
        return None
    norm = 2 if p == 2.0 else 0 if signed else 1
    return Pool(SUM, tuple(axes), channels_last, overhang if signed else (), norm=norm)


def global_norm(dtype: np.dtype[Any], p: float) -> Reduce | None:
    """The p-norm of whole maps for p 1, 2 and infinities; None for others."""
    if math.isinf(p):
        return Reduce(MAXIMUM if p > 0 else MINIMUM, dtype, norm=1)
    if p not in (1.0, 2.0):
        return None
    return Reduce(SUM, dtype, norm=int(p), root=p == 2.0)


__all__ = [
    "MAXIMUM",
    "MINIMUM",
    "SUM",
    "Pool",
    "Reduce",
    "global_norm",
    "lp_pool",
    "max_pool",
    "range_lowerings",
    "search_lowerings",
    "whole_map_lowerings",
    "window_lowerings",
]
