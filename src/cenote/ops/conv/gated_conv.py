"""A pointwise convolution of a map whose channels are multiplied by a gate: the tail of squeeze-and-excite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.conv.scale_weights import room_for, scaled_calls
from cenote.kernels.cost_model import moved_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.checks import require
from cenote.ops.conv.conv import Conv
from cenote.ops.values import seeded, wide


@dataclass(frozen=True)
class GatedConv(Op):
    """conv(x * gate, w, …): x (N, C, *spatial), gate (N, C, 1, …), then the convolution's other inputs.

    Made by a pass, never by a front end. `conv` has a window of 1, stride 1 and one group. The native kernel multiplies
    the weights, not the map: worth it where a convolution has fewer weights than its input has elements.
    """

    conv: Conv = field(default_factory=Conv)

    name = "gated_conv"
    operands = ("x", "gate", "w", "bias?", "residual?")

    def types(self, x: TensorType, gate: TensorType, w: TensorType, *rest: TensorType | None) -> Types:
        wanted = (*x.shape[:2], *(1,) * (x.rank - 2))
        if gate.shape != wanted or gate.dtype != x.dtype:
            raise ShapeError(f"gated_conv: the gate {gate} must be {TensorType(x.dtype, wanted)}")
        types = self.conv.infer(x, w, *rest)
        shape = self.conv.shape(x, w)
        if not shape.is_pointwise or shape.groups != 1:
            raise ShapeError(
                f"gated_conv: {self.conv} must have a window of 1, stride 1, one group and no pads"
            )
        return types

    def compute(self, x: Array, gate: Array, *rest: Array | None) -> Arrays:
        (result,) = self.conv.reference(wide(x) * wide(gate), *(None if a is None else wide(a) for a in rest))
        return (result.astype(x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, rest = require("gated_conv", inputs[0], "x"), inputs[2:]
        shape = self.conv.shape(x, require("gated_conv", rest[0], "w"))
        if not is_gateable(shape):
            return
        for option in self.conv.lowerings((x, *rest), target):
            if option.name == "direct" and not option.temporaries:  # weights that are constants
                yield self._scaled(option, shape, target)

    def _scaled(self, option: Lowering, shape: ConvShape, target: Target) -> Lowering:
        lanes = target.lanes()

        def bind(inputs: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            calls = option.bind([inputs[0], *inputs[2:]], outputs[:1])
            return scaled_calls(calls, shape.channels, present(inputs[1]), outputs[-1])

        room = room_for(shape.n, shape.channels, shape.filters, lanes)
        return replace(
            option,
            name="direct, weights scaled",
            bind=bind,
            inputs=(option.inputs[0], Layout(lanes), *option.inputs[1:]),
            seconds=option.seconds + moved_seconds(2 * room.nbytes),
            tolerance=2 * option.tolerance,
            temporaries=(room,),
            in_place=tuple(place + 1 for place in option.in_place),
        )

    def operations(self, outputs: Types, x: TensorType, gate: TensorType, *rest: TensorType | None) -> int:
        return self.conv.cost((x, *rest)).operations + x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require("gated_conv", inputs[0], "x")
        first, *rest = self.conv.region(box, (x, *inputs[2:]))
        read = present(first)
        return (read, Box((*read.ranges[:2], *(((0, 1),) * (x.rank - 2)))), *rest)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for label, op, shape, filters in _cases():
            generator = np.random.default_rng(sum(shape))
            gate = generator.uniform(0, 1, (*shape[:2], *(1,) * (len(shape) - 2))).astype(np.float32)
            w = seeded((filters, shape[1], *(1,) * (len(shape) - 2)), 2) / np.float32(np.sqrt(shape[1]))
            inputs: list[Array | None] = [seeded(shape, 1), gate, w, seeded((filters,), 3)]
            if op.residual:
                inputs.append(seeded((shape[0], filters, *shape[2:]), 4))
            yield Sample(cls(op), tuple(inputs), label)


LEAST_PIXELS = 24  # the direct kernel joins smaller maps of a batch, but each image has weights of its own


def is_gateable(shape: ConvShape) -> bool:
    """Whether the scale of an input channel can move into a convolution's weights, row by row."""
    if not shape.is_pointwise or shape.groups != 1:
        return False
    # Maps of a size that is not known yet are not joined.
    return is_size(shape.pixels) or shape.pixels >= LEAST_PIXELS or always_equal(shape.n, 1)


def _cases() -> Iterator[tuple[str, Conv, tuple[int, ...], int]]:
    silu = Activation("silu")
    yield "pairs", Conv(), (1, 32, 9, 8), 16
    yield "pairs and a triple", Conv(residual=True), (1, 24, 7, 5), 40
    yield "ragged", Conv(activation=silu), (2, 20, 6, 5), 13
    yield "small maps of a batch", Conv(), (3, 16, 3, 2), 8
    yield "one pixel", Conv(), (1, 12, 1, 1), 24
    yield "one axis", Conv(residual=True, activation=silu), (1, 9, 30), 7
    yield "three axes", Conv(), (1, 16, 2, 4, 5), 16
    yield "weights in chunks", Conv(), (1, 1100, 4, 7), 16
    yield "empty batch", Conv(), (0, 8, 5, 5), 8
