"""Numbers of a program that depend on sizes: guards that say whether it holds for some, and formulas.

Both are one function in Python that was generated when the model was compiled (`core.trace`), and instructions for
native code where all of it is arithmetic (`instructions`), so that numbers for a new size take microseconds. Functions
that Python calls are named, and looked up when they are first needed.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.errors import CenoteError
from cenote.core.formulas.checks import FormulaError, checks_formulas
from cenote.core.formulas.expressions import FUNCTIONS
from cenote.core.formulas.instructions import ASK, BY_PYTHON, DONE, Instructions
from cenote.core.types import Array
from cenote.runtime.memory import address_of

Dimensions = Sequence[int]
Native = Callable[[int, int, int, int, int, int], int]
"""`cenote_formulas` of the driver."""
# Exceptions of formulas for unusual sizes.
_NO_ANSWER = (CenoteError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Formulas:
    """Generated code and the objects it names: functions, as "module:name", operators and arrays.

    The code defines `numbers(d)`, which gives a list of whole numbers and one of arrays, or None for dimensions that a
    guard refuses, and `shown(d)`, the whole numbers of a description; `d` are the symbolic dimensions in order.
    """

    source: str
    code: bytes  # the same, compiled and marshalled,
    python: str  # by this version: others compile the source; "": nobody has, for there are instructions
    things: tuple[Any, ...]
    instructions: Instructions | None = None  # the same as `numbers`,
    left: str = ""  # but for some arrays, for which this text defines `arrays(d)`

    @staticmethod
    def compile(
        source: str, things: Sequence[Any], instructions: Instructions | None = None, left: str = ""
    ) -> Formulas:
        """Compile generated text with the functions, operators and arrays that it names K[0], K[1] … With instructions
        it is compiled when somebody asks for what they leave to Python."""
        names = tuple(
            f"{thing.__module__}:{thing.__qualname__}" if isinstance(thing, FunctionType) else thing
            for thing in things
        )
        if instructions is not None:
            return Formulas(source, b"", "", names, instructions, left)
        return Formulas(source, marshal.dumps(_compiled(source)), sys.version, names)

    @cached_property
    def _made(self) -> dict[str, Any]:
        scope = self._scope()
        exec(marshal.loads(self.code) if self.python == sys.version else _compiled(self.source), scope)
        return scope

    def _scope(self) -> dict[str, Any]:
        things = [_function(thing) if isinstance(thing, str) else thing for thing in self.things]
        return {**FUNCTIONS, "K": things}

    def values(self, dimensions: Dimensions, native: Native) -> tuple[Array, list[Array]] | None:
        """Return the numbers as words of 64 bits, and the arrays, by native code where it can; None where `numbers`
        gives None, or where a number is too large, which compiling for these sizes reports."""
        if self.instructions is None:
            return self._by_python(dimensions)
        ended, values, tables = carry_out(self.instructions, dimensions, native)
        if ended == ASK:
            return self._by_python(dimensions)
        found = None
        if ended == DONE and (arrays := self._joined(dimensions, tables)) is not None:
            found = values, arrays
        if checks_formulas():
            self._check(dimensions, found)
        return found

    def _joined(self, dimensions: Dimensions, tables: list[Array]) -> list[Array] | None:
        """Return tables and the arrays that Python makes, in order; None where it cannot."""
        if not self.left or self.instructions is None:
            return tables
        try:
            made = iter(self._arrays(dimensions))
        except _NO_ANSWER:
            return None
        native = iter(tables)
        return [next(made if length == BY_PYTHON else native) for length in self.instructions.tables]

    @cached_property
    def _arrays(self) -> Callable[[Dimensions], list[Array]]:
        scope = self._scope()
        exec(_compiled(self.left), scope)
        arrays: Callable[[Dimensions], list[Array]] = scope["arrays"]
        return arrays

    def _by_python(self, dimensions: Dimensions) -> tuple[Array, list[Array]] | None:
        found = self.numbers(dimensions)
        try:
            return None if found is None else (np.array(found[0], np.int64), found[1])
        except OverflowError:
            return None

    def _check(self, dimensions: Dimensions, found: tuple[Array, list[Array]] | None) -> None:
        """Raise FormulaError unless Python finds the same."""
        expected = self._by_python(dimensions)
        same = (found is None) == (expected is None)
        if found is not None and expected is not None:
            pairs = zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True)
            same = all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
        if not same:
            raise FormulaError(f"for sizes {list(dimensions)}, native code gives {found}, Python {expected}")

    def numbers(self, dimensions: Dimensions) -> tuple[list[int], list[Array]] | None:
        """Return all numbers and arrays for these dimensions; None where they do not hold, or one cannot be
        computed."""
        try:
            numbers: tuple[list[int], list[Array]] | None = self._made["numbers"](dimensions)
        except _NO_ANSWER:
            return None
        return numbers

    def shown(self, dimensions: Dimensions) -> list[int]:
        """Return the numbers of a description, for dimensions that fit."""
        return [int(number) for number in self._made["shown"](dimensions)]


def carry_out(
    instructions: Instructions, sizes: Sequence[int], native: Native
) -> tuple[int, Array, list[Array]]:
    """Return how it ended (`DONE`, `REFUSED`, `ASK`), and the numbers and tables, which count if it is done."""
    ends, slots = instructions.ends, instructions.start.copy()
    offsets, first = np.empty(ends[-1], np.int32), len(slots) - len(instructions.code)
    try:
        slots[: instructions.sizes] = sizes
    except OverflowError:
        return ASK, slots, []
    code = instructions.code
    ended = native(address_of(code), len(code), address_of(slots), first, address_of(offsets), ends[-1])
    return ended, slots[instructions.results], [offsets[begin:end] for begin, end in pairwise(ends)]


def _compiled(source: str) -> CodeType:
    return compile(source, "<formulas>", "exec")


def _function(name: str) -> Any:
    module, _, qualified = name.partition(":")
    target: Any = importlib.import_module(module)
    for part in qualified.split("."):
        target = getattr(target, part)
    return target
