"""Quantisation of models with weights, biases and examples that are zero, tiny, huge, or no numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cenote
from cenote.core.types import Array
from tests.quantization.networks import model, node, noise, quantized

W, B, X = noise(4, 4, 3, 3), noise(4), noise(2, 4, 5, 5)
FIRST = np.array([1, 0, 0, 0], np.float32).reshape(4, 1, 1, 1)
FINITE: dict[str, tuple[Array, Array, Array]] = {
    "weights of zero": (W * 0, B, X),
    "tiny weights": (W * np.float32(1e-42), B, X),
    "huge weights": (W * np.float32(1e35), B, X),
    "a filter of zeros": (W * (1 - FIRST), B, X),
    "a huge filter": (W * (1 + FIRST * np.float32(1e30)), B, X),
    "a huge bias": (W, B * np.float32(1e30), X),
    "examples of zero": (W, B, X * 0),
    "tiny examples": (W, B, X * np.float32(1e-42)),
    "huge examples": (W, B, X * np.float32(1e35)),
    "one number": (W, B, np.full_like(X, 0.5)),
    "negative examples": (W, B, -np.abs(X)),
}


def layers(weights: Array, bias: Array) -> bytes:
    """A convolution with these numbers, and one with ordinary ones, of the same x."""
    nodes = [node("Conv", "x w b", "y"), node("Conv", "x v", "u")]
    made = model(nodes, {"x": ["n", 4, 5, 5]}, "y u", {"w": weights, "b": bias, "v": W})
    content: bytes = made.SerializeToString()
    return content


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("name", FINITE)
def test_answers_are_near_those_of_the_floats(name: str, per_channel: bool, tmp_path: Path) -> None:
    weights, bias, x = FINITE[name]
    content = layers(weights, bias)
    path, report = quantized(tmp_path, content, x, per_channel=per_channel)
    assert not report.floats
    for y, want in zip(cenote.load(path, threads=1)(x), cenote.load(content, threads=1)(x), strict=True):
        apart, largest = np.abs(np.float64(y) - np.float64(want)).max(), np.abs(want).max()
        assert apart <= 0.03 * largest + 1e-38  # scales are normal numbers


@pytest.mark.parametrize("method", ["percentile", "entropy", "mse"])
@pytest.mark.parametrize("factor", [0, 1e-42, 1e35])
def test_every_method_finds_a_range(method: str, factor: float, tmp_path: Path) -> None:
    x = X * np.float32(factor)
    path, _ = quantized(tmp_path, layers(W, B), x, method=method)
    for y in cenote.load(path, threads=1)(x):
        assert np.isfinite(np.asarray(y)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["weights", "bias"])
def test_layers_with_numbers_that_are_not_finite_stay_in_float(
    place: str, value: float, tmp_path: Path
) -> None:
    weights, bias = W.copy(), B.copy()
    (weights if place == "weights" else bias).ravel()[2] = value
    path, report = quantized(tmp_path, layers(weights, bias), X, equalization=True, bias_correction=True)
    assert [layer.name for layer in report.layers] == ["u"]
    y, want = cenote.load(path, threads=1)(X)[0], cenote.load(layers(weights, bias), threads=1)(X)[0]
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(want))
    with pytest.raises(
        cenote.UnsupportedError, match="of 1 convolutions and products 0 have constant, finite"
    ):
        quantized(
            tmp_path,
            model([node("Conv", "x w b", "y")], {"x": ["n", 4, 5, 5]}, "y", {"w": weights, "b": bias}),
            X,
        )
