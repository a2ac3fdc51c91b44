"""Inputs of a model, by name and in order, and checks that names, items and shapes fit them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cenote.core.errors import InputError, ShapeError, shown
from cenote.core.limits import LARGEST
from cenote.core.types import Array, Declared, TensorType
from cenote.runtime.arrays import same
from cenote.runtime.batches import Entry
from cenote.runtime.bounds import Bounds
from cenote.runtime.inputs import foreign

Shapes = tuple[tuple[int, ...], ...]
Pattern = Shapes
"""Shapes in which -1 - i stands for the symbolic dimension i."""


class Signature:
    """Declared inputs of a model, and the largest sizes that its dimensions will have, as far as they were declared."""

    def __init__(self, inputs: Sequence[Declared], bounds: Bounds | None = None) -> None:
        self.inputs, self.bounds = tuple(inputs), bounds or {}
        self.by_name = {declared.name: declared for declared in inputs}

    def __str__(self) -> str:
        return ", ".join(map(str, self.inputs)) or "none"

    def check_names(self, entries: Mapping[str, Any], missing: str = "input '{}' is missing") -> None:
        """Raise InputError unless there is one entry for each input, by name."""
        if entries.keys() == self.by_name.keys():
            return
        for name in entries:
            if name not in self.by_name:
                shown_name = name if isinstance(name, str) else shown(name)
                raise InputError(f"'{shown_name}' is no input of the model; its inputs: {self}")
        absent = next(name for name in self.by_name if name not in entries)
        raise InputError(f"{missing.format(absent)}; the model's inputs: {self}")

    def named(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs given in order and by name, by name."""
        if len(arrays) > len(self.inputs):
            raise InputError(f"{len(arrays)} inputs given, the model has {len(self.inputs)}: {self}")
        inputs_by_name = {declared.name: array for declared, array in zip(self.inputs, arrays, strict=False)}
        for name, array in named.items():
            if name in inputs_by_name:
                raise InputError(f"input '{name}' is given twice")
            inputs_by_name[name] = array
        return inputs_by_name

    def entry(self, item: Any) -> Entry:
        """Return an item of a stream as an Entry: one input, several in order, or a dict."""
        if isinstance(item, Mapping):
            entries = dict(item)
        else:
            values = item if isinstance(item, tuple | list) else (item,)
            if len(values) != len(self.inputs):
                raise InputError(
                    f"an item holds {len(values)} inputs, the model has {len(self.inputs)}: {self}"
                )
            entries = self.named(values, {})
        self.check_names(entries)
        restore: Callable[[Array], Any] = same
        for name, array in entries.items():
            if type(array) is not np.ndarray:
                entries[name], back = foreign(array, self.by_name[name])
                restore = restore if back is same else back
        single = [
            declared.shape is not None and entries[declared.name].ndim == len(declared.shape) - 1
            for declared in self.inputs
        ]
        return Entry(entries, bool(single) and all(single), restore)

    def shapes(self, by_name: Mapping[str, Sequence[int]]) -> Shapes:
        """Return shapes by name as shapes in order. Raises InputError for wrong names and for something that is no
        shape."""
        self.check_names(by_name, "a shape is missing for input '{}'")
        return tuple(_extents(name, by_name[name]) for name in self.by_name)

    def types(self, shapes: Shapes) -> dict[str, TensorType]:
        """Return the inputs' types with these shapes. Raises InputError for a shape that the model does not take,
        ShapeError for one that is larger than declared."""
        types = {}
        for declared, shape in zip(self.inputs, shapes, strict=True):
            fits = declared.shape is None or (
                len(declared.shape) == len(shape)
                and all(
                    not isinstance(wanted, int) or wanted == extent
                    for wanted, extent in zip(declared.shape, shape, strict=True)
                )
            )
            if not fits:
                raise InputError(
                    f"input '{declared.name}' has shape {shown(list(shape))}, the model takes {declared}"
                )
            types[declared.name] = TensorType.of(declared.dtype, shape)
            for axis, extent in enumerate(shape):
                most = self.bounds.get((declared.name, axis), extent)
                if extent > most:
                    raise ShapeError(
                        f"input '{declared.name}': axis {axis} is {extent}, and at most {most} was said when the "
                        "model was loaded; load it with a larger bound"
                    )
        return types

    def largest(self) -> Shapes | None:
        """Return the largest shapes, with 1 for a first axis without a bound; None where another dimension has none."""
        if not self.bounds or any(declared.shape is None for declared in self.inputs):
            return None
        shapes = []
        for declared in self.inputs:
            extents = []
            for axis, own in enumerate(declared.shape or ()):
                most = own if isinstance(own, int) else self.bounds.get((declared.name, axis))
                if most is None and axis:
                    return None
                extents.append(1 if most is None else most)
            shapes.append(tuple(extents))
        return tuple(shapes)

    def typed(self, pattern: Pattern, numbers: Sequence[int]) -> dict[str, TensorType]:
        """Return the inputs' types for the sizes of the symbolic dimensions in a pattern."""
        return {
            declared.name: TensorType(
                declared.dtype, tuple(numbers[-1 - axis] if axis < 0 else axis for axis in shape)
            )
            for declared, shape in zip(self.inputs, pattern, strict=True)
        }

    def dimensions(self, shapes: Shapes) -> tuple[Pattern, tuple[int, ...]]:
        """Return the pattern of these shapes and the sizes of the symbolic dimensions in it; no sizes where the model
        has no symbolic dimensions, and where dimensions of one name differ."""
        sizes: list[int] = []
        names: dict[str, int] = {}
        pattern = []
        for declared, shape in zip(self.inputs, shapes, strict=True):
            axes = []
            for wanted, extent in zip(declared.shape or (None,) * len(shape), shape, strict=True):
                if isinstance(wanted, int) or not extent:  # plans are made for sizes from 1 on, or for 0
                    axes.append(extent)
                    continue
                number = names.get(wanted) if wanted else None
                if number is None:
                    number = len(sizes)
                    sizes.append(extent)
                    if wanted:
                        names[wanted] = number
                elif sizes[number] != extent:
                    return shapes, ()
                axes.append(-1 - number)
            pattern.append(tuple(axes))
        return tuple(pattern), tuple(sizes)

    def static_shapes(self) -> Shapes | None:
        """Return the inputs' shapes, if the model takes no others."""
        shapes = [declared.shape for declared in self.inputs]
        if any(shape is None or any(not isinstance(n, int) for n in shape) for shape in shapes):
            return None
        return tuple(tuple(n for n in shape or () if isinstance(n, int)) for shape in shapes)


def _extents(name: str, shape: Any) -> tuple[int, ...]:
    try:
        extents = tuple(map(operator.index, shape))
    except TypeError:
        raise InputError(
            f"the shape of input '{name}' must be whole numbers like (1, 3, 8, 8), not {shown(shape)}"
        ) from None
    if any(extent > LARGEST for extent in extents):
        raise InputError(f"the shape of input '{name}' is larger than memory can be: {shown(list(extents))}")
    if any(extent < 0 for extent in extents):
        raise InputError(f"the shape of input '{name}' has a negative size: {shown(list(extents))}")
    return extents
