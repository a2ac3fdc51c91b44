"""Convolutions of 8-bit integers: ConvInteger, QLinearConv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError, UnsupportedError
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.kernels.base import present
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import require, require_kind, require_same_dtype
from cenote.ops.conv.conv import Conv, correlate, decode_conv
from cenote.ops.epilogue import Fusible
from cenote.ops.quantization.convolution_lowerings import QuantizedConvolution, convolution_lowerings
from cenote.ops.quantization.integer_convolutions import (
    IntegerConvolution,
    centred_weights,
    integer_lowerings,
)
from cenote.ops.quantization.quantize import saturated
from cenote.ops.values import narrow, seeded, wide

INT32 = np.dtype(np.int32)


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
            check_bytes(self.name, value, what)
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
        centered = x.astype(np.int64) - (0 if x_zero is None else flat(x_zero).astype(np.int64))
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

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, w, _, w_zero = given = self.arranged(inputs)
        weights = centred_weights(present(w), w_zero)
        if weights is not None:
            shape = self.conv.shape(present(x), present(w))
            yield from integer_lowerings(IntegerConvolution(shape, given, target, weights, 2), len(inputs))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, w = seeded((2, 4, 5, 6), 1, np.uint8), seeded((6, 2, 3, 3), 2, np.int8)
        conv = Conv(groups=2, pads=((1, 1), (0, 2)))  # strides: see QLinearConv
        yield Sample(ConvInteger(conv), (x, w, np.array(3, np.uint8), np.arange(6, dtype=np.int8)))
        yield Sample(ConvInteger(conv), (x, w))
        yield Sample(ConvInteger(), (seeded((1, 1, 3, 3), 1, np.int8), seeded((1, 1, 2, 2), 2, np.int8)))
        # Three runs of filters where a vector holds eight, and of a group's in four registers each.
        many = (seeded((1, 24, 9), 3, np.uint8), seeded((88, 24, 3), 4, np.int8), np.array([77], np.uint8))
        yield Sample(ConvInteger(Conv(pads=((2, 1),))), many, "one axis, a padding of 77")
        apart = (
            seeded((1, 32, 4, 5, 4), 5, np.int8),
            seeded((160, 16, 2, 1, 3), 6, np.int8),
            np.array(-128, np.int8),
        )
        yield Sample(
            ConvInteger(Conv(groups=2, pads=((1, 0), (0, 0), (1, 1)))), apart, "three axes, two groups"
        )
        yield Sample(ConvInteger(Conv(strides=(2, 3))), (x, seeded((5, 4, 1, 1), 9, np.int8)), "steps")
        deep = (seeded((1, 20, 6, 6), 7, np.uint8), seeded((20, 1, 3, 3), 8, np.int8), np.array(3, np.uint8))
        yield Sample(ConvInteger(Conv(groups=20, dilations=(2, 2))), deep, "depthwise")


@dataclass(frozen=True)
class ConvIntegerToFloat(Fusible, _ConvHost):
    """activation(float32(sum) * scale + bias) of ConvInteger's sums.

    Each step after the sums rounds to float32. `scale` is one number or one per filter, `bias` one per filter, each of
    any shape with that many numbers.
    """

    conv: Conv = field(default_factory=Conv)
    activation: Activation = field(default_factory=Activation)

    name = "conv_integer_to_float"
    operands = ("x", "w", "scale", "x_zero_point?", "w_zero_point?", "bias?")

    def types(self, *inputs: TensorType | None) -> Types:
        x, w, scale = (
            require(self.name, value, what) for value, what in zip(inputs, ("x", "w", "scale"), strict=False)
        )
        shape, bias = self.output(x, w, inputs[3], inputs[4]), inputs[5]
        for value, what in ((scale, "scale"), (bias, "bias")):
            if value is not None and value.dtype != FLOAT32:
                raise DTypeError(f"{self.name}: {what} {value} must be float32")
        if scale.size not in (1, shape[1]) or (bias is not None and bias.size != shape[1]):
            raise ShapeError(
                f"{self.name}: scale {scale} and bias {bias} must have one number per filter of {w}"
            )
        return (TensorType(FLOAT32, shape),)

    def compute(self, x: Array, w: Array, scale: Array, *rest: Array | None) -> Arrays:
        x_zero, w_zero, bias = rest
        sums = self.sums(x, w, x_zero, w_zero).astype(np.int32).astype(np.float32)
        y = sums * per_filter(scale, x.ndim - 1)
        y = y if bias is None else y + per_filter(bias, x.ndim - 1)
        return (narrow(self.activation.apply(wide(y)), FLOAT32),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, w, *_ = given = self.arranged(inputs)
        weights = centred_weights(present(w), given[4])
        if weights is not None:
            shape, bias = self.conv.shape(present(x), present(w)), None if given[5] is None else 5
            problem = IntegerConvolution(shape, given, target, weights, 3, 2, bias, self.activation)
            yield from integer_lowerings(problem, len(inputs))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, w = seeded((2, 4, 5, 6), 1, np.uint8), seeded((6, 2, 3, 3), 2, np.int8)
        conv = Conv(groups=2, pads=((1, 1), (0, 2)))  # strides: see QLinearConv
        one, many = np.array(0.25, np.float32), np.abs(seeded((6, 1, 1), 3)) * np.float32(0.01)
        zeros = (np.array(121, np.uint8), np.array(-2, np.int8))
        yield Sample(cls(conv), (x, w, one, *zeros))
        yield Sample(
            cls(conv, Activation("relu")), (x, w, many, *zeros, seeded((1, 6, 1, 1), 4)), "bias, ReLU"
        )
        wide_x, wide_w = seeded((1, 40, 7, 5), 5, np.int8), seeded((83, 40, 3, 3), 6, np.int8)
        per = np.abs(seeded((83,), 7)) * np.float32(0.01)
        same = Conv(pads=((1, 1), (1, 1)))
        signed = (np.array([-7], np.int8), None)
        yield Sample(
            cls(same, Activation("gelu")), (wide_x, wide_w, per * 0.01, *signed, seeded((83,), 8)), "GELU"
        )


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
        check_bytes(self.name, y_zero, "y_zero_point")
        return (TensorType(y_zero.dtype, shape),)

    def compute(self, *inputs: Any) -> Arrays:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = inputs
        total = self.sums(x, w, x_zero, w_zero)
        if bias is not None:
            total = total + per_filter(bias.astype(np.int64), x.ndim - 1)
        scales = per_filter(output_scales(x_scale, w_scale, y_scale), x.ndim - 1)
        # In float32, as onnxruntime computes it: of whole numbers beyond 2^24 the last bits are rounded.
        y = saturated(wide(np.float32(total.astype(np.int32)) * scales), flat(y_zero), y_zero.dtype)
        return (y if self.bounds is None else np.clip(y, *self.bounds),)

    def problem(self, inputs: Sequence[TensorType | None], target: Target) -> QuantizedConvolution | None:
        """The convolution as kernels see it; None where an operand but x is computed."""
        given = [None if each is None else each.value for each in self.arranged(inputs)[1:]]
        x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = given
        if any(each is None for each in given[:7]) or (
            inputs[-1] is not None and bias is None and len(inputs) == 9
        ):
            return None
        dtype = np.iinfo(present(y_zero).dtype)
        return QuantizedConvolution(
            self.conv.shape(present(inputs[0]), present(inputs[3])),
            inputs,
            target,
            present(w),
            int(present(x_zero).item()),
            present(w_zero),
            bias,
            output_scales(present(x_scale), present(w_scale), present(y_scale)).ravel(),
            int(present(y_zero).item()),
            self.bounds or (dtype.min, dtype.max),
        )

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        problem = self.problem(inputs, target)
        if problem is not None:
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


def output_scales(x: Array, w: Array, y: Array) -> Array:
    """The factors from sums to numbers of y, one or one per filter, each step in float32."""
    with np.errstate(all="ignore"):
        scales: Array = flat(x.astype(np.float32)) * w.astype(np.float32) / flat(y.astype(np.float32))
    return scales


def per_filter(values: Array, rank: int) -> Array:
    """One number per filter (or one for all) in a shape that broadcasts with the weights."""
    return values.reshape(-1, *(1,) * (rank - 1))


def check_bytes(op: str, x: TensorType, what: str) -> None:
    """Raise DTypeError or UnsupportedError unless a tensor is of bytes."""
    if x.dtype.name.startswith("float8"):
        raise UnsupportedError(
            f"{op}: '{what}' has type {x.dtype}, which is not supported; use int8 or uint8"
        )
    if x.dtype.name not in ("int8", "uint8"):
        raise DTypeError(f"{op}: '{what}' has type {x.dtype}, expected int8 or uint8")


def flat(x: Array) -> Array:
    """One number as a scalar, so that it broadcasts without adding axes."""
    return x.reshape(()) if x.size == 1 else x


def check_rescaled(
    op: str, x: TensorType, x_scale: TensorType, x_zero: TensorType, y_scale: TensorType, y_zero: TensorType
) -> None:
    """Raise unless a tensor of bytes becomes another one, each by one float scale and one zero point."""
    check_bytes(op, x, "x")
    check_bytes(op, y_zero, "y_zero_point")
    numbers = {"x_scale": x_scale, "x_zero_point": x_zero, "y_scale": y_scale, "y_zero_point": y_zero}
    for what, value in numbers.items():
        if value.size != 1:
            raise ShapeError(f"{op}: '{what}' must be a scalar, got {value}")
    for value in (x_scale, y_scale):
        require_kind(op, value, "f", "scale")
