"""The obvious pooling loop in float64, independent of the kernels and of the operators, and a way to run calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import View, buffer_elements, dense_strides
from cenote.kernels.pool.problem import Candidate, Geometry, Memory, PoolProblem, Scale
from cenote.ops.pool.algorithms import candidates, offered
from cenote.runtime.steps import Slot, SlotKind
from tests.harness import Buffer, launch, pack, unpack

LAYOUTS = ("plain", "blocked", "last")
UNSCALED = Scale()


def chosen(problem: PoolProblem, target: Target) -> Candidate:
    """The quickest by estimate of what serves the problem."""
    return next(iter(candidates(problem, target).values()))


def geometry(
    size: Sequence[int], window: Sequence[int], stride: Sequence[int] = (1, 1, 1), dilation: Sequence[int] = (1, 1, 1),
    pads: Sequence[tuple[int, int]] = ((0, 0),) * 3,
) -> Geometry:  # fmt: skip
    """A geometry whose output size follows from the pads (begin, end)."""
    out = [
        (n + sum(pad) - d * (w - 1) - 1) // s + 1
        for n, w, s, d, pad in zip(size, window, stride, dilation, pads, strict=True)
    ]
    begins = [begin for begin, _ in pads]
    return Geometry(*(tuple(each) for each in (size, out, window, stride, dilation, begins)))  # type: ignore[arg-type]


def pooled(x: Array, g: Geometry, reduction: str, nan: str = "propagate") -> Array:
    """x (N, C, planes, rows, columns) pooled by "max", "min" or "sum" in float64, axis after axis, tap by
    tap of the windows: what lies outside of x counts as the neutral value."""
    y = x.astype(np.float64)
    if nan == "ignore":
        y = np.where(np.isnan(y), -np.inf if reduction == "max" else np.inf, y)
    combine, neutral = {"max": (np.maximum, -np.inf), "min": (np.minimum, np.inf), "sum": (np.add, 0.0)}[
        reduction
    ]
    for a in range(3):
        y = np.moveaxis(y, a + 2, 0)
        around = np.full((g.pad[a] + g.size[a] + max(g.overhang(a), 0), *y.shape[1:]), neutral)
        around[g.pad[a] : g.pad[a] + g.size[a]] = y
        span = (g.out[a] - 1) * g.stride[a] + 1
        y = around[: span : g.stride[a]].copy()
        for tap in range(1, g.window[a]):
            begin = tap * g.dilation[a]
            with np.errstate(invalid="ignore"):
                combine(y, around[begin : begin + span : g.stride[a]], out=y)
        y = np.moveaxis(y, 0, a + 2)
    return y


def has_empty_window(g: Geometry) -> bool:
    """True if some window has no element; kernels are never asked for such."""
    return any(
        all(not 0 <= o * g.stride[a] - g.pad[a] + i * g.dilation[a] < g.size[a] for i in range(g.window[a]))
        for a in range(3)
        for o in range(g.out[a])
    )


def run_pool(
    x: Array, g: Geometry, reduction: str, target: Target, *, layout: str = "plain", chunk: int = 0,
    scale: Scale = UNSCALED, nan: str = "propagate", algorithm: str = "", accumulate: str | None = None,
) -> Array:  # fmt: skip
    """x (N, C, planes, rows, columns) pooled by the algorithm, or the one that comes first, between guard bytes."""
    last = layout == "last"
    form = Layout(lanes=target.lanes()) if layout == "blocked" else PLAIN
    shapes = [x.shape, (*x.shape[:2], *g.out)]
    if last:
        shapes = [(shape[0], *shape[2:], shape[1]) for shape in shapes]
    types = [TensorType.of(x.dtype, shape) for shape in shapes]
    buffers = [Buffer(buffer_elements(type.shape, form) * type.dtype.itemsize) for type in types]
    views = [
        View(type, form, dense_strides(type.shape, form), Slot(SlotKind.ARENA, i))
        for i, type in enumerate(types)
    ]
    pack(np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x, form, buffers[0])
    strides = [v.strides[:4] if not last else (v.strides[0], 0, *v.strides[1:3]) for v in views]
    channels = 1 if last else views[0].blocks if form.is_blocked else x.shape[1]
    step = x.shape[1] if last else max(form.lanes, 1)
    memory = Memory(x.shape[0], channels, strides[0], strides[1], step)  # type: ignore[arg-type]
    problem = PoolProblem(
        reduction, x.dtype, g, memory, scale, nan, fixed_step=form.is_blocked, accumulate=accumulate
    )
    call = (offered(algorithm, problem, target) if algorithm else chosen(problem, target)).build(*views)
    launch(call, buffers, target, chunk)
    for buffer in buffers:
        buffer.check(call.spec.symbol)
    y = unpack(buffers[1], types[1], form)
    return np.moveaxis(y, -1, 1) if last else y
