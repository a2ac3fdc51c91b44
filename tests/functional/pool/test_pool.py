"""The pools that no framework's samples cover, against their formulas written out, and against SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, DTypeError, ShapeError
from cenote.ops.pool.weighted import uniform
from tests.functional import naive
from tests.functional.inputs import FLOATS, noise

GEOMETRY = ((3, 2), (2, 1), (1, 2), ((1, 1), (1, 0)))


def by_formula(x: Any, formula: Any) -> Any:
    """`formula` of the elements of every window of GEOMETRY, in float64."""
    reduce = lambda elements, real, padded: formula([float(v) for _, v in elements])  # noqa: E731
    return naive.pool(x, reduce, *GEOMETRY).astype(np.float64)


def soft(values: list[float]) -> float:
    return sum(v * math.exp(v) for v in values) / sum(math.exp(v) for v in values)


def gem(values: list[float]) -> float:
    return (sum(max(v, 1e-6) ** 3 for v in values) / len(values)) ** (1 / 3)


def median(values: list[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def expected(values: list[float]) -> float:
    positive = [max(v, 0) for v in values]
    return sum(p * p for p in positive) / sum(positive) if sum(positive) else sum(values) / len(values)


@pytest.mark.parametrize(
    ("name", "formula"), [("soft_pool", soft), ("gem_pool", gem), ("median_pool", median)]
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_formulas(name: str, formula: Any, dtype: Any) -> None:
    x = noise(2, 2, 7, 6, dtype=dtype)
    window, stride, dilation, pads = GEOMETRY
    arguments = {"kernel_size": window, "stride": stride, "padding": pads, "dilation": dilation}
    got = getattr(F, name)(x, **arguments)
    tolerance = {8: 1e-12, 4: 1e-6, 2: 1e-2}[x.dtype.itemsize]
    np.testing.assert_allclose(got.astype(np.float64), by_formula(x, formula), rtol=tolerance, atol=tolerance)
    last = getattr(F, name)(np.moveaxis(x, 1, -1), **arguments, layout="NHWC")
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1).astype(np.float64), got.astype(np.float64))


def test_min_pool() -> None:
    for dtype in (np.float32, np.int8, np.uint8):
        x = (noise(1, 3, 8, 9) * 50).astype(np.int8).astype(dtype)
        y, where = F.min_pool(x, 3, 2, 1, return_indices=True)
        want, places = naive.max_pool(x, (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1)), largest=False)
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(where, places)
    assert F.min_pool(np.array([np.nan, np.nan]), 2, layout="L", nan="ignore").tolist() == [np.inf]


@pytest.mark.parametrize("size", [3, 5, (1, 7), (9, 3)])
def test_morphology_is_scipys(size: Any) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    x = noise(17, 14)
    pair = size if isinstance(size, tuple) else (size, size)
    np.testing.assert_array_equal(F.dilation(x, size, layout="HW"), ndimage.grey_dilation(x, pair))
    np.testing.assert_array_equal(F.erosion(x, size, layout="HW"), ndimage.grey_erosion(x, pair))
    median_want = ndimage.median_filter(x, pair)[4:-4, 4:-4]
    np.testing.assert_array_equal(F.median_pool(x, pair, 1, "same", layout="HW")[4:-4, 4:-4], median_want)


def test_opening_and_closing() -> None:
    """For every size, even ones too: opening never exceeds the image, closing never falls below it, both settle."""
    x = noise(2, 12, 11)
    for size in (2, 3, 4, 5, (2, 5)):
        opened = F.dilation(F.erosion(x, size), size)
        closed = F.erosion(F.dilation(x, size), size)
        assert (opened <= x).all()
        assert (closed >= x).all()
        np.testing.assert_array_equal(F.dilation(F.erosion(opened, size), size), opened)
    masks = noise(6, 6) > 0
    assert F.dilation(masks, 3).dtype == np.bool_


def test_integer_medians() -> None:
    x = np.array([1, 2, -1, -2, 127, 126, -128, -127], np.int8)
    assert F.median_pool(x, 2, layout="L").tolist() == [1, -1, 126, -127]
    big = np.array([2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1], np.int64)
    assert F.median_pool(big, 2, layout="L").tolist() == [2**63 - 2, -(2**63) + 1]


def test_soft_pool_does_not_overflow() -> None:
    x = np.array([1000, 999, -1000, np.inf, 1, -np.inf, np.nan, 1], np.float32)
    y = F.soft_pool(x, 2, layout="L")
    assert y[0] == pytest.approx(1000 - 1 / (1 + math.e), rel=1e-6)
    assert y[1] == np.inf
    assert y[2] == 1
    assert np.isnan(y[3])


def test_gem_pool() -> None:
    x = np.abs(noise(2, 3, 5, 4))
    np.testing.assert_allclose(F.gem_pool(x, 1.0), F.global_avg_pool(x), rtol=1e-5)
    np.testing.assert_allclose(F.gem_pool(x, math.inf), F.global_max_pool(x), rtol=1e-6)
    assert F.gem_pool(x).shape == (2, 3, 1, 1)
    with pytest.raises(ArgumentError, match="p must be"):
        F.gem_pool(x, 0)


def test_philox() -> None:
    """The published test vectors of Philox-4x32-10 (first word): counter and key zero; and all ones."""
    assert uniform(np.array([0]), 0)[0] == 0x6627E8D5 / 2**32
    draws = uniform(np.arange(20000), 7)
    assert 0.49 < draws.mean() < 0.51
    assert len(set(draws.tolist())) > 19990


def test_stochastic_pool() -> None:
    x = np.tile(np.array([1, 3, 0, -5], np.float32), (1, 1, 4000))
    y, where = F.stochastic_pool(x, 4, layout="NCL", return_indices=True, seed=11)
    share = (y == 3).mean()
    assert set(np.unique(y)) == {1, 3}
    assert 0.72 < share < 0.78
    np.testing.assert_array_equal(x.ravel()[where.ravel()], y.ravel())
    np.testing.assert_array_equal(F.stochastic_pool(x, 4, layout="NCL", seed=11), y)
    assert (F.stochastic_pool(x, 4, layout="NCL", seed=12) != y).any()
    np.testing.assert_allclose(F.stochastic_pool(x, 4, layout="NCL", training=False), 2.5)
    x = noise(2, 2, 7, 6, dtype=np.float64)
    window, stride, dilation, pads = GEOMETRY
    got = F.stochastic_pool(x, window, stride, pads, dilation, training=False)
    np.testing.assert_allclose(got, by_formula(x, expected), rtol=1e-12)
    draws = F.stochastic_pool(x, 3, seed=2)
    last = F.stochastic_pool(np.moveaxis(x, 1, -1), 3, seed=2, layout="NHWC")
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1), draws)  # the draw belongs to (n, c, h, w)
    negative = F.stochastic_pool(-np.ones((1, 1, 4, 4), np.float32), 2)
    np.testing.assert_array_equal(negative, -1)
    with pytest.raises(ArgumentError, match="return_indices"):
        F.stochastic_pool(x, 3, training=False, return_indices=True)


def test_blur_pool() -> None:
    x = noise(1, 2, 9, 10, dtype=np.float64)
    for k, border, mode in ((3, "reflect", "reflect"), (4, "replicate", "edge"), (5, "zeros", "constant")):
        weights = np.array([math.comb(k - 1, t) for t in range(k)]) / 2 ** (k - 1)
        pad = ((k - 1) // 2, k // 2)
        padded = np.pad(x, ((0, 0), (0, 0), pad, pad), mode=mode)  # type: ignore[call-overload]
        want = np.zeros((1, 2, 5, 5))
        for i in range(5):
            for j in range(5):
                patch = padded[:, :, 2 * i : 2 * i + k, 2 * j : 2 * j + k]
                want[:, :, i, j] = np.einsum("ncij,i,j->nc", patch, weights, weights)
        np.testing.assert_allclose(F.blur_pool(x, k, border=border), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(F.blur_pool(np.ones((1, 1, 8, 8), np.float32)), 1)  # weights sum to 1
    with pytest.raises(ShapeError, match="filter_size"):
        F.blur_pool(noise(1, 1, 2, 2), 5)
    with pytest.raises(DTypeError):
        F.blur_pool(np.zeros((1, 1, 8, 8), np.int32))


def bilinear(plane: Any, y: float, x: float) -> list[float]:
    """The four weighted corners of a sample, as torchvision has it; zeros outside."""
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return [0.0] * 4
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = int(y), int(x)
    if top >= height - 1:
        top = bottom = height - 1
        y = float(top)
    else:
        bottom = top + 1
    if left >= width - 1:
        left = right = width - 1
        x = float(left)
    else:
        right = left + 1
    down, across = y - top, x - left
    return [
        (1 - down) * (1 - across) * plane[top, left], (1 - down) * across * plane[top, right],
        down * (1 - across) * plane[bottom, left], down * across * plane[bottom, right],
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["avg", "max", "corners"])
def test_roi_align_by_hand(mode: str) -> None:
    generator = np.random.default_rng(4)
    for trial in range(60):
        x = generator.standard_normal((2, 2, *generator.integers(1, 9, 2)))
        box = np.array([generator.integers(0, 2), *(generator.random(4) * 14 - 3)])
        bins_y, bins_x = generator.integers(1, 4, 2)
        ratio, aligned, scale = trial % 3, bool(trial % 2), (1.0, 0.5)[trial % 2]
        x1, y1, x2, y2 = box[1:] * scale - (0.5 if aligned else 0)
        height, width = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1), max(x2 - x1, 1))
        down = ratio or math.ceil(height / bins_y)
        across = ratio or math.ceil(width / bins_x)
        want = np.zeros((2, bins_y, bins_x))
        for c, i, j in np.ndindex(*want.shape):
            samples = [
                bilinear(
                    x[int(box[0]), c],
                    y1 + i * height / bins_y + (a + 0.5) * height / bins_y / down,
                    x1 + j * width / bins_x + (b + 0.5) * width / bins_x / across,
                )
                for a in range(down)
                for b in range(across)
            ]
            if samples and mode == "avg":
                want[c, i, j] = sum(map(sum, samples)) / len(samples)
            elif samples:
                want[c, i, j] = max(map(max if mode == "corners" else sum, samples))
        got = F.roi_align(
            x, box[None], (int(bins_y), int(bins_x)), scale, ratio, aligned, mode="avg" if mode == "avg" else "max",
            semantics="onnx" if mode == "corners" else "torch",
        )  # fmt: skip
        np.testing.assert_allclose(got[0], want, rtol=1e-10, atol=1e-12)


def test_ps_roi_pool_by_hand() -> None:
    x = noise(1, 8, 6, 7, dtype=np.float64)
    box = np.array([[0, 1, 0, 5, 6]], np.float64)
    got = F.ps_roi_pool(x, box, 2)
    want = np.zeros((2, 2, 2))
    for c, i, j in np.ndindex(2, 2, 2):
        channel = (c * 2 + i) * 2 + j
        want[c, i, j] = x[0, channel, 3 * i : 3 * i + 3, 1 + 2 * j : 3 + 2 * j].mean()
    np.testing.assert_allclose(got[0], want, rtol=1e-12)
    with pytest.raises(ShapeError, match="multiple"):
        F.ps_roi_pool(x, box, 3)


def test_lists_of_boxes() -> None:
    x = noise(2, 3, 6, 6)
    first, second = np.array([[0, 0, 3, 3]], np.float32), np.array([[1, 1, 5, 4], [2, 0, 4, 4]], np.float32)
    joined = np.array([[0, 0, 0, 3, 3], [1, 1, 1, 5, 4], [1, 2, 0, 4, 4]], np.float32)
    for function in (F.roi_pool, F.roi_align):
        np.testing.assert_array_equal(function(x, [first, second], 2), function(x, joined, 2))
    assert F.roi_pool(x, [], 2).shape == (0, 3, 2, 2)
    with pytest.raises(ShapeError, match="boxes"):
        F.roi_pool(x, joined[:, 1:], 2)
