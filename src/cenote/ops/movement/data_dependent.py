"""Operators whose output's size depends on the content: NonZero, Unique, Compress; and OneHot, ReverseSequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy
from cenote.kernels.selection.one_hot import one_hot_call, one_hot_rows
from cenote.kernels.sequence.reverse import reverse_call
from cenote.ops.base import Arrays, Bind, Check, Lowering, Op, OpenShape, Sample, Types
from cenote.ops.checks import int64s, known, normalize_axis, read, require_kind
from cenote.ops.movement.compaction import WORTH_KERNELS, chosen, coordinates, is_number, sorting
from cenote.ops.movement.index_lowerings import noted, places_of, rule_of
from cenote.ops.values import seeded, wide
from cenote.runtime.arrays import dense


@dataclass(frozen=True)
class NonZero(Op):
    """The coordinates of the elements that are not zero, as int64 (rank, count) in row-major order."""

    name = "non_zero"
    operands = ("x",)
    from_onnx = {"NonZero": lambda node: read(NonZero, node)}

    def types(self, x: TensorType) -> Types:
        return self.shape_from_data(x)

    def open_shapes(self, x: TensorType) -> tuple[OpenShape, ...]:  # type: ignore[override]  # an argument per operand
        return ((x.rank, None),)

    def compute(self, x: Array) -> Arrays:
        if x.ndim == 0:  # no coordinates, one column if it is not zero
            return (np.zeros((0, int(bool(x))), np.int64),)
        return (np.array(np.nonzero(wide(x)), np.int64).reshape(x.ndim, -1),)

    def run_on_host(self, threads: int, x: Array) -> Arrays:  # type: ignore[override]  # an argument per operand
        if x.size < WORTH_KERNELS or not is_number(x.dtype):
            return self.reference(x)
        return (np.ascontiguousarray(coordinates(dense(x), threads).T),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(NonZero(), (np.array([[1, 0], [1, 1]], np.bool_),))
        yield Sample(NonZero(), (np.array([0.0, -0.0, np.nan, 2.0], np.float32),))
        yield Sample(NonZero(), (np.zeros((2, 3), np.int64),), "nothing")
        yield Sample(NonZero(), (np.array(3, np.int64),), "scalar")
        yield Sample(NonZero(), (seeded((0, 2)),))


@dataclass(frozen=True)
class Unique(Op):
    """The different elements, or slices along an axis: sorted, or in the order they are met.

    Further outputs (`count` says how many in all, 1 to 4): where each is first met, which one each element
    is, and how often each occurs (int64 lists). NaN equals NaN and is last.
    """

    axis: int | None = None
    sorted: bool = True
    count: int = 1

    name = "unique"
    operands = ("x",)
    from_onnx = {"Unique": lambda node: read(Unique, node, "axis", "sorted", counted="count")}

    def types(self, x: TensorType) -> Types:
        if self.axis is not None:
            normalize_axis(self.name, self.axis, x.rank)
        return self.shape_from_data(x)

    def open_shapes(self, x: TensorType) -> tuple[OpenShape, ...]:  # type: ignore[override]  # an argument per operand
        if self.axis is None:
            return ((None,), (None,), (x.size,), (None,))[: self.count]
        axis = normalize_axis(self.name, self.axis, x.rank)
        found = (*x.shape[:axis], None, *x.shape[axis + 1 :])
        return (found, (None,), (x.shape[axis],), (None,))[: self.count]

    def compute(self, x: Array) -> Arrays:
        _, first, inverse, counts = np.unique(
            wide(x), return_index=True, return_inverse=True, return_counts=True, axis=self.axis
        )
        inverse = inverse.reshape(-1)
        if not self.sorted:
            order = np.argsort(first, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            first, inverse, counts = first[order], place[inverse], counts[order]
        y = x.reshape(-1)[first] if self.axis is None else np.take(x, first, self.axis)
        return (y, *(part.astype(np.int64) for part in (first, inverse, counts)))[: self.count]

    def run_on_host(self, threads: int, x: Array) -> Arrays:  # type: ignore[override]  # an argument per operand
        sort = None
        if is_number(x.dtype) and x.size >= WORTH_KERNELS and (self.axis is None or x.ndim == 1):
            sort = sorting(x.dtype, x.size, threads)
        if sort is None:
            return self.reference(x)
        flat = dense(x).reshape(-1)
        values, places = sort([flat], None)
        begins = np.empty(x.size, np.bool_)
        begins[0] = True
        np.not_equal(values[1:], values[:-1], out=begins[1:])
        if x.dtype.kind not in "iub":  # numbers that are no number, which come last, are equal here
            begins[1:] &= ~np.isnan(values[:-1])
        starts = coordinates(begins, threads).reshape(-1)
        first, counts = places[starts], np.diff(starts, append=x.size)
        order = None if self.sorted else np.argsort(first)
        if order is not None:
            first, counts = first[order], counts[order]
        y = flat[first]
        if self.count < 3:
            return (y, first)[: self.count]
        group = np.cumsum(begins) - 1
        if order is not None:
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            group = place[group]
        inverse = np.empty(x.size, np.int64)
        inverse[places] = group
        return (y, first, inverse, counts)[: self.count]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x = np.array([2.0, 1, 1, 3, 4, 3], np.float32)
        rows = np.array([[1, 0, 0], [2, 3, 4], [1, 0, 0]], np.int64)
        for ascending in (True, False):
            yield Sample(Unique(None, ascending, 4), (x,))
            yield Sample(Unique(0, ascending, 4), (rows,))
            yield Sample(Unique(-1, ascending, 2), (rows,))
        yield Sample(Unique(), (rows,), "values alone")
        yield Sample(Unique(count=4), (seeded((0,)),))


@dataclass(frozen=True)
class Compress(Op):
    """The slices along an axis (or the elements of the flattened data) where the condition holds.

    The condition may be shorter than the axis: what lies beyond it is dropped.
    """

    axis: int | None = None

    name = "compress"
    operands = ("x", "condition")
    from_onnx = {"Compress": lambda node: read(Compress, node, "axis")}

    def types(self, x: TensorType, condition: TensorType) -> Types:
        axis = None if self.axis is None else normalize_axis(self.name, self.axis, x.rank)
        extent = x.size if axis is None else x.shape[axis]
        if require_kind(self.name, condition, "b", "condition").rank != 1 or condition.size > extent:
            raise ShapeError(f"compress: condition {condition} must be a list of at most {extent} values")
        if condition.value is None:
            return self.shape_from_data(condition)
        count = int(np.count_nonzero(condition.value))
        shape = (count,) if axis is None else (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return (TensorType(x.dtype, shape),)

    def open_shapes(self, x: TensorType, condition: TensorType) -> tuple[OpenShape, ...]:  # type: ignore[override]  # an argument per operand
        if self.axis is None:
            return ((None,),)
        axis = normalize_axis(self.name, self.axis, x.rank)
        return ((*x.shape[:axis], None, *x.shape[axis + 1 :]),)

    def compute(self, x: Array, condition: Array) -> Arrays:
        return (np.compress(condition, x, self.axis),)

    def run_on_host(self, threads: int, x: Array, condition: Array) -> Arrays:  # type: ignore[override]  # an argument per operand
        flat = self.axis is None or x.ndim == 1
        if not flat or condition.size < WORTH_KERNELS or not is_number(x.dtype) or x.dtype.itemsize > 8:
            return self.reference(x, condition)
        return (chosen(dense(x).reshape(-1)[: condition.size], dense(condition), threads),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(Compress(0), (seeded((3, 2)), np.array([False, True, True])))
        yield Sample(Compress(-1), (seeded((3, 2)), np.array([False, True])))
        yield Sample(
            Compress(), (seeded((3, 2), dtype=np.int8), np.array([False, True, False, True])), "flattened"
        )
        yield Sample(Compress(1), (seeded((0, 2)), np.array([True])))


@dataclass(frozen=True)
class OneHot(Op):
    """values[1] where the new axis (of extent `depth`) meets the index, values[0] elsewhere.

    Negative indices count from the end; one outside the axis gives values[0] all along it. Indices of other types
    are truncated to int64 first. `invalid` and `negative` as in Gather, "zero" by default; there an index is outside.
    """

    axis: int = -1
    invalid: str = "zero"
    negative: bool = True

    name = "one_hot"
    operands = ("indices", "depth", "values")
    from_onnx = {"OneHot": lambda node: read(OneHot, node, "axis")}

    def types(self, indices: TensorType, depth: TensorType, values: TensorType) -> Types:
        require_kind(self.name, indices, "iuf", "indices")
        axis = normalize_axis(self.name, self.axis, indices.rank + 1)
        if require_kind(self.name, depth, "iuf", "depth").size != 1 or values.shape != (2,):
            raise ShapeError(f"one_hot: depth {depth} must hold one number, values {values} two")
        extent = int(known(depth, 1).item())
        if extent < 0:
            raise ArgumentError(f"one_hot: depth {extent} is negative")
        return (TensorType(values.dtype, (*indices.shape[:axis], extent, *indices.shape[axis:])),)

    def compute(self, indices: Array, depth: Array, values: Array) -> Arrays:
        axis, extent = normalize_axis(self.name, self.axis, indices.ndim + 1), int(depth.item())
        rule = rule_of(self.name, self.invalid, self.negative)
        places, valid = places_of(self.name, indices.astype(np.int64), extent, rule)
        classes = np.arange(extent).reshape((extent,) + (1,) * (indices.ndim - axis))
        hit = (np.expand_dims(places, axis) == classes) & np.expand_dims(valid, axis)
        return (np.where(hit, values[1], values[0]),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        indices, depth, values = (present(kind) for kind in inputs)
        if indices.dtype.kind not in "iu" or not can_copy(values.dtype) or not indices.size:
            return
        axis, extent = normalize_axis(self.name, self.axis, indices.rank + 1), int(known(depth, 1).item())
        rule = rule_of(self.name, self.invalid, self.negative)
        outer, inner = prod(indices.shape[:axis]), prod(indices.shape[axis:])
        rows, step = one_hot_rows(outer, extent, inner)
        found, check = noted(self.name, indices, -(-rows // step), (extent,), rule)

        call = partial(one_hot_call, outer=outer, depth=extent, inner=inner, rule=rule)
        seconds = pass_seconds(indices.size * extent * values.dtype.itemsize)
        yield Lowering.of_call(
            "fill", (PLAIN, None, PLAIN), (PLAIN,), call, seconds, 0.0, (found,), check=check
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        values = np.array([2, 5], np.float32)
        for axis in (-1, 0, 1):
            yield Sample(OneHot(axis), (np.array([[0, 7], [-1, -4]], np.int64), int64s((4,)), values))
        yield Sample(OneHot(), (np.array(1, np.int32), np.array(3.0, np.float32), int64s((0, 1))), "scalar")
        yield Sample(OneHot(), (np.array([1.9, 0.0], np.float32), int64s((3,)), values), "float indices")
        yield Sample(OneHot(0), (seeded((0, 2), dtype=np.int64), int64s((3,)), values))
        for dtype in (np.bool_, np.float16, np.int32, np.int64):
            wide = seeded((7,), dtype=np.int64), int64s((83,)), np.array([0, 1], dtype)
            yield Sample(OneHot(), wide, "wide")
            yield Sample(OneHot(0), wide, "columns")
        for mode in ("clip", "wrap"):
            yield Sample(OneHot(-1, mode, False), (int64s((-5, 0, 9, 3)), int64s((4,)), values), mode)


@dataclass(frozen=True)
class OneHotOf(Op):
    """OneHot whose depth is an attribute: what cenote.functional calls."""

    axis: int
    depth: int
    invalid: str = "raise"

    name = "one_hot_of"
    operands = ("indices", "values")

    @property
    def _whole(self) -> OneHot:
        return OneHot(self.axis, self.invalid, negative=False)

    def _inputs(self, indices: TensorType, values: TensorType) -> tuple[TensorType, TensorType, TensorType]:
        return indices, TensorType.known(int64s((self.depth,))), values

    def types(self, indices: TensorType, values: TensorType) -> Types:
        return self._whole.types(*self._inputs(indices, values))

    def compute(self, indices: Array, values: Array) -> Arrays:
        return self._whole.compute(indices, int64s((self.depth,)), values)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        for each in self._whole.lowerings(self._inputs(*(present(x) for x in inputs)), target):
            yield replace(each, inputs=(PLAIN, PLAIN), bind=partial(self._bind, each.bind))

    def _bind(self, bind: Bind, views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
        return bind((views[0], None, views[1]), outputs)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        values = np.array([2, 5], np.float32)
        yield Sample(cls(-1, 4), (np.array([[0, 3], [1, 1]], np.int64), values))
        yield Sample(cls(0, 3, "zero"), (np.array([[0, 3], [-1, 1]], np.int32), values))


@dataclass(frozen=True)
class LengthCheck(Check):
    """Check of lengths: the kernel notes per step and sample whether the length is out of range, and the length."""

    steps: int

    def raise_if_wrong(self, found: Array) -> None:
        length = int(found[np.flatnonzero(found[:, 0])[0], 1])
        raise InputError(f"reverse_sequence: length {length} is not within 0 to {self.steps}")


@dataclass(frozen=True)
class ReverseSequence(Op):
    """The first length[i] elements of sample i reversed along the time axis, the rest as they are."""

    batch_axis: int = 1
    time_axis: int = 0

    name = "reverse_sequence"
    operands = ("x", "lengths")
    from_onnx = {"ReverseSequence": lambda node: read(ReverseSequence, node, "batch_axis", "time_axis")}

    def types(self, x: TensorType, lengths: TensorType) -> Types:
        if x.rank < 2 or {self.batch_axis, self.time_axis} != {0, 1}:
            raise ShapeError(
                f"reverse_sequence: {x} needs two leading axes, one the batch (0 or 1), the other time"
            )
        if lengths.shape != (x.shape[self.batch_axis],) or lengths.dtype != INT64:
            raise ShapeError(f"reverse_sequence: lengths {lengths} must be i64[{x.shape[self.batch_axis]}]")
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, lengths: Array) -> Arrays:
        y = x.copy()
        source, result = (np.moveaxis(z, (self.batch_axis, self.time_axis), (0, 1)) for z in (x, y))
        for sample, length in enumerate(lengths.tolist()):
            if not 0 <= length <= source.shape[1]:
                raise ArgumentError(f"reverse_sequence: length {length} is not within 0 to {source.shape[1]}")
            result[sample, :length] = source[sample, :length][::-1]
        return (y,)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        if not x.size or not can_copy(x.dtype):
            return
        steps = x.shape[self.time_axis]

        found = TensorType(INT64, (x.shape[0] * x.shape[1], 2))
        call = partial(reverse_call, batch_axis=self.batch_axis)
        seconds = pass_seconds(2 * x.nbytes)
        yield Lowering.of_call(
            "rows", (PLAIN, PLAIN), (PLAIN,), call, seconds, 0.0, (found,), check=LengthCheck(steps)
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(ReverseSequence(), (seeded((4, 3, 2)), int64s((4, 0, 3))))
        yield Sample(ReverseSequence(0, 1), (seeded((3, 9, 37)), int64s((9, 1, 6))))
        yield Sample(ReverseSequence(), (seeded((9, 3, 2, 5), dtype=np.bool_), int64s((2, 9, 6))))
        yield Sample(ReverseSequence(0, 1), (seeded((2, 5), dtype=np.int8), int64s((1, 5))))
        yield Sample(ReverseSequence(0, 1), (seeded((0, 5)), int64s(())))
