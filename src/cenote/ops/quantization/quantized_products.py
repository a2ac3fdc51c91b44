"""Products of 8-bit integers: MatMulInteger, QLinearMatMul, and the product whose sums become floats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.quantized.conv import Levels
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require, require_kind, require_same_dtype
from cenote.ops.epilogue import Fusible
from cenote.ops.quantization.product_lowerings import ByteProduct, product_lowerings
from cenote.ops.quantization.quantize import saturated
from cenote.ops.quantization.quantized_linear import INT32, check_bytes, flat, output_scales
from cenote.ops.values import narrow, seeded, wide


class _Product(Op):
    def operations(self, outputs: Types, a: TensorType, *rest: TensorType | None) -> int:
        return 2 * outputs[0].size * a.shape[-1]


@dataclass(frozen=True)
class MatMulInteger(_Product):
    """(a - its zero point) (b - its zero point) of 8-bit integers as int32, which wraps around.

    Zero points are scalars, one per row of a or column of b, or broadcast to them.
    """

    name = "matmul_integer"
    operands = ("a", "b", "a_zero_point?", "b_zero_point?")
    from_onnx = {"MatMulInteger": lambda node: read(MatMulInteger, node)}

    def types(
        self, a: TensorType, b: TensorType, a_zero: TensorType | None, b_zero: TensorType | None
    ) -> Types:
        for x, zero, rows in ((a, a_zero, True), (b, b_zero, False)):
            _check_operand(self.name, x, None, zero, rows)
        return (TensorType(INT32, _matmul_shape(self.name, a, b)),)

    def compute(self, a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Arrays:
        return (_matmul(a, b, a_zero, b_zero).astype(np.int32),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        yield from product_lowerings(ByteProduct(0, 1, 2, 3), self.arranged(inputs), len(inputs), target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a, b = seeded((4, 3), 1, np.uint8), seeded((3, 5), 2, np.int8)
        yield Sample(MatMulInteger(), (a, b))
        yield Sample(MatMulInteger(), (a, b, np.array(12, np.uint8), np.array([-3], np.int8)))
        per = (np.array([1, 2, 3, 4], np.uint8), np.array([5, 4, 3, 2, 1], np.int8))
        yield Sample(MatMulInteger(), (a, b, *per), "per row and column")
        yield Sample(MatMulInteger(), (seeded((2, 0, 3), 1, np.int8), b.astype(np.uint8)), "empty")
        yield Sample(MatMulInteger(), (seeded((3,), 1, np.int8), b), "vector")
        large, matrix = extremes((2, 13, 67), 1, np.uint8), extremes((67, 83), 2, np.uint8)
        ends = (np.array(255, np.uint8), np.array([0], np.uint8))
        yield Sample(MatMulInteger(), (large, matrix, *ends), "u8 by u8, zero points at the ends")
        yield Sample(
            MatMulInteger(), (large.view(np.int8), matrix, np.array(-128, np.int8), None), "s8 by u8"
        )
        zeros = seeded((83,), 3, np.int8)
        signed = (large.view(np.int8)[0, :1], matrix.view(np.int8))
        yield Sample(
            MatMulInteger(), (*signed, np.array([127], np.int8), zeros), "a row, zero points of columns"
        )
        many = (extremes((2, 67, 35), 6, np.int8), extremes((2, 35, 49), 7, np.uint8))
        yield Sample(MatMulInteger(), (*many, np.array(-90, np.int8), np.array(131, np.uint8)), "many rows")
        pairs = (extremes((2, 1, 3, 6), 4, np.uint8), extremes((3, 6, 33), 5, np.int8))
        yield Sample(MatMulInteger(), (*pairs, np.array(7, np.uint8), np.array(-2, np.int8)), "batches")


def extremes(shape: tuple[int, ...], seed: int, dtype: type) -> Array:
    """Bytes of which a half are the largest and the smallest ones."""
    numbers, limits = seeded(shape, seed, np.int8).view(np.uint8) * np.uint8(37), np.iinfo(dtype)
    values: Array = numbers.view(dtype).copy()
    values.reshape(-1)[::4], values.reshape(-1)[1::4] = limits.max, limits.min
    return values


@dataclass(frozen=True)
class MatMulIntegerToFloat(Fusible, _Product):
    """activation(float32((a - its zero point) (b - its zero point)) * scale + bias) of 8-bit integers.

    The product is an int32, which wraps around; each step after it rounds to float32. Zero points as in MatMulInteger;
    `scale` is one number or one per column, `bias` one per column.
    """

    activation: Activation = field(default_factory=Activation)

    name = "matmul_integer_to_float"
    operands = ("a", "b", "scale", "a_zero_point?", "b_zero_point?", "bias?")

    def types(self, *inputs: TensorType | None) -> Types:
        a, b, scale = (
            require(self.name, value, what) for value, what in zip(inputs, ("a", "b", "scale"), strict=False)
        )
        a_zero, b_zero, bias = inputs[3:]
        _check_operand(self.name, a, None, a_zero, True)
        _check_operand(self.name, b, None, b_zero, False)
        shape = _matmul_shape(self.name, a, b)
        for value, what in ((scale, "scale"), (bias, "bias")):
            if value is not None and value.dtype != FLOAT32:
                raise DTypeError(f"{self.name}: {what} {value} must be float32")
        if scale.size != 1 and (b.rank < 2 or scale.shape[-1:] != shape[-1:] or scale.size != shape[-1]):
            raise ShapeError(f"{self.name}: scale {scale} must have one number, or one per column of {b}")
        if bias is not None and (b.rank < 2 or bias.shape != shape[-1:]):
            raise ShapeError(f"{self.name}: bias {bias} must have one number per column of {b}")
        return (TensorType(FLOAT32, shape),)

    def compute(self, a: Array, b: Array, scale: Array, *rest: Array | None) -> Arrays:
        a_zero, b_zero, bias = rest
        total = _matmul(a, b, a_zero, b_zero).astype(np.int32).astype(np.float32)
        y = total * (scale.reshape(()) if scale.size == 1 else scale.reshape(-1))
        y = y if bias is None else y + bias
        return (narrow(self.activation.apply(wide(y)), FLOAT32),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        problem = ByteProduct(0, 1, 3, 4, scales=2, bias=5, activation=self.activation)
        yield from product_lowerings(problem, self.arranged(inputs), len(inputs), target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a, b = extremes((5, 21), 1, np.uint8), extremes((21, 50), 2, np.int8)
        one, many = np.array([0.25], np.float32), np.abs(seeded((1, 50), 3)) * np.float32(0.01)
        zeros = (np.array(121, np.uint8), np.array(0, np.int8))
        yield Sample(cls(), (a, b, one, *zeros))
        yield Sample(cls(Activation("relu")), (a, b, many, *zeros, seeded((50,), 4)), "bias, ReLU")
        yield Sample(
            cls(Activation("gelu")), (a[None, :1], b, many * 0.01, None, None, seeded((50,), 4)), "GELU"
        )
        unsigned = (extremes((2, 21, 50), 5, np.uint8), one, zeros[0], np.array([3], np.uint8))
        yield Sample(cls(), (extremes((2, 9, 21), 6, np.uint8), *unsigned), "batch")


@dataclass(frozen=True)
class QLinearMatMul(_Product):
    """The product of two quantized matrices, quantized: round(a b * a_scale * b_scale / y_scale) +
    y_zero_point.

    Scales and zero points of a and b are scalars, one per row of a or column of b, or broadcast to them;
    y's are scalars or broadcast to y. Factors are float32; halves round to even before the zero point is added. `bias`
    is int32 at scale a_scale * b_scale, one per column; `bounds`: the least and the largest number of y, where they are
    not those of its type.
    """

    bounds: tuple[int, int] | None = None

    name = "qlinear_matmul"
    operands = split_words("a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point bias?")
    from_onnx = {"QLinearMatMul": lambda node: read(QLinearMatMul, node)}

    def types(self, *inputs: TensorType | None) -> Types:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
            require(self.name, value, what) for value, what in zip(inputs[:8], self.operands, strict=False)
        )
        bias = inputs[8]
        _check_operand(self.name, a, a_scale, a_zero, True)
        _check_operand(self.name, b, b_scale, b_zero, False)
        require_kind(self.name, y_scale, "f", "y_scale")
        shape = _matmul_shape(self.name, a, b)
        for x in (y_scale, y_zero):
            if x.size != 1 and broadcast_shapes(self.name, x.shape, shape) != shape:
                raise ShapeError(f"{self.name}: {x} does not broadcast to the product's shape {list(shape)}")
        if bias is not None and (bias.dtype != INT32 or b.rank < 2 or bias.shape != shape[-1:]):
            raise ShapeError(f"{self.name}: bias {bias} must be int32, one number per column of {b}")
        check_bytes(self.name, y_zero, "y_zero_point")
        return (TensorType(y_zero.dtype, shape),)

    def compute(self, *inputs: Any) -> Arrays:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias = inputs
        total = _matmul(a, b, a_zero, b_zero)
        if bias is not None:
            total = total + bias.astype(np.int64)
        scales = output_scales(_spread(a_scale, a, True), _spread(b_scale, b, False), y_scale)
        with np.errstate(all="ignore"):
            y = saturated(wide(np.float32(total.astype(np.int32)) * scales), flat(y_zero), y_zero.dtype)
        return (y if self.bounds is None else np.clip(y, *self.bounds),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        given = self.arranged(inputs)
        a_scale, b_scale, y_scale, y_zero = (given[place].value for place in (1, 4, 6, 7))
        bias = None if given[8] is None else given[8].value
        if any(each is None or each.size != 1 for each in (a_scale, y_scale, y_zero)) or b_scale is None:
            return
        if (bias is None) != (given[8] is None) or (b_scale.size != 1 and b_scale.shape[-1] != b_scale.size):
            return
        scales, dtype = output_scales(a_scale, b_scale, y_scale).reshape(-1), np.iinfo(y_zero.dtype)
        low, high = self.bounds or (dtype.min, dtype.max)
        zero = int(y_zero.item())
        if np.isfinite(scales).all():  # of others the reference says what NaN becomes
            levels = Levels(low - zero, high - zero, zero)
            problem = ByteProduct(0, 3, 2, 5, scales=scales, added=bias, levels=levels)
            yield from product_lowerings(problem, given, len(inputs), target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a, b = seeded((2, 4), 1, np.uint8), seeded((4, 3), 2, np.int8)
        scale, zero = np.array(0.3, np.float32), np.array(5, np.uint8)
        y = (np.array([0.7], np.float32), np.array([100], np.uint8))
        yield Sample(QLinearMatMul(), (a, scale, zero, b, scale, zero.astype(np.int8), *y))
        rows = (np.array([0.5, 1.5], np.float32), np.array([1, 2], np.uint8))
        columns = (np.array([[0.5, 1.5, 3]], np.float32), np.array([[1, 2, -3]], np.int8))
        yield Sample(QLinearMatMul(), (a, *rows, b, *columns, *y), "per row and column")
        large, matrix = extremes((7, 70), 1, np.uint8), extremes((70, 83), 2, np.int8)
        biased = (
            large,
            scale,
            zero,
            matrix,
            np.abs(seeded((83,), 6)) * np.float32(0.01),
            np.zeros(83, np.int8),
            *y,
        )
        yield Sample(QLinearMatMul((100, 200)), (*biased, seeded((83,), 7, np.int32) * 100), "bias, bounds")
        both = (large[:1], scale, zero, matrix.view(np.uint8), scale, zero, np.array(99, np.float32), y[1])
        yield Sample(QLinearMatMul(), both, "a row, u8 by u8")
        batch = seeded((2, 3, 2, 4), 3, np.int8)
        signed = (y[0], np.array([-9], np.int8))
        yield Sample(QLinearMatMul(), (batch, scale, zero.astype(np.int8), b, *columns, *signed), "batch")


def _check_operand(
    op: str, x: TensorType, scale: TensorType | None, zero: TensorType | None, rows: bool
) -> None:
    """Types and shapes of one side of a product."""
    check_bytes(op, x, "a" if rows else "b")
    require_same_dtype(op, x, zero)
    if scale is not None:
        require_kind(op, scale, "f", "scale")
    for value in (scale, zero):
        if value is None or value.size == 1:
            continue
        if x.rank < 2:
            raise ShapeError(f"{op}: {value} beside a vector {x} must be a scalar")
        extent = x.shape[-2] if rows else x.shape[-1]
        single = value.rank == 1 and value.shape == (extent,)
        kept = (*x.shape[:-1], 1) if rows else (*x.shape[:-2], 1, x.shape[-1])
        if not single and (value.rank < 2 or broadcast_shapes(op, value.shape, kept) != kept):
            raise ShapeError(
                f"{op}: {value} must be a scalar or one number per {'row' if rows else 'column'} of {x}"
            )


def _matmul_shape(op: str, a: TensorType, b: TensorType) -> tuple[int, ...]:
    if not a.rank or not b.rank or a.shape[-1] != (b.shape[-2] if b.rank > 1 else b.shape[0]):
        raise ShapeError(f"{op}: a {a} and b {b} cannot be multiplied")
    batch = broadcast_shapes(op, a.shape[:-2], b.shape[:-2])
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))


def _spread(values: Array, x: Array, rows: bool) -> Array:
    """A scale or zero point in a shape that broadcasts with the matrix."""
    if values.size == 1 or values.ndim > 1:
        return flat(values)
    return values[:, None] if rows else values


def _matmul(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
    """The exact product around the zero points, in int64."""
    left, right = a.astype(np.int64), b.astype(np.int64)
    if a_zero is not None:
        left = left - _spread(a_zero, a, True).astype(np.int64)
    if b_zero is not None:
        right = right - _spread(b_zero, b, False).astype(np.int64)
    return np.asarray(np.matmul(left, right))
