"""Functions of one number: absolute value, exponential, roots, trigonometry, rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cenote.core.types import Array
from cenote.kernels.elementwise.activations import erf
from cenote.ops.base import Sample
from cenote.ops.elementwise.pointwise import Pointwise, plain, unary_samples


class Unary(Pointwise):
    """Base: one input."""

    operands = 1
    integers = False

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return unary_samples(cls(), cls.integers)


@dataclass(frozen=True)
class Neg(Unary):
    """-x; integers wrap around."""

    name = "neg"
    formula = "neg"
    from_onnx = {"Neg": lambda node: plain(Neg, node)}
    integers = True

    def compute(self, *inputs: Array) -> Array:
        return np.negative(inputs[0])


@dataclass(frozen=True)
class Abs(Unary):
    """|x|; the lowest integer of a type is its own absolute value."""

    name = "abs"
    formula = "abs"
    from_onnx = {"Abs": lambda node: plain(Abs, node)}
    integers = True

    def compute(self, *inputs: Array) -> Array:
        return np.abs(inputs[0])


@dataclass(frozen=True)
class Sign(Unary):
    """-1, 0 or 1; NaN stays NaN."""

    name = "sign"
    formula = "sign"
    from_onnx = {"Sign": lambda node: plain(Sign, node)}
    integers = True

    def compute(self, *inputs: Array) -> Array:
        return np.sign(inputs[0])


@dataclass(frozen=True)
class Exp(Unary):
    """e to the power of x."""

    name = "exp"
    formula = "exp"
    tolerance = 3e-07
    from_onnx = {"Exp": lambda node: plain(Exp, node)}
    weight = 16

    def compute(self, *inputs: Array) -> Array:
        return np.exp(inputs[0])


@dataclass(frozen=True)
class Log(Unary):
    """Natural logarithm: NaN below 0, -infinity at 0."""

    name = "log"
    formula = "log"
    tolerance = 3e-07
    from_onnx = {"Log": lambda node: plain(Log, node)}
    weight = 20

    def compute(self, *inputs: Array) -> Array:
        return np.log(inputs[0])


@dataclass(frozen=True)
class Sqrt(Unary):
    """Square root: NaN below 0."""

    name = "sqrt"
    formula = "sqrt"
    from_onnx = {"Sqrt": lambda node: plain(Sqrt, node)}
    weight = 6

    def compute(self, *inputs: Array) -> Array:
        return np.sqrt(inputs[0])


@dataclass(frozen=True)
class Reciprocal(Unary):
    """1 / x."""

    name = "reciprocal"
    formula = "reciprocal"
    from_onnx = {"Reciprocal": lambda node: plain(Reciprocal, node)}
    weight = 6

    def compute(self, *inputs: Array) -> Array:
        return np.reciprocal(inputs[0])


@dataclass(frozen=True)
class Erf(Unary):
    """Gauss error function."""

    name = "erf"
    formula = "erf"
    tolerance = 3e-07
    from_onnx = {"Erf": lambda node: plain(Erf, node)}
    weight = 20

    def compute(self, *inputs: Array) -> Array:
        return erf(inputs[0]) if inputs[0].size else inputs[0]


@dataclass(frozen=True)
class Floor(Unary):
    """Largest whole number not above x."""

    name = "floor"
    formula = "floor"
    from_onnx = {"Floor": lambda node: plain(Floor, node)}

    def compute(self, *inputs: Array) -> Array:
        return np.floor(inputs[0])


@dataclass(frozen=True)
class Ceil(Unary):
    """Smallest whole number not below x."""

    name = "ceil"
    formula = "ceil"
    from_onnx = {"Ceil": lambda node: plain(Ceil, node)}

    def compute(self, *inputs: Array) -> Array:
        return np.ceil(inputs[0])


@dataclass(frozen=True)
class Round(Unary):
    """Nearest whole number; halves go to the even one."""

    name = "round"
    formula = "round"
    from_onnx = {"Round": lambda node: plain(Round, node)}

    def compute(self, *inputs: Array) -> Array:
        return np.rint(inputs[0])


@dataclass(frozen=True)
class Sin(Unary):
    """Sine of radians."""

    name = "sin"
    from_onnx = {"Sin": lambda node: plain(Sin, node)}
    weight = 20

    def compute(self, *inputs: Array) -> Array:
        return np.sin(inputs[0])


@dataclass(frozen=True)
class Cos(Unary):
    """Cosine of radians."""

    name = "cos"
    from_onnx = {"Cos": lambda node: plain(Cos, node)}
    weight = 20

    def compute(self, *inputs: Array) -> Array:
        return np.cos(inputs[0])


@dataclass(frozen=True)
class Tan(Unary):
    """Tangent of radians."""

    name = "tan"
    from_onnx = {"Tan": lambda node: plain(Tan, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.tan(inputs[0])


@dataclass(frozen=True)
class Asin(Unary):
    """Inverse sine, NaN outside -1..1."""

    name = "asin"
    from_onnx = {"Asin": lambda node: plain(Asin, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arcsin(inputs[0])


@dataclass(frozen=True)
class Acos(Unary):
    """Inverse cosine, NaN outside -1..1."""

    name = "acos"
    from_onnx = {"Acos": lambda node: plain(Acos, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arccos(inputs[0])


@dataclass(frozen=True)
class Atan(Unary):
    """Inverse tangent."""

    name = "atan"
    from_onnx = {"Atan": lambda node: plain(Atan, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arctan(inputs[0])


@dataclass(frozen=True)
class Sinh(Unary):
    """Hyperbolic sine."""

    name = "sinh"
    from_onnx = {"Sinh": lambda node: plain(Sinh, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.sinh(inputs[0])


@dataclass(frozen=True)
class Cosh(Unary):
    """Hyperbolic cosine."""

    name = "cosh"
    from_onnx = {"Cosh": lambda node: plain(Cosh, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.cosh(inputs[0])


@dataclass(frozen=True)
class Asinh(Unary):
    """Inverse hyperbolic sine."""

    name = "asinh"
    from_onnx = {"Asinh": lambda node: plain(Asinh, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arcsinh(inputs[0])


@dataclass(frozen=True)
class Acosh(Unary):
    """Inverse hyperbolic cosine, NaN below 1."""

    name = "acosh"
    from_onnx = {"Acosh": lambda node: plain(Acosh, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arccosh(inputs[0])


@dataclass(frozen=True)
class Atanh(Unary):
    """Inverse hyperbolic tangent, NaN outside -1..1."""

    name = "atanh"
    from_onnx = {"Atanh": lambda node: plain(Atanh, node)}
    weight = 25

    def compute(self, *inputs: Array) -> Array:
        return np.arctanh(inputs[0])


UNARY: tuple[type[Unary], ...] = (
    Neg, Abs, Sign, Exp, Log, Sqrt, Reciprocal, Erf, Floor, Ceil, Round, Sin, Cos, Tan, Asin, Acos, Atan,
    Sinh, Cosh, Asinh, Acosh, Atanh,
)  # fmt: skip
