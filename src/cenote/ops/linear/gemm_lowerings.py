"""Native ways to compute matrix products in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cenote.core import limits
from cenote.core.sizes import maximum, plain
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, constant_of, present
from cenote.kernels.conv.gemm import Matrix, Panels, Product, panel_calls
from cenote.kernels.conv.gemv import gemv_call
from cenote.kernels.cost_model import peak_seconds, stream_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering

MOST_CALLS = 64  # a batch whose matrices lie irregularly takes a call per outer index


class GemmAttributes(Protocol):
    """The attributes of Gemm."""

    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def transpose_a(self) -> bool: ...
    @property
    def transpose_b(self) -> bool: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def stored(self) -> str: ...


@dataclass(frozen=True)
class _Addend:
    """The third matrix of Gemm: a bias per column, or a residual (constant or input `index`) and its shape."""

    bias: Array | None = None
    constant: Array | None = None
    index: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def is_bias(self) -> bool:
        """Nothing, or one number per column."""
        return self.constant is None and self.index is None


def gemm_lowerings(
    op: GemmAttributes, sizes: tuple[int, int, int], inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Candidates for alpha A' B' + beta C; `sizes` are M, N, K. Native unless C is dynamic and beta is not 1."""
    m, n, k = sizes
    addend = _addend(op, inputs, m, n)
    if addend is None or not k or (op.transpose_a and m * k >= 1 << 31):
        return  # kernels hold distances within A in 32 bits
    b = present(inputs[1])
    if m == 1 and b.value is not None and op.transpose_b and op.alpha == 1 and addend.is_bias:
        yield _linear(op, n, k, inputs, addend, target)
    panels = Panels.cut(m, n, k, target)
    constant = b.value is not None
    layouts: list[Layout | None] = [PLAIN, None if constant else PLAIN]
    if len(inputs) > 2:
        layouts.append(PLAIN if addend.index is not None else None)
    temporary = () if constant else (TensorType(FLOAT32, (panels.size,)),)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        a, y = _matrix(views[0], op.transpose_a), _matrix(made[0], False)
        calls: list[Call] = []
        packed = None
        if constant:
            value = constant_of(views[1])
            matrix = value.T if op.transpose_b else value
            packed = panels.pack(matrix if op.alpha == 1 else matrix * np.float32(op.alpha))
        else:
            calls += panel_calls(panels, _matrix(views[1], op.transpose_b), made[1], 1, op.alpha)
        residual = None
        if addend.constant is not None:
            residual = Matrix(addend.constant, 0, n, 1)
        elif addend.index is not None:
            view = present(views[addend.index])
            strides = (0, 0, *view.strides)[-2:]
            residual = Matrix(view, 0, strides[0] if view.type.rank == 2 and view.shape[0] == m else 0, 1)
        weights = made[1] if packed is None else packed
        product = Product(1, m, a, y, weights, panels, True, addend.bias, residual, op.activation)
        return [*calls, *product.calls(target)]

    yield Lowering(
        "panels",
        tuple(layouts),
        (PLAIN,),
        bind,
        _seconds(1, m, n, k, target, not constant),
        _tolerance(k),
        temporary,
    )


def _linear(
    op: GemmAttributes, n: int, k: int, inputs: Sequence[TensorType | None], addend: _Addend, target: Target
) -> Lowering:
    """One row of A against constant rows of B as they lie: bound by reading the weights."""

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        x, weights = present(views[0]), present(views[1])
        bias = np.zeros(n, np.float32) if addend.bias is None else addend.bias
        stored: View | Array = weights
        if op.stored:
            stored = constant_of(weights).astype(np.dtype(op.stored))
        return [gemv_call(x, stored, bias, made[0], n, k, op.activation)]

    width = np.dtype(op.stored or np.float32).itemsize
    layouts = (PLAIN, None if op.stored else PLAIN, *(None,) * (len(inputs) - 2))
    error = {4: 0.0, 2: 2.0**-8}[width]
    return Lowering(
        "rows", layouts, (PLAIN,), bind, 0.95 * stream_seconds(width * n * k), _tolerance(k) + error
    )


def _addend(op: GemmAttributes, inputs: Sequence[TensorType | None], m: int, n: int) -> _Addend | None:
    """C as the kernel can add it; None where it cannot."""
    c = inputs[2] if len(inputs) > 2 else None
    if c is None:
        return _Addend()
    if c.value is not None:
        value = (c.value * np.float32(op.beta)).astype(np.float32)
        if value.ndim < 2 or value.shape[0] == 1:
            return _Addend(bias=np.broadcast_to(value.reshape(-1) if value.ndim else value, (n,)).copy())
        return _Addend(constant=np.broadcast_to(value, (m, n)).copy())
    if op.beta != 1 or c.rank == 0 or c.shape[-1] != n:
        return None
    return _Addend(index=2, shape=c.shape)


def _matrix(view: View | None, transposed: bool) -> Matrix:
    view = present(view)
    row, column = view.strides[::-1] if transposed else view.strides
    return Matrix(view, 0, row, column)


def matmul_lowerings(
    inputs: Sequence[TensorType | None], y: TensorType, target: Target
) -> Iterator[Lowering]:
    """Candidates for a batched product: panels of a constant B, or of B packed when the program runs."""
    a, b = present(inputs[0]), present(inputs[1])
    if not a.shape[-1] or not y.size or math.prod(y.shape[:-2]) > limits.MOST_POSITIONS:
        return
    batch = Batch.of(a.shape, b.shape)
    if len(batch.outer) > MOST_CALLS:
        return
    panels = Panels.cut(batch.m, batch.n, batch.k, target)
    constant = b.value is not None and batch.b_images == 1
    temporary = () if constant else (TensorType(FLOAT32, (batch.b_images, panels.size)),)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        left, right = present(views[0]), present(views[1])
        calls: list[Call] = []
        packed = panels.pack(constant_of(right).reshape(batch.k, batch.n)) if constant else None
        if packed is None:
            source = Matrix(right, batch.k * batch.n, batch.n, 1)
            calls += panel_calls(panels, source, made[1], batch.b_images, 1.0)
        for a_first, b_first, y_first in batch.outer:
            weights: View | Array = packed if packed is not None else made[1].at(b_first * panels.size)
            product = Product(
                batch.images, batch.m, Matrix(left.at(a_first * batch.m * batch.k), batch.a_step, batch.k, 1),
                Matrix(made[0].at(y_first * batch.m * batch.n), batch.m * batch.n, batch.n, 1),
                weights, panels, batch.b_step == 0, None, None, Activation(),
            )  # fmt: skip
            calls += product.calls(target)
        return calls

    yield Lowering(
        "panels",
        (PLAIN, None if constant else PLAIN),
        (PLAIN,),
        bind,
        _seconds(batch.images * len(batch.outer), batch.m, batch.n, batch.k, target, not constant),
        _tolerance(batch.k),
        temporary,
    )


@dataclass(frozen=True)
class Batch:
    """A batched product as calls of `images` products each.

    A step of 0 means that all images of a call share the matrix. `outer` lists, per call, how many whole
    matrices of A, B and y come before it. When all images share B, they and their rows are one tall matrix.
    """

    m: int
    n: int
    k: int
    images: int
    a_step: int
    b_step: int
    b_images: int
    outer: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(a: tuple[int, ...], b: tuple[int, ...]) -> Batch:
        """From the shapes that NumPy's matmul takes."""
        a = (1, *a) if len(a) == 1 else a
        b = (*b, 1) if len(b) == 1 else b
        m, k, n = a[-2], a[-1], b[-1]
        b_images = math.prod(b[:-2])
        if b_images == 1:
            return Batch(m * math.prod(a[:-2]), n, k, 1, 0, 0, 1, ((0, 0, 0),))
        if a[:-2] == b[:-2]:
            return Batch(m, n, k, b_images, m * k, 1, b_images, ((0, 0, 0),))
        shape = np.broadcast_shapes(a[:-2], b[:-2])
        left = np.broadcast_to(np.arange(math.prod(a[:-2])).reshape(a[:-2]), shape).ravel()
        right = np.broadcast_to(np.arange(b_images).reshape(b[:-2]), shape).ravel()
        inner = _regular_run(left, right)
        a_step = int(left[1] - left[0]) if inner > 1 else 0
        b_step = int(right[1] - right[0]) if inner > 1 else 0
        outer = tuple((int(left[i]), int(right[i]), i) for i in range(0, left.size, inner))
        return Batch(m, n, k, inner, a_step * m * k, b_step, b_images, outer)


def _regular_run(left: Array, right: Array) -> int:
    """The most images, dividing all, in whose runs A's and B's matrices advance by constant steps of 0 or 1."""
    total = left.size
    for size in range(total, 1, -1):
        if total % size:
            continue
        rows = [x.reshape(-1, size) for x in (left, right)]
        steps = [np.diff(x, axis=1) for x in rows]
        if (
            all((step == step.flat[0]).all() and step.flat[0] in (0, 1) for step in steps)
            and steps[1].flat[0]
        ):
            return size
    return 1


def _seconds(images: int, m: int, n: int, k: int, target: Target, packs: bool) -> float:
    """The slower of arithmetic and memory; packing writes and reads B once more."""
    compute = peak_seconds(2 * images * m * n * k, target, 0.85 if plain(m) >= 4 else 0.4)
    return maximum(compute, stream_seconds(4 * images * k * n)) + (
        stream_seconds(8 * images * k * n) if packs else 0.0
    )


def _tolerance(k: int) -> float:
    return 2e-6 + 2e-7 * math.sqrt(plain(k))
