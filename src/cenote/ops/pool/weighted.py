"""Pools that weight the elements of a window by their size: SoftPool, generalised mean, stochastic pooling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, INT64, Array, TensorType
from cenote.kernels.pool.common import MAXIMUM, MINIMUM
from cenote.kernels.pool_variants.soft_pool import PoolSoft
from cenote.ops.base import Arrays, Lowering, Sample, Types
from cenote.ops.pool.map_lowerings import whole_window_lowerings
from cenote.ops.pool.power_lowerings import inner_sum, power_lowerings
from cenote.ops.pool.window import WindowPool, as_declared, channels_first, taps_of
from cenote.ops.random.philox import counted
from cenote.ops.values import narrow, seeded, special, wide


@dataclass(frozen=True)
class FloatWindowPool(WindowPool):
    """Base of pools of floats: their samples."""

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        one, two = ((1, 1), (1, 1)), (2, 2)
        yield Sample(cls(two, two), (seeded((2, 13, 8, 10)),), f"{cls.name} 2x2 s2")
        yield Sample(cls((3, 3), two, one), (seeded((1, 9, 11, 14)),), f"{cls.name} 3x3 s2 p1")
        yield Sample(cls((3, 2), two, one, (2, 1)), (seeded((1, 5, 9, 10)),), f"{cls.name} dilated")
        yield Sample(
            cls((3, 3), two, auto_pad="SAME_LOWER"), (seeded((1, 8, 9, 8)),), f"{cls.name} same lower"
        )
        yield Sample(cls((3,), (2,)), (seeded((2, 6, 17)),), f"{cls.name} 1-D")
        yield Sample(cls((2, 2, 2)), (seeded((1, 3, 4, 5, 6)),), f"{cls.name} 3-D")
        yield Sample(cls(two, two, channels_last=True), (seeded((2, 8, 6, 9)),), f"{cls.name} channels last")
        yield Sample(cls(two, two), (special((1, 9, 8, 15)),), f"{cls.name} special values")
        for dtype in (np.float64, np.float16, BFLOAT16):
            yield Sample(cls((3, 3)), (seeded((1, 3, 6, 9), 0, dtype),), f"{cls.name} {np.dtype(dtype).name}")
        yield Sample(cls(two), (seeded((0, 3, 4, 4)),), f"{cls.name} empty batch")


@dataclass(frozen=True)
class SoftPool(FloatWindowPool):
    """sum x exp(x) / sum exp(x) over each window (Stergiou et al., arXiv 2101.00440), in a form that cannot overflow.

    NaN propagates; infinite elements share the weight of their window, elements of -inf have none.
    """

    name: ClassVar[str] = "soft_pool"

    def combined(self, taps: Array, divisor: int) -> Array:
        top = taps.max(-1, keepdims=True)
        weights = np.where(taps == top, 1.0, np.exp(taps - top))
        total: Array = np.where(weights == 0, 0.0, weights * taps).sum(-1) / weights.sum(-1)
        return total

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        yield from whole_window_lowerings(
            "soft of windows", PoolSoft, self.geometry(x.shape), x, y, target, self.channels_last
        )


@dataclass(frozen=True)
class GemPool(FloatWindowPool):
    """(mean max(x, eps)^p)^(1/p) over each window: the generalised mean (Radenovic et al., arXiv 1711.02512).

    `p` is any number but 0: 1 is the mean, inf the largest value. NaN propagates.
    """

    p: float = 3.0
    eps: float = 1e-6

    name: ClassVar[str] = "gem_pool"

    def types(self, x: TensorType) -> Types:
        if self.p == 0 or math.isnan(self.p):
            raise ArgumentError(f"gem_pool: p must be a number other than 0, got {self.p}")
        if not self.eps > 0:
            raise ArgumentError(f"gem_pool: eps must be positive, got {self.eps}")
        return super().types(x)

    def combined(self, taps: Array, divisor: int) -> Array:
        size = np.maximum(taps, self.eps)
        if math.isinf(self.p):
            extreme: Array = size.max(-1) if self.p > 0 else size.min(-1)
            return extreme
        mean: Array = np.power(np.power(size, self.p).mean(-1), 1 / self.p)
        return mean

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        if not x.size or not y.size:
            return
        axes = self.geometry(x.shape)
        counts = tuple(axis.counts() for axis in axes)
        if math.isinf(self.p):
            reduction = MAXIMUM if self.p > 0 else MINIMUM
            inner = inner_sum(axes, (), x, y, target, self.channels_last, reduction)
        else:
            inner = inner_sum(axes, counts, x, y, target, self.channels_last)
        yield from power_lowerings(inner, x, y, self.p, base="above", floor=self.eps)


@dataclass(frozen=True)
class StochasticPool(WindowPool):
    """One element of each window, drawn with probability max(x, 0) / sum max(x, 0) (Zeiler and Fergus, 1301.3557).

    Where nothing is positive all elements are equally likely; infinite ones share the probability; a window with a
    NaN gives NaN. Instead of a draw, `expected` gives the mean under these probabilities, for use after training.

    The draw of output element i (row-major in (N, C, *out), whatever the layout) takes the first word of
    Philox-4x32-10 (Salmon et al., SC 2011) with counter i and key `seed`: the same bits for any number of threads.
    Indices count within the plane.
    """

    seed: int = 0
    expected: bool = False
    return_indices: bool = False

    name: ClassVar[str] = "stochastic_pool"

    def types(self, x: TensorType) -> Types:
        limits.within(self.name, "seed", self.seed, 0, limits.LARGEST_SEED)
        if self.expected and self.return_indices:
            raise ArgumentError("stochastic_pool: return_indices needs training=True; a mean has no index")
        y = self.pooled(x)
        return (y, TensorType(INT64, y.shape)) if self.return_indices else (y,)

    def compute(self, x: Array) -> Arrays:
        self.declared(x)
        first = channels_first(x, self.channels_last)
        out = tuple(axis.out for axis in self.geometry(x.shape))
        y = np.empty((*first.shape[:2], *out), np.float64)
        places = np.empty(y.shape, INT64)
        draws = uniform(np.arange(y.size), self.seed).reshape(y.shape)
        plane = np.arange(math.prod(first.shape[2:])).reshape(first.shape[2:])
        for position, slices in self.walk(x.shape):
            here: tuple[Any, ...] = (..., *position)
            taps = wide(taps_of(first, slices))
            chances = probabilities(taps)
            if self.expected:
                y[here] = np.where(chances == 0, 0.0, chances * taps).sum(-1)
            else:
                chosen = draw(chances, draws[here])
                y[here] = np.take_along_axis(taps, chosen[..., None], -1)[..., 0]
                places[here] = plane[slices].ravel()[chosen]
            y[here] = np.where(np.isnan(taps).any(-1), np.nan, y[here])
        results = [narrow(y, x.dtype), *([places] if self.return_indices else [])]
        return tuple(as_declared(value, self.channels_last) for value in results)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = seeded((2, 9, 9, 11))
        op = cls((3, 3), (2, 2), ((1, 1), (1, 1)), seed=3)
        yield Sample(op, (x,), "stochastic_pool")
        yield Sample(replace(op, return_indices=True), (x,), "stochastic_pool, indices")
        yield Sample(replace(op, expected=True), (x,), "stochastic_pool expected")
        yield Sample(op, (special((1, 5, 9, 11)),), "stochastic_pool special values")
        yield Sample(replace(op, channels_last=True), (x,), "stochastic_pool channels last")
        yield Sample(cls((2,), (2,)), (seeded((1, 4, 9), 0, np.float64),), "stochastic_pool 1-D")


def probabilities(taps: Array) -> Array:
    """The chance of each of the last axis' elements."""
    with np.errstate(invalid="ignore"):
        infinite = taps == np.inf
        weights = np.where(infinite.any(-1, keepdims=True), infinite.astype(float), np.maximum(taps, 0.0))
    total = weights.sum(-1, keepdims=True)
    possible = np.isfinite(total) & (total > 0)
    return np.asarray(np.where(possible, weights / np.where(possible, total, 1.0), 1.0 / taps.shape[-1]))


def draw(chances: Array, u: Array) -> Array:
    """The first element whose cumulated chance exceeds u; never one without a chance."""
    beyond = (np.cumsum(chances, -1) > u[..., None]) & (chances > 0)
    last = chances.shape[-1] - 1 - (chances[..., ::-1] > 0).argmax(-1)
    chosen: Array = np.where(beyond.any(-1), beyond.argmax(-1), last)
    return chosen


def uniform(counter: Array, seed: int) -> Array:
    """Philox-4x32-10: one number in [0, 1), a multiple of 2^-32, per 64-bit counter (the first of its words)."""
    return np.asarray(counted(counter, seed)[0] * 2.0**-32)
