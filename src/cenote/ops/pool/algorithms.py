"""The pooling algorithms: one file of kernels/pool each, in the order in which they are tried when estimates are equal,
and a lowering for each that serves a pool.

A new algorithm is a file with `offer(problem, target) -> Candidate | None` and a line here:
docs/add_a_pooling_algorithm.md adds one. An offer is None where the algorithm does not serve the problem, else its
estimated seconds and what builds the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.extensions.switched import (
    COMPENSATED_POOL,
    POOL,
    POOL_OF_RANGES,
    POOL_WITH_INDICES,
    considered,
)
from cenote.core.pool_geometry import AxisWindow
from cenote.core.sizes import is_size, minimum, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT64, INT64, PLAIN, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, dense_strides
from cenote.kernels.pool import (
    adaptive,
    adaptive_small,
    argmax_generic,
    argmax_separable,
    compensated,
    generic,
    separable,
    small_map,
    small_window,
    van_herk,
    window_3x3x3,
)
from cenote.kernels.pool.common import SUM
from cenote.kernels.pool.problem import Candidate, Geometry, IndexLayout, Memory, PoolProblem, Scale
from cenote.ops.algorithm import Algorithm, pooling_algorithm_of
from cenote.ops.base import Lowering, Types
from cenote.runtime.steps import Slot, SlotKind

SCRATCH = 1 << 31  # bytes of scratch rows at most, by an estimate up to 16 times too high for plain memory
STRIP = 8 << 10  # columns of a strip at most, unless windows are wider than a quarter of that
OTHER_ROWS = 32  # scratch rows besides those of a window
WIDEST_DILATED = 256  # dilated windows are unrolled along the row

# Largest error of sums and means, relative to the largest output: of rounding to the type and of float32 sums.
TOLERANCES = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}

PoolingAlgorithm = Algorithm[PoolProblem, Candidate | None]
"""One way to pool, by the name of its file. `cost`: work per vector of outputs, for windows of r rows by k columns."""


WINDOWS = (
    PoolingAlgorithm(
        "small_window",
        small_window.offer,
        "3 columns (in rows of at most 32 outputs 2 to 5), up to 5 rows, plain, one plane: all in registers",
        "r k / 4 loads and as many steps; no scratch memory",
    ),
    PoolingAlgorithm(
        "window_3x3x3",
        window_3x3x3.offer,
        "3x3x3 in volumes, one apart, plain, vectors of at most 32 bytes: what planes share is kept",
        "3 loads and 5 steps for 27 elements",
    ),
    PoolingAlgorithm(
        "small_map",
        small_map.offer,
        "3 and more columns in rows of at most 20 elements (40 for 5 and more): loops over planes, not rows",
        "2 sqrt(r) + 2 sqrt(k) loads and steps",
    ),
    PoolingAlgorithm(
        "van_herk",
        van_herk.offer,
        "8 and more rows that overlap: the cost does not grow with them",
        "3 steps down, log2(k) across",
    ),
    PoolingAlgorithm(
        "separable",
        separable.offer,
        "up to 27 rows (of all planes): rows first, from memory, then columns; and windows that do not overlap",
        "r loads and steps down, k (log2(k) from 6 on) across",
    ),
    PoolingAlgorithm(
        "generic",
        generic.offer,
        "the rest: many rows that are dilated, far apart or of many planes",
        "r loads and steps down in a scratch row, k (log2(k) from 6 on) across",
    ),
)

ARGMAX = (
    PoolingAlgorithm(
        "argmax_separable",
        argmax_separable.offer,
        "undilated windows in one plane: the best of each row, then of those",
        "r + k comparisons (log2(k) from 7 on)",
    ),
    PoolingAlgorithm(
        "argmax_generic",
        argmax_generic.offer,
        "dilated windows, and those of volumes",
        "r k comparisons",
    ),
)

RANGES = (
    PoolingAlgorithm(
        "adaptive_small",
        adaptive_small.offer,
        "ranges of at most 96 rows and 96 columns in all, plain, one plane: in registers, columns in lanes",
        "each element once down, transposed, once across",
    ),
    PoolingAlgorithm("adaptive", adaptive.offer, "all other ranges", "each element once down, once across"),
)


COMPENSATED = (
    PoolingAlgorithm(
        "compensated",
        compensated.offer,
        "all of them",
        "7 operations per element down, 7 per column across",
    ),
)

PROBLEMS: Mapping[str, tuple[PoolingAlgorithm, ...]] = {
    POOL: WINDOWS,
    POOL_WITH_INDICES: ARGMAX,
    POOL_OF_RANGES: RANGES,
    COMPENSATED_POOL: COMPENSATED,
}


def kind_of(problem: PoolProblem) -> str:
    """Return the kind of problem: windows that slide, windows whose maxima are asked for with their indices, ranges of
    the input, and sums of windows or ranges that keep what each addition loses."""
    if problem.accumulate == "compensated":
        return COMPENSATED_POOL
    if problem.bounds is not None:
        return POOL_OF_RANGES
    return POOL if problem.index is None else POOL_WITH_INDICES


def algorithms_for(problem: PoolProblem) -> tuple[PoolingAlgorithm, ...]:
    """Algorithms considered for such a problem, in order of preference: Cenote's, then those of users that are
    switched on."""
    kind = kind_of(problem)
    return *PROBLEMS[kind], *map(pooling_algorithm_of, considered(kind))


def candidates(
    problem: PoolProblem, target: Target, algorithms: Sequence[PoolingAlgorithm] | None = None
) -> dict[str, Candidate]:
    """Candidates that serve the problem by name of their algorithm, the quickest by estimate first; of `algorithms`, or
    of all that are considered.

    Empty when some window has no input at all, or when the output is empty: that is no work for a kernel.
    """
    if not problem.planes * problem.geometry.out[1] * problem.geometry.out[2] * problem.memory.step:
        return {}
    asked = algorithms_for(problem) if algorithms is None else algorithms
    offers = {each.name: each.offer(problem, target) for each in asked}
    found = {name: candidate for name, candidate in offers.items() if candidate is not None}
    return dict(sorted(found.items(), key=lambda item: plain(item[1].seconds(target))))


def offered(
    name: str, problem: PoolProblem, target: Target, algorithms: Sequence[PoolingAlgorithm] | None = None
) -> Candidate:
    """The named algorithm's candidate. In memory that it does not serve (rows with a halo between them), that of the
    best of Cenote's own that does. `algorithms` as for `candidates`."""
    for each in algorithms_for(problem) if algorithms is None else algorithms:
        if each.name == name:
            candidate = each.offer(problem, target)
            if candidate is not None:
                return candidate
    return next(iter(candidates(problem, target, PROBLEMS[kind_of(problem)]).values()))


# ---- lowerings of pools ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """A windowed pool as kernels see it. `counts` holds each axis' share of an average's divisor, per position;
    `index` is what indices count (MaxPool's rule), empty when none are wanted; `accumulate` what sums are taken in."""

    reduction: str
    axes: tuple[AxisWindow, ...]
    channels_last: bool = False
    counts: tuple[Sequence[float], ...] = ()
    nan: str = "propagate"
    norm: int = 0
    index: str = ""
    rounding: str = "even"
    accumulate: str | None = None


def window_lowerings(pool: Pool, x: TensorType, y: TensorType, target: Target) -> Iterator[Lowering]:
    """Yield the lowerings of a windowed pool with one input, on plain and on blocked arrays."""
    if not x.size or not y.size or (pool.index and x.size // x.shape[0] >= 1 << 31):
        return
    if _may_overflow(pool.reduction, x.dtype, [minimum(axis.window, axis.size) for axis in pool.axes]):
        return
    if not _is_reasonable(pool, x):
        return
    if any(axis.reach > 1 << 16 and axis.reach > 4 * axis.size for axis in pool.axes):
        return  # nearly all padding: scratch rows would be as long as the window
    error = tolerance(pool.reduction, x.dtype, pool.norm)
    for layout in layouts(pool.channels_last, target):
        results = (y, TensorType(INT64, y.shape)) if pool.index else (y,)

        def problem(x: View, outputs: Sequence[View], layout: Layout = layout) -> PoolProblem:
            return problem_of(pool, layout, x, *outputs)

        yield from algorithm_lowerings(problem, layout, x, results, target, error)


def algorithm_lowerings(
    problem: Callable[[View, Sequence[View]], PoolProblem],
    layout: Layout,
    x: TensorType,
    results: Types,
    target: Target,
    error: float,
) -> Iterator[Lowering]:
    """One lowering per algorithm that serves the problem, the quickest by estimate first.

    Estimates are for tensors that fill their buffers; `planned` says what happens to tensors with a halo.
    """
    x_view, *views = (
        View(kind, layout, dense_strides(kind.shape, layout), Slot(SlotKind.ARENA, 0))
        for kind in (x, *results)
    )
    asked = algorithms_for(problem(x_view, views))
    extensions = {each.name: each.extension for each in asked}
    for name, candidate in candidates(problem(x_view, views), target, asked).items():

        def call(x: View, *outputs: View, name: str = name) -> Call:
            return offered(name, problem(x, outputs), target, asked).build(x, *outputs)

        layouts = (layout,), (layout,) * len(results)
        seconds = candidate.seconds(target)
        yield Lowering.of_call(name, *layouts, call, seconds, error, extension=extensions[name])


def _may_overflow(reduction: str, dtype: np.dtype[Any], window: Sequence[int]) -> bool:
    """Whether the 32-bit sums of 8-bit integers could overflow: such windows are left to the reference."""
    return reduction == SUM and dtype.itemsize == 1 and math.prod(window) > 1 << 23


def _is_reasonable(pool: Pool, x: TensorType) -> bool:
    """Whether scratch rows, which hold the padding too, stay small, and no dilated row of a window is unrolled into
    thousands of instructions. Windows of 2^31 elements, or as far apart, are left to the reference."""
    *outer, row = pool.axes
    if row.dilation > 1 and row.window > WIDEST_DILATED:
        return False
    columns = minimum(row.out, 4 * row.reach + STRIP) * row.stride + 3 * row.reach
    rows = OTHER_ROWS + math.prod(axis.window for axis in outer)
    step = x.shape[-1] if pool.channels_last else 64 // x.dtype.itemsize
    spans = [axis.reach + axis.out * axis.stride for axis in pool.axes]
    return rows * columns * step * 4 <= SCRATCH and all(span < 1 << 31 for span in spans)


def layouts(channels_last: bool, target: Target) -> list[Layout]:
    """The layouts that pools are computed in."""
    return [PLAIN] if channels_last else [Layout(target.lanes()), PLAIN]


def tolerance(reduction: str, dtype: np.dtype[Any], norm: int) -> float:
    """Tolerance of results: 0 (the same bits) for maxima and minima, else the error of sums."""
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
        scale = Scale.of(shares, divided_type(pool, x.type.dtype), _left_out(pool, axes))
    return PoolProblem(
        pool.reduction,
        x.type.dtype,
        geometry_of(pool, axes),
        memory,
        scale,
        pool.nan,
        pool.norm,
        pool.rounding,
        index_layout(pool, axes, x, indices) if indices else None,
        fixed_step=layout.is_blocked,
        accumulate=pool.accumulate if pool.reduction == SUM else None,
    )


def divided_type(pool: Pool, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type whose sums are divided."""
    return FLOAT64 if pool.accumulate == "float64" else dtype


# The operator's axis behind planes, rows, columns; None: missing.
Axes = tuple[int | None, int | None, int | None]


def arranged(pool: Pool, x: View, y: View) -> tuple[Axes, Memory]:
    """Axes of planes, rows and columns, and the layout in memory.

    Axes of one element are left out where the memory allows it, so that a column of 1000 rows is taken as a row. One
    whose size is not known yet stays.
    """
    first = 1 if pool.channels_last else 2
    step = x.layout.lanes or (x.shape[-1] if pool.channels_last else 1)
    steps = [view.strides[first : first + len(pool.axes)] for view in (x, y)]
    kept = [
        index
        for index, axis in enumerate(pool.axes)
        if is_size(axis.size) or is_size(axis.out) or axis.size > 1 or axis.out > 1
    ] or [len(pool.axes) - 1]
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
    """Steps that make up an index, and strides of the array of indices."""
    first = 1 if pool.channels_last else 2
    plane, row = (0 if axis is None else indices.strides[first + axis] for axis in axes[:2])
    channel = 0 if pool.channels_last else indices.strides[1]
    return IndexLayout(_steps(pool, axes, x), (indices.strides[0], channel, plane, row))


def _steps(pool: Pool, axes: Axes, x: View) -> tuple[int, int, int, int, int]:
    """Increments of an index per plane, row, column, batch and channel."""
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
    return math.prod(float(pool.counts[index][0]) for index in range(len(pool.axes)) if index not in axes)
