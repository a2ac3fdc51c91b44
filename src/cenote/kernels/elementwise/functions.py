"""Formulas of elementwise operators as instructions, by name; every activation kind is one too.

A formula gets its operands in the type it computes in: float32 or float64, an integer type, or one bit for bool.
Comparisons give one bit. NaN is passed on, except where IEEE 754 says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.values import I32, Value
from cenote.core.types import Array, is_float
from cenote.kernels.elementwise import integers, remainders, rounding, trigonometry
from cenote.kernels.elementwise.activations import KINDS, Activation, erf
from cenote.kernels.elementwise.formula import ElementwiseFormula

Number = float | int

# Kinds of types that formulas exist for (see `ElementwiseFormula.types`).
_NUMBERS, _SINGLE, _ALL, _BITS = "fdi", "f", "fdi?", "i?"


def is_formula_of(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether the formula exists for operands of a type."""
    if name in ("cast", "constant"):
        return is_float(dtype) or dtype.kind in "iub"
    return FORMULAS[name].serves(dtype)


def emit_function(kernel: Kernel, name: str, parameters: Sequence[Number], values: Sequence[Value]) -> Value:
    """Append the instructions of a function."""
    if name in KINDS:
        return Activation(name, *parameters).emit(kernel, values[0])
    return FORMULAS[name].emit(kernel, *values, *parameters)


def _sign(kernel: Kernel, x: Value) -> Value:
    one, zero = (kernel.constant(x.type, number, x.lanes) for number in (1, 0))
    if x.type.kind == "uint":
        return kernel.select(x.equals(0), zero, one)
    limited = kernel.select(x > 0, one, x)
    return kernel.select(limited < 0, kernel.constant(x.type, -1, x.lanes), limited)


def _quantized(kernel: Kernel, x: Value, zero: Value, low: int, high: int) -> Value:
    """Round x to the nearest whole number, halves to even, add a zero point, limit to low..high, as int32.

    NaN counts as 0. The bounds lie far outside of any quantized type and keep the sum with 1.5 * 2^23 among the floats
    whose low bits are the rounded number: one addition instead of rounding and a conversion.
    """
    bounded = _max_scalar(kernel, x, kernel.constant(x.type, -(2.0**20), x.lanes))
    bounded = _min_scalar(kernel, bounded, kernel.constant(x.type, 2.0**20, x.lanes))
    numbers = kernel.select(x.is_nan(), kernel.constant(x.type, 0.0, x.lanes), bounded)
    return _quantized_finite(kernel, numbers, zero, low, high)


def _quantized_finite(kernel: Kernel, x: Value, zero: Value, low: int, high: int) -> Value:
    """Return what `_quantized` does of numbers that are known to lie within -2^20 to 2^20."""
    whole = (x + 1.5 * 2.0**23).bits(I32) - 0x4B400000 + zero
    whole = kernel.select(whole < low, kernel.constant(I32, low, x.lanes), whole)
    return kernel.select(whole > high, kernel.constant(I32, high, x.lanes), whole)


def _square_root_power(kernel: Kernel, x: Value) -> Value:
    """Return x^0.5 with the special cases of pow: +0 of -0, +infinity of -infinity."""
    infinity = kernel.constant(x.type, float("inf"), x.lanes)
    return kernel.select(x.equals(float("-inf")), infinity, kernel.square_root(x + 0.0))


def _prelu(kernel: Kernel, x: Value, slope: Value) -> Value:
    return kernel.select(x < 0, x * slope, x)


def _max_scalar(kernel: Kernel, x: Value, low: Value) -> Value:
    return kernel.select(x < low, low, x)


def _min_scalar(kernel: Kernel, x: Value, high: Value) -> Value:
    return kernel.select(x > high, high, x)


def _sum(kernel: Kernel, *values: Value) -> Value:
    return reduce(lambda a, b: a + b, values)


def _normalize(kernel: Kernel, x: Value, mean: Value, factor: Value, shift: Value) -> Value:
    """Subtract first: this keeps small differences of large numbers, which one multiply-add would lose."""
    return kernel.fma(x - mean, factor, shift)


def _standardize(
    kernel: Kernel, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    return kernel.fma((x - mean) / kernel.square_root(variance + epsilon), scale, bias)


# ---- NumPy twins of the longer formulas ---------------------------------------------------------------------


def _apply_quotient(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return a / b
    quotient = a // b
    inexact = (quotient * b != a) & (b != 0)
    result: Array = quotient + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)
    return result


def _apply_floor_quotient(a: Array, b: Array) -> Array:
    if is_float(a.dtype):
        return np.asarray(np.floor_divide(a, b))
    return np.where(
        b == 0, np.zeros((), a.dtype), np.floor_divide(a, np.where(b == 0, np.ones((), b.dtype), b))
    )


def _apply_shift_left(a: Array, b: Array) -> Array:
    outside = (b < 0) | (b >= a.dtype.itemsize * 8)
    return np.where(outside, 0, np.left_shift(a, np.where(outside, 0, b).astype(a.dtype))).astype(a.dtype)


def _apply_shift_right(a: Array, b: Array) -> Array:
    outside = (b < 0) | (b >= a.dtype.itemsize * 8)
    shifted = np.right_shift(a, np.where(outside, 0, b).astype(a.dtype))
    sign = np.where(a < 0, -1, 0).astype(a.dtype)  # as int64 beside uint64 it would make float64 of both
    return np.where(outside, sign, shifted)


def _apply_power(base: Array, exponent: Array) -> Array:
    if is_float(base.dtype) or is_float(exponent.dtype):
        return np.power(base.astype(np.float64), exponent.astype(np.float64))
    power = np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype))
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), 0))
    return np.where(exponent < 0, inverse.astype(base.dtype), power)


def _apply_quantized(x: Array, zero: Array, low: int, high: int) -> Array:
    whole = np.rint(np.clip(np.where(np.isnan(x), 0.0, x), -(2.0**20), 2.0**20)).astype(np.int32) + zero
    return np.asarray(np.clip(whole, low, high))


def _apply_max_scalar(x: Array, low: Array) -> Array:
    return np.where(x < low, low, x)


def _apply_min_scalar(x: Array, high: Array) -> Array:
    return np.where(x > high, high, x)


FORMULAS: dict[str, ElementwiseFormula] = {
    "add": ElementwiseFormula(lambda kernel, a, b: a + b, np.add, _NUMBERS),
    "sub": ElementwiseFormula(lambda kernel, a, b: a - b, np.subtract, _NUMBERS),
    "mul": ElementwiseFormula(lambda kernel, a, b: a * b, np.multiply, _NUMBERS),
    "div": ElementwiseFormula(
        lambda kernel, a, b: a / b if a.type.is_float else integers.quotient(kernel, a, b),
        _apply_quotient,
        _NUMBERS,
    ),
    "floor_divide": ElementwiseFormula(remainders.floor_quotient, _apply_floor_quotient, _NUMBERS, 12, 3e-7),
    "modulo": ElementwiseFormula(remainders.modulo, np.mod, _SINGLE + "i", 12),
    "remainder": ElementwiseFormula(remainders.remainder, np.fmod, _SINGLE + "i", 12),
    "shift_left": ElementwiseFormula(integers.shift_left, _apply_shift_left, "i"),
    "shift_right": ElementwiseFormula(integers.shift_right, _apply_shift_right, "i"),
    "equal": ElementwiseFormula(lambda kernel, a, b: a.equals(b), np.equal, _ALL),
    "different": ElementwiseFormula(lambda kernel, a, b: a.differs(b), np.not_equal, _ALL),
    "greater": ElementwiseFormula(lambda kernel, a, b: a > b, np.greater, _NUMBERS),
    "greater_or_equal": ElementwiseFormula(lambda kernel, a, b: a >= b, np.greater_equal, _NUMBERS),
    "less": ElementwiseFormula(lambda kernel, a, b: a < b, np.less, _NUMBERS),
    "less_or_equal": ElementwiseFormula(lambda kernel, a, b: a <= b, np.less_equal, _NUMBERS),
    "and": ElementwiseFormula(lambda kernel, a, b: a & b, np.bitwise_and, _BITS),
    "or": ElementwiseFormula(lambda kernel, a, b: a | b, np.bitwise_or, _BITS),
    "xor": ElementwiseFormula(lambda kernel, a, b: a ^ b, np.bitwise_xor, _BITS),
    "not": ElementwiseFormula(lambda kernel, x: ~x, np.invert, _BITS),
    "where": ElementwiseFormula(
        lambda kernel, condition, a, b: kernel.select(condition, a, b), np.where, _ALL, exact=True
    ),
    "is_nan": ElementwiseFormula(lambda kernel, x: x.is_nan(), np.isnan),
    "is_infinite": ElementwiseFormula(lambda kernel, x: kernel.absolute(x).equals(float("inf")), np.isinf),
    "is_finite": ElementwiseFormula(lambda kernel, x: kernel.absolute(x) < float("inf"), np.isfinite),
    "is_value": ElementwiseFormula(lambda kernel, x, value: x.equals(value), np.equal),
    "max": ElementwiseFormula(
        lambda kernel, *values: reduce(kernel.maximum, values),
        lambda *values: reduce(np.maximum, values),
        _NUMBERS,
        exact=True,
    ),
    "min": ElementwiseFormula(
        lambda kernel, *values: reduce(kernel.minimum, values),
        lambda *values: reduce(np.minimum, values),
        _NUMBERS,
        exact=True,
    ),
    "sum": ElementwiseFormula(_sum, lambda *values: reduce(np.add, values), tolerance=1e-6),
    "mean": ElementwiseFormula(
        lambda kernel, *values: _sum(kernel, *values) / float(len(values)),
        lambda *values: reduce(np.add, values) / len(values),
        tolerance=1e-6,
    ),
    "prelu": ElementwiseFormula(_prelu, lambda x, slope: np.where(x < 0, slope * x, x), _NUMBERS),
    "power": ElementwiseFormula(
        lambda kernel, a, b: (math.power if a.type.is_float else integers.power)(kernel, a, b),
        _apply_power,
        _SINGLE + "i",
        60,
        3e-7,
    ),
    "square": ElementwiseFormula(lambda kernel, x: x * x, np.square, _NUMBERS),
    "cube": ElementwiseFormula(lambda kernel, x: x * x * x, lambda x: x * x * x, _NUMBERS, 2, 3e-7),
    "square_root_power": ElementwiseFormula(_square_root_power, lambda x: np.power(x, 0.5), "fd", 2, 3e-7),
    "normalize": ElementwiseFormula(
        _normalize, lambda x, mean, factor, shift: (x - mean) * factor + shift, tolerance=1e-6
    ),
    "standardize": ElementwiseFormula(
        _standardize,
        lambda x, scale, bias, mean, variance, epsilon: (
            (x - mean) / np.sqrt(variance + epsilon) * scale + bias
        ),
        tolerance=1e-6,
    ),
    "max_scalar": ElementwiseFormula(_max_scalar, _apply_max_scalar, _NUMBERS, 2, exact=True),
    "min_scalar": ElementwiseFormula(_min_scalar, _apply_min_scalar, _NUMBERS, 2, exact=True),
    "clamp": ElementwiseFormula(
        lambda kernel, x, low, high: _min_scalar(kernel, _max_scalar(kernel, x, low), high),
        lambda x, low, high: _apply_min_scalar(_apply_max_scalar(x, low), high),
        _NUMBERS,
        2,
        exact=True,
    ),
    "neg": ElementwiseFormula(lambda kernel, x: -x, np.negative, _NUMBERS, exact=True),
    "abs": ElementwiseFormula(lambda kernel, x: kernel.absolute(x), np.abs, _NUMBERS, exact=True),
    "sign": ElementwiseFormula(_sign, np.sign, _NUMBERS),
    "exp": ElementwiseFormula(math.exp, np.exp, "fd", 16, 3e-7),
    "log": ElementwiseFormula(math.log, np.log, "fd", 20, 3e-7),
    "sqrt": ElementwiseFormula(lambda kernel, x: kernel.square_root(x), np.sqrt, "fd", 6),
    "reciprocal": ElementwiseFormula(lambda kernel, x: 1.0 / x, np.reciprocal, "fd", 6),
    "erf": ElementwiseFormula(math.erf, erf, _SINGLE, 20, 3e-7),
    "floor": ElementwiseFormula(rounding.floor, np.floor),
    "ceil": ElementwiseFormula(rounding.ceil, np.ceil),
    "round": ElementwiseFormula(rounding.round_even, np.rint),
    "truncate": ElementwiseFormula(rounding.truncate, np.trunc),
    "quantized": ElementwiseFormula(_quantized, _apply_quantized, _SINGLE + "i"),
    "quantized_finite": ElementwiseFormula(_quantized_finite, _apply_quantized, _SINGLE + "i"),
    "multiply_add": ElementwiseFormula(
        lambda kernel, a, b, c: kernel.fma(a, b, c), lambda a, b, c: a * b + c, _SINGLE, tolerance=1e-6
    ),
    "expm1": ElementwiseFormula(math.expm1, np.expm1, "fd", 16, 3e-7),
    "rsqrt": ElementwiseFormula(
        lambda kernel, x: 1.0 / kernel.square_root(x), lambda x: 1.0 / np.sqrt(x), "fd", 12, 3e-7
    ),
    **trigonometry.FORMULAS,
    **KINDS,
}
