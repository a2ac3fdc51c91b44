"""Gradients of pools: the vector-Jacobian product of an operator with respect to its input.

Sums run in a fixed order, so a gradient is the same bits on every run. With windows that overlap gradients add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.types import FLOATS, INT64, PLAIN, Array, TensorType
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.gradient_lowerings import gradient_lowerings
from cenote.ops.pool.index_lowerings import scatter_lowerings
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.median import MedianPool
from cenote.ops.pool.unpool import within_plane
from cenote.ops.pool.weighted import GemPool, SoftPool, StochasticPool, draw, probabilities, uniform
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool
from cenote.ops.pool.window import (
    INDEX_RULES,
    MaxPool,
    MinPool,
    as_declared,
    channels_first,
    check_dtype,
    check_rules,
    extremum,
    taps_of,
)
from cenote.ops.traits import MapOp
from cenote.ops.values import narrow, seeded, wide

Slopes = Callable[[Any, Array, tuple[int, ...], tuple[int, ...]], Array]
"""(op, taps (N, C, T), output position, input shape) -> d output / d tap, (N, C, T)."""


def _one_hot(chosen: Array, count: int) -> Array:
    return np.asarray(np.arange(count) == chosen[..., None], np.float64)


def _max_slopes(op: Any, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Slopes of a maximum: 1 at the element whose index the pool returns, 0 elsewhere."""
    largest = not isinstance(op, MinPool)
    return _one_hot(extremum(taps, largest, op.nan), taps.shape[-1])


def _average_slopes(op: AveragePool, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    factors = op.divisors(shape)
    return np.full(taps.shape, 1 / math.prod(column[o] for column, o in zip(factors, position, strict=True)))


def _mean_slopes(op: Any, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    return np.full(taps.shape, 1 / taps.shape[-1])


def _lp_slopes(op: Any, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """x |x|^(p-2) / y^(p-1); a window of zeros has the gradient 0, as in PyTorch."""
    p = op.p
    if math.isinf(p):
        return _one_hot(extremum(np.abs(taps), p > 0), taps.shape[-1]) * np.sign(taps)
    if isinstance(op, LpPool) and op.signed_powers:
        axes = op.geometry(shape)
        scale = math.prod(op.window) / math.prod(
            axis.padded_count(o) for axis, o in zip(axes, position, strict=True)
        )
        total = np.power(taps, p).sum(-1, keepdims=True) * scale
        idle = (total == 0) | ((taps == 0) & (p > 1))
        return np.where(idle, 0.0, scale * np.power(taps, p - 1) * np.power(total, 1 / p - 1))
    size = np.abs(taps)
    total = np.power(size, p).sum(-1, keepdims=True)
    slopes = np.sign(taps) * np.power(size, p - 1) * np.power(total, 1 / p - 1)
    return np.where((total == 0) | (taps == 0), 0.0, slopes) if p >= 1 else np.where(total == 0, 0.0, slopes)


def _soft_slopes(op: SoftPool, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """w_t (1 + x_t - y), with the weights w of the pool."""
    weights = np.exp(taps - taps.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return np.asarray(weights * (1 + taps - (weights * taps).sum(-1, keepdims=True)))


def _gem_slopes(op: GemPool, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    size = np.maximum(taps, op.eps)
    inside = taps >= op.eps
    if math.isinf(op.p):
        return _one_hot(extremum(size, op.p > 0), taps.shape[-1]) * inside
    mean = np.power(size, op.p).mean(-1, keepdims=True)
    slopes = np.power(size, op.p - 1) * np.power(mean, 1 / op.p - 1) / taps.shape[-1]
    return np.where(inside, slopes, 0.0)


def _median_slopes(op: MedianPool, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Slopes of a median: 1 at the middle element, or a half at each of the middle two."""
    order = np.argsort(taps, -1, kind="stable")
    count = taps.shape[-1]
    low, high = order[..., (count - 1) // 2], order[..., count // 2]
    return (_one_hot(low, count) + _one_hot(high, count)) / 2


def _stochastic_slopes(
    op: StochasticPool, taps: Array, position: tuple[int, ...], shape: tuple[int, ...]
) -> Array:
    """Slopes of a drawn element, 1 at that element; with `expected` the derivative of the expectation."""
    chances = probabilities(taps)
    if op.expected:
        total = np.maximum(taps, 0.0).sum(-1, keepdims=True)
        mean = (chances * taps).sum(-1, keepdims=True)
        slopes = np.where(taps > 0, (2 * taps - mean) / np.where(total > 0, total, 1.0), 0.0)
        return np.where(total > 0, slopes, 1 / taps.shape[-1])
    out = tuple(axis.out for axis in op.geometry(shape))
    counters = np.arange(math.prod((*taps.shape[:2], *out))).reshape(*taps.shape[:2], *out)
    here: tuple[Any, ...] = (..., *position)
    return _one_hot(draw(chances, uniform(counters[here], op.seed)), taps.shape[-1])


_SLOPES: dict[type[Op], Slopes] = {
    MaxPool: _max_slopes,
    MinPool: _max_slopes,
    AdaptiveMaxPool: _max_slopes,
    GlobalMaxPool: _max_slopes,
    AveragePool: _average_slopes,
    AdaptiveAveragePool: _mean_slopes,
    GlobalAveragePool: _mean_slopes,
    LpPool: _lp_slopes,
    GlobalLpPool: _lp_slopes,
    SoftPool: _soft_slopes,
    GemPool: _gem_slopes,
    MedianPool: _median_slopes,
    StochasticPool: _stochastic_slopes,
}


@dataclass(frozen=True)
class PoolGradient(Op):
    """Gradient of a pool of one input: inputs are the gradient of its (first) output and its input x; the output has
    x's type. Floats only. Sums are taken in at least float32, in a fixed order, and rounded once.
    """

    forward: Op

    name: ClassVar[str] = "pool_gradient"
    operands = ("grad_output", "input")

    def in_channels_last(self) -> Op | None:
        """Gradient of the operator with channels last; None if that does not exist."""
        forward = self.forward.in_channels_last()
        return None if forward is None else replace(self, forward=forward)

    def types(self, grad: TensorType, x: TensorType) -> Types:
        if type(self.forward) not in _SLOPES:
            raise UnsupportedError(f"{self.name}: {self.forward.name} has no gradient here")
        check_gradient(self.forward.name, grad, self.forward.infer(x)[0])
        return (TensorType(x.dtype, x.shape),)

    def compute(self, grad: Array, x: Array) -> Arrays:
        self.declared(grad, x)
        op: Any = self.forward
        first, above = (wide(channels_first(value, op.channels_last)) for value in (x, grad))
        below = np.zeros(first.shape)
        for position, slices in op.walk(x.shape):
            slopes = _SLOPES[type(op)](op, taps_of(first, slices), position, x.shape)
            here: tuple[Any, ...] = (..., *position)
            # A tap without influence gets none of an infinite or NaN gradient.
            part = np.where(slopes == 0, 0.0, above[here][..., None] * slopes)
            window: tuple[Any, ...] = (..., *slices)
            below[window] += part.reshape(below[window].shape)
        return (narrow(as_declared(below, op.channels_last), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        grad, x = self.arranged(inputs)
        yield from gradient_lowerings(self.forward, grad, x, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        one = ((1, 1), (1, 1))
        pools: list[Op] = [
            MaxPool((3, 3), (2, 2), one),
            MinPool((2, 2), (2, 2), channels_last=True),
            AveragePool((3, 3), (2, 2), one, ceil_mode=True, count_include_pad=True),
            AveragePool((2, 2), (2, 2), channels_last=True),
            LpPool((3, 3), (2, 2), one),
            LpPool((3, 2), (2, 2), p=math.inf),
            SoftPool((2, 2), (2, 2)),
            GemPool((3, 3), (2, 2)),
            MedianPool((3, 3)),
            StochasticPool((3, 3), (2, 2), seed=1),
            AdaptiveMaxPool((3, 4)),
            AdaptiveAveragePool((3, 4)),
            GlobalMaxPool(),
            GlobalAveragePool(channels_last=True),
            GlobalLpPool(p=3.0),
        ]
        for op in pools:
            x = seeded((2, 9, 8, 7))
            (y, *_) = op.infer(TensorType.of(x.dtype, x.shape))
            yield Sample(cls(op), (seeded(y.shape, 1), x), f"{cls.name} of {op.name}")

    def operations(self, outputs: Types, grad: TensorType, x: TensorType) -> int:
        """Twice the operations of the pool."""
        return 2 * self.forward.cost([x]).operations


@dataclass(frozen=True)
class IndexGradient(MapOp):
    """Gradient of a pool whose indices are known: each element of grad_output (N, C, *out) is added to the place that
    its index names in zeros of (N, C, *spatial). `index` as in MaxPool. InputError for an index outside of its plane.
    A third input, the pool's, takes no part.
    """

    spatial: tuple[int, ...]
    index: str = "plane"
    channels_last: bool = False

    name: ClassVar[str] = "index_gradient"
    operands = ("grad_output", "indices", "input?")

    def types(self, grad: TensorType, indices: TensorType, x: TensorType | None) -> Types:
        check_rules(self.name, self.index, "propagate")
        check_dtype(self.name, grad.dtype, FLOATS)
        if indices.dtype != INT64:
            raise DTypeError(f"{self.name}: indices must be int64, got {indices.dtype}")
        if indices.shape != grad.shape or grad.rank != len(self.spatial) + 2:
            raise ShapeError(
                f"{self.name}: indices must have grad_output's shape {list(grad.shape)}, got {list(indices.shape)}"
            )
        last = self.channels_last
        shape = (grad.shape[0], *self.spatial, grad.shape[-1]) if last else (*grad.shape[:2], *self.spatial)
        return (TensorType(grad.dtype, shape),)

    def compute(self, grad: Array, indices: Array, x: Array | None) -> Arrays:
        self.declared(grad, indices)
        above, places = (channels_first(value, self.channels_last) for value in (grad, indices))
        shape = (*above.shape[:2], *self.spatial)
        plane = within_plane(places, shape, self.index)
        planes, count = shape[0] * shape[1], math.prod(above.shape[2:])
        below = np.zeros((planes, math.prod(self.spatial)))
        np.add.at(
            below,
            (np.arange(planes)[:, None], plane.reshape(planes, count)),
            wide(above).reshape(planes, count),
        )
        return (narrow(as_declared(below.reshape(shape), self.channels_last), grad.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from scatter_lowerings(
            inputs,
            self.infer(*inputs)[0],
            self.spatial,
            self.index,
            target,
            adds=True,
            channels_last=self.channels_last,
            rest=PLAIN,
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = seeded((2, 5, 6, 7))
        for rule in INDEX_RULES:
            y, places = MaxPool((3, 3), (2, 2), return_indices=True, index=rule).reference(x)
            yield Sample(cls((6, 7), rule), (seeded(y.shape, 1), places), f"{cls.name} {rule}")
        y, places = MaxPool((2, 2), return_indices=True, channels_last=True).reference(x)
        yield Sample(
            cls((5, 6), channels_last=True), (seeded(y.shape, 1), places), f"{cls.name} channels last"
        )


def check_gradient(op: str, grad: TensorType, y: TensorType) -> None:
    """Raise unless grad_output has the type and shape of the output it belongs to."""
    check_dtype(op, y.dtype, FLOATS)
    if grad.dtype != y.dtype:
        raise DTypeError(f"{op}: grad_output must have the input's type {y.dtype}, got {grad.dtype}")
    if grad.shape != y.shape:
        raise ShapeError(
            f"{op}: grad_output must have the output's shape {list(y.shape)}, got {list(grad.shape)}"
        )
