"""Products of matrices with operands rounded to bfloat16: to the kernel of 1x1 windows a row is a pixel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cenote.codegen.bfloat import PAIR, Bfloat
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOAT32, Array, Layout, TensorType
from cenote.kernels.base import Call, KernelSpec, View, float_pointers, numbers_named, pointers_to
from cenote.kernels.bfloat.conv_calls import bfloat_calls
from cenote.kernels.bfloat.tile_calls import tile_calls
from cenote.kernels.conv.direct_calls import DirectProblem
from cenote.kernels.elementwise.activations import Activation

NUMBERS = ("columns", "x_row", "y_row")


@dataclass(frozen=True)
class NarrowRowsSpec(KernelSpec):
    """Kernel that rounds rows of a float32 matrix. `way`: that of `codegen.bfloat`."""

    way: str

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*float_pointers(("x",)), *pointers_to(BF16, "y"), *numbers_named(NUMBERS))

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes()
        bfloat, columns = Bfloat(k, self.way, lanes), k.number("columns")
        whole = columns // lanes * lanes
        tail = k.tail_mask(columns - whole, lanes)
        for row in k.range(k.begin, k.end):
            x, y = k.pointer("x") + row * k.number("x_row"), k.pointer("y") + row * k.number("y_row")
            for column in k.range(0, whole, lanes):
                y.store(bfloat.narrowed(x.load(column, lanes)), column)
            with k.when(whole < columns):
                y.store(bfloat.narrowed(x.load(whole, lanes, tail)), whole, tail)
        return k


@dataclass(frozen=True)
class BfloatProduct:
    """Problem of y = activation(A B + bias + residual): A of so many `rows`, `weights` (N, K) the transpose of B, a
    constant `bias` of N. `way`: that of `codegen.bfloat`; rows of A, y and the residual are so many elements apart."""

    rows: int
    weights: Array
    bias: Array | None
    activation: Activation
    way: str
    a_row: int
    y_row: int
    residual_row: int = 0

    def calls(self, a: View, y: View, residual: View | None, memory: View, target: Target) -> Iterator[Call]:
        """Yield the calls that round A into `memory`, of `narrow_elements`, and multiply."""
        k = self.weights.shape[1]
        pitch = _pitch(k)
        moved = maximum(1, 6 * k)
        words = {"x": a, "y": memory, "columns": k, "x_row": self.a_row, "y_row": pitch}
        yield Call.named(NarrowRowsSpec(self.way), words, self.rows, maximum(1, (128 << 10) // moved))
        maps = self._maps(a=(memory, BFLOAT16, pitch), y=y, residual=residual, lanes=target.lanes())
        yield from bfloat_calls(self._problem, self.way, *maps, target, columns=len(self.weights))

    def tile_calls(
        self, a: View, y: View, residual: View | None, tiles: str, target: Target
    ) -> Iterator[Call]:
        """Yield the call that multiplies on tile registers; `tiles`: the way of `codegen.tiles`."""
        maps = self._maps(a=(a, FLOAT32, self.a_row), y=y, residual=residual, lanes=target.lanes())
        yield from tile_calls(self._problem, (self.way, tiles), *maps, target, columns=len(self.weights))

    @property
    def shape(self) -> ConvShape:
        """The convolution that this is, of one row of pixels."""
        ones, size, (n, k) = (1, 1, 1), (1, 1, self.rows), self.weights.shape
        return ConvShape(1, k, n, 1, size, size, ones, ones, ((0, 0),) * 3, ones)

    @property
    def _problem(self) -> DirectProblem:
        n, k = self.weights.shape
        return DirectProblem(self.shape, self.weights.reshape(n, k, 1, 1, 1), self.bias, self.activation)

    def _maps(
        self, a: tuple[View, np.dtype[Any], int], y: View, residual: View | None, lanes: int
    ) -> tuple[View, View, View | None]:
        """Return A (and its type and row), y and the residual as maps: a row is a pixel, and blocks lie in it."""

        def as_map(view: View, dtype: np.dtype[Any], row: int, channels: int) -> View:
            kind = TensorType(dtype, (1, channels, 1, self.rows))
            return View(kind, Layout(lanes), (0, lanes, 0, row), view.slot)

        n, k = self.weights.shape
        added = None if residual is None else as_map(residual, FLOAT32, self.residual_row, n)
        return as_map(*a, k), as_map(y, FLOAT32, self.y_row, n), added


def narrow_elements(rows: int, columns: int) -> int:
    """Number of elements of the memory in which a matrix is rounded."""
    return rows * _pitch(columns)


def _pitch(columns: int) -> int:
    """Elements from row to row, whole pairs."""
    return columns + columns % PAIR
