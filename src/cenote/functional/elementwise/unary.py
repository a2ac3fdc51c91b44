"""Functions of one number on arrays, named as torch: integers and bool give float32, but for the rounding ones.

Types, out, threads and errors as in `elementwise`.
"""

from __future__ import annotations

from typing import cast

import cenote.functional.elementwise.formulas  # noqa: F401  # enters the functions
from cenote.functional.arguments import whole
from cenote.functional.elementwise.recorder import run
from cenote.functional.record import public
from cenote.functional.types import A


@public
def exp(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """e to the power of input."""
    return cast(A, run("exp", (input,), (), out, threads))


@public
def exp2(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """2 to the power of input."""
    return cast(A, run("exp2", (input,), (), out, threads))


@public
def expm1(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """e to the power of input, less 1, without cancellation."""
    return cast(A, run("expm1", (input,), (), out, threads))


@public
def log(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Natural logarithm; NaN below 0."""
    return cast(A, run("log", (input,), (), out, threads))


@public
def log2(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Logarithm to base 2; NaN below 0."""
    return cast(A, run("log2", (input,), (), out, threads))


@public
def log10(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Logarithm to base 10; NaN below 0."""
    return cast(A, run("log10", (input,), (), out, threads))


@public
def log1p(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """log(1 + input) without cancellation; NaN below -1."""
    return cast(A, run("log1p", (input,), (), out, threads))


@public
def sqrt(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Square root; NaN below 0."""
    return cast(A, run("sqrt", (input,), (), out, threads))


@public
def rsqrt(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """1 / sqrt(input)."""
    return cast(A, run("rsqrt", (input,), (), out, threads))


@public
def reciprocal(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """1 / input."""
    return cast(A, run("reciprocal", (input,), (), out, threads))


@public
def erf(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Gauss error function."""
    return cast(A, run("erf", (input,), (), out, threads))


@public
def sin(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Sine of radians."""
    return cast(A, run("sin", (input,), (), out, threads))


@public
def cos(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Cosine of radians."""
    return cast(A, run("cos", (input,), (), out, threads))


@public
def tan(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Tangent of radians."""
    return cast(A, run("tan", (input,), (), out, threads))


@public
def asin(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse sine; NaN outside -1 .. 1."""
    return cast(A, run("asin", (input,), (), out, threads))


@public
def acos(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse cosine; NaN outside -1 .. 1."""
    return cast(A, run("acos", (input,), (), out, threads))


@public
def atan(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse tangent."""
    return cast(A, run("atan", (input,), (), out, threads))


@public
def sinh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Hyperbolic sine."""
    return cast(A, run("sinh", (input,), (), out, threads))


@public
def cosh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Hyperbolic cosine."""
    return cast(A, run("cosh", (input,), (), out, threads))


@public
def asinh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse hyperbolic sine."""
    return cast(A, run("asinh", (input,), (), out, threads))


@public
def acosh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse hyperbolic cosine; NaN below 1."""
    return cast(A, run("acosh", (input,), (), out, threads))


@public
def atanh(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Inverse hyperbolic tangent; NaN outside -1 .. 1."""
    return cast(A, run("atanh", (input,), (), out, threads))


@public
def floor(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Rounded down; integers stay."""
    return cast(A, run("floor", (input,), (), out, threads))


@public
def ceil(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Rounded up; integers stay."""
    return cast(A, run("ceil", (input,), (), out, threads))


@public
def round(  # torch's name
    input: A, *, decimals: int = 0, out: A | None = None, threads: int | None = None
) -> A:
    """Rounded to the nearest whole number, halves to the even one; integers stay.

    decimals  of floats: as many places behind the point (negative: before it) are kept, by a product with the power of
              ten and a division, each rounded to input's type. Raises DTypeError for integers.
    """
    places = whole("round", "decimals", decimals)
    if places == 0:
        return cast(A, run("round", (input,), (), out, threads))
    return cast(A, run("round_decimals", (input,), (places,), out, threads))


@public
def trunc(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Rounded toward zero; integers stay."""
    return cast(A, run("trunc", (input,), (), out, threads))
