"""Traps of pooling: NaN, ties, indices, sums. test_pool_traps.py maps rows to tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, InputError, ShapeError
from cenote.core.types import BFLOAT16
from cenote.ops.pool.window import MaxPool, convert_indices
from tests.functional import naive
from tests.functional.inputs import FLOATS, line, noise, one


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_nan_by_place(dtype: Any, rank: int, last: bool) -> None:
    """First, middle, last, two, all: always NaN, and the index of the last one."""
    nan = np.nan
    for values in ([nan, 1, 2, 3], [1, nan, 2, 3], [1, 2, 3, nan], [nan, 1, nan, 2], [nan] * 4):
        plane = np.array(values, dtype).reshape((*(1,) * (rank - 1), 4))
        x = np.stack([plane, np.zeros_like(plane)])[None]
        layout = {1: "NCL", 2: "NCHW", 3: "NCDHW"}[rank]
        if last:
            x, layout = np.moveaxis(x, 1, -1), f"N{layout[2:]}C"
        window = (*(1,) * (rank - 1), 4)
        function = getattr(F, f"max_pool{rank}d")
        y, where = function(x, window, return_indices=True, layout=layout)
        place = max(i for i, value in enumerate(values) if value != value)
        assert np.isnan(y.ravel()[0].astype(np.float64))
        assert (y.ravel()[1], where.ravel()[0]) == (0, place)
        assert np.isnan(function(x, window, layout=layout).ravel()[0].astype(np.float64))
        ignored, where = function(x, window, return_indices=True, layout=layout, nan="ignore")
        numbers = [value for value in values if value == value]
        assert float(ignored.ravel()[0]) == (max(numbers) if numbers else -np.inf)
        assert where.ravel()[0] == (values.index(max(numbers)) if numbers else 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_in_body_and_tail(dtype: Any) -> None:
    """One NaN at every place of rows that whole vectors do not cover: the same windows see it."""
    for width in (7, 16, 33):
        for place in range(width):
            x = np.zeros((1, 1, 3, width), dtype)
            x[0, 0, 1, place] = np.nan
            for threads in (1, 2):
                y = F.max_pool2d(x, 3, 1, 1, threads=threads).astype(np.float32)
                z, _ = F.max_pool2d(x, 3, 1, 1, return_indices=True, threads=threads)
                want = [abs(column - place) <= 1 for column in range(width)]
                assert (np.isnan(y) == want).all()
                assert (np.isnan(z.astype(np.float32)) == want).all()


def test_all_lowest() -> None:
    for dtype in (*FLOATS, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_):
        kind = np.dtype(dtype).kind
        low = np.iinfo(dtype).min if kind in "iu" else False if kind == "b" else -np.inf
        x = np.full((1, 1, 4, 4), low, dtype)
        y, where = F.max_pool2d(x, 2, padding=1, stride=1, return_indices=True)
        assert (y == low).all()
        assert ((where >= 0) & (where < 16)).all()
        assert where[0, 0, 0, 0] == 0
        assert where[0, 0, 4, 4] == 15
    assert np.isposinf(F.max_pool2d(np.full((1, 1, 2, 2), np.inf, np.float32), 2)).all()


def test_ties() -> None:
    y, where = F.max_pool2d(np.zeros((1, 1, 6, 6), np.float32), 3, 1, return_indices=True)
    np.testing.assert_array_equal(where[0, 0], np.arange(36).reshape(6, 6)[:4, :4])
    _, where = F.max_pool1d(line(-0.0, 0.0, 0.0, -0.0), 2, return_indices=True, layout="L")
    assert where.tolist() == [0, 2]
    x = np.array([[1, 7], [7, 1]], np.float32)
    assert F.max_pool2d(x, 2, return_indices=True)[1].tolist() == [[1]]  # row-major within the window
    assert y.shape == (1, 1, 4, 4)


def test_infinities_stay_in_their_windows() -> None:
    assert one(F.avg_pool1d, [np.inf, 1, 2, 3, 4], 2, 1) == [np.inf, 1.5, 2.5, 3.5]
    for k in (2, 5, 9, 17):
        x = np.ones((1, 1, 64), np.float32)
        x[0, 0, 20] = np.nan
        x[0, 0, 41] = -np.inf
        got = F.avg_pool1d(x, k, 1)[0, 0]
        for start, value in enumerate(got):
            window = x[0, 0, start : start + k]
            assert np.isnan(value) == np.isnan(window).any()
            assert np.isneginf(value) == (np.isneginf(window).any() and not np.isnan(window).any())
            assert not np.isfinite(window).all() or value == 1


def test_index_bases() -> None:
    x = noise(2, 3, 4, 5)
    _, plane = F.max_pool2d(x, 2, return_indices=True)
    np.testing.assert_array_equal(np.take_along_axis(x.reshape(2, 3, 20), plane.reshape(2, 3, -1), 2).ravel(),
                                  F.max_pool2d(x, 2).ravel())  # fmt: skip
    _, tensor = F.max_pool2d(x, 2, 2, return_indices=True, semantics="onnx")
    np.testing.assert_array_equal(x.ravel()[tensor], F.max_pool2d(x, 2))
    _, nhwc = F.max_pool2d(x, 2, return_indices=True, semantics="tensorflow")
    images = np.moveaxis(x, 1, -1).reshape(2, -1)
    np.testing.assert_array_equal(
        images[np.arange(2)[:, None], nhwc.reshape(2, -1)].ravel(), F.max_pool2d(x, 2).ravel()
    )
    # Column-major planes, in three dimensions.
    volume = noise(2, 3, 4, 5, 6)
    y, where = MaxPool((2, 2, 2), (2, 2, 2), return_indices=True, index="column").reference(volume)
    flat = volume.transpose(0, 1, 4, 3, 2).ravel()
    np.testing.assert_array_equal(flat[where], y)


def test_indices_with_padding_and_dilation() -> None:
    x = noise(1, 2, 9, 7)
    geometry = (3, 3), (2, 1), (2, 1), ((2, 2), (1, 1))
    y, where = F.max_pool2d(x, 3, (2, 1), (2, 1), (2, 1), return_indices=True)
    values, places = naive.max_pool(x, *geometry)
    np.testing.assert_array_equal(where, places)
    np.testing.assert_array_equal(y, values)
    assert len(np.unique(where[0, 0])) < where[0, 0].size  # overlapping windows share maxima


def test_index_limits() -> None:
    """PyTorch's channels-last int8 pool keeps indices in int8: H * W > 127 fails there."""
    for size in (12, 17, 200):
        for dtype in (np.int8, np.uint8, np.int16):
            for layout in ("HW", "NHWC"):
                x = np.zeros((size, size), dtype)
                x[-1, -1] = 1
                shaped = x if layout == "HW" else x[None, :, :, None]
                _, where = F.max_pool2d(shaped, size, return_indices=True, layout=layout)
                assert where.ravel().tolist() == [size * size - 1]
    # Beyond 2^31 elements, without memory for them.
    side = 1 << 20
    got = convert_indices(np.full((2, 3, 1, 1), side * side - 1), (2, 3, side, side), "tensor")
    assert int(got[1, 2, 0, 0]) == 6 * side * side - 1
    got = convert_indices(np.full((2, 3, 1, 1), side + 1), (2, 3, side, side), "nhwc")
    assert int(got[1, 2, 0, 0]) == (side + 1) * 3 + 2


def test_unpool() -> None:
    x, where = line(1, 2).reshape(1, 1, 2), np.array([[[1, 1]]])
    assert F.max_unpool1d(x, where, 2).tolist() == [[[0, 2, 0, 0]]]  # the last of equal indices, every time
    for wrong in (-1, 4):
        with pytest.raises(InputError, match=f"index {wrong}"):
            F.max_unpool1d(x, np.array([[[0, wrong]]]), 2)
    assert F.max_unpool1d(x, where, 2, output_size=(5,)).shape == (1, 1, 5)
    for size in (2, 6):
        with pytest.raises(ArgumentError, match="output_size"):
            F.max_unpool1d(x, where, 2, output_size=(size,))
    assert F.max_unpool1d(x, where, 3, 2, 1).tolist() == [[[0, 2, 0]]]
    assert F.max_unpool1d(x[:0], where[:0], 2).shape == (0, 1, 4)
    with pytest.raises(ShapeError, match="indices"):
        F.max_unpool1d(x, where[..., :1], 2)


@pytest.mark.parametrize("semantics", ["torch", "onnx", "tensorflow"])
def test_unpool_inverts(semantics: str) -> None:
    for layout in ("NCHW", "NHWC"):
        x = noise(2, 4, 6, 4)
        y, where = F.max_pool2d(x, 2, 2, return_indices=True, layout=layout, semantics=semantics)
        back = F.max_unpool2d(y, where, 2, 2, layout=layout, semantics=semantics)
        assert back.shape == x.shape
        maxima = back != 0
        np.testing.assert_array_equal(back[maxima], x[maxima])
        np.testing.assert_array_equal(F.max_pool2d(back, 2, 2, layout=layout), np.maximum(y, 0))


def test_lp() -> None:
    assert one(F.lp_pool1d, [-3, 4], 1.0, 2) == [7]
    assert one(F.lp_pool1d, [-3, 4], 2.0, 2) == [5]
    assert one(F.lp_pool1d, [-3, 4], np.inf, 2) == [4]
    assert one(F.lp_pool1d, [-3, 4], 3.0, 2) == [pytest.approx(91 ** (1 / 3))]
    assert one(F.lp_pool1d, [-3, 4], 1.5, 2) == [pytest.approx((3**1.5 + 8) ** (1 / 1.5))]
    assert one(F.lp_pool1d, [1, 2, 3, 4, 5], 2.0, 2, 2, True) == [pytest.approx(5**0.5), 5, 5]
    assert one(F.lp_pool1d, [3, 4], 2.0, 2, 1, padding=1) == [3, 5, 4]
    # 300 squares of 300 do not fit into float16, their root does.
    x = np.full((1, 1, 300), 300, np.float16)
    assert F.lp_pool1d(x, 2.0, 300).ravel().tolist() == [pytest.approx(300 * 300**0.5, rel=1e-3)]
    with pytest.raises(ArgumentError, match="p must be"):
        one(F.lp_pool1d, [1, 2], 0.0, 2)


def test_narrow_integer_averages() -> None:
    """TVM once summed int8 in int8, and int16 17x17 in 32 bits with a bias."""
    for dtype in (np.int8, np.uint8, np.int16):
        top = np.iinfo(dtype).max
        x = np.full((1, 1, 17, 17), top, dtype)
        for semantics in ("torch", "onnx", "tensorflow"):
            assert F.avg_pool2d(x, 17, semantics=semantics).ravel().tolist() == [top]
    x = np.array([1, 2, 3, 4, -1, -2, -3, -4], np.int8)
    assert F.avg_pool1d(x, 2, layout="L").tolist() == [1, 3, -1, -3]
    assert F.avg_pool1d(x, 2, 2, layout="L", semantics="onnx").tolist() == [2, 4, -2, -4]
    assert F.avg_pool1d(x, 2, layout="L", semantics="tensorflow").tolist() == [2, 4, -2, -4]
    halves = np.array([0, 1, 2, 3, 0, -1], np.int8)
    assert F.avg_pool1d(halves, 2, 2, layout="L", semantics="onnx").tolist() == [0, 2, 0]
    assert F.avg_pool1d(halves, 2, layout="L", semantics="tensorflow").tolist() == [1, 3, -1]


def test_int64_averages() -> None:
    big = 2**62
    x = np.array([-3, -4, 3, 4], np.int64)
    assert F.avg_pool1d(x, 2, layout="L").tolist() == [-3, 3]
    assert F.avg_pool1d(np.array([big + 1] * 2, np.int64), 2, layout="L", divisor_override=1).tolist() == [
        -(2**63) + 2
    ]
    assert F.avg_pool1d(np.array([big, 2 - big], np.int64), 2, layout="L").tolist() == [1]


def test_half_accumulators() -> None:
    """4096 elements of 40: the sum overflows float16, and TensorFlow and JAX give inf."""
    for dtype in (np.float16, BFLOAT16):
        x = np.full((1, 2, 64, 64), 40, dtype)
        for y in (F.avg_pool2d(x, 64), F.global_avg_pool(x), F.adaptive_avg_pool2d(x, 1)):
            assert y.astype(np.float32).ravel().tolist() == [40, 40]
    # Ties of bfloat16 (8 bits): 256 + 257 lies between 256 and 258.
    x = np.array([256, 257.0], np.float32).astype(BFLOAT16)
    assert F.avg_pool1d(x, 2, layout="L").astype(np.float32).tolist() == [256]
    x = np.array([1, 1.0078125], np.float32).astype(BFLOAT16)
    assert F.avg_pool1d(x, 2, layout="L").astype(np.float32).tolist() == [1]
    x = np.array([1.0078125, 1.015625], np.float32).astype(BFLOAT16)
    assert F.avg_pool1d(x, 2, layout="L").astype(np.float32).tolist() == [1.015625]


def test_long_sums() -> None:
    """16 million values about 0.1: a running float32 sum is 4 to 16 % off (ONNX Runtime, TensorFlow, OpenVINO)."""
    x = np.random.default_rng(0).random((1, 1, 4096, 4096), np.float32) * np.float32(0.2)
    exact = x.mean(dtype=np.float64)
    for y in (F.global_avg_pool(x), F.avg_pool2d(x, 4096), F.adaptive_avg_pool2d(x, 1)):
        assert abs(float(y.ravel()[0]) - exact) <= 1e-6 * exact
