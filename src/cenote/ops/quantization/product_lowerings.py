"""Products of bytes as kernels: constant or computed operands, zero points and scales."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.dots import BYTES, STORED, WIDE
from cenote.core import limits
from cenote.core.deferred import cached_property, dataclass
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import PAIRS, Target
from cenote.core.types import FLOAT32, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, dense_strides, present
from cenote.kernels.cost_model import BYTES_FASTER, LAUNCH, moved_seconds, peak_seconds, stream_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.elementwise import Operand, elementwise_call
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.quantized.conv import Levels
from cenote.kernels.quantized.product_calls import INT16, INT32, ByteWeights, ProductResult, QuantizedProduct
from cenote.ops.base import Lowering
from cenote.ops.linear.matmul import MatMul
from cenote.ops.linear.product_lowerings import StridedMatrices, Terms

_EXACT = ("identity", "relu", "clip")
_INT8 = np.dtype(np.int8)
# Rows from which a copy of A in 16 bits gains: 197 rows 73 and 79 GMAC/s (AVX2, Zen 4), 16 rows 72 and 71, 4 rows 64
# and 53.
_WIDE_ROWS = 64


@dataclass(frozen=True)
class ByteProduct:
    """Numbers of the inputs that are the matrices and their zero points, and what becomes of the sums.

    `scales` and `bias` are the numbers of inputs, or constants; `added`: a bias of the sums. Without scales the result
    is the sums; with `levels` it is bytes, else float32.
    """

    a: int
    b: int
    a_zero: int
    b_zero: int
    scales: int | Array | None = None
    bias: int | None = None
    added: Array | None = None
    levels: Levels | None = None
    activation: Activation = field(default_factory=Activation)


def product_lowerings(
    problem: ByteProduct, inputs: Sequence[TensorType | None], count: int, target: Target
) -> Iterator[Lowering]:
    """Yield the lowerings of a product of bytes whose zero points are one for A, and one or one per column for B: in
    vectors, and on tile registers. `count`: number of inputs that the operator was given."""
    made = _Lowering(problem, inputs, target, target.dots)
    if not made.is_native():
        return
    yield made.lowering(count)
    if target.dots == PAIRS and plain(made.sized.product.m) >= _WIDE_ROWS:
        yield _Lowering(problem, inputs, target, WIDE).lowering(count)
    if target.tiles.int8:
        yield _Lowering(problem, inputs, target, STORED).lowering(count)


class _Lowering:
    def __init__(
        self, problem: ByteProduct, inputs: Sequence[TensorType | None], target: Target, dots: str
    ) -> None:
        self.problem, self.inputs, self.target, self.dots = problem, inputs, target, dots
        self.a, self.b = present(inputs[problem.a]), present(inputs[problem.b])
        self.a_zero, self.b_zero = inputs[problem.a_zero], inputs[problem.b_zero]
        self.left, self.right, self.full = MatMul().arrangement(self.a, self.b)

    def is_native(self) -> bool:
        known = [extent for extent in (*self.full, *self.left.shape[-1:]) if not is_size(extent)]
        positions = math.prod(self.full[:-2])
        if 0 in known or (not is_size(positions) and positions > limits.MOST_POSITIONS):
            return False
        columns = [self.b_zero]
        if isinstance(self.problem.scales, int):
            columns.append(self.inputs[self.problem.scales])
        if self.a_zero is not None and self.a_zero.size != 1:
            return False
        if self.problem.added is not None and not self.is_static:
            return False
        return all(each is None or each.size == 1 or each.shape[-1] == each.size for each in columns)

    @cached_property
    def sized(self) -> QuantizedProduct:
        rows = StridedMatrices((*self.left.shape[:-1], 1), (*dense_strides(self.left.shape[:-1]), 1))
        left = self.left
        if self.dots == WIDE:
            left = StridedMatrices(left.shape, dense_strides((*left.shape[:-1], self.filled)))
        terms = Terms(left, self.right, StridedMatrices.of(self.full), residual_at=rows)
        tiles = self.target.tiles.int8 if self.dots == STORED else ""
        return QuantizedProduct(terms.product(), self.a.dtype, self.b.dtype, self.target, self.dots, tiles)

    @property
    def filled(self) -> int:
        """Length of a row of the copy in 16 bits."""
        return -(-self.left.shape[-1] // BYTES) * BYTES

    @cached_property
    def weights(self) -> ByteWeights | None:
        """B, where it is a constant and so is its zero point."""
        zero = None if self.b_zero is None else self.b_zero.value
        if self.b.value is None or (zero is None) != (self.b_zero is None):
            return None
        return ByteWeights.of(self.b.value.reshape(self.right.shape), zero)

    @property
    def is_static(self) -> bool:
        """Whether all that zero points add to sums is known now, but for A's rows."""
        return self.weights is not None and (self.a_zero is None or self.a_zero.value is not None)

    @property
    def zeros(self) -> Array | bool:
        """B's zero point as its kernel has it, one per column; False where there is none, True where a program
        computes it."""
        if self.weights is not None:
            return False if self.weights.zeros is None else self.weights.zeros
        if self.b_zero is not None and self.b_zero.value is None:
            return True
        moved = 128 if self.b.dtype == np.uint8 else 0
        zero = 0 if self.b_zero is None else present(self.b_zero.value).astype(np.int32).reshape(-1)
        zeros: Array = np.broadcast_to(np.asarray(zero - moved, np.int32), self.full[-1:]).copy()
        return zeros if zeros.any() else False

    @property
    def offsets(self) -> Array:
        """Offsets that are the same for all rows, of constants: (images of B, columns)."""
        zero = 0 if self.a_zero is None else int(present(self.a_zero.value).item())
        sums = present(self.weights).sums.astype(np.int64) * -(zero + 128 * self.sized.signed)
        added = 0 if self.problem.added is None else self.problem.added.astype(np.int64)
        return np.ascontiguousarray((sums + added).astype(np.int32))

    def temporaries(self) -> dict[str, TensorType]:
        """Memory by what lies in it."""
        sized, n = self.sized, self.full[-1]
        found: dict[str, TensorType] = {}
        if self.weights is None:
            found["panels"] = TensorType(_INT8, (sized.images * sized.image,))
            found["sums"] = TensorType(INT32, (sized.images, n))
        if self.zeros is True:
            found["zeros"] = TensorType(INT32, (n,))
        if not self.is_static:
            found["offsets"] = TensorType(INT32, (sized.images, n))
        if self.zeros is not False:
            found["rows"] = TensorType(INT32, (self.rows,))
        if self.dots == WIDE:
            found["wide"] = TensorType(INT16, (self.rows, self.filled))
        scales = self.problem.scales
        if isinstance(scales, int) and present(self.inputs[scales]).size == 1:
            found["scales"] = TensorType(FLOAT32, (n,))
        return found

    @property
    def rows(self) -> int:
        return math.prod(self.left.shape[:-1])

    def lowering(self, count: int) -> Lowering:
        memory, problem = self.temporaries(), self.problem
        read = {problem.a, *(place for place in (problem.scales, problem.bias) if isinstance(place, int))}
        if self.weights is None:
            read.add(problem.b)
        if self.zeros is True:
            read.add(problem.b_zero)
        if self.a_zero is not None and self.a_zero.value is None:
            read.add(problem.a_zero)
        layouts = tuple(
            PLAIN if kind is not None and place in read else None
            for place, kind in enumerate(self.inputs[:count])
        )

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            given = [*views, *[None] * (len(self.inputs) - len(views))]
            return [*self.calls(given, made[0], dict(zip(memory, made[1:], strict=True)))]

        exact = problem.activation.kind in _EXACT
        seconds = self.seconds() + LAUNCH * (len(memory) + 1)
        name = {WIDE: "quantized_wide", STORED: "quantized_tiles"}.get(self.dots, "quantized")
        return Lowering(
            name, layouts, (PLAIN,), bind, seconds, 0.0 if exact else 2e-6, tuple(memory.values())
        )

    def calls(self, views: Sequence[View | None], y: View, memory: dict[str, View]) -> Iterator[Call]:
        sized, problem = self.sized, self.problem
        a, zeros = present(views[problem.a]), self.zeros
        columns: View | Array | None = zeros if isinstance(zeros, np.ndarray) else None
        if zeros is True:
            columns = memory["zeros"]
            yield sized.zeros_call(present(views[problem.b_zero]), memory["zeros"])
        panels: Any = None
        if self.weights is None:
            panels = memory["panels"]
            yield sized.pack_call(present(views[problem.b]), columns, panels, memory["sums"])
        else:
            panels = sized.pack(self.weights.values)
        offsets: View | Array
        if self.is_static:
            offsets = self.offsets
        else:
            offsets = memory["offsets"]
            sums = memory["sums"] if self.weights is None else self.weights.sums
            yield sized.offsets_call(sums, self._a_zero(views), offsets)
        if zeros is not False:
            yield sized.row_sum_call(a, self.rows, memory["rows"])
        scales = problem.scales
        if "scales" in memory and isinstance(scales, int):
            operand = Operand(present(views[scales]), (0,), is_scalar=True)
            copy = Expression(1, (Step("cast", (0,), FLOAT32),))
            yield elementwise_call(copy, (), [operand], memory["scales"], self.target)
        if "wide" in memory:
            yield sized.widening_call(a, self.rows, memory["wide"])
            a = memory["wide"]
        yield sized.call(a, panels, offsets, columns, memory.get("rows"), self._result(views, y, memory))

    def _a_zero(self, views: Sequence[View | None]) -> View | Array:
        """A's zero point: a view where it is computed."""
        if self.a_zero is None:
            return np.zeros(1, np.int32)
        value = self.a_zero.value
        return present(views[self.problem.a_zero]) if value is None else value.astype(np.int32).reshape(1)

    def _result(self, views: Sequence[View | None], y: View, memory: dict[str, View]) -> ProductResult:
        problem, n = self.problem, self.full[-1]
        scales: View | Array | None = None
        if isinstance(problem.scales, np.ndarray):
            scales = np.ascontiguousarray(np.broadcast_to(problem.scales, (n,)), np.float32)
        elif isinstance(problem.scales, int):
            scales = memory.get("scales", views[problem.scales])
        bias = None if problem.bias is None else views[problem.bias]
        return ProductResult(y, scales, bias, problem.activation, problem.levels)

    def seconds(self) -> float:
        """The slower of arithmetic and memory; where B is computed, packing comes before."""
        product, images = self.sized.product, self.sized.images
        nbytes = images * product.k * product.n
        packing = 0.0 if self.weights is not None else moved_seconds(8 * nbytes)
        if self.dots == STORED:
            return maximum(self.sized.cut.seconds(), stream_seconds(nbytes)) + packing
        operations = 2 * math.prod(self.full) * product.k
        efficiency = 0.85 if plain(product.m) >= 4 else 0.4
        compute = peak_seconds(operations, self.target, efficiency * BYTES_FASTER[self.dots])
        packing += moved_seconds(3 * self.rows * product.k) if self.dots == WIDE else 0.0
        return maximum(compute, stream_seconds(nbytes)) + packing
