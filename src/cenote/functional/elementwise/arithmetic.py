"""Arithmetic, comparisons, logic and bits on arrays, named and defaulted as torch.

Operands are arrays or numbers (`input` is an array, or `other` is) and broadcast; types promote as PyTorch's do: bool,
integers, floats, in which numbers and arrays without axes count only by their kind. Division of integers by zero and
remainders by zero give 0: nothing is undefined. float16 and bfloat16 are computed in float32 and rounded once per
function.

out: an array to write to. threads: None for all. Errors: InputError for operands that are no arrays, DTypeError for
types that a function does not take, ShapeError for shapes that do not broadcast.
"""

from __future__ import annotations

from typing import Any, cast

from cenote.functional.elementwise.formulas import type_name
from cenote.functional.elementwise.recorder import run
from cenote.functional.record import public
from cenote.functional.types import A


@public
def add(input: A, other: Any, *, alpha: float = 1, out: A | None = None, threads: int | None = None) -> A:
    """input + alpha * other; of bool: or."""
    return cast(A, run("add", (input, other), (alpha,), out, threads))


@public
def sub(input: A, other: Any, *, alpha: float = 1, out: A | None = None, threads: int | None = None) -> A:
    """input - alpha * other."""
    return cast(A, run("sub", (input, other), (alpha,), out, threads))


@public
def mul(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input * other; of bool: and."""
    return cast(A, run("mul", (input, other), (), out, threads))


@public
def div(
    input: A,
    other: Any,
    *,
    rounding_mode: str | None = None,
    out: A | None = None,
    threads: int | None = None,
) -> A:
    """input / other. `rounding_mode`: None divides integers as float32; "trunc" rounds toward zero, "floor" down, and
    integers stay integers."""
    return cast(A, run("div", (input, other), (rounding_mode,), out, threads))


@public
def floor_divide(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input / other rounded down: Python's //, what is left of input when the remainder is gone, so that
    floor_divide(5, 0.1) is 49 (0.1 is a little more than a tenth). Of floats -1 // inf is -1, inf // 2 NaN and x // 0
    x / 0; the exact quotient is rounded once, where PyTorch rounds in between."""
    return cast(A, run("floor_divide", (input, other), (), out, threads))


@public
def remainder(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input - floor(input / other) * other: the sign of other, as Python's %."""
    return cast(A, run("remainder", (input, other), (), out, threads))


@public
def fmod(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input - trunc(input / other) * other: the sign of input, as C's fmod."""
    return cast(A, run("fmod", (input, other), (), out, threads))


@public
def pow(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:  # torch's name
    """input to the power of other. Integers to integers are exact modulo 2^bits; to a negative power they are 1 / a^|b|
    cut toward zero."""
    return cast(A, run("pow", (input, other), (), out, threads))


@public
def maximum(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """The larger of both; NaN where one is NaN."""
    return cast(A, run("maximum", (input, other), (), out, threads))


@public
def minimum(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """The smaller of both; NaN where one is NaN."""
    return cast(A, run("minimum", (input, other), (), out, threads))


@public
def eq(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input == other, as bool; NaN equals nothing."""
    return cast(A, run("eq", (input, other), (), out, threads))


@public
def ne(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input != other, as bool."""
    return cast(A, run("ne", (input, other), (), out, threads))


@public
def lt(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input < other, as bool; false where one is NaN."""
    return cast(A, run("lt", (input, other), (), out, threads))


@public
def le(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input <= other, as bool; false where one is NaN."""
    return cast(A, run("le", (input, other), (), out, threads))


@public
def gt(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input > other, as bool; false where one is NaN."""
    return cast(A, run("gt", (input, other), (), out, threads))


@public
def ge(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input >= other, as bool; false where one is NaN."""
    return cast(A, run("ge", (input, other), (), out, threads))


@public
def logical_and(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Whether both differ from 0, as bool."""
    return cast(A, run("logical_and", (input, other), (), out, threads))


@public
def logical_or(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Whether one differs from 0, as bool."""
    return cast(A, run("logical_or", (input, other), (), out, threads))


@public
def logical_xor(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Whether exactly one differs from 0, as bool."""
    return cast(A, run("logical_xor", (input, other), (), out, threads))


@public
def logical_not(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Whether input is 0, as bool."""
    return cast(A, run("logical_not", (input,), (), out, threads))


@public
def bitwise_and(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Bits that both have, of integers or bool."""
    return cast(A, run("bitwise_and", (input, other), (), out, threads))


@public
def bitwise_or(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Bits that one has, of integers or bool."""
    return cast(A, run("bitwise_or", (input, other), (), out, threads))


@public
def bitwise_xor(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Bits that exactly one has, of integers or bool."""
    return cast(A, run("bitwise_xor", (input, other), (), out, threads))


@public
def bitwise_not(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """All bits flipped, of integers or bool."""
    return cast(A, run("bitwise_not", (input,), (), out, threads))


@public
def bitwise_left_shift(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Integers moved by other bits to higher ones; 0 for a count outside 0 .. width - 1."""
    return cast(A, run("bitwise_left_shift", (input, other), (), out, threads))


@public
def bitwise_right_shift(input: A, other: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """Integers moved by other bits to lower ones, the sign kept; 0 or -1 for a count outside 0 .. width - 1."""
    return cast(A, run("bitwise_right_shift", (input, other), (), out, threads))


@public
def isnan(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Where input is NaN, as bool."""
    return cast(A, run("isnan", (input,), (), out, threads))


@public
def isinf(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Where input is infinite, as bool."""
    return cast(A, run("isinf", (input,), (), out, threads))


@public
def isfinite(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """Where input is neither infinite nor NaN, as bool."""
    return cast(A, run("isfinite", (input,), (), out, threads))


@public
def neg(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """-input; the lowest integer stays itself."""
    return cast(A, run("neg", (input,), (), out, threads))


@public
def abs(input: A, *, out: A | None = None, threads: int | None = None) -> A:  # torch's name
    """|input|; the lowest integer stays itself."""
    return cast(A, run("abs", (input,), (), out, threads))


@public
def sign(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """-1, 0 or 1 in input's type; NaN stays."""
    return cast(A, run("sign", (input,), (), out, threads))


@public
def square(input: A, *, out: A | None = None, threads: int | None = None) -> A:
    """input * input; integers wrap around."""
    return cast(A, run("square", (input,), (), out, threads))


@public
def clamp(
    input: A, min: Any = None, max: Any = None, *, out: A | None = None, threads: int | None = None
) -> A:
    """input held within min .. max (numbers, arrays or None; at least one of them); max wins where they cross, NaN in
    input or a bound gives NaN.
    """
    if max is None:
        return cast(A, run("clamp", (input, min), (), out, threads))
    if min is None:
        return cast(A, run("clamp_max", (input, max), (), out, threads))
    return cast(A, run("clamp", (input, min, max), (), out, threads))


@public
def to(input: A, dtype: Any, *, out: A | None = None, threads: int | None = None) -> A:
    """input in another element type: "float16", np.int8, "bfloat16", ... The rules are those of ops/elementwise/cast:
    rounding to nearest even; floats to integers cut toward zero, with what lies outside of 32 and 64 bits held at the
    nearest end and NaN 0, and 8 and 16 bits the low bits of an int32, 0 beyond it; integers wrap around; bool is
    whether it is not 0.
    """
    return cast(A, run("to", (input,), (type_name("to", dtype),), out, threads))
