"""Kinds of arguments: what the parameters of a function's record may be, and how they are read (`record.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from cenote.core.types import TensorType
from cenote.functional.arguments import TORCH, Form, Semantics, choice, flag, real, semantics_named, whole
from cenote.functional.types import DLPack, NanRule


@dataclass(frozen=True)
class Kind:
    """A kind of argument. `text`: the annotation that callers see, where it is not the one that is written.

    `key`: what the caller's value goes through before it becomes a part of the call's key: `as_tuple`, for sequences of
    any kind.
    """

    text: str = ""
    key: str = ""

    def read(self, where: str, name: str, value: object) -> object:
        """The checked value; None is not given to a kind whose annotation allows it. Raises ArgumentError."""
        return value


ANY = Kind()
"""An argument that is not looked at."""


class Flag(Kind):
    """True or False."""

    def read(self, where: str, name: str, value: object) -> bool:
        return flag(where, name, value)


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number within limits, both included."""

    low: int | None = None
    high: int | None = None

    def read(self, where: str, name: str, value: object) -> int:
        return whole(where, name, value, self.low, self.high)


class Wholes(Whole):
    """A whole number, or a list or tuple of them, within limits."""

    def read(self, where: str, name: str, value: object) -> tuple[int, ...]:  # type: ignore[override]  # several
        values = value if isinstance(value, list | tuple) else (value,)
        return tuple(whole(where, name, each, self.low, self.high) for each in values)


class Real(Kind):
    """A real number."""

    def read(self, where: str, name: str, value: object) -> float:
        return real(where, name, value)


@dataclass(frozen=True)
class Word(Kind):
    """One of some words."""

    allowed: Sequence[str] = ()

    def read(self, where: str, name: str, value: object) -> str:
        return choice(where, name, value, self.allowed)


class RulesKind(Kind):
    def read(self, where: str, name: str, value: object) -> Semantics:
        return semantics_named(where, value)


@dataclass(frozen=True)
class ArrayKind(Kind):
    """An array, of which the body sees the type."""


@dataclass(frozen=True)
class MapKind(ArrayKind):
    """An array of batch, channels and spatial axes, in a `layout`. `plain`: it may lack batch and channels without
    being asked to."""

    plain: bool = True


class ArraysKind(ArrayKind):
    """A list of arrays, of which the body sees the types."""


class Early(Kind):
    """An argument that only the record's `arrays` looks at; it is no part of a call's key, and the body gets None."""


class Hidden(Kind):
    """A fact of the call that the body is told; callers do not see it."""


class Way(NamedTuple):
    """The array for the result and the number of threads, as callers give them."""

    out: Any
    threads: int | None


Anything = Annotated[Any, Kind("Any")]
"""An argument that the body reads itself."""
Array = Annotated[TensorType, ArrayKind("A")]
"""An array of the caller's kind."""
Other = Annotated[TensorType, ArrayKind("DLPack")]
"""An array of any library."""
Count = Annotated[int, Whole("int", low=1)]
Map = Annotated[Form, MapKind("A")]
BatchedMap = Annotated[Form, MapKind("A", plain=False)]
Rules = Annotated[Semantics, RulesKind()]


@dataclass(frozen=True)
class RulesOfExtremes:
    """Keywords of pools of largest and smallest values."""

    semantics: Rules = TORCH
    nan: NanRule | None = None

    @property
    def of_nan(self) -> str:
        """The rule for NaN: by default that of the semantics."""
        return self.nan or self.semantics.nan


Name = Annotated[str, Hidden("name")]
"""The function's name, for errors."""
Rank = Annotated[int, Hidden("rank")]
"""The number of spatial axes."""
Ways = Annotated[Way, Hidden("way")]
Given = Annotated[DLPack, Kind("A")]
"""An array as the caller gave it, for composed functions."""
