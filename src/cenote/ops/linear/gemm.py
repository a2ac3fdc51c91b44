"""Gemm: the product of two matrices, a scaled and broadcast third added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import Array, TensorType, is_float
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Arrays, Box, Lowering, Sample, Types
from cenote.ops.checks import broadcast_shapes, read, require_same_dtype
from cenote.ops.epilogue import Fusible
from cenote.ops.linear.matmul import require_product_type
from cenote.ops.linear.product_lowerings import StridedMatrices, Terms, product_lowerings
from cenote.ops.values import narrow, seeded, wide


@dataclass(frozen=True)
class Gemm(Fusible):
    """activation(alpha * A' B' + beta * C) with A' of (M, K), B' of (K, N); A' is A or its transpose.

    C is optional and broadcasts to (M, N) by NumPy's rules. `exact`: chains of additions have 32 terms, not 256.
    `bfloat`: A and a constant B may be rounded to bfloat16 where the target multiplies that faster; sums are float32.
    `on_tiles`: float16 parts of A and a constant B may be multiplied on tiles.
    Types: floats, or integers, which wrap around; then alpha and beta must be whole numbers to be exact.
    """

    alpha: float = 1.0
    beta: float = 1.0
    transpose_a: bool = False
    transpose_b: bool = False
    activation: Activation = field(default_factory=Activation)
    exact: bool = False
    bfloat: bool = False
    on_tiles: bool = False

    name = "gemm"
    operands = ("A", "B", "C?")
    from_onnx = {
        "Gemm": lambda node: read(Gemm, node, "alpha", "beta", transpose_a="transA", transpose_b="transB")
    }

    def sizes(self, a: TensorType, b: TensorType) -> tuple[int, int, int]:
        """M, N, K."""
        if a.rank != 2 or b.rank != 2:
            raise ShapeError(f"gemm: A {a} and B {b} must be matrices; use MatMul for other ranks")
        m, k = a.shape[::-1] if self.transpose_a else a.shape
        inner, n = b.shape[::-1] if self.transpose_b else b.shape
        if k != inner:
            raise ShapeError(
                f"gemm: A {a}{' transposed' * self.transpose_a} has {k} columns, "
                f"B {b}{' transposed' * self.transpose_b} has {inner} rows"
            )
        return m, n, k

    def types(self, a: TensorType, b: TensorType, c: TensorType | None) -> Types:
        require_product_type("gemm", require_same_dtype("gemm", a, b, c))
        m, n, _ = self.sizes(a, b)
        if c is not None and (c.rank > 2 or broadcast_shapes("gemm", c.shape, (m, n)) != (m, n)):
            raise ShapeError(f"gemm: C {c} does not broadcast to the product's shape [{m},{n}]")
        return (TensorType(a.dtype, (m, n)),)

    def compute(self, a: Array, b: Array, c: Array | None) -> Arrays:
        y = np.matmul(wide(a.T if self.transpose_a else a), wide(b.T if self.transpose_b else b))
        y = y if self.alpha == 1 else y * self.alpha
        if c is not None:
            y = y + (wide(c) if self.beta == 1 else wide(c) * self.beta)
        return (narrow(self.activation.apply(y), a.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        a, b, c = self.arranged(inputs)
        if not is_float(a.dtype) or a.dtype == np.float64:
            return
        turn = ((0, 1), (1, 0))
        left = StridedMatrices.of(a.shape, turn[self.transpose_a])
        right = StridedMatrices.of(b.shape, turn[self.transpose_b])
        y, how = StridedMatrices.of(self.infer(*inputs)[0].shape), self.activation
        terms = Terms(
            left,
            right,
            y,
            how,
            self.alpha,
            self.beta,
            exact=self.exact,
            bfloat=self.bfloat,
            on_tiles=self.on_tiles,
        )
        added = _with_c(terms, c)
        if added is not None:
            yield from product_lowerings(added, inputs, target)

    def operations(self, outputs: Types, a: TensorType, b: TensorType, c: TensorType | None) -> int:
        extra = sum((c is not None, not self.activation.is_identity))
        return (2 * self.sizes(a, b)[2] + extra) * outputs[0].size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        a, b, _ = self.arranged(inputs)
        rows, columns = box.ranges
        inner = (0, self.sizes(a, b)[2])
        boxes: list[Box | None] = [
            Box((inner, rows) if self.transpose_a else (rows, inner)),
            Box((columns, inner) if self.transpose_b else (inner, columns)),
        ]
        if len(inputs) > 2:
            c = inputs[2]
            boxes.append(None if c is None else Box(_broadcast_ranges(c.shape, box.ranges)))
        return tuple(boxes)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Gemm:
        return self

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        relu = Activation("relu")
        linear = Gemm(transpose_b=True)
        yield Sample(linear, (seeded((1, 400), 1), seeded((121, 400), 2), seeded((121,), 3)), "linear")
        yield Sample(
            Gemm(transpose_b=True, activation=relu),
            (seeded((3, 65), 1), seeded((40, 65), 2), None),
            "small batch",
        )
        yield Sample(Gemm(), (seeded((37, 50), 1), seeded((50, 45), 2), seeded((37, 45), 3)), "full C")
        yield Sample(
            Gemm(0.5, 2.0, True, True),
            (seeded((33, 20), 1), seeded((19, 33), 2), seeded((20, 1), 3)),
            "column C",
        )
        yield Sample(Gemm(beta=0.25), (seeded((1, 7), 1), seeded((7, 5), 2), seeded((), 3)), "scalar C")
        yield Sample(Gemm(transpose_a=True), (seeded((5, 130), 1), seeded((5, 70), 2)), "no C")
        yield Sample(Gemm(), (seeded((0, 4), 1), seeded((4, 3), 2), seeded((3,), 3)), "no rows")
        yield Sample(Gemm(), (seeded((2, 0), 1), seeded((0, 3), 2), seeded((3,), 3)), "empty sum")
        for rows in (8, 3, 1):
            weights = seeded((rows, 203), 2)
            yield Sample(
                Gemm(transpose_b=True, activation=relu), (seeded((1, 203), 1), weights), "few columns"
            )
        integers = (seeded((4, 6), 1, np.int64), seeded((6, 5), 2, np.int64), seeded((5,), 3, np.int64))
        yield Sample(Gemm(), integers, "int64")


def _with_c(terms: Terms, c: TensorType | None) -> Terms | None:
    """The terms with Gemm's third matrix; None where no kernel adds it (a column that is known at run time only)."""
    if c is None:
        return terms
    m, n = terms.y.shape
    row = c.rank < 2 or (not is_size(c.shape[0]) and c.shape[0] == 1)
    if c.value is not None:
        value = np.asarray(wide(c.value) * terms.beta, c.dtype)
        if row:
            return replace(terms, bias=np.broadcast_to(value.reshape(-1), (n,)).copy())
        at = StridedMatrices.of((m, n))
        return replace(terms, beta=1.0, residual=np.broadcast_to(value, (m, n)).copy(), residual_at=at)
    if c.rank == 0 or c.shape[-1] != n:
        return None
    if row and terms.beta == 1:
        return replace(terms, bias=2)
    return replace(terms, residual=2, residual_at=StridedMatrices.of(c.shape if c.rank == 2 else (1, n)))


def _broadcast_ranges(
    shape: tuple[int, ...], ranges: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """The part of a broadcast operand that a box of the result needs."""
    matching = ranges[len(ranges) - len(shape) :]
    return tuple((0, 1) if extent == 1 else span for extent, span in zip(shape, matching, strict=True))
