"""Logarithms, and functions that are made of one."""

from __future__ import annotations

import math

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.math.exponentials import exp
from cenote.codegen.math.formats import DOUBLE, Format, format_of, polynomial
from cenote.codegen.values import F32, F64, U32, U64, Value

_ROOT_HALF = {U32: 0x3F3504F3, U64: 0x3FE6A09E00000000}  # bits of sqrt(1/2), approximately


def log(kernel: Kernel, x: Value) -> Value:
    """Compute the natural logarithm: -infinity at both zeros, NaN below."""
    form = format_of(x)
    e, f = _split(kernel, x, form)
    s, half, bend = _bent(kernel, f, form)
    low = kernel.fma(s, bend, e * form.ln2_low)
    return _at_ends(kernel, x, kernel.fma(e, kernel.constant(x.type, form.ln2_high), f - (half - low)))


def log2(kernel: Kernel, x: Value) -> Value:
    """Compute the binary logarithm (float32 only): exact for powers of two."""
    return _log_to_base(kernel, x, 2.0)


def log10(kernel: Kernel, x: Value) -> Value:
    """Compute the decimal logarithm (float32 only): exact for powers of ten."""
    return _log_to_base(kernel, x, 10.0)


def _log_to_base(kernel: Kernel, x: Value, base: float) -> Value:
    """Compute log(x) / log(base) of float32: e log(2) / log(base) + log(1 + f) / log(base), each with a factor in two
    parts."""
    form = format_of(x)
    e, f = _split(kernel, x, form)
    s, half, bend = _bent(kernel, f, form)
    of_e, of_f = (_in_two_parts(kernel, number / math.log(base)) for number in (math.log(2.0), 1.0))
    low = kernel.fma(kernel.fma(s, bend, -half), of_f[0], f * of_f[1])
    near = kernel.fma(f, of_f[0], low)
    if base == 2.0:
        return _at_ends(kernel, x, e + near)
    return _at_ends(kernel, x, kernel.fma(e, of_e[0], kernel.fma(e, of_e[1], near)))


def _in_two_parts(kernel: Kernel, number: float) -> tuple[Value, Value]:
    """Return a constant as a float32 and what that lacks."""
    high = float(np.float32(number))
    return kernel.constant(F32, high), kernel.constant(F32, number - high)


def _split(kernel: Kernel, x: Value, form: Format) -> tuple[Value, Value]:
    """Return e and f with x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), of x above 0."""
    tiny = x < 2.0 ** (1 - form.bias)
    normal = kernel.select(tiny, x * 2.0**form.mantissa, x)
    exponent, f = _fields(normal, form)
    base, lower = (kernel.constant(x.type, _base(form) + more, x.lanes) for more in (0, form.mantissa))
    return _number(exponent, form, kernel.select(tiny, lower, base)), f


def _fields(x: Value, form: Format) -> tuple[Value, Value]:
    """Return e + bias as an integer, and f, of a normal number."""
    one, root = form.bias << form.mantissa, _ROOT_HALF[form.bits]
    bits = x.bits(form.bits) + (one - root)
    return bits >> form.mantissa, ((bits & ((1 << form.mantissa) - 1)) + root).bits(x.type) - 1.0


def _number(exponent: Value, form: Format, base: Value | float) -> Value:
    """Return the exponent less what the base is above 2^mantissa. The exponent in the low bits of 2^mantissa is that
    number plus the exponent: no integer conversion."""
    return (exponent | (form.bias + form.mantissa << form.mantissa)).bits(form.type) - base


def _base(form: Format) -> float:
    return 2.0**form.mantissa + form.bias


def _bent(kernel: Kernel, f: Value, form: Format) -> tuple[Value, Value, Value]:
    """Return s = f / (2 + f), f² / 2, and b with log(1 + f) = f - (f² / 2 - s b)."""
    s = f / (f + 2.0)
    square, half = s * s, f * f * 0.5
    return s, half, half + square * polynomial(kernel, square, form.log)


def _at_ends(kernel: Kernel, x: Value, result: Value) -> Value:
    """Return the result where x is above 0 and finite, else what logarithms are there."""
    infinity = kernel.constant(x.type, math.inf, x.lanes)
    result = kernel.select(x < infinity, result, x)  # of +infinity and NaN the result is the argument
    result = kernel.select(x < 0.0, kernel.constant(x.type, math.nan, x.lanes), result)
    return kernel.select(x.equals(0.0), kernel.constant(x.type, -math.inf, x.lanes), result)


def log1p(kernel: Kernel, x: Value) -> Value:
    """Compute log(1 + x): -infinity at -1, NaN below; zeros keep their sign."""
    result = kernel.select(x.equals(0.0), x, log1p_of_sum(kernel, x))
    result = kernel.select(x < -1.0, kernel.constant(x.type, math.nan, x.lanes), result)
    return kernel.select(x.equals(-1.0), kernel.constant(x.type, -math.inf, x.lanes), result)


def log1p_of_sum(kernel: Kernel, x: Value, rest: Value | None = None) -> Value:
    """Compute log(1 + x + rest) for x above -1, where the rest is at most a rounding error of x. The sign of zero is
    lost.

    The logarithm of the rounded sum 2^e (1 + f) is corrected by what the rounding lost over that sum.
    """
    form = format_of(x)
    total = x + 1.0
    lost = kernel.select(x > 1.0, 1.0 - (total - x), x - (total - 1.0))
    exponent, f = _fields(total, form)
    # 2^-e, but for the largest numbers, of which a part that is lost does not matter.
    scale = ((2 * form.bias - kernel.minimum(exponent, 2 * form.bias - 4)) << form.mantissa).bits(x.type)
    lost = (lost if rest is None else lost + rest) * scale
    lost = kernel.fma(-lost, f, lost)  # over 1 + f, to a tenth
    e = _number(exponent, form, _base(form))
    s, half, bend = _bent(kernel, f, form)
    low = kernel.fma(s, bend, kernel.fma(e, kernel.constant(x.type, form.ln2_low), lost))
    result = kernel.fma(e, kernel.constant(x.type, form.ln2_high), f - (half - low))
    return kernel.select(x < math.inf, result, x)


def softplus(kernel: Kernel, x: Value) -> Value:
    """Compute log(1 + e^x)."""
    rest = log1p_of_sum(kernel, exp(kernel, -kernel.absolute(x)))
    return kernel.select(x > 0.0, x + rest, rest)


def power(kernel: Kernel, x: Value, y: Value) -> Value:
    """Compute x^y with the special cases of C's pow (float32 only): log and exp in float64, so that the error is
    below 1 ulp."""
    base, exponent = x.to(F64), y.to(F64)
    magnitude = kernel.absolute(base)
    logarithm = log(kernel, magnitude)
    product = exponent * logarithm
    product = kernel.select(logarithm.equals(0.0) & ~y.is_nan(), kernel.constant(F64, 0.0), product)
    result = exp(kernel, product).to(F32)
    whole, odd = _whole_and_odd(kernel, exponent)
    negative = (x < 0.0) | (x.equals(0.0) & (1.0 / x < 0.0))
    result = kernel.select(negative & odd, -result, result)
    invalid = (x < 0.0) & ~whole & (x > -math.inf)
    result = kernel.select(invalid, kernel.constant(F32, math.nan), result)
    one = kernel.constant(F32, 1.0, x.lanes)
    return kernel.select(x.equals(1.0) | y.equals(0.0), one, result)


def _whole_and_odd(kernel: Kernel, y: Value) -> tuple[Value, Value]:
    """Return whether a float64 that was a float32 is a whole number, and an odd one; from 2^24 on all are even."""
    held = kernel.select(kernel.absolute(y) < 2.0**24, y, kernel.constant(F64, 2.0))
    shifted = held + DOUBLE.magic
    whole = (shifted - DOUBLE.magic).equals(held)
    return whole & ~y.is_nan(), whole & (shifted.bits(U64) & 1).equals(1)
