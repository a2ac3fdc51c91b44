"""Whole-map reductions: run lengths around every threshold, pieces of large planes, accuracy, chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import View, dense_strides
from cenote.kernels.pool.whole_map import BLOCK, PIECE, UNROLLED, Maps, Reduce, partials, whole_maps
from cenote.runtime.steps import Slot, SlotKind
from tests.harness import Buffer, cast, launch, pack, unpack

HOST = jit.host_target()
GENERIC = jit.named_target("generic")


def reduced(x: Array, reduce: Reduce, target: Any = HOST, chunk: int = 0) -> Array:
    """x (planes, elements) as (planes,)."""
    maps = Maps(1, x.shape[0], (x.size, x.shape[1]), (x.shape[0], 1), x.shape[1])
    types = [TensorType.of(x.dtype, x.shape), TensorType.of(x.dtype, x.shape[:1])]
    between = partials(reduce, maps)
    types += [between] if between else []
    buffers = [Buffer(type.nbytes) for type in types]
    views = [View(t, PLAIN, dense_strides(t.shape), Slot(SlotKind.ARENA, i)) for i, t in enumerate(types)]
    pack(x, PLAIN, buffers[0])
    for call in whole_maps(reduce, maps, target, *views):
        launch(call, buffers, target, chunk)
    for buffer in buffers:
        buffer.check("whole maps")
    return unpack(buffers[1], types[1], PLAIN)


def noise(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("target", [HOST, GENERIC], ids=lambda target: target.name)
@pytest.mark.parametrize(
    "length", [1, 2, 3, 7, 8, 9, 31, 32, 33, 49, 8 * UNROLLED, 8 * UNROLLED + 1, 8 * BLOCK + 5, 1300]
)
def test_run_lengths(length: int, target: Any) -> None:
    for planes in (1, 7, 8, 19):
        x = noise((planes, length))
        np.testing.assert_array_equal(reduced(x, Reduce("max", x.dtype), target), x.max(1))
        sums = reduced(x, Reduce("sum", x.dtype, factor=0.5), target)
        np.testing.assert_allclose(
            sums, x.astype(np.float64).sum(1) / 2, rtol=1e-6, atol=1e-6 * np.abs(x).sum()
        )


@pytest.mark.parametrize("length", [2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 1, 3 * PIECE + 17])
def test_large_planes_in_pieces_give_the_same_bits_in_any_chunks(length: int) -> None:
    x = noise((2, length))
    for reduce in (Reduce("max", x.dtype), Reduce("sum", x.dtype, factor=1 / length)):
        whole = reduced(x, reduce)
        np.testing.assert_array_equal(reduced(x, reduce, chunk=1), whole)
    np.testing.assert_allclose(whole, x.mean(1, dtype=np.float64), rtol=0, atol=1e-7)


def test_mean_of_16_million_elements() -> None:
    for value in (0.1006, 1e-3):
        x = np.full((1, 16 << 20), value, np.float32)
        mean = reduced(x, Reduce("sum", x.dtype, factor=1 / x.size))
        assert abs(mean[0] - np.float64(np.float32(value))) <= 1e-6 * value


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint8, np.int64])
def test_element_types(dtype: Any) -> None:
    x = cast(noise((9, 77)) * 20, dtype)
    np.testing.assert_array_equal(reduced(x, Reduce("max", x.dtype)), x.max(1))
    np.testing.assert_array_equal(reduced(x, Reduce("min", x.dtype)), x.min(1))


def test_nan_and_infinities() -> None:
    for length in (49, 1000, 2 * PIECE + 3):
        for place in (0, 5, length - 1):
            x = noise((3, length))
            x[1, place], x[2, place] = np.nan, np.inf
            np.testing.assert_array_equal(reduced(x, Reduce("max", x.dtype)), x.max(1))
            ignored = reduced(x, Reduce("max", x.dtype, nan="ignore"))
            np.testing.assert_array_equal(ignored, np.fmax.reduce(x, axis=1))
            mean = reduced(x, Reduce("sum", x.dtype))
            assert np.isfinite(mean[0])
            assert np.isnan(mean[1])
            assert mean[2] == np.inf
