"""Sizes that are not known yet: whole numbers that remember how they follow from a model's symbolic dimensions.

A model is compiled once with a `Size` for each symbolic dimension. A Size behaves like the int of the shapes at hand,
its `value`: sums, differences and products are polynomials, so that equal formulas are equal; quotients and maxima
become unknowns. A question that needs an answer now (a comparison, a length, an index) is answered for the shapes at
hand, and the `Trace` records a guard. The compiled result holds for all sizes that the guards accept.

Code that takes a Size for an int without asking (NumPy, `range`, `int()`) calls `__index__`, which guards that the
size is this very number. So code that knows nothing of Sizes is never wrong, it only narrows the range of the result;
`Trace.fixed` counts the places. For the same reason a Size has no hash: sets and dictionaries would compare without a
guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from cenote.core.formulas.expressions import OPERATORS, OpenSizeError, SizeFormula, Symbolic, at_hand
from cenote.core.formulas.polynomials import Terms, exact, plus, shown, times

N = TypeVar("N", int, float)

INFINITE = 1 << 200
_LONGEST = 400  # characters of a formula, beyond which it becomes an unknown of its own


class SizeRecorder(Protocol):
    """Protocol of the trace of Sizes (`trace.Trace`)."""

    shows_formulas: bool

    def bounds(self, size: Any) -> tuple[int, int]: ...
    def constant(self, value: int) -> Any: ...
    def fix(self, size: Any) -> int: ...
    def guard(self, question: SizeFormula, fixed: bool = False) -> None: ...
    def name(self, formula: SizeFormula) -> None: ...
    def object(self, thing: Any) -> str: ...
    def once(self, key: Hashable, make: Callable[[], Any]) -> Any: ...
    def polynomial(self, terms: Terms, value: int) -> Any: ...
    def quotient(self, size: Any, by: int) -> Any: ...
    def sum(self, a: Any, b: Any, sign: int) -> Any: ...
    def tight_bounds(self, size: Size) -> tuple[int, int]: ...
    def unknown(self, formula: SizeFormula, low: int, high: int) -> Any: ...


class Size(Symbolic):
    """Whole number made of symbolic dimensions. `value` is its value for the shapes at hand."""

    __slots__ = ("terms", "trace", "value")
    __array_priority__ = -1.0  # between NumPy's numbers, which leave operations to a Size, and its arrays

    def __init__(self, trace: SizeRecorder, terms: Terms, value: int) -> None:
        self.trace, self.terms, self.value = trace, terms, value

    @property
    def code(self) -> str:
        """Python expression of the size."""
        return shown(self.terms)

    def _real(self, operation: str, other: Any, turned: bool = False) -> Any:
        """Return the result of an operation that gives a float."""
        if not is_number(other):
            return NotImplemented
        return SymbolicReal(self.trace, operation, *((other, self) if turned else (self, other)))

    # ---- polynomials ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return self.trace.sum(self, other, 1)
        if _is_whole(other):
            if not other:
                return self
            return self.trace.polynomial(plus(self.terms, (((), int(other)),), 1), self.value + int(other))
        return self._real("+", other)

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
        return self._real("-", other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other if _is_whole(other) else self._real("-", other, turned=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Size):
            return self.trace.polynomial(times(self.terms, other.terms), self.value * other.value)
        if _is_whole(other):
            factor = int(other)
            if factor == 1:  # common in products: math.prod begins with 1
                return self
            terms = tuple((m, c * factor) for m, c in self.terms) if factor else ()
            return self.trace.polynomial(terms, self.value * factor)
        return self._real("*", other)

    __rmul__ = __mul__

    def __pow__(self, exponent: Any) -> Any:
        if not _is_whole(exponent) or exponent < 0:
            return self._real("**", exponent)
        return math.prod([self] * int(exponent), start=self.trace.constant(1))

    # ---- quotients ------------------------------------------------------------------------------------------------

    def __floordiv__(self, other: Any) -> Any:
        if not _is_whole(other) and not isinstance(other, Size):
            return self._real("//", other)
        if not isinstance(other, Size) and int(other) > 0:
            return self.trace.quotient(self, int(other))
        # Tight ones, so that what is divided by the quotient need not be asked for.
        low, high = self.trace.tight_bounds(self)
        low, high = min(low, 0), max(high, -1)
        if self.trace.bounds(other)[0] < 1:
            if other == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            low, high = -INFINITE, INFINITE
        if isinstance(other, Size) and (parts := exact(self.terms, other.terms)) is not None:
            return self.trace.polynomial(parts, self.value // other.value)
        return self.trace.unknown(SizeFormula(self.trace, "//", self, other), low, high)

    def __rfloordiv__(self, other: Any) -> Any:
        if not _is_whole(other):
            return self._real("//", other, turned=True)
        return self.trace.constant(int(other)) // self

    def __mod__(self, other: Any) -> Any:
        if not _is_whole(other) and not isinstance(other, Size):
            return self._real("%", other)
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        if not _is_whole(other):
            return self._real("%", other, turned=True)
        return int(other) - (other // self) * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._real("/", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._real("/", other, turned=True)

    def __lshift__(self, bits: int) -> Any:
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> Any:
        return self // (1 << bits)

    # ---- questions ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._ask(other, "==", lambda low, high: False if low > 0 or high < 0 else None)

    def __lt__(self, other: Any) -> bool:
        return self._ask(other, "<", lambda low, high: True if high < 0 else False if low >= 0 else None)

    def __le__(self, other: Any) -> bool:
        return self._ask(other, "<=", lambda low, high: True if high <= 0 else False if low > 0 else None)

    def __gt__(self, other: Any) -> bool:
        return self._ask(other, ">", lambda low, high: True if low > 0 else False if high <= 0 else None)

    def __ge__(self, other: Any) -> bool:
        return self._ask(other, ">=", lambda low, high: True if low >= 0 else False if high < 0 else None)

    def __bool__(self) -> bool:
        return self != 0

    def _ask(self, other: Any, question: str, decide: Callable[[int, int], bool | None]) -> bool:
        """Return whether self - other is less than, equal to or greater than 0."""
        if not is_number(other):
            return cast(bool, NotImplemented)
        if not isinstance(other, Size) and not _is_whole(other):
            return _asked(SizeFormula(self.trace, question, self, other))
        difference = self - other
        if not isinstance(difference, Size):
            return bool(OPERATORS[question](difference, 0))
        known = decide(*self.trace.bounds(difference))
        if known is None:
            known = decide(*self.trace.tight_bounds(difference))
        answer = bool(OPERATORS[question](difference.value, 0))
        if known is not None:
            assert known == answer, (known, answer, self.trace.bounds(difference), difference)
            return known
        return _asked(SizeFormula(self.trace, question, difference, 0))

    def __index__(self) -> int:
        number: int = self.trace.fix(self)
        return number

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.trace.fix(self))

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: int = 0) -> Any:
        if digits < 0:
            raise OpenSizeError("a Size is not rounded to tens")
        return self

    def __str__(self) -> str:
        return f"{{{{{self.code}}}}}" if self.trace.shows_formulas else str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __repr__(self) -> str:
        return f"Size({self.code} = {self.value})"

    def __reduce__(self) -> Any:
        raise OpenSizeError("a Size belongs to the trace that made it")


class SymbolicReal(SizeFormula):
    """Float made of Sizes; its formula is evaluated for other sizes as it was for these, with the same rounding."""

    __slots__ = ()
    __array_priority__ = -1.0  # as of Size

    def __init__(self, trace: SizeRecorder, function: str | Callable[..., Any], *operands: Any) -> None:
        super().__init__(trace, function, *operands)
        if len(self.code) > _LONGEST:
            trace.name(self)

    def _with(self, other: Any, operation: str, turned: bool = False) -> Any:
        if not is_number(other):
            return NotImplemented
        return SymbolicReal(self.trace, operation, *((other, self) if turned else (self, other)))

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

    def __neg__(self) -> SymbolicReal:
        return SymbolicReal(self.trace, "neg", self)

    def _ask(self, other: Any, question: str) -> bool:
        if not is_number(other):
            return cast(bool, NotImplemented)
        return _asked(SizeFormula(self.trace, question, self, other))

    def __eq__(self, other: object) -> bool:
        return self._ask(other, "==")

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
        word = SizeFormula(self.trace, "bits", self)  # distinguishes zeros of both signs and NaNs too
        self.trace.guard(SizeFormula(self.trace, "==", word, word.value), fixed=True)
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def _whole(self, function: str) -> Any:
        return self.trace.unknown(SizeFormula(self.trace, function, self), -INFINITE, INFINITE)

    def __floor__(self) -> Any:
        return self._whole("floor")

    def __ceil__(self) -> Any:
        return self._whole("ceil")

    def __trunc__(self) -> Any:
        return self._whole("trunc")

    def bits(self) -> Any:
        """Return the whole number whose 64 bits are those of the float."""
        return self._whole("bits")

    def __repr__(self) -> str:
        return f"SymbolicReal({self.code} = {self.value})"


def _asked(question: SizeFormula) -> bool:
    """Return the answer; the compiled result depends on it from here on."""
    question.trace.guard(question)
    return bool(question.value)


_WHOLE = int, np.integer
_SIZES = Size, SymbolicReal  # a union would be created anew for each of the hundreds of questions of a node


def _is_whole(x: object) -> bool:
    return isinstance(x, _WHOLE)


def is_size(x: object) -> bool:
    """Whether x is a number made of symbolic dimensions."""
    return isinstance(x, _SIZES)


def is_number(x: object) -> bool:
    """Whether x is a number, made of symbolic dimensions or not."""
    return isinstance(x, Size | SymbolicReal | int | float | np.integer | np.floating)


def plain(x: N) -> N:
    """Return the number for the shapes at hand, without a guard: for estimates and for texts only."""
    if type(x) is int or type(x) is float:
        return x
    number: N = at_hand(x)
    return number


def whole(x: Any) -> int:
    """Return a dimension that may be a Size, as an int otherwise."""
    return cast(int, x) if isinstance(x, Size) else int(x)


def maximum(a: N, b: N) -> N:
    """Return max(a, b) without a question to Sizes."""
    return _extreme("max", a, b) if is_size(a) or is_size(b) else max(a, b)


def minimum(a: N, b: N) -> N:
    """Return min(a, b) without a question to Sizes."""
    return _extreme("min", a, b) if is_size(a) or is_size(b) else min(a, b)


def _extreme(name: str, a: Any, b: Any) -> Any:
    trace: SizeRecorder = (a if is_size(a) else b).trace
    if not all(isinstance(x, Size) or _is_whole(x) for x in (a, b)):
        return SymbolicReal(trace, name, a, b)
    key = (name, *(x.terms if isinstance(x, Size) else int(x) for x in (a, b)))
    return trace.once(key, lambda: _extreme_size(trace, name, a, b))


def _extreme_size(trace: SizeRecorder, name: str, a: int, b: int) -> Any:
    low, high = trace.bounds(a - b)
    if low >= 0 or high <= 0:
        return a if (low >= 0) == (name == "max") else b
    better = max if name == "max" else min
    bounds = [trace.bounds(x) for x in (a, b)]
    ends = better(bounds[0][0], bounds[1][0]), better(bounds[0][1], bounds[1][1])
    return trace.unknown(SizeFormula(trace, name, a, b), *ends)
