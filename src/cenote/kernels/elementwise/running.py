"""Running sums and products along an axis of plain tensors.

    for item in begin .. end:                    emitted; a vector of columns of one outer place
        for place along the axis:                emitted; from the end if `reverse`
            total = total + x; y = total         `exclusive`: y first

Floats are added in float64, as the reference and PyTorch do; integers wrap around in their own type. The columns are
those behind the axis; along the last axis there is one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

_WORK = 1 << 14  # elements of a piece of work


@dataclass(frozen=True)
class RunningSpec(KernelSpec):
    """Kernel of a running `product` or sum; `lanes` columns at once."""

    dtype: np.dtype[Any]
    product: bool
    exclusive: bool
    reverse: bool
    lanes: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = pointers_to(Scalar.of(self.dtype), "y", "x")
        return (*pointers, *numbers_named(["extent", "columns", "chunks"]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        extent, columns, chunks = (k.number(name) for name in ("extent", "columns", "chunks"))
        for item in k.range(k.begin, k.end):
            first = item % chunks * self.lanes
            start = item // chunks * extent * columns + first
            if self.lanes == 1:
                self._run(k, start, 1)
                continue
            fits = first + self.lanes <= columns
            with k.when(fits):
                self._run(k, start, self.lanes)
            with k.unless(fits):
                for column in k.range(0, columns - first):
                    self._run(k, start + column, 1)
        return k

    def _run(self, k: Kernel, start: Value, lanes: int) -> None:
        x, y = (k.pointer(name) + start for name in ("x", "y"))
        element, extent, columns = y.element, k.number("extent"), k.number("columns")
        compute = F64 if element.is_float else element
        total = k.variable(k.constant(compute, 1 if self.product else 0, lanes))
        for step in k.range(0, extent):
            place = (extent - 1 - step if self.reverse else step) * columns
            value, before = _widened(x, place, lanes), total.value
            total.value = before * value if self.product else before + value
            result = before if self.exclusive else total.value
            half = element.is_float and element.nbytes == 2
            y.store((result.to(F32) if half else result).to(element), place)


def _widened(x: Pointer, place: Value, lanes: int) -> Value:
    value = x.load(place, lanes)
    if not value.type.is_float:
        return value
    return (value.to(F32) if value.type.nbytes == 2 else value).to(F64)


def running_call(
    x: View, y: View, axis: int, product: bool, exclusive: bool, reverse: bool, target: Target
) -> Call:
    """Return the launch for dense views of one type."""
    lanes = 1 if axis == len(x.shape) - 1 else target.vector_bytes // 8
    spec = RunningSpec(x.type.dtype, product, exclusive, reverse, lanes)
    extent, columns = x.shape[axis], math.prod(x.shape[axis + 1 :])
    chunks = -(-columns // lanes)
    words: dict[str, Argument] = {"y": y, "x": x, "extent": extent, "columns": columns, "chunks": chunks}
    grain = maximum(1, _WORK // maximum(1, extent * lanes))
    return Call.named(spec, words, math.prod(x.shape[:axis]) * chunks, grain)
