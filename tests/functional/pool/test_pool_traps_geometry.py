"""Traps of pooling: sizes, padding, windows, arguments. test_pool_traps.py maps rows to tests."""

from __future__ import annotations

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.pool_geometry import AxisWindow, adaptive_bounds, axis_windows
from cenote.core.types import Array
from tests.functional import naive
from tests.functional.inputs import INT32_MAX, noise, one


def test_ceil_drop_rule() -> None:
    assert F.pool_output_shape((5,), 3, 3, 1, ceil_mode=True, layout="L") == (2,)
    assert F.pool_output_shape((6,), 1, 2, ceil_mode=True, layout="L") == (3,)
    # Per axis: the rule drops a window along height only.
    assert F.pool_output_shape((5, 6), 3, 3, 1, ceil_mode=True, layout="HW") == (2, 3)
    assert F.pool_output_shape((6, 5), (1, 2), 2, ceil_mode=True) == (3, 3)
    assert F.max_pool2d(noise(1, 1, 6, 5), (1, 2), 2, ceil_mode=True).shape == (1, 1, 3, 3)


def test_ceil_overhang_divisors() -> None:
    assert one(F.avg_pool1d, [1, 2, 3, 4], 3, 2, 1, True) == [1, 3, 2]
    assert one(F.avg_pool1d, [1, 2, 3, 4], 3, 2, 1, True, False) == [1.5, 3, 4]


def test_corner_divisors_are_products() -> None:
    ones = np.ones((1, 1, 4, 4), np.float32)
    y = F.avg_pool2d(ones, 3, 2, 1, ceil_mode=True)
    # Per axis [2/3, 1, 1/2 of what is counted]: 2 of 3, 3 of 3, 1 of 2 taps are ones.
    factors = np.array([2 / 3, 1, 1 / 2], np.float32)
    np.testing.assert_allclose(y[0, 0], np.outer(factors, factors), rtol=1e-6)
    excluded = F.avg_pool2d(ones, 3, 2, 1, ceil_mode=True, count_include_pad=False)
    np.testing.assert_allclose(excluded, 1, rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_asymmetric_pads(rank: int) -> None:
    x = noise(1, 2, *(6, 5, 4)[:rank])
    for pads in (((0, 1),) * rank, ((1, 0),) * rank, ((1, 2), (0, 1), (2, 0))[:rank]):
        geometry = (4,) * rank, (2,) * rank, (1,) * rank, pads
        y = getattr(F, f"max_pool{rank}d")(x, *geometry[:2], pads)
        np.testing.assert_array_equal(y, naive.max_pool(x, *geometry)[0])
        y = getattr(F, f"avg_pool{rank}d")(x, *geometry[:2], pads)
        np.testing.assert_allclose(y, naive.average_pool(x, *geometry, include=True), rtol=1e-5, atol=1e-6)


def test_include_pad_with_same_lower() -> None:
    """ONNX Runtime once ignored the pads at the end with auto_pad (issue 24681)."""
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    y = F.avg_pool2d(x, 5, 1, "same_lower", count_include_pad=True)
    want = naive.average_pool(x, (5, 5), (1, 1), (1, 1), ((2, 2), (2, 2)), include=True)
    np.testing.assert_allclose(y, want, rtol=1e-6)
    assert y[0, 0, 0, 0] == pytest.approx(sum(x[0, 0, :3, :3].ravel()) / 25)


def test_divisor_override() -> None:
    for include in (True, False):
        for ceil in (True, False):
            got = one(F.avg_pool1d, [1, 2, 3, 4], 3, 2, 1, ceil, include, 2)
            assert got == ([1.5, 4.5, 2] if ceil else [1.5, 4.5])
    for wrong in (0, 1.5, True):
        with pytest.raises(ArgumentError, match="divisor_override"):
            one(F.avg_pool1d, [1, 2, 3, 4], 2, divisor_override=wrong)
    # PyTorch's own samples divide by -2; elsewhere a negative divisor is an error.
    assert one(F.avg_pool1d, [1, 2], 2, divisor_override=-2) == [-1.5]
    with pytest.raises(ArgumentError, match="divisor_override"):
        one(F.avg_pool1d, [1, 2], 2, divisor_override=-2, semantics="onnx")


def test_windows_of_padding_only() -> None:
    """PyTorch gives -inf and index 2 of a plane of 1; others NaN or -3.4e38."""
    for function in (F.max_pool1d, F.avg_pool1d, F.lp_pool1d):
        arguments = (2.0, 2) if function is F.lp_pool1d else (2,)
        with pytest.raises(ShapeError, match="padding only"):
            one(function, [7], *arguments, stride=1, padding=1, dilation=2)


def test_pad_limits() -> None:
    with pytest.raises(ArgumentError, match=r"padding must be at most half"):
        one(F.max_pool1d, range(9), 3, 1, 2)
    assert len(one(F.max_pool1d, range(9), 3, 1, 2, dilation=2)) == 9
    for semantics in ("onnx", "tensorflow", "tensorrt"):
        assert len(one(F.max_pool1d, range(9), 3, 1, 2, semantics=semantics)) == 11
        with pytest.raises(ArgumentError, match="padding must be less than the effective"):
            one(F.max_pool1d, range(9), 3, 1, 3, semantics=semantics)
    with pytest.raises(ArgumentError, match="padding must be less than kernel_size"):
        one(F.max_pool1d, range(9), 3, 1, 3, dilation=2, semantics="caffe")


def test_window_larger_than_padded_input() -> None:
    """Division towards zero makes this an output of 1 (ONNX Runtime returns [3.0] for 3 elements, k 4, s 2)."""
    for stride in (1, 2, 7):
        with pytest.raises(ShapeError, match="kernel_size 4"):
            one(F.max_pool1d, [1, 2, 3], 4, stride)
    with pytest.raises(ShapeError, match="dilation 3"):
        one(F.max_pool1d, range(6), 3, 2, dilation=3)
    with pytest.raises(ShapeError):
        F.pool_output_shape((3,), 4, 2, layout="L")


def test_sizes_in_integers() -> None:
    assert F.pool_output_shape((33554435,), 2, 2, layout="L") == (16777217,)
    assert F.pool_output_shape((2**62 + 3,), 2, 2, layout="L") == (2**61 + 1,)


def test_same_padding_amounts() -> None:
    for size, k, s in ((5, 2, 2), (6, 3, 2), (7, 2, 3), (8, 1, 3), (9, 4, 1), (3, 5, 1)):
        for upper in (True, False):
            word = "SAME_UPPER" if upper else "SAME_LOWER"
            (axis,) = axis_windows("test", (size,), (k,), (s,), auto_pad=word)
            assert (axis.begin, axis.end) == naive.same_pads(size, k, s, 1, upper)
            assert axis.out == -(-size // s)
    # Stride beyond the window would need negative padding: it is clamped to none.
    (axis,) = axis_windows("test", (8,), (1,), (3,), auto_pad="SAME_UPPER")
    assert (axis.begin, axis.end, axis.out) == (0, 0, 3)


def test_same_with_dilation() -> None:
    """ONNX Runtime takes the undilated window: 4 outputs where the specification says 5."""
    assert one(F.max_pool1d, [1, 2, 3, 4, 5], 2, 1, "same", 2) == [2, 3, 4, 5, 4]
    (axis,) = axis_windows("test", (5,), (3,), (1,), (), (2,), auto_pad="SAME_UPPER")
    assert (axis.begin, axis.end, axis.out) == (2, 2, 5)


def test_valid_with_ceil() -> None:
    """The specification says 2, ONNX Runtime gives 3."""
    assert one(F.max_pool1d, [1, 2, 3, 4, 5], 2, 2, "valid", 1, True) == [2, 4]


def test_stride_larger_than_window() -> None:
    assert one(F.max_pool1d, [9, 1, 8, 2, 7, 3, 6], 1, 3) == [9, 2, 6]
    assert one(F.avg_pool1d, [9, 1, 8, 2, 7, 3, 6], 2, 3) == [5, 4.5]


def test_huge_arguments() -> None:
    assert one(F.max_pool1d, [5, 6], 1, INT32_MAX) == [5]
    assert one(F.max_pool1d, [5, 6], 3, 1, INT32_MAX, INT32_MAX) == [5, 6]
    assert one(F.max_pool1d, [5, 6], 2**40, 2**41, 2**39, ceil_mode=True) == [6]
    axis = AxisWindow(2**40, 2**33, 2**20, 2**5, 2**37, 0, 10)
    assert axis.taps(0) == (2**32, 2**33)
    assert axis.count(0) == 2**32
    with pytest.raises(ShapeError):
        one(F.max_pool1d, [5, 6], INT32_MAX, 1)
    with pytest.raises(ShapeError):
        one(F.max_pool1d, [5, 6], 2, 1, 0, INT32_MAX)


def test_adaptive_sizes() -> None:
    x = noise(1, 2, 7, 5)
    for out in (1, 3, 5, 9, None):
        y = F.adaptive_avg_pool2d(x, (out, 2))
        rows = 7 if out is None else out
        for o in range(rows):
            low, high = o * 7 // rows, -(-(o + 1) * 7 // rows)
            np.testing.assert_allclose(
                y[0, :, o, 0], x[0, :, low:high, :3].mean((1, 2)), rtol=1e-5, atol=1e-6
            )
    assert F.adaptive_max_pool2d(x, (0, 2)).shape == (1, 2, 0, 2)
    with pytest.raises(ArgumentError, match="output_size"):
        F.adaptive_avg_pool2d(x, ())
    # Near 2^31 and beyond, in integers: float32 gets 28,152 of the windows below 600 wrong.
    assert adaptive_bounds(INT32_MAX, 3)[1] == (715827882, 1431655765)
    for size in range(1, 60):
        for out in range(1, 60):
            for o, (low, high) in enumerate(adaptive_bounds(size, out)):
                assert low * out <= o * size < (low + 1) * out
                assert (high - 1) * out < (o + 1) * size <= high * out


def test_global_is_adaptive_is_window() -> None:
    x = noise(2, 5, 6, 7)
    np.testing.assert_array_equal(F.global_max_pool(x), F.adaptive_max_pool2d(x, 1))
    np.testing.assert_array_equal(F.global_max_pool(x), F.max_pool2d(x, (6, 7)))
    for y in (F.adaptive_avg_pool2d(x, 1), F.avg_pool2d(x, (6, 7))):
        np.testing.assert_allclose(F.global_avg_pool(x), y, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(F.global_lp_pool(x, 3.0), F.lp_pool2d(x, 3.0, (6, 7)), rtol=1e-6)
    np.testing.assert_array_equal(
        F.global_max_pool(np.moveaxis(x, 1, -1), layout="NHWC").ravel(), F.global_max_pool(x).ravel()
    )


def test_empty_and_rank() -> None:
    for function in (F.max_pool2d, F.avg_pool2d):
        assert function(noise(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)
        for shape in ((1, 0, 4, 4), (1, 3, 0, 4), (1, 3, 4, 0), (0, 4, 4)):
            with pytest.raises(ShapeError, match="not empty"):
                function(np.zeros(shape, np.float32), 2)
        assert function(noise(3, 4, 4), 2).shape == (3, 2, 2)
        assert function(noise(4, 4), 2).shape == (2, 2)
        for shape in ((), (4,), (1, 1, 1, 4, 4)):
            with pytest.raises(ShapeError, match=r"expected 2D or 3D or 4D input"):
                function(np.zeros(shape, np.float32), 2)
    with pytest.raises(ShapeError, match="layout HW"):
        F.max_pool2d(noise(3, 4, 4), 2, layout="HW")
    assert F.adaptive_avg_pool2d(noise(4, 4), 1, layout="HW").shape == (1, 1)
    assert F.adaptive_max_pool2d(noise(0, 0, 4, 4), 1).shape == (0, 0, 1, 1)


def windows(x: Array, k: int, stride: int, pads: tuple[int, int], padding: float) -> Array:
    """The elements under all windows along the last axis, on a new one behind it."""
    padded = np.pad(x, ((0, 0), (0, 0), pads), constant_values=padding)
    return np.lib.stride_tricks.sliding_window_view(padded, k, -1)[..., ::stride, :]


def test_every_window_size() -> None:
    """Direct, doubling, van Herk: whatever a size chooses, and on either side of each threshold."""
    x = noise(1, 2, 75)
    for k in (*range(1, 35), 63, 64, 65, 74, 75):
        for s in (1, 2) if k < 10 or k in (16, 17, 32, 33, 64) else (1 + k % 2,):
            y = windows(x, k, s, (k // 2, k // 3), -np.inf).max(-1)
            np.testing.assert_array_equal(F.max_pool1d(x, k, s, ((k // 2, k // 3),)), y)
    for k in (*range(1, 10), 16, 17, 31, 32, 33, 75):
        want = windows(x[:, :1], k, 2, (k // 2, k // 2), 0).mean(-1, dtype=np.float64)
        np.testing.assert_allclose(F.avg_pool1d(x[:, :1], k, 2, k // 2), want, rtol=1e-5, atol=1e-6)


def test_kinds_of_arguments() -> None:
    x = noise(1, 1, 6, 6)
    want = F.max_pool2d(x, (2, 2), (2, 2), (1, 1), (1, 1))
    for two, one_ in (
        (2, 1),
        ([2, 2], [1, 1]),
        ((2,), (1,)),
        (np.int64(2), np.int32(1)),
        ((np.int8(2), 2), [1, 1]),
    ):
        np.testing.assert_array_equal(F.max_pool2d(x, two, two, one_, one_), want)
    # 1.0 and True equal 1 and hash alike: they must be refused also after a call with 1.
    F.max_pool2d(x, 1, 1, 0, 1)
    for name in ("kernel_size", "stride", "padding", "dilation"):
        for wrong in (True, 1.0, "1", None if name == "kernel_size" else "two", (1.0, 1), (1, True), (1, 1, 1), -1,
                      np.float32(1), np.array([1, 1])):  # fmt: skip
            arguments = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1, name: wrong}
            with pytest.raises(ArgumentError, match=name):
                F.max_pool2d(x, **arguments)
    for name in ("kernel_size", "stride", "dilation"):
        for wrong in (0, (0, 1), (1, -3)):
            with pytest.raises(ArgumentError, match=rf"{name} must be greater than zero"):
                F.max_pool2d(x, **{"kernel_size": 1, name: wrong})
    with pytest.raises(ArgumentError, match="ceil_mode"):
        F.max_pool2d(x, 2, ceil_mode="yes")
    with pytest.raises(ArgumentError, match="layout"):
        F.max_pool2d(x, 2, layout="NCL")
    with pytest.raises(ArgumentError, match="semantics"):
        F.max_pool2d(x, 2, semantics="mxnet")
    with pytest.raises(ArgumentError, match="nan"):
        F.max_pool2d(x, 2, nan="drop")
