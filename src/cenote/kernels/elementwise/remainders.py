"""Quotients of floats rounded down, and remainders, exact as C's fmod. They are computed in float64, where remainders
of quotients below 2^28 are exact; for others, and infinities, the C library is called, element by element."""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F32, F64, Value
from cenote.kernels.elementwise import integers, rounding
from cenote.kernels.elementwise.library import any_lane, by_library, with_sign


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
    """Compute a - quotient * b, rounded once."""
    if k.target.has_fma:
        return k.fma(-quotient, b, a)
    return by_library(k, "fma", -quotient, b, a)


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
        exact = by_library(k, "fmod", a, b)
        result.value = k.select(usual, result.value, exact)
    return result.value
