"""MatMul: products of matrices in the last two axes, those before broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Lowering, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require_same_dtype
from cenote.ops.epilogue import Fusible
from cenote.ops.linear.product_lowerings import StridedMatrices, Terms, product_lowerings
from cenote.ops.values import narrow, seeded, wide

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class MatMul(Fusible):
    """activation(alpha * A' B' + bias + residual), where A' B' is `numpy.matmul`: matrices in the last two axes, those
    before broadcast; 1-D is a row or a column.

    A' is A with its axes in the order `permute_a` (empty: as they are), B' likewise. The result's axes are put in the
    order `permute_y` before it is stored. Nothing is copied for any of them: kernels read and write in steps. `bias`
    (N,) is added to every row; with `residual` a tensor of the result's shape is added too.
    Sums are of chains of 256 terms, with `exact` of 32. `bfloat`: A and a constant B may be rounded to bfloat16 where
    the target multiplies that faster; sums are float32. `on_tiles`: float16 parts of A and a constant B may be
    multiplied on tiles.

    Types: floats, or integers, which wrap around; for these alpha must be a whole number to be exact.
    """

    permute_a: tuple[int, ...] = ()
    permute_b: tuple[int, ...] = ()
    permute_y: tuple[int, ...] = ()
    alpha: float = 1.0
    activation: Activation = field(default_factory=Activation)
    residual: bool = False
    exact: bool = False
    bfloat: bool = False
    on_tiles: bool = False

    name = "matmul"
    operands = ("A", "B", "bias?", "residual?")
    from_onnx = {"MatMul": lambda node: read(MatMul, node)}

    def reordered(self, index: int, order: tuple[int, ...]) -> MatMul | None:
        """The operator for input `index` given with its axes in this order; None where it has no choice."""
        taken = (self.permute_a, self.permute_b)[index] if index < 2 else ()
        permutation = tuple(order.index(axis) for axis in taken or range(len(order)))
        if index > 1:
            return None
        return replace(self, permute_b=permutation) if index else replace(self, permute_a=permutation)

    def arrangement(
        self, a: TensorType, b: TensorType
    ) -> tuple[StridedMatrices, StridedMatrices, tuple[int, ...]]:
        """A and B as matrices, with the axes that 1-D operands lack, and the product's shape before `permute_y`."""
        if not a.rank or not b.rank:
            raise ShapeError(f"matmul: A {a} and B {b} must have at least one axis; use Mul for scalars")
        left, right = _permuted("A", a, self.permute_a), _permuted("B", b, self.permute_b)
        if a.rank == 1:
            left = StridedMatrices((1, *left.shape), (0, *left.steps))
        if b.rank == 1:
            right = StridedMatrices((*right.shape, 1), (1, 1))
        if left.shape[-1] != right.shape[-2]:
            raise ShapeError(f"matmul: A {a} has {left.shape[-1]} columns, B {b} has {right.shape[-2]} rows")
        batch = broadcast_shapes("matmul", left.shape[:-2], right.shape[:-2])
        return left, right, (*batch, left.shape[-2], right.shape[-1])

    def shape(self, a: TensorType, b: TensorType) -> tuple[int, ...]:
        """The result's shape before `permute_y`: without the axes that 1-D operands lack."""
        _, _, full = self.arrangement(a, b)
        rows = full[-2:-1] if a.rank > 1 else ()
        return (*full[:-2], *rows, *(full[-1:] if b.rank > 1 else ()))

    def types(
        self, a: TensorType, b: TensorType, bias: TensorType | None, residual: TensorType | None
    ) -> Types:
        dtype = require_product_type("matmul", require_same_dtype("matmul", a, b, bias, residual))
        made = self.shape(a, b)
        if bias is not None and (bias.rank != 1 or b.rank == 1 or bias.shape != made[-1:]):
            raise ShapeError(
                f"matmul: bias {bias} must have one number per column of the result {list(made)}"
            )
        if (residual is not None) != self.residual:
            raise ShapeError(f"matmul: input 'residual' is {residual or 'missing'}, residual={self.residual}")
        _check_permutation("the result", len(made), self.permute_y)
        y = tuple(made[axis] for axis in self.permute_y or range(len(made)))
        if residual is not None and residual.shape != y:
            raise ShapeError(f"matmul: residual {residual} must have the result's shape {list(y)}")
        return (TensorType(dtype, y),)

    def compute(self, a: Array, b: Array, bias: Array | None, residual: Array | None) -> Arrays:
        left = wide(a.transpose(self.permute_a) if self.permute_a else a)
        y = np.matmul(left, wide(b.transpose(self.permute_b) if self.permute_b else b))
        y = y if self.alpha == 1 else y * self.alpha
        y = y if bias is None else y + wide(bias)
        y = y.transpose(self.permute_y) if self.permute_y else y
        y = y if residual is None else y + wide(residual)
        return (narrow(self.activation.apply(y), a.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        a, b, bias, residual = self.arranged(inputs)
        if not is_float(a.dtype) or a.dtype == np.float64:
            return
        left, right, full = self.arrangement(a, b)
        if self.permute_y:
            if self.permute_y[-1] != len(full) - 1 or 1 in (a.rank, b.rank):
                return  # kernels write rows
            inverse = [self.permute_y.index(axis) for axis in range(len(full))]
            y = StridedMatrices.of([full[axis] for axis in self.permute_y], inverse)
        else:
            y = StridedMatrices.of(full)
        terms = Terms(
            left,
            right,
            y,
            self.activation,
            self.alpha,
            exact=self.exact,
            bfloat=self.bfloat,
            on_tiles=self.on_tiles,
        )
        if bias is not None:
            terms = replace(terms, bias=2)
        if residual is not None:
            terms = replace(terms, residual=3, residual_at=y)
        yield from product_lowerings(terms, inputs, target)

    def operations(
        self,
        outputs: Types,
        a: TensorType,
        b: TensorType,
        bias: TensorType | None,
        residual: TensorType | None,
    ) -> int:
        extra = sum((bias is not None, residual is not None, not self.activation.is_identity))
        left, _, _ = self.arrangement(a, b)
        return (2 * left.shape[-1] + extra) * outputs[0].size

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(MatMul(), (seeded((17, 33), 1), seeded((33, 29), 2)), "matrices")
        yield Sample(MatMul(), (seeded((1, 257), 1), seeded((257, 100), 2)), "row")
        yield Sample(MatMul(), (seeded((3, 257), 1), seeded((257, 300), 2)), "three rows")
        yield Sample(MatMul(), (seeded((70, 300), 1), seeded((300, 130), 2)), "chunks of the depth")
        yield Sample(MatMul(), (seeded((2, 3, 9, 16), 1), seeded((2, 3, 16, 11), 2)), "batched")
        yield Sample(MatMul(), (seeded((3, 5, 8), 1), seeded((8, 20), 2)), "shared B")
        yield Sample(MatMul(), (seeded((2, 1, 4, 6), 1), seeded((3, 6, 5), 2)), "broadcast")
        yield Sample(MatMul(), (seeded((4, 6), 1), seeded((3, 6, 5), 2)), "shared A")
        yield Sample(MatMul(), (seeded((7,), 1), seeded((7, 5), 2)), "vector, matrix")
        yield Sample(MatMul(), (seeded((2, 5, 7), 1), seeded((7,), 2)), "matrices, vector")
        yield Sample(MatMul(), (seeded((9,), 1), seeded((9,), 2)), "vectors")
        yield Sample(MatMul(), (seeded((0, 3, 4), 1), seeded((4, 5), 2)), "empty batch")
        yield Sample(MatMul(), (seeded((3, 0), 1), seeded((0, 2), 2)), "empty sum")
        yield Sample(MatMul(), (seeded((3, 4), 1, np.int32), seeded((4, 2), 2, np.int32)), "int32")
        yield from _fused_samples()


def _fused_samples() -> Iterable[Sample]:
    heads = MatMul(permute_a=(0, 2, 1, 3), permute_b=(0, 2, 3, 1), alpha=0.25)
    yield Sample(heads, (seeded((2, 13, 3, 16), 1), seeded((2, 21, 3, 16), 2)), "queries and keys by head")
    values = MatMul(permute_b=(0, 2, 1, 3), permute_y=(0, 2, 1, 3))
    yield Sample(values, (seeded((2, 3, 13, 21), 1), seeded((2, 21, 3, 16), 2)), "values by head")
    turned = MatMul(permute_a=(1, 0), permute_b=(1, 0), activation=Activation("relu"))
    yield Sample(turned, (seeded((33, 37), 1), seeded((29, 33), 2), seeded((29,), 3)), "transposed, bias")
    gelu = MatMul(activation=Activation("gelu"), residual=True)
    added = (seeded((37,), 3), seeded((2, 9, 37), 4))
    yield Sample(gelu, (seeded((2, 9, 33), 1), seeded((33, 37), 2), *added), "bias, residual, GELU")
    wide = (seeded((128,), 3), seeded((3, 9, 128), 4))
    yield Sample(gelu, (seeded((3, 9, 64), 1), seeded((64, 128), 2), *wide), "even channels and columns")
    rounding = MatMul(activation=Activation("relu"), residual=True, bfloat=True)
    yield Sample(rounding, (seeded((2, 9, 33), 1), seeded((33, 37), 2), *added), "may round its operands")
    parts = replace(rounding, bfloat=False, on_tiles=True)
    yield Sample(parts, (seeded((2, 9, 33), 1), seeded((33, 37), 2), *added), "on tiles")
    linear = MatMul(permute_b=(1, 0))
    yield Sample(linear, (seeded((1, 65), 1), seeded((30, 65), 2), seeded((30,), 3)), "linear, one row")
    for dtype in (np.float16, "bfloat16"):
        half = (seeded((2, 9, 40), 1, dtype), seeded((2, 40, 70), 2, dtype), seeded((70,), 3, dtype))
        yield Sample(MatMul(), half, "half")
        yield Sample(MatMul(), (half[0][0, :1], half[1][0]), "half, one row")
        turned = MatMul(permute_a=(1, 0), permute_b=(1, 0))
        yield Sample(turned, (half[0][0].T.copy(), half[1][0].T.copy()), "half, transposed")


def require_product_type(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype, if matrices of it can be multiplied; DTypeError otherwise."""
    if not is_float(dtype) and dtype.name not in INTEGERS:
        raise DTypeError(f"{op}: type {dtype} is not a float or integer type; cast the inputs first")
    return dtype


def _permuted(what: str, x: TensorType, permutation: tuple[int, ...]) -> StridedMatrices:
    _check_permutation(what, x.rank, permutation)
    return StridedMatrices.of(x.shape, permutation)


def _check_permutation(what: str, rank: int, permutation: tuple[int, ...]) -> None:
    if permutation and sorted(permutation) != list(range(rank)):
        raise ArgumentError(
            f"matmul: permutation {permutation} of {what} does not name its {rank} axes once each"
        )
