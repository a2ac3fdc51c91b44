"""A core's buffer: real bytes, filled with poison, divided into the spaces that a plan gives its tiles."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.tiling.execution.clock import Clock
from cenote.tiling.kinds.computation import Ranges
from cenote.tiling.problem import TilingPlan

POISON = 0xFF
"""Value of every byte that was not loaded: NaN as a float, -1 or the largest number as an integer."""


class PlanError(CenoteError, RuntimeError):
    """A plan that does not compute its layer: a bug of the planner, not of the layer."""


@dataclass
class BufferSpace:
    """A box of elements in a core's buffer: rows start at whole blocks. `ranges`: the part of the tensor that it
    holds."""

    name: str
    offset: int
    size: int
    buffer: Array
    known: Array
    ranges: Ranges = ()
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.uint8))
    strides: tuple[int, ...] = ()

    def place(self, ranges: Ranges, dtype: np.dtype[Any], pitch: int) -> None:
        """Lay out a box in the space, its rows `pitch` bytes apart. PlanError where it is larger than the space."""
        extents = [stop - start for start, stop in ranges]
        strides = [dtype.itemsize, pitch]
        for extent in reversed(extents[1:-1]):
            strides.append(strides[-1] * extent)
        strides = strides[: len(extents)]
        needed = (strides[-1] * extents[0]) if len(extents) > 1 else extents[0] * dtype.itemsize
        if needed > self.size or (extents and extents[-1] * dtype.itemsize > pitch):
            raise PlanError(
                f"tiling: overflow of the {self.name} space: {needed:,} bytes, the plan has {self.size:,}"
            )
        self.ranges, self.dtype, self.strides = ranges, dtype, tuple(reversed(strides))

    def view(self, ranges: Ranges | None = None) -> tuple[Array, Array]:
        """Return the elements of a box within the one that was placed, and whether each is known."""
        ranges = self.ranges if ranges is None else ranges
        offset = self.offset
        for (start, stop), (first, last), stride in zip(ranges, self.ranges, self.strides, strict=True):
            if stop > start and not (first <= start and stop <= last):
                raise PlanError(
                    f"tiling: {self.name} {start} to {stop - 1} is needed, but {first} to {last - 1} is there"
                )
            offset += max(0, start - first) * stride
        shape = tuple(stop - start for start, stop in ranges)
        if not math.prod(shape):
            return np.empty(shape, self.dtype), np.ones(shape, np.bool_)
        elements: Array = np.ndarray(shape, self.dtype, self.buffer, offset, self.strides)
        known: Array = np.ndarray(shape, np.bool_, self.known, offset, self.strides)
        return elements, known

    def write(self, content: Array) -> None:
        elements, known = self.view()
        elements[...] = content
        known[...] = True

    def read(self, ranges: Ranges | None = None) -> Array:
        """Return a copy of a box. PlanError where an element was never written."""
        elements, known = self.view(ranges)
        if not known.all():
            raise PlanError(f"tiling: poison is read from the {self.name} space")
        return elements.copy()

    def poison(self) -> None:
        self.buffer[self.offset : self.offset + self.size] = POISON
        self.known[self.offset : self.offset + self.size] = False


class Core:
    """A buffer divided into spaces, and a clock."""

    def __init__(self, number: int, plan: TilingPlan) -> None:
        hardware = plan.hardware
        taken = plan.problem.footprint(plan.tile)
        if taken.total > hardware.ub_bytes:
            raise PlanError(
                f"tiling: the tile takes {taken.total:,} bytes, the buffer has {hardware.ub_bytes:,}"
            )
        self.buffer = np.full(hardware.ub_bytes, POISON, np.uint8)
        self.known = np.zeros(hardware.ub_bytes, np.bool_)
        self.clock = Clock(number, taken.copies)
        self.end = 0
        self.copies = taken.copies
        self.inputs = [self._spaces("input", size, taken.copies) for size in taken.inputs]
        self.weights = self._spaces("weights", taken.weights, taken.copies)
        self.outputs = [
            self._spaces(name, size, taken.copies)
            for name, size in zip(("output", "indices"), taken.outputs, strict=False)
        ]
        (self.sums,) = self._spaces("sums", taken.scratch - plan.policy.scratch, 1)

    def _spaces(self, name: str, size: int, copies: int) -> list[BufferSpace]:
        spaces = []
        for _ in range(copies):
            spaces.append(BufferSpace(name, self.end, size, self.buffer, self.known))
            self.end += size
        return spaces
