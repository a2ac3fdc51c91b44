"""Concatenation along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import LAUNCH, pass_seconds
from cenote.kernels.layout.copy import box_of, can_copy, copy_call
from cenote.ops.base import Alias, Arrays, Box, Cost, Lowering, Op, Sample, Types
from cenote.ops.checks import normalize_axis, read, require_same_dtype
from cenote.ops.values import hostile, seeded


@dataclass(frozen=True)
class Concat(Op):
    """One or more tensors of one type one after another along `axis`; their other axes are equal."""

    name = "concat"
    operands = ("x*",)
    from_onnx = {"Concat": lambda node: read(Concat, node, "axis")}
    axis: int

    def types(self, *types: TensorType) -> Types:
        dtype, rank = require_same_dtype(self.name, *types), types[0].rank
        axis = normalize_axis(self.name, self.axis, rank)
        others = {(*x.shape[:axis], *x.shape[axis + 1 :]) for x in types}
        if any(x.rank != rank for x in types) or len(others) != 1:
            shown = ", ".join(str(list(x.shape)) for x in types)
            raise ShapeError(f"{self.name}: shapes {shown} differ in more than axis {axis}")
        first = types[0].shape
        return (TensorType(dtype, (*first[:axis], sum(x.shape[axis] for x in types), *first[axis + 1 :])),)

    def compute(self, *inputs: Array) -> Arrays:
        return (np.concatenate(inputs, axis=self.axis),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (output,) = self.infer(*inputs)
        types: list[TensorType] = self.arranged(inputs)
        if not can_copy(output.dtype):
            return
        seconds = pass_seconds(2 * output.nbytes) + LAUNCH * (len(types) - 1)
        axis = normalize_axis(self.name, self.axis, output.rank)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            calls, begins = [], [0] * output.rank
            for x in map(present, views):
                calls.append(copy_call(x, box_of(outputs[0], begins, x.shape), target))
                begins[axis] += x.shape[axis]
            return calls

        yield Lowering("copies", (PLAIN,) * len(types), (PLAIN,), bind, seconds)
        lanes = target.lanes(output.dtype)
        whole = all(x.shape[1] % lanes == 0 for x in types[:-1]) if axis == 1 else True
        if 3 <= output.rank <= 5 and is_float(output.dtype) and whole:
            blocked = Layout(lanes)
            yield Lowering("copies_blocked", (blocked,) * len(types), (blocked,), bind, seconds)

    def aliases(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        types: list[TensorType] = self.arranged(inputs)
        first, rank = types[0], types[0].rank
        if any(not x.size for x in types):
            return
        axis, lanes = self.axis % rank, target.lanes(first.dtype)
        aligned = axis == 1 and all(x.shape[1] % lanes == 0 for x in types[:-1])
        if aligned and rank in (3, 4, 5) and lanes == target.lanes():
            yield Lowering.shared(Alias.JOINED, (Layout(lanes),) * len(types), (Layout(lanes),))
        if math.prod(first.shape[:axis]) == 1:
            yield Lowering.shared(Alias.JOINED, (PLAIN,) * len(types), (PLAIN,))

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        (output,) = self.infer(*inputs)
        return Cost(operations=0, bytes=2 * output.nbytes)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        boxes, begin = [], 0
        for x in self.arranged(inputs):
            axis = normalize_axis(self.name, self.axis, x.rank)
            extent, ranges = x.shape[axis], list(box.ranges)
            low, high = (min(max(edge - begin, 0), extent) for edge in ranges[axis])
            ranges[axis] = (low, high)
            boxes.append(Box(tuple(ranges)))
            begin += extent
        return tuple(boxes)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for channels in ((8, 16), (11, 5), (16, 3, 8), (7,), (0, 9, 8), (8, 8, 8, 8)):
            yield Sample(cls(1), tuple(seeded((2, c, 3, 5), i) for i, c in enumerate(channels)))
        yield Sample(cls(0), (seeded((2, 3)), seeded((5, 3))))
        yield Sample(cls(-1), (seeded((2, 9, 3)), seeded((2, 9, 1)), seeded((2, 9, 40))))
        yield Sample(cls(2), (seeded((1, 9, 2, 5)), seeded((1, 9, 7, 5))))
        yield Sample(cls(1), (hostile((2, 8, 5)), hostile((2, 4, 5))), "concat special")
        for dtype in (np.float64, np.float16, np.int64, np.uint8, np.bool_, "bfloat16"):
            yield Sample(
                cls(1), (seeded((2, 9, 3), 1, np.dtype(dtype)), seeded((2, 2, 3), 2, np.dtype(dtype)))
            )
