"""The upper or lower triangle of matrices, zeros elsewhere, as bits.

for row in begin .. end:                     emitted; an item is a row of a matrix
    the columns kept are copied, those before and behind are zero
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Scalar
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

_WORK = 1 << 16  # bytes of a piece of work


@dataclass(frozen=True)
class TriangleSpec(KernelSpec):
    """Kernel of a triangle. `upper`: the columns from the diagonal on, else those up to it."""

    dtype: np.dtype[Any]
    upper: bool
    lanes: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.dtype), "y", "x"),
            *numbers_named(["rows", "columns", "diagonal"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        rows, columns, zero = k.number("rows"), k.number("columns"), k.integer(0)
        for item in k.range(k.begin, k.end):
            x, y = (k.pointer(name) + item * columns for name in ("x", "y"))
            edge = item % rows + k.number("diagonal") + (0 if self.upper else 1)
            edge = k.minimum(k.maximum(edge, zero), columns)
            kept, left = ((edge, columns), (zero, edge)) if self.upper else ((zero, edge), (edge, columns))
            for copied, (begin, end) in ((True, kept), (False, left)):
                whole = begin + (end - begin) // self.lanes * self.lanes
                for first, last, step in ((begin, whole, self.lanes), (whole, end, 1)):
                    for column in k.range(first, last, step):
                        value = x.load(column, step) if copied else k.constant(y.element, 0, step)
                        y.store(value, column)
        return k


def triangle_call(x: View, y: View, upper: bool, diagonal: int, target: Target) -> Call:
    """Return the launch for dense views of one type."""
    dtype = np.dtype(f"u{x.type.dtype.itemsize}")
    rows, columns = x.shape[-2:]
    words: dict[str, Argument] = {"y": y, "x": x, "rows": rows, "columns": columns, "diagonal": diagonal}
    spec = TriangleSpec(dtype, upper, target.vector_bytes // dtype.itemsize)
    grain = maximum(1, _WORK // maximum(1, columns * dtype.itemsize))
    return Call.named(spec, words, math.prod(x.shape[:-1]), grain)
