"""Functions of one number: absolute value, exponential, roots, trigonometry, rounding."""

from __future__ import annotations

from collections.abc import Iterable

from cenote.ops.base import Sample
from cenote.ops.elementwise.pointwise import Pointwise, of_formula, unary_samples
from cenote.ops.family import operator


class Unary(Pointwise):
    """Base: one input."""

    operands = ("x",)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return unary_samples(cls(), cls.integers)


def unary(onnx: str, meaning: str) -> type[Unary]:
    """An operator that ONNX calls `onnx`, of which kernels have a formula."""
    return operator(Unary, onnx, meaning, **of_formula(onnx.lower()))


Neg = unary("Neg", "-x; integers wrap around.")
Abs = unary("Abs", "|x|; the lowest integer of a type is its own absolute value.")
Sign = unary("Sign", "-1, 0 or 1; NaN stays NaN.")
Exp = unary("Exp", "e to the power of x.")
Log = unary("Log", "Natural logarithm: NaN below 0, -infinity at 0.")
Sqrt = unary("Sqrt", "Square root: NaN below 0.")
Reciprocal = unary("Reciprocal", "1 / x.")
Erf = unary("Erf", "Gauss error function.")
Floor = unary("Floor", "Largest whole number not above x.")
Ceil = unary("Ceil", "Smallest whole number not below x.")
Round = unary("Round", "Nearest whole number; halves go to the even one.")
Sin = unary("Sin", "Sine of radians.")
Cos = unary("Cos", "Cosine of radians.")
Tan = unary("Tan", "Tangent of radians.")
Asin = unary("Asin", "Inverse sine, NaN outside -1..1.")
Acos = unary("Acos", "Inverse cosine, NaN outside -1..1.")
Atan = unary("Atan", "Inverse tangent.")
Sinh = unary("Sinh", "Hyperbolic sine.")
Cosh = unary("Cosh", "Hyperbolic cosine.")
Asinh = unary("Asinh", "Inverse hyperbolic sine.")
Acosh = unary("Acosh", "Inverse hyperbolic cosine, NaN below 1.")
Atanh = unary("Atanh", "Inverse hyperbolic tangent, NaN outside -1..1.")
