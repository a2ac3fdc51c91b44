"""Results written past the caches: every alignment of the output, ends of rows, types, NaN, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote import functional
from cenote.codegen import jit
from cenote.core.types import Array
from cenote.functional import callers
from cenote.kernels.pool.problem import Memory, PoolProblem
from cenote.kernels.pool.van_herk import PoolVanHerk
from cenote.ops.pool import algorithms
from cenote.ops.pool.algorithms import offered
from tests.kernels.pool_oracle import geometry, pooled, run_pool

GUARD = 64  # elements on each side of an output that nothing may touch
JUNK = 77
BY_WINDOW = {(1, 9, 9): "van_herk", (1, 31, 31): "van_herk", (3, 3, 3): "window_3x3x3"}


@pytest.fixture(autouse=True)
def every_tensor_is_large(prepared_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PoolProblem, "passes_caches", lambda *_: True)


def only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Windows are pooled by this algorithm, by functions too."""
    monkeypatch.setattr(
        algorithms, "WINDOWS", tuple(each for each in algorithms.WINDOWS if each.name == name)
    )
    callers.forget()


def noise(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 40).astype(dtype)


def into_memory_at(offset: int, shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """Junk, and an output within it that starts `offset` elements after a cache line."""
    memory = np.full(int(np.prod(shape)) + 3 * GUARD, JUNK, dtype)
    start = GUARD + (-(memory.ctypes.data // memory.itemsize) % GUARD + offset) % GUARD
    return memory, memory[start : start + int(np.prod(shape))].reshape(shape)


def check_around(memory: Array, y: Array) -> None:
    start = (y.ctypes.data - memory.ctypes.data) // memory.itemsize
    assert (memory[:start] == JUNK).all()
    assert (memory[start + y.size :] == JUNK).all()


@pytest.mark.parametrize("offset", [0, 1, 4, 8, 12, 15])
@pytest.mark.parametrize(("window", "pad"), [(8, 0), (9, 4), (31, 15), (40, 0), (64, 3), (101, 50)])
def test_wide_windows_at_every_alignment(
    window: int, pad: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "van_herk")
    for width in (192 + window, 205 + window, 371):
        x = noise((1, 2, 110, width), np.float32, width)
        g = geometry((1, 110, width), (1, window, window), pads=((0, 0), (pad, pad), (pad, pad)))
        for kind in ("max", "sum"):
            memory, y = into_memory_at(offset, (1, 2, *g.out[1:]), np.float32)
            if kind == "max":
                functional.max_pool2d(x, window, 1, pad, out=y)
                np.testing.assert_array_equal(y, pooled(x[:, :, None], g, "max")[:, :, 0])
            else:
                functional.avg_pool2d(x, window, 1, pad, divisor_override=1, out=y)
                bound = 1e-6 * pooled(np.abs(x[:, :, None]), g, "sum").max()
                np.testing.assert_allclose(y, pooled(x[:, :, None], g, "sum")[:, :, 0], rtol=1e-6, atol=bound)
            check_around(memory, y)


@pytest.mark.parametrize("algorithm", ["separable", "window_3x3x3"])
@pytest.mark.parametrize("offset", [0, 3, 12])
@pytest.mark.parametrize(("size", "window", "pad"), [
    ((5, 23, 130), 3, 1), ((4, 19, 201), 2, 0), ((3, 40, 128), 3, 0), ((6, 7, 64), 3, 1), ((4, 1, 100), 1, 0),
])  # fmt: skip
def test_volumes_at_every_alignment(
    size: tuple[int, int, int],
    window: int,
    pad: int,
    offset: int,
    algorithm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if algorithm == "window_3x3x3" and window != 3:
        pytest.skip("other windows")
    only(monkeypatch, algorithm)
    x = noise((2, 2, *size), np.float32)
    g = geometry(size, (window,) * 3, pads=((pad, pad),) * 3)
    memory, y = into_memory_at(offset, (2, 2, *g.out), np.float32)
    functional.max_pool3d(x, window, 1, pad, out=y, threads=2)
    np.testing.assert_array_equal(y, pooled(x, g, "max"))
    check_around(memory, y)
    functional.avg_pool3d(x, window, 1, pad, divisor_override=1, out=y, threads=2)
    np.testing.assert_allclose(y, pooled(x, g, "sum"), rtol=1e-6, atol=1e-3)
    check_around(memory, y)


DTYPES = (np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype: Any) -> None:
    """Maxima of two of the windows in turns; minima, or maxima on the narrowest target, of one of them."""
    cases = (((1, 70, 420), (1, 9, 9)), ((1, 70, 420), (1, 31, 31)), ((4, 9, 300), (3, 3, 3)))
    turn = DTYPES.index(dtype)
    for number, (size, window) in enumerate((cases * 2)[turn % 3 :][:2], turn):
        g = geometry(size, window, pads=tuple((w // 2, w // 2) for w in window))
        x = noise((1, 2, *size), dtype)
        more = ((), (("min", ""),), (("max", "generic"),))[(number + turn // 3) % 3]
        for reduction, target in (("max", ""), *more):
            y = run_pool(x, g, reduction, jit.named_target(target), algorithm=BY_WINDOW[g.window])
            np.testing.assert_array_equal(y.astype(np.float64), pooled(x, g, reduction))


def test_nan_and_infinities_reach_their_windows_and_no_others() -> None:
    for size, window in (((1, 40, 300), (1, 9, 9)), ((1, 40, 300), (1, 31, 31)), ((4, 9, 130), (3, 3, 3))):
        g = geometry(size, window, pads=tuple((w // 2, w // 2) for w in window))
        for seed in range(6):
            x = noise((1, 1, *size), np.float32, seed)
            places = np.random.default_rng(seed).integers(0, x.size, 4)
            x.ravel()[places] = (np.nan, np.inf, -np.inf, 1e38)
            y = run_pool(x, g, "max", jit.host_target(), algorithm=BY_WINDOW[g.window])
            np.testing.assert_array_equal(y, pooled(x, g, "max"))
            x.ravel()[places[0]] = 0
            y = run_pool(x, g, "sum", jit.host_target(), algorithm=BY_WINDOW[g.window])
            want = pooled(x, g, "sum")
            np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
            np.testing.assert_array_equal(np.isinf(y), np.isinf(want))


def test_bits_do_not_depend_on_the_chunks() -> None:
    for size, window in (((1, 300, 300), (1, 9, 9)), ((4, 30, 130), (3, 3, 3))):
        g = geometry(size, window, pads=tuple((w // 2, w // 2) for w in window))
        x = noise((1, 2, *size), np.float32)
        whole = run_pool(x, g, "sum", jit.host_target(), algorithm=BY_WINDOW[g.window])
        for chunk in (1, 3):
            y = run_pool(x, g, "sum", jit.host_target(), algorithm=BY_WINDOW[g.window], chunk=chunk)
            np.testing.assert_array_equal(y, whole)


def test_the_plan_of_a_large_image_writes_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests are about is what large images get."""
    monkeypatch.undo()
    target = jit.host_target()
    side = int((target.l3_bytes // 4) ** 0.5) // 16 * 16 + 16
    for size, large in (((1, side, side), True), ((1, 64, 64), False)):
        g = geometry(size, (1, 9, 9), pads=((0, 0), (4, 4), (4, 4)))
        strides = (side * side, side * side, side * side, size[2])
        problem = PoolProblem("max", np.dtype(np.float32), g, Memory(1, 1, strides, strides))
        spec = offered("van_herk", problem, target).build(None, None).spec
        assert isinstance(spec, PoolVanHerk)
        assert spec.past_caches is large
