"""Conversions between element types as in Cast: defined for every input, and the same on every target.

to a float      round to nearest even, once; too large gives infinity
float to int    toward zero. 32 and 64 bits: what lies outside becomes the nearest end of the type, NaN is 0.
                8 and 16 bits: the low bits of the number as int32 (300.0 to uint8 is 44, -1.0 is 255); 0 for what
                int32 does not hold, as NumPy, torch and onnxruntime have it on x86-64
int to int      the low bits
to bool         whether it differs from 0 (so NaN is true)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BF16, BOOL, F16, F32, F64, I32, U8, U32, Scalar, Value
from cenote.core.types import is_float

# By lanes, toward zero: -2^31 for what int32 does not hold, whose low bits are 0.
_TRUNCATE = {8: "llvm.x86.avx.cvtt.ps2dq.256", 4: "llvm.x86.sse2.cvttps2dq"}


def cast(k: Kernel, value: Value, source: np.dtype[Any], target: np.dtype[Any]) -> Value:
    """Convert `value` from a `source` to a `target`, both in the types in which formulas hold them."""
    wanted = Scalar.of(target)
    if source == target:
        return value
    if target == np.bool_:
        return value.differs(0)
    if value.type is BOOL:
        value = value.to(U8)
    if is_float(target):
        return to_float(k, value, wanted)
    return to_integer(k, value, wanted) if value.type.is_float else value.to(wanted)


def to_float(k: Kernel, value: Value, wanted: Scalar) -> Value:
    """Convert to float64 or float32; for 16 bits, to a float32 from which rounding to 16 bits rounds no second time."""
    if wanted not in (F16, BF16):
        return value.to(wanted)
    if value.type is F64 or (not value.type.is_float and value.type.bits >= 32 and wanted is BF16):
        return odd_single(k, value.to(F64))
    return value.to(F32)  # integers that float32 rounds are all too large for float16


def odd_single(k: Kernel, value: Value) -> Value:
    """Round float64 to float32, to odd (`ops/values.odd_float32`): a second rounding then gives what a single one
    gives."""
    near = value.to(F32)
    back = near.to(F64)
    inexact = back.differs(value) & (k.absolute(back) < float("inf")) & ~value.is_nan()
    # Numbers that overflow are far from any tie of a smaller type: infinity stays.
    outward = inexact & (k.absolute(back) > k.absolute(value))
    bits = near.bits(U32)
    lowered = k.select(outward, bits - 1, bits)
    return k.select(inexact, lowered | 1, bits).bits(F32)


def to_integer(k: Kernel, value: Value, wanted: Scalar) -> Value:
    """Convert a float to an integer, never undefined."""
    if wanted.bits < 32:
        if value.type is F32 and value.lanes in _TRUNCATE and k.target.triple.startswith("x86"):
            return k.call(_TRUNCATE[value.lanes], I32, value.lanes, [value]).to(wanted)
        held = k.absolute(value) < 2.0**31  # not NaN
        return k.select(held, value.to(I32), k.constant(I32, 0, value.lanes)).to(wanted)
    return _saturated(k, value, wanted)


def _saturated(k: Kernel, value: Value, wanted: Scalar) -> Value:
    """Round toward zero, limited to the type, 0 for NaN. By comparisons: LLVM's saturating conversion works number by
    number (1.2 ns each, these 0.1)."""
    signed = wanted.kind == "int"
    above = 2.0 ** (wanted.bits - (1 if signed else 0))
    low = -above if signed else 0.0
    zero = k.constant(value.type, 0.0, value.lanes)
    over = value >= above
    held = k.select(value > low, value, k.constant(value.type, low, value.lanes))
    held = k.select(over | value.is_nan(), zero, held)
    ends = (1 << wanted.bits - (1 if signed else 0)) - 1
    return k.select(over, k.constant(wanted, ends, value.lanes), held.to(wanted))
