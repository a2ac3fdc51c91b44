"""Arguments of a layer that callers give, checked: extents, numbers for each axis, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, shown
from cenote.core.types import TensorType
from cenote.ops.base import Op
from cenote.tiling.layer import Layer


@dataclass(frozen=True)
class LayerArguments:
    """Arguments of one layer as callers give them: the kind, the type of its input, all others by name, and the
    elementwise operators that follow."""

    kind: str
    x: TensorType
    values: dict[str, Any]
    fused: tuple[Op, ...]

    @property
    def rank(self) -> int:
        """The number of spatial axes of (N, C, *spatial)."""
        return self.x.rank - 2

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def required(self, name: str, what: str) -> Any:
        """Return an argument that the kind cannot do without."""
        if self.values[name] is None:
            raise ArgumentError(f"tiling.plan: {self.kind} needs {name}, {what}")
        return self.values[name]

    def numbers(self, name: str, default: int | tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return an argument as one whole number per spatial axis."""
        value = self.values[name]
        return whole_numbers(name, default if value is None else value, self.rank)

    def number(self, name: str) -> int:
        (number,) = whole_numbers(name, self.values[name], 1)
        return number

    def pads(self) -> tuple[tuple[int, int], ...]:
        """Return the padding as (begin, end) per spatial axis."""
        given, rank = self.values["padding"], self.rank
        if (
            isinstance(given, list | tuple)
            and given
            and all(isinstance(item, list | tuple) for item in given)
        ):
            if len(given) != rank or any(len(item) != 2 for item in given):
                raise ArgumentError(
                    f"tiling.plan: padding must be (begin, end) for each of {rank} axes, got {shown(given)}"
                )
            return tuple((int(begin), int(end)) for begin, end in given)
        return tuple((pad, pad) for pad in self.numbers("padding"))


@dataclass(frozen=True)
class LayerFamily:
    """Kinds of layers that are given alike.

    names       each kind with the arguments that it takes
    build       the layer of some arguments
    match       the layer of an operator in a model, None for an operator of another family
    ranks       the fewest and the most axes of the input, and what they are
    """

    names: dict[str, tuple[str, ...]]
    build: Callable[[LayerArguments], Layer]
    match: Callable[[Op, tuple[TensorType | None, ...], str, tuple[Op, ...]], Layer | None]
    ranks: tuple[int, int, str] = (3, 5, "(N, C, *spatial) with 1 to 3 spatial axes")


def whole_numbers(name: str, given: Any, rank: int) -> tuple[int, ...]:
    """Return one number, or one per axis, as one per axis."""
    items = tuple(given) if isinstance(given, list | tuple) else (given,)
    whole = all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items)
    if not whole or len(items) not in (1, rank):
        raise ArgumentError(f"tiling.plan: {name} must be one whole number or {rank}, got {shown(given)}")
    return tuple(int(item) for item in items) * (rank if len(items) == 1 else 1)


def shape_of(name: str, given: Sequence[int], ranks: tuple[int, int, str]) -> tuple[int, ...]:
    """Return the extents of an input, checked."""
    least, most, what = ranks
    if isinstance(given, str) or not isinstance(given, Sequence) or not least <= len(given) <= most:
        raise ShapeError(f"tiling.plan: {name} must be {what}, got {shown(given)}")
    for extent in given:
        if not isinstance(extent, int | np.integer) or isinstance(extent, bool) or extent < 1:
            raise ShapeError(f"tiling.plan: {name} must have extents of 1 or more, got {shown(given)}")
        limits.within("tiling.plan", name, int(extent), 1)
    return tuple(int(extent) for extent in given)
