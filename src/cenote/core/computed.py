"""Arrays and numbers that functions compute from Sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from cenote.core.formulas.expressions import SizeFormula, Symbolic
from cenote.core.sizes import SizeRecorder, SymbolicReal, is_size

T = TypeVar("T")


class SizedArray(np.ndarray):
    """Small array with Sizes among its elements: shapes are computed with it. It holds objects; `kind` is the dtype
    that it stands for."""

    kind: np.dtype[Any]

    @staticmethod
    def of(elements: Any, kind: np.dtype[Any]) -> SizedArray:
        """Make an array of an array, or nested sequences, of objects."""
        array = np.asarray(elements, object).view(SizedArray)
        array.kind = kind
        return array

    def __array_finalize__(self, other: object) -> None:
        self.kind = getattr(other, "kind", np.dtype(np.int64))

    @property
    def owner(self) -> Any:
        """Trace of its Sizes."""
        return next(item.trace for item in self.reshape(-1) if is_size(item))

    def table(self) -> ComputedArray:
        """The array in its dtype, as a formula."""
        return ComputedArray(self.owner, "array_of", tuple(self.reshape(-1)), self.kind.name, self.shape)

    def at_hand(self) -> np.ndarray[Any, Any]:
        """Array for the shapes at hand."""
        return np.asarray(self.table().value)


def has_sizes(value: object) -> bool:
    """Whether a value is an array with Sizes among its elements."""
    return isinstance(value, np.ndarray) and value.dtype == object and any(map(is_size, value.reshape(-1)))


class ComputedArray(SizeFormula):
    """Array that a function computes from Sizes."""

    __slots__ = ()


def computed(make: Callable[..., T], *arguments: Any) -> T:
    """Call a function of numbers: now, or, where Sizes are among them, anew for every set of sizes.

    `make` is a function of a module, which takes numbers, texts and tuples of them, and does its own comparisons.
    """
    trace = _trace_of(arguments)
    if trace is None:
        return make(*arguments)
    return cast(T, ComputedArray(trace, make, *arguments))


def number_of(make: Callable[..., float], *arguments: Any) -> float:
    """Call a function of numbers that returns a number, as `computed` does."""
    trace = _trace_of(arguments)
    if trace is None:
        return make(*arguments)
    return cast(float, SymbolicReal(trace, make, *arguments))


def whole_of(make: Callable[..., int], low: int, high: int, *arguments: Any) -> int:
    """Call a function of numbers that returns a whole number from `low` to `high`, as `computed` does."""
    trace = _trace_of(arguments)
    if trace is None:
        return make(*arguments)
    return cast(int, trace.unknown(SizeFormula(trace, make, *arguments), low, high))


def known(ask: Callable[..., int], *arguments: Any, general: int | None = None) -> int:
    """Return the answer, a whole number, of a function of numbers. Where Sizes are among them, the compiled result is
    restricted to the sizes that give the same answer; the answer `general` restricts nothing."""
    trace = _trace_of(arguments)
    if trace is None:
        return ask(*arguments)
    asked = SizeFormula(trace, ask, *arguments)
    answer: int = asked.value
    if answer != general:
        trace.guard(SizeFormula(trace, "==", asked, answer))
    return answer


def _trace_of(x: Any) -> SizeRecorder | None:
    if isinstance(x, Symbolic):
        return cast(SizeRecorder, x.trace)
    return next((found for item in x if (found := _trace_of(item))), None) if isinstance(x, tuple) else None
