"""Normalisations by statistics of the input itself: over the last axes, over any axes, by a norm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.ops.base import Arrays, Box, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import (
    broadcast_shapes,
    check_accumulate,
    normalize_axis,
    one_of,
    read,
    require,
    require_float,
    require_same_dtype,
)
from cenote.ops.normalization.normalization_lowerings import WIDE, axes_lowerings, form_of, row_lowerings
from cenote.ops.traits import SumOp
from cenote.ops.values import narrow, seeded, wide

STASH = ("stash_type",)


class Normalization(SumOp):
    """Base: x is the first input; `axes` are those the statistics run over, as 0..rank-1."""

    def axes(self, rank: int) -> tuple[int, ...]:
        raise NotImplementedError(f"{type(self).__name__}.axes")

    def operations(self, outputs: Types, *inputs: Any, **unused: Any) -> int:
        return 8 * outputs[0].size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require(self.name, inputs[0], "X")
        ranges = list(box.ranges)
        for axis in self.axes(x.rank):
            ranges[axis] = (0, x.shape[axis])
        return (Box(tuple(ranges)), *(None if p is None else Box.whole(p.shape) for p in inputs[1:]))


def check_way(op: str, accumulate: str | None, x: TensorType) -> None:
    """Refuse types in which statistics cannot be taken."""
    check_accumulate(op, accumulate, x.dtype)
    if accumulate is not None:
        one_of(op, "accumulate", accumulate, WIDE)


def check_epsilon(op: str, epsilon: float) -> None:
    """Refuse NaN. Negative values are allowed, as in PyTorch: results are NaN where they outweigh the variance."""
    if math.isnan(epsilon):
        raise ArgumentError(f"{op}: epsilon is not a number")


def check_dtypes(op: str, x: TensorType, *parameters: TensorType | None) -> None:
    """Floats, and parameters of the input's type, or all of float32 beside a 16-bit input."""
    require_float(op, x.dtype)
    given = [parameter for parameter in parameters if parameter is not None]
    mixed = x.dtype.itemsize == 2 and all(parameter.dtype == FLOAT32 for parameter in given)
    require_same_dtype(op, *given) if given and mixed else require_same_dtype(op, x, *given)


def standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon), the mean, and the second factor."""
    count = np.float64(int(np.prod([x.shape[axis] for axis in axes])))
    mean = np.sum(x, axis=axes, keepdims=True) / count
    variance = np.sum(np.square(x - mean), axis=axes, keepdims=True) / count
    inverse = 1.0 / np.sqrt(variance + epsilon)
    return (x - mean) * inverse, mean, inverse


@dataclass(frozen=True)
class LayerNormalization(Normalization):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, the statistics over `axis` and all axes after it.

    Inputs: x, scale and bias (optional), both broadcast to x and of its type or float32. `outputs` 2 and 3 add mean
    and 1 / deviation, in float32 as ONNX's stash_type 1 says, of the input's shape with 1 in the normalised axes.
    `accumulate` "float64": the statistics are float64 from the first term on, else mostly float32.
    """

    name = "layer_normalization"
    from_onnx = {
        "LayerNormalization": lambda node: read(
            LayerNormalization, stashed(node), "axis", "epsilon", ignored=STASH, counted="outputs"
        )
    }
    axis: int = -1
    epsilon: float = 1e-5
    outputs: int = 1
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(normalize_axis(self.name, self.axis, rank), rank))

    operands = ("x", "scale?", "bias?")

    def types(self, x: TensorType, scale: TensorType | None, bias: TensorType | None) -> Types:
        check_epsilon(self.name, self.epsilon)
        check_way(self.name, self.accumulate, x)
        check_dtypes(self.name, x, scale, bias)
        axes = self.axes(x.rank)
        for parameter in (scale, bias):
            if parameter is not None and broadcast_shapes(self.name, x.shape, parameter.shape) != x.shape:
                raise ShapeError(
                    f"{self.name}: {list(parameter.shape)} does not broadcast to {list(x.shape)}"
                )
        statistics = TensorType(FLOAT32, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))
        return (TensorType(x.dtype, x.shape), statistics, statistics)[: self.outputs]

    def compute(self, x: Array, scale: Array | None, bias: Array | None) -> Arrays:
        types = self.declared(x, scale, bias)
        normalized, mean, inverse = standardized(wide(x), self.axes(x.ndim), self.epsilon)
        y = normalized * (1.0 if scale is None else wide(scale)) + (0.0 if bias is None else wide(bias))
        return tuple(narrow(a, kind.dtype) for a, kind in zip((y, mean, inverse), types, strict=False))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "X")
        form = form_of("layer", self.accumulate, noted="layer" if self.outputs > 1 else "")
        yield from row_lowerings(form, inputs, self.axes(x.rank)[0], self.epsilon, target, self.outputs)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, axis in (
            ((5, 33), -1),
            ((2, 7, 96), -1),
            ((3, 7, 24), -1),
            ((2, 9, 3, 11), 2),
            ((2, 3, 5, 7), 1),
            ((2, 3, 5, 7), 2),
            ((3, 1), -1),
        ):
            last = shape[axis:]
            yield Sample(cls(axis), (seeded(shape, 1), seeded(last, 2), seeded(last, 3)))
        yield Sample(cls(), (seeded((4, 17), 1), seeded((17,), 2), None), "layer_normalization no bias")
        yield Sample(cls(), (seeded((0, 5), 1), seeded((5,), 2), seeded((5,), 3)))
        for outputs in (2, 3):
            yield Sample(cls(outputs=outputs), (seeded((4, 17), 1), seeded((17,), 2), seeded((17,), 3)))
        yield Sample(cls(), (seeded((3, 5000), 1),), "layer_normalization no parameters")
        yield Sample(
            cls(), (seeded((3, 70), 1, np.float16), seeded((70,), 2), seeded((70,), 3)), "float32 scale"
        )
        far = (seeded((4, 17), 1) + np.float32(1000.0), seeded((17,), 2), seeded((17,), 3))
        yield Sample(cls(), far, "far mean")
        yield Sample(cls(accumulate="float64"), far, "far mean, float64")
        yield Sample(
            cls(accumulate="float64"), (seeded((3, 70), 1, np.float16), None, None), "float16, float64"
        )
        yield Sample(
            cls(outputs=3, accumulate="float64"),
            (seeded((2, 5000), 1) * np.float32(1e20), None, None),
            "huge",
        )
        yield Sample(cls(), (seeded((4, 3, 17), 1), seeded((3, 1), 2), seeded((1,), 3)), "odd broadcast")
        for dtype in (np.float64, np.float16, "bfloat16"):
            kind = np.dtype(dtype)
            yield Sample(cls(), (seeded((3, 19), 1, kind), seeded((19,), 2, kind), seeded((19,), 3, kind)))


def stashed(node: Imported) -> Imported:
    """Return the node, if its stash type asks for statistics in float32 or wider."""
    if node.get("stash_type", 1) not in (1, 11):
        raise UnsupportedError(
            f"{node.op}: stash_type {node.get('stash_type')} is not supported (1: float32)"
        )
    return node


@dataclass(frozen=True)
class RMSNormalization(Normalization):
    """x / sqrt(mean of x² + epsilon) * scale; the mean runs over `axis` and all axes after it.

    The output has the scale's element type, which may differ from the input's. `accumulate` as in LayerNormalization.
    """

    name = "rms_normalization"
    from_onnx = {
        "RMSNormalization": lambda node: read(
            RMSNormalization, stashed(node), "axis", "epsilon", ignored=STASH
        )
    }
    axis: int = -1
    epsilon: float = 1e-5
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(normalize_axis(self.name, self.axis, rank), rank))

    operands = ("x", "scale?")

    def types(self, x: TensorType, scale: TensorType | None) -> Types:
        check_epsilon(self.name, self.epsilon)
        check_way(self.name, self.accumulate, x)
        require_float(self.name, x.dtype)
        self.axes(x.rank)
        if scale is None:
            return (TensorType(x.dtype, x.shape),)
        require_float(self.name, scale.dtype)
        if broadcast_shapes(self.name, x.shape, scale.shape) != x.shape:
            raise ShapeError(f"{self.name}: scale {list(scale.shape)} does not broadcast to {list(x.shape)}")
        return (TensorType(scale.dtype, x.shape),)

    def compute(self, x: Array, scale: Array | None) -> Arrays:
        data, axes = wide(x), self.axes(x.ndim)
        count = np.float64(int(np.prod([x.shape[axis] for axis in axes])))
        square = np.sum(np.square(data), axis=axes, keepdims=True) / count
        normalized = data / np.sqrt(square + self.epsilon)
        if scale is None:
            return (narrow(normalized, x.dtype),)
        return (narrow(normalized * wide(scale), scale.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "X")
        form = form_of("rms", self.accumulate)
        yield from row_lowerings(form, inputs, self.axes(x.rank)[0], self.epsilon, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape, axis in (
            ((5, 33), -1),
            ((2, 7, 96), -1),
            ((3, 7, 24), -1),
            ((2, 9, 3, 11), 2),
            ((2, 3, 5, 7), 1),
            ((2, 3, 5, 7), 2),
            ((3, 1), -1),
        ):
            yield Sample(cls(axis), (seeded(shape, 1), seeded(shape[axis:], 2)))
        yield Sample(cls(), (seeded((2, 5000), 1),), "rms_normalization no scale")
        huge = seeded((2, 5000), 1) * np.float32(1e20)
        yield Sample(cls(accumulate="float64"), (huge,), "rms_normalization huge")
        yield Sample(cls(), (seeded((0, 5), 1), seeded((5,), 2)))
        for dtype in (np.float64, np.float16, "bfloat16"):
            yield Sample(cls(), (seeded((3, 19), 1, np.dtype(dtype)), seeded((19,), 2, np.dtype(dtype))))


@dataclass(frozen=True)
class MeanVarianceNormalization(Normalization):
    """(x - mean) / (deviation + 1e-9) over `over`; by default over all axes but the channel's; `accumulate` as in
    LayerNormalization."""

    name = "mean_variance_normalization"
    from_onnx = {"MeanVarianceNormalization": lambda node: read(MeanVarianceNormalization, node, over="axes")}
    over: tuple[int, ...] = (0, 2, 3)
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        axes = sorted({normalize_axis(self.name, axis, rank) for axis in self.over})
        if len(axes) != len(self.over):
            raise ArgumentError(f"{self.name}: axes {list(self.over)} name an axis twice")
        return tuple(axes)

    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        require_float(self.name, x.dtype)
        check_way(self.name, self.accumulate, x)
        self.axes(x.rank)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        data, axes = wide(x), self.axes(x.ndim)
        count = np.float64(np.prod([x.shape[axis] for axis in axes]))
        mean = np.sum(data, axis=axes, keepdims=True) / count
        deviation = np.sqrt(np.square(data - mean).sum(axis=axes, keepdims=True) / count)
        return (narrow((data - mean) / (deviation + 1e-9), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "x")
        yield from axes_lowerings(form_of("layer", self.accumulate, outside=True), x, self.axes(x.rank), 1e-9)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for over in ((0, 2, 3), (1,), (2, 3), (-1,), (0,)):
            yield Sample(cls(over), (seeded((2, 11, 5, 7)),))
        yield Sample(cls((1,)), (seeded((0, 3)),))
        huge = seeded((2, 11, 5, 7)) * np.float32(1e20)
        for over in ((0, 2, 3), (2, 3)):
            yield Sample(cls(over, "float64"), (huge,), "mean_variance_normalization huge")
        yield Sample(cls((0, 1)), (seeded((4, 9), 1, np.float64),))
        for over in ((0, 2), (1,), (2,)):
            yield Sample(cls(over), (seeded((3, 5, 37), 1, np.float16),))


@dataclass(frozen=True)
class LpNormalization(Normalization):
    """x divided by its p-norm along an axis, or by `floor` where the norm is less; a line of zeros stays zero.

    ONNX knows p of 1 and 2; others (0 counts what is not zero, infinities give the largest and least size) are
    PyTorch's. `accumulate` as in LayerNormalization.
    """

    name = "lp_normalization"
    from_onnx = {"LpNormalization": lambda node: _decode_lp(node)}
    axis: int = -1
    p: float = 2
    floor: float = 0.0
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        return (normalize_axis(self.name, self.axis, rank),)

    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        require_float(self.name, x.dtype)
        check_way(self.name, self.accumulate, x)
        if math.isnan(self.p):
            raise ArgumentError(f"{self.name}: p is not a number")
        if not self.floor >= 0:
            raise ArgumentError(f"{self.name}: the least norm {self.floor} is not 0 or more")
        self.axes(x.rank)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        data, axes = wide(x), self.axes(x.ndim)
        norm = np.maximum(norm_of(data, axes, self.p), self.floor)
        return (narrow(np.where(norm == 0, 0.0, data / norm), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "x")
        statistic = {1.0: "l1", 2.0: "l2", math.inf: "largest"}.get(float(self.p))
        if statistic is not None:
            yield from axes_lowerings(form_of(statistic, self.accumulate), x, self.axes(x.rank), self.floor)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for axis in (-1, 0, 1):
            for p in (1, 2, math.inf, 3):
                yield Sample(cls(axis, p), (seeded((2, 11, 5, 7)),))
            yield Sample(cls(axis, 2, 1e-3), (seeded((2, 11, 37), 1, np.float16),))
        yield Sample(cls(-1, 1), (seeded((2, 5000)),))
        for p in (1, 2):
            huge = seeded((2, 11, 37)) * np.float32(1e30)
            yield Sample(cls(-1, p, accumulate="float64"), (huge,), "lp_normalization huge")
        yield Sample(cls(), (np.zeros((3, 9), np.float32),), "lp_normalization zeros")
        yield Sample(cls(), (seeded((2, 0)),))
        yield Sample(cls(1), (seeded((4, 9), 1, np.float64),))


def norm_of(data: Array, axes: tuple[int, ...], p: float) -> Array:
    """The p-norm over axes, which keep an extent of 1."""
    size = np.abs(data)
    if p == 0:
        return np.asarray(np.sum(size != 0, axis=axes, keepdims=True, dtype=np.float64))
    if p == -math.inf:
        return np.asarray(np.min(size, axis=axes, keepdims=True, initial=np.inf))
    if p == math.inf:
        return np.asarray(np.max(size, axis=axes, keepdims=True, initial=0.0))
    return np.asarray(np.sum(size**p, axis=axes, keepdims=True) ** (1.0 / p))


def _decode_lp(node: Imported) -> Op:
    op = read(LpNormalization, node, "axis", "p")
    if op.p not in (1, 2):
        raise UnsupportedError(f"{op.name}: p is {op.p:g}, ONNX knows 1 and 2")
    return op
