"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: floats as small numbers and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOATS, Array, TensorType, is_float
from cenote.kernels.elementwise.expression import Expression
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import normalize_axis, read, require_same_dtype
from cenote.ops.elementwise.cast import FLOAT8, SCALE8, SMALL_FLOATS, SMALL_INTEGERS, converted
from cenote.ops.elementwise.pointwise import Function, Pointwise, pointwise_lowerings
from cenote.ops.quantization.quantize_lowerings import (
    WEIGHT,
    dequantizing,
    dynamic_lowerings,
    quantizing,
    scaled_lowerings,
)
from cenote.ops.values import narrow, seeded

UINT8 = np.dtype(np.uint8)
_INTEGERS = {
    **SMALL_INTEGERS,
    **{name: (np.iinfo(name).min, np.iinfo(name).max) for name in ("int8", "uint8", "int16", "uint16")},
}
QUANTIZED = frozenset(_INTEGERS) | FLOAT8 | SMALL_FLOATS


class Scaled(Pointwise):
    """Base of QuantizeLinear and DequantizeLinear: with one scale for all elements they are links of chains."""

    axis: int
    block: int

    operands = ("x", "scale", "zero_point?")
    # A scale per index of an axis is not broadcast as operands of elementwise operators are.
    region = Op.region

    def _expression(
        self, x: TensorType, scale: TensorType, zero: TensorType | None, output: TensorType
    ) -> Expression | None:
        """Formula that a kernel applies to each element; None if no kernel does."""
        raise NotImplementedError

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        x, scale, zero = self.arranged(inputs)
        parameters = [each for each in (scale, zero) if each is not None]
        if any(each.size != 1 or each.rank > min(1, x.rank) for each in parameters):
            return None
        made = self._expression(x, scale, zero, self.infer(*inputs)[0])
        if made is None:
            return None
        return Function(made, (), tuple(range(1 + len(parameters))), weight=WEIGHT, exact=True)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, scale, zero = self.arranged(inputs)
        (output,) = self.infer(*inputs)
        function = self.function(inputs)
        if function is not None:
            yield from pointwise_lowerings(function, inputs, output, target)
            return
        made = self._expression(x, scale, zero, output)
        yield from scaled_lowerings(made, inputs, output, *_where(self, x, scale), target)


@dataclass(frozen=True)
class QuantizeLinear(Scaled):
    """round(x / scale) + zero point, bounded to the quantized type; halves round to even.

    Scale and zero point have one shape: a scalar, one number per index of `axis`, or (with `block`) one per
    block of that many elements along it. The result's type is the zero point's, else `dtype`, else uint8.
    The division is rounded to `precision`, else to the scale's type. To 8-bit floats, `saturate` bounds
    instead of overflowing. NaN gives the zero point in an integer type, which ONNX leaves open.
    """

    axis: int = 1
    block: int = 0
    dtype: np.dtype[Any] | None = None
    precision: np.dtype[Any] | None = None
    saturate: bool = True

    name = "quantize_linear"
    from_onnx = {
        "QuantizeLinear": lambda node: read(
            QuantizeLinear, node, "axis", "precision", "saturate", block="block_size", dtype="output_dtype"
        )
    }

    def types(self, x: TensorType, scale: TensorType, zero_point: TensorType | None) -> Types:
        for value in (x, scale):
            if not is_float(value.dtype) and value.dtype.name not in ("int32", SCALE8):
                raise DTypeError(f"{self.name}: type {value.dtype} is not supported (floats and int32 are)")
        dtype = self.dtype or UINT8
        if zero_point is not None:
            if self.dtype not in (None, zero_point.dtype):
                raise DTypeError(
                    f"{self.name}: output type {self.dtype} differs from zero point {zero_point}"
                )
            dtype = zero_point.dtype
        if dtype.name not in QUANTIZED:
            raise DTypeError(f"{self.name}: {dtype} is no quantized type; give a zero point of one")
        if self.precision is not None and self.precision not in FLOATS:
            raise DTypeError(f"{self.name}: precision {self.precision} is no float type")
        _check_scale(self.name, x, scale, zero_point, self.axis, self.block)
        return (TensorType(dtype, x.shape),)

    def _expression(
        self, x: TensorType, scale: TensorType, zero: TensorType | None, output: TensorType
    ) -> Expression | None:
        return quantizing(x, scale, zero, output) if self.precision in (None, scale.dtype) else None

    def compute(self, x: Array, scale: Array, zero_point: Array | None) -> Arrays:
        (result,) = self.declared(x, scale, zero_point)
        default = scale.dtype if is_float(scale.dtype) else np.dtype(np.float64)
        kind = self.precision or (FLOAT32 if scale.dtype.name == SCALE8 else default)
        spread = spread_scale(scale, x.shape, self.axis, self.block)
        # Rounding x and the scale first, then the quotient, is what a division in that type does.
        quotient = narrow(_float64(narrow(x, kind)) / _float64(narrow(spread, kind)), kind).astype(np.float64)
        zero = None if zero_point is None else spread_scale(zero_point, x.shape, self.axis, self.block)
        return (saturated(quotient, zero, result.dtype, self.saturate),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = np.array([[-1000, -1.5, -0.5, 0.5], [1.5, 2.5, 1000, np.inf]], np.float32)
        one = np.array(1.0, np.float32)
        for dtype in (np.uint8, np.int8, np.uint16, np.int16):
            yield Sample(QuantizeLinear(), (x, one, np.array(3, dtype)), f"to {np.dtype(dtype)}")
        yield Sample(QuantizeLinear(), (x, np.array([2.0], np.float32), None), "no zero point")
        y, scales = seeded((2, 3, 5)) * 50, np.array([0.5, 2.0, 0.25], np.float32)
        yield Sample(QuantizeLinear(-2), (y, scales, np.array([0, -7, 9], np.int8)), "per axis")
        blocks = np.abs(seeded((2, 3, 3), 1)) + 0.1
        yield Sample(QuantizeLinear(2, 2, np.dtype(np.int16)), (y, blocks), "blocks")
        yield Sample(QuantizeLinear(), (seeded((0, 3)), scales), "empty")
        half = (y.astype(np.float16), scales.astype(np.float16), np.array([1, 2, 3], np.uint8))
        yield Sample(QuantizeLinear(), half, "half")
        wide, many = seeded((3, 40, 37), 4) * 30, np.abs(seeded((37,), 5)) + np.float32(0.1)
        for dtype in (np.uint8, np.int8, np.uint16, np.int16):
            zeros = seeded((37,), 6, dtype)
            yield Sample(QuantizeLinear(2), (wide, many, zeros), f"last axis to {np.dtype(dtype)}")
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 2.5, 3.5, -2.5, 1e30, -1e30] * 5, np.float32)
        yield Sample(QuantizeLinear(), (odd, one, np.array(7, np.int8)), "odd numbers")
        tens = np.abs(seeded((3, 4, 37), 7)) + np.float32(0.1)
        yield Sample(QuantizeLinear(1, 10, np.dtype(np.int8)), (wide, tens), "blocks of ten")


@dataclass(frozen=True)
class DequantizeLinear(Scaled):
    """(x - zero point) * scale in type `dtype`, else in the scale's type. Scales as in QuantizeLinear."""

    axis: int = 1
    block: int = 0
    dtype: np.dtype[Any] | None = None

    name = "dequantize_linear"
    from_onnx = {
        "DequantizeLinear": lambda node: read(
            DequantizeLinear, node, "axis", block="block_size", dtype="output_dtype"
        )
    }

    def folds_late(self, inputs: Sequence[TensorType | None]) -> bool:
        return True

    def types(self, x: TensorType, scale: TensorType, zero_point: TensorType | None) -> Types:
        require_same_dtype(self.name, x, zero_point)
        if x.dtype.name not in QUANTIZED and x.dtype.name != "int32":
            raise DTypeError(f"{self.name}: {x} is of no quantized type")
        dtype = self.dtype or scale.dtype
        if dtype not in FLOATS or not (is_float(scale.dtype) or scale.dtype.name == SCALE8):
            raise DTypeError(f"{self.name}: scale {scale} and result {dtype} must be of float type")
        _check_scale(self.name, x, scale, zero_point, self.axis, self.block)
        return (TensorType(dtype, x.shape),)

    def _expression(
        self, x: TensorType, scale: TensorType, zero: TensorType | None, output: TensorType
    ) -> Expression | None:
        return dequantizing(x, scale, zero, output)

    def compute(self, x: Array, scale: Array, zero_point: Array | None) -> Arrays:
        (result,) = self.declared(x, scale, zero_point)
        values = _float64(x)
        if zero_point is not None:
            values = values - _float64(spread_scale(zero_point, x.shape, self.axis, self.block))
        y = values * _float64(spread_scale(scale, x.shape, self.axis, self.block))
        return (narrow(y, result.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        scale = np.array(0.1, np.float32)
        for dtype in (np.uint8, np.int8, np.uint16, np.int16):
            yield Sample(DequantizeLinear(), (seeded((2, 3), 1, dtype), scale, np.array(3, dtype)))
        yield Sample(DequantizeLinear(), (np.array([2**31 - 1, -3], np.int32), scale, None), "int32")
        x, scales = seeded((2, 3, 5), 1, np.int8), np.array([0.5, 2.0, 0.25], np.float32)
        yield Sample(DequantizeLinear(), (x, scales, np.array([1, -2, 3], np.int8)), "per axis")
        blocks = (seeded((2, 3, 2), 2), seeded((2, 3, 2), 3, np.int8))
        yield Sample(DequantizeLinear(-1, 3), (x, *blocks), "blocks")
        yield Sample(DequantizeLinear(dtype=np.dtype(np.float16)), (x, scale, None), "to half")
        yield Sample(DequantizeLinear(), (seeded((0, 3), 1, np.int8), scales), "empty")
        wide, many = seeded((3, 40, 37), 4, np.uint8), np.abs(seeded((40,), 5)) + np.float32(0.1)
        yield Sample(DequantizeLinear(1), (wide, many, seeded((40,), 6, np.uint8)), "middle axis")
        sums = seeded((3, 40, 37), 4, np.int32) * 12345
        yield Sample(DequantizeLinear(1), (sums, many, None), "sums of a layer")
        tens = np.abs(seeded((3, 4, 37), 7)) + np.float32(0.1)
        yield Sample(DequantizeLinear(1, 10), (wide, tens, seeded((3, 4, 37), 8, np.uint8)), "blocks of ten")


@dataclass(frozen=True)
class DynamicQuantizeLinear(Op):
    """uint8 with the scale and zero point that just hold the data and 0. Outputs: y, scale, zero point.

    The scale and the quotients are rounded to the data's type, as ONNX's expansion of the operator does.
    """

    name = "dynamic_quantize_linear"
    operands = ("x",)
    from_onnx = {"DynamicQuantizeLinear": lambda node: read(DynamicQuantizeLinear, node)}

    def types(self, x: TensorType) -> Types:
        if x.dtype not in (FLOAT32, np.float64):
            raise DTypeError(f"{self.name}: type {x.dtype} is not supported (float32 and float64 are)")
        return TensorType(UINT8, x.shape), TensorType(x.dtype, ()), TensorType(UINT8, ())

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,) = self.arranged(inputs)
        yield from dynamic_lowerings(x, self.infer(*inputs), target)

    def compute(self, x: Array) -> Arrays:
        high, low = x.max(initial=0), x.min(initial=0)
        scale = np.asarray((high - low) / x.dtype.type(255))
        if not scale:
            scale = np.asarray(x.dtype.type(1))  # all zero: any scale will do
        zero_point = np.asarray(np.rint(np.nan_to_num(np.clip(-low / scale, 0, 255)))).astype(np.uint8)
        return saturated((x / scale).astype(np.float64), zero_point, UINT8), scale, zero_point

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for x in (seeded((3, 4)), np.abs(seeded((5,))) + 1, -np.abs(seeded((5,))) - 1, seeded((0, 2))):
            yield Sample(DynamicQuantizeLinear(), (x,))
        yield Sample(DynamicQuantizeLinear(), (np.zeros((2, 2), np.float32),), "zeros")
        yield Sample(DynamicQuantizeLinear(), (seeded((3, 41, 1031)) * 7 - 2,), "in pieces")


def saturated(x: Array, zero_point: Array | None, dtype: np.dtype[Any], saturate: bool = True) -> Array:
    """float64 values rounded to a quantized type around its zero point, bounded to its range."""
    if dtype.name in _INTEGERS:
        low, high = _INTEGERS[dtype.name]
        zero = 0 if zero_point is None else zero_point.astype(np.int64)
        bounded = np.clip(np.rint(np.where(np.isnan(x), 0, x)), -(2.0**40), 2.0**40)
        whole: Array = np.clip(bounded.astype(np.int64) + zero, low, high).astype(np.int32)
        return np.asarray(whole.astype(dtype))
    shifted = x if zero_point is None else x + _float64(zero_point)
    return converted(shifted, dtype, saturate)


def spread_scale(scale: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or zero point in a shape that broadcasts with the data."""
    if block and scale.ndim == len(shape):
        return np.asarray(np.repeat(scale, block, axis).take(range(shape[axis]), axis))
    if scale.size == 1 and scale.ndim < 2:
        return scale.reshape(())
    after = len(shape) - normalize_axis("quantize", axis, len(shape)) - 1
    return scale.reshape((-1,) + (1,) * after)


def _where(op: Scaled, x: TensorType, scale: TensorType) -> tuple[int, int]:
    """The axis and the block of a scale, as far as it has several numbers."""
    block = op.block if op.block and scale.rank == x.rank else 0
    single = scale.size == 1 and not block
    return (0 if single else normalize_axis(op.name, op.axis, x.rank)), block


def _check_scale(
    op: str, x: TensorType, scale: TensorType, zero_point: TensorType | None, axis: int, block: int
) -> None:
    one = ((), (1,))
    if (
        zero_point is not None
        and zero_point.shape != scale.shape
        and not {zero_point.shape, scale.shape} <= set(one)
    ):
        raise ShapeError(f"{op}: zero point {zero_point} and scale {scale} must have one shape")
    if scale.shape in one and not block:
        return
    place = normalize_axis(op, axis, x.rank)
    if block < 0:
        raise ArgumentError(f"{op}: block {block} is negative")
    wanted = (
        (*x.shape[:place], -(-x.shape[place] // block), *x.shape[place + 1 :])
        if block
        else x.shape[place : place + 1]
    )
    if scale.shape != wanted:
        raise ShapeError(f"{op}: scale {scale} must be a scalar or have shape {list(wanted)} for {x}")


def _float64(x: Array) -> Array:
    """Array of any quantized type as float64; NumPy converts the smallest types only by way of int8."""
    if x.dtype.name in SMALL_INTEGERS:
        x = x.astype(np.int8)
    elif x.dtype.kind not in "iufb":
        x = x.astype(np.float32)
    return np.asarray(x, np.float64)
