"""Quotients of floats rounded down, and remainders, exact as C's fmod. They are computed in float64, where remainders
of quotients below 2^28 are exact; for others, outside of the common path, in steps of 26 bits of the quotient."""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.math import any_lane, with_sign
from cenote.codegen.values import F32, F64, U64, Value
from cenote.kernels.elementwise import integers, rounding

_LARGEST_QUOTIENT, _STEP = 277, 26  # bits


def remainder(k: Kernel, a: Value, b: Value) -> Value:
    """Remainder of a / b, with the sign of a."""
    return _remainder(k, a.to(F64), b.to(F64)).to(F32) if a.type is F32 else integers.remainder(k, a, b)


def modulo(k: Kernel, a: Value, b: Value) -> Value:
    """Remainder of a / b, with the sign of b."""
    if a.type is not F32:
        return integers.modulo(k, a, b)
    wide, by = a.to(F64), b.to(F64)
    left = _remainder(k, wide, by)
    negative = left < 0.0
    crosses = negative.differs(by < 0.0) & left.differs(0.0)
    moved = k.select(crosses, left + by, left)
    return k.select(left.equals(0.0), with_sign(k, left, by), moved).to(F32)


def floor_quotient(k: Kernel, a: Value, b: Value) -> Value:
    """Divide a by b, rounded down: Python's //, the exact quotient after the remainder is subtracted: 5 // 0.1 is 49
    (0.1 is a little more than a tenth), -1 // inf is -1, and inf // 2 NaN, while x // 0 is x / 0.

    The quotient of float32 in float64 lies on the same side of every whole number as the exact one; that of float64
    may have been rounded up to one: then a multiply-add decides.
    """
    if not a.type.is_float:
        return integers.floor_quotient(k, a, b)
    wide, by = a.to(F64), b.to(F64)
    down = rounding.floor(k, wide / by)
    left = _left(k, wide, by, down) if a.type is F64 else k.constant(F64, 0.0, a.lanes)
    infinity = float("inf")
    left = k.select(k.absolute(by).equals(infinity), wide, left)
    crosses = ((left < 0.0) & (by > 0.0)) | ((left > 0.0) & (by < 0.0))
    down = k.select(crosses, down - 1.0, down)
    lost = k.absolute(wide).equals(infinity) & by.differs(0.0)
    return k.select(lost, k.constant(F64, float("nan"), a.lanes), down).to(a.type)


def _left(k: Kernel, a: Value, b: Value, quotient: Value) -> Value:
    """Compute a - quotient * b, rounded once where there are fused instructions; else only the sign is right."""
    if k.target.has_fma:
        return k.fma(-quotient, b, a)
    product, lost = _exact_product(k, quotient, b)
    return (a - product) - lost


def _exact_product(k: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """Return the rounded product and what rounding lost (T. J. Dekker, 1971): numbers are halved first."""
    high_a, low_a = _halves(k, a)
    high_b, low_b = _halves(k, b)
    product = a * b
    lost = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return product, lost


def _halves(k: Kernel, x: Value) -> tuple[Value, Value]:
    """Return the upper 26 bits of a number, and the rest: by its bits, so that nothing overflows."""
    high = (x.bits(U64) & ~((1 << 27) - 1)).bits(F64)
    return high, x - high


def _remainder(k: Kernel, a: Value, b: Value) -> Value:
    size, by = k.absolute(a), k.absolute(b)
    quotient = size / by
    usual = (quotient < 2.0**28) & (by < float("inf"))
    held = k.select(usual, quotient, k.constant(F64, 0.0))
    # Up or down to a whole number: the rest is then between -b and b, and exact.
    whole = (held + 2.0**52) - 2.0**52
    rest = size - whole * k.select(usual, by, k.constant(F64, 0.0))
    rest = k.select(rest < 0.0, rest + by, rest)
    result = k.variable(with_sign(k, k.absolute(rest), a))
    with k.when(any_lane(k, ~usual)):
        result.value = k.select(usual, result.value, with_sign(k, _long_remainder(k, size, by), a))
    return result.value


def _long_remainder(k: Kernel, a: Value, b: Value) -> Value:
    """Remainder of a / b, both float32's and not negative, of any quotient: below 2^278, in 26 bits at a time. Each
    step is exact: its quotient has 26 bits, b 24, and the rest is a multiple of what a and b are."""
    rest = a
    for shift in range(_LARGEST_QUOTIENT // _STEP * _STEP, -1, -_STEP):
        by = b * 2.0**shift
        whole = (rest / by + 2.0**52) - 2.0**52
        left = rest - whole * by
        rest = k.select(left < 0.0, left + by, left)
    impossible = b.equals(0.0) | a.equals(float("inf")) | b.is_nan()
    rest = k.select(impossible, k.constant(F64, float("nan"), a.lanes), rest)
    return k.select(b.equals(float("inf")) & ~impossible, a, rest)
