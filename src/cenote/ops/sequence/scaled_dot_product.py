"""Scaled dot product attention as kernels compute it: what Attention and the pieces of exporters become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, PLAIN, Array, TensorType, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import peak_seconds, stream_seconds
from cenote.kernels.product.attention_calls import AttentionProblem
from cenote.kernels.strided_axes import joined_axes, position_count
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import BOOL, broadcast_shapes, require_float, require_same_dtype
from cenote.ops.linear.product_lowerings import StridedMatrices
from cenote.ops.values import narrow, seeded, wide

_LARGEST_HEAD = 512


@dataclass(frozen=True)
class ScaledDotProduct(Op):
    """softmax(scale * Q K' + mask) V with Q (..., queries, size), K (..., keys, size), V (..., keys, columns).

    The axes before the last two broadcast. Q, K and V are the operands with their axes in the orders `permute_q`,
    `permute_k`, `permute_v` (empty: as they are), the result is stored with its axes in the order `permute_y`. The mask
    (bool: what to attend, or float: added) broadcasts to (..., queries, keys). `causal`: query i attends keys up to
    i + offset. A query that attends no key gives zeros with `zeros`, else NaN. `nan_to_zero`: what the softmax gives as
    NaN counts as zero, be it for want of keys or since a score is NaN or infinite; implies `zeros`.
    """

    scale: float = 1.0
    causal: bool = False
    offset: int = 0
    zeros: bool = False
    nan_to_zero: bool = False
    permute_q: tuple[int, ...] = ()
    permute_k: tuple[int, ...] = ()
    permute_v: tuple[int, ...] = ()
    permute_y: tuple[int, ...] = ()

    name = "scaled_dot_product"
    operands = ("q", "k", "v", "mask?")

    def reordered(self, index: int, order: tuple[int, ...]) -> ScaledDotProduct | None:
        """The operator for input `index` given with its axes in this order; None where it has no choice."""
        if index > 2:
            return None
        taken = (self.permute_q, self.permute_k, self.permute_v)[index] or range(len(order))
        orders = [self.permute_q, self.permute_k, self.permute_v]
        orders[index] = tuple(order.index(axis) for axis in taken)
        return replace(self, permute_q=orders[0], permute_k=orders[1], permute_v=orders[2])

    def arrangement(
        self, q: TensorType, k: TensorType, v: TensorType
    ) -> tuple[StridedMatrices, StridedMatrices, StridedMatrices, tuple[int, ...]]:
        """Q, K and V, and the result's shape before `permute_y`."""
        if min(q.rank, k.rank, v.rank) < 2:
            raise ShapeError(f"{self.name}: Q {q}, K {k} and V {v} must have at least two axes")
        left, keys = StridedMatrices.of(q.shape, self.permute_q), StridedMatrices.of(k.shape, self.permute_k)
        values = StridedMatrices.of(v.shape, self.permute_v)
        if left.shape[-1] != keys.shape[-1] or keys.shape[-2] != values.shape[-2]:
            raise ShapeError(f"{self.name}: Q {q}, K {k} and V {v} do not fit each other")
        batch = broadcast_shapes(self.name, left.shape[:-2], keys.shape[:-2], values.shape[:-2])
        return left, keys, values, (*batch, left.shape[-2], values.shape[-1])

    def types(self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None) -> Types:
        require_float(self.name, require_same_dtype(self.name, q, k, v))
        _, keys, _, full = self.arrangement(q, k, v)
        if mask is not None:
            if mask.dtype != BOOL and not is_float(mask.dtype):
                raise DTypeError(f"{self.name}: the mask is {mask.dtype}; it must be bool or float")
            scores = (*full[:-1], keys.shape[-2])
            if broadcast_shapes(self.name, mask.shape, scores) != scores:
                raise ShapeError(f"{self.name}: mask {mask} does not broadcast to {list(scores)}")
        return (TensorType(q.dtype, tuple(full[axis] for axis in self.permute_y or range(len(full)))),)

    def compute(self, q: Array, k: Array, v: Array, mask: Array | None) -> Arrays:
        queries, keys, values = (
            wide(x.transpose(order) if order else x)
            for x, order in ((q, self.permute_q), (k, self.permute_k), (v, self.permute_v))
        )
        scores = queries @ keys.swapaxes(-1, -2) * self.scale
        if mask is not None:
            scores = scores + (np.where(mask, 0.0, -np.inf) if mask.dtype == BOOL else wide(mask))
        if self.causal:
            ahead = np.arange(scores.shape[-1]) - np.arange(scores.shape[-2])[:, None]
            scores = np.where(ahead <= self.offset, scores, -np.inf)
        largest = scores.max(-1, keepdims=True, initial=-np.inf)
        powers = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
        total = powers.sum(-1, keepdims=True)
        weights = powers / np.where((total == 0) & self.zeros, 1.0, total)
        if self.nan_to_zero:
            weights = np.where(np.isnan(weights), 0.0, weights)
        y = weights @ values
        return (narrow(y.transpose(self.permute_y) if self.permute_y else y, q.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        q, k, v, mask = self.arranged(inputs)
        problem = self._problem(q, k, v, mask)
        if q.dtype == np.float64 or problem is None:
            return
        sizes = problem.packed_elements(target)
        temporaries = tuple(TensorType(FLOAT32, (size,)) for size in sizes)

        def bind(views: Sequence[View | None], made: Sequence[View]) -> Sequence[Call]:
            given = [present(view) for view in views[:3]]
            closed = views[3] if len(views) > 3 else None
            return list(problem.calls(given[0], given[1], given[2], closed, made[0], made[1:], target))

        products = position_count(problem.axes) * problem.queries * problem.keys
        seconds = peak_seconds(2 * products * (problem.depth + problem.columns), target, 0.7)
        seconds = seconds + products * 4e-11 + stream_seconds(8 * sum(sizes))
        rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(q.dtype.name, 0.0)
        layouts = tuple(None if x is None else PLAIN for x in inputs)
        yield Lowering("bands", layouts, (PLAIN,), bind, seconds, 5e-6 + rounding, temporaries)

    def _problem(
        self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None
    ) -> AttentionProblem | None:
        """The kernel's problem for operands of these types; None if the kernel cannot compute it."""
        queries, keys, values, full = self.arrangement(q, k, v)
        depth = queries.shape[-1]
        if is_size(depth) or not 0 < depth <= _LARGEST_HEAD or is_size(full[-1]) or queries.steps[-1] != 1:
            return None
        if 0 in [extent for extent in (*full, keys.shape[-2]) if not is_size(extent)]:
            return None
        inverse = tuple(self.permute_y.index(axis) for axis in range(len(full))) if self.permute_y else ()
        y = (
            StridedMatrices.of([full[axis] for axis in self.permute_y], inverse)
            if inverse
            else StridedMatrices.of(full)
        )
        if y.steps[-1] != 1:
            return None
        batch = full[:-2]
        closed, mask_row = [0] * len(batch), 0
        if mask is not None:
            if not mask.rank or mask.shape[-1] != keys.shape[-2] or mask.dtype == np.float64:
                return None
            rows = StridedMatrices.of((1, *mask.shape) if mask.rank == 1 else mask.shape)
            closed = rows.over(batch)
            mask_row = 0 if rows.shape[-2] == 1 else rows.steps[-2]
        positions = position_count([(extent, []) for extent in batch])
        if not is_size(positions) and positions > limits.MOST_POSITIONS:
            return None
        steps = [queries.over(batch), keys.over(batch), values.over(batch), closed, y.over(batch)]
        return AttentionProblem(
            full[-2],
            keys.shape[-2],
            depth,
            full[-1],
            queries.steps[-2],
            keys.steps[-2],
            keys.steps[-1],
            values.steps[-2],
            values.steps[-1],
            y.steps[-2],
            mask_row,
            tuple(joined_axes(batch, steps)),
            self.scale,
            self.causal,
            self.offset,
            self.zeros,
            self.nan_to_zero,
            q.dtype,
        )

    def operations(
        self, outputs: Types, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None
    ) -> int:
        queries, keys, _, full = self.arrangement(q, k, v)
        rows = maximum(1, position_count([(extent, []) for extent in full[:-1]]))
        return 2 * rows * keys.shape[-2] * (queries.shape[-1] + full[-1])

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        q, k, v = seeded((2, 3, 13, 16), 1), seeded((2, 3, 21, 16), 2), seeded((2, 3, 21, 24), 3)
        yield Sample(cls(0.25), (q, k, v), "heads")
        yield Sample(cls(0.25, causal=True), (q, k, v), "causal")
        yield Sample(cls(0.25), (q, k, v, seeded((13, 21), 4)), "mask added")
        shut = seeded((2, 1, 13, 21), 4, np.bool_)
        shut[0, 0, 3] = False
        yield Sample(cls(0.25, zeros=True), (q, k, v, shut), "mask")
        yield Sample(cls(0.25, zeros=True, causal=True, offset=-2), (q, k, v), "queries without keys")
        yield Sample(cls(0.25, nan_to_zero=True), (q, k, v, shut), "queries without keys, cleared")
        rows = (seeded((2, 13, 3, 16), 1), seeded((2, 150, 3, 16), 2), seeded((2, 150, 3, 24), 3))
        order = (0, 2, 1, 3)
        permuted = cls(0.25, permute_q=order, permute_k=order, permute_v=order, permute_y=order)
        yield Sample(permuted, rows, "axes in another order")
        shared = (seeded((2, 2, 3, 5, 33), 1), seeded((2, 2, 1, 300, 33), 2), seeded((2, 2, 1, 300, 7), 3))
        yield Sample(cls(0.2), shared, "shared keys, odd sizes")
        yield Sample(cls(), (seeded((1, 8), 1), seeded((9, 8), 2), seeded((9, 100), 3)), "one query")
        for count, size, columns in ((1, 64, 64), (3, 70, 33), (4, 5, 100), (2, 128, 7)):
            rows = (
                seeded((2, 3, count, size), 1),
                seeded((2, 3, 77, size), 2),
                seeded((2, 3, 77, columns), 3),
            )
            yield Sample(cls(0.1), rows, "few queries")
            yield Sample(cls(0.1, causal=True, offset=40, zeros=True), rows, "few queries, causal")
            yield Sample(cls(0.1, causal=True, offset=-2, zeros=True), rows, "few queries, few keys")
            yield Sample(cls(0.1), (*rows, seeded((2, 1, count, 77), 4)), "few queries, mask added")
            yield Sample(cls(0.1, zeros=True), (*rows, seeded((77,), 4, np.bool_)), "few queries, mask")
            yield Sample(cls(0.1), tuple(x.astype(np.float16) for x in rows), "few queries, half")
        yield Sample(
            cls(0.1, permute_k=(0, 1, 3, 2)), (rows[0], rows[1].swapaxes(2, 3).copy(), rows[2]), "few"
        )
        yield Sample(
            cls(), (seeded((9, 8), 1), seeded((197, 8), 2), seeded((197, 100), 3)), "a vector too many"
        )
        half = tuple(x.astype(np.float16) for x in (q, k, v))
        yield Sample(cls(0.25), half, "half")
        yield Sample(cls(), (seeded((0, 3, 4), 1), seeded((0, 2, 4), 2), seeded((0, 2, 4), 3)), "empty")
