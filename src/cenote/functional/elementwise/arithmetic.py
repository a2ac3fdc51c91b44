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

from collections.abc import Callable
from functools import cache, partial
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
    of_operator,
    of_two,
    promoted,
    result_type,
    run,
)
from cenote.functional.kinds import Anything, Given, Kind, Target, Threads
from cenote.functional.record import composed
from cenote.functional.scalars import factor, number
from cenote.functional.types import DLPack
from cenote.ops.elementwise import unary
from cenote.ops.elementwise.binary import Add, Div, Max, Min, Mod, Mul, Pow, Sub
from cenote.ops.elementwise.cast import Cast
from cenote.ops.elementwise.compare import BitShift, Bitwise, BitwiseNot, Compare, IsInf, IsNaN, Logic, Not
from cenote.ops.elementwise.formula import Formula
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.elementwise.where import Where

Scale = Annotated[Any, Kind("float")]

# ---- arithmetic -----------------------------------------------------------------------------------------------------


_of_operator, _of_two = partial(of_operator, __name__), partial(of_two, __name__)


def _scaled(x: Traced, alpha: object) -> Traced:
    alpha = number("alpha", alpha) if not isinstance(alpha, bool) else alpha
    if isinstance(alpha, float) and not is_float(x.dtype):
        raise ArgumentError(f"alpha is {alpha}, a float, but the result is {x.dtype}; use a whole number")
    if alpha == 1:
        return x
    if x.dtype == BOOL:
        return apply(Logic("and"), x, x.number(bool(alpha)))
    if not is_float(x.dtype):
        alpha = factor("alpha", alpha, x.dtype)
    return apply(Mul(), x, x.number(alpha))


@elementwise
def add(input: Left, other: Right, *, alpha: Scale = 1) -> Traced:
    """input + alpha * other; of bool: or."""
    a, b = promoted(input, other)
    return apply(Logic("or") if a.dtype == BOOL else Add(), a, _scaled(b, alpha))


@elementwise
def sub(input: Left, other: Right, *, alpha: Scale = 1) -> Traced:
    """input - alpha * other."""
    a, b = promoted(input, other)
    return apply(Sub(), a, _scaled(b, alpha))


@elementwise
def div(input: Left, other: Right, *, rounding_mode: str | None = None) -> Traced:
    """input / other. `rounding_mode`: None divides integers as float32; "trunc" rounds toward zero, "floor" down, and
    integers stay integers."""
    if rounding_mode is not None:
        choice("rounding_mode", rounding_mode, ("trunc", "floor"))
    if rounding_mode == "floor":
        return floor_divide(input, other)
    a, b = promoted(input, other, floats=rounding_mode is None)
    quotient = apply(Div(), a, b)
    return apply(Formula("truncate"), quotient) if rounding_mode and is_float(a.dtype) else quotient


@elementwise
def floor_divide(input: Left, other: Right) -> Traced:
    """input / other rounded down: Python's //, what is left of input when the remainder is gone, so that
    floor_divide(5, 0.1) is 49 (0.1 is a little more than a tenth). Of floats -1 // inf is -1, inf // 2 NaN and x // 0
    x / 0; the exact quotient is rounded once, where PyTorch rounds in between."""
    return apply(Formula("floor_divide"), *promoted(input, other))


@elementwise
def pow(input: Left, other: Right) -> Traced:  # torch's name
    """input to the power of other. Integers to integers are exact modulo 2^bits; to a negative power they are 1 / a^|b|
    cut toward zero."""
    return apply(Pow(), *promoted(input, other))


mul = _of_two("mul", Mul(), "input * other; of bool: and.", bools=Logic("and"))
remainder = _of_two(
    "remainder", Mod(), "input - floor(input / other) * other: the sign of other, as Python's %."
)
fmod = _of_two(
    "fmod", Mod(truncate=True), "input - trunc(input / other) * other: the sign of input, as C's fmod."
)
maximum = _of_two("maximum", Max(), "The larger of both; NaN where one is NaN.", bools=Logic("or"))
minimum = _of_two("minimum", Min(), "The smaller of both; NaN where one is NaN.", bools=Logic("and"))


@formula
def _clamp(x: Left, low: Right | None = None, high: Right | None = None) -> Traced:
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        raise ArgumentError("at least one of min and max must be given")
    dtype = result_type((x, *bounds))
    some = next(each for each in (x, *bounds) if isinstance(each, Traced))
    value = as_type(x, dtype, some)
    if low is not None:
        value = apply(Max(), value, as_type(low, dtype, some))
    return value if high is None else apply(Min(), value, as_type(high, dtype, some))


@formula
def _clamp__max(x: Left, high: Right) -> Traced:
    return _clamp(x, None, high)


# ---- comparisons ----------------------------------------------------------------------------------------------------


def _ordered(a: Operand, b: Operand) -> list[Traced]:
    """Operands in order, of which bool has none."""
    both = promoted(a, b)
    return [as_type(x, np.dtype(np.uint8)) for x in both] if both[0].dtype == BOOL else both


def _compared(name: str, relation: str, sign: str) -> Callable[..., Any]:
    doc = f"input {sign} other, as bool; false where one is NaN."
    return _of_two(name, Compare(relation), doc, _ordered)


eq = _of_two("eq", Compare("equal"), "input == other, as bool; NaN equals nothing.")
ne = _of_two("ne", Formula("different"), "input != other, as bool.")
lt, le = _compared("lt", "less", "<"), _compared("le", "less_or_equal", "<=")
gt, ge = _compared("gt", "greater", ">"), _compared("ge", "greater_or_equal", ">=")


def _about_floats(name: str, op: Pointwise, otherwise: Pointwise, doc: str) -> Callable[..., Any]:
    """The function of a question about floats, which other numbers answer by being compared with themselves."""

    def body(input: Value) -> Traced:
        return apply(op, input) if is_float(input.dtype) else apply(otherwise, input, input)

    body.__name__, body.__doc__ = name, doc
    return elementwise(body)


isnan = _about_floats("isnan", IsNaN(), Formula("different"), "True where input is NaN, as bool.")
isinf = _about_floats("isinf", IsInf(), Formula("different"), "True where input is infinite, as bool.")
isfinite = _about_floats(
    "isfinite",
    Formula("is_finite"),
    Compare("equal"),
    "True where input is neither infinite nor NaN, as bool.",
)


@formula
def _where(condition: Left, a: Left, b: Left) -> Traced:
    """One of two values by a condition; the public function is in functional/choice/order.py."""
    if not isinstance(condition, Traced) or condition.dtype != BOOL:
        given = condition.dtype if isinstance(condition, Traced) else type(condition).__name__
        raise DTypeError(f"where: condition has type {given}, expected bool; compare it with 0")
    return apply(Where(), condition, *promoted(a, b, beside=condition))


# ---- logic and bits -------------------------------------------------------------------------------------------------


def _as_bools(a: Operand, b: Operand) -> list[Traced]:
    some = a if isinstance(a, Traced) else b
    return [as_type(x, BOOL, some) for x in (a, b)]


def _bitwise(operation: str, doc: str) -> Callable[..., Any]:
    return _of_two(f"bitwise_{operation}", Bitwise(operation), doc, bools=Logic(operation))


logical_and = _of_two("logical_and", Logic("and"), "Whether both differ from 0, as bool.", _as_bools)
logical_or = _of_two("logical_or", Logic("or"), "Whether one differs from 0, as bool.", _as_bools)
logical_xor = _of_two("logical_xor", Logic("xor"), "Whether exactly one differs from 0, as bool.", _as_bools)
bitwise_and = _bitwise("and", "Bits that both have, of integers or bool.")
bitwise_or = _bitwise("or", "Bits that one has, of integers or bool.")
bitwise_xor = _bitwise("xor", "Bits that exactly one has, of integers or bool.")
bitwise_left_shift = _of_two(
    "bitwise_left_shift",
    BitShift("LEFT"),
    "Integers moved by other bits to higher ones; 0 for a count outside 0 .. width - 1.",
)
bitwise_right_shift = _of_two(
    "bitwise_right_shift",
    BitShift("RIGHT"),
    "Integers moved by other bits to lower ones, the sign kept; 0 or -1 for a count outside 0 .. width - 1.",
)


@elementwise
def logical_not(input: Value) -> Traced:
    """Whether input is 0, as bool."""
    return apply(Not(), as_type(input, BOOL))


@elementwise
def bitwise_not(input: Value) -> Traced:
    """All bits flipped, of integers or bool."""
    return apply(Not() if input.dtype == BOOL else BitwiseNot(), input)


# ---- one operand ----------------------------------------------------------------------------------------------------

neg = _of_operator("neg", unary.Neg(), "-input; the lowest integer stays itself.")
abs = _of_operator("abs", unary.Abs(), "|input|; the lowest integer stays itself.")  # torch's name


@elementwise
def sign(input: Value) -> Traced:
    """-1, 0 or 1 in input's type; NaN stays."""
    return apply(Cast(BOOL) if input.dtype == BOOL else unary.Sign(), input)


@elementwise
def square(input: Value) -> Traced:
    """input * input; integers wrap around."""
    return apply(Formula("square"), as_type(input, INT64) if input.dtype == BOOL else input)


@composed()
def clamp(
    input: Given, min: Anything = None, max: Anything = None, *, out: Target, threads: Threads
) -> DLPack:
    """input held within min .. max (numbers, arrays or None; at least one of them); max wins where they cross, NaN in
    input or a bound gives NaN.
    """
    if min is None and max is not None:
        return run("clamp__max", (input, max), (), out, threads)
    return run("clamp", (input, min) if max is None else (input, min, max), (), out, threads)


# ---- types ----------------------------------------------------------------------------------------------------------


def named_type(name: str) -> np.dtype[Any]:
    """The element type of a name."""
    try:
        found = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "biuf" and not is_float(found):
        raise ArgumentError(f"dtype '{name}' is not known; use a bool, integer or float type of NumPy")
    return found


@cache
def _canonical(name: str) -> str:
    """NumPy's name of the type of a name: NumPy takes 5 us to tell it."""
    return named_type(name).name


def type_name(dtype: Any) -> str:
    """The name of an element type that a caller gives."""
    if isinstance(dtype, str):
        return _canonical(dtype)
    try:
        return _canonical(np.dtype(dtype).name)
    except TypeError:
        raise ArgumentError(f"dtype {shown(dtype)} is not an element type of NumPy") from None


ElementType = Annotated[str, Kind("Any", key=type_name)]


@elementwise
def to(input: Value, dtype: ElementType) -> Traced:
    """input in another element type: "float16", np.int8, "bfloat16", ... The rules are those of ops/elementwise/cast:
    rounding to nearest even; floats to integers cut toward zero, with what lies outside of 32 and 64 bits held at the
    nearest end and NaN 0, and 8 and 16 bits the low bits of an int32, 0 beyond it; integers wrap around; bool is
    whether it is not 0.
    """
    return apply(Cast(named_type(dtype)), input)
