"""Integer division, remainders, powers and shifts without an undefined case.

Division by zero gives 0, as does a remainder by zero; the lowest number divided by -1 wraps around to itself. Quotients
of up to 32 bits are those of floats of at least 24 and 53 bits cut toward zero, which are exact: x86-64 has no vectors
of integer quotients, and one at a time takes 6 to 20 cycles each.
"""

from __future__ import annotations

from contextlib import ExitStack

from cenote.codegen.builder import Kernel
from cenote.codegen.math import any_lane
from cenote.codegen.values import F32, F64, I32, U32, Value


def quotient(k: Kernel, a: Value, b: Value) -> Value:
    """Divide a by b, toward zero."""
    zero = k.constant(a.type, 0, a.lanes)
    one = k.constant(a.type, 1, a.lanes)
    safe = k.select(b.equals(0), one, b)
    if a.type.kind == "uint":
        return k.select(b.equals(0), zero, _divided(a, safe))
    negates = b.equals(-1)
    plain = _divided(a, k.select(negates, one, safe))
    return k.select(b.equals(0), zero, k.select(negates, -a, plain))


def _divided(a: Value, b: Value) -> Value:
    """a // b for a b that is neither 0 nor -1."""
    if a.type.bits <= 16:
        return (a.to(F32) / b.to(F32)).to(I32).to(a.type)
    if a.type.bits == 32:
        return (a.to(F64) / b.to(F64)).to(U32 if a.type is U32 else I32).bits(a.type)
    return a // b


def remainder(k: Kernel, a: Value, b: Value) -> Value:
    """Remainder with the sign of a: C's %."""
    left = a - quotient(k, a, b) * b
    return k.select(b.equals(0), k.constant(a.type, 0, a.lanes), left)


def modulo(k: Kernel, a: Value, b: Value) -> Value:
    """Remainder with the sign of b: Python's %."""
    left = remainder(k, a, b)
    if a.type.kind == "uint":
        return left
    return k.select(left.differs(0) & ((left ^ b) < 0), left + b, left)


def floor_quotient(k: Kernel, a: Value, b: Value) -> Value:
    """Divide a by b, rounded down: Python's //."""
    result = quotient(k, a, b)
    if a.type.kind == "uint":
        return result
    left = a - result * b
    return k.select(left.differs(0) & ((left ^ b) < 0) & b.differs(0), result - 1, result)


def power(k: Kernel, a: Value, b: Value) -> Value:
    """Raise a to the power of b modulo 2^bits, by squaring; a negative power gives 1 / a^|b| cut toward zero."""
    one, zero = (k.constant(a.type, number, a.lanes) for number in (1, 0))
    signed = a.type.kind == "int"
    result, square = k.variable(one), k.variable(a)
    left = k.variable(k.select(b < 0, zero, b) if signed else b)
    done = 0
    # Most exponents have few bits: further ones are looked at where there are some.
    for upto in (4, 8, 16, 32, 64):
        if upto > a.type.bits:
            break
        with ExitStack() as block:
            if done:
                block.enter_context(k.when(any_lane(k, left.value.differs(0))))
            for _ in range(done, upto):
                odd = (left.value & 1).differs(0)
                result.value = k.select(odd, result.value * square.value, result.value)
                square.value = square.value * square.value
                left.value = left.value >> 1
        done = upto
    if not signed:
        return result.value
    sign = k.select((b & 1).equals(0), one, k.constant(a.type, -1, a.lanes))
    inverse = k.select(a.equals(1), one, k.select(a.equals(-1), sign, zero))
    return k.select(b < 0, inverse, result.value)


def _inside(k: Kernel, a: Value, count: Value) -> tuple[Value, Value]:
    """Return whether a shift count is below the type's number of bits, and the count or else 0."""
    inside = (count >= 0) & (count < a.type.bits) if a.type.kind == "int" else count < a.type.bits
    return inside, k.select(inside, count, k.constant(a.type, 0, a.lanes))


def shift_left(k: Kernel, a: Value, count: Value) -> Value:
    """Shift a left by count bits; 0 for a count outside the type."""
    inside, held = _inside(k, a, count)
    return k.select(inside, a << held, k.constant(a.type, 0, a.lanes))


def shift_right(k: Kernel, a: Value, count: Value) -> Value:
    """Shift a right by count bits; only its sign, 0 or -1, for a count outside the type."""
    inside, held = _inside(k, a, count)
    zero = k.constant(a.type, 0, a.lanes)
    if a.type.kind == "uint":
        return k.select(inside, a >> held, zero)
    return k.select(inside, a >> held, k.select(a < 0, k.constant(a.type, -1, a.lanes), zero))
