"""Channels of one or more tensors in any order: what is left of concat, split and channel shuffle after composition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import shuffle_seconds
from cenote.kernels.layout.channel_gather import Sources, bytes_moved, channel_gather_call
from cenote.ops.base import Arrays, Cost, Lowering, Op, Sample, Types
from cenote.ops.checks import require_same_dtype
from cenote.ops.values import seeded


@dataclass(frozen=True)
class ChannelGather(Op):
    """Channel i of y is channel c of inputs[t], with (t, c) = sources[i]; tensors (N, C_t, *spatial) agree but in C.

    Made by a pass, never by a front end: a chain of Concat, Split and channel shuffles becomes one of these.
    """

    sources: Sources = ()

    name = "channel_gather"
    selects = True
    operands = ("x*",)

    def types(self, *types: TensorType) -> Types:
        dtype = require_same_dtype("channel_gather", *types)
        first = types[0]
        if any(x.rank < 2 or (x.shape[0], x.shape[2:]) != (first.shape[0], first.shape[2:]) for x in types):
            raise ShapeError(
                f"channel_gather: inputs {', '.join(map(str, types))} must agree in all but axis 1"
            )
        for tensor, channel in self.sources:
            if not 0 <= tensor < len(types) or not 0 <= channel < types[tensor].shape[1]:
                raise ArgumentError(f"channel_gather: there is no channel {channel} of input {tensor}")
        return (TensorType(dtype, (first.shape[0], len(self.sources), *first.shape[2:])),)

    def compute(self, *arrays: Array) -> Arrays:
        return (np.stack([arrays[tensor][:, channel] for tensor, channel in self.sources], axis=1),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        first = self.arranged(inputs)[0]
        if first.rank not in (3, 4, 5) or first.dtype.itemsize != 4:
            return
        layout = Layout(target.lanes())
        pixels = first.size // max(1, first.shape[1])
        seconds = shuffle_seconds(bytes_moved(self.sources, pixels))
        yield Lowering("shuffle lanes", (layout,) * len(inputs), (layout,), self._bind, seconds)

    def _bind(self, inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        return [channel_gather_call(self.sources, [x for x in inputs if x is not None], outputs[0])]

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        first = self.arranged(inputs)[0]
        return Cost(0, bytes_moved(self.sources, first.size // max(1, first.shape[1])))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        one, two = seeded((2, 13, 5, 7), 1), seeded((2, 9, 5, 7), 2)
        halves = tuple((i % 2, i // 2) for i in range(18))
        yield Sample(cls(halves), (one, two), "interleave")
        yield Sample(cls(halves[5:14]), (one, two), "part of an interleave")
        yield Sample(
            cls(tuple((0, i) for i in range(13)) + tuple((1, i) for i in range(9))), (one, two), "concat"
        )
        yield Sample(cls(tuple((0, 12 - i) for i in range(13))), (one,), "reverse")
        wide = (seeded((1, 58, 2, 3), 1), seeded((1, 58, 2, 3), 2))
        yield Sample(cls(tuple((i % 2, i // 2) for i in range(116))), wide, "interleave of many blocks")
        yield Sample(cls(((0, 3),)), (seeded((1, 4, 0, 3), 1),), "no rows")
        yield Sample(
            cls(tuple((i % 3, i) for i in range(8))), (one, seeded((2, 8, 5, 7), 3), two), "three tensors"
        )
        yield Sample(cls(((0, 1), (0, 1), (0, 0))), (seeded((1, 2, 9), 1),), "one axis, twice the same")
        yield Sample(cls(((0, 1), (0, 0))), (seeded((1, 2, 2, 3, 4), 1),), "three axes")
