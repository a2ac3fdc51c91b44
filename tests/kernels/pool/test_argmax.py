"""Maxima with indices, separable: against the operator's reference, over windows, layouts, types, ties and NaN."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cenote.core.types import BFLOAT16, Array
from cenote.kernels.pool.argmax_generic import PoolArgmaxGeneric
from cenote.kernels.pool.argmax_separable import PoolArgmaxSeparable
from cenote.kernels.pool.problem import IndexLayout, Memory, PoolProblem
from cenote.ops.pool.window import MaxPool, MinPool
from tests.harness import lowerings_of, run_lowering
from tests.kernels.pool.windows import HOST
from tests.kernels.pool_oracle import chosen, geometry
from tests.targets import over_targets, target_name

ONE = ((1, 1), (1, 1))


def few(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Few different values, so that nearly every window has ties."""
    low = 0 if np.dtype(dtype).kind in "ub" else -2
    return np.random.default_rng(seed).integers(low, 3, shape).astype(dtype)


def check(op: MaxPool, x: Array, target: Any = HOST) -> None:
    want = op.reference(x)
    found = list(lowerings_of(op, (x,), target, constants=False))
    assert found
    for lowering in found:
        for junk, chunk in ((0xFF, 0), (0x5A, 2)):
            got = run_lowering(op, lowering, (x,), target, constants=False, junk=junk, chunk=chunk)
            np.testing.assert_array_equal(
                got[0].astype(np.float64), want[0].astype(np.float64), err_msg=f"{op}"
            )
            np.testing.assert_array_equal(got[1], want[1], err_msg=f"{op}")


WINDOWS = ((3, 2), (3, 1), (2, 2), (7, 2), (8, 1), (5, 3))
PADS = ((0, 0), (1, 1), (1, 0), (0, 1))
# Two pads for each window, others for the next.
CASES = [
    each for number, each in enumerate(itertools.product(WINDOWS, PADS)) if (number // 4 + number) % 2 == 0
]


@pytest.mark.parametrize(("windows", "pads", "target"), over_targets(CASES, 5), ids=target_name)
def test_every_vector_tail(windows: tuple[int, int], pads: tuple[int, int], target: Any) -> None:
    window, stride = windows
    for number, width in enumerate((window, 8, 9, 15, 16, 17, 18, 33, 34), PADS.index(pads)):
        height = (window, 10)[number % 2]
        op = MaxPool((window, window), (stride, stride), (pads, pads), return_indices=True)
        check(op, few((1, 2, height, max(width, window)), seed=width), target)


TIED = (1, 2, 3, 6, 7, 13, 16, 17)


@pytest.mark.parametrize("nan", ["propagate", "ignore"])
@pytest.mark.parametrize("window", TIED)
def test_ties_nan_and_infinities(window: int, nan: str) -> None:
    """Quick and exact passes, windows of nothing but NaN or -inf. Maxima and minima, and both layouts, in turns: all
    for every stride and for every rule for NaN."""
    pad, place = (window // 2, (window - 1) // 2), TIED.index(window)
    for stride in (1, 2, 3):
        kind = (MaxPool, MinPool)[(stride + place + (nan == "ignore")) % 2]
        last = (stride + place // 2) % 2 == 0
        op = kind(
            (window, window), (stride, stride), (pad, pad), return_indices=True, nan=nan, channels_last=last
        )
        x = few((2, 19, 22, 3) if last else (2, 3, 19, 22), seed=window)
        check(op, x)
        flat = x.ravel()
        flat[3::11], flat[5::13], flat[7::17] = np.nan, -np.inf, np.inf
        check(op, x)
    for value in (np.nan, -np.inf, np.inf):
        check(
            MaxPool((window, window), (2, 2), (pad, pad), return_indices=True, nan=nan),
            np.full((1, 3, 18, 19), value, np.float32),
        )


DTYPES = (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_)


@pytest.mark.parametrize(("dtype", "target"), over_targets([(each,) for each in DTYPES]), ids=target_name)
def test_element_types(dtype: Any, target: Any) -> None:
    """Channels come first and last in turns, and windows: three of five for each type."""
    windows, turn = ((3, 2), (3, 1), (9, 1), (8, 2), (2, 4)), DTYPES.index(dtype)
    for number, (window, stride) in enumerate((windows * 2)[turn % 5 :][:3], turn):
        pads, last = ((window // 2, window // 3),) * 2, number % 2 == 1
        op = MaxPool((window, window), (stride, stride), pads, return_indices=True, channels_last=last)
        check(op, few((1, 20, 23, 9) if last else (1, 9, 20, 23), dtype), target)
    check(
        MaxPool((3, 3), (2, 2), ONE, return_indices=True),
        np.full((1, 2, 16, 16), np.zeros(1, dtype)[0]),
        target,
    )


@pytest.mark.parametrize("index", ["plane", "tensor", "column", "nhwc"])
def test_what_indices_count(index: str) -> None:
    for window, stride in ((3, 2), (8, 1)):
        for last in (False, True):
            op = MaxPool((window, 2), (stride, stride), return_indices=True, index=index, channels_last=last)
            check(op, few((2, 12, 18, 5) if last else (2, 5, 12, 18)))
    check(MaxPool((3, 3), (2, 2), ONE, return_indices=True, index=index), few((2, 5, 17, 19)))
    check(MaxPool((4,), (2,), ((1, 1),), return_indices=True, index=index), few((2, 5, 40)))


def test_bits_do_not_depend_on_bands_and_strips() -> None:
    """More rows than a band, more columns than a strip."""
    check(MaxPool((3, 3), (2, 2), ONE, return_indices=True), few((1, 1, 120, 700)))
    check(MaxPool((9, 9), (1, 1), ((4, 4), (4, 4)), return_indices=True), few((1, 1, 9, 1100)))
    check(MaxPool((40, 3), (3, 1), return_indices=True), few((1, 1, 60, 2100)))


def test_which_kernel_serves() -> None:
    index = IndexLayout((0, 16, 1, 0, 0), (0, 0, 0, 0))
    for dilation, kind in ((1, PoolArgmaxSeparable), (2, PoolArgmaxGeneric)):
        g = geometry((1, 16, 16), (1, 3, 3), dilation=(1, dilation, dilation))
        memory = Memory(1, 3, (768, 256, 0, 16), (g.out[1] * g.out[2] * 3, g.out[1] * g.out[2], 0, g.out[2]))
        problem = PoolProblem("max", np.dtype(np.float32), g, memory, index=index)
        assert isinstance(chosen(problem, HOST).build(None, None).spec, kind)
