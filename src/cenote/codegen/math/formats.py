"""Constants of float types for transcendental functions, and what these functions are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F32, F64, U32, U64, Scalar, Value
from cenote.core.deferred import dataclass


@dataclass(frozen=True)
class Format:
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
    def type(self) -> Scalar:
        """The type itself."""
        return F32 if self.bits is U32 else F64

    @property
    def magic(self) -> float:
        """Number whose addition and subtraction rounds to a whole number; the low bits of the sum hold that number."""
        return 1.5 * 2.0**self.mantissa


SINGLE = Format(
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
DOUBLE = Format(
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


def format_of(value: Value) -> Format:
    if value.type not in (F32, F64):
        raise TypeError(f"functions take f32 and f64, got {value.type.name}")
    return SINGLE if value.type is F32 else DOUBLE


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


def limited(kernel: Kernel, x: Value, low: float, high: float) -> Value:
    """Limit to low..high; NaN stays."""
    raised = kernel.select(x < low, kernel.constant(x.type, low), x)
    return kernel.select(raised > high, kernel.constant(x.type, high), raised)
