"""Reduction of large angles of float32: their difference from the nearest multiple of pi, exact to 70 bits.

x is m 2^(8j) with m below 2^31 of 24 significant bits, and 2^(8j) mod 2 pi is known to 107 bits, in parts of which the
first two give exact products with m. So is pi, in parts of 20 bits, whose products with a multiple below 2^33 are
exact. Every difference but the last two is exact: no fused instruction is needed, and the bits are the same everywhere.
The idea of a table of reduced powers is M. Payne's and R. Hanek's ("Radian reduction for trigonometric functions",
SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

import math as constants
from fractions import Fraction

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F64, I64, Value

_BIASED, _MANTISSA = 1023, 52  # of float64's format
_SINGLE = 23  # bits of float32's mantissa
_STEP = 8  # powers of two between entries of the table
_PI = Fraction(
    31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679,
    10**100,
)


def _parts(value: Fraction, *lowest: int) -> tuple[float, ...]:
    """Return parts of a number: multiples of 2^-bit for each of `lowest`, and the rest."""
    parts = []
    for bit in lowest:
        part = Fraction(constants.floor(value * 2**bit), 2**bit)
        parts.append(float(part))
        value -= part
    return (*parts, float(value))


_PI_PARTS = _parts(_PI, 18, 38, 58)
# Of float32's largest exponent, 127, the power is 104.
_POWERS = tuple(_parts(Fraction(2 ** (_STEP * j)) % (2 * _PI), 25, 53) for j in range(104 // _STEP + 1))


def reduced(k: Kernel, x: Value, quarter: int) -> tuple[Value, Value]:
    """Return the difference between an angle of float64 that float32 holds, of 2^23 at least, and the nearest multiple
    of pi (of pi and a half, from quarter 1); and a number whose lowest bit is odd with the multiple. NaN for infinities
    and NaN."""
    exponent = ((x.bits(I64) >> _MANTISSA) & 0x7FF) - (_BIASED + _SINGLE)
    number = exponent >> (_STEP.bit_length() - 1)
    scale = ((_BIASED - number * _STEP) << _MANTISSA).bits(F64)
    m = x * scale
    parts = [k.constant(F64, part, x.lanes) for part in _POWERS[0]]
    for j, power in enumerate(_POWERS[1:], 1):
        found = number.equals(j)
        parts = [k.select(found, k.constant(F64, new), old) for new, old in zip(power, parts, strict=True)]
    high, middle, rest = (m * part for part in parts)
    magic = 1.5 * 2.0**52
    shifted = (high + middle) * (1.0 / constants.pi) - 0.5 * quarter + magic
    turns = shifted - magic + 0.5 * quarter
    first, second, third, last = (turns * part for part in _PI_PARTS)
    return ((((high - first) - second) + middle) - third) + (rest - last), shifted
