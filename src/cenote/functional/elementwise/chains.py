"""Functions of the user's that are made of elementwise functions: `fused`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cenote.functional.elementwise.arithmetic  # noqa: F401  # Python's operators are its functions
from cenote.core.errors import InputError, shown
from cenote.functional.arguments import Operation, Types
from cenote.functional.callers import Caller
from cenote.functional.dispatch import FAILURES, raise_named
from cenote.functional.elementwise.recorder import FormulaRecorder, Traced, operation_of
from cenote.functional.record import public


class Fused:
    """A function of arrays that runs as one kernel per signature, as `fused` makes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "fused").strip("<>")
        self._caller = Caller(self.parse)

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        try:
            return self._caller.now(arrays, (self.name,), out, threads)
        except FAILURES as error:
            raise_named(self.name, error)

    def parse(self, types: Types) -> Operation:
        """The function recorded for inputs of these types."""
        recorder = FormulaRecorder(types)
        result = self.function(*recorder.given())
        if not isinstance(result, Traced) or result.recorder is not recorder:
            raise InputError(f"a fused function returns one array made of its arguments, got {shown(result)}")
        return operation_of(recorder, result)


@public
def fused(function: Callable[..., Any]) -> Fused:
    """A function of elementwise functions as one pass over memory.

        squash = F.fused(lambda x, y: F.sigmoid(x * 2.0 + y) - 0.5)
        z = squash(x, y)                     # the same bits as the functions one by one, each rounded to its type

    `function` takes arrays and gives one; it is called once per combination of shapes and types, with arrays that
    record what is done to them. It may use operators, numbers, and the elementwise functions of this module; other
    arrays must be among its arguments. Operands broadcast. The result has arguments `out=` and `threads=`.

    Raises InputError for what cannot be recorded. More than 8 operands (numbers that differ count) or 32 operators run
    one by one in NumPy.
    """
    return Fused(function)
