"""Arithmetic of tensors with NumPy's broadcasting: Add, Sub, Mul, Div, Pow, Min, Max, Sum, Mean, PRelu, Mod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, Array, TensorType, is_float
from cenote.kernels.elementwise.functions import FORMULAS
from cenote.ops.base import Lowering, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require_number
from cenote.ops.elementwise.pointwise import (
    Function,
    Pointwise,
    binary_samples,
    of_formula,
    pointwise_lowerings,
)
from cenote.ops.family import operator
from cenote.ops.values import seeded

MOST_OPERANDS = 8  # a kernel of more would need more registers for addresses than there are
_POWERS = {1.0: "identity", 2.0: "square", 3.0: "cube", 0.5: "square_root_power", -1.0: "reciprocal"}


class Binary(Pointwise):
    """Base: two inputs of one type."""

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return binary_samples(cls())


def binary(onnx: str, meaning: str) -> type[Binary]:
    """An operator that ONNX calls `onnx`, of which kernels have a formula."""
    return operator(Binary, onnx, meaning, **of_formula(onnx.lower()))


Add = binary("Add", "a + b; integers wrap around.")
Sub = binary("Sub", "a - b; integers wrap around.")
Mul = binary("Mul", "a * b; integers wrap around.")


@dataclass(frozen=True)
class Div(Binary):
    """a / b. Integers divide toward zero, as in C (NumPy's // rounds down); by zero they give 0."""

    name = formula = "div"
    from_onnx = {"Div": lambda node: read(Div, node)}
    elements = staticmethod(FORMULAS["div"].apply)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from super().samples()
        lowest = np.array([-128, -128, 127, -7, 7, -7, 7, 5], np.int8)
        yield Sample(cls(), (lowest, np.array([-1, 1, -1, 2, -2, -2, 2, 0], np.int8)), "Div integers")


@dataclass(frozen=True)
class Pow(Pointwise):
    """a to the power of b, as float64 powers; the result has a's type, b may have another.

    Integers to integers are exact modulo 2^bits; to a negative power they give 1/a^|b| cut toward zero.
    """

    name = "pow"
    from_onnx = {"Pow": lambda node: read(Pow, node)}
    weight = 20

    elements = staticmethod(FORMULAS["power"].apply)

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
        return self._power(base, 1) if base.dtype == exponent.dtype else None

    @staticmethod
    def _power(base: TensorType, exponent: int) -> Function:
        """The general formula."""
        formula = FORMULAS["power"]
        tolerance = formula.tolerance if is_float(base.dtype) else 0.0
        return Function("power", (), (0, exponent), tolerance, formula.weight)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        """An exponent of another type that is one known number is given in the base's."""
        base, exponent = self.arranged(inputs)
        if self.function(inputs) is not None or exponent.value is None or exponent.size != 1:
            yield from super().lowerings(inputs, target)
            return
        kind = FLOAT32 if is_float(base.dtype) else base.dtype
        number = exponent.value.astype(kind)
        if base.dtype != FLOAT64 and number.astype(np.float64) == exponent.value.astype(np.float64):
            yield from pointwise_lowerings(
                self._power(base, 2), inputs, self.infer(*inputs)[0], target, [number]
            )

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
        yield Sample(cls(), (seeded((2, 9, 5)), np.array(4, np.int64)), "Pow by a whole number")
        yield Sample(
            cls(), (seeded((2, 9, 5), dtype=np.int32), np.array([3], np.int64)), "Pow by a whole number"
        )
        for dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64):
            ends = np.iinfo(dtype)
            base = np.array([0, 1, 2, 3, 5, 7, 10, 127, ends.min, ends.max, ends.max - 4], dtype)
            powers = np.array([0, 1, 2, 3, 7, 13, 31, 33, 63, 100, ends.max, ends.max - 1, ends.min], dtype)
            yield Sample(cls(), (base[:, None], powers), "Pow integers of all sizes")


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


def variadic(onnx: str, meaning: str) -> type[_Variadic]:
    """An operator that ONNX calls `onnx`, of which kernels have a formula."""
    return operator(_Variadic, onnx, meaning, **of_formula(onnx.lower()))


Max = variadic("Max", "Largest of one or more tensors; NaN where any is NaN.")
Min = variadic("Min", "Smallest of one or more tensors; NaN where any is NaN.")
Sum = variadic("Sum", "Sum of one or more tensors.")
Mean = variadic("Mean", "Mean of one or more tensors.")


@dataclass(frozen=True)
class PRelu(Pointwise):
    """x where it is not negative, else slope * x. The slope broadcasts to x, never the other way."""

    name = formula = "prelu"
    from_onnx = {"PRelu": lambda node: read(PRelu, node)}

    operands = ("x", "slope")
    elements = staticmethod(FORMULAS["prelu"].apply)

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


@dataclass(frozen=True)
class Mod(Pointwise):
    """a - floor(a / b) * b with the sign of b (Python's %), or, with `truncate`, C's fmod with the sign of a.

    Special values as in `numpy.mod` and `numpy.fmod`; an integer b of 0 gives 0, where ONNX says nothing. Before opset
    28 floats were said to need fmod, which nothing enforced.
    """

    truncate: bool = False

    name = "mod"
    from_onnx = {"Mod": lambda node: read(Mod, node, truncate="fmod")}

    @property
    def kind(self) -> str:
        """The formula's name."""
        return "remainder" if self.truncate else "modulo"

    def function(self, inputs: Sequence[TensorType | None]) -> Function | None:
        return Function(self.kind, (), (0, 1), weight=FORMULAS[self.kind].weight)

    def elements(self, a: Array, b: Array) -> Array:
        return np.asarray(FORMULAS[self.kind].apply(a, b))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        a = np.array([-5.5, 5.5, 0.0, -0.0, np.inf, np.nan, 1.0, 3.0], np.float32)
        b = np.array([[2.0], [-2.0], [np.inf], [0.0]], np.float32)
        for truncate in (False, True):
            op = Mod(truncate)
            yield Sample(op, (a, b), "special values")
            apart = np.exp(seeded((4, 41), 1) * np.float32(30.0)) * seeded((4, 41), 2)
            yield Sample(op, (apart, seeded((41,), 3)), "far apart")
            yield Sample(op, (np.array([-7, 7, -8], np.int8), np.array([[3], [-3]], np.int8)))
            yield Sample(op, (seeded((2, 3), 1, np.uint64), np.array(4, np.uint64)))
            yield Sample(op, (np.array([4], np.int32), np.array([0], np.int32)), "zero")
            yield Sample(op, (seeded((0, 2), 1, np.float16), seeded((2,), 2, np.float16)))
