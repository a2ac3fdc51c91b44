"""Lp norm of each window, and of a whole map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.options import ACCUMULATIONS
from cenote.core.pool_geometry import AxisWindow
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.pool.common import MAXIMUM, MINIMUM, SUM
from cenote.kernels.pool.whole_map import Reduce
from cenote.ops.base import Decoder, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import check_accumulate
from cenote.ops.pool.algorithms import Pool, window_lowerings
from cenote.ops.pool.map_lowerings import summed_map_lowerings, whole_map_lowerings
from cenote.ops.pool.onnx_attributes import WINDOW_NAMES, window_attributes
from cenote.ops.pool.power_lowerings import inner_sum, multiplied, power_lowerings
from cenote.ops.pool.whole_map import GlobalPool, accumulated_samples
from cenote.ops.pool.window import (
    WindowPool,
)
from cenote.ops.traits import SumOp
from cenote.ops.values import added, seeded


def decode_lp_pool(node: Imported) -> Op:
    """LpPool of ai.onnx 1 (p a float), 2, 11, 18 (+ ceil_mode, dilations), 22."""
    known: tuple[str, ...] = (*WINDOW_NAMES, "p")
    if node.opset >= 18:
        known += ("ceil_mode", "dilations")
    node.expect(*known)
    return LpPool(**window_attributes("lp_pool", node), p=float(node.get("p", 2)))


def decode_global_lp_pool(node: Imported) -> Op:
    """GlobalLpPool of ai.onnx 1 (p a float), 2, 22."""
    node.expect("p")
    return GlobalLpPool(p=float(node.get("p", 2)))


def check_p(op: str, p: float) -> None:
    """ArgumentError unless p can be the p of a norm."""
    if p == 0 or math.isnan(p):
        raise ArgumentError(f"{op}: p must be a number other than 0 (inf gives the largest |x|), got {p}")


@dataclass(frozen=True)
class LpPool(SumOp, WindowPool):
    """(sum |x|^p)^(1/p) over the real elements of each window of x (N, C, *spatial); floats.

    `p` is any number but 0; inf gives the largest |x|, -inf the smallest. NaN propagates. `signed_powers`
    does what PyTorch does: it sums x^p without the absolute value (so p = 1 may be negative, and odd p of
    negative sums is NaN), and multiplies the sums of windows that ceil_mode lets overhang by window / taps
    inside.

    Sums are taken in at least float32 and rounded once: float16 does not overflow unless its result does. `accumulate`
    as in AveragePool: with "float64" no norm within the type's range overflows, nor are squares too small for it lost.
    Sums of powers other than 1 and 2 are float64 anyway.
    """

    p: float = 2.0
    signed_powers: bool = False
    accumulate: str | None = None

    name: ClassVar[str] = "lp_pool"
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"LpPool": decode_lp_pool}

    def types(self, x: TensorType) -> Types:
        check_p(self.name, self.p)
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (self.pooled(x),)

    def divisors(self, shape: tuple[int, ...]) -> Sequence[Sequence[int]]:
        """The elements of a window, those that only ceil_mode adds left out."""
        return [axis.padded_counts() for axis in self.geometry(shape)]

    def combined(self, taps: Array, divisor: int) -> Array:
        if self.signed_powers and math.isfinite(self.p):
            return signed_norm(taps, self.p, math.prod(self.window) / divisor, self.accumulate)
        return norm(taps, self.p, self.accumulate)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        axes = self.geometry(x.shape)
        overhang = tuple(axis.padded_shares() for axis in axes)
        pool = windowed_norm(axes, self.p, self.channels_last, self.signed_powers, overhang)
        if pool is not None:
            pool = replace(pool, accumulate=self.accumulate)
            yield from window_lowerings(pool, x, y, target)
            return
        signed = self.signed_powers
        if x.size and y.size and (multiplied(self.p) or not signed):
            inner = inner_sum(
                axes, overhang if signed else (), x, y, target, self.channels_last, accumulate=self.accumulate
            )
            yield from power_lowerings(inner, x, y, self.p, base="plain" if signed else "absolute")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls)


@dataclass(frozen=True)
class GlobalLpPool(SumOp, GlobalPool):
    """(sum |x|^p)^(1/p) over all spatial axes of x (N, C, *spatial), which become 1; p and `accumulate`
    as in LpPool."""

    p: float = 2.0
    accumulate: str | None = None

    name: ClassVar[str] = "global_lp_pool"
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"GlobalLpPool": decode_global_lp_pool}

    def types(self, x: TensorType) -> Types:
        check_p(self.name, self.p)
        y = self.pooled(x)
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (y,)

    def combined(self, taps: Array, divisor: int) -> Array:
        return norm(taps, self.p, self.accumulate)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        reduce = global_norm(x.dtype, self.p)
        if self.accumulate is not None and self.p in (1.0, 2.0):
            kind = "l1" if self.p == 1.0 else "l2"
            yield from summed_map_lowerings(kind, self.accumulate, x, y, target, self.channels_last)
        elif reduce is not None:
            yield from whole_map_lowerings(reduce, x, y, target, self.channels_last)
        elif x.size:
            inner = inner_sum(None, (), x, y, target, self.channels_last, accumulate=self.accumulate)
            yield from power_lowerings(inner, x, y, self.p, base="absolute")

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for p in (1.0, 2.0, 3.0, math.inf):
            yield Sample(cls(p=p), (seeded((2, 9, 7, 5)),), f"{cls.name} p={p}")
        yield Sample(cls(), (seeded((1, 3, 300, 300), 0, np.float16),), f"{cls.name} float16")
        yield Sample(cls(channels_last=True), (seeded((2, 5, 6, 9)),), f"{cls.name} channels last")
        for p in (1.0, 2.0, 3.0):
            yield from accumulated_samples(cls(p=p))


def norm(taps: Array, p: float, accumulate: str | None = None) -> Array:
    """The p-norm of float64 values over the last axis."""
    size = np.abs(taps)
    if math.isinf(p):
        extreme: Array = size.max(-1) if p > 0 else size.min(-1)
        return extreme
    with np.errstate(all="ignore"):
        total: Array = np.power(added(np.power(size, p), (size.ndim - 1,), accumulate), 1 / p)
    return total


def signed_norm(taps: Array, p: float, scale: float, accumulate: str | None = None) -> Array:
    """PyTorch's lp_pool: the mean of x^p times the full window, to the power of 1/p."""
    with np.errstate(all="ignore"):
        total: Array = np.power(added(np.power(taps, p), (taps.ndim - 1,), accumulate) * scale, 1 / p)
    return total


def _samples(cls: type[LpPool]) -> Iterator[Sample]:
    one, two = ((1, 1), (1, 1)), (2, 2)
    x = seeded((1, 9, 11, 14))
    for p in (1.0, 2.0, 3.0, 1.5, 0.5, math.inf, -math.inf, -1.0):
        yield Sample(cls((3, 3), two, one, p=p), (x,), f"{cls.name} p={p}")
    cases: list[tuple[str, LpPool, Array]] = [
        ("2x2 s2", cls(two, two), seeded((2, 13, 8, 10))),
        ("ceil", cls((3, 3), two, ceil_mode=True), seeded((1, 8, 8, 10))),
        ("signed", cls((3, 3), two, ceil_mode=True, signed_powers=True), seeded((1, 8, 8, 10))),
        ("signed p=1", cls((3, 2), p=1.0, signed_powers=True), seeded((1, 8, 8, 10))),
        ("dilated", cls((3, 2), two, one, (2, 2)), seeded((1, 5, 9, 10))),
        ("same lower", cls((3, 2), two, auto_pad="SAME_LOWER"), seeded((1, 8, 9, 8))),
        ("1-D", cls((3,), (2,), ((1, 1),)), seeded((2, 10, 17))),
        ("3-D", cls((2, 3, 3), (1, 2, 2)), seeded((1, 5, 4, 8, 9))),
        ("channels last", cls((3, 3), two, one, channels_last=True), seeded((2, 11, 9, 13))),
        ("zeros", cls((3, 3)), np.zeros((1, 2, 5, 5), np.float32)),
        ("float64", cls((3, 3)), seeded((1, 3, 6, 9), 0, np.float64)),
        ("float16", cls((3, 3)), seeded((1, 3, 6, 9), 0, np.float16) * np.float16(300)),
        ("bfloat16", cls((3, 3)), seeded((1, 3, 6, 9), 0, BFLOAT16)),
        ("empty batch", cls(two), seeded((0, 3, 4, 4))),
    ]
    for accumulate in ACCUMULATIONS:
        for p in (1.0, 2.0, 3.0):
            cases.append((f"p={p}, {accumulate}", cls((3, 3), two, one, p=p, accumulate=accumulate), x))
        for label, op, array in cases[:4] + cases[6:9] + cases[11:12]:
            cases.append((f"{label}, {accumulate}", replace(op, accumulate=accumulate), array))
    for label, op, array in cases:
        yield Sample(op, (array,), f"{cls.name} {label}")


def windowed_norm(
    axes: Sequence[AxisWindow],
    p: float,
    channels_last: bool,
    signed: bool,
    overhang: tuple[Sequence[float], ...],
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
