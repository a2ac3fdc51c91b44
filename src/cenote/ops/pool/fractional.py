"""Max pooling with windows at pseudo-random steps (Graham, Fractional Max-Pooling, arXiv 1412.6071)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, INT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import DRAWN_TAP, stream_seconds
from cenote.kernels.pool_variants.fractional import fractional_call
from cenote.ops.base import Arrays, Check, Lowering, Sample, Types
from cenote.ops.pool.window import (
    ORDERED,
    as_declared,
    channels_first,
    check_dtype,
    check_map,
    extremum,
    spatial_of,
    taps_of,
    with_spatial,
)
from cenote.ops.traits import MapOp
from cenote.ops.values import seeded


@dataclass(frozen=True)
class SamplesCheck(Check):
    """Error of a sample outside 0 to 1."""

    op: str

    def raise_if_wrong(self, found: Array) -> None:
        raise _outside(self.op)


def _outside(op: str) -> InputError:
    return InputError(f"{op}: samples must lie between 0 and 1")


@dataclass(frozen=True)
class FractionalMaxPool(MapOp):
    """Largest value of windows whose starts advance by an irrational-like step over x (N, C, *spatial).

    Inputs: x; samples (N, C, axes), floats in [0, 1): one offset per plane and axis, in PyTorch's order (for 2-D
    samples[..., 0] is the width's and [..., 1] the height's; for 3-D depth, height, width). With
    alpha = (in - window) / (out - 1), window o starts at floor((o + u) alpha) - floor(u alpha), the last one at
    in - window. Indices count within the plane; NaN and ties as in MaxPool.
    """

    window: tuple[int, ...]
    output: tuple[int, ...]
    return_indices: bool = False
    channels_last: bool = False

    name: ClassVar[str] = "fractional_max_pool"
    operands = ("x", "samples")

    def types(self, x: TensorType, samples: TensorType) -> Types:
        check_dtype(self.name, x.dtype, ORDERED)
        rank = len(self.window)
        check_map(self.name, x.shape, rank)
        if len(self.output) != rank:
            raise ArgumentError(f"{self.name}: output_size {self.output} must hold {rank} extents")
        spatial = spatial_of(x.shape, self.channels_last)
        for axis, (size, k, out) in enumerate(zip(spatial, self.window, self.output, strict=True)):
            if k < 1 or not 1 <= out <= size - k + 1:
                raise ArgumentError(
                    f"{self.name}: kernel_size {k} and output_size {out} do not fit spatial axis {axis} of extent "
                    f"{size} (kernel_size must be 1 or more, output_size 1 to {max(size - k + 1, 0)})"
                )
        channels = x.shape[-1] if self.channels_last else x.shape[1]
        if samples.shape != (x.shape[0], channels, rank):
            raise ShapeError(
                f"{self.name}: samples must have shape {[x.shape[0], channels, rank]}, got {list(samples.shape)}"
            )
        y = TensorType(x.dtype, with_spatial(x.shape, self.output, self.channels_last))
        return (y, TensorType(INT64, y.shape)) if self.return_indices else (y,)

    def compute(self, x: Array, samples: Array) -> Arrays:
        self.declared(x, samples)
        if not ((samples >= 0) & (samples <= 1)).all():
            raise _outside(self.name)
        first = channels_first(x, self.channels_last)
        spatial = first.shape[2:]
        values = np.empty((*first.shape[:2], *self.output), x.dtype)
        places = np.empty(values.shape, INT64)
        plane = np.arange(math.prod(spatial)).reshape(spatial)
        for n, c in np.ndindex(*first.shape[:2]):
            starts = self.starts(samples[n, c], spatial)
            for position in itertools.product(*map(range, self.output)):
                at = [column[o] for column, o in zip(starts, position, strict=True)]
                slices = tuple(slice(s, s + k) for s, k in zip(at, self.window, strict=True))
                taps = taps_of(first[n : n + 1, c : c + 1], slices)[0, 0]
                winner = int(extremum(taps))
                here: tuple[Any, ...] = (n, c, *position)
                values[here] = taps[winner]
                places[here] = plane[slices].ravel()[winner]
        results = (values, places) if self.return_indices else (values,)
        return tuple(as_declared(y, self.channels_last) for y in results)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, samples = self.arranged(inputs)
        y, *places = self.infer(x, samples)
        if not x.size or samples.dtype not in (FLOAT32, FLOAT64):
            return
        noted = TensorType(INT64, (math.prod(samples.shape[:2]), 1))

        def call(x: View, samples: View, y: View, *others: View) -> Call:
            *index, notes = others
            places, order = index[0] if index else None, self.channels_last
            return fractional_call(x, samples, y, places, notes, self.window, target, channels_last=order)

        seconds = stream_seconds(x.nbytes + y.nbytes) + y.size * math.prod(self.window) * DRAWN_TAP
        made, check = (PLAIN,) * (1 + len(places)), SamplesCheck(self.name)
        yield Lowering.of_call(
            "drawn windows", (PLAIN, PLAIN), made, call, seconds, 0.0, (noted,), check=check
        )

    def starts(self, sample: Array, spatial: Sequence[int]) -> list[list[int]]:
        """Starts of the windows of one plane, per axis.

        Computed in the type of the samples, as PyTorch does: a step that falls on a whole number would land elsewhere
        in another precision.
        """
        real: Any = sample.dtype.type
        order = (1, 0) if len(spatial) == 2 else range(len(spatial))
        columns = []
        for axis, which in enumerate(order):
            size, k, out = spatial[axis], self.window[axis], self.output[axis]
            u = real(sample[which])
            alpha = real(size - k) / real(max(out - 1, 1))
            column = [int(real(real(real(o) + u) * alpha)) - int(real(u * alpha)) for o in range(out - 1)]
            columns.append([*column, size - k])
        return columns

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        cases: list[tuple[FractionalMaxPool, tuple[int, ...]]] = [
            (cls((2, 2), (4, 5)), (2, 9, 8, 9)),
            (cls((3, 2), (3, 3)), (1, 5, 7, 9)),
            (cls((1, 1), (5, 1)), (1, 3, 6, 6)),
            (cls((2,), (4,)), (2, 3, 9)),
            (cls((2, 2, 2), (2, 3, 4)), (1, 5, 4, 6, 8)),
            (cls((2, 2), (3, 4), channels_last=True), (2, 7, 8, 5)),
        ]
        for op, shape in cases:
            channels = shape[-1] if op.channels_last else shape[1]
            draws = np.random.default_rng(1).random((shape[0], channels, len(op.window)), np.float32)
            yield Sample(op, (seeded(shape), draws), f"{cls.name} {op.window} {op.output}")
            yield Sample(
                replace(op, return_indices=True), (seeded(shape), draws), f"{cls.name} {op.window}, indices"
            )
