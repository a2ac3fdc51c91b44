"""Places of the largest and smallest along rows of any length, with NaN, infinities and equals anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.target import Target
from cenote.core.types import Array
from cenote.ops.reduction.topk import ArgMax, ArgMin
from cenote.verification.contract.comparison import same_bits
from tests.harness import lowerings_of, run_lowering
from tests.targets import over_targets, target_name

TYPES = (np.float32, np.float64, np.float16, np.int64, np.int32, np.uint64, np.uint8, np.int8)
LENGTHS = (1, 7, 16, 17, 63, 128, 129, 300, 1000)  # less than a vector; chunks, with and without a rest


def rows_of(dtype: type[np.generic], length: int) -> Array:
    """Rows of few different numbers, of equals, of many, and of floats with NaN or infinities at some places."""
    rng = np.random.default_rng(length)
    x = rng.integers(0, 3, (12, length)).astype(dtype)
    x[3:] = rng.integers(0, 100, (9, length)).astype(dtype)
    x[5] = 1
    if issubclass(dtype, np.floating):
        for row in range(6, 9):
            x[row, rng.integers(0, length, row - 5)] = np.nan
        x[9, rng.integers(0, length, 3)] = np.inf
        x[9:11, rng.integers(0, length, 3)] = -np.inf  # a row of both has no sum
    made: Array = x
    return made


def naive(kind: str, x: Array, last: bool) -> Array:
    """The places by comparison, one after the other."""
    made = np.zeros((len(x), 1), np.int64)
    for number, row in enumerate(x):
        if issubclass(x.dtype.type, np.floating) and np.isnan(row).any():
            found = np.flatnonzero(np.isnan(row))
        else:
            found = np.flatnonzero(row == (row.max() if kind == "max" else row.min()))
        made[number] = found[-1 if last else 0]
    return made


@pytest.mark.parametrize(("dtype", "target"), over_targets([(each,) for each in TYPES], 2), ids=target_name)
def test_rows(dtype: type[np.generic], target: Target) -> None:
    for length in LENGTHS:
        x = rows_of(dtype, length)
        for op, kind, last in ((ArgMax, "max", False), (ArgMax, "max", True), (ArgMin, "min", False)):
            made = op(1, True, last)
            for lowering in lowerings_of(made, (x,), target, True):
                (y,) = run_lowering(made, lowering, (x,), target, junk=0x5A)
                assert same_bits(y, naive(kind, x, last)), (kind, last, length)
