"""The largest and where they are: TopK, ArgMax, ArgMin, Hardmax."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError, UnsupportedError
from cenote.core.sizes import minimum, plain
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.selection import argmax, order
from cenote.kernels.selection.indices import WORDS, IndexRule
from cenote.kernels.selection.one_hot import one_hot_call, one_hot_rows
from cenote.kernels.selection.order import order_bytes, order_call
from cenote.ops.base import Arrays, Imported, Lowering, Op, Rewired, Sample, Types
from cenote.ops.checks import int64s, known_int, normalize_axis, read, require_kind
from cenote.ops.family import operator
from cenote.ops.values import seeded, wide

SCRATCH = 1 << 30  # bytes for the records of a thread at most
SORTED = 1e-8  # seconds per record


def _decode_top_k(node: Imported) -> Op | Rewired:
    """k is an attribute before opset 10, an input after. Unsorted allows any order, so the result is sorted."""
    op = read(TopK, node, "axis", "largest", ignored=("k", "sorted"))
    return op if node.opset >= 10 else Rewired(op, (0, int64s((int(node.get("k", 0)),))))


def _decode_hardmax(node: Imported) -> Op:
    """Before opset 13 the axes from `axis` on count as one."""
    node.expect("axis")
    if node.opset >= 13:
        return Hardmax(int(node.get("axis", -1)))
    return Hardmax(int(node.get("axis", 1)), merged=True)


@dataclass(frozen=True)
class TopK(Op):
    """The k largest (or smallest) elements along an axis, best first, and their indices (int64).

    Of equal elements the one with the lower index comes first. NaN counts as larger than everything.
    """

    axis: int = -1
    largest: bool = True

    name = "top_k"
    operands = ("x", "k")
    from_onnx = {"TopK": _decode_top_k}

    def types(self, x: TensorType, k: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, require_kind(self.name, x, "iuf", "x").rank)
        count = known_int(self.name, k, 1, "k")
        if not 0 <= count <= x.shape[axis]:
            raise ArgumentError(f"top_k: k is {count}, but axis {axis} of {x} has {x.shape[axis]} elements")
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType(INT64, shape)

    def compute(self, x: Array, k: Array) -> Arrays:
        return best_of(x, int(k.item()), self.axis, self.largest)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, k = (present(kind) for kind in inputs)
        count = known_int(self.name, k, 1, "k")
        yield from order_lowerings(x, count, self.axis, self.largest, (None,))

    def operations(self, outputs: Types, x: TensorType, k: TensorType) -> int:
        return x.size * (max(plain(x.shape[self.axis]) - 1, 1).bit_length() if x.rank else 1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        ties = np.array([[3, 1, 3, 2], [0, 0, 0, 0]], np.float32)
        for largest in (True, False):
            yield Sample(TopK(largest=largest), (ties, int64s((3,))), "ties")
            yield Sample(TopK(0, largest), (seeded((5, 3)), int64s((2,))))
            yield Sample(TopK(-2, largest), (seeded((2, 7, 3), dtype=np.uint8), int64s((7,))))
            special = np.array([np.nan, 1.0, np.inf, -np.inf], np.float32)
            yield Sample(TopK(0, largest), (special, int64s((4,))), "special values")
        yield Sample(TopK(), (seeded((2, 3)), int64s((0,))), "nothing")


@dataclass(frozen=True)
class Ordered(Op):
    """TopK whose k is an attribute (None: all elements, a stable sort), on bools too."""

    axis: int = -1
    largest: bool = True
    count: int | None = None

    name = "ordered"
    operands = ("x",)

    def types(self, x: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, require_kind(self.name, x, "iufb", "x").rank)
        count = x.shape[axis] if self.count is None else self.count
        if not 0 <= count <= x.shape[axis]:
            raise ArgumentError(
                f"ordered: count is {count}, but axis {axis} of {x} has {x.shape[axis]} elements"
            )
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return TensorType(x.dtype, shape), TensorType(INT64, shape)

    def compute(self, x: Array) -> Arrays:
        return best_of(x, x.shape[self.axis] if self.count is None else self.count, self.axis, self.largest)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        count = x.shape[self.axis] if self.count is None else self.count
        yield from order_lowerings(x, count, self.axis, self.largest, ())

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        special = np.array([np.nan, 1.0, np.inf, -np.inf, 0.0, -0.0, -np.nan, 1.0] * 9, np.float32)
        for largest in (True, False):
            for dtype in (
                np.float64,
                np.float16,
                np.int64,
                np.uint64,
                np.int32,
                np.int16,
                np.uint8,
                np.bool_,
            ):
                yield Sample(cls(-1, largest), (seeded((2, 70), dtype=dtype),))
            yield Sample(cls(0, largest), (special,), "special values")
            yield Sample(cls(0, largest, 3), (special.astype(np.float16),), "special values, half")
            yield Sample(cls(1, largest), (seeded((2, 90, 3)),), "columns")
            yield Sample(cls(-1, largest, 2), (seeded((3, 1000)),), "filtered")
            yield Sample(cls(-1, largest, 5), (np.arange(3000, dtype=np.int32),), "all better, or none")
            yield Sample(cls(-1, largest, 5), (seeded((1, 700), dtype=np.float64),), "two words")
            yield Sample(cls(-1, largest, 300), (seeded((1, 3000), dtype=np.uint8),), "ties")


def best_of(x: Array, count: int, axis: int, largest: bool) -> Arrays:
    """The first of a stable sort, and their places."""
    values, last = wide(x), x.shape[axis] - 1
    if largest:  # a stable ascending sort of the mirrored axis, read backwards, keeps ties in order
        mirrored = np.argsort(np.flip(values, axis), axis, kind="stable")
        places = last - np.flip(mirrored, axis)
    else:
        places = np.argsort(values, axis, kind="stable")
    places = np.take(places, np.arange(count), axis).astype(np.int64)
    return np.take_along_axis(x, places, axis), places


def order_lowerings(
    x: TensorType, count: int, axis: int, largest: bool, rest: tuple[None, ...]
) -> Iterator[Lowering]:
    """The `count` best along an axis; `rest`: further inputs, which are constants."""
    axis %= max(x.rank, 1)
    if not x.rank or not x.size or not count or x.dtype.itemsize not in (1, 2, 4, 8):
        return
    outer, extent, columns = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    scratch = order_bytes(x.dtype, extent, count, True)
    if extent > order.LONGEST or scratch > SCRATCH:
        return
    seconds = pass_seconds(x.nbytes) + outer * columns * SORTED * plain(minimum(extent, 4 * count))
    call = partial(order_call, outer=outer, extent=extent, columns=columns, count=count, descending=largest)
    yield Lowering.of_call("order", (PLAIN, *rest), (PLAIN, PLAIN), call, seconds)


@dataclass(frozen=True)
class _ArgReduce(Op):
    axis: int = 0
    keep_axis: bool = True
    last: bool = False

    operands = ("x",)
    picked: ClassVar[Callable[..., Any]]  # index of the first pick along the axis

    def types(self, x: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, require_kind(self.name, x, "iufb", "x").rank)
        if x.shape[axis] == 0:
            raise ShapeError(
                f"{self.name}: axis {axis} of {x} is empty and has no largest or smallest element"
            )
        return (TensorType(INT64, (*x.shape[:axis], *(1,) * self.keep_axis, *x.shape[axis + 1 :])),)

    def compute(self, x: Array) -> Arrays:
        values = wide(x)
        index = self.picked(np.flip(values, self.axis) if self.last else values, self.axis)
        index = x.shape[self.axis] - 1 - index if self.last else index
        return (index.astype(np.int64).reshape(self.declared(x)[0].shape),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        axis = self.axis % max(x.rank, 1)
        if not x.size or not x.rank or x.shape[axis] > argmax.LONGEST or x.dtype.itemsize not in (1, 2, 4, 8):
            return
        yield Lowering(
            "compare", (PLAIN,), (PLAIN,), partial(self._bind, axis, target), pass_seconds(x.nbytes)
        )

    def _bind(
        self, axis: int, target: Target, views: Sequence[View | None], outputs: Sequence[View]
    ) -> Sequence[Call]:
        x, kind = present(views[0]), self.name.removeprefix("arg_")
        outer, columns = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        call = argmax.arg_reduce_call
        return [call(kind, self.last, x, outputs[0], outer, x.shape[axis], columns, target)]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        ties = np.array([[2, 1, 2, 1], [0, 0, 0, 0]], np.float32)
        for last in (False, True):
            for keep in (False, True):
                yield Sample(cls(1, keep, last), (ties,), "ties")
        yield Sample(cls(-1), (seeded((2, 3, 5)),))
        yield Sample(cls(0, False), (seeded((4,), dtype=np.int8),))
        yield Sample(cls(1), (seeded((0, 3)),), "empty batch")
        yield Sample(cls(0), (np.array([1.0, np.nan, 3.0, np.nan], np.float32),), "NaN")
        rough = np.round(seeded((3, 171), dtype=np.float64))
        rough[1, [50, 90, 169]] = np.nan
        for dtype in (np.float64, np.float32, np.float16, np.int64, np.int16, np.uint8, np.uint32, np.bool_):
            x = (
                np.nan_to_num(rough).astype(np.int64).astype(dtype)
                if np.dtype(dtype).kind in "iub"
                else rough
            )
            for last in (False, True):
                yield Sample(cls(-1, False, last), (x.astype(dtype),))
                yield Sample(cls(0, False, last), (x.astype(dtype),))


_ATTRIBUTES = {"axis": "axis", "keep_axis": "keepdims", "last": "select_last_index"}
ArgMax = operator(
    _ArgReduce, "ArgMax",
    "Index (int64) of the largest element along an axis; the first of equals, with `last` the last. NaN wins.",
    attributes=_ATTRIBUTES, picked=staticmethod(np.argmax),
)  # fmt: skip
ArgMin = operator(
    _ArgReduce, "ArgMin",
    "Index (int64) of the smallest element along an axis; the first of equals, with `last` the last. NaN wins.",
    attributes=_ATTRIBUTES, picked=staticmethod(np.argmin),
)  # fmt: skip


@dataclass(frozen=True)
class Hardmax(Op):
    """1 at the first largest element along an axis, 0 elsewhere; `merged` takes all axes from it on as one."""

    axis: int = -1
    merged: bool = False

    name = "hardmax"
    operands = ("x",)
    from_onnx = {"Hardmax": _decode_hardmax}

    def types(self, x: TensorType) -> Types:
        axis = normalize_axis(self.name, self.axis, require_kind(self.name, x, "f", "x").rank)
        if 0 in (x.shape[axis:] if self.merged else x.shape[axis : axis + 1]):
            raise UnsupportedError(f"hardmax: axis {axis} of {x} is empty and has no largest element")
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array) -> Arrays:
        axis = normalize_axis(self.name, self.axis, x.ndim)
        flat = wide(x.reshape(*x.shape[:axis], -1) if self.merged and x.size else x)
        y = np.zeros(flat.shape, x.dtype)
        np.put_along_axis(y, np.argmax(flat, axis, keepdims=True), np.ones((), x.dtype), axis)
        return (y.reshape(x.shape),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = present(inputs[0])
        axis = normalize_axis(self.name, self.axis, x.rank)
        outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        if self.merged:
            extent, inner = extent * inner, 1
        if not x.size or extent > argmax.LONGEST or x.dtype.itemsize not in (2, 4, 8):
            return
        rows, step = one_hot_rows(outer, extent, inner)
        values = np.array([0, 1], x.dtype)
        rule = IndexRule("zero", negative=False)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            source, (y, places, notes) = present(views[0]), outputs
            return [
                argmax.arg_reduce_call("max", False, source, places, outer, extent, inner, target),
                one_hot_call(places, values, y, notes, outer, extent, inner, rule),
            ]

        temporaries = (TensorType(INT64, (outer, inner)), TensorType(INT64, (-(-rows // step), WORDS)))
        seconds = pass_seconds(2 * x.nbytes)
        yield Lowering("compare", (PLAIN,), (PLAIN,), bind, seconds, temporaries=temporaries)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        ties = np.array([[3, 0, 3, 1], [2, 5, 5, 5]], np.float32)
        yield Sample(Hardmax(), (ties,), "ties")
        yield Sample(Hardmax(0), (ties,))
        yield Sample(Hardmax(1), (seeded((2, 3, 4), dtype=np.float16),))
        yield Sample(Hardmax(1, merged=True), (seeded((2, 3, 4)),), "merged")
        yield Sample(Hardmax(), (seeded((0, 3)),))
