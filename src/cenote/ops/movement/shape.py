"""Shapes and arrays made from nothing: Shape, Size, Range, ConstantOfShape, EyeLike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.computed import computed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ModelError, ShapeError, UnsupportedError
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, INT64, PLAIN, Array, TensorType, dtype_named, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.layout.copy import can_copy, fill_call, row_call
from cenote.ops.base import Arrays, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import int64s, known, known_ints, read, require_kind, require_same_dtype
from cenote.ops.values import narrow, seeded, wide


def _decode_range(node: Imported) -> Op:
    """Sums are exact to float64 here, so a stash type of float32 (1) or none at all says nothing more."""
    node.expect(*(("stash_type",) if node.opset >= 27 else ()))
    if node.get("stash_type", 1) not in (1, 11):
        raise UnsupportedError(f"range: stash_type {node.get('stash_type')} is not supported (float32 is)")
    return Range()


def _decode_constant_of_shape(node: Imported) -> Op:
    node.expect("value")
    value = node.get("value")
    if value is None:
        return ConstantOfShape()
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ModelError("constant_of_shape: attribute value must be a tensor with one element")
    element = value.reshape(()).astype(np.float64 if is_float(value.dtype) else value.dtype).item()
    return ConstantOfShape(value=element, dtype=value.dtype)


@dataclass(frozen=True)
class Shape(Op):
    """The shape of the data as int64; `start` and `end` pick a part of it, clamped to the rank, negative
    from the end.

    The answer is known when a graph is compiled, so `infer` gives it.
    """

    start: int = 0
    end: int | None = None

    name = "shape"
    operands = ("data",)
    from_onnx = {"Shape": lambda node: read(Shape, node, "start", "end")}

    def types(self, data: TensorType) -> Types:
        return (TensorType.known(int64s(data.shape[self.start : self.end])),)

    def compute(self, data: Array) -> Arrays:
        return (int64s(data.shape[self.start : self.end]),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for start, end in [(0, None), (1, None), (-1, None), (0, -1), (-10, 2), (2, 1), (1, 10)]:
            yield Sample(Shape(start, end), (seeded((2, 3, 0)),))
        yield Sample(Shape(), (seeded(()),))


@dataclass(frozen=True)
class ElementCount(Op):
    """The number of elements, an int64 scalar. `infer` gives it."""

    name = "size"
    operands = ("data",)
    from_onnx = {"Size": lambda node: read(ElementCount, node)}

    def types(self, data: TensorType) -> Types:
        return (TensorType.known(int64s((data.size,)).reshape(())),)

    def compute(self, data: Array) -> Arrays:
        return (np.array(data.size, np.int64),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in [(2, 3), (), (0, 4)]:
            yield Sample(ElementCount(), (seeded(shape),))


@dataclass(frozen=True)
class Range(Op):
    """start, start + delta, ... before limit: ceil((limit - start) / delta) elements, none when that is
    negative.

    Each element is start + i * delta, rounded once. With an infinite delta that is no element, as in ONNX Runtime;
    NumPy's `arange` has one there.
    """

    name = "range"
    operands = ("start", "limit", "delta")
    from_onnx = {"Range": _decode_range}

    def types(self, *bounds: TensorType) -> Types:
        dtype = require_same_dtype(self.name, *bounds)
        for bound, what in zip(bounds, self.operands, strict=True):
            require_kind(self.name, bound, "iuf", what)
            if bound.size != 1:
                raise ShapeError(f"range: '{what}' must be a scalar, got {bound}")
        start, limit, delta = (wide(known(bound, index)).item() for index, bound in enumerate(bounds))
        ends = all(is_size(bound) or math.isfinite(bound) for bound in (start, limit))
        if delta == 0 or not ends or (not is_size(delta) and math.isnan(delta)):
            raise ArgumentError(
                f"range: {start} to {limit} in steps of {delta} has no end; give finite numbers"
            )
        count = math.ceil((limit - start) / delta) if is_float(dtype) else -((start - limit) // delta)
        return (TensorType(dtype, (maximum(count, 0),)),)

    def compute(self, *bounds: Array) -> Arrays:
        (result,) = self.declared(*bounds)
        start, _, delta = (wide(bound).reshape(()) for bound in bounds)
        return (_stepped(start, delta, result.size, result.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (output,) = self.infer(*inputs)
        if not can_copy(output.dtype):
            return
        start, delta = (wide(known(present(inputs[index]), index)).item() for index in (0, 2))

        def call(y: View) -> Call:
            content = computed(stepped_words, start, delta, output.shape[0], output.dtype.name)
            return row_call(content, y, target)

        yield Lowering.of_call("table", (None,) * 3, (PLAIN,), call, pass_seconds(output.nbytes))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        cases: list[tuple[tuple[float, float, float], Any]] = [
            ((3, 9, 3), np.int64),
            ((10, 4, -2), np.int32),
            ((10, 4, -4), np.int16),
            ((0, 1, 0.3), np.float32),
            ((0, -5, 1), np.int64),
            ((1, 2, 0.25), np.float16),
            ((0, 5, math.inf), np.float32),
            ((5, 0, -math.inf), np.float64),
        ]
        for bounds, dtype in cases:
            yield Sample(Range(), tuple(np.array(bound, dtype) for bound in bounds))


def _stepped(start: Array | float, delta: Array | float, count: int, dtype: np.dtype[Any]) -> Array:
    """Return start + i * delta, computed in the widest type."""
    steps = np.arange(count, dtype=np.float64 if is_float(dtype) else np.int64)
    return narrow(np.add(start, np.multiply(steps, delta)), dtype)


def stepped_words(start: float, delta: float, count: int, dtype: str) -> Array:
    """Return the elements of a Range as unsigned numbers, as kernels that move elements take them."""
    content = _stepped(start, delta, count, dtype_named(dtype))
    return content.view(f"u{content.itemsize}")


@dataclass(frozen=True)
class ConstantOfShape(Op):
    """One value everywhere, float32 zero by default."""

    value: float | int | bool = 0.0
    dtype: np.dtype[Any] = FLOAT32

    name = "constant_of_shape"
    operands = ("shape",)
    from_onnx = {"ConstantOfShape": _decode_constant_of_shape}

    def types(self, shape: TensorType) -> Types:
        extents = known_ints(self.name, shape, 0, "shape")
        if any(extent < 0 for extent in extents):
            raise ShapeError(f"constant_of_shape: shape {list(extents)} has a negative extent")
        return (TensorType(self.dtype, extents),)

    def compute(self, shape: Array) -> Arrays:
        return (np.full(self.declared(shape)[0].shape, self.value).astype(self.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (output,) = self.infer(*inputs)
        if not can_copy(output.dtype):
            return

        def call(y: View) -> Call:
            return fill_call(np.full((), self.value).astype(self.dtype), y, target)

        yield Lowering.of_call("fill", (None,), (PLAIN,), call, pass_seconds(output.nbytes))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(ConstantOfShape(), (int64s((2, 3)),))
        yield Sample(ConstantOfShape(2**53 + 1, INT64), (int64s((3,)),))
        yield Sample(ConstantOfShape(True, np.dtype(np.bool_)), (int64s(()),))
        yield Sample(ConstantOfShape(1.5, np.dtype(np.float16)), (int64s((0, 2)),))


@dataclass(frozen=True)
class EyeLike(Op):
    """A matrix of the data's shape, one on a diagonal (positive: above the main one), zero elsewhere."""

    diagonal: int = 0
    dtype: np.dtype[Any] | None = None

    name = "eye_like"
    operands = ("data",)
    from_onnx = {"EyeLike": lambda node: read(EyeLike, node, "dtype", diagonal="k")}

    def types(self, data: TensorType) -> Types:
        if data.rank != 2:
            raise ShapeError(f"eye_like: expects a matrix, got {data}")
        return (TensorType(self.dtype or data.dtype, data.shape),)

    def compute(self, data: Array) -> Arrays:
        return (np.eye(data.shape[0], data.shape[1], self.diagonal).astype(self.dtype or data.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(EyeLike(), (seeded((3, 4)),))
        yield Sample(EyeLike(-1, np.dtype(np.int32)), (seeded((4, 2)),))
        yield Sample(EyeLike(5), (seeded((2, 3), dtype=np.bool_),), "outside")
        yield Sample(EyeLike(1), (seeded((0, 3)),))
