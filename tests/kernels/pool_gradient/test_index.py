"""Pools that follow indices, boxes and windows backwards, against their references: what operators' samples leave out.

Vector tails, NaN and infinities, thread counts, tiny and odd extents, all index rules, wrong content.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cenote.functional as F
from cenote.core.errors import InputError
from cenote.core.types import BFLOAT16, FLOATS, Array, TensorType
from cenote.ops.base import Op
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.gradient import IndexGradient, PoolGradient
from cenote.ops.pool.lp import GlobalLpPool, LpPool
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.ops.pool.unpool import MaxUnpool
from cenote.ops.pool.weighted import GemPool
from cenote.ops.pool.window import INDEX_RULES, MaxPool, MinPool
from cenote.ops.roi.align import RoiAlign
from cenote.ops.roi.pool import MaxRoiPool, PsRoiPool
from cenote.ops.values import special
from tests.harness import cast, run_alone
from tests.kernels.native import kernel_of, noise, same

# ---- indices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", INDEX_RULES)
@pytest.mark.parametrize("last", [False, True])
def test_unpooling_and_gradients_by_indices(rule: str, last: bool) -> None:
    for rank, extents in ((1, (23,)), (2, (9, 21)), (3, (4, 5, 7))):
        shape = (2, *extents, 19) if last else (2, 19, *extents)
        for window, stride in ((2, 2), (3, 2), (3, 1)):
            pool = MaxPool(
                (window,) * rank, (stride,) * rank, return_indices=True, index=rule, channels_last=last
            )
            y, places = pool.reference(noise(*shape))
            g = noise(*shape, seed=1)
            unpool = MaxUnpool((window,) * rank, (stride,) * rank, (), extents, rule, last)
            same(unpool, y, places, tolerance=0.0)
            same(SparseGradient(unpool), g, y, places, tolerance=0.0)
            same(IndexGradient(extents, rule, last), noise(*y.shape, seed=2), places)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int16, np.int64])
def test_element_types_of_indices(dtype: Any) -> None:
    x = cast(noise(1, 3, 9, 21) * 40, dtype)
    y, places = MaxPool((3, 3), (2, 2), return_indices=True).reference(x)
    unpool = MaxUnpool((3, 3), (2, 2), (), (9, 21), "plane")
    alone_y = run_alone(unpool, (y, places))[0]
    np.testing.assert_array_equal(alone_y, unpool.reference(y, places)[0])
    if np.dtype(dtype) in FLOATS:
        same(IndexGradient((9, 21)), y, places)
        same(SparseGradient(unpool), x, y, places, tolerance=0.0)


def test_of_equal_indices_the_last_stays() -> None:
    x, places = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6), np.array([[[3, 0, 3, 1, 0, 3]]])
    np.testing.assert_array_equal(F.max_unpool1d(x, places, 2, output_size=[12])[0, 0, :5], [5, 4, 0, 6, 0])
    g = np.arange(10, 22, dtype=np.float32).reshape(1, 1, 12)
    got = F.max_unpool1d_backward(g, x, places, 2, output_size=[12])
    np.testing.assert_array_equal(got[0, 0], [0, 0, 0, 11, 10, 13])


@pytest.mark.parametrize("wrong", [-1, 36, 2**62, -(2**63)])
def test_a_wrong_index_is_named(wrong: int) -> None:
    x = noise(2, 3, 3, 3)
    _, places = F.max_pool2d(noise(2, 3, 6, 6), 2, return_indices=True)
    places[1, 2, 0, 1] = wrong
    for threads in (1, 2):
        for call in (
            lambda: F.max_unpool2d(x, places, 2, threads=threads),  # noqa: B023
            lambda: F.max_unpool2d_backward(noise(2, 3, 6, 6), x, places, 2, threads=threads),  # noqa: B023
            lambda: F.max_pool2d_backward(x, noise(2, 3, 6, 6), 2, indices=places, threads=threads),  # noqa: B023
        ):
            with pytest.raises(
                InputError, match=rf"index {wrong} at \[1, 2, 0, 1\] lies outside its plane of 36"
            ):
                call()


@pytest.mark.parametrize("rule", INDEX_RULES)
def test_wrong_indices_by_every_rule(rule: str) -> None:
    y, places = MaxPool((2, 2), (2, 2), return_indices=True, index=rule).reference(noise(2, 3, 4, 6))
    places[1, 1, 1, 2] += 1 if rule == "nhwc" else 2**40
    op = MaxUnpool((2, 2), (2, 2), (), (4, 6), rule)
    with pytest.raises(InputError) as native:
        run_alone(op, (y, places))
    with pytest.raises(InputError) as reference:
        op.reference(y, places)
    assert str(native.value) == str(reference.value)


# ---- windows backwards ----------------------------------------------------------------------------------------------

PADS = ((1, 1), (1, 1))
WINDOWED: list[tuple[Op, tuple[int, ...]]] = [
    (AveragePool((2, 2), (2, 2)), (2, 3, 7, 9)),
    (AveragePool((3, 3), (2, 2), PADS, ceil_mode=True), (1, 2, 8, 10)),
    (AveragePool((3, 3), (1, 1), PADS, count_include_pad=True), (1, 3, 5, 33)),
    (AveragePool((3, 5), (3, 5)), (1, 2, 10, 31)),
    (AveragePool((2, 3), (4, 5)), (1, 2, 9, 40)),
    (AveragePool((3, 2), (2, 1), PADS, (2, 3)), (1, 2, 12, 13)),
    (AveragePool((1, 21), (1, 2)), (1, 2, 3, 64)),
    (AveragePool((7, 7), (4, 4), ((3, 3), (3, 3)), divisor_override=5), (1, 1, 15, 17)),
    (AveragePool((9,), (1,), ((4, 4),)), (2, 3, 50)),
    (AveragePool((2, 3, 2), (1, 2, 2), ((1, 1), (1, 1), (0, 0))), (1, 2, 5, 6, 11)),
    (AdaptiveAveragePool((3, 5)), (2, 3, 7, 19)),
    (AdaptiveAveragePool((9, 40)), (1, 2, 4, 9)),
    (AdaptiveAveragePool((2, 3, 4)), (1, 2, 5, 4, 7)),
    (AdaptiveAveragePool((1,)), (2, 3, 1)),
    (MaxPool((3, 3), (2, 2), PADS), (1, 3, 9, 17)),
    (MaxPool((3,), (1,), nan="ignore"), (1, 3, 40)),
    (MinPool((2, 2, 2), (1, 1, 1)), (1, 2, 3, 4, 9)),
    (AdaptiveMaxPool((3, 5)), (1, 3, 7, 19)),
    (AdaptiveMaxPool((4, 3, 2), nan="ignore"), (1, 2, 5, 7, 9)),
    (LpPool((3, 3), (2, 2), PADS, p=3.0), (1, 2, 9, 17)),
    (LpPool((3, 2), (1, 2), p=1.5), (1, 2, 7, 20)),
    (LpPool((3, 3), (2, 2), p=1.0), (1, 2, 7, 20)),
    (LpPool((3, 3), (2, 2), ceil_mode=True, signed_powers=True), (1, 2, 8, 11)),
    (LpPool((3,), (3,), p=2.7), (1, 2, 20)),
    (GlobalLpPool(p=2.5), (2, 3, 5, 7)),
    (GemPool((3, 3), (2, 2), PADS), (1, 2, 9, 17)),
    (GemPool((2, 2), (1, 1), p=1.7, eps=0.3), (1, 2, 7, 20)),
]


@pytest.mark.parametrize(("op", "shape"), WINDOWED, ids=[str(op) for op, _ in WINDOWED])
def test_gradients(op: Any, shape: tuple[int, ...]) -> None:
    x = noise(*shape)
    y = op.infer(TensorType.known(x))[0]
    g = noise(*y.shape, seed=1)
    same(PoolGradient(op), g, x)
    half = (np.float16, BFLOAT16)[WINDOWED.index((op, shape)) % 2]
    for dtype in (np.float64, half):
        same(PoolGradient(op), g.astype(dtype), x.astype(dtype))
    last = replace(op, channels_last=True)
    for channels in (1, 5, 16):
        moved = noise(shape[0], *shape[2:], channels)
        up = noise(*last.infer(TensorType.known(moved))[0].shape, seed=2)
        same(PoolGradient(last), up, moved)


@pytest.mark.parametrize(
    "op", [AveragePool((3, 3), (2, 2), PADS), AdaptiveAveragePool((3, 4)), MaxPool((3, 3), (1, 1))]
)
def test_special_gradients_reach_their_windows_alone(op: Any) -> None:
    x = noise(1, 2, 9, 13)
    shape = op.infer(TensorType.known(x))[0].shape
    for value in (np.nan, np.inf, -np.inf):
        g = noise(*shape)
        g[0, 1, 1, 2] = value
        same(PoolGradient(op), g, x)
    same(PoolGradient(op), special(shape), x)


def test_forward_powers_of_special_values() -> None:
    x = special((2, 3, 9, 14))
    for p in (3.0, 0.5, 2.5, -1.0, 1.7):
        same(LpPool((3, 2), (2, 1), PADS, p=p), x)
        same(GlobalLpPool(p=p), x)
    for p in (3.0, 1.0, -2.0, np.inf, -np.inf):
        same(GemPool((3, 2), (2, 1), PADS, p=p), x)
    same(LpPool((3, 2), (2, 2), p=3.0, signed_powers=True), noise(1, 2, 9, 11))
    same(LpPool((2, 2), p=8.0), noise(1, 2, 5, 6) * 1e12)  # powers beyond float32


# ---- search ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nan", ["propagate", "ignore"])
@pytest.mark.parametrize("last", [False, True])
def test_adaptive_indices(nan: str, last: bool) -> None:
    generator = np.random.default_rng(3)
    for extents, output in (((9,), (4,)), ((7, 23), (3, 5)), ((3, 4), (5, 9)), ((4, 5, 6), (2, 3, 4))):
        shape = (2, *extents, 11) if last else (2, 11, *extents)
        for fill in ("ties", "special"):
            x = generator.integers(-2, 3, shape).astype(np.float32) if fill == "ties" else special(shape)
            for rule in ("plane", "tensor", "nhwc"):
                op = AdaptiveMaxPool(output, last, True, rule, nan)
                assert kernel_of(op, [TensorType.known(x)]) is not None
                for got, want in zip(run_alone(op, (x,)), op.reference(x), strict=True):
                    np.testing.assert_array_equal(got, want)


# ---- boxes ----------------------------------------------------------------------------------------------------------


def boxes(generator: Any, count: int) -> Array:
    corners = generator.uniform(-8, 30, (count, 4)).astype(np.float32)
    corners[::2, 2:] = corners[::2, :2] + np.abs(corners[::2, 2:])
    corners[1::5] = np.round(corners[1::5])
    return np.asarray(corners)


def test_regions_at_random() -> None:
    generator = np.random.default_rng(7)
    for turn in range(60):
        shape = generator.integers(1, (3, 20, 18, 26))
        x = special(tuple(shape)) if turn % 6 == 0 else noise(*map(int, shape), seed=turn)
        rois, images = boxes(generator, 5), generator.integers(0, shape[0], 5)
        bins = tuple(int(n) for n in generator.integers(1, 8, 2))
        scale, ratio = float(generator.choice([1.0, 0.5, 2.0])), int(generator.choice([0, 0, 1, 2, 5]))
        for mode, terms in (("avg", False), ("max", False), ("max", True)):
            align = RoiAlign(bins, scale, ratio, bool(turn % 2), mode, terms)
            same(align, x, rois, images.astype(np.int64))
        full = np.concatenate([images[:, None].astype(np.float32), rois], 1)
        same(MaxRoiPool(bins, scale), x, full, tolerance=0.0)
        wide = np.repeat(x, bins[0] * bins[1], 1)
        same(PsRoiPool(bins, scale), wide, full)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ([0, 0, 0, np.nan, 1], "not finite"),
        ([2, 0, 0, 1, 1], r"box 1 names image 2(\.0)?, but the batch has 2"),
        ([-1, 0, 0, 1, 1], r"box 1 names image -1"),
    ],
)
def test_wrong_boxes(box: list[float], message: str) -> None:
    x, rois = noise(2, 8, 6, 6), np.array([[0, 1, 1, 3, 3], box], np.float32)
    for function in (F.roi_align, F.roi_pool, F.ps_roi_pool):
        for threads in (1, 2):
            with pytest.raises(InputError, match=message):
                function(x, rois, 2, threads=threads)


def test_a_box_of_endless_samples_is_refused() -> None:
    rois = np.array([[0, 0, 0, 1e12, 1]], np.float32)
    with pytest.raises(InputError, match="sampling_ratio"):
        F.roi_align(noise(1, 2, 4, 4), rois, 2)
    assert F.roi_align(noise(1, 2, 4, 4), rois, 2, sampling_ratio=2).shape == (1, 2, 2, 2)
