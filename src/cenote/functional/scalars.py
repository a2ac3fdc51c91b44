"""Numbers that become elements of arrays, or factors of them: none is cut or wrapped around in silence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.core.errors import ArgumentError, DTypeError, shown
from cenote.core.types import Array, is_float
from cenote.functional.arguments import real

_MOST_BITS = 1024  # of a whole number that may become a float


def number(name: str, value: Any) -> int | float:
    """A real number; whole ones as they are, of any size."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    return real(name, value)


def number_as(name: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """A number as an array of a type without axes. Raises DTypeError where the type does not hold it."""
    given = bool(value) if isinstance(value, bool | np.bool_) else number(name, value)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(held(name, given, dtype), dtype)
    except (OverflowError, TypeError, ValueError) as error:  # dates and the like; DTypeError is a TypeError
        if isinstance(error, DTypeError):
            raise
        raise DTypeError(f"{name} is {shown(value)}, which {dtype} does not hold") from None


def held(name: str, value: float, dtype: np.dtype[Any]) -> float:
    """A number that becomes an element of a type, the one place where this is decided: floats hold any, rounded;
    integers whole numbers within their range, and bool 0 and 1. DTypeError for others: none is cut or wrapped around.
    """
    if is_float(dtype):
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise DTypeError(f"{name} is {shown(value)}, which is larger than any float")
        return value
    if dtype.kind not in "biu":
        return value
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not (math.isfinite(value) and low <= value <= high and value == int(value)):
        raise DTypeError(f"{name} is {shown(value)}, which {dtype} does not hold; cast the array")
    return int(value)


def factor(name: str, value: Any, dtype: np.dtype[Any]) -> int | float:
    """A number by which elements of a type are multiplied: of integers a whole one of any size, modulo 2^bits as the
    product itself."""
    given = number(name, value)
    if dtype.kind not in "iu":
        return given
    if isinstance(given, float) and not given.is_integer():
        raise ArgumentError(f"{name} is {given}, but the elements are {dtype}; use a whole number")
    limits = np.iinfo(dtype)
    return (int(given) - limits.min) % (1 << limits.bits) + limits.min
