"""Softmax and LogSoftmax along one axis, or (before opset 13) over all axes from one on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.softmax import softmax_call
from cenote.ops.base import Arrays, Box, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import normalize_axis, require, require_float
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.values import hostile, narrow, seeded, wide


class _Softmax(Op):
    """Base: the sum of exp(x - maximum) runs over `axis`; with `flatten` over `axis` and all after it.

    A line of nothing but -infinity gives NaN, as the formula does; so does one with NaN or +infinity in it.
    """

    axis: int
    flatten: bool

    def axes(self, rank: int) -> tuple[int, ...]:
        """The axes that a sum runs over."""
        if self.flatten and self.axis == rank:
            return ()  # the old coercion to (everything, 1)
        first = normalize_axis(self.name, self.axis, rank)
        return tuple(range(first, rank)) if self.flatten else (first,)

    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        require_float(self.name, x.dtype)
        self.axes(x.rank)
        return (TensorType(x.dtype, x.shape),)

    def logarithm(self, x: Array) -> tuple[Array, Array]:
        """x minus the largest, and the sum of its exponentials."""
        axes = self.axes(x.ndim)
        shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        return shifted, np.sum(np.exp(shifted), axis=axes, keepdims=True)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "input")
        axes = self.axes(x.rank)
        if not axes:
            return

        seconds = pass_seconds(4 * x.nbytes, 30 * x.size)
        call = partial(softmax_call, axes=axes, logarithm=self.name == "log_softmax", target=target)
        yield Lowering.of_call(
            "three_passes", (PLAIN,), (PLAIN,), call, seconds, error_of(1e-6, x.dtype), in_place=(0,)
        )

    def operations(self, outputs: Types, x: TensorType) -> int:
        return 24 * x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require(self.name, inputs[0], "input")
        ranges = list(box.ranges)
        for axis in self.axes(x.rank):
            ranges[axis] = (0, x.shape[axis])
        return (Box(tuple(ranges)),)


@dataclass(frozen=True)
class Softmax(_Softmax):
    """exp(x) / sum(exp(x)) along an axis, computed without overflow."""

    name = "softmax"
    from_onnx = {"Softmax": lambda node: _decode(node, Softmax)}
    axis: int = -1
    flatten: bool = False

    def compute(self, x: Array) -> Arrays:
        shifted, total = self.logarithm(wide(x))
        return (narrow(np.exp(shifted) / total, x.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return _samples(cls)


@dataclass(frozen=True)
class LogSoftmax(_Softmax):
    """x - log(sum(exp(x))) along an axis, computed without overflow."""

    name = "log_softmax"
    from_onnx = {"LogSoftmax": lambda node: _decode(node, LogSoftmax)}
    axis: int = -1
    flatten: bool = False

    def compute(self, x: Array) -> Arrays:
        shifted, total = self.logarithm(wide(x))
        return (narrow(shifted - np.log(total), x.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return _samples(cls)


def _decode(node: Imported, op: type[Softmax] | type[LogSoftmax]) -> Op:
    node.expect("axis")
    old = node.opset < 13
    return op(int(node.get("axis", 1 if old else -1)), flatten=old)


def _samples(op: type[Softmax] | type[LogSoftmax]) -> Iterable[Sample]:
    for shape in ((5, 33), (1, 1000), (2, 11, 5, 7), (3, 8, 1, 1), (7,), (2, 0, 3), (0, 4), (3, 1)):
        yield Sample(op(), (seeded(shape),))
    for axis in (0, 1, 2, -1):
        yield Sample(op(axis), (seeded((2, 11, 5, 7)),))
        yield Sample(op(axis, flatten=True), (seeded((2, 11, 5, 7)),))
    yield Sample(op(1), (seeded((1, 21, 9, 17)),))
    yield Sample(op(), (seeded((4, 19)) * np.float32(80.0),), f"{op.name} large")
    yield Sample(op(), (hostile((6, 9)),), f"{op.name} special")
    long = seeded((2, 70001)) * np.float32(9)
    long[1, :50000] = -np.inf
    yield Sample(op(), (long,), f"{op.name} long")
    infinite = np.full((2, 9), -np.inf, np.float32)
    infinite[1, 4] = 1.0
    yield Sample(op(), (infinite,), f"{op.name} -inf")
    for dtype in (np.float64, np.float16, "bfloat16"):
        yield Sample(op(1), (seeded((2, 9, 5), 1, np.dtype(dtype)),))
