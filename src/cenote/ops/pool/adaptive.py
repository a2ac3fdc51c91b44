"""Pools whose windows follow from the output size: window o covers floor(o in / out) to ceil((o + 1) in / out)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.options import ACCUMULATIONS
from cenote.core.pool_geometry import adaptive_bounds
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.pool.common import MAXIMUM, SUM
from cenote.ops.base import Box, Lowering, Op, Sample, Types
from cenote.ops.checks import check_accumulate
from cenote.ops.pool.average import mean
from cenote.ops.pool.map_lowerings import range_lowerings, search_lowerings
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool
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

Bounds = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class AdaptivePool(TapPool):
    """Base: x (N, C, *spatial) becomes (N, C, *output); None in `output` keeps an extent, 0 gives an empty result.

    `ranges`, where it is not empty, are the half-open input ranges themselves, per axis and output: those of a part of
    a map do not follow from its size.
    """

    output: tuple[int | None, ...]
    channels_last: bool = False
    ranges: Bounds = field(default=(), kw_only=True)

    dtypes: ClassVar[frozenset[DType]] = NUMBERS

    def bounds(self, shape: Sequence[int]) -> Bounds:
        """Half-open input range of each output, per axis."""
        if self.ranges:
            return self.ranges
        spatial = spatial_of(shape, self.channels_last)
        pairs = zip(spatial, self.output, strict=True)
        return tuple(adaptive_bounds(size, size if out is None else out) for size, out in pairs)

    def pooled(self, x: TensorType) -> TensorType:
        """Type of the pooled values, after all checks."""
        check_dtype(self.name, x.dtype, self.dtypes)
        rank = len(self.output)
        if any(extent is not None and extent < 0 for extent in self.output):
            raise ArgumentError(f"{self.name}: output_size must be 0 or more (or None), got {self.output}")
        if not 1 <= rank <= 3 or x.rank != rank + 2:
            raise ShapeError(
                f"{self.name}: output_size {self.output} needs an input of rank {rank + 2}, got {list(x.shape)}"
            )
        spatial = spatial_of(x.shape, self.channels_last)
        if 0 in spatial:
            raise ShapeError(f"{self.name}: a spatial axis of the input is empty, got {list(x.shape)}")
        out = tuple(
            size if extent is None else extent for size, extent in zip(spatial, self.output, strict=True)
        )
        return TensorType(x.dtype, with_spatial(x.shape, out, self.channels_last))

    def is_global(self, y: TensorType) -> bool:
        """Whether the result is one value of each map."""
        return not self.ranges and all(size == 1 for size in spatial_of(y.shape, self.channels_last))

    def walk(self, shape: Sequence[int]) -> Windows:
        columns = [[slice(*pair) for pair in axis] for axis in self.bounds(shape)]
        for position in itertools.product(*(range(len(column)) for column in columns)):
            yield position, tuple(column[o] for column, o in zip(columns, position, strict=True))

    def operations(self, outputs: Types, x: TensorType) -> int:
        taps = math.prod(sum(high - low for low, high in axis) for axis in self.bounds(x.shape))
        channels = math.prod(x.shape) // max(1, math.prod(spatial_of(x.shape, self.channels_last)))
        return channels * taps

    def region(self, box: Box, inputs: Sequence[TensorType | None]) -> tuple[Box | None, ...]:
        (x,) = self.arranged(inputs)
        first = 1 if self.channels_last else 2
        ranges = list(box.ranges)
        for axis, bounds in enumerate(self.bounds(x.shape), first):
            begin, end = ranges[axis]
            ranges[axis] = (bounds[begin][0], bounds[end - 1][1]) if end > begin else (0, 0)
        return (Box(tuple(ranges)),)

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """The pool over a box, its ranges counted from the start of what it reads."""
        (x,) = self.arranged(inputs)
        spatial = box.ranges[1:-1] if self.channels_last else box.ranges[2:]
        cut = []
        for bounds, (begin, end) in zip(self.bounds(x.shape), spatial, strict=True):
            here = bounds[begin:end]
            cut.append(tuple((low - here[0][0], high - here[0][0]) for low, high in here))
        return replace(self, output=tuple(len(axis) for axis in cut), ranges=tuple(cut))


@dataclass(frozen=True)
class AdaptiveMaxPool(ExtremePool, AdaptivePool):
    """Largest value of each adaptive window; indices, ties and NaN as in MaxPool."""

    return_indices: bool = False
    index: str = "plane"
    nan: str = "propagate"

    name: ClassVar[str] = "adaptive_max_pool"

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Op:
        """Operator of a part, as `AdaptivePool.part`; its indices count within the part's own plane."""
        made = super().part(box, inputs)
        assert isinstance(made, AdaptiveMaxPool)
        return replace(made, index="plane")

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y, *_) = self.arranged(inputs), self.infer(*inputs)
        if not self.return_indices and self.is_global(y):
            yield from GlobalMaxPool(self.channels_last, nan=self.nan).lowerings(inputs, target)
        elif not self.return_indices:
            yield from range_lowerings(
                MAXIMUM,
                self.bounds(x.shape),
                x,
                y,
                target,
                channels_last=self.channels_last,
                nan=self.nan,
            )
        elif self.index != "column" or len(self.output) < 3:
            yield from search_lowerings(
                self.bounds(x.shape), x, y, self.index, self.nan, target, channels_last=self.channels_last
            )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for label, op, x in _cases(cls):
            yield Sample(op, (x,), f"{op.name} {label}")
            yield Sample(replace(op, return_indices=True), (x,), f"{op.name} {label}, indices")
        yield Sample(cls((2, 3)), (special((1, 9, 7, 11)),), f"{cls.name} special values")
        yield Sample(
            cls((2, 3), nan="ignore"), (special((1, 9, 7, 11)),), f"{cls.name} special values, ignored"
        )


@dataclass(frozen=True)
class AdaptiveAveragePool(SumOp, AdaptivePool):
    """Mean of each adaptive window; integers round as AveragePool's by `rounding`; `accumulate` as there."""

    rounding: str = "even"
    accumulate: str | None = None

    name: ClassVar[str] = "adaptive_average_pool"

    def types(self, x: TensorType) -> Types:
        check_accumulate(self.name, self.accumulate, x.dtype)
        return (self.pooled(x),)

    def combined(self, taps: Array, divisor: int) -> Array:
        return mean(taps, taps.shape[-1], self.rounding, self.accumulate)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y, *_) = self.arranged(inputs), self.infer(*inputs)
        if self.is_global(y):
            whole = GlobalAveragePool(self.channels_last, rounding=self.rounding, accumulate=self.accumulate)
            yield from whole.lowerings(inputs, target)
            return
        yield from range_lowerings(
            SUM,
            self.bounds(x.shape),
            x,
            y,
            target,
            channels_last=self.channels_last,
            mean=True,
            rounding=self.rounding,
            accumulate=self.accumulate,
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for label, op, x in _cases(cls):
            yield Sample(op, (x,), f"{op.name} {label}")
            if label in ("to 1x1", "ragged", "upsampling", "3-D", "channels last", "float16", "float64"):
                for accumulate in ACCUMULATIONS:
                    yield Sample(replace(op, accumulate=accumulate), (x,), f"{op.name} {label}, {accumulate}")


def _cases(cls: type[Any]) -> Iterator[tuple[str, Any, Array]]:
    yield "to 1x1", cls((1, 1)), seeded((2, 13, 7, 9))
    yield "to 1x1, channels last", cls((1, 1), channels_last=True), seeded((2, 7, 9, 13))
    yield "to 1x1, uint8", cls((1, None)), seeded((2, 5, 7, 1), 0, np.uint8)
    yield "3-D to one", cls((1, 1, 1)), seeded((1, 6, 5, 7, 9))
    yield "ragged", cls((5, 3)), seeded((1, 9, 8, 7))
    yield "divisible", cls((4, 3)), seeded((1, 8, 8, 9))
    yield "same size", cls((None, 6)), seeded((1, 5, 7, 6))
    yield "upsampling", cls((7, 9)), seeded((1, 5, 3, 4))
    yield "empty result", cls((0, 3)), seeded((1, 5, 4, 4))
    yield "1-D", cls((4,)), seeded((2, 6, 11))
    yield "3-D", cls((2, 3, 4)), seeded((1, 6, 5, 7, 9))
    yield "channels last", cls((3, 4), channels_last=True), seeded((2, 7, 9, 13))
    yield "empty batch", cls((2, 2)), seeded((0, 3, 5, 5))
    for dtype in (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int32, np.int64):
        yield np.dtype(dtype).name, cls((3, 2)), seeded((1, 6, 7, 9), 0, dtype)
