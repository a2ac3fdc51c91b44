"""Sizes that a caller of `load` declares: fixed ones, and the largest that symbolic dimensions will have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cenote.core.errors import ArgumentError, shown
from cenote.core.types import Declared, Dimension

Bounds = dict[tuple[str, int], int]
"""Largest extents, by input and axis."""

_ENTRY = re.compile(r"\s*([^<>=,]*?)\s*(?:<=\s*([1-9]\d*)\s*)?")
_FORMS = 'a size, a name, "name<=640" or None'


def narrowed(inputs: Sequence[Declared], shapes: Mapping[str, Any]) -> tuple[tuple[Declared, ...], Bounds]:
    """Return the inputs with the sizes that `shapes` fixes (by name, an entry per axis), and the bounds that it
    gives; a bound of a name that the model declares holds for all dimensions of that name.

    Raises ArgumentError, naming the entry, for something that is not a shape, for another rank or size than the model
    declares, and for bounds of one dimension that differ.
    """
    names = [declared.name for declared in inputs]
    for name in shapes:
        if name not in names:
            raise ArgumentError(
                f"shapes: {shown(name)} is no input of the model ({', '.join(names) or 'none'})"
            )
    bounds: Bounds = {}
    declarations = [_narrowed(declared, shapes.get(declared.name), bounds) for declared in inputs]
    named: dict[str, int] = {}
    for (name, axis), most in bounds.items():
        dimension = _dimension(declarations, name, axis)
        if isinstance(dimension, str) and named.setdefault(dimension, most) != most:
            raise ArgumentError(
                f"shapes: '{dimension}' of '{name}' is at most {most}, and at most {named[dimension]} elsewhere"
            )
    for declared in declarations:
        for axis, dimension in enumerate(declared.shape or ()):
            if isinstance(dimension, str) and dimension in named:
                bounds[declared.name, axis] = named[dimension]
    return tuple(declarations), bounds


def _dimension(inputs: Sequence[Declared], name: str, axis: int) -> Dimension:
    shape = next(declared.shape for declared in inputs if declared.name == name)
    return None if shape is None else shape[axis]


def _narrowed(declared: Declared, entries: Any, bounds: Bounds) -> Declared:
    """Return an input with the dimensions of its entries; its bounds are added to `bounds`."""
    if entries is None:
        return declared
    where = f"shapes: input '{declared.name}'"
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise ArgumentError(f"{where}: {shown(entries)} is no shape like ('n', 3, 'h<=640', 'w<=640')")
    shape = declared.shape if declared.shape is not None else (None,) * len(entries)
    if len(shape) != len(entries):
        raise ArgumentError(
            f"{where}: {shown(tuple(entries))} has {len(entries)} axes, the model takes {declared}"
        )
    dimensions: list[Dimension] = []
    for axis, (own, entry) in enumerate(zip(shape, entries, strict=True)):
        said, most = _read(entry, f"{where}, axis {axis}")
        if isinstance(own, int):
            if (isinstance(said, int) and said != own) or (most is not None and own > most):
                raise ArgumentError(
                    f"{where}, axis {axis}: {shown(entry)}, but the model's size there is {own}"
                )
            dimensions.append(own)
            continue
        if most is not None:
            bounds[declared.name, axis] = most
        dimensions.append(said if own is None or isinstance(said, int) else own)
    return Declared(declared.name, declared.dtype, tuple(dimensions))


def _read(entry: Any, where: str) -> tuple[Dimension, int | None]:
    """Return the dimension of an entry, and its bound."""
    if entry is None:
        return None, None
    if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
        return entry, None
    match = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
    if match is None or not entry.strip() or match[1].isdecimal():
        raise ArgumentError(f"{where}: {shown(entry)} is no dimension ({_FORMS})")
    return (match[1] if match[1] != "?" else "") or None, int(match[2]) if match[2] else None
