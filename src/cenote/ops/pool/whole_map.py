"""Pools over the whole map: largest value and mean of all spatial elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.errors import ShapeError
from cenote.core.options import ACCUMULATIONS
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType, is_float
from cenote.kernels.pool.common import MAXIMUM, SUM
from cenote.kernels.pool.whole_map import Reduce
from cenote.ops.base import Arrays, Box, Cost, Decoder, Imported, Lowering, MapOp, Op, Sample, Types
from cenote.ops.checks import check_accumulate
from cenote.ops.pool.average import divide, fit
from cenote.ops.pool.map_lowerings import range_lowerings, summed_map_lowerings, whole_map_lowerings
from cenote.ops.pool.window import (
    NUMBERS,
    ORDERED,
    channels_first,
    check_dtype,
    check_rules,
    extremum,
    lowest_where_nan,
    only_input,
    spatial_of,
    special,
    type_of,
    with_spatial,
)
from cenote.ops.values import added, seeded, wide


@dataclass(frozen=True)
class GlobalPool(MapOp):
    """Base of the pools that reduce x (N, C, *spatial), of one or more spatial axes, to (N, C, 1, ...).

    With `channels_last` x is (N, *spatial, C) and the result (N, 1, ..., C).
    """

    channels_last: bool = False

    def reduced(self, x: TensorType) -> TensorType:
        """Type of the result; ShapeError unless there is something to reduce."""
        if x.rank < 3:
            raise ShapeError(
                f"{self.name}: needs batch, channels and at least one spatial axis, got {list(x.shape)}"
            )
        spatial = spatial_of(x.shape, self.channels_last)
        if 0 in spatial:
            raise ShapeError(f"{self.name}: a spatial axis of the input is empty, got {list(x.shape)}")
        return TensorType(x.dtype, with_spatial(x.shape, (1,) * len(spatial), self.channels_last))

    def reduce(self, planes: Array) -> Array:
        """The values of planes (N, C, elements) as (N, C)."""
        raise NotImplementedError(f"{type(self).__name__}.reduce")

    def reference(self, *inputs: Array | None) -> Arrays:
        (x,) = inputs
        assert x is not None
        result = self.infer(type_of(x))[0]
        first = channels_first(x, self.channels_last)
        elements = int(np.prod(first.shape[2:]))
        if not x.size:
            return (np.empty(result.shape, result.dtype),)
        values = self.reduce(first.reshape(*first.shape[:2], elements))
        return (fit(values.reshape(result.shape), result.dtype),)

    def cost(self, inputs: Sequence[TensorType | None]) -> Cost:
        x = only_input(self.name, inputs)
        return Cost(x.size, x.nbytes + self.infer(x)[0].nbytes)

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        x = only_input(self.name, inputs)
        ranges = list(box.ranges)
        spatial = range(1, x.rank - 1) if self.channels_last else range(2, x.rank)
        for axis in spatial:
            ranges[axis] = (0, x.shape[axis])
        return (Box(tuple(ranges)),)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """Itself: a part has fewer planes, each of them whole."""
        return self


def decode_global_max_pool(node: Imported) -> Op:
    """GlobalMaxPool of ai.onnx 1, 22."""
    node.expect()
    return GlobalMaxPool()


def decode_global_average_pool(node: Imported) -> Op:
    """GlobalAveragePool of ai.onnx 1, 22."""
    node.expect()
    return GlobalAveragePool()


@dataclass(frozen=True)
class GlobalMaxPool(GlobalPool):
    """Largest value over all spatial axes of x (N, C, *spatial); `nan` as in MaxPool."""

    nan: str = "propagate"

    name: ClassVar[str] = "global_max_pool"
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"GlobalMaxPool": decode_global_max_pool}

    def infer(self, *inputs: TensorType | None) -> Types:
        x = only_input(self.name, inputs)
        check_rules(self.name, "plane", self.nan)
        check_dtype(self.name, x.dtype, ORDERED)
        return (self.reduced(x),)

    def reduce(self, planes: Array) -> Array:
        winner = extremum(planes, nan=self.nan)
        values: Array = np.take_along_axis(planes, winner[..., None], -1)[..., 0]
        return lowest_where_nan(values) if self.nan == "ignore" else values

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (y,) = only_input(self.name, inputs), self.infer(*inputs)
        reduce = Reduce(MAXIMUM, x.dtype, nan=self.nan)
        yield from whole_map_lowerings(reduce, x, y, target, self.channels_last)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls)
        yield Sample(cls(), (special((2, 9, 5, 7)),), f"{cls.name} special values")
        yield Sample(cls(nan="ignore"), (special((2, 9, 5, 7)),), f"{cls.name} special values, ignored")
        yield Sample(cls(), (np.full((1, 3, 4, 4), -np.inf, np.float32),), f"{cls.name} all -inf")


@dataclass(frozen=True)
class GlobalAveragePool(GlobalPool):
    """Mean over all spatial axes of x (N, C, *spatial). Integers round as AveragePool's by `rounding`.

    Float32 means of 16 million elements are right to 1e-6: kernels sum in many partial sums, never in one. `accumulate`
    as in AveragePool.
    """

    rounding: str = "even"
    accumulate: str | None = None

    name: ClassVar[str] = "global_average_pool"
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"GlobalAveragePool": decode_global_average_pool}

    def infer(self, *inputs: TensorType | None) -> Types:
        x = only_input(self.name, inputs)
        check_dtype(self.name, x.dtype, NUMBERS)
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (self.reduced(x),)

    def reduce(self, planes: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            if is_float(planes.dtype):
                mean: Array = added(wide(planes), (2,), self.accumulate) / planes.shape[-1]
                return mean
            return divide(planes.sum(-1, dtype=np.int64), planes.shape[-1], self.rounding)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, (y,) = only_input(self.name, inputs), self.infer(*inputs)
        spatial = spatial_of(x.shape, self.channels_last)
        if self.accumulate is not None:
            yield from summed_map_lowerings("mean", self.accumulate, x, y, target, self.channels_last)
        elif is_float(x.dtype):
            reduce = Reduce(SUM, x.dtype, factor=1.0 / math.prod(spatial))
            yield from whole_map_lowerings(reduce, x, y, target, self.channels_last)
        elif len(spatial) <= 3:
            whole = [[(0, extent)] for extent in spatial]
            yield from range_lowerings(
                SUM,
                whole,
                x,
                y,
                target,
                channels_last=self.channels_last,
                mean=True,
                rounding=self.rounding,
            )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls)
        yield from accumulated_samples(cls())


def _samples(cls: type[GlobalMaxPool] | type[GlobalAveragePool]) -> Iterable[Sample]:
    shapes = (
        (1, 64, 7, 7),
        (2, 13, 5, 3),
        (1, 8, 33, 31),
        (3, 5, 1, 1),
        (2, 9, 11),
        (1, 3, 4, 5, 6),
        (0, 4, 3, 3),
    )
    for shape in shapes:
        yield Sample(cls(), (seeded(shape),), f"{cls.name} {shape}")
    yield Sample(cls(channels_last=True), (seeded((2, 5, 6, 19)),), f"{cls.name} channels last")
    for dtype in (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int64):
        yield Sample(cls(), (seeded((1, 9, 6, 11), 0, dtype),), f"{cls.name} {np.dtype(dtype).name}")


def accumulated_samples(op: Any) -> Iterable[Sample]:
    """Those of a sum, mean or norm of maps for every `accumulate`, and one that is split into pieces."""
    for accumulate in ACCUMULATIONS:
        made = replace(op, accumulate=accumulate)
        for shape in ((2, 13, 5, 3), (1, 8, 33, 31), (3, 5, 1, 1), (2, 9, 11), (1, 2, 300, 301)):
            yield Sample(made, (seeded(shape),), f"{op.name} {shape} {accumulate}")
        last = replace(made, channels_last=True)
        yield Sample(last, (seeded((2, 5, 6, 19)),), f"{op.name} channels last {accumulate}")
        for dtype in (np.float64, np.float16, BFLOAT16):
            label = f"{op.name} {np.dtype(dtype).name} {accumulate}"
            yield Sample(made, (seeded((1, 9, 6, 11), 0, dtype),), label)
