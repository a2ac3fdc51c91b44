"""A change of memory layout as an operator: the compiler puts it where producer and consumer differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds, strided_seconds
from cenote.kernels.layout.memcpy import memcpy_call
from cenote.kernels.layout.reorder import reorder_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import require
from cenote.ops.values import seeded


def channels_first_order(rank: int) -> tuple[int, ...]:
    """(N, *spatial, C) to (N, C, *spatial)."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last_order(rank: int) -> tuple[int, ...]:
    """(N, C, *spatial) to (N, *spatial, C)."""
    return (0, *range(2, rank), 1)


@dataclass(frozen=True)
class Reorder(Op):
    """The same tensor in another layout, or at another place in the same layout; any type. With an `order`, that of
    channels first or last, axis i of the output is axis `order[i]` of x besides.

    Plain to channel-blocked and back is for (N, C, *spatial) with 1 to 3 spatial axes. Which lowering is
    meant shows in the layouts; a halo of the blocked side is left as it is (the placement owns it).
    """

    order: tuple[int, ...] | None = None

    name = "reorder"
    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        return (
            TensorType(x.dtype, x.shape if self.order is None else tuple(x.shape[a] for a in self.order)),
        )

    def compute(self, x: Array) -> Arrays:
        return (x.copy() if self.order is None else np.ascontiguousarray(x.transpose(self.order)),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require("reorder", inputs[0], "x")
        if x.dtype.itemsize not in (1, 2, 4, 8):
            return
        if self.order is not None:
            yield from self._turned(x, target)
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

    def _turned(self, x: TensorType, target: Target) -> Iterator[Lowering]:
        """Yield conversions between maps with channels last and maps in blocks of channels, in one step."""
        if x.rank not in (3, 4, 5):
            return
        seconds, first = strided_seconds(2 * x.nbytes), channels_first_order(x.rank)
        for lanes in dict.fromkeys((target.lanes(x.dtype), target.lanes())):
            if self.order == first:
                yield Lowering("channels_first", (PLAIN,), (Layout(lanes),), _bind_turned, seconds)
            if self.order == channels_last_order(x.rank):
                yield Lowering("channels_last", (Layout(lanes),), (PLAIN,), _bind_turned, seconds)

    def operations(self, outputs: Types, x: TensorType) -> int:
        return 0

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        if self.order is None:
            return (box,)
        return (Box(tuple(box.ranges[self.order.index(axis)] for axis in range(len(self.order)))),)

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
        for shape in [
            (2, 6, 33),
            (2, 17, 40, 3),
            (1, 4, 6, 33),
            (1, 2, 5, 3, 18),
            (2, 3, 1, 16),
            (1, 4, 4, 1),
        ]:
            yield Sample(Reorder(channels_first_order(len(shape))), (seeded(shape, 1),), "to channels first")
            turned = tuple(shape[axis] for axis in channels_first_order(len(shape)))
            yield Sample(Reorder(channels_last_order(len(shape))), (seeded(turned, 1),), "to channels last")
        for dtype in (np.int32, np.int64, np.float64, np.float16, np.int8):
            yield Sample(Reorder((0, 2, 3, 1)), (seeded((1, 19, 3, 5), 1, dtype),), np.dtype(dtype).name)
            yield Sample(Reorder((0, 3, 1, 2)), (seeded((1, 3, 5, 19), 1, dtype),), np.dtype(dtype).name)
            yield Sample(Reorder(), (seeded((2, 11, 5, 9), 1, dtype),), np.dtype(dtype).name)


def _bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
    return [reorder_call(present(inputs[0]), outputs[0])]


def _bind_turned(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
    x, y = present(inputs[0]), outputs[0]
    plain, blocked = (x, y) if y.layout.is_blocked else (y, x)
    strides = tuple(plain.strides[axis] for axis in channels_first_order(len(plain.shape)))
    turned = replace(plain, type=TensorType(plain.type.dtype, blocked.shape), strides=strides)
    return [reorder_call(turned, y) if y.layout.is_blocked else reorder_call(x, turned)]


def _bind_copy(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
    x, y = present(inputs[0]), outputs[0]
    if not x.layout.is_blocked:  # a view's elements lie as its input's, whatever its shape
        x = replace(x, type=y.type, strides=y.strides)
    return [memcpy_call(x, y)]
