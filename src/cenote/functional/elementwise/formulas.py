"""What the elementwise functions do, on recorded operands (`recorder`): each is written here once, for calls on arrays
and for `fused` functions alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, shown
from cenote.core.types import BFLOAT16, FLOAT32, INT64, is_float
from cenote.functional.arguments import choice
from cenote.functional.elementwise.recorder import (
    BOOL,
    FORMULAS,
    Operand,
    Recorder,
    Traced,
    as_type,
    formula,
    promoted,
    result_type,
)
from cenote.functional.scalars import factor, number
from cenote.ops.elementwise import unary
from cenote.ops.elementwise.binary import Add, Div, Max, Min, Mod, Mul, Pow, Sub
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.compare import BitShift, Bitwise, BitwiseNot, Compare, IsInf, IsNaN, Logic, Not
from cenote.ops.elementwise.formula import Formula
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.elementwise.where import Where

_MOST_DECIMALS = 308  # whose power of ten is a float

# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _scaled(r: Recorder, where: str, x: Traced, alpha: Any) -> Traced:
    alpha = number(where, "alpha", alpha) if not isinstance(alpha, bool) else alpha
    if isinstance(alpha, float) and not is_float(x.dtype):
        raise ArgumentError(
            f"{where}: alpha is {alpha}, a float, but the result is {x.dtype}; use a whole number"
        )
    if alpha == 1:
        return x
    if x.dtype == BOOL:
        return r.apply(Logic("and"), x, r.scalar(bool(alpha), BOOL))
    if not is_float(x.dtype):
        alpha = factor(where, "alpha", alpha, x.dtype)
    return r.apply(Mul(), x, r.scalar(alpha, x.dtype))


@formula
def add(r: Recorder, a: Operand, b: Operand, alpha: Any = 1) -> Traced:
    a, b = promoted(r, "add", a, b)
    return r.apply(Logic("or") if a.dtype == BOOL else Add(), a, _scaled(r, "add", b, alpha))


@formula
def sub(r: Recorder, a: Operand, b: Operand, alpha: Any = 1) -> Traced:
    a, b = promoted(r, "sub", a, b)
    return r.apply(Sub(), a, _scaled(r, "sub", b, alpha))


@formula
def mul(r: Recorder, a: Operand, b: Operand) -> Traced:
    a, b = promoted(r, "mul", a, b)
    return r.apply(Logic("and") if a.dtype == BOOL else Mul(), a, b)


@formula
def div(r: Recorder, a: Operand, b: Operand, rounding_mode: str | None = None) -> Traced:
    if rounding_mode is not None:
        choice("div", "rounding_mode", rounding_mode, ("trunc", "floor"))
    if rounding_mode == "floor":
        return floor_divide(r, a, b)
    a, b = promoted(r, "div", a, b, floats=rounding_mode is None)
    quotient = r.apply(Div(), a, b)
    return r.apply(Formula("truncate"), quotient) if rounding_mode and is_float(a.dtype) else quotient


@formula
def floor_divide(r: Recorder, a: Operand, b: Operand) -> Traced:
    return r.apply(Formula("floor_divide"), *promoted(r, "floor_divide", a, b))


@formula
def remainder(r: Recorder, a: Operand, b: Operand) -> Traced:
    return r.apply(Mod(), *promoted(r, "remainder", a, b))


@formula
def fmod(r: Recorder, a: Operand, b: Operand) -> Traced:
    return r.apply(Mod(truncate=True), *promoted(r, "fmod", a, b))


@formula
def pow(r: Recorder, a: Operand, b: Operand) -> Traced:  # torch's name
    a, b = promoted(r, "pow", a, b)
    return r.apply(Pow(), a, b)


@formula
def maximum(r: Recorder, a: Operand, b: Operand) -> Traced:
    a, b = promoted(r, "maximum", a, b)
    return r.apply(Logic("or") if a.dtype == BOOL else Max(), a, b)


@formula
def minimum(r: Recorder, a: Operand, b: Operand) -> Traced:
    a, b = promoted(r, "minimum", a, b)
    return r.apply(Logic("and") if a.dtype == BOOL else Min(), a, b)


@formula
def clamp(r: Recorder, x: Operand, low: Operand | None = None, high: Operand | None = None) -> Traced:
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        raise ArgumentError("clamp: at least one of min and max must be given")
    dtype = result_type("clamp", (x, *bounds))
    value = as_type(r, x, dtype)
    if low is not None:
        value = r.apply(Max(), value, as_type(r, low, dtype))
    return value if high is None else r.apply(Min(), value, as_type(r, high, dtype))


@formula
def clamp_max(r: Recorder, x: Operand, high: Operand) -> Traced:
    return clamp(r, x, None, high)


# ---- comparisons, logic, bits ---------------------------------------------------------------------------------------


def _compare(name: str, op: Pointwise) -> None:
    def compared(r: Recorder, a: Operand, b: Operand) -> Traced:
        a, b = promoted(r, name, a, b)
        if a.dtype == BOOL and name not in ("eq", "ne"):
            a, b = (r.apply(Cast(np.dtype(np.uint8)), x) for x in (a, b))
        return r.apply(op, a, b)

    FORMULAS[name] = compared


for _name, _relation in (("eq", "equal"), ("lt", "less"), ("le", "less_or_equal"), ("gt", "greater"),
                         ("ge", "greater_or_equal")):  # fmt: skip
    _compare(_name, Compare(_relation))
_compare("ne", Formula("different"))


def _truth(r: Recorder, x: Operand) -> Traced:
    return as_type(r, x, BOOL)


def _logic(operation: str) -> None:
    def logical(r: Recorder, a: Operand, b: Operand) -> Traced:
        return r.apply(Logic(operation), _truth(r, a), _truth(r, b))

    def bitwise(r: Recorder, a: Operand, b: Operand) -> Traced:
        a, b = promoted(r, f"bitwise_{operation}", a, b)
        return r.apply(Logic(operation) if a.dtype == BOOL else Bitwise(operation), a, b)

    FORMULAS[f"logical_{operation}"], FORMULAS[f"bitwise_{operation}"] = logical, bitwise


for _name in ("and", "or", "xor"):
    _logic(_name)


@formula
def logical_not(r: Recorder, x: Traced) -> Traced:
    return r.apply(Not(), _truth(r, x))


@formula
def bitwise_not(r: Recorder, x: Traced) -> Traced:
    return r.apply(Not() if x.dtype == BOOL else BitwiseNot(), x)


@formula
def bitwise_left_shift(r: Recorder, a: Operand, b: Operand) -> Traced:
    return r.apply(BitShift("LEFT"), *promoted(r, "bitwise_left_shift", a, b))


@formula
def bitwise_right_shift(r: Recorder, a: Operand, b: Operand) -> Traced:
    return r.apply(BitShift("RIGHT"), *promoted(r, "bitwise_right_shift", a, b))


@formula
def isnan(r: Recorder, x: Traced) -> Traced:
    return r.apply(IsNaN(), x) if is_float(x.dtype) else r.apply(Formula("different"), x, x)


@formula
def isinf(r: Recorder, x: Traced) -> Traced:
    return r.apply(IsInf(), x) if is_float(x.dtype) else r.apply(Formula("different"), x, x)


@formula
def isfinite(r: Recorder, x: Traced) -> Traced:
    return r.apply(Formula("is_finite"), x) if is_float(x.dtype) else r.apply(Compare("equal"), x, x)


@formula
def where(r: Recorder, condition: Traced, a: Operand, b: Operand) -> Traced:
    if condition.dtype != BOOL:
        raise DTypeError(f"where: condition has type {condition.dtype}, expected bool; compare it with 0")
    return r.apply(Where(), condition, *promoted(r, "where", a, b))


# ---- types ----------------------------------------------------------------------------------------------------------


@formula
def to(r: Recorder, x: Traced, dtype: str) -> Traced:
    return r.apply(Cast(named_type("to", dtype)), x)


def named_type(where: str, name: str) -> np.dtype[Any]:
    """The element type of a name."""
    try:
        found = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "biuf" and not is_float(found):
        raise ArgumentError(
            f"{where}: dtype '{name}' is not known; use a bool, integer or float type of NumPy"
        )
    return found


@cache
def _canonical(where: str, name: str) -> str:
    """NumPy's name of the type of a name: NumPy takes 5 us to tell it."""
    return named_type(where, name).name


def type_name(where: str, dtype: Any) -> str:
    """The name of an element type that a caller gives."""
    if isinstance(dtype, str):
        return _canonical(where, dtype)
    try:
        return _canonical(where, np.dtype(dtype).name)
    except TypeError:
        raise ArgumentError(f"{where}: dtype {shown(dtype)} is not an element type of NumPy") from None


# ---- one operand ----------------------------------------------------------------------------------------------------


def as_float(r: Recorder, x: Traced) -> Traced:
    """Integers and bool as float32."""
    return x if is_float(x.dtype) else as_type(r, x, FLOAT32)


def _of_float(name: str, op: Pointwise) -> None:
    FORMULAS[name] = lambda r, x: r.apply(op, as_float(r, x))


for _name, _op in {
    "exp": unary.Exp(), "log": unary.Log(), "sqrt": unary.Sqrt(), "reciprocal": unary.Reciprocal(), "erf": unary.Erf(),
    "sin": unary.Sin(), "cos": unary.Cos(), "tan": unary.Tan(), "asin": unary.Asin(), "acos": unary.Acos(),
    "atan": unary.Atan(), "sinh": unary.Sinh(), "cosh": unary.Cosh(), "asinh": unary.Asinh(), "acosh": unary.Acosh(),
    "atanh": unary.Atanh(), "exp2": Formula("exp2"), "expm1": Formula("expm1"), "log1p": Formula("log1p"),
    "log2": Formula("log2"), "log10": Formula("log10"), "rsqrt": Formula("rsqrt"),
}.items():  # fmt: skip
    _of_float(_name, _op)


def _of_whole(name: str, op: Pointwise) -> None:
    """Rounding: integers are whole already."""
    FORMULAS[name] = lambda r, x: r.apply(op if is_float(x.dtype) else Cast(x.dtype), x)


for _name, _op in {
    "floor": unary.Floor(), "ceil": unary.Ceil(), "round": unary.Round(), "trunc": Formula("truncate"),
}.items():  # fmt: skip
    _of_whole(_name, _op)


@formula
def round_decimals(r: Recorder, x: Traced, decimals: int) -> Traced:
    if not is_float(x.dtype):
        raise DTypeError(f"round: type {x.dtype} has no decimals; leave them out")
    if not -_MOST_DECIMALS <= decimals <= _MOST_DECIMALS:
        raise ArgumentError(
            f"round: decimals must be from -{_MOST_DECIMALS} to {_MOST_DECIMALS}, got {shown(decimals)}"
        )
    scale = r.scalar(10.0 ** (decimals if decimals > 0 else -decimals), x.dtype)
    before, after = (Mul(), Div()) if decimals > 0 else (Div(), Mul())
    return r.apply(after, r.apply(unary.Round(), r.apply(before, x, scale)), scale)


@formula
def neg(r: Recorder, x: Traced) -> Traced:
    return r.apply(unary.Neg(), x)


@formula
def abs(r: Recorder, x: Traced) -> Traced:  # torch's name
    return r.apply(unary.Abs(), x)


@formula
def sign(r: Recorder, x: Traced) -> Traced:
    return r.apply(Cast(BOOL) if x.dtype == BOOL else unary.Sign(), x)


@formula
def square(r: Recorder, x: Traced) -> Traced:
    return r.apply(Formula("square"), as_type(r, x, INT64) if x.dtype == BOOL else x)
