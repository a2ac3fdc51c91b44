"""Functions of the C library in vector code, for lanes with rare inputs; and signs."""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F64, U64, Value


def any_lane(k: Kernel, lanes: Value) -> Value:
    """Whether any lane of a vector of bits is set."""
    if lanes.lanes == 1:
        return lanes
    name = f"llvm.vector.reduce.or.v{lanes.lanes}i1"
    return k.call(name, lanes.type, 1, [lanes])


def by_library(k: Kernel, name: str, *operands: Value) -> Value:
    """Call a function of float64 of the C library for every lane, outside of the common path."""
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
    """Return size, whose sign bit is 0, with the sign of the other. In integers: LLVM would round a sign of float64
    to the float16 that the result becomes, by a function that no library has."""
    return (size.bits(U64) | (sign.bits(U64) & (1 << 63))).bits(F64)
