"""Operations that frameworks have and ONNX has not, of ONNX's: for the readers of several formats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.frontends.builder import GraphBuilder
from cenote.frontends.strided_slice import TO_END, sliced


def floor_division(builder: GraphBuilder, x: str, y: str, floats: bool, name: str) -> str:
    """x / y rounded down. Of integers: the quotient of what is left when the remainder, which has the divisor's sign,
    is gone."""
    if floats:
        return builder.add("Floor", builder.add("Div", x, y), name=name)
    exact = builder.add("Sub", x, builder.add("Mod", x, y))
    return builder.add("Div", exact, y, name=name)


def floor_remainder(builder: GraphBuilder, x: str, y: str, floats: bool, name: str) -> str:
    """What `floor_division` leaves; it has the sign of y."""
    if not floats:
        return builder.add("Mod", x, y, name=name)
    whole = builder.add("Floor", builder.add("Div", x, y))
    return builder.add("Sub", x, builder.add("Mul", whole, y), name=name)


def squared_difference(builder: GraphBuilder, x: str, y: str, name: str) -> str:
    """(x - y) squared."""
    difference = builder.add("Sub", x, y)
    return builder.add("Mul", difference, difference, name=name)


def clipped(builder: GraphBuilder, x: str, low: float, high: float, name: str = "") -> str:
    """A float32 between two bounds."""
    bounds = [builder.constant(np.float32(bound)) for bound in (low, high)]
    return builder.add("Clip", x, *bounds, name=name)


def stacked(builder: GraphBuilder, values: Sequence[str], axis: int, name: str) -> str:
    """Tensors of one shape side by side along a new axis."""
    axes = builder.constant(np.array([axis], np.int64))
    parts = [builder.add("Unsqueeze", value, axes) for value in values]
    return builder.add("Concat", *parts, name=name, axis=axis)


def unstacked(builder: GraphBuilder, x: str, axis: int, names: Sequence[str]) -> list[str]:
    """The slices of an axis, one for each name, without it."""
    axes, count = builder.constant(np.array([axis], np.int64)), len(names)
    parts: Sequence[str] = (x,)
    if count > 1:
        parts = builder.add_many("Split", (x,), [""] * count, axis=axis, num_outputs=count)
    return [builder.add("Squeeze", part, axes, name=name) for part, name in zip(parts, names, strict=True)]


def reversed_along(builder: GraphBuilder, x: str, axes: Sequence[int], name: str) -> str:
    """The elements of axes from last to first."""
    count = len(axes)
    return sliced(builder, x, [-1] * count, [-TO_END] * count, axes, [-1] * count, name)
