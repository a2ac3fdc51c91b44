"""Arithmetic of tensors with NumPy's broadcasting: Add, Sub, Mul, Div, Pow, Min, Max, Sum, Mean, PRelu."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.types import Array, TensorType, is_float
from cenote.ops.base import Sample, Types, broadcast_shapes, seeded
from cenote.ops.checks import read
from cenote.ops.elementwise.pointwise import Pointwise, binary_samples, require_number
from cenote.ops.elementwise.pointwise_lowerings import Function

MOST_OPERANDS = 8  # a kernel of more would need more registers for addresses than there are
_POWERS = {1.0: "identity", 2.0: "square", 3.0: "cube", 0.5: "square_root_power", -1.0: "reciprocal"}


class Binary(Pointwise):
    """Base: two inputs of one type."""

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return binary_samples(cls())


@dataclass(frozen=True)
class Add(Binary):
    """a + b; integers wrap around."""

    name = formula = "add"
    from_onnx = {"Add": lambda node: read(Add, node)}
    elements = staticmethod(np.add)


@dataclass(frozen=True)
class Sub(Binary):
    """a - b; integers wrap around."""

    name = formula = "sub"
    from_onnx = {"Sub": lambda node: read(Sub, node)}
    elements = staticmethod(np.subtract)


@dataclass(frozen=True)
class Mul(Binary):
    """a * b; integers wrap around."""

    name = formula = "mul"
    from_onnx = {"Mul": lambda node: read(Mul, node)}
    elements = staticmethod(np.multiply)


def _quotient(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return a / b
    quotient = a // b
    inexact = (quotient * b != a) & (b != 0)
    result: Array = quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)
    return result


@dataclass(frozen=True)
class Div(Binary):
    """a / b. Integers divide toward zero, as in C (NumPy's // rounds down); by zero they give 0."""

    name = formula = "div"
    from_onnx = {"Div": lambda node: read(Div, node)}
    elements = staticmethod(_quotient)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        lowest = np.array([-128, -128, 127, -7, 7, -7, 7, 5], np.int8)
        yield Sample(cls(), (lowest, np.array([-1, 1, -1, 2, -2, -2, 2, 0], np.int8)), "Div integers")


def _power(base: Array, exponent: Array) -> Array:
    if is_float(base.dtype) or is_float(exponent.dtype):
        return np.power(base.astype(np.float64), exponent.astype(np.float64))
    power = np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype))
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), 0))
    return np.where(exponent < 0, inverse, power)


@dataclass(frozen=True)
class Pow(Pointwise):
    """a to the power of b, as float64 powers; the result has a's type, b may have another.

    Integers to integers are exact modulo 2^bits; to a negative power they give 1/a^|b| cut toward zero.
    """

    name = "pow"
    from_onnx = {"Pow": lambda node: read(Pow, node)}
    weight = 20

    elements = staticmethod(_power)

    def types(self, base: TensorType, exponent: TensorType) -> Types:
        require_number(self.name, base.dtype)
        require_number(self.name, exponent.dtype)
        return (TensorType(base.dtype, broadcast_shapes(self.name, base.shape, exponent.shape)),)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        base, exponent = self.arranged(inputs)
        if exponent.value is not None and exponent.size == 1 and is_float(base.dtype):
            name = _POWERS.get(float(exponent.value.reshape(())))
            if name is not None and self.infer(*inputs)[0].shape == base.shape:
                return Function(name, (), (0,), 3e-7, 2)
        return Function("power", (), (0, 1), 3e-7, 60) if base.dtype == exponent.dtype else None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from binary_samples(cls(), integers=False)
        positive = np.abs(seeded((2, 9, 4, 5), 3)) + 0.1
        yield Sample(cls(), (positive, seeded((9, 1, 1), 4)), "Pow positive")
        for exponent in (2.0, 0.5, -1.0, 3.0):
            yield Sample(cls(), (positive, np.array([exponent], np.float32)), f"Pow {exponent}")
        yield Sample(
            cls(), (np.array([2, -1, 3, -3], np.int32), np.array([3, -3, -1, 0], np.int32)), "Pow integers"
        )
        yield Sample(cls(), (np.array([1, 2, 3]), np.array([4, 0.5, 6], np.float32)), "Pow mixed")


class _Variadic(Pointwise):
    operands = ("x*",)

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        return super().function(inputs) if len(inputs) <= MOST_OPERANDS else None

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        op = cls()
        yield from binary_samples(op, cls.integers)
        yield Sample(op, (seeded((2, 9, 3)),), f"{op.name} of one")
        yield Sample(
            op, (seeded((2, 9, 3, 4), 1), seeded((9, 1, 1), 2), seeded((4,), 3)), f"{op.name} of three"
        )
        yield Sample(op, tuple(seeded((2, 9, 3, 4), n) for n in range(5)), f"{op.name} of five")


@dataclass(frozen=True)
class Max(_Variadic):
    """Largest of one or more tensors; NaN where any is NaN."""

    name = formula = "max"
    from_onnx = {"Max": lambda node: read(Max, node)}
    elements = staticmethod(lambda *inputs: reduce(np.maximum, inputs))


@dataclass(frozen=True)
class Min(_Variadic):
    """Smallest of one or more tensors; NaN where any is NaN."""

    name = formula = "min"
    from_onnx = {"Min": lambda node: read(Min, node)}
    elements = staticmethod(lambda *inputs: reduce(np.minimum, inputs))


@dataclass(frozen=True)
class Sum(_Variadic):
    """Sum of one or more tensors."""

    name = formula = "sum"
    tolerance = 1e-6
    from_onnx = {"Sum": lambda node: read(Sum, node)}
    integers = False
    elements = staticmethod(lambda *inputs: reduce(np.add, inputs))


@dataclass(frozen=True)
class Mean(_Variadic):
    """Mean of one or more tensors."""

    name = formula = "mean"
    tolerance = 1e-6
    from_onnx = {"Mean": lambda node: read(Mean, node)}
    integers = False
    elements = staticmethod(lambda *inputs: reduce(np.add, inputs) / len(inputs))


@dataclass(frozen=True)
class PRelu(Pointwise):
    """x where it is not negative, else slope * x. The slope broadcasts to x, never the other way."""

    name = formula = "prelu"
    from_onnx = {"PRelu": lambda node: read(PRelu, node)}

    operands = ("x", "slope")
    elements = staticmethod(lambda x, slope: np.where(x < 0, slope * x, x))

    def types(self, x: TensorType, slope: TensorType) -> Types:
        (output,) = super().types(x, slope)
        if output.shape != x.shape:
            raise ShapeError(
                f"PRelu: slope {list(slope.shape)} does not broadcast to the input {list(x.shape)}"
            )
        return (output,)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for sample in binary_samples(cls()):
            x, slope = sample.inputs
            if x is not None and slope is not None and np.broadcast_shapes(x.shape, slope.shape) == x.shape:
                yield sample
