"""Transcendental functions of generated code, on float32 vectors of any lanes: at most about 2 ulp (`swish` apart).

The whole range is covered: denormal results, infinities, NaN (which is passed on) and, where the function has one,
the sign of zero. Nothing here needs a fused multiply-add; targets without it lose a fraction of an ulp. `exp`, `log`
and `expm1` take float64 too (2 ulp); the others are float32 alone.

Argument reductions are the classic ones (W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980;
the logarithm's is that of fdlibm). The polynomials are our own weighted minimax fits; the largest relative error of
each stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F32, F64, U32, U64, Scalar, Value
from cenote.core.deferred import dataclass


@dataclass(frozen=True)
class _Format:
    """Constants of a float type for the reductions."""

    bits: Scalar
    mantissa: int
    bias: int
    low: float  # exp is 0 below
    high: float  # exp overflows before
    ln2_high: float  # so short that a product with an exponent is exact
    ln2_low: float
    exp: tuple[float, ...]  # (e^r - 1 - r) / r² for |r| <= ln(2) / 2
    log: tuple[float, ...]  # (2 atanh(s) - 2s) / s³ as a polynomial in s², |s| <= 0.1716

    @property
    def magic(self) -> float:
        """Number whose addition and subtraction rounds to a whole number; the low bits of the sum hold that number."""
        return 1.5 * 2.0**self.mantissa


_SINGLE = _Format(
    U32,
    23,
    127,
    -104.0,
    89.0,
    0.693359375,
    -2.12194440e-4,
    (0.49999994, 0.166665211, 0.041668389, 0.00836871006, 0.00138146139),  # 3.1e-9 of e^r
    (0.6666666269, 0.4000033438, 0.2853730023, 0.2358229607),  # 9.6e-12
)
_DOUBLE = _Format(
    U64,
    52,
    1023,
    -746.0,
    710.0,
    6.93147180369123816490e-01,
    1.90821492927058770002e-10,
    tuple(1.0 / math.factorial(power) for power in range(2, 14)),
    tuple(2.0 / (2 * power + 3) for power in range(11)),
)


def _format(value: Value) -> _Format:
    if value.type not in (F32, F64):
        raise TypeError(f"functions take f32 and f64, got {value.type.name}")
    return _SINGLE if value.type is F32 else _DOUBLE


def polynomial(kernel: Kernel, x: Value, coefficients: Sequence[float]) -> Value:
    """Compute c0 + c1 x + c2 x² …, by Horner's rule."""
    result = kernel.constant(x.type, coefficients[-1], x.lanes)
    for coefficient in reversed(coefficients[:-1]):
        result = kernel.fma(result, x, kernel.constant(x.type, coefficient, x.lanes))
    return result


def any_lane(k: Kernel, lanes: Value) -> Value:
    """Whether any lane of a vector of bits is set."""
    if lanes.lanes == 1:
        return lanes
    name = f"llvm.vector.reduce.or.v{lanes.lanes}i1"
    return k.call(name, lanes.type, 1, [lanes])


def with_sign(k: Kernel, size: Value, sign: Value) -> Value:
    """Return size, whose sign bit is 0, with the sign of the other. In integers: LLVM would round a sign of float64
    to the float16 that the result becomes, by a function that no library has."""
    return (size.bits(U64) | (sign.bits(U64) & (1 << 63))).bits(F64)


def copy_sign(kernel: Kernel, magnitude: Value, sign: Value) -> Value:
    """Return |magnitude| with the sign bit of the other."""
    return kernel.intrinsic("copysign", magnitude, sign)


def _held(kernel: Kernel, x: Value, low: float, high: float) -> Value:
    """Limit to low..high; NaN stays."""
    raised = kernel.select(x < low, kernel.constant(x.type, low), x)
    return kernel.select(raised > high, kernel.constant(x.type, high), raised)


def _reduced(kernel: Kernel, x: Value, form: _Format) -> tuple[Value, Value]:
    """Reduce x = n ln(2) + r to the bits of n + magic, and r."""
    shifted = kernel.fma(x, kernel.constant(x.type, 1.0 / math.log(2.0)), kernel.constant(x.type, form.magic))
    n = shifted - form.magic
    high, low = (kernel.constant(x.type, -part, x.lanes) for part in (form.ln2_high, form.ln2_low))
    return shifted.bits(form.bits), kernel.fma(n, low, kernel.fma(n, high, x))  # the inner one is exact


def _magic_bits(form: _Format) -> int:
    """Bits of `magic`: its exponent field, and the upper half of the mantissa."""
    return (form.bias + form.mantissa << form.mantissa) | 1 << form.mantissa - 1


def exp(kernel: Kernel, x: Value) -> Value:
    """Compute e^x. The power of two is applied in two steps, so that overflow and denormal results round once."""
    form = _format(x)
    bits, r = _reduced(kernel, _held(kernel, x, form.low, form.high), form)
    series = kernel.fma(r * r, polynomial(kernel, r, form.exp), r) + 1.0
    return _scaled(kernel, series, bits, form)


def _scaled(kernel: Kernel, value: Value, bits: Value, form: _Format) -> Value:
    """Compute value * 2^n, rounded once, from the bits of n + magic: by one instruction where whole registers have
    it, else in two steps, of which the first is exact. The results are the same."""
    if kernel.target.has_scale and value.lanes * value.type.nbytes % kernel.target.vector_bytes == 0:
        return _scaled_at_once(kernel, value, bits.bits(value.type) - form.magic)
    both = bits - (_magic_bits(form) - 2 * form.bias)  # n + 2 bias: positive
    half = both >> 1
    first, second = (part << form.mantissa for part in (half, both - half))
    return value * first.bits(value.type) * second.bits(value.type)


def _scaled_at_once(kernel: Kernel, value: Value, power: Value) -> Value:
    """Compute value * 2^power, register by register."""
    lanes = kernel.target.vector_bytes // value.type.nbytes
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if value.type is F32 else 'pd'}.512"
    ir, mask = value.type.vector(lanes), f"i{lanes}"
    kernel.declare(name, f"{ir} ({ir}, {ir}, {ir}, {mask}, i32 immarg)")
    scaled: list[Value] = []
    for at in range(0, value.lanes, lanes):
        x, n = (
            kernel.shuffle(each, each, range(at, at + lanes)) if each.lanes > lanes else each
            for each in (value, power)
        )
        text = f"call {ir} @{name}({ir} {x.text}, {ir} {n.text}, {ir} {x.text}, {mask} -1, i32 4)"
        scaled.append(kernel.assign(text, value.type, lanes))
    return kernel.joined(scaled)


def expm1(kernel: Kernel, x: Value) -> Value:
    """Compute e^x - 1 without cancellation near 0."""
    half = _half_expm1(kernel, _held(kernel, x, -1.7 * _format(x).mantissa, _format(x).high))
    return kernel.select(x.equals(0.0), x, half + half)


def _half_expm1(kernel: Kernel, x: Value) -> Value:
    """Compute (e^x - 1) / 2 where e^x is neither tiny nor infinite; the sign of zero is lost."""
    form = _format(x)
    bits, r = _reduced(kernel, x, form)
    series = kernel.fma(r * r, polynomial(kernel, r, form.exp), r)
    scale = (bits - (_magic_bits(form) - form.bias + 1) << form.mantissa).bits(x.type)  # 2^(n - 1)
    return kernel.fma(scale, series, scale - 0.5)


_ROOT_HALF = {U32: 0x3F3504F3, U64: 0x3FE6A09E00000000}  # bits of sqrt(1/2), approximately


def log(kernel: Kernel, x: Value) -> Value:
    """Compute the natural logarithm: -infinity at both zeros, NaN below."""
    form = _format(x)
    tiny = x < 2.0 ** (1 - form.bias)
    normal = kernel.select(tiny, x * 2.0**form.mantissa, x)
    one, root = form.bias << form.mantissa, _ROOT_HALF[form.bits]
    bits = normal.bits(form.bits) + (one - root)
    exponent = bits >> form.mantissa
    f = ((bits & ((1 << form.mantissa) - 1)) + root).bits(x.type) - 1.0  # sqrt(1/2) - 1 … sqrt(2) - 1
    offset = kernel.constant(form.bits, form.bias + form.mantissa << form.mantissa, x.lanes)
    base = 2.0**form.mantissa + form.bias
    lower = kernel.constant(x.type, base + form.mantissa, x.lanes)
    # The exponent in the low bits of 2^mantissa is that number plus the exponent: no integer conversion.
    e = (exponent | offset).bits(x.type) - kernel.select(tiny, lower, kernel.constant(x.type, base, x.lanes))
    s = f / (f + 2.0)
    square, half = s * s, f * f * 0.5
    rest = square * polynomial(kernel, square, form.log)
    low = kernel.fma(s, half + rest, e * form.ln2_low)
    result = kernel.fma(e, kernel.constant(x.type, form.ln2_high), f - (half - low))
    infinity = kernel.constant(x.type, math.inf, x.lanes)
    result = kernel.select(x < infinity, result, x)  # of +infinity and NaN the result is the argument
    result = kernel.select(x < 0.0, kernel.constant(x.type, math.nan, x.lanes), result)
    return kernel.select(x.equals(0.0), kernel.constant(x.type, -math.inf, x.lanes), result)


def log1p(kernel: Kernel, x: Value) -> Value:
    """Compute log(1 + x) for x >= 0: the logarithm of the rounded sum, corrected by what the rounding lost."""
    total = x + 1.0
    infinite = x.equals(math.inf)
    return kernel.select(infinite, x, log(kernel, total) + (x - (total - 1.0)) / total)


def tanh(kernel: Kernel, x: Value) -> Value:
    """Compute the hyperbolic tangent, by expm1(-2|x|)."""
    least = kernel.constant(x.type, -1.7 * _format(x).mantissa, x.lanes)
    twice = kernel.absolute(x) * -2.0
    half = _half_expm1(kernel, kernel.select(twice < least, least, twice))
    return copy_sign(kernel, half / (half + 1.0), x)


def sigmoid(kernel: Kernel, x: Value) -> Value:
    """Compute 1 / (1 + e^-x), with a small relative error for results near 0 too."""
    small = exp(kernel, -kernel.absolute(x))
    return kernel.select(x < 0.0, small, kernel.constant(x.type, 1.0, x.lanes)) / (small + 1.0)


# e^-r for |r| <= ln(2) / 2: 7.5e-8, six tenths of a unit in the last place; another term would gain one unit of
# swish.
_SWISH = (1.0000001, -0.9999997, 0.49998891, -0.16667576, 0.041915629, -0.0082976194)


def swish(kernel: Kernel, x: Value, slope: float = 1.0) -> Value:
    """Compute x / (1 + e^(-slope x)), in half the instructions of x * sigmoid(slope x): used for activations only.

    At most 4 units in the last place where the result is above 1e-6 in size, 6 below; results below 1e-36 become
    zero, because the power of two is applied in one step.
    """
    form = _format(x)
    scaled = x if slope == 1.0 else x * slope
    # n + bias is the exponent field of e^-x: 0 at one end; at the other the power's bits are those of infinity.
    held = _held(kernel, scaled, -(form.bias + 0.99) * math.log(2.0), form.bias * math.log(2.0))
    magic = kernel.constant(x.type, form.magic + form.bias)
    shifted = kernel.fma(held, kernel.constant(x.type, -1.0 / math.log(2.0)), magic)
    n = shifted - magic
    if form is _SINGLE and kernel.target.has_fma:  # n * ln(2) is exact inside, and ln(2) to 3e-9 in float32
        r = kernel.fma(n, kernel.constant(x.type, math.log(2.0)), held)
    else:
        high, low = (kernel.constant(x.type, part, x.lanes) for part in (form.ln2_high, form.ln2_low))
        r = kernel.fma(n, low, kernel.fma(n, high, held))
    alternating = [term * (-1) ** power for power, term in enumerate(form.exp)]
    terms = _SWISH if form is _SINGLE else (1.0, -1.0, *alternating)
    power = (shifted.bits(form.bits) << form.mantissa).bits(x.type)
    return x / kernel.fma(polynomial(kernel, r, terms), power, kernel.constant(x.type, 1.0))


# e^r for |r| <= ln(2) / 2, 1 at 0: 9.5e-8
_FALLING = (1.0, 0.999999702, 0.499991506, 0.166676372, 0.0418979749, 0.00829026755)


def exp_falling(kernel: Kernel, x: Value) -> Value:
    """Compute e^x for x <= 0, in half the instructions of exp: for sums that hold e^0, which is 1.

    At most 3 units in the last place above e^-15, 7 below, 0 below 1.2e-38.
    """
    form = _format(x)
    if form is not _SINGLE:
        return exp(kernel, x)
    # n + bias is the exponent field of e^x; it is 0 at the lower end, and so is the power of two.
    held = kernel.select(x < -88.0, kernel.constant(x.type, -88.0), x)
    magic = kernel.constant(x.type, form.magic + form.bias)
    shifted = kernel.fma(held, kernel.constant(x.type, 1.0 / math.log(2.0)), magic)
    n = shifted - magic
    if kernel.target.has_fma:  # as in swish
        r = kernel.fma(n, kernel.constant(x.type, -math.log(2.0)), held)
    else:
        high, low = (kernel.constant(x.type, -part, x.lanes) for part in (form.ln2_high, form.ln2_low))
        r = kernel.fma(n, low, kernel.fma(n, high, held))
    return polynomial(kernel, r, _FALLING) * (shifted.bits(form.bits) << form.mantissa).bits(x.type)


def softplus(kernel: Kernel, x: Value) -> Value:
    """Compute log(1 + e^x)."""
    rest = log1p(kernel, exp(kernel, -kernel.absolute(x)))
    return kernel.select(x > 0.0, x + rest, rest)


# erf(x) / x - 1 as a polynomial in x², |x| <= 0.93: 4.5e-10
_ERF_SMALL = (
    0.1283791661,
    -0.3761263490,
    0.1128369421,
    -0.02685927041,
    0.005200634245,
    -0.0008137437399,
    8.345225e-5,
)
# -log(1 - erf(x)) / x - 1 as a polynomial in x, 0.92 <= x <= 4: error of erf 6.8e-10
_ERF_LARGE = (
    0.1286521703,
    0.6351358891,
    0.1062631607,
    -0.02378536016,
    0.003653770505,
    -0.0003256543714,
    1.1522464e-5,
)


def erf(kernel: Kernel, x: Value) -> Value:
    """Compute the Gauss error function (float32 only)."""
    t = kernel.absolute(x)
    near = kernel.fma(x, polynomial(kernel, x * x, _ERF_SMALL), x)
    held = kernel.select(t > 4.0, kernel.constant(x.type, 4.0), t)
    far = 1.0 - exp(kernel, -kernel.fma(held, polynomial(kernel, held, _ERF_LARGE), held))
    return kernel.select(t < 0.925, near, copy_sign(kernel, far, x))


# log2 of the tail 1 - Phi(t) of the normal distribution, a polynomial in t, 0 <= t <= 5.75: error of the tail 3.4e-8
_NORMAL_TAIL = (
    -1.0,
    -1.15110803,
    -0.459177881,
    -0.0525994673,
    0.00721754367,
    -0.000248434953,
    -0.000148552353,
    3.56315613e-05,
    -3.57988074e-06,
    1.41788988e-07,
)
# 2^r for |r| <= 1/2, 1 at 0: 9.2e-8
_POWER_OF_TWO = (1.0, 0.693147004, 0.240222424, 0.0555073358, 0.00967151579, 0.00132647355)


def gelu(kernel: Kernel, x: Value) -> Value:
    """Compute x * Phi(x) with the normal distribution Phi (float32 only), in six tenths of the instructions of
    0.5 x (1 + erf(0.7071 x)): for activations.

    Phi(-|x|) is one power of two, without a second formula near 0, and Phi(|x|) is 1 less that. At most 2.5e-7 of the
    result above 0; below, where 1 + erf cancels, 8e-6 of it as far as -4, and 1.1e-7 |x| everywhere.
    """
    form = _SINGLE
    t = kernel.absolute(x)
    power = polynomial(kernel, t, _NORMAL_TAIL)
    shifted = power + (form.magic + form.bias)  # n + bias is the exponent field of the tail
    r = power - (shifted - (form.magic + form.bias))
    tail = polynomial(kernel, r, _POWER_OF_TWO) * (shifted.bits(form.bits) << form.mantissa).bits(x.type)
    tail = kernel.select(t < 5.75, tail, kernel.constant(x.type, 0.0))  # of NaN the result is x
    return x * kernel.select(x < 0.0, tail, 1.0 - tail)


def exp2(kernel: Kernel, x: Value) -> Value:
    """Compute 2^x (float32 only): exact for whole numbers."""
    form = _SINGLE
    x = _held(kernel, x, -151.0, 129.0)
    shifted = x + form.magic
    r = (x - (shifted - form.magic)) * math.log(2.0)
    series = kernel.fma(r * r, polynomial(kernel, r, form.exp), r) + 1.0
    return _scaled(kernel, series, shifted.bits(form.bits), form)


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
    shifted = held + _DOUBLE.magic
    whole = (shifted - _DOUBLE.magic).equals(held)
    return whole & ~y.is_nan(), whole & (shifted.bits(U64) & 1).equals(1)
