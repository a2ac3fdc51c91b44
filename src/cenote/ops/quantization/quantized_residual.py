"""Convolution of bytes with a residual, as the pass `passes/quantization/residuals.py` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.kernels.base import present
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.residual import Residual
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import require_kind
from cenote.ops.conv.conv import Conv
from cenote.ops.quantization.byte_sum import agreeing_factors, bytes_of
from cenote.ops.quantization.convolution_lowerings import convolution_lowerings
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import QLinearConv, check_bytes
from cenote.ops.values import seeded

_ADDED = split_words("residual residual_scale residual_zero_point sum_scale sum_zero_point")
T = TypeVar("T", TensorType, Array)
_OWN = 8  # operands of the convolution before those


@dataclass(frozen=True)
class QLinearConvAdd(Op):
    """QLinearConv's result and a residual of its shape, both dequantised, added and quantised, each step with the bits
    of the operators one after another.

    `conv` gives bytes at y_scale around y_zero_point first. Scales and zero points of the residual and of the sum are
    scalars, the scales float32; `bounds`: the least and the largest number of the result, where they are not those of
    its type.
    """

    conv: QLinearConv = field(default_factory=QLinearConv)
    bounds: tuple[int, int] | None = None

    name = "qlinear_conv_add"
    operands = (*QLinearConv.operands[:_OWN], *_ADDED, "bias?")

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return self.conv.operations(outputs, *self._own(self.arranged(inputs))) + 4 * outputs[0].size

    def types(self, *inputs: TensorType | None) -> Types:
        (own,) = self.conv.infer(*self._own(inputs))
        residual, *numbers = map(present, inputs[_OWN : _OWN + len(_ADDED)])
        for value, what in ((residual, "residual"), (numbers[-1], "sum_zero_point")):
            check_bytes(self.name, value, what)
        if residual.shape != own.shape:
            raise ShapeError(
                f"{self.name}: residual {residual} must have the convolution's shape {list(own.shape)}"
            )
        for value, what in zip(numbers, _ADDED[1:], strict=True):
            if value.size != 1:
                raise ShapeError(f"{self.name}: '{what}' must be a scalar, got {value}")
        for scale in (present(inputs[6]), numbers[0], numbers[2]):
            require_kind(self.name, scale, "f", "scale")
        return (TensorType(numbers[-1].dtype, own.shape),)

    def compute(self, *inputs: Array | None) -> Arrays:
        scale, zero, residual, residual_scale, residual_zero, sum_scale, sum_zero = map(
            present, inputs[6 : _OWN + len(_ADDED)]
        )
        own = self.conv.compute(*self._own(inputs))
        floats = [
            DequantizeLinear().compute(value, by.reshape(()), around.reshape(()))[0]
            for value, by, around in (
                (*own, scale, zero),
                (residual, residual_scale, residual_zero),
            )
        ]
        (y,) = QuantizeLinear().compute(floats[0] + floats[1], sum_scale.reshape(()), sum_zero.reshape(()))
        return (y if self.bounds is None else np.clip(y, *self.bounds),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        given = self.arranged(inputs)
        problem = self.conv.problem(self._own(given), target)
        numbers = [each.value for each in given[_OWN + 1 : _OWN + len(_ADDED)]]
        if problem is None or given[_OWN].dtype != given[_OWN + 4].dtype or any(x is None for x in numbers):
            return
        residual = _numbers(problem.levels, present(given[6].value), *numbers)
        if residual is None:
            return
        zero = present(numbers[-1])
        limits = np.iinfo(zero.dtype)
        bounds = self.bounds or (limits.min, limits.max)
        if target.has_fma:
            residual = Residual(
                *residual[:-1], factors=_factors(residual, zero.dtype, int(zero.item()), bounds)
            )
        yield from convolution_lowerings(
            replace(
                problem,
                inputs=inputs,
                zero=int(zero.item()),
                bounds=bounds,
                added=_OWN,
                residual=residual,
            )
        )

    def _own(self, inputs: Sequence[T | None]) -> list[T | None]:
        """The convolution's operands."""
        own = list(inputs[:_OWN])
        own.append(inputs[-1])
        return own

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        scales = [np.array(each, np.float32) for each in (0.5, 0.75, 90.0, 70.0, 80.0)]
        for kind, bounds, zeros in ((np.uint8, None, (121, 3, 9)), (np.int8, (-3, 100), (-7, 11, -3))):
            own, other, last = (np.array(zero, kind) for zero in zeros)
            x, w = seeded((2, 20, 9, 10), 1, kind), seeded((24, 20, 3, 3), 2, np.int8)
            front = (x, scales[0], np.array(zeros[1], kind), w, scales[1], np.array(-2, np.int8))
            back = (seeded((2, 24, 9, 10), 3, kind), scales[3], other, scales[4], last)
            conv = QLinearConv(Conv(pads=((1, 1), (1, 1))))
            inputs = (*front, scales[2], own, *back, seeded((24,), 4, np.int32))
            yield Sample(cls(conv, bounds), inputs, f"3x3, {np.dtype(kind)}")
        zero, offset = np.array(0, np.uint8), np.array(100, np.uint8)
        one = (
            seeded((1, 24, 7, 5), 6, np.uint8),
            scales[0],
            zero,
            seeded((40, 24, 1, 1), 5, np.int8),
            scales[1],
        )
        added = (seeded((1, 40, 7, 5), 7, np.uint8), scales[3], offset, scales[4], np.array(17, np.uint8))
        op = cls(QLinearConv(bounds=(100, 255)))
        yield Sample(op, (*one, np.array(0, np.int8), scales[2], offset, *added), "pointwise")


def _numbers(
    levels: Levels, own: Array, residual: Array, zero: Array, total: Array, _: Array
) -> Residual | None:
    """The numbers of an addition in float32; None where a scale is no ordinary factor, so that sums may be infinite or
    NaN."""
    scales = [own, residual, total]
    if any(each.dtype != FLOAT32 for each in scales):
        return None
    least, most = np.finfo(np.float32).tiny, np.finfo(np.float32).max / 1024
    if not all(least <= each.item() <= most for each in scales):
        return None
    return Residual(levels.low, levels.high, own.item(), int(zero.item()), residual.item(), total.item())


@lru_cache(256)  # the table takes a millisecond, and algorithms are listed several times in a load
def _factors(
    residual: Residual, dtype: np.dtype[Any], zero: int, bounds: tuple[int, int]
) -> tuple[float, float, float] | None:
    """Numbers by which two multiply-adds have the bits of the steps, for all pairs of the convolution's numbers, from
    their zero point, and the residual's bytes, of the sum's type `dtype`; None where none have."""
    own = np.arange(residual.own_low, residual.own_high + 1, dtype=np.float32)
    other = bytes_of(dtype).astype(np.float32)
    scales = (np.float32(residual.own_scale), np.float32(residual.residual_scale))
    sums = own[:, None] * scales[0] + (other - np.float32(residual.residual_zero)) * scales[1]
    with np.errstate(over="ignore"):  # infinities become bounds
        whole = np.rint(sums / np.float32(residual.sum_scale)) + zero
    table = np.clip(whole, *bounds).astype(dtype)
    first, second = residual.own_scale / residual.sum_scale, residual.residual_scale / residual.sum_scale
    near = (first, second, -residual.residual_zero * second)
    return agreeing_factors(table, own, other, near, bounds, zero)
