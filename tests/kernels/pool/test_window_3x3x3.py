"""Windows of 3x3x3: edges, tails, odd numbers of planes and rows, types, NaN and infinities, chunks; in and past the
caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote import functional
from cenote.codegen import jit
from cenote.core.types import Array
from cenote.kernels.pool import window_3x3x3
from cenote.kernels.pool.problem import Geometry, Memory, PoolProblem
from cenote.kernels.pool.window_3x3x3 import PoolWindow3x3x3
from tests.kernels.pool_oracle import geometry, pooled, run_pool

HOST = jit.host_target()
WINDOW = (3, 3, 3)
JUNK = 77.0


@pytest.fixture(params=[False, True], ids=["in the caches", "past the caches"], autouse=True)
def past_caches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PoolProblem, "passes_caches", lambda *_: request.param)


def noise(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 40).astype(dtype)


def check(x: Array, g: Geometry, reductions: tuple[str, ...] = ("max", "min", "sum")) -> None:
    for reduction in reductions:
        y = run_pool(x, g, reduction, HOST, algorithm="window_3x3x3")
        want = pooled(x, g, reduction)
        if reduction == "sum":
            np.testing.assert_allclose(y, want, rtol=1e-6, atol=27 * 40 * 2e-6)
        else:
            np.testing.assert_array_equal(y.astype(np.float64), want)


def test_the_plan_uses_the_kernel() -> None:
    g = geometry((4, 9, 40), WINDOW, pads=((1, 1),) * 3)
    memory = Memory(1, 1, (1440, 1440, 360, 40), (1440, 1440, 360, 40))
    problem = PoolProblem("sum", np.dtype(np.float32), g, memory)
    plan = window_3x3x3.offer(problem, HOST)
    assert plan is not None
    assert isinstance(plan.build(None, None).spec, PoolWindow3x3x3)


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("width", [5, 8, 9, 10, 11, 15, 16, 17, 18, 19, 26, 64, 67, 101])
def test_every_tail(width: int, pad: int) -> None:
    g = geometry((3, 4, width), WINDOW, pads=((pad, pad),) * 3)
    check(noise((1, 2, 3, 4, width), seed=width), g)


@pytest.mark.parametrize(
    ("planes", "rows"), [(1, 9), (2, 1), (2, 8), (3, 3), (4, 30), (5, 17), (7, 2), (6, 31)]
)
def test_few_and_odd_planes_and_rows(planes: int, rows: int) -> None:
    """Windows taller and deeper than the volume among them, and bands that end in an odd row."""
    g = geometry((planes, rows, 72), WINDOW, pads=((1, 1),) * 3)
    check(noise((2, 3, planes, rows, 72)), g)


@pytest.mark.parametrize("pads", [
    ((2, 2), (2, 2), (2, 0)), ((0, 2), (1, 0), (0, 2)), ((2, 0), (0, 1), (1, 0)), ((0, 1), (2, 1), (0, 1)),
    ((1, 0), (0, 0), (1, 1)),
])  # fmt: skip
def test_pads_that_differ(pads: tuple[tuple[int, int], ...]) -> None:
    check(noise((1, 2, 4, 21, 70)), geometry((4, 21, 70), WINDOW, pads=pads), ("max", "sum"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int64])
def test_element_types_and_targets(dtype: Any) -> None:
    g = geometry((4, 9, 300), WINDOW, pads=((1, 1),) * 3)
    x = noise((1, 2, 4, 9, 300), np.float64).astype(np.int64).astype(dtype)
    others = ("min",) if np.dtype(dtype).itemsize < 4 else ("sum",)
    for target, reductions in (("generic", others), ("", ("max", *others))):
        for reduction in reductions:
            y = run_pool(x, g, reduction, jit.named_target(target), algorithm="window_3x3x3")
            np.testing.assert_array_equal(y.astype(np.float64), pooled(x, g, reduction))


def test_nan_and_infinities_reach_their_windows_and_no_others() -> None:
    for pad in (0, 1):
        g = geometry((4, 17, 66), WINDOW, pads=((pad, pad),) * 3)
        for seed in range(12):
            x = noise((1, 1, 4, 17, 66), seed=seed)
            places = np.random.default_rng(seed).integers(0, x.size, 3)
            x.ravel()[places] = (np.nan, np.inf, -np.inf)
            x[0, 0, seed % 4, seed % 17, (0, 65)[seed % 2]] = np.nan
            np.testing.assert_array_equal(
                run_pool(x, g, "max", HOST, algorithm="window_3x3x3"), pooled(x, g, "max")
            )
            ignored = run_pool(x, g, "max", HOST, algorithm="window_3x3x3", nan="ignore")
            np.testing.assert_array_equal(ignored, pooled(x, g, "max", "ignore"))
            y, want = run_pool(x, g, "sum", HOST, algorithm="window_3x3x3"), pooled(x, g, "sum")
            np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
            np.testing.assert_array_equal(np.isinf(y), np.isinf(want))


def test_bits_depend_neither_on_chunks_nor_on_threads() -> None:
    g = geometry((5, 45, 130), WINDOW, pads=((1, 1),) * 3)
    x = noise((1, 3, 5, 45, 130))
    whole = run_pool(x, g, "sum", HOST, algorithm="window_3x3x3")
    for chunk in (1, 3):
        np.testing.assert_array_equal(
            run_pool(x, g, "sum", HOST, algorithm="window_3x3x3", chunk=chunk), whole
        )
    one, two = (functional.avg_pool3d(x, 3, 1, 1, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("shape", [(5, 23, 130), (1, 2, 40), (2, 33, 24), (4, 9, 17)])
def test_averages_count_what_they_should(shape: tuple[int, int, int], include: bool) -> None:
    x = noise((1, 2, *shape))
    g = geometry(shape, WINDOW, pads=((1, 1),) * 3)
    counts = np.float64(27) if include else pooled(np.ones_like(x), g, "sum")
    y = np.full(x.shape, JUNK, np.float32)
    functional.avg_pool3d(x, 3, 1, 1, count_include_pad=include, out=y)
    np.testing.assert_allclose(y, pooled(x, g, "sum") / counts, rtol=1e-6, atol=1e-4)
    equal = functional.avg_pool3d(np.full_like(x, 0.1), 3, 1, 1, count_include_pad=False)
    np.testing.assert_allclose(equal, np.float32(0.1), rtol=1e-6)
