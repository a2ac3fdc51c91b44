"""Softmax of bytes, quantised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.reduction.byte_softmax import SoftmaxLevels, byte_softmax_call
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.quantization.quantize import saturated
from cenote.ops.quantization.quantized_linear import check_rescaled, flat
from cenote.ops.values import seeded, wide

_LONGEST = 1 << 16  # elements of a line, whose floats wait in scratch
_LEAST_SCALE = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class QLinearSoftmax(Op):
    """Softmax along the last axis of quantised x (any shape but a scalar's), quantised.

    round(softmax((x - x_zero_point) * x_scale) / y_scale) + y_zero_point, halves to even. Scales and zero points are
    scalars.
    """

    name = "qlinear_softmax"
    operands = split_words("x x_scale x_zero_point y_scale y_zero_point")

    def types(
        self, x: TensorType, x_scale: TensorType, x_zero: TensorType, y_scale: TensorType, y_zero: TensorType
    ) -> Types:
        check_rescaled(self.name, x, x_scale, x_zero, y_scale, y_zero)
        if not x.rank:
            raise ShapeError(f"{self.name}: x {x} must have an axis")
        return (TensorType(y_zero.dtype, x.shape),)

    def compute(self, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Arrays:
        floats = (x.astype(np.float64) - float(x_zero.item())) * float(x_scale.item())
        powers = np.exp(floats - floats.max(axis=-1, keepdims=True, initial=-np.inf))
        y = powers / powers.sum(axis=-1, keepdims=True)
        return (saturated(y / wide(flat(y_scale)), flat(y_zero), y_zero.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, *known = (present(each) for each in self.arranged(inputs))
        values = [each.value for each in known]
        if any(each is None for each in values) or not x.size:
            return
        x_scale, _, y_scale, y_zero = (present(each).reshape(()) for each in values)
        ordinary = all(_LEAST_SCALE <= each < np.inf for each in (x_scale, y_scale))
        if not ordinary or is_size(x.shape[-1]) or x.shape[-1] > _LONGEST:
            return
        levels = SoftmaxLevels(float(x_scale), float(y_scale), int(y_zero))

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            return [byte_softmax_call(present(views[0]), outputs[0], levels, target)]

        layouts = (PLAIN, *(None,) * (len(inputs) - 1))
        # A result that lies between two numbers may become either.
        tolerance = 1e-2
        yield Lowering("lines", layouts, (PLAIN,), bind, pass_seconds(10 * x.size, 30 * x.size), tolerance)

    def operations(self, outputs: Types, x: TensorType, *scales: TensorType) -> int:
        return 24 * x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x, *rest = (present(each) for each in inputs)
        return (
            Box((*box.ranges[:-1], (0, x.shape[-1]))),
            *(Box.whole(each.shape) for each in rest),
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        scale = np.array(0.05, np.float32)
        for x, y in ((np.uint8, np.uint8), (np.int8, np.int8), (np.uint8, np.int8)):
            rest = (
                scale,
                np.array(3, x),
                np.array([1 / 256], np.float32),
                np.array(-128 if y is np.int8 else 0, y),
            )
            for shape in ((2, 5, 197), (3, 64), (7,), (5, 1), (2, 1000)):
                yield Sample(cls(), (seeded(shape, 1, x), *rest))
        zero = np.array(0, np.uint8)
        steep = (np.array(1e4, np.float32), zero, np.array(1e-3, np.float32), np.array(200, np.uint8))
        yield Sample(cls(), (seeded((4, 33), 2, np.uint8), *steep), "saturated")
        yield Sample(cls(), (seeded((0, 4), 2, np.uint8), scale, zero, scale, zero), "empty")
