"""Pools over the whole map: largest value and mean of all spatial elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ShapeError
from cenote.core.options import ACCUMULATIONS
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType, is_float
from cenote.kernels.pool.common import MAXIMUM, SUM
from cenote.kernels.pool.whole_map import Reduce
from cenote.ops.base import Box, Decoder, Imported, Lowering, Op, Sample, Types
from cenote.ops.checks import check_accumulate
from cenote.ops.pool.average import mean
from cenote.ops.pool.map_lowerings import range_lowerings, summed_map_lowerings, whole_map_lowerings
from cenote.ops.pool.window import (
    NUMBERS,
    DType,
    ExtremePool,
    TapPool,
    Windows,
    check_dtype,
    spatial_of,
    with_spatial,
)
from cenote.ops.traits import SumOp
from cenote.ops.values import seeded, special


@dataclass(frozen=True)
class GlobalPool(TapPool):
    """Base of the pools that reduce x (N, C, *spatial), of one or more spatial axes, to (N, C, 1, ...).

    With `channels_last` x is (N, *spatial, C) and the result (N, 1, ..., C).
    """

    channels_last: bool = False

    def pooled(self, x: TensorType) -> TensorType:
        check_dtype(self.name, x.dtype, self.dtypes)
        if x.rank < 3:
            raise ShapeError(
                f"{self.name}: needs batch, channels and at least one spatial axis, got {list(x.shape)}"
            )
        spatial = spatial_of(x.shape, self.channels_last)
        if 0 in spatial:
            raise ShapeError(f"{self.name}: a spatial axis of the input is empty, got {list(x.shape)}")
        return TensorType(x.dtype, with_spatial(x.shape, (1,) * len(spatial), self.channels_last))

    def walk(self, shape: Sequence[int]) -> Windows:
        axes = len(shape) - 2
        yield (0,) * axes, (slice(None),) * axes

    def operations(self, outputs: Types, x: TensorType) -> int:
        return x.size

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        (x,) = self.arranged(inputs)
        ranges = list(box.ranges)
        spatial = range(1, x.rank - 1) if self.channels_last else range(2, x.rank)
        for axis in spatial:
            ranges[axis] = (0, x.shape[axis])
        return (Box(tuple(ranges)),)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """Operator of a part, the same: a part has fewer planes, each of them whole."""
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
class GlobalMaxPool(ExtremePool, GlobalPool):
    """Largest value over all spatial axes of x (N, C, *spatial); `nan` as in MaxPool."""

    nan: str = "propagate"

    name: ClassVar[str] = "global_max_pool"
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"GlobalMaxPool": decode_global_max_pool}

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        reduce = Reduce(MAXIMUM, x.dtype, nan=self.nan)
        yield from whole_map_lowerings(reduce, x, y, target, self.channels_last)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield from _samples(cls)
        yield Sample(cls(), (special((2, 9, 5, 7)),), f"{cls.name} special values")
        yield Sample(cls(nan="ignore"), (special((2, 9, 5, 7)),), f"{cls.name} special values, ignored")
        yield Sample(cls(), (np.full((1, 3, 4, 4), -np.inf, np.float32),), f"{cls.name} all -inf")


@dataclass(frozen=True)
class GlobalAveragePool(SumOp, GlobalPool):
    """Mean over all spatial axes of x (N, C, *spatial). Integers round as AveragePool's by `rounding`.

    Float32 means of 16 million elements are right to 1e-6: kernels sum in many partial sums, never in one. `accumulate`
    as in AveragePool.
    """

    rounding: str = "even"
    accumulate: str | None = None

    name: ClassVar[str] = "global_average_pool"
    dtypes: ClassVar[frozenset[DType]] = NUMBERS
    from_onnx: ClassVar[Mapping[str, Decoder]] = {"GlobalAveragePool": decode_global_average_pool}

    def types(self, x: TensorType) -> Types:
        y = self.pooled(x)
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (y,)

    def combined(self, taps: Array, divisor: int) -> Array:
        return mean(taps, taps.shape[-1], self.rounding, self.accumulate)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
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
    """Samples of a sum, mean or norm of maps for every `accumulate`, among them a map that is split into pieces."""
    for accumulate in ACCUMULATIONS:
        made = replace(op, accumulate=accumulate)
        for shape in ((2, 13, 5, 3), (1, 8, 33, 31), (3, 5, 1, 1), (2, 9, 11), (1, 2, 300, 301)):
            yield Sample(made, (seeded(shape),), f"{op.name} {shape} {accumulate}")
        last = replace(made, channels_last=True)
        yield Sample(last, (seeded((2, 5, 6, 19)),), f"{op.name} channels last {accumulate}")
        for dtype in (np.float64, np.float16, BFLOAT16):
            label = f"{op.name} {np.dtype(dtype).name} {accumulate}"
            yield Sample(made, (seeded((1, 9, 6, 11), 0, dtype),), label)
