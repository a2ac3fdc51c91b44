"""Median of each window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.pool_variants.median import PoolMedian
from cenote.ops.base import Lowering, Sample
from cenote.ops.pool.map_lowerings import whole_window_lowerings
from cenote.ops.pool.window import NUMBERS, DType, WindowPool
from cenote.ops.values import seeded, special


@dataclass(frozen=True)
class MedianPool(WindowPool):
    """Median of the real elements of each window of x (N, C, *spatial); padding takes no part.

    Of an even number of elements it is the mean of the middle two, as in NumPy; for integers that mean is rounded
    towards zero. NaN propagates. Element types: floats and int8, uint8, int16, int32, int64.
    """

    name: ClassVar[str] = "median_pool"
    dtypes: ClassVar[frozenset[DType]] = NUMBERS

    def combined(self, taps: Array, divisor: int) -> Array:
        return middle(np.sort(taps, -1))

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (x,), (y,) = self.arranged(inputs), self.infer(*inputs)
        yield from whole_window_lowerings(
            "median of windows", PoolMedian, self.geometry(x.shape), x, y, target, self.channels_last
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        one = ((1, 1), (1, 1))
        yield Sample(cls((3, 3), (1, 1), one), (seeded((1, 9, 11, 14)),), "median_pool 3x3")
        yield Sample(cls((2, 2), (2, 2)), (seeded((2, 5, 8, 9)),), "median_pool 2x2")
        yield Sample(cls((5, 5), (2, 1), auto_pad="SAME_UPPER"), (seeded((1, 3, 9, 8)),), "median_pool same")
        yield Sample(cls((3, 3), channels_last=True), (seeded((2, 7, 6, 9)),), "median_pool channels last")
        yield Sample(cls((3, 2)), (special((1, 5, 9, 15)),), "median_pool special values")
        yield Sample(cls((3,)), (seeded((1, 4, 9)),), "median_pool 1-D")
        for dtype in (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int64):
            x = seeded((1, 3, 8, 9), 0, dtype)
            yield Sample(cls((2, 3), (1, 1), one), (x,), f"median_pool {np.dtype(dtype).name}")


def middle(ordered: Array) -> Array:
    """Median along the sorted last axis; NaNs, which sort last, propagate."""
    count = ordered.shape[-1]
    low, high = ordered[..., (count - 1) // 2], ordered[..., count // 2]
    if ordered.dtype.kind != "f":
        floor = (low & high) + ((low ^ high) >> 1)  # of (low + high) / 2, without overflow
        odd = (low ^ high) & 1
        return np.asarray(floor + (odd & (floor < 0)))
    with np.errstate(invalid="ignore"):
        value = np.where(low == high, low, low / 2 + high / 2)
    return np.where(np.isnan(ordered[..., -1]), np.nan, value)
