"""Spatial pyramid pooling: adaptive pools to several sizes, flattened and joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.types import Array, TensorType
from cenote.ops.base import Arrays, Sample, Types
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.window import channels_first
from cenote.ops.traits import MapOp
from cenote.ops.values import seeded


@dataclass(frozen=True)
class SpatialPyramidPool(MapOp):
    """x (N, C, *spatial) as (N, C * sum(level^axes)): for each level an adaptive pool to `level` bins per axis,
    flattened channels first (He et al., arXiv 1406.4729). `mode` is "max" or "avg".
    """

    levels: tuple[int, ...]
    axes: int = 2
    mode: str = "max"
    channels_last: bool = False
    nan: str = "propagate"
    rounding: str = "even"

    name: ClassVar[str] = "spatial_pyramid_pool"
    operands = ("x",)

    def pools(self) -> list[AdaptiveMaxPool | AdaptiveAveragePool]:
        """The pool of each level."""
        if self.mode not in ("max", "avg"):
            raise ArgumentError(f"{self.name}: mode '{self.mode}' is not known (allowed: max, avg)")
        if not self.levels or min(self.levels) < 1:
            raise ArgumentError(f"{self.name}: levels must be numbers of 1 or more, got {self.levels}")
        sizes = [(level,) * self.axes for level in self.levels]
        if self.mode == "max":
            return [AdaptiveMaxPool(size, self.channels_last, nan=self.nan) for size in sizes]
        return [AdaptiveAveragePool(size, self.channels_last, self.rounding) for size in sizes]

    def types(self, x: TensorType) -> Types:
        for pool in self.pools():
            pool.infer(x)
        channels = x.shape[-1] if self.channels_last else x.shape[1]
        return (TensorType(x.dtype, (x.shape[0], channels * sum(level**self.axes for level in self.levels))),)

    def compute(self, x: Array) -> Arrays:
        (result,) = self.declared(x)
        parts = [channels_first(pool.reference(x)[0], self.channels_last) for pool in self.pools()]
        rows = [part.reshape(len(part), -1 if part.size else 0) for part in parts]
        return (np.concatenate(rows, 1).reshape(result.shape),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for mode in ("max", "avg"):
            yield Sample(cls((1, 2, 4), mode=mode), (seeded((2, 9, 11, 13)),), f"{cls.name} {mode}")
        yield Sample(cls((3, 1)), (seeded((1, 5, 2, 2)),), f"{cls.name} small map")
        yield Sample(cls((1, 3), 1), (seeded((2, 5, 9)),), f"{cls.name} 1-D")
        yield Sample(cls((2, 1), 3), (seeded((1, 3, 4, 5, 6)),), f"{cls.name} 3-D")
        yield Sample(cls((1, 2), channels_last=True), (seeded((2, 6, 7, 5)),), f"{cls.name} channels last")
