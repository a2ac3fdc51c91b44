"""Equalisation keeps the function and evens ranges; bias correction gives means back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import cenote
from cenote.quantization.equalize import correct_biases, equalize
from cenote.quantization.network import Network
from cenote.quantization.prepare import prepare
from cenote.quantization.qdq import WeightFormat, weights_of
from cenote.quantization.ranges import ValueRange
from cenote.quantization.scales import ByteLevels
from tests.quantization.networks import model, node, noise, onnxruntime


def uneven(*shape: int) -> np.ndarray:
    """Filters whose ranges differ by factors up to 100."""
    factors = np.geomspace(0.1, 10, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return (noise(*shape) * factors).astype(np.float32)


def chain() -> onnx.ModelProto:
    """A dense, a depthwise, a grouped and a dense convolution, with Relu and without, and one behind Clip."""
    nodes = [
        node("Conv", "x w1 b1", "c1"),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2", "c2", group=8),
        node("Conv", "c2 w3 b3", "c3", group=2),
        node("Relu", "c3", "r3"),
        node("Conv", "r3 w4", "c4"),
        node("Clip", "c4", "k4"),
        node("Conv", "k4 w5", "y"),
    ]
    weights = {
        "w1": uneven(8, 3, 1, 1),
        "b1": uneven(8),
        "w2": uneven(8, 1, 3, 3),
        "w3": uneven(6, 4, 1, 1),
        "b3": uneven(6),
        "w4": uneven(4, 6, 1, 1),
        "w5": uneven(4, 4, 1, 1),
    }
    return model(nodes, {"x": (2, 3, 8, 8)}, "y", weights)


def prepared(given: onnx.ModelProto) -> Network:
    copy = onnx.ModelProto()
    copy.CopyFrom(given)
    network = Network(copy)
    prepare(network)
    return network


def test_equalisation_keeps_the_function_and_evens_ranges() -> None:
    given, network = chain(), prepared(chain())
    assert equalize(network) == 3
    x = noise(2, 3, 8, 8)
    (mine,), (wanted,) = onnxruntime(network.model, {"x": x}), onnxruntime(given, {"x": x})
    np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    first, second = (network.constants[network.nodes[place].input[1]] for place in (0, 2))
    np.testing.assert_allclose(
        np.abs(first).max(axis=(1, 2, 3)), np.abs(second).max(axis=(1, 2, 3)), rtol=0.05
    )


def test_a_channel_of_zeros_stays() -> None:
    weights = {"w1": noise(4, 3, 1, 1), "w2": noise(2, 4, 1, 1)}
    weights["w1"][1] = 0
    weights["w2"][:, 2] = 0
    network = prepared(
        model([node("Conv", "x w1", "c"), node("Conv", "c w2", "y")], {"x": (1, 3, 2, 2)}, "y", weights)
    )
    assert equalize(network) == 1
    assert all(np.isfinite(each).all() for each in network.constants.values())


def test_two_convolutions_with_the_same_weights_stay() -> None:
    weights = {"w": noise(3, 3, 1, 1)}
    network = prepared(
        model([node("Conv", "x w", "c"), node("Conv", "c w", "y")], {"x": (1, 3, 2, 2)}, "y", weights)
    )
    assert equalize(network) == 0


@pytest.mark.parametrize(
    ("layer", "weights", "shape", "axes"),
    [
        (node("Conv", "x w b", "y", group=2), (6, 2, 1, 1), (3, 4, 5, 5), (0, 2, 3)),
        (node("Conv", "x w", "y"), (6, 4, 1, 1), (3, 4, 5, 5), (0, 2, 3)),
        (node("Gemm", "x w", "y"), (4, 6), (50, 4), (0,)),
        (node("Gemm", "x w b", "y", transB=1), (6, 4), (50, 4), (0,)),
    ],
)
def test_corrected_biases_give_the_mean_back(
    layer: onnx.NodeProto, weights: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """Without padding the mean of the results with rounded weights is the float model's."""
    x = (1 + noise(*shape)).astype(np.float32)
    network = prepared(model([layer], {"x": shape}, "y", {"w": noise(*weights), "b": noise(6)}))
    levels = {"x": ByteLevels.of(ValueRange(0, 4))}
    form = WeightFormat(per_channel=False, most=7)  # coarse, so that there is much to correct
    (wanted,) = onnxruntime(network.model, {"x": x})
    rounded, _ = weights_of(network, network.nodes[0], levels["x"], form)
    corrected = Network(network.model)
    correct_biases(corrected, corrected.nodes, levels, {"x": x.mean(axis=axes, dtype=np.float64)}, form)
    corrected.set_constant(corrected.nodes[0].input[1], rounded.numbers())
    (mine,) = onnxruntime(corrected.model, {"x": x})
    np.testing.assert_allclose(mine.mean(axis=axes), wanted.mean(axis=axes), atol=1e-4)
    assert np.abs(mine - wanted).max() > 1e-2, "the weights are not rounded"


@pytest.mark.parametrize("length", [16, 24], ids=["as long as channels", "longer"])
def test_means_are_of_channels_whatever_else_reads_a_value(length: int, tmp_path: Path) -> None:
    """A MatMul, whose terms lie along the last axis, reads what a convolution reads."""
    nodes = [
        node("Conv", "x w1", "c"),
        node("Relu", "c", "r"),
        node("Conv", "r w2 b", "y", pads=[1, 1]),
        node("MatMul", "r m", "z"),
    ]
    weights = {"w1": noise(16, 8, 1), "w2": noise(32, 16, 3), "b": noise(32), "m": noise(length, 40)}
    given = model(nodes, {"x": ("n", 8, length)}, "y z", weights)
    x = noise(64, 8, length) + np.linspace(-3, 3, length, dtype=np.float32)
    wanted, moved = onnxruntime(given, {"x": x})[0], {}
    for corrects in (True, False):
        path = tmp_path / f"{corrects}.onnx"
        cenote.quantize(given, x, path, bias_correction=corrects)
        apart = np.asarray(cenote.load(path)(x)[0]) - wanted
        moved[corrects] = np.abs(apart.mean(axis=(0, 2))).mean()
    assert moved[True] < 0.6 * moved[False]  # 0.46 and 0.45; of means along the other axis 0.76
