"""Functions of one number: absolute value, exponential, roots, trigonometry, rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cenote.core.types import Array
from cenote.kernels.elementwise.activations import erf
from cenote.ops.base import Sample
from cenote.ops.elementwise.pointwise import Pointwise, unary_samples
from cenote.ops.family import operator


class Unary(Pointwise):
    """Base: one input."""

    operands = ("x",)
    integers = False

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        return unary_samples(cls(), cls.integers)


def unary(onnx: str, elements: Callable[..., Array], meaning: str, **members: Any) -> type[Unary]:
    """An operator that ONNX calls `onnx`, of which kernels have a formula."""
    return operator(Unary, onnx, meaning, elements=staticmethod(elements), formula=onnx.lower(), **members)


Neg = unary("Neg", np.negative, "-x; integers wrap around.", integers=True)
Abs = unary("Abs", np.abs, "|x|; the lowest integer of a type is its own absolute value.", integers=True)
Sign = unary("Sign", np.sign, "-1, 0 or 1; NaN stays NaN.", integers=True)
Exp = unary("Exp", np.exp, "e to the power of x.", weight=16, tolerance=3e-7)
Log = unary("Log", np.log, "Natural logarithm: NaN below 0, -infinity at 0.", weight=20, tolerance=3e-7)
Sqrt = unary("Sqrt", np.sqrt, "Square root: NaN below 0.", weight=6)
Reciprocal = unary("Reciprocal", np.reciprocal, "1 / x.", weight=6)
Erf = unary("Erf", lambda x: erf(x) if x.size else x, "Gauss error function.", weight=20, tolerance=3e-7)
Floor = unary("Floor", np.floor, "Largest whole number not above x.")
Ceil = unary("Ceil", np.ceil, "Smallest whole number not below x.")
Round = unary("Round", np.rint, "Nearest whole number; halves go to the even one.")
Sin = unary("Sin", np.sin, "Sine of radians.", tolerance=1e-7, weight=20)
Cos = unary("Cos", np.cos, "Cosine of radians.", tolerance=1e-7, weight=20)
Tan = unary("Tan", np.tan, "Tangent of radians.", tolerance=1e-7, weight=25)
Asin = unary("Asin", np.arcsin, "Inverse sine, NaN outside -1..1.", tolerance=1e-7, weight=25)
Acos = unary("Acos", np.arccos, "Inverse cosine, NaN outside -1..1.", tolerance=1e-7, weight=25)
Atan = unary("Atan", np.arctan, "Inverse tangent.", tolerance=1e-7, weight=25)
Sinh = unary("Sinh", np.sinh, "Hyperbolic sine.", tolerance=1e-7, weight=25)
Cosh = unary("Cosh", np.cosh, "Hyperbolic cosine.", tolerance=1e-7, weight=25)
Asinh = unary("Asinh", np.arcsinh, "Inverse hyperbolic sine.", tolerance=1e-7, weight=25)
Acosh = unary("Acosh", np.arccosh, "Inverse hyperbolic cosine, NaN below 1.", tolerance=1e-7, weight=25)
Atanh = unary(
    "Atanh", np.arctanh, "Inverse hyperbolic tangent, NaN outside -1..1.", tolerance=1e-7, weight=25
)
