"""Exponential functions, and activations that are made of one."""

from __future__ import annotations

import math

from cenote.codegen.builder import Kernel
from cenote.codegen.math.formats import SINGLE, Format, copy_sign, format_of, limited, polynomial
from cenote.codegen.values import F32, Value


def _reduced(kernel: Kernel, x: Value, form: Format, offset: int) -> tuple[Value, Value, Value]:
    """Reduce x = n ln(2) + r to n, r and bits whose low ones hold n + offset, which must not be negative."""
    magic = kernel.constant(x.type, form.magic + offset)
    shifted = kernel.fma(x, kernel.constant(x.type, 1.0 / math.log(2.0)), magic)
    n = shifted - magic
    high, low = (kernel.constant(x.type, -part, x.lanes) for part in (form.ln2_high, form.ln2_low))
    return n, kernel.fma(n, low, kernel.fma(n, high, x)), shifted.bits(form.bits)  # the inner one is exact


def exp(kernel: Kernel, x: Value) -> Value:
    """Compute e^x, so that overflow and denormal results round once."""
    form = format_of(x)
    held = limited(kernel, x, form.low, form.high)
    n, r, bits = _reduced(kernel, held, form, 2 * form.bias)
    return _scaled(kernel, kernel.fma(r * r, polynomial(kernel, r, form.exp), r), n, bits, form)


def _scaled(kernel: Kernel, series: Value, n: Value, bits: Value, form: Format) -> Value:
    """Compute (1 + series) * 2^n, rounded to a normal number and once more where it is none. The low bits of `bits`
    hold n + 2 bias.

    By one instruction where whole registers have it, else by two powers of two, of which the first is exact. The
    results are the same.
    """
    if kernel.target.has_scale and series.lanes * series.type.nbytes % kernel.target.vector_bytes == 0:
        return _scaled_at_once(kernel, series + 1.0, n)
    half = bits >> 1  # shifted into the place of exponents, only the low bits are left: above them lie zeros
    first, second = ((part << form.mantissa).bits(series.type) for part in (half, bits - half))
    return kernel.fma(series, first, first) * second


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
    half = _half_expm1(kernel, limited(kernel, x, -1.7 * format_of(x).mantissa, format_of(x).high))
    return kernel.select(x.equals(0.0), x, half + half)


def _half_expm1(kernel: Kernel, x: Value) -> Value:
    """Compute (e^x - 1) / 2 where e^x is neither tiny nor infinite; the sign of zero is lost."""
    form = format_of(x)
    _, r, bits = _reduced(kernel, x, form, form.bias - 1)
    series = kernel.fma(r * r, polynomial(kernel, r, form.exp), r)
    scale = (bits << form.mantissa).bits(x.type)  # 2^(n - 1)
    return kernel.fma(scale, series, scale - 0.5)


def tanh(kernel: Kernel, x: Value) -> Value:
    """Compute the hyperbolic tangent, by expm1(-2|x|)."""
    least = kernel.constant(x.type, -1.7 * format_of(x).mantissa, x.lanes)
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
    form = format_of(x)
    scaled = x if slope == 1.0 else x * slope
    # n + bias is the exponent field of e^-x: 0 at one end; at the other the power's bits are those of infinity.
    held = limited(kernel, scaled, -(form.bias + 0.99) * math.log(2.0), form.bias * math.log(2.0))
    magic = kernel.constant(x.type, form.magic + form.bias)
    shifted = kernel.fma(held, kernel.constant(x.type, -1.0 / math.log(2.0)), magic)
    n = shifted - magic
    if form is SINGLE and kernel.target.has_fma:  # n * ln(2) is exact inside, and ln(2) to 3e-9 in float32
        r = kernel.fma(n, kernel.constant(x.type, math.log(2.0)), held)
    else:
        high, low = (kernel.constant(x.type, part, x.lanes) for part in (form.ln2_high, form.ln2_low))
        r = kernel.fma(n, low, kernel.fma(n, high, held))
    alternating = [term * (-1) ** power for power, term in enumerate(form.exp)]
    terms = _SWISH if form is SINGLE else (1.0, -1.0, *alternating)
    power = (shifted.bits(form.bits) << form.mantissa).bits(x.type)
    return x / kernel.fma(polynomial(kernel, r, terms), power, kernel.constant(x.type, 1.0))


# e^r for |r| <= ln(2) / 2, 1 at 0: 9.5e-8
_FALLING = (1.0, 0.999999702, 0.499991506, 0.166676372, 0.0418979749, 0.00829026755)


def exp_falling(kernel: Kernel, x: Value) -> Value:
    """Compute e^x for x <= 0, in half the instructions of exp: for sums that hold e^0, which is 1.

    At most 3 units in the last place above e^-15, 7 below, 0 below 1.2e-38.
    """
    form = format_of(x)
    if form is not SINGLE:
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


def exp2(kernel: Kernel, x: Value) -> Value:
    """Compute 2^x (float32 only): exact for whole numbers."""
    form = SINGLE
    x = limited(kernel, x, -151.0, 129.0)
    shifted = x + (form.magic + 2 * form.bias)
    n = shifted - (form.magic + 2 * form.bias)
    r = (x - n) * math.log(2.0)
    series = kernel.fma(r * r, polynomial(kernel, r, form.exp), r)
    return _scaled(kernel, series, n, shifted.bits(form.bits), form)
