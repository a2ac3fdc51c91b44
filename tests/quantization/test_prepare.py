"""Rewrites before quantisation change nothing but rounding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cenote.quantization.network import Network
from cenote.quantization.prepare import prepare
from tests.quantization.networks import classifier, examples, model, node, noise, onnxruntime


def prepared(given: onnx.ModelProto) -> Network:
    copy = onnx.ModelProto()
    copy.CopyFrom(given)
    network = Network(copy)
    prepare(network)
    return network


def same(given: onnx.ModelProto, x: np.ndarray) -> list[str]:
    """The operators of the prepared model, which gives the same answers."""
    network = prepared(given)
    for mine, theirs in zip(onnxruntime(network.model, {"x": x}), onnxruntime(given, {"x": x}), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    return [each.op_type for each in network.nodes]


def normalisation(channels: int) -> dict[str, np.ndarray]:
    names = ("s", "b", "m", "v")
    return {name: np.abs(noise(channels, scale=place + 1)) + 0.1 for place, name in enumerate(names)}


def test_normalisations_are_folded() -> None:
    assert "BatchNormalization" not in same(classifier(), examples(2))


@pytest.mark.parametrize(
    ("layer", "weights", "shape"),
    [
        (node("Conv", "x w", "c", group=2), (4, 2, 3, 3), (2, 4, 5, 5)),
        (node("ConvTranspose", "x w c0", "c", strides=[2, 2]), (4, 4, 3, 3), (2, 4, 5, 5)),
        (node("Gemm", "x w c0", "c"), (5, 4), (3, 5)),
        (node("Gemm", "x w c0", "c", transB=1), (4, 5), (3, 5)),
    ],
)
def test_normalisations_behind_layers(
    layer: onnx.NodeProto, weights: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    nodes = [layer, node("BatchNormalization", "c s b m v", "y", epsilon=1e-3)]
    constants = normalisation(4) | {"w": noise(*weights), "c0": noise(4)}
    assert same(model(nodes, {"x": shape}, "y", constants), noise(*shape)) == [layer.op_type]


@pytest.mark.parametrize("odd", ["variance", "training_mode"])
def test_normalisations_without_statistics_of_their_own_stay(odd: str) -> None:
    more = {"training_mode": 1} if odd == "training_mode" else {}
    constants = normalisation(4) | {"w": noise(4, 4, 1, 1)}
    if odd == "variance":
        constants["v"] = -constants["v"]
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "y", **more)]
    given = model(nodes, {"x": (1, 4, 5, 5)}, "y", constants)
    assert "BatchNormalization" in [each.op_type for each in prepared(given).nodes]


@pytest.mark.parametrize("outputs", ["y c", "y"])
def test_normalisations_that_stay(outputs: str) -> None:
    """Their input is an output, or another node reads it."""
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "y")]
    if outputs == "y":
        nodes = [nodes[0], node("BatchNormalization", "c s b m v", "n"), node("Add", "n c", "y")]
    constants = normalisation(4) | {"w": noise(4, 4, 1, 1)}
    assert "BatchNormalization" in same(
        model(nodes, {"x": (1, 4, 5, 5)}, outputs, constants), noise(1, 4, 5, 5)
    )


@pytest.mark.parametrize("bias", [(), (1,), (4,), (1, 4)])
def test_plain_gemms(bias: tuple[int, ...]) -> None:
    nodes = [node("Gemm", "x w c", "y", alpha=0.5, beta=2.0)]
    given = model(nodes, {"x": (3, 5)}, "y", {"w": noise(5, 4), "c": np.asarray(noise(*bias))})
    same(given, noise(3, 5))
    (gemm,) = prepared(given).nodes
    assert not gemm.attribute
    assert prepared(given).constants[gemm.input[2]].shape == (4,)


@pytest.mark.parametrize("bias", [(4, 4), (4, 1)])
def test_a_gemm_with_a_bias_per_row_stays(bias: tuple[int, int]) -> None:
    nodes = [node("Gemm", "x w c", "y", alpha=0.5)]
    given = model(nodes, {"x": (4, 5)}, "y", {"w": noise(5, 4), "c": noise(*bias)})
    same(given, noise(4, 5))
    assert prepared(given).nodes[0].attribute


def test_new_constants_take_no_names() -> None:
    nodes = [
        node("Gemm", "x w fc.bias", "fc", alpha=0.5, beta=2.0),
        node("Gemm", "fc fc.weights fc.bias", "y"),
    ]
    constants = {"w": noise(4, 4), "fc.weights": noise(4, 4, scale=2), "fc.bias": noise(4)}
    same(model(nodes, {"x": (3, 4)}, "y", constants), noise(3, 4))


@pytest.mark.parametrize("turned", [False, True])
def test_biases_of_products(turned: bool) -> None:
    nodes = [node("MatMul", "x w", "m"), node("Add", "c m" if turned else "m c", "y")]
    given = model(nodes, {"x": ("n", 5)}, "y", {"w": noise(5, 4), "c": noise(4)})
    assert same(given, noise(3, 5)) == ["Gemm"]


@pytest.mark.parametrize(
    ("shape", "bias"),
    [(("n", 2, 5), (4,)), (("n", 5), (3, 4)), (("n", 5), ())],
    ids=["cube", "rows", "number"],
)
def test_products_that_stay(shape: tuple[int | str, ...], bias: tuple[int, ...]) -> None:
    nodes = [node("MatMul", "x w", "m"), node("Add", "m c", "y")]
    given = model(nodes, {"x": shape}, "y", {"w": noise(5, 4), "c": np.asarray(noise(*bias))})
    assert same(given, noise(*(3 if each == "n" else int(each) for each in shape))) == ["MatMul", "Add"]


def test_constants_become_initializers() -> None:
    tensor = numpy_helper.from_array(noise(4, 4, 1, 1), "value")
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensor),
        helper.make_node("Identity", ["k"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Mul", ["c", "two"], ["y"]),
    ]
    assert same(model(nodes, {"x": (1, 4, 5, 5)}, "y", {}), noise(1, 4, 5, 5)) == ["Conv", "Mul"]


def test_nodes_get_names() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "same"), helper.make_node("Relu", ["a"], ["b"], "same"),
             helper.make_node("Relu", ["b"], ["y"])]  # fmt: skip
    assert [each.name for each in prepared(model(nodes, {"x": (2,)}, "y", {})).nodes] == [
        "same",
        "same_",
        "y",
    ]
