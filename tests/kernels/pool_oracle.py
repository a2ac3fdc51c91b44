"""The obvious pooling loop in float64, independent of the kernels and of the operators, and a way to run calls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Slot, View, buffer_elements, dense_strides
from cenote.kernels.pool_plan import Geometry, Memory, windowed
from tests.harness import Buffer, launch, pack, unpack


def output_size(size: int, window: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    return (size + sum(pads) - dilation * (window - 1) - 1) // stride + 1


def geometry(size: Any, window: Any, stride: Any, dilation: Any, pads: Any) -> Geometry:
    """A geometry whose output size follows from begin and end pads."""
    out = tuple(output_size(*axis) for axis in zip(size, window, stride, dilation, pads, strict=True))
    begins = tuple(begin for begin, _ in pads)
    return Geometry(tuple(size), out, tuple(window), tuple(stride), tuple(dilation), begins)


def pooled(
    x: Array, g: Geometry, kind: str, pads: Any = None, include_pad: bool = True, nan: str = "propagate"
) -> Array:
    """x: (N, C, planes, rows, columns). `kind`: max, min, sum, avg."""
    wide = (
        x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(object if kind == "sum" else x.dtype)
    )
    y = np.zeros((*x.shape[:2], *g.out), wide.dtype)
    for at in itertools.product(*map(range, g.out)):
        taps, count = [], 1
        for axis in range(3):
            first = at[axis] * g.stride[axis] - g.pad[axis]
            every = [first + t * g.dilation[axis] for t in range(g.window[axis])]
            taps.append([t for t in every if 0 <= t < g.size[axis]])
            low, high = (
                (-g.pad[axis], g.size[axis] + pads[axis][1]) if include_pad and pads else (0, g.size[axis])
            )
            count *= sum(low <= t < high for t in every)
        values = wide[:, :, taps[0]][:, :, :, taps[1]][..., taps[2]].reshape(*x.shape[:2], -1)
        if nan == "ignore" and kind in ("max", "min"):
            values = np.where(np.isnan(values), -np.inf if kind == "max" else np.inf, values)
        y[(..., *at)] = {"max": np.max, "min": np.min, "sum": np.sum, "avg": np.sum}[kind](values, axis=-1)
        if kind == "avg":
            y[(..., *at)] /= count
    return y


def run_pool(
    x: Array, g: Geometry, reduction: str, target: Target, *, layout: str = "plain", chunk: int = 0,
    scale: Any = (None, None), nan: str = "propagate",
) -> Array | None:  # fmt: skip
    """Pool x (N, C, planes, rows, columns) by the kernel; None if there is none for the geometry."""
    batch, channels = x.shape[:2]
    y_type = TensorType.of(
        x.dtype if reduction != "sum" or x.dtype.kind == "f" else x.dtype, (batch, channels, *g.out)
    )
    lanes = target.lanes(x.dtype)
    if layout == "last":
        return _run_last(x, g, reduction, target, y_type, chunk, scale, nan)
    form = Layout(lanes=lanes) if layout == "blocked" else PLAIN
    views, buffers = [], []
    for type in (TensorType.of(x.dtype, x.shape), y_type):
        buffers.append(Buffer(buffer_elements(type.shape, form) * type.dtype.itemsize))
        views.append(View(type, form, dense_strides(type.shape, form), Slot("arena", len(buffers) - 1)))
    pack(x, form, buffers[0])
    planes = -(-channels // lanes) if form.is_blocked else channels
    memory = Memory(
        batch, planes, views[0].strides[:4], views[1].strides[:4], lanes if form.is_blocked else 1
    )
    call = windowed(
        reduction, x.dtype, g, memory, target, *views, scale=scale, nan=nan, blocked=form.is_blocked
    )
    if call is None:
        return None
    launch(call, buffers, target, chunk)
    for buffer in buffers:
        buffer.check(call.spec.symbol)
    return unpack(buffers[1], y_type, form)


def _run_last(
    x: Array,
    g: Geometry,
    reduction: str,
    target: Target,
    y_type: TensorType,
    chunk: int,
    scale: Any,
    nan: str,
) -> Array | None:
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    channels = x.shape[1]
    shape = (x.shape[0], *g.out, channels)
    buffers = [Buffer(last.nbytes), Buffer(int(np.prod(shape)) * x.dtype.itemsize)]
    pack(last, PLAIN, buffers[0])
    views = [
        View(TensorType.of(x.dtype, s), PLAIN, dense_strides(s), Slot("arena", i))
        for i, s in enumerate((last.shape, shape))
    ]
    strides = [(v.strides[0], 0, v.strides[1], v.strides[2]) for v in views]
    memory = Memory(x.shape[0], 1, strides[0], strides[1], channels)
    call = windowed(reduction, x.dtype, g, memory, target, *views, scale=scale, nan=nan)
    if call is None:
        return None
    launch(call, buffers, target, chunk)
    for buffer in buffers:
        buffer.check(call.spec.symbol)
    return np.moveaxis(unpack(buffers[1], TensorType.of(x.dtype, shape), PLAIN), -1, 1)


__all__ = ["geometry", "pooled", "run_pool"]
