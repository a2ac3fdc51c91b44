"""Numbers of a program that depend on sizes: guards that say whether it holds for some, and formulas.

Both are one function in Python that was generated when the model was compiled (`core.trace`), so that numbers for a
new size take microseconds. Functions that it calls are named, and looked up when they are first needed.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from cenote.core.cached import cached_property
from cenote.core.errors import CenoteError
from cenote.core.formulas.expressions import FUNCTIONS
from cenote.core.types import Array

Dimensions = Sequence[int]
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
    python: str  # by this version: others compile the source
    things: tuple[Any, ...]

    @staticmethod
    def compile(source: str, things: Sequence[Any]) -> Formulas:
        """Compile generated text with the functions, operators and arrays that it names K[0], K[1] …"""
        names = tuple(
            f"{thing.__module__}:{thing.__qualname__}" if isinstance(thing, FunctionType) else thing
            for thing in things
        )
        return Formulas(source, marshal.dumps(_compiled(source)), sys.version, names)

    @cached_property
    def _made(self) -> dict[str, Any]:
        things = [_function(thing) if isinstance(thing, str) else thing for thing in self.things]
        scope = {**FUNCTIONS, "K": things}
        exec(marshal.loads(self.code) if self.python == sys.version else _compiled(self.source), scope)
        return scope

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


def _compiled(source: str) -> CodeType:
    return compile(source, "<formulas>", "exec")


def _function(name: str) -> Any:
    module, _, qualified = name.partition(":")
    target: Any = importlib.import_module(module)
    for part in qualified.split("."):
        target = getattr(target, part)
    return target
