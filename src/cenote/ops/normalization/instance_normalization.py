"""Normalisation per channel or per group of channels of each picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require
from cenote.ops.normalization.layer_normalization import (
    STASH,
    Normalization,
    check_dtypes,
    check_epsilon,
    check_way,
    standardized,
    stashed,
)
from cenote.ops.normalization.normalization_lowerings import (
    blocked_lowerings,
    form_of,
    group_lowerings,
)
from cenote.ops.values import narrow, seeded, wide


def _check_per_channel(
    op: str, x: TensorType, scale: TensorType | None, bias: TensorType | None, count: int | None
) -> None:
    """Check that scale and bias have shape [count] (None: the channels)."""
    if x.rank < 2:
        raise ShapeError(f"{op}: the input needs axes (N, C, ...), got {x}")
    check_dtypes(op, x, scale, bias)
    wanted = (x.shape[1] if count is None else count,)
    for what, parameter in (("scale", scale), ("bias", bias)):
        if parameter is not None and parameter.shape != wanted:
            raise ShapeError(f"{op}: {what} is {parameter}, needs shape {list(wanted)} for {x}")


def _per_channel(normalized: Array, scale: Array | None, bias: Array | None) -> Array:
    shape = (1, -1, *[1] * (normalized.ndim - 2))
    if scale is not None:
        normalized = normalized * wide(scale).reshape(shape)
    return normalized if bias is None else normalized + wide(bias).reshape(shape)


@dataclass(frozen=True)
class InstanceNormalization(Normalization):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per item and channel, over all spatial axes;
    `accumulate` as in LayerNormalization."""

    name = "instance_normalization"
    from_onnx = {"InstanceNormalization": lambda node: read(InstanceNormalization, node, "epsilon")}
    epsilon: float = 1e-5
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(2, rank))

    operands = ("x", "scale?", "bias?")

    def types(self, x: TensorType, scale: TensorType | None, bias: TensorType | None) -> Types:
        check_epsilon(self.name, self.epsilon)
        check_way(self.name, self.accumulate, x)
        _check_per_channel(self.name, x, scale, bias, None)
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, scale: Array | None, bias: Array | None) -> Arrays:
        normalized = standardized(wide(x), self.axes(x.ndim), self.epsilon)[0]
        return (narrow(_per_channel(normalized, scale, bias), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "input")
        yield from group_lowerings(
            form_of("layer", self.accumulate), inputs, max(x.shape[1], 1), False, self.epsilon
        )
        yield from blocked_lowerings(inputs, 1, self.epsilon, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in ((2, 11, 5, 7), (1, 8, 1, 1), (3, 9, 17), (1, 3, 2, 3, 5), (0, 3, 4), (2, 3, 33, 31)):
            channels = shape[1:2]
            yield Sample(cls(), (seeded(shape, 1), seeded(channels, 2), seeded(channels, 3)))
        yield Sample(cls(), (seeded((2, 3, 70), 1),), "instance_normalization no parameters")
        huge = seeded((2, 3, 33, 31)) * np.float32(1e20)
        yield Sample(cls(accumulate="float64"), (huge,), "instance_normalization huge")
        for dtype in (np.float64, np.float16, "bfloat16"):
            kind = np.dtype(dtype)
            yield Sample(cls(), (seeded((2, 9, 3, 5), 1, kind), seeded((9,), 2, kind), seeded((9,), 3, kind)))


@dataclass(frozen=True)
class GroupNormalization(Normalization):
    """Like InstanceNormalization, but over `groups` of neighbouring channels together.

    Scale and bias have one entry per channel, or with `per_group` (opset 18 only) one per group. `accumulate` as in
    LayerNormalization.
    """

    name = "group_normalization"
    from_onnx = {"GroupNormalization": lambda node: _decode_group(node)}
    groups: int
    epsilon: float = 1e-5
    per_group: bool = False
    accumulate: str | None = None

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(range(1, rank))

    operands = ("x", "scale?", "bias?")

    def types(self, x: TensorType, scale: TensorType | None, bias: TensorType | None) -> Types:
        check_epsilon(self.name, self.epsilon)
        check_way(self.name, self.accumulate, x)
        _check_per_channel(self.name, x, scale, bias, self.groups if self.per_group else None)
        if self.groups < 1 or x.shape[1] % self.groups:
            raise ArgumentError(f"{self.name}: {x.shape[1]} channels do not split into {self.groups} groups")
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, scale: Array | None, bias: Array | None) -> Arrays:
        size = x.shape[1] // self.groups
        if self.per_group:
            scale, bias = (None if p is None else np.repeat(p, size) for p in (scale, bias))
        grouped = wide(x).reshape(x.shape[0], self.groups, size, *x.shape[2:])
        normalized = standardized(grouped, tuple(range(2, grouped.ndim)), self.epsilon)[0].reshape(x.shape)
        return (narrow(_per_channel(normalized, scale, bias), x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from group_lowerings(
            form_of("layer", self.accumulate), inputs, self.groups, self.per_group, self.epsilon
        )
        if not self.per_group:
            channels = require(self.name, inputs[0], "X").shape[1] // self.groups
            yield from blocked_lowerings(inputs, channels, self.epsilon, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        some = (((2, 12, 5, 7), 3), ((1, 8, 1, 1), 8), ((3, 10, 17), 1), ((2, 6, 3, 3, 2), 2))
        blocks = (
            ((2, 32, 5, 7), 2),
            ((2, 64, 3, 4), 2),
            ((1, 24, 4, 5), 6),
            ((2, 12, 6), 6),
            ((1, 20, 2, 3, 3), 5),
            ((2, 0, 3, 4), 2),
        )
        for shape, groups in (*some, *blocks):
            channels = shape[1:2]
            yield Sample(cls(groups), (seeded(shape, 1), seeded(channels, 2), seeded(channels, 3)))
        yield Sample(cls(2, 1e-5, True), (seeded((2, 6, 4, 4), 1), seeded((2,), 2), seeded((2,), 3)))
        huge = seeded((2, 6, 4, 70), 1) * np.float32(1e20)
        yield Sample(cls(2, accumulate="float64"), (huge, None, None), "group_normalization huge")
        yield Sample(cls(2), (seeded((0, 6, 4), 1), seeded((6,), 2), seeded((6,), 3)))
        for dtype in (np.float64, np.float16):
            kind = np.dtype(dtype)
            yield Sample(
                cls(2), (seeded((2, 6, 3, 5), 1, kind), seeded((6,), 2, kind), seeded((6,), 3, kind))
            )


def _decode_group(node: Imported) -> Op:
    op = read(GroupNormalization, stashed(node), "epsilon", groups="num_groups", ignored=STASH)
    return replace(op, per_group=node.opset < 21)
