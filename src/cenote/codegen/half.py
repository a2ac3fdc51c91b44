"""Conversions to and from 16-bit floats that a target may not have in hardware, by integer arithmetic.

bfloat16 is the upper half of a float32. The float16 tricks (sums that let the float adder normalise and round
subnormals) follow F. Giesen's public-domain notes on half-precision conversion. All round to nearest even and keep NaN
a NaN. Conversions from float64 go through float32, which may round twice.
"""

from __future__ import annotations

import numpy as np

from cenote.codegen.values import BF16, F16, F32, U16, U32, Emitter, Scalar, Value


def convert(kernel: Emitter, value: Value, type: Scalar) -> Value:
    """Convert where one side is bfloat16, or float16 without hardware support."""
    if value.type is BF16:
        return _from_bfloat16(value).to(type)
    if value.type is F16:
        return _from_float16(kernel, value).to(type)
    single = value.to(F32)
    return _to_bfloat16(kernel, single) if type is BF16 else _to_float16(kernel, single)


SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)


def flushed(kernel: Emitter, value: Value) -> Value:
    """Return zeros of their sign for float32 numbers below the smallest normal one."""
    zeros = (value.bits(U32) & 0x80000000).bits(F32)
    return kernel.select(kernel.absolute(value) < SMALLEST_NORMAL, zeros, value)


def first_half(pairs: Value) -> Value:
    """Return the first of the two bfloat16 numbers of each 32-bit word, in float32."""
    return (pairs << 16).bits(F32)


def second_half(pairs: Value) -> Value:
    """Return the second of the two bfloat16 numbers of each 32-bit word, in float32."""
    return (pairs & -0x10000).bits(F32)


def _from_bfloat16(value: Value) -> Value:
    return (value.bits(U16).to(U32) << 16).bits(F32)


def _to_bfloat16(kernel: Emitter, value: Value) -> Value:
    bits = value.bits(U32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return kernel.select(value.is_nan(), quiet, rounded).to(U16).bits(BF16)


def _from_float16(kernel: Emitter, value: Value) -> Value:
    bits = value.bits(U16).to(U32)
    magnitude = (bits & 0x7FFF) << 13
    rebased = magnitude + (112 << 23)  # the bias of float32's exponent
    # As float32 a subnormal would be below its smallest normal number, and zero to threads that flush those.
    subnormal = (rebased + (1 << 23)).bits(F32) - 2.0**-14
    result = kernel.select(magnitude < (1 << 23), subnormal.bits(U32), rebased)
    special = rebased | 0x7F800000  # infinity and NaN had the largest exponent
    result = kernel.select(magnitude >= (31 << 23), special, result)
    return (result | ((bits & 0x8000) << 16)).bits(F32)


def _to_float16(kernel: Emitter, value: Value) -> Value:
    bits = value.bits(U32)
    sign, magnitude = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    normal = (magnitude + 0xC8000FFF + ((magnitude >> 13) & 1)) >> 13
    subnormal = (magnitude.bits(F32) + 0.5).bits(U32) - 0x3F000000
    result = kernel.select(magnitude < 0x38800000, subnormal, normal)
    infinity = kernel.constant(U32, 0x7C00, value.lanes)
    result = kernel.select(magnitude >= 0x47800000, infinity, result)
    result = kernel.select(value.is_nan(), kernel.constant(U32, 0x7E00, value.lanes), result)
    return (result | sign).to(U16).bits(F16)
