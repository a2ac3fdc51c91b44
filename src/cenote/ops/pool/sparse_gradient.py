"""Gradients of the pools that are no plain windows: unpooling, fractional, blur, pyramid, and pools of regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import UnsupportedError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import require
from cenote.ops.pool.blur import BORDERS, BlurPool, binomial
from cenote.ops.pool.fractional import FractionalMaxPool
from cenote.ops.pool.gradient import IndexGradient, PoolGradient, check_gradient
from cenote.ops.pool.index_lowerings import gather_lowerings
from cenote.ops.pool.pyramid import SpatialPyramidPool
from cenote.ops.pool.unpool import MaxUnpool, within_plane
from cenote.ops.pool.window import as_declared, channels_first, extremum, spatial_of
from cenote.ops.roi.align import RoiAlign, align_gradient_lowerings, coordinate_type
from cenote.ops.roi.pool import MaxRoiPool, PsRoiPool, bins
from cenote.ops.values import narrow, seeded, wide

Gradient = Callable[[Any, Array, tuple[Array, ...]], Array]
"""(op, gradient of the output, inputs) -> gradient of the first input, in float64 or its type."""


def _unpool(op: MaxUnpool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    """Gradient at the place to which each value was written; of equal indices only the last value was written."""
    above, places = (channels_first(value, op.channels_last) for value in (grad, inputs[1]))
    plane = within_plane(places, above.shape, op.index)
    planes, count = above.shape[0] * above.shape[1], math.prod(plane.shape[2:])
    flat = plane.reshape(planes, count)
    rows = np.arange(planes)[:, None]
    writer = np.full((planes, math.prod(above.shape[2:])), -1)
    writer[rows, flat] = np.arange(count)
    kept = writer[rows, flat] == np.arange(count)
    below = np.where(kept, wide(above).reshape(planes, -1 if planes else 0)[rows, flat], 0.0)
    return as_declared(below.reshape(plane.shape), op.channels_last)


def _fractional(op: FractionalMaxPool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    x, samples = inputs
    _, places = replace(op, return_indices=True).reference(x, samples)
    scatter = IndexGradient(spatial_of(x.shape, op.channels_last), "plane", op.channels_last)
    return scatter.reference(wide(grad), places)[0]


def _blur(op: BlurPool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    """The transposed filter, with the borders folded back onto the elements they were made of."""
    (x,) = inputs
    axes = op.geometry(x.shape)
    above = wide(channels_first(grad, op.channels_last))
    below = np.zeros((*above.shape[:2], *(axis.size for axis in axes)))
    sources = []
    for axis in axes:
        pad: Any = {"mode": BORDERS[op.border]}
        if op.border == "zeros":
            pad["constant_values"] = -1
        sources.append(np.pad(np.arange(axis.size), (axis.begin, axis.end), **pad))
    for tap in np.ndindex(*op.window):
        weight = math.prod(binomial(k)[t] for k, t in zip(op.window, tap, strict=True))
        stops = zip(sources, tap, axes, strict=True)
        places = [column[t : t + (axis.out - 1) * axis.stride + 1 : axis.stride] for column, t, axis in stops]
        real = [place >= 0 for place in places]
        part = above[np.ix_(*map(np.arange, above.shape[:2]), *(np.flatnonzero(r) for r in real))]
        where = np.ix_(*map(np.arange, above.shape[:2]), *(p[r] for p, r in zip(places, real, strict=True)))
        np.add.at(below, where, weight * part)
    return as_declared(below, op.channels_last)


def _pyramid(op: SpatialPyramidPool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    (x,) = inputs
    total = np.zeros(x.shape)
    begin = 0
    for pool in op.pools():
        (y,) = pool.infer(TensorType.of(x.dtype, x.shape))
        first = channels_first(np.empty(y.shape, np.bool_), op.channels_last).shape
        count = math.prod(first[1:])
        part = wide(grad[:, begin : begin + count]).reshape(first)
        total += PoolGradient(pool).reference(as_declared(part, op.channels_last), wide(x))[0]
        begin += count
    return total


def _roi_align(op: RoiAlign, grad: Array, inputs: tuple[Array, ...]) -> Array:
    x, rois, batches = inputs
    below = np.zeros(x.shape)
    real = coordinate_type(x.dtype)
    for box, image, above in zip(rois, batches, wide(grad), strict=True):
        terms = op.terms(wide(x[int(image)]), box, real)
        if terms is None:
            continue
        values, weights, rows, columns = terms
        if op.mode == "avg":
            share = np.ones(values.shape) / (values.shape[3] * values.shape[5])
        else:
            share = _chosen(values, op.max_of_terms)
        for corner in range(4):
            y, xs = rows[corner // 2], columns[corner % 2]
            part = above[:, :, None, :, None] * share[corner] * weights[corner]
            where: Any = (slice(None), y[:, :, None, None], xs[None, None])
            np.add.at(below[int(image)], where, part)
    return below


def _chosen(values: Array, of_terms: bool) -> Array:
    """1 at the source of a bin's maximum: one weighted corner, or all corners of one sample; 0 elsewhere."""
    _, channels, rows, down, columns, across = values.shape
    samples = values if of_terms else values.sum(0, keepdims=True)
    moved = samples.transpose(1, 2, 4, 0, 3, 5).reshape(channels, rows, columns, -1)
    hot = np.arange(moved.shape[-1]) == extremum(moved)[..., None]
    shaped = hot.reshape(channels, rows, columns, len(samples), down, across).transpose(3, 0, 1, 4, 2, 5)
    return np.broadcast_to(shaped, values.shape).astype(np.float64)


def _roi_pool(op: MaxRoiPool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    x, rois = inputs
    below = np.zeros(x.shape)
    for region, (image, (x1, y1, x2, y2)) in enumerate(op.corners(x, rois)):
        rows = bins(y1, max(y2 - y1 + 1, 1), op.output[0], x.shape[2])
        columns = bins(x1, max(x2 - x1 + 1, 1), op.output[1], x.shape[3])
        for position in np.ndindex(*op.output):
            (top, bottom), (left, right) = rows[position[0]], columns[position[1]]
            taps = x[image, :, top:bottom, left:right].reshape(x.shape[1], -1)
            if taps.size:
                hot = np.arange(taps.shape[1]) == extremum(taps)[:, None]
                above = wide(grad[(region, slice(None), *position)])[:, None] * hot
                below[image, :, top:bottom, left:right] += above.reshape(-1, bottom - top, right - left)
    return below


def _ps_roi_pool(op: PsRoiPool, grad: Array, inputs: tuple[Array, ...]) -> Array:
    x, rois = inputs
    below = np.zeros((x.shape[0], grad.shape[1], *op.output, *x.shape[2:]))
    for region, (image, (x1, y1, x2, y2)) in enumerate(op.corners(x, rois)):
        rows = bins(y1, max(y2 - y1, 1), op.output[0], x.shape[2])
        columns = bins(x1, max(x2 - x1, 1), op.output[1], x.shape[3])
        for position in np.ndindex(*op.output):
            (top, bottom), (left, right) = rows[position[0]], columns[position[1]]
            if bottom > top and right > left:
                mean = wide(grad[(region, slice(None), *position)]) / ((bottom - top) * (right - left))
                plane = below[(image, slice(None), *position)]
                plane[:, top:bottom, left:right] += mean[:, None, None]
    return below.reshape(x.shape)


_GRADIENTS: dict[type[Op], Gradient] = {
    MaxUnpool: _unpool,
    FractionalMaxPool: _fractional,
    BlurPool: _blur,
    SpatialPyramidPool: _pyramid,
    RoiAlign: _roi_align,
    MaxRoiPool: _roi_pool,
    PsRoiPool: _ps_roi_pool,
}


@dataclass(frozen=True)
class SparseGradient(Op):
    """Gradient of `forward` with respect to its first input: inputs are grad_output and all inputs of the operator.

    Floats only; sums are taken in float64, in a fixed order, and rounded once.
    """

    forward: Op

    name: ClassVar[str] = "sparse_gradient"
    operands = ("grad_output", "inputs*")

    def in_channels_last(self) -> Op | None:
        """Gradient of the operator with channels last; None if that does not exist."""
        forward = self.forward.in_channels_last()
        return None if forward is None else replace(self, forward=forward)

    def types(self, grad: TensorType, *inputs: TensorType) -> Types:
        if type(self.forward) not in _GRADIENTS:
            raise UnsupportedError(f"{self.name}: {self.forward.name} has no gradient here")
        check_gradient(self.forward.name, grad, self.forward.infer(*inputs)[0])
        return (TensorType(inputs[0].dtype, inputs[0].shape),)

    def compute(self, grad: Array, *inputs: Array) -> Arrays:
        (result,) = self.declared(grad, *inputs)
        return (narrow(_GRADIENTS[type(self.forward)](self.forward, grad, inputs), result.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        if isinstance(self.forward, MaxUnpool) and len(inputs) == 3:
            x = require(self.name, inputs[1], "input")
            counted, _ = self.forward.sizes(x, None)
            last = self.forward.channels_last
            yield from gather_lowerings(inputs, counted, self.forward.index, target, last)
        elif isinstance(self.forward, RoiAlign) and self.forward.mode == "avg":
            yield from align_gradient_lowerings(self.forward, inputs, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        """Samples of the forward operators, those in float32 and of moderate size."""
        for kind in _GRADIENTS:
            for sample in kind.samples():
                arrays = [value for value in sample.inputs if value is not None]
                x = arrays[0]
                if x.dtype != np.float32 or not 0 < x.size < 4000 or len(arrays) < len(sample.inputs):
                    continue
                y = sample.op.infer(*(TensorType.known(value) for value in arrays))[0]
                if isinstance(sample.op, MaxUnpool) and len(arrays) > 2:
                    continue  # output_shape moves the map that indices count in
                yield Sample(cls(sample.op), (seeded(y.shape, 1), *arrays), f"{cls.name} of {sample}")
