"""Functions of kernels as users write them, and a kernel of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import cenote
from cenote.core.types import Array
from cenote.kernels import (
    F32,
    Call,
    Kernel,
    KernelSpec,
    Target,
    Value,
    View,
    math,
    numbers_named,
    pointers_to,
)


def soft_reference(x: Array, threshold: float = 0.5) -> Array:
    wide = x.astype(np.float64)
    return np.sign(wide) * np.maximum(np.abs(wide) - threshold, 0)


@cenote.jit_elementwise(reference=soft_reference, check=True)
def soft_threshold(k: Kernel, x: Value, *, threshold: Any = 0.5) -> Value:
    """Move towards zero."""
    return k.maximum(x - threshold, 0) + k.minimum(x + threshold, 0)


@cenote.jit_elementwise(reference=lambda x, y, mask: (np.where(mask, x, -x), np.exp(y) > 1.0), check=True)
def chosen(k: Kernel, x: Value, y: Value, mask: Value) -> tuple[Value, Value]:
    return k.select(mask, x, -x), math.exp(k, y) > 1.0


@cenote.jit_elementwise(
    reference=lambda q, scale, zero: (q.astype(np.float32) - zero) * np.float32(scale), tolerance=0
)
def dequantized(k: Kernel, q: Value, *, scale: Any, zero: Any) -> Value:
    """From bytes to float32: `scale` arrives as float32, `zero` as a byte."""
    return (q.to(F32) - zero.to(F32)) * scale


@dataclass(frozen=True)
class RowSums(KernelSpec):
    """Sum of each row of float32, `lanes` partial sums at a time."""

    lanes: int

    @property
    def words(self) -> Any:
        return (*pointers_to(F32, "x", "y"), *numbers_named(["columns"]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        columns = k.number("columns")
        for row in k.range(k.begin, k.end):
            total = k.variable(k.constant(F32, 0.0, self.lanes))
            for column in k.range(0, columns, self.lanes):
                mask = k.tail_mask(columns - column, self.lanes)
                total.value = total.value + k.pointer("x").load(row * columns + column, self.lanes, mask)
            k.pointer("y").store(k.reduce(total.value, "add"), row)
        return k


@dataclass(frozen=True)
class Shifted(KernelSpec):
    """Copy of elements that writes, or reads, some elements further."""

    written: int
    read: int = 0

    @property
    def words(self) -> Any:
        return pointers_to(F32, "x", "y")

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for i in k.range(k.begin, k.end):
            k.pointer("y").store(k.pointer("x").load(i + self.read), i + self.written)
        return k


def row_sum_types(x: cenote.TensorType) -> cenote.TensorType:
    if len(x.shape) != 2 or x.dtype != np.float32:
        raise cenote.ShapeError(f"x is {x}, not a matrix of float32")
    return cenote.TensorType(x.dtype, x.shape[:1])


@cenote.jit_kernel(types=row_sum_types, reference=lambda x: x.astype(np.float64).sum(1), check=True)
def row_sums(target: Target, x: View, y: View) -> Call:
    words = {"x": x, "y": y, "columns": x.type.shape[1]}
    return Call.named(RowSums(target.lanes(x.type.dtype)), words, items=x.type.shape[0])
