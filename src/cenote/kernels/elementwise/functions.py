"""Formulas of elementwise operators as instructions, by name; every activation kind is one too.

A formula gets its operands in the type it computes in: float32 or float64, an integer type for those in `INTEGER`,
one bit for those in `BOOLEAN`. Comparisons give one bit. NaN is passed on, except where IEEE 754 says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.values import I32, Value
from cenote.core.types import FLOAT64, is_float
from cenote.kernels.elementwise import integers, remainders, rounding, trigonometry
from cenote.kernels.elementwise.activations import KINDS, Activation

Number = float | int
Formula = Callable[..., Value]

INTEGER = frozenset(
    {"add", "sub", "mul", "max", "min", "neg", "abs", "sign"}
    | {"identity", "relu", "clip", "prelu", "max_scalar", "min_scalar", "clamp", "square", "cube", "where"}
    | {"quantized", "div", "floor_divide", "modulo", "remainder", "shift_left", "shift_right", "shrink"}
    | {"power"}
    | {
        "equal",
        "different",
        "greater",
        "greater_or_equal",
        "less",
        "less_or_equal",
        "and",
        "or",
        "xor",
        "not",
    }
)
# Formulas without a version for floats.
BITS = frozenset({"and", "or", "xor", "not", "shift_left", "shift_right"})
BOOLEAN = frozenset({"identity", "equal", "different", "and", "or", "xor", "not", "where"})
# Formulas for float32 only.
SINGLE = frozenset({"erf", "gelu", "power", "modulo", "remainder", *trigonometry.FORMULAS})


def is_formula_of(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether the formula exists for operands of a type."""
    if name in ("cast", "constant"):
        return is_float(dtype) or dtype.kind in "iub"
    if is_float(dtype):
        return name not in BITS and (dtype != FLOAT64 or name not in SINGLE)
    return name in (BOOLEAN if dtype == np.bool_ else INTEGER if dtype.kind in "iu" else ())


def emit_function(kernel: Kernel, name: str, parameters: Sequence[Number], values: Sequence[Value]) -> Value:
    """Append the instructions of a function."""
    if name in KINDS:
        return Activation(name, *parameters).emit(kernel, values[0])
    return FORMULAS[name](kernel, *values, *parameters)


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
    whole = (numbers + 1.5 * 2.0**23).bits(I32) - 0x4B400000 + zero
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


FORMULAS: dict[str, Formula] = {
    "add": lambda kernel, a, b: a + b,
    "sub": lambda kernel, a, b: a - b,
    "mul": lambda kernel, a, b: a * b,
    "div": lambda kernel, a, b: a / b if a.type.is_float else integers.quotient(kernel, a, b),
    "floor_divide": remainders.floor_quotient,
    "modulo": remainders.modulo,
    "remainder": remainders.remainder,
    "shift_left": integers.shift_left,
    "shift_right": integers.shift_right,
    "equal": lambda kernel, a, b: a.equals(b),
    "different": lambda kernel, a, b: a.differs(b),
    "greater": lambda kernel, a, b: a > b,
    "greater_or_equal": lambda kernel, a, b: a >= b,
    "less": lambda kernel, a, b: a < b,
    "less_or_equal": lambda kernel, a, b: a <= b,
    "and": lambda kernel, a, b: a & b,
    "or": lambda kernel, a, b: a | b,
    "xor": lambda kernel, a, b: a ^ b,
    "not": lambda kernel, x: ~x,
    "where": lambda kernel, condition, a, b: kernel.select(condition, a, b),
    "is_nan": lambda kernel, x: x.is_nan(),
    "is_infinite": lambda kernel, x: kernel.absolute(x).equals(float("inf")),
    "is_finite": lambda kernel, x: kernel.absolute(x) < float("inf"),
    "is_value": lambda kernel, x, value: x.equals(value),
    "max": lambda kernel, *values: reduce(kernel.maximum, values),
    "min": lambda kernel, *values: reduce(kernel.minimum, values),
    "sum": _sum,
    "mean": lambda kernel, *values: _sum(kernel, *values) / float(len(values)),
    "prelu": _prelu,
    "power": lambda kernel, a, b: (math.power if a.type.is_float else integers.power)(kernel, a, b),
    "square": lambda kernel, x: x * x,
    "cube": lambda kernel, x: x * x * x,
    "square_root_power": _square_root_power,
    "normalize": _normalize,
    "standardize": _standardize,
    "max_scalar": _max_scalar,
    "min_scalar": _min_scalar,
    "clamp": lambda kernel, x, low, high: _min_scalar(kernel, _max_scalar(kernel, x, low), high),
    "neg": lambda kernel, x: -x,
    "abs": lambda kernel, x: kernel.absolute(x),
    "sign": _sign,
    "exp": math.exp,
    "log": math.log,
    "sqrt": lambda kernel, x: kernel.square_root(x),
    "reciprocal": lambda kernel, x: 1.0 / x,
    "erf": math.erf,
    "floor": rounding.floor,
    "ceil": rounding.ceil,
    "round": rounding.round_even,
    "truncate": rounding.truncate,
    "quantized": _quantized,
    "expm1": math.expm1,
    "rsqrt": lambda kernel, x: 1.0 / kernel.square_root(x),
    **trigonometry.FORMULAS,
}
