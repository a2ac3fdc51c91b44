"""Sizes that are not known yet: whole numbers that remember how they follow from a model's symbolic dimensions.

A model is compiled once with a `Size` for each symbolic dimension. A Size behaves like the int of the shapes at hand,
its `value`: sums, differences and products are polynomials, so that equal formulas are equal; quotients and maxima
become unknowns. A question that needs an answer now (a comparison, a length, an index) is answered for the shapes at
hand, and the `Trace` records a guard. What was compiled holds for all sizes that the guards accept.

Whatever takes a Size for an int without asking (NumPy, `range`, `int()`) comes by `__index__`, which guards that the
size is this very number. So code that knows nothing of Sizes is never wrong, it only narrows what the result is for;
`Trace.fixed` counts the places. For the same reason a Size has no hash: sets and dictionaries would compare in silence.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from cenote.core.polynomials import Terms, exact, plus, shown, times

T = TypeVar("T")
N = TypeVar("N", int, float)

INFINITE = 1 << 200
_LONGEST = 400  # characters of a formula, beyond which it becomes an unknown of its own


class Recorder(Protocol):
    """What Sizes tell and ask their trace (`trace.Trace`)."""

    shows_formulas: bool
    values: list[Any]

    def bounds(self, size: Any) -> tuple[int, int]: ...
    def constant(self, value: int) -> Any: ...
    def define(self, code: str, value: Any) -> int: ...
    def fix(self, size: Any) -> int: ...
    def guard(self, question: str, answer: bool, fixed: bool = False) -> None: ...
    def object(self, thing: Any) -> str: ...
    def polynomial(self, terms: Terms, value: int) -> Any: ...
    def quotient(self, size: Any, by: int) -> Any: ...
    def sum(self, a: Any, b: Any, sign: int) -> Any: ...
    def unknown(self, code: str, value: int, low: int, high: int) -> Any: ...


class Size:
    """A whole number made of symbolic dimensions. `value` is what it is for the shapes at hand."""

    __slots__ = ("terms", "trace", "value")
    __hash__ = None  # type: ignore[assignment]  # see above

    def __init__(self, trace: Recorder, terms: Terms, value: int) -> None:
        self.trace, self.terms, self.value = trace, terms, value

    # ---- polynomials ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return self.trace.sum(self, other, 1)
        if _is_whole(other):
            if not other:
                return self
            return self.trace.polynomial(plus(self.terms, (((), int(other)),), 1), self.value + int(other))
        return self.real() + other if isinstance(other, float | Real) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self.trace.polynomial(tuple((m, -c) for m, c in self.terms), -self.value)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return self.trace.sum(self, other, -1)
        if _is_whole(other):
            return self + -int(other)
        return self.real() - other if isinstance(other, float | Real) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return self.trace.polynomial(times(self.terms, other.terms), self.value * other.value)
        if _is_whole(other):
            factor = int(other)
            if factor == 1:  # of most products: math.prod begins with 1
                return self
            terms = tuple((m, c * factor) for m, c in self.terms) if factor else ()
            return self.trace.polynomial(terms, self.value * factor)
        return self.real() * other if isinstance(other, float | Real) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Any:
        return math.prod([self] * exponent)

    # ---- quotients ------------------------------------------------------------------------------------------------

    def __floordiv__(self, other: Any) -> Any:
        if not _is_whole(other) and not isinstance(other, Size):
            return self.real() // other if isinstance(other, float | Real) else NotImplemented
        if not isinstance(other, Size) and int(other) > 0:
            return self.trace.quotient(self, int(other))
        low, high = self.trace.bounds(self)
        low, high = min(low, 0), max(high, -1)
        if self.trace.bounds(other)[0] < 1:
            if other == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            low, high = -INFINITE, INFINITE
        if isinstance(other, Size) and (parts := exact(self.terms, other.terms)) is not None:
            return self.trace.polynomial(parts, self.value // other.value)
        return self.trace.unknown(
            f"({code_of(self)})//({code_of(other)})", self.value // plain(other), low, high
        )

    def __rfloordiv__(self, other: Any) -> Any:
        return self.trace.constant(int(other)) // self if _is_whole(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        return other - (other // self) * self

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return quotient, self - quotient * other

    def __rdivmod__(self, other: Any) -> Any:
        quotient = other // self
        return quotient, other - quotient * self

    def __truediv__(self, other: Any) -> Any:
        return self.real() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.real()

    def __lshift__(self, bits: int) -> Any:
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> Any:
        return self // (1 << bits)

    # ---- questions ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._ask(other, "==", lambda low, high: False if low > 0 or high < 0 else None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._ask(other, "<", lambda low, high: True if high < 0 else False if low >= 0 else None)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __gt__(self, other: Any) -> bool:
        return self._ask(other, ">", lambda low, high: True if low > 0 else False if high <= 0 else None)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def _ask(self, other: Any, question: str, decide: Callable[[int, int], bool | None]) -> bool:
        """Whether self - other is less than, equal to or greater than 0."""
        if isinstance(other, float | Real):
            return bool(_COMPARE[question](self.real(), other))
        if not isinstance(other, Size) and not _is_whole(other):
            return False if question == "==" else cast(bool, NotImplemented)
        difference = self - other
        if not isinstance(difference, Size):
            return bool(_COMPARE[question](difference, 0))
        known = decide(*self.trace.bounds(difference))
        answer = bool(_COMPARE[question](difference.value, 0))
        if known is not None:
            assert known == answer, (known, answer, self.trace.bounds(difference), difference)
            return known
        self.trace.guard(f"{code_of(difference)} {question} 0", answer)
        return answer

    def __index__(self) -> int:
        return self.trace.fix(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.trace.fix(self))

    def __round__(self, digits: int = 0) -> Any:
        return self

    __trunc__ = __floor__ = __ceil__ = __round__

    def real(self) -> Real:
        """The same number as a float."""
        return Real(self.trace, f"({code_of(self)})", float(self.value))

    def __str__(self) -> str:
        return f"{{{{{code_of(self)}}}}}" if self.trace.shows_formulas else str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __repr__(self) -> str:
        return f"Size({code_of(self)} = {self.value})"

    def __reduce__(self) -> Any:
        raise TypeError("a Size belongs to the trace that made it")


class Formula:
    """Something made of Sizes: its Python expression over the unknowns of a trace, and the `value` for the shapes at
    hand."""

    __slots__ = ("code", "trace", "value")
    __hash__ = None  # type: ignore[assignment]  # as of Size

    def __init__(self, trace: Recorder, code: str, value: Any) -> None:
        self.trace, self.code, self.value = trace, code, value


class Real(Formula):
    """A float made of Sizes; its formula is evaluated for other sizes as it was for these, with the same rounding."""

    __slots__ = ()

    def _with(self, other: Any, operation: str, turned: bool = False) -> Any:
        if not isinstance(other, Real | Size | float | int | np.integer | np.floating):
            return NotImplemented
        first, second = (other, self) if turned else (self, other)
        value = _COMPUTE[operation](at_hand(first), at_hand(second))
        code = f"(({code_of(first)}) {operation} ({code_of(second)}))"
        if len(code) > _LONGEST:
            code = f"u{self.trace.define(code, value)}"
        return Real(self.trace, code, value)

    def __add__(self, other: Any) -> Any:
        return self._with(other, "+")

    def __radd__(self, other: Any) -> Any:
        return self._with(other, "+", True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, "-")

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, "-", True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, "*")

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, "*", True)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, "/")

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, "/", True)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, "//")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, "//", True)

    def __neg__(self) -> Real:
        return Real(self.trace, f"(-{self.code})", -self.value)

    def _ask(self, other: Any, question: str) -> bool:
        answer = bool(_COMPARE[question](self.value, plain(other)))
        self.trace.guard(f"{self.code} {question} {code_of(other)}", answer)
        return answer

    def __eq__(self, other: object) -> bool:
        return self._ask(other, "==") if isinstance(other, Real | Size | float | int) else False

    def __lt__(self, other: Any) -> bool:
        return self._ask(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._ask(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return self._ask(other, ">")

    def __ge__(self, other: Any) -> bool:
        return self._ask(other, ">=")

    def __bool__(self) -> bool:
        return self != 0.0

    def __float__(self) -> float:
        self.trace.guard(f"{self.code} == {self.value!r}", True, fixed=True)
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __floor__(self) -> Any:
        return self.trace.unknown(f"floor({self.code})", math.floor(self.value), -INFINITE, INFINITE)

    def __ceil__(self) -> Any:
        return self.trace.unknown(f"ceil({self.code})", math.ceil(self.value), -INFINITE, INFINITE)

    def __trunc__(self) -> Any:
        return self.trace.unknown(f"trunc({self.code})", math.trunc(self.value), -INFINITE, INFINITE)

    def bits(self) -> Any:
        """The whole number whose 64 bits are those of the float."""
        word = struct.unpack("<q", struct.pack("<d", self.value))[0]
        return self.trace.unknown(f"bits({self.code})", word, -INFINITE, INFINITE)

    def __repr__(self) -> str:
        return f"Real({self.code} = {self.value})"


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_COMPUTE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b,
}  # fmt: skip


def _is_whole(x: object) -> bool:
    return isinstance(x, int | np.integer)


def is_size(x: object) -> bool:
    """Is it a number made of symbolic dimensions?"""
    return isinstance(x, Size | Real)


def at_hand(x: Any) -> Any:
    """The value for the shapes at hand of anything made of Sizes; other things as they are."""
    return x.value if isinstance(x, Size | Formula) else x


def plain(x: N) -> N:
    """The number for the shapes at hand, without a guard: for estimates and for words to people, nothing else."""
    number: N = at_hand(x)
    return number


def whole(x: Any) -> int:
    """A dimension that may be a Size, as an int otherwise."""
    return cast(int, x) if isinstance(x, Size) else int(x)


def maximum(a: N, b: N) -> N:
    """max(a, b) that asks no question of Sizes."""
    return _extreme("max", a, b) if is_size(a) or is_size(b) else max(a, b)


def minimum(a: N, b: N) -> N:
    """min(a, b) that asks no question of Sizes."""
    return _extreme("min", a, b) if is_size(a) or is_size(b) else min(a, b)


def _extreme(name: str, a: Any, b: Any) -> Any:
    trace: Recorder = (a if is_size(a) else b).trace
    better = max if name == "max" else min
    if isinstance(a, Real | float) or isinstance(b, Real | float):
        return Real(trace, f"{name}({code_of(a)}, {code_of(b)})", better(plain(a), plain(b)))
    low, high = trace.bounds(a - b)
    if low >= 0 or high <= 0:
        return a if (low >= 0) == (name == "max") else b
    bounds = [trace.bounds(x) for x in (a, b)]
    ends = better(bounds[0][0], bounds[1][0]), better(bounds[0][1], bounds[1][1])
    return trace.unknown(f"{name}({code_of(a)}, {code_of(b)})", better(plain(a), plain(b)), *ends)


def code_of(x: Any) -> str:
    """The Python expression of a number over a trace's unknowns."""
    if isinstance(x, Formula):
        return x.code
    if isinstance(x, Size):
        return shown(x.terms)
    if isinstance(x, tuple):
        return f"({''.join(code_of(item) + ',' for item in x)})"
    if isinstance(x, np.integer):
        return repr(int(x))
    if isinstance(x, float):
        return repr(float(x)) if math.isfinite(x) else f"float('{x}')"
    if x is None or isinstance(x, bool | int | float | str):
        return repr(x)
    raise TypeError(f"no formula for {type(x).__name__}")
