"""The mean of whole maps of bytes, quantised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, View, buffer_elements, dense_strides, present
from cenote.kernels.cost_model import LAUNCH, moved_seconds
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call, operand_of
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.pool.common import SUM
from cenote.kernels.pool.whole_map import Maps, Reduce, partials, whole_maps
from cenote.ops.base import Arrays, Box, Lowering, Op, Sample, Types
from cenote.ops.pool.algorithms import layouts
from cenote.ops.pool.map_lowerings import maps_of
from cenote.ops.quantization.quantize import saturated
from cenote.ops.quantization.quantized_linear import check_rescaled, flat
from cenote.ops.values import seeded, wide

_INT32 = np.dtype(np.int32)
_MOST = 1 << 23  # elements of a map whose sum fits 32 bits


@dataclass(frozen=True)
class QLinearGlobalAveragePool(Op):
    """Mean over all spatial axes of quantised x (N, C, *spatial), quantised: (N, C, 1, …).

    round((sum - count * x_zero_point) * (x_scale / (count * y_scale))) + y_zero_point: sums are exact, then every step
    is rounded to float32, and halves to even. Scales and zero points are scalars.
    """

    name = "qlinear_global_average_pool"
    operands = split_words("x x_scale x_zero_point y_scale y_zero_point")

    def types(
        self, x: TensorType, x_scale: TensorType, x_zero: TensorType, y_scale: TensorType, y_zero: TensorType
    ) -> Types:
        check_rescaled(self.name, x, x_scale, x_zero, y_scale, y_zero)
        if x.rank < 3 or 0 in x.shape[2:]:
            raise ShapeError(f"{self.name}: needs batch, channels and elements of maps, got {list(x.shape)}")
        return (TensorType(y_zero.dtype, (*x.shape[:2], *(1,) * (x.rank - 2))),)

    def compute(self, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Arrays:
        count = math.prod(x.shape[2:])
        sums = x.astype(np.int64).sum(axis=tuple(range(2, x.ndim)), keepdims=True) - count * int(
            x_zero.item()
        )
        mean = sums.astype(np.float32) * _factor(count, x_scale, y_scale)
        return (saturated(wide(mean), flat(y_zero), y_zero.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, *known = (present(each) for each in self.arranged(inputs))
        values = [each.value for each in known]
        (y,) = self.infer(*inputs)
        count = math.prod(x.shape[2:])
        if any(each is None for each in values) or is_size(count) or not x.size or count > _MOST:
            return
        x_scale, x_zero, y_scale, y_zero = map(present, values)
        offset = np.array(count * int(x_zero.item()), np.int32)
        parameters = [offset.reshape(1), _factor(count, x_scale, y_scale).reshape(1), y_zero.reshape(1)]
        reduce = Reduce(SUM, x.dtype, result=_INT32)
        for layout in layouts(False, target):
            sums = TensorType(_INT32, (buffer_elements(y.shape, layout),))
            dense = Maps(x.shape[0], x.shape[1], (0, 0), (0, 0), count)
            between = None if layout.is_blocked else partials(reduce, dense)

            def bind(
                views: Sequence[View | None], outputs: Sequence[View], layout: Layout = layout
            ) -> Sequence[Call]:
                source, (result, memory, *pieces) = present(views[0]), outputs
                strides = dense_strides(y.shape, layout)
                total = View(TensorType(_INT32, y.shape), Layout(layout.lanes), strides, memory.slot)
                maps = maps_of(source, total, False)
                calls = whole_maps(reduce, maps, target, source, total, pieces[0] if pieces else None)
                scalars = [Operand(each, (0,) * len(result.strides), is_scalar=True) for each in parameters]
                operands = [operand_of(total, result), *scalars]
                return [*calls, elementwise_call(_scaling(y.dtype), (), operands, result, target)]

            seconds = 2 * LAUNCH + moved_seconds(2 * x.nbytes)
            rest = (None,) * (len(inputs) - 1)
            memory = (sums, between) if between else (sums,)
            yield Lowering("sums", (layout, *rest), (layout,), bind, seconds, temporaries=memory)

    def operations(self, outputs: Types, x: TensorType, *scales: TensorType) -> int:
        return x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x, *rest = (present(each) for each in inputs)
        whole = Box((*box.ranges[:2], *((0, extent) for extent in x.shape[2:])))
        return (whole, *(Box.whole(each.shape) for each in rest))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        scales = (np.array(0.05, np.float32), np.array([0.031], np.float32))
        for x, y in ((np.uint8, np.uint8), (np.int8, np.int8), (np.uint8, np.int8)):
            rest = (scales[0], np.array(3, x), scales[1], np.array(-5 if y is np.int8 else 7, y))
            for shape in ((2, 19, 5, 7), (1, 16, 7, 7), (1, 3, 300, 301), (2, 9, 11), (1, 5, 2, 3, 4)):
                yield Sample(cls(), (seeded(shape, 1, x), *rest))
        full = np.full((1, 20, 9, 9), 255, np.uint8)
        yield Sample(
            cls(), (full, scales[0], np.array(0, np.uint8), scales[1], np.array(0, np.uint8)), "largest"
        )
        yield Sample(
            cls(), (full[:0], scales[0], np.array(0, np.uint8), scales[1], np.array(0, np.uint8)), "no images"
        )


def _factor(count: int, x_scale: Array, y_scale: Array) -> Array:
    """The factor from sums to numbers of y, each step in float32."""
    with np.errstate(all="ignore"):
        divisor = np.float32(count) * flat(y_scale.astype(np.float32))
        return np.asarray(flat(x_scale.astype(np.float32)) / divisor, np.float32)


def _scaling(dtype: np.dtype) -> Expression:
    """Bytes of a sum, what is taken off it, the factor, and the zero point of the result."""
    limits = np.iinfo(dtype)
    steps = (
        Step("sub", (0, 1), _INT32),
        Step("cast", (4,), FLOAT32),
        Step("mul", (5, 2), FLOAT32),
        Step("cast", (3,), _INT32),
        Step("quantized", (6, 7), _INT32, (int(limits.min), int(limits.max))),
        Step("cast", (8,), dtype),
    )
    return Expression(4, steps)
