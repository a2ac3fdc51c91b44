"""Trigonometric, hyperbolic and inverse functions of float32. The sign of zero, infinities and NaN are those of C.

Tangents, hyperbolic functions and the inverse ones of sinh and cosh are computed in float64, and the result is rounded
once: an error below 0.51 units in the last place. The others are computed in float32, in a fifth to a half of the time:
sines and cosines of angles up to 1600, where there are fused instructions, with an error below 1.3 units, the inverse
functions below 1.6 (without fused instructions 2.5).

Angles are reduced by the nearest multiple of pi, whose product with the first part of pi is subtracted exactly: by
one fused instruction, or in parts of 26 bits times a multiple below 2^27. Larger angles, which networks do not have,
are reduced by `large_angles`, outside of the common path.
"""

from __future__ import annotations

import math as constants
from collections.abc import Callable

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.math import any_lane, with_sign
from cenote.codegen.values import F32, F64, I64, U32, Value
from cenote.kernels.elementwise import large_angles
from cenote.kernels.elementwise.formula import ElementwiseFormula

_PI = (constants.pi, float.fromhex("0x1.1a62633145c07p-53"))  # their sum has 106 bits
_PI_IN_PARTS = (  # 26 bits, 26 bits, the rest
    float.fromhex("0x1.921fb50000000p+1"),
    float.fromhex("0x1.110b460000000p-25"),
    float.fromhex("0x1.1a62633145c07p-53"),
)
_HALF_PI_IN_SINGLES = (  # 24 bits; 14 bits, whose products with a multiple of 10 bits are exact; the rest
    float.fromhex("0x1.921fb40000000p+0"),
    float.fromhex("0x1.4440000000000p-24"),
    float.fromhex("0x1.68c2340000000p-39"),
)
_LARGEST_SINGLE = 1600.0  # 1019 quarter turns
_LARGEST_ANGLE = 1e8  # below 2^26 half turns
# (sin(r) / r - 1) / r² in r², |r| <= pi/2: relative error of the sine at most 2.4e-11
_SINE = (
    -0.16666666626148477,
    0.008333331108563803,
    -0.00019840868205496862,
    2.7525384224020863e-06,
    -2.3888906067098767e-08,
)
_QUARTER_SINE = (-0.166666552, 0.00833215564, -0.000195146320)  # the same for |r| <= pi/4: 3.8e-9
# ((cos(r) - 1) / r² + 1/2) / r² in r², |r| <= pi/4: relative error of the cosine at most 1.2e-10
_QUARTER_COSINE = (0.0416666456, -0.00138873093, 2.44324128e-05)
# (asin(x) / x - 1) / x² in x², |x| <= 1/2: 4.9e-9
_ARC_SINE = (0.1666675248, 0.07495297624, 0.04547037792, 0.02417950655, 0.0421663205)
# (atan(x) / x - 1) / x² in x², |x| <= 1/2: 5.3e-9
_ARC_TANGENT = (-0.3333323431, 0.1999422669, -0.1417501079, 0.1016001598, -0.0513259887)
_QUARTER_PI = (0.7853981852531433, -2.1855695031547384e-08)

Emit = Callable[[Kernel, Value], Value]
Reduce = Callable[[Kernel, Value, int], tuple[Value, Value]]


def _in_double(function: Emit) -> Emit:
    """Return the function of a float32, computed by one of float64."""
    return lambda k, x: function(k, x.to(F64)).to(F32)


def _angle(quarter: int) -> Emit:
    """Return the sine (from quarter 0) or cosine (from quarter 1)."""
    return lambda k, x: _with_large(k, x, lambda reduce: _wave(k, *reduce(k, x.to(F64), quarter), quarter))


def _with_large(k: Kernel, x: Value, function: Callable[[Reduce], Value]) -> Value:
    """Return a function of an angle of float32, made of its reduction; computed again where a lane holds a large
    angle."""
    result = k.variable(function(_reduced).to(F32))
    large = k.absolute(x) > _LARGEST_ANGLE
    with k.when(any_lane(k, large)):
        result.value = k.select(large, function(large_angles.reduced).to(F32), result.value)
    return result.value


def _reduced(k: Kernel, x: Value, quarter: int) -> tuple[Value, Value]:
    """Return the difference between x and the nearest multiple of pi or, for a cosine, of pi and a half; and a number
    whose lowest bit is odd with the multiple."""
    magic = 1.5 * 2.0**52
    shifted = k.fma(x, k.constant(F64, 1.0 / constants.pi), k.constant(F64, -0.5 * quarter)) + magic
    turns = shifted - magic + 0.5 * quarter
    r = x
    if k.target.has_fma:
        for part in _PI:
            r = k.fma(turns, k.constant(F64, -part), r)
    else:
        for part in _PI_IN_PARTS:
            r = r - turns * part
    return r, shifted


def _wave(k: Kernel, r: Value, shifted: Value, quarter: int) -> Value:
    """Sine of a reduced angle."""
    square = r * r
    sine = r * k.fma(square, math.polynomial(k, square, _SINE), k.constant(F64, 1.0))
    odd = shifted.bits(I64) + quarter << 63  # the sine changes its sign from multiple to multiple
    return (sine.bits(I64) ^ odd).bits(F64)


def _in_single(quarter: int) -> Emit:
    """Return `_angle`, computed in float32 where no lane holds a large angle."""
    wide = _angle(quarter)

    def function(k: Kernel, x: Value) -> Value:
        if not k.target.has_fma:
            return wide(k, x)
        result = k.variable(_quarter_wave(k, x, quarter))
        large = k.absolute(x) > _LARGEST_SINGLE
        with k.when(any_lane(k, large)):
            result.value = k.select(large, wide(k, x), result.value)
        return result.value

    return function


def _quarter_wave(k: Kernel, x: Value, quarter: int) -> Value:
    """Sine or cosine (as the quarter requires) of r + low, the difference between x and the nearest
    multiple of pi/2."""
    high, middle, rest = (k.constant(F32, -part) for part in _HALF_PI_IN_SINGLES)
    magic = 1.5 * 2.0**23
    shifted = k.fma(x, k.constant(F32, 2.0 / constants.pi), k.constant(F32, magic))
    turns = shifted - magic
    first = k.fma(turns, high, x)  # exact, as is the product that follows
    part = turns * middle
    r = first + part
    low = k.fma(turns, rest, (first - r) + part)
    square = r * r
    sine = r + k.fma(r * square, math.polynomial(k, square, _QUARTER_SINE), low)
    bend = k.fma(square, math.polynomial(k, square, _QUARTER_COSINE), k.constant(F32, -0.5))
    cosine = k.fma(square, bend, k.constant(F32, 1.0))
    quarters = shifted.bits(U32) + quarter
    odd = (quarters & 1).differs(0)
    result = k.select(odd, cosine, math.copy_sign(k, sine, r))
    return (result.bits(U32) ^ ((quarters & 2) << 30)).bits(F32)


def _tangent(k: Kernel, x: Value) -> Value:
    def quotient(reduce: Reduce) -> Value:
        sine, cosine = (_wave(k, *reduce(k, x.to(F64), quarter), quarter) for quarter in (0, 1))
        return sine / cosine

    return _with_large(k, x, quotient)


def _arc_tangent(k: Kernel, x: Value) -> Value:
    """Compute atan(x) as an angle c and atan((x - tan c) / (1 + x tan c)), with c of 0, pi/4 and pi/2."""
    size = k.absolute(x)
    middle, large = size > 0.5, size > 2.0
    zero, one = (k.constant(F32, number, x.lanes) for number in (0.0, 1.0))
    upper = k.select(large, -one, k.select(middle, size - 1.0, size))
    lower = k.select(large, size, k.select(middle, size + 1.0, one))
    t = upper / lower
    square = t * t
    bend = t * square * math.polynomial(k, square, _ARC_TANGENT)
    high, low = (
        k.select(
            large,
            k.constant(F32, 2.0 * part, x.lanes),
            k.select(middle, k.constant(F32, part, x.lanes), zero),
        )
        for part in _QUARTER_PI
    )
    return math.copy_sign(k, high + (t + (bend + low)), x)


def _arc_sine(k: Kernel, x: Value) -> Value:
    large, s, tail = _half_arc(k, x)
    high, low = (k.constant(F32, 2.0 * part, x.lanes) for part in _QUARTER_PI)
    far = (high - (s + s)) - (tail + tail - low)
    return math.copy_sign(k, k.select(large, far, s + tail), x)


def _arc_cosine(k: Kernel, x: Value) -> Value:
    large, s, tail = _half_arc(k, x)
    negative = x < 0.0
    high, low = (k.constant(F32, 2.0 * part, x.lanes) for part in _QUARTER_PI)
    signed, rest = (k.select(negative, part, -part) for part in (s, tail))
    near = (high + signed) + (rest + low)
    twice, twice_tail = s + s, tail + tail
    behind = (high + high - twice) - (twice_tail - (low + low))
    return k.select(large, k.select(negative, behind, twice + twice_tail), near)


def _half_arc(k: Kernel, x: Value) -> tuple[Value, Value, Value]:
    """Return whether |x| is above 1/2, and the arc sine of |x| or, there, of sqrt((1 - |x|) / 2), which is half the arc
    cosine: as a number and what that lacks."""
    size = k.absolute(x)
    large = size > 0.5
    square = k.select(large, (1.0 - size) * 0.5, size * size)
    root = k.square_root(square)
    s = k.select(large, root, size)
    lost = k.fma(-root, root, square) / (root + root + 1e-30)
    bend = s * square * math.polynomial(k, square, _ARC_SINE)
    return large, s, k.select(large, bend + lost, bend)


def _hyperbolic_sine(k: Kernel, x: Value) -> Value:
    grown = math.expm1(k, k.absolute(x))
    result = (grown + grown / (grown + 1.0)) * 0.5
    return with_sign(k, k.select(grown.equals(float("inf")), grown, result), x)


def _hyperbolic_cosine(k: Kernel, x: Value) -> Value:
    grown = math.exp(k, k.absolute(x))
    return (grown + 1.0 / grown) * 0.5


def _inverse_hyperbolic_sine(k: Kernel, x: Value) -> Value:
    size = k.absolute(x)
    square = size * size
    result = math.log1p(k, size + square / (k.square_root(square + 1.0) + 1.0))
    return with_sign(k, k.select(size.equals(float("inf")), size, result), x)


def _inverse_hyperbolic_cosine(k: Kernel, x: Value) -> Value:
    above = x - 1.0
    result = math.log1p(k, above + k.square_root(above * (above + 2.0)))
    return k.select(above < 0.0, k.constant(F64, float("nan"), x.lanes), result)


def _inverse_hyperbolic_tangent(k: Kernel, x: Value) -> Value:
    """Compute log(1 + 2x / (1 - x)) / 2; the quotient in two parts, because its rounding would be seen."""
    size = k.absolute(x)
    inverse = 1.0 / (1.0 - size)
    quotient = (size + size) * inverse
    lost = (1.0 - (1.0 - size)) - size
    rest = k.fma(-quotient, 1.0 - size, size + size) - quotient * lost
    result = math.log1p_of_sum(k, quotient, rest * inverse) * 0.5
    result = k.select(size > 1.0, k.constant(F32, float("nan"), x.lanes), result)
    return math.copy_sign(k, result, x)


FORMULAS: dict[str, ElementwiseFormula] = {
    "sin": ElementwiseFormula(_in_single(0), np.sin, "f", 20, 1e-7),
    "cos": ElementwiseFormula(_in_single(1), np.cos, "f", 20, 1e-7),
    "tan": ElementwiseFormula(_tangent, np.tan, "f", 25, 1e-7),
    "asin": ElementwiseFormula(_arc_sine, np.arcsin, "f", 25, 2e-7),
    "acos": ElementwiseFormula(_arc_cosine, np.arccos, "f", 25, 2e-7),
    "atan": ElementwiseFormula(_arc_tangent, np.arctan, "f", 25, 2e-7),
    "sinh": ElementwiseFormula(_in_double(_hyperbolic_sine), np.sinh, "f", 25, 1e-7),
    "cosh": ElementwiseFormula(_in_double(_hyperbolic_cosine), np.cosh, "f", 25, 1e-7),
    "asinh": ElementwiseFormula(_in_double(_inverse_hyperbolic_sine), np.arcsinh, "f", 25, 1e-7),
    "acosh": ElementwiseFormula(_in_double(_inverse_hyperbolic_cosine), np.arccosh, "f", 25, 1e-7),
    "atanh": ElementwiseFormula(_inverse_hyperbolic_tangent, np.arctanh, "f", 25, 2e-7),
    "log1p": ElementwiseFormula(math.log1p, np.log1p, "f", 20, 2e-7),
    "log2": ElementwiseFormula(math.log2, np.log2, "f", 20, 2e-7),
    "log10": ElementwiseFormula(math.log10, np.log10, "f", 20, 2e-7),
    "exp2": ElementwiseFormula(math.exp2, np.exp2, "f", 16, 2e-7),
}
