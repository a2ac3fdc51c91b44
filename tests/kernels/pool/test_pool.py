"""Windowed pooling kernels against the naive loop: every scheme, its thresholds, vector tails, NaN, chunks, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.target import Target
from cenote.core.types import BFLOAT16, TensorType
from cenote.kernels.pool.common import compute_type
from cenote.kernels.pool.problem import Geometry, Scale
from cenote.ops.base import Op
from cenote.ops.pool.adaptive import AdaptiveAveragePool, AdaptiveMaxPool
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import MaxPool
from tests.harness import lowerings_of, run_lowering
from tests.kernels.pool.windows import HOST, NO_PADS, check, noise, square
from tests.kernels.pool_oracle import LAYOUTS, geometry, has_empty_window, pooled, run_pool
from tests.targets import TARGETS, over_targets, target_name

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 40, 41, 63, 64, 65)


@pytest.mark.parametrize("reduction", ["max", "sum"])
@pytest.mark.parametrize(("width", "target"), over_targets([(each,) for each in WIDTHS], 5), ids=target_name)
def test_windows_of_every_scheme_along_a_row(width: int, target: Target, reduction: str) -> None:
    g = geometry((1, 2, width + 45), (1, 1, width), pads=(*NO_PADS[:2], (width // 2, width // 2)))
    turn = (WIDTHS.index(width) + (reduction == "max")) % 2
    for layout in ("plain", LAYOUTS[1 + turn]):  # maxima of the other layouts in turns with sums
        check(noise((1, 3, 1, 2, width + 45)), g, reduction, target, layout=layout)
    if target is TARGETS[0]:
        check(noise((1, 3, 1, 2, width)), geometry((1, 2, width), (1, 1, width)), reduction)


@pytest.mark.parametrize("reduction", ["max", "sum"])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 16, 27, 28, 31, 64])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (40, 1), (2, 2)])
def test_windows_of_every_scheme_down_the_rows(rows: int, stride: int, dilation: int, reduction: str) -> None:
    reach = (rows - 1) * dilation + 1
    pads = (NO_PADS[0], (reach // 3, reach // 2), NO_PADS[2])
    g = geometry((1, reach + 9, 50), (1, rows, 2), (1, stride, 1), (1, dilation, 1), pads)
    for layout in ("plain", "blocked"):
        check(noise((2, 3, 1, reach + 9, 50)), g, reduction, layout=layout)


@pytest.mark.parametrize(
    ("window", "stride", "pad", "target"),
    over_targets([(2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 4, 0), (9, 1, 4), (5, 3, 2)], 3),
    ids=target_name,
)
def test_every_vector_tail(window: int, stride: int, pad: int, target: Target) -> None:
    for width in range(max(1, window - 2 * pad), 41):
        g = square(window, pad, stride, 9, width)
        check(noise((1, 2, 1, 9, width), seed=width), g, "max", target)
        check(noise((1, 2, 1, 9, width), seed=width), g, "sum", target)


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 8, 9, 16, 33])
@pytest.mark.parametrize(("window", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (7, 1, 3)])
def test_every_number_of_channels(channels: int, window: int, stride: int, pad: int) -> None:
    g = square(window, pad, stride, 8, 9)
    for layout in ("blocked", "last"):
        check(noise((2, channels, 1, 8, 9)), g, "max", layout=layout)
        check(noise((2, channels, 1, 8, 9)), g, "sum", layout=layout)


@pytest.mark.parametrize(
    ("window", "stride", "pad", "extent"), [(2, 2, 0, 18), (3, 1, 1, 17), (3, 2, 1, 50), (9, 1, 4, 50)]
)
def test_a_nan_anywhere_reaches_its_windows_and_no_others(
    window: int, stride: int, pad: int, extent: int
) -> None:
    g = square(window, pad, stride, 11, extent)
    for column in range(extent):
        x = noise((1, 2, 1, 11, extent), seed=column)
        x[0, column % 2, 0, column % 11, column] = np.nan
        for layout in LAYOUTS:
            y = check(x, g, "max", layout=layout)
            assert np.isnan(y).any() == np.isnan(pooled(x, g, "max")).any()
            ignored = run_pool(x, g, "max", HOST, layout=layout, nan="ignore")
            np.testing.assert_array_equal(ignored, pooled(x, g, "max", "ignore"))


def test_infinities_of_both_signs_are_not_taken_for_nan() -> None:
    x = noise((1, 2, 1, 20, 50))
    x[..., ::5], x[..., 2::5] = np.inf, -np.inf
    for window in (2, 3, 9):
        check(x, square(window, window // 2, 1, 20, 50), "max")
        check(x, square(window, window // 2, 1, 20, 50), "min")


def test_nothing_leaks_from_an_infinite_sum() -> None:
    x = np.ones((1, 1, 1, 40, 60), np.float32)
    x[0, 0, 0, 20, 30] = np.inf
    for window in (2, 3, 8, 9, 31):
        g = square(window, 0, 1, 40, 60)
        y = run_pool(x, g, "sum", HOST)
        np.testing.assert_array_equal(y, pooled(x, g, "sum").astype(np.float32))


OTHERS = (np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int16, np.int32, np.int64)


@pytest.mark.parametrize(("dtype", "target"), over_targets([(each,) for each in OTHERS]), ids=target_name)
def test_element_types(dtype: Any, target: Target) -> None:
    """Maxima and minima in turns, and layouts: two of three for each window."""
    for number, (window, stride, pad, width) in enumerate(
        ((2, 2, 0, 70), (3, 2, 1, 35), (3, 1, 1, 9), (9, 1, 4, 40), (9, 2, 4, 90)), OTHERS.index(dtype)
    ):
        g = square(window, pad, stride, 12, width)
        x = noise((1, 3, 1, 12, width), dtype)
        for turn, layout in enumerate((LAYOUTS * 2)[number % 3 :][:2], number):
            reduction = ("max", "min")[turn % 2]
            y = run_pool(x, g, reduction, target, layout=layout)
            np.testing.assert_array_equal(y.astype(np.float64), pooled(x, g, reduction))


def test_half_precision_sums_are_taken_in_float32() -> None:
    x = np.full((1, 1, 1, 64, 64), 40, np.float16)
    g = square(64, 0, 1, 64, 64)
    scale = np.full((1, 1), 1 / 4096, np.float32)
    assert run_pool(x, g, "sum", HOST, scale=Scale(scale)).ravel()[0] == 40
    assert compute_type("sum", np.dtype(np.float16)).bits == 32


@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation"),
    [
        ((1, 40, 2500), (1, 3, 3), (1, 1, 1), (1, 1, 1)),
        ((1, 70, 70), (1, 9, 9), (1, 2, 2), (1, 1, 1)),
        ((1, 20, 20), (1, 13, 13), (1, 1, 1), (1, 1, 1)),
        ((5, 12, 30), (3, 3, 3), (1, 2, 1), (1, 1, 2)),
        ((1, 90, 30), (1, 30, 2), (1, 30, 2), (1, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reduction", ["max", "sum"])
def test_bits_do_not_depend_on_the_chunks(
    size: Any, window: Any, stride: Any, dilation: Any, reduction: str
) -> None:
    pads = tuple((w // 3, w // 3) for w in window)
    g, x = geometry(size, window, stride, dilation, pads), noise((2, 2, *size))
    for layout in LAYOUTS:
        whole = check(x, g, reduction, layout=layout)
        for chunk in (1, 3):
            np.testing.assert_array_equal(run_pool(x, g, reduction, HOST, layout=layout, chunk=chunk), whole)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Any window over up to three axes that has no empty window."""
    size, window, stride, dilation, pads = [], [], [], [], []
    for limit in (4, 14, 45):
        w = draw(st.integers(1, limit if draw(st.booleans()) else 3))
        d = draw(st.sampled_from((1, 1, 1, 2, 3)))
        reach = (w - 1) * d + 1
        pad = (draw(st.integers(0, reach // 2)), draw(st.integers(0, reach // 2)))
        size.append(draw(st.integers(max(1, reach - sum(pad)), reach + limit)))
        window.append(w)
        stride.append(draw(st.integers(1, 4)))
        dilation.append(d)
        pads.append(pad)
    g = geometry(size, window, stride, dilation, pads)
    return g if not has_empty_window(g) else geometry(size, (1, 1, 1))


@settings(max_examples=60)
@given(
    geometries(), st.sampled_from(LAYOUTS), st.sampled_from(("max", "min", "sum")), st.sampled_from((1, 3, 8))
)
def test_any_geometry(g: Geometry, layout: str, reduction: str, channels: int) -> None:
    check(noise((1, channels, *g.size)), g, reduction, layout=layout, chunk=2)


INTEGERS = (np.int8, np.uint8, np.int16, np.int32)
ROUNDINGS = ("zero", "even", "away")


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_of_integers_over_their_whole_range(dtype: Any, rounding: str) -> None:
    """A window for each type and rounding, so that every type and every rounding meets all three windows."""
    windows = (((3, 2), (1, 1)), ((9, 9), (2, 1)), ((2, 2), (2, 2)))
    window, stride = windows[(INTEGERS.index(dtype) + ROUNDINGS.index(rounding)) % 3]
    pads = tuple((extent // 2, extent // 2) for extent in window)
    op = AveragePool(window, stride, pads, rounding=rounding)
    x = noise((1, 3, 20, 45), dtype)
    want = op.reference(x)[0]
    for lowering in lowerings_of(op, (x,), HOST, constants=False):
        (y,) = run_lowering(op, lowering, (x,), HOST, constants=False)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8, 9, 28])
def test_windows_whose_dilation_is_their_stride(window: int) -> None:
    """Windows as far apart as their elements: stride alone says nothing of whether they overlap. Maxima and sums in
    turns: both for every layout and for every stride."""
    for number, (stride, dilation) in enumerate(((window, window), (2, 2), (window, 2)), window):
        reach = (window - 1) * dilation + 1
        for height, pads in ((1, NO_PADS), (window, (NO_PADS[0], (reach // 2, reach // 3), (reach // 3, 0)))):
            size = (1, (height - 1) * dilation + 3, reach + 3 * stride + 1)
            g = geometry(size, (1, height, window), (1, stride, stride), (1, dilation, dilation), pads)
            for turn, layout in enumerate(LAYOUTS, number + (height > 1)):
                check(noise((1, 3, *size)), g, ("max", "sum")[turn % 2], layout=layout)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_mean_of_equal_elements_is_that_element(dtype: Any) -> None:
    """By every algorithm in float32, by every second one in other types."""
    x = np.full((1, 3, 20, 45), 3, dtype)
    for number, (window, stride) in enumerate(
        (
            ((3, 3), (1, 1)),
            ((3, 3), (2, 2)),
            ((5, 7), (1, 1)),
            ((9, 9), (2, 1)),
            ((1, 6), (1, 6)),
        )
    ):
        pads = tuple((extent // 2, extent // 2) for extent in window)
        op = AveragePool(window, stride, pads, count_include_pad=False)
        found = lowerings_of(op, (x,), HOST, constants=False)
        for lowering in found if dtype is np.float32 else found[number % 2 :: 2] or found:
            (y,) = run_lowering(op, lowering, (x,), HOST, constants=False)
            np.testing.assert_array_equal(y, np.full_like(y, 3))


@pytest.mark.parametrize(
    ("window", "stride", "dilation"), [(1, 1 << 31, 1), (3, 1, 1 << 31), (1 << 40, 1 << 41, 1)]
)
def test_windows_out_of_all_proportion_are_left_to_the_reference(
    window: int, stride: int, dilation: int
) -> None:
    pad = ((window * dilation - dilation + 1) // 2,) * 2
    op = MaxPool((window,), (stride,), (pad,), (dilation,))
    assert not list(op.lowerings((TensorType.of(np.float32, (1, 1, 2)),), HOST))


@pytest.mark.parametrize(("width", "out"), [(37, 7), (5, 9), (90, 40), (95, 3), (97, 3), (200, 6)])
def test_ranges_whose_columns_are_in_the_code_and_those_that_are_too_many(width: int, out: int) -> None:
    x = noise((1, 3, 11, width))
    for op in (AdaptiveAveragePool((4, out)), AdaptiveMaxPool((4, out))):
        for lowering in lowerings_of(op, (x,), HOST, constants=False):
            (y,) = run_lowering(op, lowering, (x,), HOST, constants=False)
            np.testing.assert_allclose(y, op.reference(x)[0], rtol=1e-5, atol=1e-6)


RANGED = (np.float32, np.float64, np.float16, BFLOAT16, np.int8, np.uint8, np.int32, np.int64)


@pytest.mark.parametrize(("dtype", "target"), over_targets([(each,) for each in RANGED]), ids=target_name)
def test_ranges_turned(dtype: Any, target: Target) -> None:
    """More and fewer output rows and columns than lanes, overlapping ranges, rows of one vector and a tail: averages
    and maxima of float32; one of them, of three sizes, in turns for other types."""
    sizes = (
        ((37, 37), (7, 7)),
        ((9, 8), (3, 9)),
        ((20, 33), (11, 13)),
        ((40, 19), (17, 2)),
        ((5, 9), (9, 1)),
    )
    turn = RANGED.index(dtype)
    for number, (size, out) in enumerate(sizes if turn == 0 else (sizes * 2)[turn % 5 :][:3], turn):
        x = noise((2, 3, *size), dtype)
        both: tuple[Op, Op] = (AdaptiveAveragePool(out), AdaptiveMaxPool(out))
        for op in both if dtype is np.float32 else both[number % 2 :][:1]:
            want = op.reference(x)[0].astype(np.float64)
            loose = (
                {np.dtype(np.float16): 2e-3, BFLOAT16: 2e-2}.get(x.dtype, 1e-5)
                if x.dtype.kind not in "iu"
                else 0.0
            )
            for lowering in lowerings_of(op, (x,), target, constants=False):
                for chunk, junk in ((0, 0xFF), (2, 0x5A)):
                    (y,) = run_lowering(op, lowering, (x,), target, constants=False, chunk=chunk, junk=junk)
                    np.testing.assert_allclose(
                        y.astype(np.float64), want, rtol=loose, atol=loose, err_msg=f"{op}"
                    )


def test_a_nan_reaches_the_ranges_that_hold_it_and_no_others() -> None:
    for column in range(0, 37, 5):
        x = noise((1, 2, 37, 37), seed=column)
        x[0, 1, (7 * column) % 37, column], x[0, 0, column, 3] = np.nan, np.inf
        for op in (
            AdaptiveAveragePool((7, 7)),
            AdaptiveMaxPool((7, 7)),
            AdaptiveMaxPool((7, 7), nan="ignore"),
        ):
            want = op.reference(x)[0]
            for lowering in lowerings_of(op, (x,), HOST, constants=False):
                (y,) = run_lowering(op, lowering, (x,), HOST, constants=False)
                np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
