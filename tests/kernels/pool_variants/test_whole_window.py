"""Medians, SoftPool, blur, fractional maxima and the gradient of RoiAlign as kernels, against their references: what
operators' samples leave out. Vector tails, NaN and infinities, strides and dilations, borders, thread counts.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import InputError
from cenote.core.types import BFLOAT16, Array, TensorType
from cenote.kernels.pool_variants.median import comparators
from cenote.ops.pool.blur import BORDERS, BlurPool
from cenote.ops.pool.fractional import FractionalMaxPool
from cenote.ops.pool.median import MedianPool
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.ops.pool.weighted import SoftPool
from cenote.ops.roi.align import RoiAlign
from tests.harness import cast, run_alone
from tests.kernels.native import kernel_of, noise, same

WINDOWS = ((2, 2), (3, 3), (5, 5), (4, 3), (1, 7))


def holes(*shape: int, dtype: Any = np.float32) -> Array:
    """Noise with a few NaN, infinities and equal values."""
    x = noise(*shape)
    draws = np.random.default_rng(len(shape)).random(shape)
    for low, value in ((0.0, np.nan), (0.01, np.inf), (0.02, -np.inf), (0.03, 0.5), (0.1, 0.0)):
        x[(draws >= low) & (draws < low + 0.01)] = value
    return x.astype(dtype)


def placed(last: bool, *spatial: int) -> tuple[int, ...]:
    return (2, *spatial, 13) if last else (2, 3, *spatial)


# ---- medians and SoftPool -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MedianPool, SoftPool])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_that_reach_over_the_edge(kind: Any, last: bool, stride: int) -> None:
    """Every window with pads, and without them in turns."""
    x = holes(*placed(last, 13, 37))
    for number, window in enumerate(WINDOWS, stride):
        pads = tuple((k // 2, k // 2) for k in window)
        same(kind(window, (stride, stride), pads, channels_last=last), x)
        if number % 2:
            same(kind(window, (stride, stride), channels_last=last), x)


@pytest.mark.parametrize("kind", [MedianPool, SoftPool])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 15, 16, 17, 33])
def test_widths_around_a_vector(kind: Any, width: int) -> None:
    same(kind((3, 3), (), ((1, 1), (1, 1))), holes(1, 2, 5, width))
    same(kind((3, 3), (2, 2), ((1, 1), (1, 1)), ceil_mode=True), holes(1, 2, 6, width))
    same(kind((2,), (), ((1, 0),)), holes(2, 3, width))


@pytest.mark.parametrize("kind", [MedianPool, SoftPool])
def test_dilation_channels_bands_and_types(kind: Any) -> None:
    for last in (False, True):
        same(kind((3, 2), (2, 1), ((2, 2), (1, 1)), (2, 2), channels_last=last), holes(*placed(last, 11, 21)))
    for channels in (1, 7, 17, 64):
        same(kind((3, 3), (), ((1, 1), (1, 1)), channels_last=True), holes(1, 6, 5, channels))
    same(kind((3, 3), (2, 2)), noise(1, 1, 401, 403))  # several bands to a plane
    same(kind((3, 3), (1, 1), ((1, 1), (1, 1)), channels_last=True), noise(1, 41, 43, 64))
    for dtype in (np.float64, np.float16, BFLOAT16):
        for window in ((3, 3), (2, 2)):
            same(kind(window, (2, 2)), holes(1, 3, 9, 21, dtype=dtype))


def test_large_soft_windows_and_large_values() -> None:
    same(SoftPool((9, 7), (1, 1), ((4, 4), (3, 3))), holes(1, 2, 15, 22))
    same(SoftPool((5, 5)), noise(1, 2, 12, 22) * 1e4)  # exp of these overflows
    tiny = np.full((1, 1, 4, 40), np.float32(-3e38))
    np.testing.assert_array_equal(F.soft_pool(tiny, 2, 1), np.full((1, 1, 3, 39), np.float32(-3e38)))


def test_medians_are_exact() -> None:
    x = noise(2, 3, 19, 35)
    for k in (2, 3, 4, 5, 7):
        same(MedianPool((k, k)), x, tolerance=0.0)
    large = np.full((1, 1, 2, 32), np.finfo(np.float32).max)
    np.testing.assert_array_equal(F.median_pool(large, 2, 1), large[:, :, :1, :31])  # the sum overflows


def test_windows_too_large_for_a_network_run_as_before() -> None:
    x = noise(1, 1, 12, 12)
    op = MedianPool((9, 9))
    assert kernel_of(op, [TensorType.known(x)]) is None
    np.testing.assert_array_equal(run_alone(op, (x,))[0], op.reference(x)[0])


@pytest.mark.parametrize("count", range(1, 13))
def test_the_network_sorts(count: int) -> None:
    """By the 0-1 principle: what sorts all zeros and ones sorts everything."""
    for values in itertools.product((0, 1), repeat=count):
        ordered = list(values)
        for low, high in comparators(count):
            ordered[low], ordered[high] = min(ordered[low], ordered[high]), max(ordered[low], ordered[high])
        assert ordered == sorted(values)


# ---- blur -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("last", [False, True])
def test_blur(border: str, last: bool) -> None:
    x = holes(*placed(last, 13, 37))
    for window, stride in itertools.product(WINDOWS, (1, 2, 3, 5)):
        same(BlurPool(window, (stride, stride), border, last), x)
    for width in (8, 9, 15, 16, 17, 31):
        same(BlurPool((4, 4), (2, 2), border, last), noise(*placed(last, 9, width)))
        same(BlurPool((3,), (2,), border, last), noise(*placed(last, width)))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16])
def test_blur_of_other_types(dtype: Any) -> None:
    same(BlurPool((3, 3)), noise(1, 3, 9, 21, dtype=dtype))
    same(BlurPool((1, 1), (2, 2), "zeros"), noise(1, 3, 9, 21, dtype=dtype))


# ---- fractional maxima ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_fractional_maxima(last: bool, real: Any) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
        ((2, 2), (13, 19), (27, 39)),
        ((3, 2), (1, 9), (9, 11)),
        ((5, 6), (3, 17), (12, 31)),
        ((3,), (21,), (40,)),
        ((2, 2, 2), (2, 3, 9), (5, 6, 19)),
    ]
    for window, output, spatial in cases:
        x = holes(*placed(last, *spatial))
        channels = x.shape[-1] if last else x.shape[1]
        draws = np.random.default_rng(3).random((2, channels, len(window))).astype(real)
        draws[0, 0], draws[0, 1] = 0, 1
        same(FractionalMaxPool(window, output, False, last), x, draws, tolerance=0.0)
        op = FractionalMaxPool(window, output, True, last)
        want = op.reference(x, draws)
        for threads in (1, 2):
            outs = tuple(np.full(y.shape, 77).astype(y.dtype) for y in want)
            run_alone(op, (x, draws), outs, threads)
            for got, wanted in zip(outs, want, strict=True):
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, BFLOAT16, np.bool_])
def test_fractional_maxima_of_other_types(dtype: Any) -> None:
    x = cast(noise(2, 3, 9, 21) * 30, dtype)
    draws = np.random.default_rng(3).random((2, 3, 2)).astype(np.float32)
    op = FractionalMaxPool((2, 2), (4, 11), True)
    assert kernel_of(op, [TensorType.known(value) for value in (x, draws)]) is not None
    for got, want in zip(run_alone(op, (x, draws)), op.reference(x, draws), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_wrong_sample_is_refused(wrong: float, threads: int) -> None:
    draws = np.full((2, 3, 2), 0.5, np.float32)
    draws[1, 2, 0] = wrong
    with pytest.raises(InputError, match="samples must lie between 0 and 1"):
        F.fractional_max_pool2d(noise(2, 3, 40, 40), 2, 20, _random_samples=draws, threads=threads)


# ---- RoiAlign backwards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aligned", [False, True])
def test_the_gradient_of_roi_align(dtype: Any, aligned: bool) -> None:
    random = np.random.default_rng(5)
    boxes = random.uniform(-8, 60, (30, 4))
    boxes[:, 2:] = boxes[:, :2] + random.uniform(-2, 40, (30, 2))
    images = random.integers(0, 2, 30)
    g = noise(30, 19, 3, 4, dtype=dtype)
    for width, ratio in itertools.product((1, 5, 19, 40), (0, 2)):
        op = SparseGradient(RoiAlign((3, 4), 0.7, ratio, aligned))
        same(op, g, noise(2, 19, 23, width, dtype=dtype), boxes.astype(dtype), images)


def test_a_box_of_no_image_has_no_gradient() -> None:
    g, x = noise(2, 3, 2, 2), noise(1, 3, 9, 9)
    boxes = np.array([[0, 0, 0, 5, 5], [1, 0, 0, 5, 5]], np.float32)
    with pytest.raises(InputError, match="image"):
        F.roi_align_backward(g, x, boxes, 2)
