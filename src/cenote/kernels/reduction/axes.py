"""Axes of a tensor that is reduced."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_equal
from cenote.kernels.base import present


@dataclass(frozen=True)
class ReduceAxis:
    """One axis of x: `y` is its stride in the output, or None when it is reduced."""

    extent: int
    x: int
    y: int | None


def joined(axes: Sequence[ReduceAxis], strict: bool) -> list[ReduceAxis]:
    """Return the axes of more than one element; neighbours that are both reduced or both kept, and
    dense, are joined."""
    result: list[ReduceAxis] = []
    for axis in axes:
        if always_equal(axis.extent, 1):
            continue
        last = result[-1] if result else None
        alike = last is not None and (last.y is None) == (axis.y is None)
        if last is not None and alike and always_equal(last.x, axis.x * axis.extent):
            dense = axis.y is None or not strict or always_equal(present(last.y), axis.y * axis.extent)
            if dense:
                result[-1] = ReduceAxis(last.extent * axis.extent, axis.x, axis.y)
                continue
        result.append(axis)
    return result
