"""Kinds of arguments: what the parameters of a function's record may be, and how they are read (`record.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from cenote.core.deferred import dataclass
from cenote.core.types import TensorType
from cenote.functional.arguments import TORCH, Form, Semantics, semantics_named, whole
from cenote.functional.types import DLPack, NanRule


@dataclass(frozen=True)
class Kind:
    """A kind of argument.

    text    the annotation that callers see, where it is not the one that is written
    reader  checks a value, given the argument's name, and returns what the body gets; raises ArgumentError. It gets
            no None where the annotation allows None. None: the value is not looked at
    key     makes a part of the call's key of the caller's value: `as_tuple`, for sequences
    """

    text: str = ""
    reader: Callable[[str, Any], Any] | None = None
    key: Callable[[Any], Any] | None = None


ANY = Kind()


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


Anything = Annotated[Any, Kind("Any")]
"""An argument that the body reads itself."""
Array = Annotated[TensorType, ArrayKind("A")]
"""An array of the caller's kind."""
Other = Annotated[TensorType, ArrayKind("DLPack")]
"""An array of any library."""
Count = Annotated[int, Kind("int", partial(whole, low=1))]
Map = Annotated[Form, MapKind("A")]
BatchedMap = Annotated[Form, MapKind("A", plain=False)]
Rules = Annotated[Semantics, Kind(reader=semantics_named)]


@dataclass(frozen=True)
class RulesOfExtremes:
    """Keywords of pools of largest and smallest values."""

    semantics: Rules = TORCH
    nan: NanRule | None = None

    @property
    def of_nan(self) -> str:
        """The rule for NaN: by default that of the semantics."""
        return self.nan or self.semantics.nan


Rank = Annotated[int, Hidden("rank")]
"""The number of spatial axes."""
Target = Annotated[Any, Hidden("out")]
"""The array for the result or None, for composed functions."""
Threads = Annotated[int | None, Hidden("threads")]
"""The number of threads or None, for composed functions."""
Given = Annotated[DLPack, Kind("A")]
"""An array as the caller gave it, for composed functions."""
