"""Formulas: functions of numbers that depend on a model's symbolic dimensions.

A `SizeFormula` is made from a function and its operands, and from nothing else. Its value for the shapes at hand is
what the function gives for the operands' values; its text, the Python that gives the value for other shapes, names the
same function and holds the texts of the same operands. No text needs parentheses, wherever it is put.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def word_of_float(value: float) -> int:
    """Return the 64-bit word that carries a float argument."""
    word: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return word


def _array(items: Sequence[Any], kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array(items, kind).reshape(shape)


def _element(array: np.ndarray[Any, Any], index: int) -> Any:
    return array.reshape(-1)[index].item()


def _shape(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    shape: tuple[int, ...] = array.shape
    return shape


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "int": int,
    "neg": operator.neg,
    "float": float,
    "bits": word_of_float,
    "item": operator.getitem,
    "element": _element,
    "shape_of": _shape,
    "array_of": _array,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}
"""Functions that texts name; other functions of modules are K[0], K[1] …"""


class Namer(Protocol):
    """Protocol of the object that names functions, arrays and operators (`trace.Trace`)."""

    def object(self, thing: Any) -> str: ...


class Thing:
    """Array or operator as an operand."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class Symbolic:
    """Value that depends on symbolic dimensions: its `code` is Python over the unknowns of a trace, its `value` that
    for the shapes at hand."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # sets and dictionaries would compare without a guard
    code: Any
    trace: Any
    value: Any


class SizeFormula(Symbolic):
    """`function(*operands)`. The function is an operator's sign, a name among FUNCTIONS, or a function of a module;
    an operand is a number, a text, None, a Symbolic, a Thing or a tuple of operands."""

    __slots__ = ("code", "function", "operands", "trace", "value")

    def __init__(self, trace: Namer, function: str | Callable[..., Any], *operands: Any) -> None:
        self.trace, self.function, self.operands = trace, function, operands
        self.value = function_of(function)(*map(at_hand, operands))
        texts = [text_of(operand, trace) for operand in operands]
        if function in OPERATORS:
            self.code = f"({texts[0]} {function} {texts[1]})"
        else:
            name = function if isinstance(function, str) else trace.object(function)
            self.code = f"{name}({', '.join(texts)})"


class Given(Symbolic):
    """Number that comes from outside."""

    __slots__ = ("code", "index", "name", "trace", "value")

    def __init__(self, trace: Namer, name: str, index: int, value: int) -> None:
        self.trace, self.name, self.index, self.value = trace, name, index, value
        self.code = f"{name}[{index}]"


def function_of(function: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable of a formula's function."""
    if not isinstance(function, str):
        return function
    return OPERATORS.get(function) or FUNCTIONS[function]


def at_hand(x: Any) -> Any:
    """Return an operand's value for the shapes at hand; other objects as they are."""
    if isinstance(x, Symbolic):
        return x.value
    if isinstance(x, tuple):
        return tuple(map(at_hand, x))
    return plain_number(x)


_OF_NUMPY = np.integer, np.bool_


def plain_number(x: Any) -> Any:
    """Convert NumPy's whole numbers, which wrap around, to Python's, which are exact."""
    if isinstance(x, _OF_NUMPY):
        return x.item()
    return x.held if isinstance(x, Thing) else x


_WRITTEN = bool, int, float, str


class OpenSizeError(TypeError):
    """An operation that numbers have and sizes that are open have not: the model is planned for each size by itself."""


def text_of(x: Any, trace: Namer) -> str:
    """Return the Python expression of an operand."""
    if isinstance(x, Symbolic):
        text: str = x.code
        return text
    if isinstance(x, Thing):
        return trace.object(x.held)
    if isinstance(x, tuple):
        return f"({''.join(f'{text_of(item, trace)},' for item in x)})"
    if isinstance(x, np.floating):  # the result of a float32 and a number of Python is a float32
        return f"{x.dtype.name}({text_of(float(x), trace)})"
    number = plain_number(x)
    if isinstance(number, float) and not math.isfinite(number):
        return f"float('{number}')"
    if number is None or isinstance(number, _WRITTEN):
        text = repr(number)
        return f"({text})" if text[0] == "-" else text
    raise OpenSizeError(f"no formula for {type(x).__name__}")
