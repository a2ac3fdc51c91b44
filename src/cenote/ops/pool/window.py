"""What all pools that slide a window share: fields, shapes, regions, the walk over windows of the references, and one
native way per algorithm of kernels/pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.pool_geometry import AxisWindow, Pairs, axis_windows, refuse_empty_windows
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOATS, INT64, PLAIN, Array, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, dense_strides
from cenote.kernels.pool.algorithms import candidates, planned
from cenote.kernels.pool.common import SUM
from cenote.kernels.pool.problem import Geometry, IndexLayout, Memory, PoolProblem, Scale
from cenote.ops.base import Box, Cost, Lowering, Op, Types
from cenote.ops.checks import require
from cenote.runtime.program import Slot

SCRATCH = 1 << 31  # bytes of scratch rows at most, by an estimate up to 16 times too high for plain memory
STRIP = 8 << 10  # columns of a strip at most, unless windows are wider than a quarter of that
OTHER_ROWS = 32  # scratch rows besides those of a window
WIDEST_DILATED = 256  # dilated windows are unrolled along the row

# Largest error of sums and means, relative to the largest output: of rounding to the type and of float32 sums.
TOLERANCES = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
DType = np.dtype[Any]

INTEGERS: frozenset[DType] = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16, np.int32, np.int64)))
ORDERED: frozenset[DType] = FLOATS | INTEGERS | {np.dtype(np.bool_)}
NUMBERS: frozenset[DType] = FLOATS | INTEGERS

Windows = Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]


@dataclass(frozen=True)
class WindowPool(Op):
    """Base of the pools that slide a window over 1 to 3 spatial axes of x (N, C, *spatial).

    window         taps per axis
    stride         step per axis; empty means ones
    pads           (begin, end) per axis; empty means none. Padding holds no elements: it is never a maximum
    dilation       distance of the taps per axis; empty means ones
    auto_pad       "NOTSET" (use `pads`), "SAME_UPPER", "SAME_LOWER", "VALID"
    ceil_mode      round the output size up; `drop` says which last windows are dropped then
    channels_last  x and the outputs are (N, *spatial, C)

    core/pool_geometry.py holds the formulas; `geometry(shape)` gives them resolved.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...] = ()
    pads: Pairs = ()
    dilation: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: bool = False
    drop: str = "always"
    channels_last: bool = False

    dtypes: ClassVar[frozenset[DType]] = FLOATS

    def geometry(self, shape: Sequence[int]) -> tuple[AxisWindow, ...]:
        """The windows along each spatial axis for an input of this shape; no window is empty.

        Raises ShapeError or ArgumentError as `infer` does.
        """
        check_map(self.name, shape, len(self.window))
        axes = axis_windows(
            self.name,
            spatial_of(shape, self.channels_last),
            self.window,
            self.stride,
            self.pads,
            self.dilation,
            auto_pad=self.auto_pad,
            ceil_mode=self.ceil_mode,
            drop=self.drop,
        )
        refuse_empty_windows(self.name, axes)
        return axes

    def pooled(self, x: TensorType) -> TensorType:
        """Type of the pooled values, after all checks."""
        check_dtype(self.name, x.dtype, self.dtypes)
        out = tuple(axis.out for axis in self.geometry(x.shape))
        return TensorType(x.dtype, with_spatial(x.shape, out, self.channels_last))

    def infer(self, *inputs: TensorType | None) -> Types:
        return (self.pooled(only_input(self.name, inputs)),)

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        """One operation per tap: the plain algorithm."""
        x = only_input(self.name, inputs)
        outputs = self.infer(x)
        taps = math.prod(min(axis.window, axis.size) for axis in self.geometry(x.shape))
        return Cost(outputs[0].size * taps, x.nbytes + sum(y.nbytes for y in outputs))

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = only_input(self.name, inputs)
        first = 1 if self.channels_last else 2
        ranges = list(box.ranges)
        for axis, windows in enumerate(self.geometry(x.shape), first):
            ranges[axis] = windows.read(*ranges[axis])
        return (Box(tuple(ranges)),)

    def walk(self, shape: Sequence[int]) -> Windows:
        """Every output position with the slices of its window, row-major."""
        axes = self.geometry(shape)
        slices = [axis.slices() for axis in axes]
        for position in np.ndindex(*(axis.out for axis in axes)):
            yield position, tuple(column[o] for column, o in zip(slices, position, strict=True))


def only_input(op: str, inputs: Sequence[TensorType | None]) -> TensorType:
    """The single input x."""
    if len(inputs) != 1:
        raise ShapeError(f"{op}: takes one input, got {len(inputs)}")
    return require(op, inputs[0], "x")


def check_dtype(op: str, dtype: DType, allowed: frozenset[DType]) -> None:
    """DTypeError unless the type is one of `allowed`."""
    if dtype not in allowed:
        names = ", ".join(sorted(item.name for item in allowed))
        raise DTypeError(
            f"{op}: element type {dtype.name} is not supported (allowed: {names}); cast the input"
        )


def check_map(op: str, shape: Sequence[int], rank: int) -> None:
    """ShapeError unless the shape is (N, C, *spatial) with `rank` spatial axes and at least one channel."""
    if rank not in (1, 2, 3):
        raise ArgumentError(f"{op}: kernel_size has {rank} numbers; 1 to 3 spatial axes are supported")
    if len(shape) != rank + 2:
        raise ShapeError(
            f"{op}: a window over {rank} spatial axes needs an input of rank {rank + 2} (batch, channels and "
            f"{rank} spatial axes), got shape {list(shape)}"
        )
    if 0 in shape[1:]:
        raise ShapeError(f"{op}: only the batch may be empty, got input shape {list(shape)}")


def spatial_of(shape: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The spatial extents of a batched shape."""
    return tuple(shape[1:-1] if channels_last else shape[2:])


def with_spatial(shape: Sequence[int], spatial: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The batched shape with other spatial extents."""
    if channels_last:
        return (shape[0], *spatial, shape[-1])
    return (*shape[:2], *spatial)


def channels_first(x: Array, channels_last: bool) -> Array:
    """A view (N, C, *spatial) of x."""
    return np.moveaxis(x, -1, 1) if channels_last else x


def as_declared(y: Array, channels_last: bool) -> Array:
    """Back from (N, C, *spatial) to the declared order, dense."""
    return np.ascontiguousarray(np.moveaxis(y, 1, -1)) if channels_last else y


def type_of(x: Array) -> TensorType:
    return TensorType(x.dtype, x.shape)


def taps_of(x: Array, slices: tuple[slice, ...]) -> Array:
    """The elements of one window as (N, C, taps), taps row-major; x is (N, C, *spatial)."""
    patch = x[(slice(None), slice(None), *slices)]
    return patch.reshape(*x.shape[:2], math.prod(patch.shape[2:]))


def comparable(x: Array) -> Array:
    """x in a type that NumPy orders well: bfloat16 as float32, others as they are."""
    return x.astype(np.float32) if x.dtype == BFLOAT16 else x


# ---- native ways ----------------------------------------------------------------------------------------------------


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
    error = tolerance(pool.reduction, x.dtype, pool.norm)
    for layout in layouts(pool.channels_last, target):
        results = (y, TensorType(INT64, y.shape)) if pool.index else (y,)

        def problem(x: View, outputs: Sequence[View], layout: Layout = layout) -> PoolProblem:
            return problem_of(pool, layout, x, *outputs)

        yield from algorithm_lowerings(problem, layout, x, results, target, error)


def algorithm_lowerings(
    problem: Callable[[View, Sequence[View]], PoolProblem], layout: Layout, x: TensorType, results: Types,
    target: Target, error: float,
) -> Iterator[Lowering]:  # fmt: skip
    """One lowering per algorithm that serves the problem, the quickest by estimate first.

    Estimates are for tensors that fill their buffers; `planned` says what happens to tensors with a halo.
    """
    x_view, *views = (
        View(kind, layout, dense_strides(kind.shape, layout), Slot("arena", 0)) for kind in (x, *results)
    )
    for name, candidate in candidates(problem(x_view, views), target).items():

        def bind(inputs: Sequence[View | None], outputs: Sequence[View], name: str = name) -> list[Call]:
            x = source(inputs)
            return [planned(name, problem(x, outputs), target).build(x, *outputs)]

        yield Lowering(name, (layout,), (layout,) * len(results), bind, candidate.seconds, error)


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


def problem_of(pool: Pool, layout: Layout, x: View, y: View, indices: View | None = None) -> PoolProblem:
    """The pool of these views as kernels see it."""
    axes, memory = arranged(pool, x, y)
    scale = Scale()
    if pool.counts:
        shares = [pool.counts[index] if index is not None else (1.0,) for index in axes]
        shares[0] = tuple(share * _left_out(pool, axes) for share in shares[0])
        scale = Scale.of(shares, x.type.dtype)
    return PoolProblem(
        pool.reduction, x.type.dtype, geometry_of(pool, axes), memory, scale, pool.nan, pool.norm, pool.rounding,
        index_layout(pool, axes, x, indices) if indices else None, fixed_step=layout.is_blocked,
    )  # fmt: skip


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


def index_layout(pool: Pool, axes: Axes, x: View, indices: View) -> IndexLayout:
    """What an index adds, and where the indices lie."""
    first = 1 if pool.channels_last else 2
    plane, row = (0 if axis is None else indices.strides[first + axis] for axis in axes[:2])
    channel = 0 if pool.channels_last else indices.strides[1]
    return IndexLayout(_steps(pool, axes, x), (indices.strides[0], channel, plane, row))


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
