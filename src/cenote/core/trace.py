"""Record of the compilation of a model for sizes that are not known yet: see `sizes`."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.computed import ComputedArray, SizedArray
from cenote.core.formulas.checks import check_texts, checks_formulas
from cenote.core.formulas.expressions import Given, SizeFormula, Symbolic
from cenote.core.formulas.polynomials import Terms, plus, valued
from cenote.core.sizes import INFINITE, Size, SymbolicReal

LARGEST = 1 << 20  # largest value of a symbolic dimension; larger ones are compiled separately
_MOST_TERMS = 48  # most terms of a polynomial; a longer one becomes an unknown of its own
_MOST_TOLD = 64  # number of unknowns behind a guard from which on guards count as equally slow to evaluate
# Files that no question comes from; "<string>" is the comparison that a dataclass brings.
_WITHIN = ("core/sizes.py", "core/trace.py", "core/formulas/expressions.py", "<string>")
_UNKNOWN = re.compile(r"\bu(\d+)\b")


class Trace:
    """Record of the compilation of a model for sizes that are not known yet."""

    def __init__(self) -> None:
        self.formulas: list[Any] = []  # formulas of the unknowns u0, u1 …
        self.codes: list[str] = []  # texts of the formulas, which may name other unknowns
        self.values: list[Any] = []  # values of the unknowns for the shapes at hand
        self._bounds: list[tuple[int, int]] = []
        self._found: dict[Hashable, Any] = {}  # results of `once`
        self._known: dict[str, int] = {}
        self.guards: dict[str, SizeFormula] = {}  # questions by their texts; their values are the answers
        self.places: dict[str, str] = {}  # file and line that asked, by the question
        self.fixed: dict[str, str] = {}  # those of them where a size had to be this very number
        self.objects: list[Any] = []  # functions and arrays that formulas name: K[0], K[1] …
        self._place_of: dict[int, int] = {}
        self.dimensions = 0
        self.shows_formulas = False

    def dimension(self, value: int, least: int = 1) -> Any:
        """Return a new symbolic dimension."""
        self.dimensions += 1
        return self.unknown(Given(self, "d", self.dimensions - 1, value), least, LARGEST)

    def unknown(self, formula: SizeFormula | Given, low: int, high: int) -> Any:
        """Return a whole number that is not a polynomial of others."""
        count, index = len(self.codes), self.define(formula)
        if index < count and self._bounds[index] != (low, high):
            self._found.clear()
        self._bounds[index] = low, high
        return Size(self, (((index,), 1),), formula.value)

    def define(self, formula: SizeFormula | Given) -> int:
        """Return the number of a variable with this formula."""
        index = self._known.get(formula.code)
        if index is None:
            index = self._known[formula.code] = len(self.codes)
            self.formulas.append(formula)
            self.codes.append(formula.code)
            self.values.append(formula.value)
            self._bounds.append((-INFINITE, INFINITE))
        return index

    def name(self, formula: SizeFormula) -> None:
        """Make the formula a variable: its text is the variable's name from here on."""
        formula.code = f"u{self.define(formula)}"

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, made once for equal keys: of ten quotients, maxima and bounds of a network nine
        were asked for before. Results depend on bounds: where those of an unknown change, all are made anew."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = make()
        return found

    def object(self, thing: Any) -> str:
        """Return the name of a function or an array in formulas."""
        # The id stays unique: `objects` keeps the object.
        index = self._place_of.setdefault(id(thing), len(self.objects))
        if index == len(self.objects):
            self.objects.append(thing)
        return f"K[{index}]"

    def elements(self, whole: ComputedArray, kind: Any) -> Any:
        """Return an array whose elements are unknown numbers, from the formula of the array."""
        shape = whole.value.shape
        self.name(whole)
        self.guard(SizeFormula(self, "==", SizeFormula(self, "shape_of", whole), shape))
        sizes: list[Any] = []
        for index in range(whole.value.size):
            element = SymbolicReal(self, "element", whole, index)
            if not isinstance(element.value, float):
                element = self.unknown(SizeFormula(self, "int", element), -INFINITE, INFINITE)
            else:
                self.name(element)
            sizes.append(element)
        if not sizes:  # the guard holds the shape; without Sizes it is an array as any other
            return np.empty(shape, kind)
        array = np.empty(len(sizes), object)
        array[:] = sizes
        return SizedArray.of(array.reshape(shape), kind)

    def constant(self, value: int) -> Size:
        """Return a number that is no unknown."""
        return Size(self, (((), value),) if value else (), value)

    def polynomial(self, terms: Terms, value: int) -> Any:
        """Return a sum of products of unknowns; an int where none is left."""
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        if len(terms) > _MOST_TERMS:
            size = Size(self, terms, value)
            return self.unknown(SizeFormula(self, "int", size), *self.bounds(size))
        return Size(self, terms, value)

    def sum(self, a: Size, b: Size, sign: int) -> Any:
        return self.polynomial(plus(a.terms, b.terms, sign), a.value + sign * b.value)

    def quotient(self, size: Size, by: int) -> Any:
        """Return size // by; terms that `by` divides are divided exactly."""
        return size if by == 1 else self.once(("//", size.terms, by), lambda: self._divided(size, by))

    def _divided(self, size: Size, by: int) -> Any:
        even = tuple((m, c // by) for m, c in size.terms if c // by)
        rest = tuple((m, c % by) for m, c in size.terms if c % by)
        value = size.value // by
        if not any(m for m, _ in rest):  # a constant less than the divisor adds nothing
            return self.polynomial(even, value)
        inside = Size(self, rest, valued(rest, self.values))
        low, high = self.bounds(inside)
        if low >= 0 and high < by:
            return self.polynomial(even, value)
        part = self.unknown(SizeFormula(self, "//", inside, by), low // by, high // by)
        return part + self.polynomial(even, value - part.value)

    def bounds(self, size: Any) -> tuple[int, int]:
        """Return lower and upper bounds of the size."""
        if not isinstance(size, Size):
            return size, size
        low = high = 0
        for monomial, factor in size.terms:
            least = most = 1
            for unknown in monomial:
                begin, end = self._bounds[unknown]
                if begin < 0:
                    return (-INFINITE, INFINITE) if len(monomial) > 1 else self._signed(size)
                least, most = least * begin, most * end
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        return max(low, -INFINITE), min(high, INFINITE)

    def tight_bounds(self, size: Size) -> tuple[int, int]:
        """Return bounds that know of quotients: a // n lies between (a - n + 1) / n and a / n, so that 2 * (h // 2) - h
        is -1 or 0. Costs several times as much as `bounds`."""
        tight: tuple[int, int] = self.once(("bounds", size.terms), lambda: self._tightened(size))
        return tight

    def _tightened(self, size: Size) -> tuple[int, int]:
        low, high = self.bounds(size)
        # scale * size is the terms plus a number from least to most.
        terms, scale, least, most = size.terms, 1, 0, 0
        passed: set[int] = set()
        while (found := self._last_quotient(terms, passed)) is not None:
            unknown, factor = found
            passed.add(unknown)
            inside, by = self.formulas[unknown].operands
            by_now = by // math.gcd(factor, by)
            times_rest = factor * by_now // by  # of the rest that the division leaves, 0 to by - 1
            terms = tuple((m, c * by_now) for m, c in terms if m != (unknown,))
            terms = plus(terms, tuple((m, c * times_rest) for m, c in inside.terms), 1)
            ends = (0, -times_rest * (by - 1))
            scale, least, most = scale * by_now, least * by_now + min(ends), most * by_now + max(ends)
            begin, end = self.bounds(Size(self, terms, 0))
            low, high = max(low, -(-(begin + least) // scale)), min(high, (end + most) // scale)
        return low, high

    def _last_quotient(self, terms: Terms, passed: Collection[int]) -> tuple[int, int] | None:
        """Return the last made unknown, with its factor, that is a quotient by a number and stands by itself."""
        for monomial, factor in sorted(terms, reverse=True):
            if len(monomial) == 1 and monomial[0] not in passed:
                formula = self.formulas[monomial[0]]
                if isinstance(formula, SizeFormula) and formula.function == "//":
                    inside, by = formula.operands
                    if isinstance(inside, Size) and isinstance(by, int) and by > 0:
                        return monomial[0], factor
        return None

    def _signed(self, size: Size) -> tuple[int, int]:
        """Return bounds of a sum of unknowns that may be negative."""
        low = high = 0
        for monomial, factor in size.terms:
            if len(monomial) > 1:
                return -INFINITE, INFINITE
            begin, end = self._bounds[monomial[0]] if monomial else (1, 1)
            ends = (factor * begin, factor * end)
            low, high = low + min(ends), high + max(ends)
        return max(low, -INFINITE), min(high, INFINITE)

    def guard(self, question: SizeFormula, fixed: bool = False) -> None:
        """Restrict the result to sizes for which this question has the answer that it has for the shapes at hand."""
        if question.code not in self.guards:
            self.guards[question.code] = question
            place = self.places.setdefault(question.code, _caller())
            if fixed:
                self.fixed[question.code] = place

    @contextlib.contextmanager
    def showing_formulas(self) -> Iterator[None]:
        """Let `str` of a Size give its formula in double braces within this context."""
        self.shows_formulas = True
        try:
            yield
        finally:
            self.shows_formulas = False

    @contextlib.contextmanager
    def apart(self) -> Iterator[dict[str, SizeFormula]]:
        """Keep the questions of this context apart: they restrict nothing unless they are given to `adopt`."""
        outside, self.guards = self.guards, {}
        try:
            yield self.guards
        finally:
            self.guards = outside

    def adopt(self, guards: Mapping[str, SizeFormula]) -> None:
        """Add questions that were kept apart."""
        for text, question in guards.items():
            self.guards.setdefault(text, question)

    def fix(self, size: Size) -> int:
        """Restrict the result to the present value of a size."""
        value: int = size.value
        self.guard(SizeFormula(self, "==", size, value), fixed=True)
        return value

    def source(
        self, numbers: Sequence[Symbolic], arrays: Sequence[Symbolic] = (), shown: Sequence[Symbolic] = ()
    ) -> str:
        """Return Python that defines `numbers(d)`: None unless the guards answer as they did, else the values of
        these formulas, numbers and arrays; and `shown(d)`: numbers that only descriptions show."""
        least = [f"1 <= d[{index}] <= {LARGEST}" for index in range(self.dimensions)]
        lines = ["def numbers(d):", f"    if not ({' and '.join(least) or 'True'}): return None"]
        for step in self.ordered([*numbers, *arrays]):
            if isinstance(step, int):
                lines.append(f"    u{step} = {self.codes[step]}")
            else:
                lines.append(f"    if {'not ' if step.value else ''}{step.code}: return None")
        if checks_formulas():
            wanted = [*numbers, *arrays, *shown]
            check_texts(self, wanted, sorted(self._needed([*self.guards, *(each.code for each in wanted)])))
        codes, tables, descriptions = ([each.code for each in given] for given in (numbers, arrays, shown))
        lines += [f"    return [{', '.join(codes)}], [{', '.join(tables)}]", "def shown(d):"]
        lines += [f"    u{index} = {self.codes[index]}" for index in sorted(self._needed(descriptions))]
        return "\n".join((*lines, f"    return [{', '.join(descriptions)}]", ""))

    def source_of(self, arrays: Sequence[Symbolic]) -> str:
        """Return Python that defines `arrays(d)`: the values of these formulas, for sizes that the guards accept."""
        codes = [each.code for each in arrays]
        lines = [f"    u{index} = {self.codes[index]}" for index in sorted(self._needed(codes))]
        return "\n".join(("def arrays(d):", *lines, f"    return [{', '.join(codes)}]", ""))

    def ordered(self, wanted: Sequence[Symbolic]) -> Iterator[int | SizeFormula]:
        """Yield the numbers of unknowns, each after those that it needs, and the questions, quick ones first, each
        after the unknowns that it needs; then the unknowns that the formulas `wanted` need."""
        assigned: set[int] = set()

        def added(codes: Sequence[str]) -> list[int]:
            unknowns = self._needed(codes, assigned)
            assigned.update(unknowns)
            return sorted(unknowns)

        needs = {text: len(self._needed([text], most=_MOST_TOLD)) for text in self.guards}
        for text in sorted(needs, key=needs.__getitem__):
            yield from added([text])
            yield self.guards[text]
        yield from added([each.code for each in wanted])

    def _needed(self, codes: Sequence[str], made: Collection[int] = (), most: int | None = None) -> set[int]:
        """Return the unknowns that formulas need, directly or not, except those in `made`; at most about `most`."""
        needed: set[int] = set()
        waiting = list(codes)
        while waiting and (most is None or len(needed) < most):
            for name in _UNKNOWN.findall(waiting.pop()):
                if (index := int(name)) not in needed and index not in made:
                    needed.add(index)
                    waiting.append(self.codes[index])
        return needed


def _caller() -> str:
    """Return the file and line outside this module that caused a question."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_WITHIN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('cenote/')[2]}:{frame.f_lineno} {frame.f_code.co_name}"
