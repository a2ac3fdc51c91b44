"""Lowerings of matrix products: shapes and transpositions of operators as layouts in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import is_broadcast
from cenote.core.sizes import is_size, maximum, plain
from cenote.core.target import EMULATED, Target
from cenote.core.types import BFLOAT16, FLOAT32, PLAIN, Array, Layout, TensorType
from cenote.kernels.base import Call, View, constant_of, dense_strides, present
from cenote.kernels.bfloat.product import BfloatProduct, narrow_elements
from cenote.kernels.bfloat.tile_calls import TileCut
from cenote.kernels.constants import constants_of
from cenote.kernels.conv.gemv import gemv_call
from cenote.kernels.cost_model import LAUNCH, bfloat_faster, moved_seconds, peak_seconds, stream_seconds
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.partial_sums import summation_tolerance
from cenote.kernels.parts.rows import PartsProduct
from cenote.kernels.product.calls import Matrix, Product
from cenote.kernels.product.strassen_calls import (
    PixelSteps,
    PixelTensor,
    StrassenProblem,
    strassen_seconds,
    suits,
)
from cenote.kernels.strided_axes import joined_axes, position_count
from cenote.ops.base import Lowering
from cenote.ops.values import ROUNDED_OPERANDS


@dataclass(frozen=True)
class StridedMatrices:
    """A tensor as an operator sees it: extents and steps in elements, matrices in the last two axes."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @staticmethod
    def of(shape: Sequence[int], permutation: Sequence[int] = ()) -> StridedMatrices:
        """Dense memory of this shape, its axes taken in another order."""
        steps, order = dense_strides(shape), permutation or range(len(shape))
        return StridedMatrices(tuple(shape[axis] for axis in order), tuple(steps[axis] for axis in order))

    @staticmethod
    def stored(shape: Sequence[int], permutation: Sequence[int] = ()) -> StridedMatrices:
        """A tensor of this shape whose memory is dense once its axes are taken in another order."""
        order = list(permutation or range(len(shape)))
        dense = dense_strides([shape[axis] for axis in order])
        return StridedMatrices(tuple(shape), tuple(dense[order.index(axis)] for axis in range(len(shape))))

    def over(self, batch: Sequence[int]) -> list[int]:
        """The steps along these batch axes, 0 where it is broadcast."""
        own = list(zip(self.shape[:-2], self.steps[:-2], strict=True))
        missing = len(batch) - len(own)
        return [0] * missing + [
            0 if is_broadcast(extent, wanted) else step
            for (extent, step), wanted in zip(own, batch[missing:], strict=True)
        ]


@dataclass(frozen=True)
class Terms:
    """A product of tensors: activation(alpha A B + bias + beta residual), and where each lies in memory.

    Bias and residual are the numbers of inputs, or constants: `bias` has one number per column, `residual` the shape
    of y or what broadcasts to it, with contiguous columns. `exact`: sums are of shorter chains. `bfloat`: A and a
    constant B may be rounded to bfloat16 where the target multiplies that faster. `on_tiles`: float16 parts of A and a
    constant B may be multiplied on tiles.
    """

    a: StridedMatrices
    b: StridedMatrices
    y: StridedMatrices
    activation: Activation = field(default_factory=Activation)
    alpha: float = 1.0
    beta: float = 1.0
    bias: int | Array | None = None
    residual: int | Array | None = None
    residual_at: StridedMatrices | None = None
    exact: bool = False
    bfloat: bool = False
    on_tiles: bool = False

    def product(self) -> Product:
        """Sizes, steps and batch axes; without memory. Rows of pairs that share B are rows of one product."""
        (m, k), n = self.a.shape[-2:], self.b.shape[-1]
        batch = self.y.shape[:-2]
        zeros = [0] * len(batch)
        r = self.residual_at
        shared = zeros if r is None else r.over(batch)
        steps = [self.a.over(batch), self.b.over(batch), shared, self.y.over(batch)]
        axes = joined_axes(batch, steps)
        a_row, y_row = self.a.steps[-2], self.y.steps[-2]
        r_row = 0 if r is None or is_broadcast(r.shape[-2], m) else r.steps[-2]
        while axes and _is_zero(axes[-1][1][1]):
            extent, (a_step, _, r_step, y_step) = axes[-1]
            one = not is_size(m) and m == 1
            if one:
                a_row, r_row, y_row = a_step, r_step, y_step
            elif (a_step, r_step, y_step) != (m * a_row, m * r_row, m * y_row):
                break
            m = m * extent
            axes.pop()
        nothing = np.zeros(0, np.float32)
        a, b = Matrix(nothing, a_row, self.a.steps[-1]), Matrix(nothing, *self.b.steps[-2:])
        y, residual = Matrix(nothing, y_row, 1), None if r is None else Matrix(nothing, r_row, 1)
        last = (self.activation, self.alpha, self.beta, self.exact)
        return Product(m, n, k, a, b, y, tuple(axes), None, None, residual, *last)


def product_lowerings(
    terms: Terms, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Candidates for a product of float32, float16 or bfloat16 matrices."""
    a, b = present(inputs[0]), present(inputs[1])
    empty = 0 in [extent for extent in (*terms.y.shape, *terms.a.shape[-1:]) if not is_size(extent)]
    positions = math.prod(terms.y.shape[:-2])
    if empty or (not is_size(positions) and positions > limits.MOST_POSITIONS):
        return
    product = terms.product()
    if _is_streamed(terms, product, inputs):
        yield _streamed(terms, product, inputs, target)
        # By panels a column fills one lane of each vector, and rows of a run are copied first: both take 1.3 to 4 times
        # as long.
        if product.m > 1 or b.value is None:
            return
    if terms.bfloat and (target.bfloat or target.tiles.bf16):
        yield from _in_bfloat(terms, product, inputs, target)
    if terms.on_tiles:
        yield from _by_parts(terms, product, inputs, target)
    yield from _by_strassen(terms, product, inputs, target)
    constant = b.value is not None
    temporary: tuple[TensorType, ...] = ()
    if not constant and product.packs(target):
        temporary = (TensorType(FLOAT32, (product.packed_elements(target),)),)
    unread = [
        x
        for x in range(2, len(inputs))
        if all(not isinstance(y, int) or x != y for y in (terms.bias, terms.residual))
    ]
    layouts = _layouts(inputs, [1, *unread] if constant else unread)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        packed = None
        if constant:
            packed = product.panels(target).pack(_in_order(constant_of(views[1]), terms.b))
        bias = views[terms.bias] if isinstance(terms.bias, int) else terms.bias
        residual: View | Array | None = (
            views[terms.residual] if isinstance(terms.residual, int) else terms.residual
        )
        bound = replace(
            product,
            a=replace(product.a, source=present(views[0])),
            b=replace(product.b, source=present(views[1])),
            y=replace(product.y, source=made[0]),
            packed=packed,
            bias=bias,
            residual=None
            if product.residual is None or residual is None
            else replace(product.residual, source=residual),
        )
        return list(bound.calls(target, made[1] if temporary else None))

    seconds = _seconds(product, target, constant)
    tolerance = _tolerance(product.k, a.dtype)
    in_place = (terms.residual,) if isinstance(terms.residual, int) and terms.residual_at == terms.y else ()
    yield Lowering("panels", layouts, (PLAIN,), bind, seconds, tolerance, temporary, in_place)


def _in_order(value: Array, b: StridedMatrices) -> Array:
    """A constant B as the operator sees it, whatever order its axes are stored in."""
    return np.lib.stride_tricks.as_strided(
        np.ascontiguousarray(value), b.shape, [step * value.itemsize for step in b.steps], writeable=False
    )


def _layouts(inputs: Sequence[TensorType | None], repacked: Sequence[int]) -> tuple[Layout | None, ...]:
    return tuple(None if x is None or index in repacked else PLAIN for index, x in enumerate(inputs))


# ---- operands rounded to bfloat16 -----------------------------------------------------------------------------------


def _in_bfloat(
    terms: Terms, product: Product, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Yield the lowerings of float32 rows by a constant matrix, with a constant bias and a residual of y's shape: in
    vectors, and on tile registers."""
    if not _is_linear(terms, product, inputs):
        return
    bias = _bias(terms, inputs)
    memory = TensorType(BFLOAT16, (narrow_elements(product.m, product.k),))

    def problem(value: Array) -> BfloatProduct:
        weights = _in_order(value, terms.b).reshape(product.k, product.n).T
        rows = product.a.row, product.y.row, product.y.row
        return BfloatProduct(product.m, weights, bias, terms.activation, target.bfloat or EMULATED, *rows)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        a, residual = present(views[0]), views[terms.residual] if isinstance(terms.residual, int) else None
        found = problem(constant_of(views[1]))
        if len(made) > 1:
            return [*found.calls(a, made[0], residual, made[1], target)]
        return [*found.tile_calls(a, made[0], residual, target.tiles.bf16, target)]

    constants = [1, *(x for x in range(2, len(inputs)) if x != terms.residual)]
    compute = peak_seconds(2 * product.m * product.n * product.k, target, 0.85 * bfloat_faster(target))
    seconds = maximum(compute, stream_seconds(2 * product.k * product.n)) + moved_seconds(3 * memory.nbytes)
    in_place = (terms.residual,) if isinstance(terms.residual, int) else ()
    vectors = Lowering(
        "panels_bfloat16",
        _layouts(inputs, constants),
        (PLAIN,),
        bind,
        seconds + LAUNCH,
        ROUNDED_OPERANDS,
        (memory,),
        in_place,
    )
    yield vectors
    if target.tiles.bf16:
        shape = problem(present(present(inputs[1]).value)).shape
        y_bytes = 4 * product.m * product.n
        estimate = TileCut.of(shape, target.l2_bytes).seconds(present(inputs[0]).nbytes, y_bytes)
        yield replace(vectors, name="tiles_bfloat16", seconds=estimate, temporaries=())


def _bias(terms: Terms, inputs: Sequence[TensorType | None]) -> Array | None:
    """The constant bias, if there is one."""
    return terms.bias if not isinstance(terms.bias, int) else present(inputs[terms.bias]).value


def _is_linear(terms: Terms, product: Product, inputs: Sequence[TensorType | None]) -> bool:
    """Whether rows of float32 are multiplied by a constant matrix, with a constant bias and a residual of y's shape."""
    known = present(inputs[1]).value is not None
    known = known and (_bias(terms, inputs) is not None or terms.bias is None)
    rows = product.a.column == 1 and not product.axes and (product.alpha, product.beta) == (1, 1)
    whole = terms.residual is None or (isinstance(terms.residual, int) and terms.residual_at == terms.y)
    return bool(known and rows and whole and present(inputs[0]).dtype == FLOAT32 and not terms.exact)


# ---- float16 parts on tiles ------------------------------------------------------------------------------------------


def _by_parts(
    terms: Terms, product: Product, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Yield the lowering of float32 rows by a constant matrix, with a constant bias and a residual of y's shape."""
    if not _is_linear(terms, product, inputs) or not np.isfinite(constant_of(inputs[1])).all():
        return
    bias, way = _bias(terms, inputs), target.tiles.f16 or EMULATED
    sizes = product.m, product.k, product.n
    problem = PartsProduct(*sizes, terms.activation, product.a.row, product.y.row)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        weights = _in_order(constant_of(views[1]), terms.b).reshape(product.k, product.n)
        residual = views[terms.residual] if isinstance(terms.residual, int) else None
        y, *memory = made
        return [*problem.calls(weights.T, bias, way, present(views[0]), y, residual, memory, target)]

    constants = [1, *(x for x in range(2, len(inputs)) if x != terms.residual)]
    in_place = (terms.residual,) if isinstance(terms.residual, int) else ()
    tolerance, layouts = _tolerance(product.k, FLOAT32), _layouts(inputs, constants)
    memory = problem.regions.memory
    yield Lowering("parts", layouts, (PLAIN,), bind, problem.regions.seconds, tolerance, memory, in_place)


# ---- seven products of half matrices ---------------------------------------------------------------------------------


def _by_strassen(
    terms: Terms, product: Product, inputs: Sequence[TensorType | None], target: Target
) -> Iterator[Lowering]:
    """Yield the lowering of float32 rows by a constant matrix, with a constant bias and a residual of y's shape."""
    if not _is_linear(terms, product, inputs):
        return
    weights = _in_order(constant_of(inputs[1]), terms.b).reshape(product.k, product.n).T
    if not suits(weights, target):
        return
    problem = StrassenProblem(1, (1, 1, product.m), weights, _bias(terms, inputs), terms.activation)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        x, y = (PixelSteps(0, target.lanes(), 0, 0, each.row) for each in (product.a, product.y))
        residual = PixelTensor(present(views[terms.residual]), y) if isinstance(terms.residual, int) else None
        return [*problem.calls(PixelTensor(present(views[0]), x), PixelTensor(made[0], y), residual, target)]

    constants = [1, *(x for x in range(2, len(inputs)) if x != terms.residual)]
    in_place = (terms.residual,) if isinstance(terms.residual, int) else ()
    estimate = strassen_seconds(1, product.m, weights, target, _share(product))
    tolerance, layouts = 4 * _tolerance(product.k, FLOAT32), _layouts(inputs, constants)
    yield Lowering("strassen", layouts, (PLAIN,), bind, estimate, tolerance, (), in_place)


# ---- one row or one column: each weight is read once -----------------------------------------------------------------


def _is_streamed(terms: Terms, product: Product, inputs: Sequence[TensorType | None]) -> bool:
    """Whether the product is that of one vector with a matrix whose rows are contiguous, in float32."""
    if any(map(is_size, (product.m, product.n, product.k))) or product.axes or terms.residual is not None:
        return False
    if any(x is not None and x.dtype != np.float32 for x in inputs) or product.alpha != 1:
        return False
    if product.m == 1:
        return product.a.column == 1 and bool(product.b.row == 1)
    return (
        product.n == 1
        and product.a.column == 1
        and product.b.row == 1
        and terms.bias is None
        and (product.y.row == 1)
    )


def _streamed(
    terms: Terms, product: Product, inputs: Sequence[TensorType | None], target: Target
) -> Lowering:
    """Rows of a matrix as they lie: bound by reading them."""
    row = product.m == 1
    n, k = (product.n, product.k) if row else (product.m, product.k)
    matrix, vector = (1, 0) if row else (0, 1)

    def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
        bias: View | Array = np.zeros(n, np.float32)
        if terms.bias is not None:
            bias = present(views[terms.bias]) if isinstance(terms.bias, int) else terms.bias
        x, weights, activation = present(views[vector]), present(views[matrix]), terms.activation
        return [gemv_call(x, weights, bias, made[0], n, k, activation, target, exact=terms.exact)]

    unread = [x for x in range(2, len(inputs)) if not isinstance(terms.bias, int) or x != terms.bias]
    # The stream of bytes begins anew with each row, unless they are near: LeNet's products take 2 % longer by panels.
    starts = n * constants_of(target).row_start if 4 * n * k > target.l2_bytes // 4 else 0.0
    seconds = 0.95 * stream_seconds(4 * n * k) + starts
    return Lowering("rows", _layouts(inputs, unread), (PLAIN,), bind, seconds, _tolerance(k, FLOAT32))


# ---- estimates -------------------------------------------------------------------------------------------------------


def _seconds(product: Product, target: Target, constant: bool) -> float:
    """The slower of arithmetic and memory. A B that is no constant is read once more where it is packed first, and
    written, and once where a chunk is copied at a time (one row by 4,096 columns that are contiguous: 10 ms, 3.9 by
    rows)."""
    images, b_images = position_count(product.axes), position_count(product.b_axes)
    operations = 2 * images * product.m * product.n * product.k
    compute = peak_seconds(operations, target, _share(product))
    read = 4 * b_images * product.k * product.n
    copies = 0 if constant or product.reads_b_in_place() else 2 if product.packs(target) else 1
    return maximum(compute, stream_seconds(read)) + stream_seconds(copies * read)


def _share(product: Product) -> float:
    """The share of the peak that tiles of so many rows reach."""
    return 0.85 if plain(product.m) >= 4 else 0.4


def _tolerance(k: int, dtype: np.dtype[Any]) -> float:
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, 0.0)
    return summation_tolerance(k) + rounding


def _is_zero(step: int) -> bool:
    return not is_size(step) and step == 0
