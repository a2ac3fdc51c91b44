"""Arguments at and beyond the limits of numbers: the right answer or our error, no crash, hang or other error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cenote.functional as F
from cenote.core.errors import ArgumentError, CapacityError, CenoteError
from cenote.core.pool_geometry import AxisWindow

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
NOBODY = np.zeros((0, 2, 4, 4), np.float32)
BOX = np.array([[0, 1, 1, 5, 5]], np.float32)
LOWEST = -(1 << 63)


def truncated(total: int, divisor: int) -> int:
    quotient = abs(total) // abs(divisor) * (1 if (total < 0) == (divisor < 0) else -1)
    return min(max(quotient, LOWEST), -1 - LOWEST)


@pytest.mark.parametrize(
    "divisor",
    [1 << 32, (1 << 32) + 2, 1 << 31, -(1 << 31), (1 << 63) - 1, LOWEST, -1, -2, 1 << 33, -(1 << 32)],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_any_divisor_that_a_word_holds_divides(dtype: Any, divisor: int) -> None:
    """Cut to 32 bits these are 0 and 2; the lowest number by -1 traps on x86."""
    limits = np.iinfo(dtype)
    x = np.array([[[[limits.min, limits.max], [-5, 7]]]], dtype)
    wanted = [min(max(truncated(int(v), divisor), limits.min), limits.max) for v in x.ravel()]
    assert F.avg_pool2d(x, 1, divisor_override=divisor).ravel().tolist() == wanted


@pytest.mark.parametrize("divisor", [1 << 63, -(1 << 63) - 1, 10**30])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
def test_other_divisors_are_refused(dtype: Any, divisor: int) -> None:
    with pytest.raises(ArgumentError, match=f"avg_pool2d: divisor_override .* got {divisor}"):
        F.avg_pool2d(X.astype(dtype), 1, divisor_override=divisor)


def pooled(size: Any) -> list[Callable[[], Any]]:
    """Calls with a size, in every argument that takes one."""
    values, places = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.int64)
    return [
        lambda: F.max_pool2d(X, size, 1, padding=size // 2),
        lambda: F.max_pool2d(X, 2, stride=size, return_indices=True),
        lambda: F.max_pool2d(X, 2, dilation=size),
        lambda: F.avg_pool2d(X, size, padding=size // 2, ceil_mode=True),
        lambda: F.lp_pool2d(X, 2, size),
        lambda: F.adaptive_max_pool2d(NOBODY, size),
        lambda: F.adaptive_avg_pool2d(NOBODY, (1, size)),
        lambda: F.adaptive_avg_pool2d(X, (1, size)),
        lambda: F.roi_align(X, BOX[:0], size),
        lambda: F.roi_align(X, BOX, 2, sampling_ratio=size),
        lambda: F.roi_pool(X, BOX[:0], size),
        lambda: F.ps_roi_pool(X, BOX, size),
        lambda: F.spatial_pyramid_pool(X, [size]),
        lambda: F.soft_pool(NOBODY, size, 1, padding=size // 2),
        lambda: F.max_unpool2d(values, places, 2, output_size=(size, size)),
        lambda: F.fractional_max_pool2d(X, 2, size),
    ]


@pytest.mark.parametrize("size", [(1 << 32) + 1, (1 << 62) + 1, 1 << 63, 10**30])
def test_huge_sizes_neither_hang_nor_raise_others(size: int) -> None:
    """Each either is computed or refused at once; tables as long as a declared size took minutes or the memory."""
    for compute in pooled(size):
        with contextlib.suppress(CenoteError):
            compute()


def test_adaptive_pooling_to_more_places_than_there_is_memory_for_a_table() -> None:
    with pytest.raises(CapacityError, match="4294967297 positions"):
        F.adaptive_max_pool2d(np.zeros((0, 1, 8, 8), np.float32), (1, (1 << 32) + 1))


@pytest.mark.parametrize("seed", [1.5, -1, 10**30, 1 << 64, True])
def test_seeds_that_are_none(seed: Any) -> None:
    for pool in (
        lambda: F.fractional_max_pool2d(X, 2, 3, seed=seed),
        lambda: F.stochastic_pool(X, 2, seed=seed),
    ):
        with pytest.raises(ArgumentError, match="seed"):
            pool()


@pytest.mark.parametrize("scale", [1e30, 3e38, 1e39, 1e300, float("inf"), 10**400])
@pytest.mark.parametrize("boxes", [BOX, np.array([[0, 1e30, -1e30, 3e38, -3e38]], np.float32)])
def test_boxes_and_scales_beyond_every_map(scale: float, boxes: Any) -> None:
    for pool in (F.roi_pool, F.ps_roi_pool, F.roi_align):
        with contextlib.suppress(CenoteError):
            assert pool(X, boxes, 1, spatial_scale=scale).shape == (1, 1, 1, 1)


def test_references_of_region_pools_take_boxes_beyond_every_map() -> None:
    """Converting an infinite corner to a whole number is an OverflowError."""
    from cenote.ops.roi.pool import MaxRoiPool

    (y,) = MaxRoiPool((1, 1), 3e38).reference(X, BOX * 2)
    assert y.shape == (1, 1, 1, 1)


@pytest.mark.parametrize("shape", [(0, 1, 2, 3), (1, 0, 2, 3)])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32])
def test_global_pools_of_nothing(shape: tuple[int, ...], dtype: Any) -> None:
    assert F.global_max_pool(np.zeros(shape, dtype)).shape == (*shape[:2], 1, 1)


def test_numbers_larger_than_any_float() -> None:
    for pool in (lambda: F.gem_pool(X, p=10**400), lambda: F.lp_pool2d(X, 10**400, 2)):
        with pytest.raises(ArgumentError, match="larger than any float"):
            pool()


axes = st.builds(
    AxisWindow,
    size=st.integers(1, 6),
    window=st.integers(1, 6),
    stride=st.integers(1, 9),
    dilation=st.integers(1, 14),
    begin=st.integers(0, 40),
    end=st.integers(0, 9),
    out=st.integers(0, 30),
)


@given(axes)
def test_the_first_empty_window_and_the_tables_are_those_found_one_by_one(axis: AxisWindow) -> None:
    axis = AxisWindow(**{**axis.__dict__, "begin": min(axis.begin, axis.reach - 1)})
    empty = [o for o in range(axis.out) if not axis.count(o)]
    assert axis.empty_window == (empty[0] if empty else None)
    assert axis.counts() == [axis.count(o) for o in range(axis.out)]
    assert axis.padded_counts() == [axis.padded_count(o) for o in range(axis.out)]


ENDLESS = 10**5000  # more digits than Python prints


@pytest.mark.parametrize("size", [ENDLESS, -ENDLESS], ids=["large", "negative"])
def test_numbers_that_python_does_not_print(size: int) -> None:
    calls: list[Callable[[], Any]] = [
        *pooled(size),
        lambda: F.max_pool2d(X, (size, size, size)),
        lambda: F.max_pool2d(X, 2, padding=[(size, size)]),
        lambda: F.max_pool2d(X, 2, ceil_mode=size),  # type: ignore[arg-type]
        lambda: F.max_pool2d(X, 2, layout=size),  # type: ignore[call-overload]
        lambda: F.max_pool2d(X, 2, semantics=size),  # type: ignore[call-overload]
        lambda: F.max_pool2d(X, 2, nan=size),  # type: ignore[call-overload]
        lambda: F.max_pool2d(X, 2, threads=size),
        lambda: F.avg_pool2d(X, 2, divisor_override=size),
        lambda: F.stochastic_pool(X, 2, seed=size),
        lambda: F.spatial_pyramid_pool(X, (size,)),
        lambda: F.pool_output_shape((size,), 2),
        lambda: F.roi_align(X, BOX, 2, spatial_scale=size),
    ]
    for call in calls:
        with contextlib.suppress(CenoteError):
            call()


def test_a_list_that_holds_itself() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for arguments in ({"kernel_size": endless}, {"kernel_size": 2, "padding": endless}):
        with pytest.raises(ArgumentError):
            F.max_pool2d(X, **arguments)


@pytest.mark.parametrize("p", [1e308, -1e308, 5e-324, -5e-324, float(1 << 62)])
def test_norms_of_any_exponent_that_a_float_holds(p: float) -> None:
    """1 / p and 2 p may be infinite."""
    ones = np.ones((1, 2, 4, 4), np.float32)
    for call in (
        lambda: F.global_lp_pool(ones, p),
        lambda: F.lp_pool2d(ones, p, 2),
        lambda: F.gem_pool(ones, p=p),
        lambda: F.lp_pool2d_backward(ones[:, :, :2, :2], ones, p, 2),
    ):
        with contextlib.suppress(CenoteError):
            assert call().dtype == np.float32


@pytest.mark.parametrize("rule", [np.zeros(2), np.zeros(0), [], {}])
def test_a_rule_for_nan_that_is_none(rule: Any) -> None:
    with pytest.raises(ArgumentError, match="nan must be one of"):
        F.max_pool2d(X, 2, nan=rule)


def test_blurs_over_more_positions_than_a_table_holds() -> None:
    with pytest.raises(CenoteError, match="filter_size"):
        F.blur_pool(X[0, 0], 1 << 31, border="replicate", layout="HW")
