"""Arithmetic, comparisons, logic and bits on arrays, named and defaulted as torch. Each function is written once, for
calls on arrays and for `fused` functions alike.

Operands are arrays or numbers (`input` is an array, or `other` is) and broadcast; types promote as PyTorch's do: bool,
integers, floats, in which numbers and arrays without axes count only by their kind. Division of integers by zero and
remainders by zero give 0: nothing is undefined. float16 and bfloat16 are computed in float32 and rounded once per
function.

out: an array to write to. threads: None for all. Errors: InputError for operands that are no arrays, DTypeError for
types that a function does not take, ShapeError for shapes that do not broadcast.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, shown
from cenote.core.types import BFLOAT16, INT64, is_float
from cenote.functional.arguments import choice
from cenote.functional.elementwise.recorder import (
    BOOL,
    Left,
    Operand,
    Right,
    Traced,
    Value,
    apply,
    as_type,
    elementwise,
    formula,
    promoted,
    result_type,
    run,
)
from cenote.functional.kinds import Kind
from cenote.functional.record import public
from cenote.functional.scalars import factor, number
from cenote.functional.types import A
from cenote.ops.elementwise import unary
from cenote.ops.elementwise.binary import Add, Div, Max, Min, Mod, Mul, Pow, Sub
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.compare import BitShift, Bitwise, BitwiseNot, Compare, IsInf, IsNaN, Logic, Not
from cenote.ops.elementwise.formula import Formula
from cenote.ops.elementwise.where import Where

Scale = Annotated[Any, Kind("float")]

# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _scaled(where: str, x: Traced, alpha: object) -> Traced:
    alpha = number(where, "alpha", alpha) if not isinstance(alpha, bool) else alpha
    if isinstance(alpha, float) and not is_float(x.dtype):
        raise ArgumentError(
            f"{where}: alpha is {alpha}, a float, but the result is {x.dtype}; use a whole number"
        )
    if alpha == 1:
        return x
    if x.dtype == BOOL:
        return apply(Logic("and"), x, x.number(bool(alpha)))
    if not is_float(x.dtype):
        alpha = factor(where, "alpha", alpha, x.dtype)
    return apply(Mul(), x, x.number(alpha))


@elementwise
def add(input: Left, other: Right, *, alpha: Scale = 1) -> Traced:
    """input + alpha * other; of bool: or."""
    a, b = promoted("add", input, other)
    return apply(Logic("or") if a.dtype == BOOL else Add(), a, _scaled("add", b, alpha))


@elementwise
def sub(input: Left, other: Right, *, alpha: Scale = 1) -> Traced:
    """input - alpha * other."""
    a, b = promoted("sub", input, other)
    return apply(Sub(), a, _scaled("sub", b, alpha))


@elementwise
def mul(input: Left, other: Right) -> Traced:
    """input * other; of bool: and."""
    a, b = promoted("mul", input, other)
    return apply(Logic("and") if a.dtype == BOOL else Mul(), a, b)


@elementwise
def div(input: Left, other: Right, *, rounding_mode: str | None = None) -> Traced:
    """input / other. `rounding_mode`: None divides integers as float32; "trunc" rounds toward zero, "floor" down, and
    integers stay integers."""
    if rounding_mode is not None:
        choice("div", "rounding_mode", rounding_mode, ("trunc", "floor"))
    if rounding_mode == "floor":
        return floor_divide(input, other)
    a, b = promoted("div", input, other, floats=rounding_mode is None)
    quotient = apply(Div(), a, b)
    return apply(Formula("truncate"), quotient) if rounding_mode and is_float(a.dtype) else quotient


@elementwise
def floor_divide(input: Left, other: Right) -> Traced:
    """input / other rounded down: Python's //, what is left of input when the remainder is gone, so that
    floor_divide(5, 0.1) is 49 (0.1 is a little more than a tenth). Of floats -1 // inf is -1, inf // 2 NaN and x // 0
    x / 0; the exact quotient is rounded once, where PyTorch rounds in between."""
    return apply(Formula("floor_divide"), *promoted("floor_divide", input, other))


@elementwise
def remainder(input: Left, other: Right) -> Traced:
    """input - floor(input / other) * other: the sign of other, as Python's %."""
    return apply(Mod(), *promoted("remainder", input, other))


@elementwise
def fmod(input: Left, other: Right) -> Traced:
    """input - trunc(input / other) * other: the sign of input, as C's fmod."""
    return apply(Mod(truncate=True), *promoted("fmod", input, other))


@elementwise
def pow(input: Left, other: Right) -> Traced:  # torch's name
    """input to the power of other. Integers to integers are exact modulo 2^bits; to a negative power they are 1 / a^|b|
    cut toward zero."""
    return apply(Pow(), *promoted("pow", input, other))


@elementwise
def maximum(input: Left, other: Right) -> Traced:
    """The larger of both; NaN where one is NaN."""
    a, b = promoted("maximum", input, other)
    return apply(Logic("or") if a.dtype == BOOL else Max(), a, b)


@elementwise
def minimum(input: Left, other: Right) -> Traced:
    """The smaller of both; NaN where one is NaN."""
    a, b = promoted("minimum", input, other)
    return apply(Logic("and") if a.dtype == BOOL else Min(), a, b)


@formula
def _clamp(x: Left, low: Right | None = None, high: Right | None = None) -> Traced:
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        raise ArgumentError("clamp: at least one of min and max must be given")
    dtype = result_type("clamp", (x, *bounds))
    some = next(each for each in (x, *bounds) if isinstance(each, Traced))
    value = as_type(x, dtype, some)
    if low is not None:
        value = apply(Max(), value, as_type(low, dtype, some))
    return value if high is None else apply(Min(), value, as_type(high, dtype, some))


@formula
def _clamp_max(x: Left, high: Right) -> Traced:
    return _clamp(x, None, high)


# ---- comparisons ----------------------------------------------------------------------------------------------------


def _ordered(name: str, relation: str, a: Operand, b: Operand) -> Traced:
    a, b = promoted(name, a, b)
    if a.dtype == BOOL:
        a, b = (apply(Cast(np.dtype(np.uint8)), x) for x in (a, b))
    return apply(Compare(relation), a, b)


@elementwise
def eq(input: Left, other: Right) -> Traced:
    """input == other, as bool; NaN equals nothing."""
    return apply(Compare("equal"), *promoted("eq", input, other))


@elementwise
def ne(input: Left, other: Right) -> Traced:
    """input != other, as bool."""
    return apply(Formula("different"), *promoted("ne", input, other))


@elementwise
def lt(input: Left, other: Right) -> Traced:
    """input < other, as bool; false where one is NaN."""
    return _ordered("lt", "less", input, other)


@elementwise
def le(input: Left, other: Right) -> Traced:
    """input <= other, as bool; false where one is NaN."""
    return _ordered("le", "less_or_equal", input, other)


@elementwise
def gt(input: Left, other: Right) -> Traced:
    """input > other, as bool; false where one is NaN."""
    return _ordered("gt", "greater", input, other)


@elementwise
def ge(input: Left, other: Right) -> Traced:
    """input >= other, as bool; false where one is NaN."""
    return _ordered("ge", "greater_or_equal", input, other)


@formula
def _where(condition: Left, a: Left, b: Left) -> Traced:
    """One of two values by a condition; the public function is in functional/choice/order.py."""
    if not isinstance(condition, Traced) or condition.dtype != BOOL:
        given = condition.dtype if isinstance(condition, Traced) else type(condition).__name__
        raise DTypeError(f"where: condition has type {given}, expected bool; compare it with 0")
    return apply(Where(), condition, *promoted("where", a, b, beside=condition))


@elementwise
def isnan(input: Value) -> Traced:
    """Where input is NaN, as bool."""
    return apply(IsNaN(), input) if is_float(input.dtype) else apply(Formula("different"), input, input)


@elementwise
def isinf(input: Value) -> Traced:
    """Where input is infinite, as bool."""
    return apply(IsInf(), input) if is_float(input.dtype) else apply(Formula("different"), input, input)


@elementwise
def isfinite(input: Value) -> Traced:
    """Where input is neither infinite nor NaN, as bool."""
    return (
        apply(Formula("is_finite"), input) if is_float(input.dtype) else apply(Compare("equal"), input, input)
    )


# ---- logic and bits -------------------------------------------------------------------------------------------------


def _logical(operation: str, a: Operand, b: Operand) -> Traced:
    some = a if isinstance(a, Traced) else b
    return apply(Logic(operation), as_type(a, BOOL, some), as_type(b, BOOL, some))


def _bitwise(operation: str, a: Operand, b: Operand) -> Traced:
    a, b = promoted(f"bitwise_{operation}", a, b)
    return apply(Logic(operation) if a.dtype == BOOL else Bitwise(operation), a, b)


@elementwise
def logical_and(input: Left, other: Right) -> Traced:
    """Whether both differ from 0, as bool."""
    return _logical("and", input, other)


@elementwise
def logical_or(input: Left, other: Right) -> Traced:
    """Whether one differs from 0, as bool."""
    return _logical("or", input, other)


@elementwise
def logical_xor(input: Left, other: Right) -> Traced:
    """Whether exactly one differs from 0, as bool."""
    return _logical("xor", input, other)


@elementwise
def logical_not(input: Value) -> Traced:
    """Whether input is 0, as bool."""
    return apply(Not(), as_type(input, BOOL))


@elementwise
def bitwise_and(input: Left, other: Right) -> Traced:
    """Bits that both have, of integers or bool."""
    return _bitwise("and", input, other)


@elementwise
def bitwise_or(input: Left, other: Right) -> Traced:
    """Bits that one has, of integers or bool."""
    return _bitwise("or", input, other)


@elementwise
def bitwise_xor(input: Left, other: Right) -> Traced:
    """Bits that exactly one has, of integers or bool."""
    return _bitwise("xor", input, other)


@elementwise
def bitwise_not(input: Value) -> Traced:
    """All bits flipped, of integers or bool."""
    return apply(Not() if input.dtype == BOOL else BitwiseNot(), input)


@elementwise
def bitwise_left_shift(input: Left, other: Right) -> Traced:
    """Integers moved by other bits to higher ones; 0 for a count outside 0 .. width - 1."""
    return apply(BitShift("LEFT"), *promoted("bitwise_left_shift", input, other))


@elementwise
def bitwise_right_shift(input: Left, other: Right) -> Traced:
    """Integers moved by other bits to lower ones, the sign kept; 0 or -1 for a count outside 0 .. width - 1."""
    return apply(BitShift("RIGHT"), *promoted("bitwise_right_shift", input, other))


# ---- one operand ----------------------------------------------------------------------------------------------------


@elementwise
def neg(input: Value) -> Traced:
    """-input; the lowest integer stays itself."""
    return apply(unary.Neg(), input)


@elementwise
def abs(input: Value) -> Traced:  # torch's name
    """|input|; the lowest integer stays itself."""
    return apply(unary.Abs(), input)


@elementwise
def sign(input: Value) -> Traced:
    """-1, 0 or 1 in input's type; NaN stays."""
    return apply(Cast(BOOL) if input.dtype == BOOL else unary.Sign(), input)


@elementwise
def square(input: Value) -> Traced:
    """input * input; integers wrap around."""
    return apply(Formula("square"), as_type(input, INT64) if input.dtype == BOOL else input)


@public
def clamp(
    input: A, min: Any = None, max: Any = None, *, out: A | None = None, threads: int | None = None
) -> A:
    """input held within min .. max (numbers, arrays or None; at least one of them); max wins where they cross, NaN in
    input or a bound gives NaN.
    """
    if max is None:
        return run("clamp", (input, min), (), out, threads)
    if min is None:
        return run("clamp_max", (input, max), (), out, threads)
    return run("clamp", (input, min, max), (), out, threads)


# ---- types ----------------------------------------------------------------------------------------------------------


@formula
def _to(x: Value, dtype: str) -> Traced:
    return apply(Cast(named_type("to", dtype)), x)


@public
def to(input: A, dtype: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input in another element type: "float16", np.int8, "bfloat16", ... The rules are those of ops/elementwise/cast:
    rounding to nearest even; floats to integers cut toward zero, with what lies outside of 32 and 64 bits held at the
    nearest end and NaN 0, and 8 and 16 bits the low bits of an int32, 0 beyond it; integers wrap around; bool is
    whether it is not 0.
    """
    return run("to", (input,), (type_name("to", dtype),), out, threads)


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
