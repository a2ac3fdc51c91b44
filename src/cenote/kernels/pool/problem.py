"""What a windowed pooling is asked for: geometry, memory, indices, factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cenote.core.types import Array
from cenote.kernels.base import Argument
from cenote.kernels.pool.common import SUM, compute_type


@dataclass(frozen=True)
class Geometry:
    """Windowed pooling over (planes, rows, columns). `pad` is what lies before the input; what lies after follows
    from `out`."""

    size: tuple[int, int, int]
    out: tuple[int, int, int]
    window: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pad: tuple[int, int, int] = (0, 0, 0)

    def reach(self, axis: int) -> int:
        """Elements a window spans, holes included."""
        return (self.window[axis] - 1) * self.dilation[axis] + 1

    def overhang(self, axis: int) -> int:
        """How far the last window reaches past the end of the input (negative: not at all)."""
        return (self.out[axis] - 1) * self.stride[axis] - self.pad[axis] + self.reach(axis) - self.size[axis]

    def inside(self, axis: int) -> bool:
        """True when every window lies within the input."""
        return self.pad[axis] <= 0 and self.overhang(axis) <= 0

    def columns(self, begin: int, end: int) -> tuple[int, int]:
        """Input columns within the windows of output columns begin..end-1."""
        start = begin * self.stride[2] - self.pad[2]
        stop = (end - 1) * self.stride[2] - self.pad[2] + self.reach(2)
        return max(start, 0), min(stop, self.size[2])


@dataclass(frozen=True)
class Places:
    """Where indices go, and what they count: steps of (plane, row, column, batch, channel), then the strides of the
    indices themselves (batch, channel or block, plane, row)."""

    indices: Argument
    steps: tuple[int, ...]


Bounds = Sequence[Sequence[tuple[int, int]]]


class Factors(NamedTuple):
    """What results are multiplied by, or with `divides` (and for integers) divided by: per output row (planes x
    rows), and per output column."""

    rows: Array | None = None
    columns: Array | None = None
    divides: bool = False


UNSCALED = Factors()


@dataclass(frozen=True)
class Memory:
    """Where the tensors lie: strides in elements of (batch, channel or channel block, plane, row), `step` from one
    column to the next (1: plain), and how many batches and channels (blocks) there are."""

    batches: int
    channels: int
    x: tuple[int, int, int, int]
    y: tuple[int, int, int, int]
    step: int = 1


def factors(counts: Sequence[Sequence[float]], dtype: np.dtype[Any]) -> Factors:
    """What turns sums of the dtype into averages: a factor per output row (planes x rows), and one per column unless
    all columns are alike; divisors for integers, and where a reciprocal is not exact: the mean of equal elements is
    that element. `counts` has the divisor's share of each axis, per output position."""
    compute = compute_type(SUM, dtype)
    kind = np.dtype({"f32": np.float32, "f64": np.float64, "i32": np.int32}.get(compute.name, np.int64))
    whole = np.float64 if compute.is_float else np.int64
    planes, rows, columns = (np.asarray(count, whole) for count in counts)
    products: Array = np.multiply.outer(planes, rows)
    alike = bool((columns == columns[0]).all())
    if alike:
        products = products * columns[0]
    divides = not (_powers_of_two(products) and _powers_of_two(columns))
    if not divides:
        products, columns = np.reciprocal(products), np.reciprocal(columns)
    return Factors(products.astype(kind), None if alike else columns.astype(kind), divides)


def _powers_of_two(values: Array) -> bool:
    """Whether all reciprocals are exact; never those of integers."""
    return values.dtype.kind == "f" and bool((np.frexp(values)[0] == 0.5).all())


__all__ = ["UNSCALED", "Bounds", "Factors", "Geometry", "Memory", "Places", "factors"]
