"""A change of memory layout as an operator: the compiler puts it where producer and consumer differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds, strided_seconds
from cenote.kernels.layout.memcpy import memcpy_call
from cenote.kernels.layout.reorder import reorder_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import require
from cenote.ops.values import seeded


@dataclass(frozen=True)
class Reorder(Op):
    """The same tensor in another layout, or at another place in the same layout; any type.

    Plain to channel-blocked and back is for (N, C, *spatial) with 1 to 3 spatial axes. Which lowering is
    meant shows in the layouts; a halo of the blocked side is left as it is (the memory plan owns it).
    """

    name = "reorder"
    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        return (x.copy(),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require("reorder", inputs[0], "x")
        if x.dtype.itemsize not in (1, 2, 4, 8):
            return
        copy = pass_seconds(2 * x.nbytes)
        yield Lowering("copy", (PLAIN,), (PLAIN,), _bind_copy, copy)
        if x.rank not in (3, 4, 5):
            return
        seconds = strided_seconds(2 * x.nbytes)
        # Pools block other types as they block float32: the indices of a maximum lie as the maximum does.
        for lanes in dict.fromkeys((target.lanes(x.dtype), target.lanes())):
            blocked = Layout(lanes)
            yield Lowering("to_blocked", (PLAIN,), (blocked,), _bind, seconds)
            yield Lowering("to_plain", (blocked,), (PLAIN,), _bind, seconds)
            yield Lowering("copy_blocked", (blocked,), (blocked,), _bind_copy, copy)

    def operations(self, outputs: Types, x: TensorType) -> int:
        return 0

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        return (box,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        shapes = [
            (1, 16, 9, 9),
            (2, 3, 5, 8),
            (1, 20, 7, 7),
            (1, 1, 1, 1),
            (2, 9, 17),
            (1, 5, 3, 4, 10),
            (1, 8, 0, 3),
        ]
        for shape in shapes:
            yield Sample(Reorder(), (seeded(shape, 1),), "float32")
        for dtype in (np.int32, np.int64, np.float64, np.float16, np.int8):
            yield Sample(Reorder(), (seeded((2, 11, 5, 9), 1, dtype),), np.dtype(dtype).name)


def _bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
    return [reorder_call(present(inputs[0]), outputs[0])]


def _bind_copy(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
    x, y = present(inputs[0]), outputs[0]
    if not x.layout.is_blocked:  # a view's elements lie as its input's, whatever its shape
        x = replace(x, type=y.type, strides=y.strides)
    return [memcpy_call(x, y)]
