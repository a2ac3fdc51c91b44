"""Scales: zero is exact, rounding is at most half a step, biases fit int32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.quantization.ranges import ValueRange
from cenote.quantization.scales import ByteLevels, quantized_bias, quantized_weights

positive = st.floats(0, 2.0**127, width=32)


@given(positive, positive)
def test_levels_of_any_range(below: float, above: float) -> None:
    levels = ByteLevels.of(ValueRange(-below, above))
    assert np.isfinite(levels.scale)
    assert levels.scale >= np.finfo(np.float32).tiny
    assert levels.rounded(np.zeros(1, np.float32)) == 0
    # All numbers of the range, and its ends, are at most a step away: the zero point is rounded.
    x = np.linspace(-below, above, 33, dtype=np.float64).astype(np.float32)
    with np.errstate(over="ignore"):
        errors = np.abs(levels.rounded(x).astype(np.float64) - x)
    assert errors.max() <= 1.001 * levels.scale
    inside = x[np.abs(x) < levels.scale * np.float32(min(levels.zero, 255 - levels.zero))]
    assert np.abs(levels.rounded(inside) - inside).max(initial=0) <= 0.5001 * levels.scale


def test_a_range_of_nothing_but_zero() -> None:
    assert ByteLevels.of(ValueRange(0, 0)) == ByteLevels(np.float32(1), np.uint8(0))


@given(
    st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=3, max_size=3),
    st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=3, max_size=3),
    st.floats(2.0**-66, 2.0**66, width=32),
    st.booleans(),
)  # fmt: skip
def test_biases_fit(peaks: list[float], bias: list[float], x_scale: float, per_channel: bool) -> None:
    weights = np.linspace(-1, 1, 8, dtype=np.float32) * np.array(peaks, np.float32)[:, None]
    own = np.array(bias, np.float32)
    with np.errstate(over="ignore", under="ignore"):
        made = quantized_weights(weights, 0, per_channel, 127, own, np.float32(x_scale))
        numbers, scales = quantized_bias(own, np.float32(x_scale), made.scales)
    assert made.levels.dtype == np.int8
    assert made.levels.min() >= -127
    assert made.scales.shape == ((3,) if per_channel else ())
    assert np.abs(numbers.astype(np.int64)).max() <= 2**30 + 2**12
    if np.isfinite(scales).all() and (scales > np.finfo(np.float32).tiny).all():
        np.testing.assert_allclose(numbers * scales.astype(np.float64), own, atol=0.51 * scales.max())
    # What is lost of a weight is half a step.
    assert np.abs(made.numbers() - weights).max() <= 0.501 * made.scales.max()


@pytest.mark.parametrize(("axis", "shape"), [(0, (4,)), (1, (6,))])
def test_scales_lie_along_the_filters(axis: int, shape: tuple[int]) -> None:
    weights = np.random.default_rng(0).standard_normal((4, 6, 3)).astype(np.float32)
    made = quantized_weights(weights, axis, True, 63, None, np.float32(1))
    assert made.scales.shape == shape
    assert np.abs(made.levels).max() == 63
    np.testing.assert_array_equal(np.abs(made.levels).max(axis=tuple({0, 1, 2} - {axis})), 63)


def test_a_filter_of_zeros_keeps_its_bias() -> None:
    weights = np.zeros((2, 4), np.float32)
    made = quantized_weights(weights, 0, True, 127, np.array([0.7, 0], np.float32), np.float32(0.1))
    numbers, scales = quantized_bias(np.array([0.7, 0], np.float32), np.float32(0.1), made.scales)
    np.testing.assert_allclose(numbers * scales, [0.7, 0], rtol=1e-6)
    assert made.scales[1] == 1
