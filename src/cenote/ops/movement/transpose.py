"""Transpose: the same elements with the axes in another order; and the copy that it and Expand are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, dense_strides
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.layout.transpose import strided_copy_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import read, require, unique_axes
from cenote.ops.reorder import Reorder
from cenote.ops.values import seeded

Walk = Callable[[tuple[int, ...]], tuple[int, Sequence[int]]]


def strided_lowerings(
    inputs: Sequence[TensorType | None],
    output: TensorType,
    walk: Walk,
    target: Target,
    shape: tuple[int, ...] | None = None,
) -> Iterator[Lowering]:
    """`walk` turns the strides of the first input into where the output starts in it, and its strides there. `shape`:
    axes that the output is walked by, if not its own."""
    if not can_copy(output.dtype) or not output.size:
        return

    def call(x: View, y: View) -> Call:
        start, strides = walk(x.strides)
        if shape is not None:
            y = replace(y, type=TensorType(y.type.dtype, shape), strides=dense_strides(shape))
        return strided_copy_call(x.at(start), strides, y, target)

    rest = (None,) * (len(inputs) - 1)
    yield Lowering.of_call("strided_copy", (PLAIN, *rest), (PLAIN,), call, pass_seconds(3 * output.nbytes))


@dataclass(frozen=True)
class Transpose(Op):
    """Axis i of the output is axis `order[i]` of the data; without an order the axes are reversed.

    `trailing`: the order is that of the last axes alone, those before stay where they are.
    """

    order: tuple[int, ...] | None = None
    trailing: bool = False

    name = "transpose"
    operands = ("data",)
    from_onnx = {
        "Transpose": lambda node: read(Transpose, node, order="perm"),
        "cenote.TransposeLast": lambda node: read(Transpose, node) and Transpose((1, 0), trailing=True),
    }

    def axes(self, rank: int) -> tuple[int, ...]:
        """The order as axes 0..rank-1."""
        if self.order is None:
            return tuple(reversed(range(rank)))
        if self.trailing and len(self.order) <= rank:
            before = rank - len(self.order)
            return (
                *range(before),
                *(before + axis for axis in unique_axes("transpose", self.order, rank - before)),
            )
        if len(self.order) != rank:
            raise ShapeError(f"transpose: order {list(self.order)} does not name each of {rank} axes once")
        return unique_axes("transpose", self.order, rank)

    def types(self, data: TensorType) -> Types:
        return (TensorType(data.dtype, tuple(data.shape[axis] for axis in self.axes(data.rank))),)

    def compute(self, data: Array) -> Arrays:
        return (np.transpose(data, self.axes(data.ndim)),)

    def forwarded(self, inputs: Sequence[TensorType | None]) -> int | None:
        return 0 if self.order and self.order == tuple(range(len(self.order))) else None

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        axes = self.axes(require("transpose", inputs[0], "data").rank)
        (output,) = self.infer(*inputs)
        yield from strided_lowerings(inputs, output, lambda strides: (0, [strides[a] for a in axes]), target)
        if output.size:
            yield from Reorder(axes).lowerings(inputs, target)

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
        yield Sample(Transpose((1, 0), trailing=True), (seeded((2, 3, 4, 5)),), "the last two")
