"""Traps of pooling: fractional, regions, memory, threads, tiling, ONNX. test_pool_traps.py maps rows to tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.codegen import jit
from cenote.core.errors import ArgumentError, CenoteError, InputError
from cenote.core.types import TensorType
from cenote.ops.base import Box, Imported
from cenote.ops.table import DECODERS, operators
from tests.functional.inputs import noise


def test_fractional() -> None:
    x = noise(1, 1, 8, 9)
    zero = np.zeros((1, 1, 2), np.float32)
    y, where = F.fractional_max_pool2d(x, 2, (3, 4), None, True, zero)
    starts = [[0, 3, 6], [0, 2, 4, 7]]  # floor(o * 3), floor(o * 7/3), the last at in - window
    for i, top in enumerate(starts[0]):
        for j, left in enumerate(starts[1]):
            window = x[0, 0, top : top + 2, left : left + 2]
            assert y[0, 0, i, j] == window.max()
            assert x.ravel()[where[0, 0, i, j]] == window.max()
    np.testing.assert_array_equal(F.fractional_max_pool2d(x, 1, (8, 9), _random_samples=zero), x)
    assert F.fractional_max_pool2d(x, 2, output_ratio=0.5).shape == (1, 1, 4, 4)
    np.testing.assert_array_equal(
        F.fractional_max_pool2d(x, 2, 3, seed=5), F.fractional_max_pool2d(x, 2, 3, seed=5)
    )
    with pytest.raises(ArgumentError, match="either output_size or output_ratio"):
        F.fractional_max_pool2d(x, 2, 3, 0.5)
    with pytest.raises(ArgumentError, match="either output_size or output_ratio"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(ArgumentError, match="kernel_size 5"):
        F.fractional_max_pool2d(x, 5, 8)


def test_roi() -> None:
    x = np.arange(2 * 1 * 4 * 5, dtype=np.float32).reshape(2, 1, 4, 5)
    box = lambda *values: np.array([values], np.float32)  # noqa: E731
    # Rounding is half away from zero, corners belong to the box; 1.5 becomes 2, 0.5 becomes 1.
    assert F.roi_pool(x, box(0, 0.5, 0.5, 1.5, 1.5), 1).ravel().tolist() == [12]
    assert F.roi_pool(x, box(1, 0, 0, 4, 3), 2).ravel().tolist() == [20 + 7, 20 + 9, 20 + 17, 20 + 19]
    assert F.roi_pool(x, box(0, 10, 10, 12, 12), 2).ravel().tolist() == [0] * 4  # outside: empty bins are 0
    assert F.roi_pool(x, box(0, 3, 2, 1, 1), 1).ravel().tolist() == [13]  # reversed: one pixel
    assert F.roi_pool(x, box(0, 2, 2, 6, 6), 1, spatial_scale=0.5).ravel().tolist() == [18]
    for image in (-1, 2):
        with pytest.raises(InputError, match="image"):
            F.roi_pool(x, box(image, 0, 0, 1, 1), 1)
    with pytest.raises(InputError, match="finite"):
        F.roi_align(x, box(0, 0, 0, np.nan, 1), 1)
    # A box of no size: aligned it has no sample and gives 0, otherwise it is 1 x 1.
    assert F.roi_align(x, box(0, 1, 1, 1, 1), 1, aligned=True).ravel().tolist() == [0]
    assert F.roi_align(x, box(0, 1, 1, 1, 1), 1).ravel().tolist() == [x[0, 0, 1:3, 1:3].mean()]
    # Half a pixel: the box of the whole map averages to its mean only when aligned.
    whole = box(0, 0, 0, 5, 4)
    assert F.roi_align(x, whole, 1, sampling_ratio=20, aligned=True).ravel()[0] == pytest.approx(
        9.5, abs=0.05
    )
    # An adaptive grid of ceil(3 / 1) = 3 by 3 samples, or one in the middle.
    assert F.roi_align(x, box(0, 0, 0, 3, 3), 1, sampling_ratio=1).ravel()[0] == pytest.approx(1.5 * 5 + 1.5)
    # ONNX's maximum takes weighted corners, not samples.
    at = box(0, 0.5, 0.5, 1.5, 1.5)
    sample = F.roi_align(x, at, 1, sampling_ratio=1, mode="max").ravel()[0]
    corner = F.roi_align(x, at, 1, sampling_ratio=1, mode="max", semantics="onnx").ravel()[0]
    assert (sample, corner) == (6, 6)
    at = box(0, 0.75, 0.75, 1.75, 1.75)
    assert F.roi_align(x, at, 1, sampling_ratio=1, mode="max").ravel()[0] == pytest.approx(7.5)
    assert F.roi_align(x, at, 1, sampling_ratio=1, mode="max", semantics="onnx").ravel()[0] == pytest.approx(
        6 * 9 / 16
    )


def test_pyramid() -> None:
    x = noise(2, 3, 5, 7)
    y = F.spatial_pyramid_pool(x, (1, 2, 3))
    parts = [F.adaptive_max_pool2d(x, level).reshape(2, -1) for level in (1, 2, 3)]
    np.testing.assert_array_equal(y, np.concatenate(parts, 1))
    np.testing.assert_array_equal(y, F.spatial_pyramid_pool(np.moveaxis(x, 1, -1), (1, 2, 3), layout="NHWC"))
    small = F.spatial_pyramid_pool(x[..., :2, :2], (4,))  # fewer elements than bins: bins overlap
    np.testing.assert_array_equal(small, x[..., :2, :2].repeat(2, 2).repeat(2, 3).reshape(2, -1))
    with pytest.raises(ArgumentError, match="levels"):
        F.spatial_pyramid_pool(x, (0,))


def test_memory_of_inputs() -> None:
    x = noise(2, 3, 8, 9)
    want = F.max_pool2d(x, 3, 2, 1)
    views = [
        np.asfortranarray(x), x[:, :, ::-1][:, :, ::-1], np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        np.ascontiguousarray(x.transpose(3, 1, 0, 2)).transpose(2, 1, 3, 0), x.astype(">f4"),
        np.repeat(x, 2, axis=3)[..., ::2], np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, 3, 1, 2),
    ]  # fmt: skip
    shifted = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    shifted[:] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    broadcast = np.broadcast_to(x[:1, :1], x.shape)  # strides of 0
    for view in (*views, shifted, frozen):
        before = view.copy()
        y = F.max_pool2d(view, 3, 2, 1)
        np.testing.assert_array_equal(y, want)
        assert y.dtype == np.float32
        assert y.dtype.isnative
        np.testing.assert_array_equal(view, before)
    np.testing.assert_array_equal(F.max_pool2d(broadcast, 3, 2, 1), F.max_pool2d(broadcast.copy(), 3, 2, 1))


def test_channels_last() -> None:
    for channels in (1, 3, 8, 13):
        x = noise(2, channels, 7, 9)
        want = F.max_pool2d(x, 3, 2, 1)
        got = F.max_pool2d(np.moveaxis(x, 1, -1).copy(), 3, 2, 1, layout="NHWC")
        np.testing.assert_array_equal(np.moveaxis(got, -1, 1), want)
        memory = np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, 3, 1, 2)
        got = F.max_pool2d(memory, 3, 2, 1)
        np.testing.assert_array_equal(got, want)
        if channels > 1:
            assert np.moveaxis(got, 1, -1).flags.c_contiguous  # the memory format stays
    assert F.max_pool2d(noise(2, 5, 1, 1), 1).shape == (2, 5, 1, 1)


def test_threads_and_repetition() -> None:
    x = noise(3, 5, 33, 31)
    for call in (
        lambda threads: F.max_pool2d(x, 3, 2, 1, threads=threads),
        lambda threads: F.avg_pool2d(x, 5, 1, 2, threads=threads),
        lambda threads: F.global_avg_pool(x, threads=threads),
        lambda threads: F.stochastic_pool(x, 3, 2, seed=9, threads=threads),
        lambda threads: F.lp_pool2d(x, 3.0, 4, threads=threads),
    ):
        first = call(1)
        for threads in (1, 2, 3, 7):
            np.testing.assert_array_equal(call(threads), first)
    with pytest.raises(ArgumentError, match="threads"):
        F.max_pool2d(x, 2, threads=0)


def test_regions() -> None:
    """What lies outside of region(box) does not change the box, and the region's borders do."""
    generator = np.random.default_rng(0)
    checked = 0
    for kind in operators():
        if not kind.name.endswith("pool") or kind.name in ("stochastic_pool", "fractional_max_pool"):
            continue
        for sample in kind.samples():
            x = sample.inputs[0]
            if x is None or not x.size or x.size > 3000 or len(sample.inputs) > 1 or x.dtype != np.float32:
                continue
            x = generator.standard_normal(x.shape).astype(np.float32)
            y = sample.op.reference(x)[0]
            if not y.size:
                continue
            ends = [int(generator.integers(1, extent + 1)) for extent in y.shape]
            box = Box(tuple((int(generator.integers(0, end)), end) for end in ends))
            (read,) = sample.op.region(box, [TensorType.of(x.dtype, x.shape)])
            assert read is not None
            assert all(0 <= low <= high <= n for (low, high), n in zip(read.ranges, x.shape, strict=True))
            other = generator.standard_normal(x.shape).astype(np.float32)
            inside = tuple(slice(*pair) for pair in read.ranges)
            other[inside] = x[inside]
            part = tuple(slice(*pair) for pair in box.ranges)
            np.testing.assert_array_equal(sample.op.reference(other)[0][part], y[part], err_msg=str(sample))
            checked += 1
    assert checked > 100


def test_out_does_not_overlap() -> None:
    x = noise(1, 2, 6, 6)
    out = np.full((1, 2, 3, 3), 7, np.float32)
    assert F.max_pool2d(x, 2, out=out) is out
    np.testing.assert_array_equal(out, F.max_pool2d(x, 2))
    memory = np.zeros(200, np.float32)
    inside, overlapping = memory[:72].reshape(1, 2, 6, 6), memory[60:78].reshape(1, 2, 3, 3)
    with pytest.raises(ArgumentError, match="overlaps"):
        F.max_pool2d(inside, 2, out=overlapping)
    with pytest.raises(ArgumentError, match="overlaps"):
        F.max_pool2d(x, 1, out=x)
    with pytest.raises(ArgumentError, match="shape"):
        F.max_pool2d(x, 2, out=out[:, :1])
    with pytest.raises(TypeError, match="type"):
        F.max_pool2d(x, 2, out=out.astype(np.float64))
    with pytest.raises(ArgumentError, match="tuple of 2"):
        F.max_pool2d(x, 2, out=out, return_indices=True)
    room = np.zeros((2, 3, 2, 6), np.float32)
    views = np.zeros((1, 2, 3, 6), np.float32)[..., ::2], room.transpose(2, 0, 3, 1)[1:, ::-1, ::-2]
    for view in views:
        np.testing.assert_array_equal(F.max_pool2d(x, 2, out=view), F.max_pool2d(x, 2))


def test_out_does_not_overlap_itself() -> None:
    """Elements in one place would leave what was written last."""
    x, memory = noise(1, 2, 6, 6), np.zeros(200, np.float32)
    for strides in ((0, 0, 12, 4), (0, 12, 12, 4), (0, 36, 8, 4), (0, 36, 4, -2)):
        with pytest.raises(ArgumentError, match=r"out: its own elements overlap .*strides"):
            F.max_pool2d(x, 2, out=np.lib.stride_tricks.as_strided(memory[100:], (1, 2, 3, 3), strides))
    indices = np.lib.stride_tricks.as_strided(np.zeros(1, np.int64), (1, 2, 3, 3), (0, 0, 0, 0))
    with pytest.raises(ArgumentError, match=r"out\[1\]: its own elements overlap"):
        F.max_pool2d(x, 2, return_indices=True, out=(np.zeros((1, 2, 3, 3), np.float32), indices))


def test_pools_never_work_in_place() -> None:
    for kind in operators():
        if kind.name.endswith("pool"):
            for sample in kind.samples():
                types = [None if x is None else TensorType.known(x) for x in sample.inputs]
                for lowering in sample.op.lowerings(types, jit.host_target()):
                    assert not lowering.in_place


def decode(op: str, opset: int, outputs: int = 1, **attributes: Any) -> Any:
    return DECODERS[op](Imported(op, "", opset, attributes, (True,), outputs))


def test_onnx_defaults() -> None:
    pool = decode("MaxPool", 1, kernel_shape=(2, 3))
    assert (pool.stride, pool.pads, pool.dilation, pool.ceil_mode, pool.return_indices) == (
        (),
        (),
        (),
        False,
        False,
    )
    assert [axis.stride for axis in pool.geometry((1, 1, 5, 5))] == [1, 1]
    assert decode("MaxPool", 12, 2, kernel_shape=(2,)).return_indices
    assert decode("MaxPool", 12, 2, kernel_shape=(2,), storage_order=1).index == "column"
    assert not decode("AveragePool", 1, kernel_shape=(2,)).count_include_pad
    assert not decode("AveragePool", 22, kernel_shape=(2,)).count_include_pad
    assert decode("AveragePool", 7, kernel_shape=(2,), count_include_pad=1).count_include_pad
    # Begins come first, then ends.
    assert decode("MaxPool", 22, kernel_shape=(3, 3), pads=(0, 1, 2, 1)).pads == ((0, 2), (1, 1))
    assert decode("LpPool", 1, kernel_shape=(2,), p=3.0).p == 3.0
    assert decode("LpPool", 22, kernel_shape=(2,)).p == 2.0
    assert not decode("RoiAlign", 10).aligned
    assert decode("RoiAlign", 16).aligned
    # Attributes that a version does not have are refused, not ignored.
    for op, opset, name in (
        ("MaxPool", 8, "dilations"), ("MaxPool", 8, "ceil_mode"), ("MaxPool", 1, "storage_order"),
        ("AveragePool", 18, "dilations"), ("AveragePool", 1, "count_include_pad"), ("LpPool", 11, "ceil_mode"),
        ("MaxPool", 22, "color"), ("RoiAlign", 10, "coordinate_transformation_mode"),
    ):  # fmt: skip
        with pytest.raises(CenoteError, match=name):
            decode(op, opset, kernel_shape=(2,), **{name: (1,) if name == "dilations" else 1})
    with pytest.raises(CenoteError, match="kernel_shape"):
        decode("MaxPool", 22)
