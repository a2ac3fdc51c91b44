"""Reductions over some or all axes: sum, mean, maximum, minimum, product, norms, logarithms of sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, DTypeError
from cenote.core.options import ACCUMULATIONS
from cenote.core.target import Target
from cenote.core.types import INT64, PLAIN, Array, Layout, TensorType, is_float
from cenote.kernels.base import Call, View, present
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.reduction.axes import ReduceAxis
from cenote.kernels.reduction.launches import (
    partial_totals,
    partial_type,
    pieces_of,
    reduce_calls,
    shift_type,
)
from cenote.kernels.reduction.reduce import INTEGER, SUMS
from cenote.ops.base import Arrays, Box, Imported, Lowering, Op, Rewired, Sample, Types, ValueNeeded
from cenote.ops.checks import check_accumulate, normalize_axis, require
from cenote.ops.elementwise.pointwise import error_of
from cenote.ops.family import operator
from cenote.ops.traits import SumOp
from cenote.ops.values import added, hostile, narrow, seeded, wide


@dataclass(frozen=True)
class Reduction(SumOp):
    """Base of all reductions.

    `axes` are the axes to reduce (None: given by input 1, or all); `keepdims` leaves them with extent 1. No
    axes at all (an empty list) means all of them, or with `noop_with_empty_axes` none: then only the
    elementwise part of the formula (absolute value, square, logarithm) is left. Reducing nothing gives the
    neutral element, a mean NaN. `accumulate`, for sums, means and norms of floats: "float64" adds up in float64 from
    the first term on; "compensated" in the type itself, keeping what each addition loses (see AveragePool). `widen`:
    sums and products of integers are int64.
    """

    operands = ("data", "axes?")
    kind: ClassVar[str] = ""  # what kernels/reduction/reduce.py calls it
    integers: ClassVar[bool] = True
    booleans: ClassVar[bool] = False
    reduced: ClassVar[Callable[..., Any]]  # the formula in NumPy (floats come as float64)
    axes: tuple[int, ...] | None = None
    keepdims: bool = True
    noop_with_empty_axes: bool = False
    accumulate: str | None = None
    widen: bool = False

    def in_float64(self) -> Self | None:
        return super().in_float64() if self.kind in SUMS else None

    def resolved(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """The axes as 0..rank-1, in order."""
        x = require(self.name, inputs[0] if inputs else None, "data")
        axes = self.axes
        given = inputs[1] if len(inputs) > 1 else None
        if axes is None and given is not None:
            if given.size and given.value is None:
                raise ValueNeeded(1)
            axes = () if given.value is None else tuple(int(axis) for axis in given.value.reshape(-1))
        if not axes:
            return () if self.noop_with_empty_axes else tuple(range(x.rank))
        resolved = sorted(normalize_axis(self.name, axis, x.rank) for axis in axes)
        if len(set(resolved)) != len(resolved):
            raise ArgumentError(f"{self.name}: axes {list(axes)} name an axis twice")
        return tuple(resolved)

    def types(self, x: TensorType, given: TensorType | None) -> Types:
        allowed = is_float(x.dtype) or (self.integers and x.dtype.kind in "iu")
        if not allowed and not (self.booleans and x.dtype == np.bool_):
            raise DTypeError(f"{self.name}: type {x.dtype} is not supported; cast the input to float32 first")
        if self.accumulate is not None and self.kind not in SUMS:
            raise ArgumentError(f"{self.name}: accumulate is for sums, means and norms; leave it None")
        check_accumulate(self.name, self.accumulate, x.dtype)
        axes = self.resolved((x, given))
        shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
        if not self.keepdims:
            shape = [extent for axis, extent in enumerate(x.shape) if axis not in axes]
        return (TensorType(self._result(x.dtype), tuple(shape)),)

    def _result(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return INT64 if self.widen and dtype.kind in "iu" and self.kind in ("sum", "prod") else dtype

    def compute(self, x: Array, given: Array | None) -> Arrays:
        axes = self.resolved((TensorType.known(x), None if given is None else TensorType.known(given)))
        x = x.astype(self._result(x.dtype), copy=False)
        made = self.reduced(wide(x), axis=axes, keepdims=self.keepdims, **self._way())
        return (narrow(made, x.dtype),)

    def _way(self) -> dict[str, str]:
        return {} if self.accumulate is None else {"accumulate": self.accumulate}

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x = require(self.name, inputs[0], "data")
        if not x.size or not (is_float(x.dtype) or self.kind in INTEGER):
            return
        axes = self.resolved(inputs)
        pieces = pieces_of(x.shape, axes, target)
        kept = [extent for axis, extent in enumerate(x.shape) if axis not in axes]
        temporaries: tuple[TensorType, ...] = ()
        if pieces > 1:
            own = _as_number(self._result(x.dtype))
            temporaries = (partial_totals(self.kind, own, pieces, kept, self.accumulate),)

        shifted = self.kind == "log_sum_exp"
        if shifted:
            temporaries = (TensorType(shift_type(x.dtype), self.infer(*inputs)[0].shape), *temporaries)

        def bind(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
            source, y, *more = (_as_bytes(view) for view in (present(views[0]), *outputs))
            largest = more.pop(0) if shifted else None
            partial, calls = more[0] if pieces > 1 else None, []
            if largest is not None:
                over = self._view_axes(source, largest, axes)
                calls += reduce_calls(
                    "max", over, source, largest, pieces, _as_largest(partial, x.dtype), target
                )
            over = self._view_axes(source, y, axes)
            sums = reduce_calls(self.kind, over, source, y, pieces, partial, target, largest, self.accumulate)
            return [*calls, *sums]

        rest = (None,) * (len(inputs) - 1)
        seconds = pass_seconds(x.nbytes, x.size)
        error = error_of(0.0 if self.kind in ("max", "min") else 1e-6, x.dtype) if is_float(x.dtype) else 0.0
        yield Lowering("reduce", (PLAIN, *rest), (PLAIN,), bind, seconds, error, temporaries)
        if 3 <= x.rank <= 5 and is_float(x.dtype) and self.keepdims and 1 not in axes and not shifted:
            blocked = Layout(target.lanes(x.dtype))

            def bind_blocked(views: Sequence[View | None], outputs: Sequence[View]) -> Sequence[Call]:
                source, y = present(views[0]), outputs[0]
                over = self._view_axes(source, y, axes)
                return reduce_calls(self.kind, over, source, y, 1, None, target, accumulate=self.accumulate)

            yield Lowering("reduce_blocked", (blocked, *rest), (blocked,), bind_blocked, seconds, error)

    def _view_axes(self, x: View, y: View, axes: tuple[int, ...]) -> list[ReduceAxis]:
        """Extents and strides of every axis of x (a blocked one: of its blocks)."""
        shape = (x.shape[0], x.blocks, *x.shape[2:]) if x.layout.is_blocked else x.shape
        kept = iter(y.strides)
        made = []
        for axis, (extent, stride) in enumerate(zip(shape, x.strides, strict=True)):
            step = next(kept) if self.keepdims or axis not in axes else None
            made.append(ReduceAxis(extent, stride, None if axis in axes else step))
        return made

    def operations(self, outputs: Types, x: TensorType, given: TensorType | None) -> int:
        return 2 * x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = require(self.name, inputs[0], "data")
        axes, ranges = self.resolved(inputs), []
        kept = iter(box.ranges)
        for axis, extent in enumerate(x.shape):
            if axis in axes:
                ranges.append((0, extent))
                if self.keepdims:
                    next(kept)
            else:
                ranges.append(next(kept))
        others = tuple(None if other is None else Box.whole(other.shape) for other in inputs[1:])
        return (Box(tuple(ranges)), *others)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        shape = (2, 11, 5, 7)
        for axes in (None, (0,), (1,), (-1,), (2, 3), (0, 2, 3), (1, 3), (0, 1)):
            yield Sample(cls(axes), (seeded(shape),))
            yield Sample(cls(axes, keepdims=False), (seeded(shape, 1),))
        yield Sample(cls((1,)), (seeded((3, 1000)),))
        yield Sample(cls((0,)), (seeded((1000, 3)),))
        yield Sample(cls((0,)), (seeded((5, 0, 3)),))
        for long, axes in (((40001, 3), (0, 1)), ((40001, 3), (0,)), ((3, 40001), (1,))):  # split into pieces
            yield Sample(cls(axes), (np.float32(1) + np.float32(1e-4) * seeded(long),))
        yield Sample(cls(), (seeded(()),))
        yield Sample(cls((), noop_with_empty_axes=True), (seeded((3, 5)),))
        yield Sample(cls(), (seeded((3, 5)), np.array([-1], np.int64)), f"{cls.name} axes input")
        yield Sample(cls((1,)), (hostile((4, 9, 5)),), f"{cls.name} special")
        if cls.name not in ("reduce_max", "reduce_min"):
            yield Sample(cls((1,)), (seeded((3, 0, 2)),), f"{cls.name} of nothing")
        if cls.booleans:
            for axes in ((1,), (0,), None):
                yield Sample(cls(axes), (seeded((5, 41), 1, np.bool_),))
        for accumulate in ACCUMULATIONS if cls().kind in SUMS else ():
            for axes, x in (
                (None, seeded(shape)), ((1,), seeded(shape)), ((2, 3), seeded(shape)), ((1, 3), seeded(shape)),
                ((0, 1), seeded((40001, 3))), ((0,), seeded((1000, 70))), ((1,), seeded((3, 1000), 1, np.float64)),
                ((1,), hostile((4, 9, 5))), ((0, 1), seeded((40001, 3), 1, np.float64)),
                ((-1,), seeded((5, 37), 1, np.float16)),
            ):  # fmt: skip
                yield Sample(cls(axes, accumulate=accumulate), (x,), f"{cls.name} {accumulate}")
        for dtype in (np.int8, np.uint8, np.int16, np.int32) if cls().kind in ("sum", "prod") else ():
            for axes, widened in (
                ((1,), (5, 141)),
                ((0,), (37, 70)),
                (None, (3, 40001)),
                ((0, 2), (4, 3, 19)),
            ):
                x = seeded(widened, 1, np.dtype(dtype))
                yield Sample(cls(axes, widen=True), (x,), f"{cls.name} widened")
        for dtype in (np.float64, np.float16, "bfloat16", *((np.int32, np.int64) if cls.integers else ())):
            yield Sample(cls((1, 2)), (seeded((2, 9, 3), 1, np.dtype(dtype)),))


def _as_number(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Kernel types of truth values, which are numbers there: the largest of 0 and 1 is "any", the smallest "all"."""
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def _as_bytes(view: View) -> View:
    return replace(view, type=TensorType(_as_number(view.type.dtype), view.shape))


def _as_largest(partial: View | None, dtype: np.dtype[Any]) -> View | None:
    """Room for the largest terms of pieces in that for their sums."""
    if partial is None:
        return None
    return replace(partial, type=TensorType(partial_type("max", dtype), partial.shape))


def _decode(node: Imported, op: type[Reduction]) -> Op | Rewired:
    node.expect("axes", "keepdims", "noop_with_empty_axes")
    keepdims, noop = node.flag("keepdims", 1), node.flag("noop_with_empty_axes", 0)
    if node.get("axes") is not None:
        return op(tuple(int(axis) for axis in node.get("axes")), keepdims)
    if len(node.present) < 2 or not node.present[1]:
        return Rewired(op((), keepdims, noop), (0,))
    axes = node.constant(1)
    if axes is None:
        return op(None, keepdims, noop)
    return Rewired(op(tuple(int(axis) for axis in axes.reshape(-1)), keepdims, noop), (0,))


def reduction(onnx: str, reduced: Callable[..., Any], meaning: str, **members: Any) -> type[Reduction]:
    """A reduction that ONNX calls `onnx`; `reduced` is its formula on NumPy's `axis` and `keepdims`."""
    made = operator(Reduction, onnx, meaning, reduced=staticmethod(reduced), **members)
    made.kind = made.name.removeprefix("reduce_")
    made.from_onnx = {onnx: lambda node: _decode(node, made)}
    return made


def _sum(x: Array, axis: tuple[int, ...], keepdims: bool, accumulate: str | None = None) -> Array:
    return added(x, axis, accumulate, keepdims)


def _mean(x: Array, **over: Any) -> Any:
    count = int(np.prod([x.shape[axis] for axis in over["axis"]]))
    return _sum(x.astype(np.float64), **over) / np.float64(count)


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype == np.bool_:
        return False, True
    if is_float(dtype):
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _log_sum_exp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    finite = np.where(np.isinf(largest), 0.0, largest)
    total = np.log(np.sum(np.exp(x - finite), axis=axis, keepdims=True)) + finite
    return np.asarray(total if keepdims else np.squeeze(total, axis=axis))


ReduceSum = reduction("ReduceSum", _sum, "Sum; integers wrap around.")
ReduceMean = reduction("ReduceMean", _mean, "Arithmetic mean; of integers cut toward zero; NaN of nothing.")
ReduceMax = reduction(
    "ReduceMax", lambda x, **over: np.max(x, **over, initial=_ends(x.dtype)[0]),
    "Largest; NaN if any is NaN; of nothing the lowest number of the type (floats: -infinity).", booleans=True,
)  # fmt: skip
ReduceMin = reduction(
    "ReduceMin", lambda x, **over: np.min(x, **over, initial=_ends(x.dtype)[1]),
    "Smallest; NaN if any is NaN; of nothing the highest number of the type (floats: +infinity).", booleans=True,
)  # fmt: skip
ReduceProd = reduction("ReduceProd", np.prod, "Product; integers wrap around.")
ReduceL1 = reduction("ReduceL1", lambda x, **over: _sum(np.abs(x), **over), "Sum of absolute values.")
ReduceL2 = reduction(
    "ReduceL2", lambda x, **over: np.sqrt(_sum(np.square(x.astype(np.float64)), **over)),
    "Square root of the sum of squares.",
)  # fmt: skip
ReduceSumSquare = reduction(
    "ReduceSumSquare", lambda x, **over: _sum(np.square(x), **over), "Sum of squares."
)
ReduceLogSum = reduction(
    "ReduceLogSum", lambda x, **over: np.log(_sum(x, **over)),
    "Logarithm of the sum: NaN below 0, -infinity of nothing.", integers=False,
)  # fmt: skip
ReduceLogSumExp = reduction(
    "ReduceLogSumExp", _log_sum_exp, "Logarithm of the sum of exponentials, without overflow.",
    integers=False,
)  # fmt: skip
