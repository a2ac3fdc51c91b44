"""Functions of one number on arrays, named as torch: integers and bool give float32, but for the rounding ones.

Types, out, threads and errors as in `elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cenote.core.errors import ArgumentError, DTypeError, shown
from cenote.core.types import is_float
from cenote.functional.elementwise.recorder import (
    Traced,
    Value,
    apply,
    as_floats,
    elementwise,
    of_operator,
)
from cenote.ops.elementwise import unary
from cenote.ops.elementwise.binary import Div, Mul
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.formula import Formula
from cenote.ops.elementwise.pointwise import Pointwise

_MOST_DECIMALS = 308  # whose power of ten is a float


_of_floats = partial(of_operator, __name__, of=as_floats)


def _of_whole(name: str, op: Pointwise, doc: str) -> Callable[..., Any]:
    """The function of an operator that rounds: integers are whole already."""

    def body(input: Value) -> Traced:
        return apply(op if is_float(input.dtype) else Cast(input.dtype), input)

    body.__name__, body.__doc__ = name, doc
    return elementwise(body)


exp = _of_floats("exp", unary.Exp(), "e to the power of input.")
exp2 = _of_floats("exp2", Formula("exp2"), "2 to the power of input.")
expm1 = _of_floats("expm1", Formula("expm1"), "e to the power of input, less 1, without cancellation.")
log = _of_floats("log", unary.Log(), "Natural logarithm; NaN below 0.")
log2 = _of_floats("log2", Formula("log2"), "Logarithm to base 2; NaN below 0.")
log10 = _of_floats("log10", Formula("log10"), "Logarithm to base 10; NaN below 0.")
log1p = _of_floats("log1p", Formula("log1p"), "log(1 + input) without cancellation; NaN below -1.")
sqrt = _of_floats("sqrt", unary.Sqrt(), "Square root; NaN below 0.")
rsqrt = _of_floats("rsqrt", Formula("rsqrt"), "1 / sqrt(input).")
reciprocal = _of_floats("reciprocal", unary.Reciprocal(), "1 / input.")
erf = _of_floats("erf", unary.Erf(), "Gauss error function.")
sin = _of_floats("sin", unary.Sin(), "Sine of radians.")
cos = _of_floats("cos", unary.Cos(), "Cosine of radians.")
tan = _of_floats("tan", unary.Tan(), "Tangent of radians.")
asin = _of_floats("asin", unary.Asin(), "Inverse sine; NaN outside -1 .. 1.")
acos = _of_floats("acos", unary.Acos(), "Inverse cosine; NaN outside -1 .. 1.")
atan = _of_floats("atan", unary.Atan(), "Inverse tangent.")
sinh = _of_floats("sinh", unary.Sinh(), "Hyperbolic sine.")
cosh = _of_floats("cosh", unary.Cosh(), "Hyperbolic cosine.")
asinh = _of_floats("asinh", unary.Asinh(), "Inverse hyperbolic sine.")
acosh = _of_floats("acosh", unary.Acosh(), "Inverse hyperbolic cosine; NaN below 1.")
atanh = _of_floats("atanh", unary.Atanh(), "Inverse hyperbolic tangent; NaN outside -1 .. 1.")
floor = _of_whole("floor", unary.Floor(), "Rounded down; integers stay.")
ceil = _of_whole("ceil", unary.Ceil(), "Rounded up; integers stay.")
trunc = _of_whole("trunc", Formula("truncate"), "Rounded toward zero; integers stay.")


@elementwise
def round(input: Value, *, decimals: int = 0) -> Traced:  # torch's name
    """Rounded to the nearest whole number, halves to the even one; integers stay.

    decimals  of floats: as many places behind the point (negative: before it) are kept, by a product with the power of
              ten and a division, each rounded to input's type. Raises DTypeError for integers.
    """
    if not decimals:
        return apply(unary.Round() if is_float(input.dtype) else Cast(input.dtype), input)
    if not is_float(input.dtype):
        raise DTypeError(f"type {input.dtype} has no decimals; leave them out")
    if not -_MOST_DECIMALS <= decimals <= _MOST_DECIMALS:
        raise ArgumentError(
            f"decimals must be from -{_MOST_DECIMALS} to {_MOST_DECIMALS}, got {shown(decimals)}"
        )
    scale = input.number(10.0 ** (decimals if decimals > 0 else -decimals))
    before, after = (Mul(), Div()) if decimals > 0 else (Div(), Mul())
    return apply(after, apply(unary.Round(), apply(before, input, scale)), scale)
