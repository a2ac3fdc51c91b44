"""Rounding of floats to whole numbers: infinities and NaN stay, and so does the sign of zero."""

from __future__ import annotations

from cenote.codegen.builder import Kernel
from cenote.codegen.math import copy_sign
from cenote.codegen.values import F32, Value


def round_even(kernel: Kernel, x: Value) -> Value:
    """Round to the nearest whole number, halves to the even one; the sign of zero is kept. No rounding instruction is
    needed."""
    if kernel.target.has_fma:  # such targets have rounding instructions too
        return kernel.intrinsic("roundeven", x)
    limit = 2.0 ** (23 if x.type is F32 else 52)
    size = kernel.absolute(x)
    rounded = copy_sign(kernel, (size + limit) - limit, x)
    return kernel.select(size < limit, rounded, x)


def floor(kernel: Kernel, x: Value) -> Value:
    """Round down to a whole number."""
    if kernel.target.has_fma:
        return kernel.intrinsic("floor", x)
    rounded = round_even(kernel, x)
    return copy_sign(kernel, kernel.select(rounded > x, rounded - 1.0, rounded), x)


def ceil(kernel: Kernel, x: Value) -> Value:
    """Round up to a whole number."""
    if kernel.target.has_fma:
        return kernel.intrinsic("ceil", x)
    rounded = round_even(kernel, x)
    return copy_sign(kernel, kernel.select(rounded < x, rounded + 1.0, rounded), x)


def truncate(kernel: Kernel, x: Value) -> Value:
    """Round toward zero to a whole number."""
    if kernel.target.has_fma:
        return kernel.intrinsic("trunc", x)
    rounded = round_even(kernel, kernel.absolute(x))
    return copy_sign(kernel, kernel.select(rounded > kernel.absolute(x), rounded - 1.0, rounded), x)
