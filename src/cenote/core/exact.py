"""Equality of records down to the kinds and signs of their numbers.

To Python 1, 1.0 and True are equal, and 0.0 and -0.0; but a kernel for one gives other bits than a kernel for the
other. Kernel specs and operators, which are keys of dictionaries, are `Exact`; other keys made of numbers go through
`exact_key`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from cenote.core.deferred import cached_property

_PLAIN = frozenset({bool, int, float, complex})


def exact_key(value: Any) -> Any:
    """Return a key that equals that of another value only where the two are the same: numbers of one type and with
    equal bits (NaN equals itself), tuples and records whose parts are the same. Other values are their own keys: the
    key has a hash where they have one.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return kind, repr(value)
    if kind is tuple:
        return tuple, *map(exact_key, value)
    if isinstance(value, np.generic):
        return kind, value.tobytes()
    names = _fields_of(kind)
    return value if names is None else (kind, *[exact_key(getattr(value, name)) for name in names])


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the fields that records of a class are compared by; None for other classes, and for those that equal
    only themselves or have no hash."""
    if not is_dataclass(kind) or kind.__eq__ is object.__eq__ or kind.__hash__ is None:
        return None
    return tuple(field.name for field in fields(kind) if field.compare)


class Exact:
    """Base of frozen dataclasses that equal each other only where their exact keys do. They inherit these two
    methods, for a dataclass does not generate methods that a class defines."""

    @cached_property
    def _exact(self) -> Any:
        """Exact key, computed once: a spec is looked up some five times while a model is loaded."""
        return exact_key(self)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and bool(self._exact == other._exact))

    def __hash__(self) -> int:
        return hash(self._exact)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in ("__eq__", "__hash__"):
            if name not in cls.__dict__:
                setattr(cls, name, Exact.__dict__[name])
