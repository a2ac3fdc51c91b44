"""Checks of options: each takes the name of an option and what was given, and gives the value to keep.

All raise ArgumentError, which names the option.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, shown
from cenote.core.machine.topology import BoundThreads
from cenote.core.options import BOUND


@dataclass(frozen=True)
class WholeNumber:
    """Checks that a value is a whole number within a range."""

    least: int
    most: int

    def __call__(self, name: str, given: Any) -> int:
        try:
            number = operator.index(given)
        except TypeError:  # arrays of several numbers have the method too
            number = None
        if number is None or isinstance(given, bool) or not self.least <= number <= self.most:
            raise ArgumentError(
                f"{name}: {shown(given)} is not a whole number from {self.least} to {self.most}"
            )
        return number


@dataclass(frozen=True)
class ThreadCount(WholeNumber):
    """Checks that a value is a number of threads, or "bound"."""

    def __call__(self, name: str, given: Any) -> Any:
        if isinstance(given, BoundThreads) or (isinstance(given, str) and given == BOUND):
            return given
        try:
            return super().__call__(name, given)
        except ArgumentError as error:
            raise ArgumentError(f"{error}, nor '{BOUND}'") from None


@dataclass(frozen=True)
class OneOf:
    """Checks that a value is one of some words."""

    words: tuple[str, ...]

    def __call__(self, name: str, given: Any) -> str:
        if not isinstance(given, str) or given not in self.words:
            raise ArgumentError(f"{name}: {shown(given)} is not known ({', '.join(self.words)})")
        return given


@dataclass(frozen=True)
class SomeOf:
    """Checks that all of a list are known words."""

    words: tuple[str, ...]

    def __call__(self, name: str, given: Any) -> tuple[str, ...]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ArgumentError(f"{name}: takes a list of words, not {shown(given)}")
        words = tuple(given)
        if unknown := [word for word in words if word not in self.words]:
            raise ArgumentError(f"{name}: {shown(unknown)} are not known ({', '.join(self.words)})")
        return words


def text(name: str, given: Any) -> str:
    """Return a text."""
    if not isinstance(given, str):
        raise ArgumentError(f"{name}: {shown(given)} is no text")
    return given


def names(name: str, given: Any) -> tuple[str, ...]:
    """Return names, each given once, as a tuple."""
    listed = () if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not listed or not all(isinstance(each, str) and each for each in listed):
        raise ArgumentError(f"{name}: takes a list of names, not {shown(given)}")
    if len(set(listed)) != len(listed):
        raise ArgumentError(f"{name}: names a value twice: {', '.join(listed)}")
    return listed


def shapes_by_name(name: str, given: Any) -> dict[str, Any]:
    """Return a copy of a dict; `runtime.bounds` looks at its entries, for which it must know the model."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{name}: {shown(given)} is no dict of shapes by input name")
    return dict(given)


def words_by_name(name: str, given: Any) -> dict[str, str]:
    """Return a dict of texts, in the order of its keys."""
    if not isinstance(given, Mapping) or not all(isinstance(x, str) for x in (*given, *given.values())):
        raise ArgumentError(f"{name}: {shown(given)} is no dict of names")
    return dict(sorted(given.items()))
