"""Products and convolutions of 8-bit integers: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cenote.core.errors import DTypeError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Array, TensorType
from cenote.kernels.base import present
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require, require_kind, require_same_dtype
from cenote.ops.conv.conv import Conv, correlate, decode_conv
from cenote.ops.quantization.convolution_lowerings import QuantizedConvolution, convolution_lowerings
from cenote.ops.quantization.quantize import saturated
from cenote.ops.values import seeded, wide

INT32 = np.dtype(np.int32)


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

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a, b = seeded((4, 3), 1, np.uint8), seeded((3, 5), 2, np.int8)
        yield Sample(MatMulInteger(), (a, b))
        yield Sample(MatMulInteger(), (a, b, np.array(12, np.uint8), np.array([-3], np.int8)))
        per = (np.array([1, 2, 3, 4], np.uint8), np.array([5, 4, 3, 2, 1], np.int8))
        yield Sample(MatMulInteger(), (a, b, *per), "per row and column")
        yield Sample(MatMulInteger(), (seeded((2, 0, 3), 1, np.int8), b.astype(np.uint8)), "empty")
        yield Sample(MatMulInteger(), (seeded((3,), 1, np.int8), b), "vector")


@dataclass(frozen=True)
class QLinearMatMul(_Product):
    """The product of two quantized matrices, quantized: round(a b * a_scale * b_scale / y_scale) +
    y_zero_point.

    Scales and zero points of a and b are scalars, one per row of a or column of b, or broadcast to them;
    y's are scalars or broadcast to y. Halves round to even before the zero point is added.
    """

    name = "qlinear_matmul"
    operands = split_words("a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point")
    from_onnx = {"QLinearMatMul": lambda node: read(QLinearMatMul, node)}

    def types(self, *inputs: TensorType) -> Types:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
        _check_operand(self.name, a, a_scale, a_zero, True)
        _check_operand(self.name, b, b_scale, b_zero, False)
        require_kind(self.name, y_scale, "f", "y_scale")
        shape = _matmul_shape(self.name, a, b)
        for x in (y_scale, y_zero):
            if x.size != 1 and broadcast_shapes(self.name, x.shape, shape) != shape:
                raise ShapeError(f"{self.name}: {x} does not broadcast to the product's shape {list(shape)}")
        _check_bytes(self.name, y_zero, "y_zero_point")
        return (TensorType(y_zero.dtype, shape),)

    def compute(self, *inputs: Array) -> Arrays:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
        product = _matmul(a, b, a_zero, b_zero).astype(np.int32).astype(np.float64)
        row, column = wide(_spread(a_scale, a, True)), wide(_spread(b_scale, b, False))
        y = product * (row * column / wide(_flat(y_scale)))
        return (saturated(y, _flat(y_zero), y_zero.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a, b = seeded((2, 4), 1, np.uint8), seeded((4, 3), 2, np.int8)
        scale, zero = np.array(0.3, np.float32), np.array(5, np.uint8)
        y = (np.array([0.7], np.float32), np.array([100], np.uint8))
        yield Sample(QLinearMatMul(), (a, scale, zero, b, scale, zero.astype(np.int8), *y))
        rows = (np.array([0.5, 1.5], np.float32), np.array([1, 2], np.uint8))
        columns = (np.array([[0.5, 1.5, 3]], np.float32), np.array([[1, 2, -3]], np.int8))
        yield Sample(QLinearMatMul(), (a, *rows, b, *columns, *y), "per row and column")
        batch = seeded((2, 3, 2, 4), 3, np.int8)
        signed = (y[0], np.array([-9], np.int8))
        yield Sample(QLinearMatMul(), (batch, scale, zero.astype(np.int8), b, *columns, *signed), "batch")


class _ConvHost(Op):
    conv: Conv

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        named = dict(zip(self.operands, inputs, strict=True))
        return self.conv.shape(present(named["x"]), present(named["w"])).operations

    def output(
        self, x: TensorType, w: TensorType, x_zero: TensorType | None, w_zero: TensorType | None
    ) -> tuple[int, ...]:
        """The output's shape, operands checked."""
        for value, zero, what in ((x, x_zero, "x"), (w, w_zero, "w")):
            _check_bytes(self.name, value, what)
            require_same_dtype(self.name, value, zero)
        if x_zero is not None and x_zero.size != 1:
            raise ShapeError(f"{self.name}: the zero point of x, {x_zero}, must be a scalar")
        shape = self.conv.shape(x, w)
        if w_zero is not None and w_zero.size != 1 and w_zero.shape != (shape.filters,):
            raise ShapeError(
                f"{self.name}: the zero point of w, {w_zero}, must be a scalar or one per filter"
            )
        return (shape.n, shape.filters, *shape.out)

    def sums(self, x: Array, w: Array, x_zero: Array | None, w_zero: Array | None) -> Array:
        """The convolution of what is left when the zero points are taken off, in int64. Pads are the zero point."""
        centered = x.astype(np.int64) - (0 if x_zero is None else _flat(x_zero).astype(np.int64))
        weights = w.astype(np.int64)
        if w_zero is not None:
            weights = weights - per_filter(w_zero.astype(np.int64), w.ndim)
        return correlate(centered, weights, self.conv.shape(TensorType.known(x), TensorType.known(w)))


@dataclass(frozen=True)
class ConvInteger(_ConvHost):
    """Convolution of 8-bit integers around their zero points, as int32, which wraps around; attributes as in Conv."""

    conv: Conv = field(default_factory=Conv)

    name = "conv_integer"
    operands = ("x", "w", "x_zero_point?", "w_zero_point?")
    from_onnx = {"ConvInteger": lambda node: ConvInteger(decode_conv(node))}

    def types(
        self, x: TensorType, w: TensorType, x_zero: TensorType | None, w_zero: TensorType | None
    ) -> Types:
        return (TensorType(INT32, self.output(x, w, x_zero, w_zero)),)

    def compute(self, x: Array, w: Array, x_zero: Array | None, w_zero: Array | None) -> Arrays:
        return (self.sums(x, w, x_zero, w_zero).astype(np.int32),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, w = seeded((2, 4, 5, 6), 1, np.uint8), seeded((6, 2, 3, 3), 2, np.int8)
        conv = Conv(groups=2, pads=((1, 1), (0, 2)), strides=(2, 1))
        yield Sample(ConvInteger(conv), (x, w, np.array(3, np.uint8), np.arange(6, dtype=np.int8)))
        yield Sample(ConvInteger(conv), (x, w))
        yield Sample(ConvInteger(), (seeded((1, 1, 3, 3), 1, np.int8), seeded((1, 1, 2, 2), 2, np.int8)))


@dataclass(frozen=True)
class QLinearConv(_ConvHost):
    """Convolution of quantized x and w, quantized: round((sum + bias) * x_scale * w_scale / y_scale) +
    y_zero_point.

    Scales and zero points are scalars, those of w also one per filter; the bias is int32 at scale x_scale *
    w_scale. Attributes as in Conv. Halves round to even before the zero point is added. `bounds`: the least and the
    largest number of y, where they are not those of its type.
    """

    conv: Conv = field(default_factory=Conv)
    bounds: tuple[int, int] | None = None

    name = "qlinear_conv"
    operands = split_words("x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point bias?")
    from_onnx = {"QLinearConv": lambda node: QLinearConv(decode_conv(node))}

    def types(self, *inputs: TensorType | None) -> Types:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (
            require(self.name, value, what) for value, what in zip(inputs[:8], self.operands, strict=False)
        )
        shape, bias = self.output(x, w, x_zero, w_zero), inputs[8]
        for value, what in ((x_scale, "x_scale"), (y_scale, "y_scale"), (y_zero, "y_zero_point")):
            if value.size != 1:
                raise ShapeError(f"{self.name}: '{what}' must be a scalar, got {value}")
        if w_scale.size != 1 and w_scale.shape != shape[1:2]:
            raise ShapeError(f"{self.name}: w_scale {w_scale} must be a scalar or one per filter")
        for value in (x_scale, w_scale, y_scale):
            require_kind(self.name, value, "f", "scale")
        if bias is not None and (bias.dtype != INT32 or bias.shape != shape[1:2]):
            raise ShapeError(f"{self.name}: bias {bias} must be i32[{shape[1]}]")
        _check_bytes(self.name, y_zero, "y_zero_point")
        return (TensorType(y_zero.dtype, shape),)

    def compute(self, *inputs: Any) -> Arrays:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = inputs
        total = self.sums(x, w, x_zero, w_zero)
        if bias is not None:
            total = total + per_filter(bias.astype(np.int64), x.ndim - 1)
        scales = per_filter(_output_scales(x_scale, w_scale, y_scale), x.ndim - 1)
        # In float32, as onnxruntime computes it: of whole numbers beyond 2^24 the last bits are rounded.
        y = saturated(wide(np.float32(total.astype(np.int32)) * scales), _flat(y_zero), y_zero.dtype)
        return (y if self.bounds is None else np.clip(y, *self.bounds),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        given = [None if each is None else each.value for each in self.arranged(inputs)[1:]]
        x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = given
        if any(each is None for each in given[:7]) or (
            inputs[-1] is not None and bias is None and len(inputs) == 9
        ):
            return
        dtype = np.iinfo(present(y_zero).dtype)
        problem = QuantizedConvolution(
            self.conv.shape(present(inputs[0]), present(inputs[3])),
            inputs,
            target,
            present(w),
            int(present(x_zero).item()),
            present(w_zero),
            bias,
            _output_scales(present(x_scale), present(w_scale), present(y_scale)).ravel(),
            int(present(y_zero).item()),
            self.bounds or (dtype.min, dtype.max),
        )
        yield from convolution_lowerings(problem)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, w = seeded((2, 4, 5, 6), 1, np.uint8), seeded((6, 2, 3, 3), 2, np.int8)
        conv = Conv(groups=2, pads=((1, 1), (0, 2)), strides=(2, 1))
        y = (np.array(2.5, np.float32), np.array(120, np.uint8))
        x_side = (x, np.array([0.5], np.float32), np.array([3], np.uint8))
        one = (w, np.array(0.75, np.float32), np.array(-2, np.int8))
        many = (w, np.abs(seeded((6,), 3)), np.arange(6, dtype=np.int8))
        bias = seeded((6,), 4, np.int32)
        yield Sample(QLinearConv(conv), (*x_side, *one, *y))
        # Windows one apart: of two apart a plan for an even size has a smaller halo than one for any size.
        near = Conv(groups=2, pads=((1, 1), (0, 2)))
        yield Sample(QLinearConv(near), (*x_side, *many, *y, bias), "per filter, bias")
        small = (x_side[0][:0], *x_side[1:], *many, y[0], np.array(-5, np.int8), bias)
        yield Sample(QLinearConv(conv), small, "no images")


def _output_scales(x: Array, w: Array, y: Array) -> Array:
    """The factors from sums to numbers of y, one or one per filter, each step in float32."""
    with np.errstate(all="ignore"):
        scales: Array = _flat(x.astype(np.float32)) * w.astype(np.float32) / _flat(y.astype(np.float32))
    return scales


def per_filter(values: Array, rank: int) -> Array:
    """One number per filter (or one for all) in a shape that broadcasts with the weights."""
    return values.reshape(-1, *(1,) * (rank - 1))


def _check_bytes(op: str, x: TensorType, what: str) -> None:
    if x.dtype.name.startswith("float8"):
        raise UnsupportedError(
            f"{op}: '{what}' has type {x.dtype}, which is not supported; use int8 or uint8"
        )
    if x.dtype.name not in ("int8", "uint8"):
        raise DTypeError(f"{op}: '{what}' has type {x.dtype}, expected int8 or uint8")


def _check_operand(
    op: str, x: TensorType, scale: TensorType | None, zero: TensorType | None, rows: bool
) -> None:
    """Types and shapes of one side of a product."""
    _check_bytes(op, x, "a" if rows else "b")
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


def _flat(x: Array) -> Array:
    """One number as a scalar, so that it broadcasts without adding axes."""
    return x.reshape(()) if x.size == 1 else x


def _spread(values: Array, x: Array, rows: bool) -> Array:
    """A scale or zero point in a shape that broadcasts with the matrix."""
    if values.size == 1 or values.ndim > 1:
        return _flat(values)
    return values[:, None] if rows else values


def _matmul(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
    """The exact product around the zero points, in int64."""
    left, right = a.astype(np.int64), b.astype(np.int64)
    if a_zero is not None:
        left = left - _spread(a_zero, a, True).astype(np.int64)
    if b_zero is not None:
        right = right - _spread(b_zero, b, False).astype(np.int64)
    return np.asarray(np.matmul(left, right))
