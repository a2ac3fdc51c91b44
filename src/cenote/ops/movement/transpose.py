"""Transpose: the same elements with the axes in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require, unique_axes
from cenote.ops.movement.copy_lowerings import strided_lowerings
from cenote.ops.values import seeded


@dataclass(frozen=True)
class Transpose(Op):
    """Axis i of the output is axis `order[i]` of the data; without an order the axes are reversed."""

    order: tuple[int, ...] | None = None

    name = "transpose"
    operands = ("data",)
    from_onnx = {"Transpose": lambda node: read(Transpose, node, order="perm")}

    def axes(self, rank: int) -> tuple[int, ...]:
        """The order as axes 0..rank-1."""
        if self.order is None:
            return tuple(reversed(range(rank)))
        if len(self.order) != rank:
            raise ShapeError(f"transpose: order {list(self.order)} does not name each of {rank} axes once")
        return unique_axes("transpose", self.order, rank)

    def types(self, data: TensorType) -> Types:
        return (TensorType(data.dtype, tuple(data.shape[axis] for axis in self.axes(data.rank))),)

    def compute(self, data: Array) -> Arrays:
        return (np.transpose(data, self.axes(data.ndim)),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        axes = self.axes(require("transpose", inputs[0], "data").rank)
        (output,) = self.infer(*inputs)
        yield from strided_lowerings(inputs, output, lambda strides: (0, [strides[a] for a in axes]), target)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        axes = self.axes(require("transpose", inputs[0], "data").rank)
        return (Box(tuple(box.ranges[axes.index(axis)] for axis in range(len(axes)))),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Transpose(), (seeded((2, 3, 5)),))
        yield Sample(Transpose((0, 2, 3, 1)), (seeded((2, 9, 5, 7)),), "to channels last")
        yield Sample(Transpose((0, 3, 1, 2)), (seeded((1, 5, 7, 9)),), "to channels first")
        yield Sample(Transpose((1, 0)), (seeded((0, 4)),))
        yield Sample(Transpose((-1, 0)), (seeded((3, 1), dtype=np.int8),))
        yield Sample(Transpose(), (seeded(()),))
