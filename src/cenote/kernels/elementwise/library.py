"""Functions of the C library in vector code, for the lanes that are out of the ordinary; and signs."""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F64, U64, Value


def any_lane(k: Kernel, lanes: Value) -> Value:
    """Whether one of the lanes of one bit holds."""
    if lanes.lanes == 1:
        return lanes
    name = f"llvm.vector.reduce.or.v{lanes.lanes}i1"
    return k.call(name, lanes.type, 1, [lanes])


def by_library(k: Kernel, name: str, *operands: Value) -> Value:
    """A function of float64 on every lane, out of the way of the common case."""
    first = operands[0]
    if first.lanes == 1:
        return k.call(name, F64, 1, operands)
    result = first
    for lane in range(first.lanes):
        one = k.call(name, F64, 1, [operand.lane(lane) for operand in operands])
        text = f"insertelement {first.ir} {result.text}, double {one.text}, i32 {lane}"
        result = k.assign(text, F64, first.lanes)
    return result


def with_sign(k: Kernel, size: Value, sign: Value) -> Value:
    """size, whose sign bit is 0, with the sign of the other. In integers: LLVM would round a sign of float64 to the
    float16 that the result becomes, by a function that no library has."""
    return (size.bits(U64) | (sign.bits(U64) & (1 << 63))).bits(F64)
