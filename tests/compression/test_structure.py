"""Filters that are removed: exactly the same answers, and where they must stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import cenote
from cenote.compression.network import SharedNetwork, layers
from cenote.compression.structure import pruned
from cenote.core.types import Array
from tests.compression.reference import answers
from tests.quantization.networks import model, node, noise

X = noise(2, 3, 9, 9)
GONE = [1, 4, 5]


def weights(bias: float) -> dict[str, Array]:
    """Filters 1, 4 and 5 of the first convolution are zero, and have this bias."""
    w, b = noise(8, 3, 3, 3), noise(8)
    w[GONE], b[GONE] = 0, bias
    return {"w": w, "b": b, "v": noise(6, 8, 3, 3), "c": noise(6), "g": noise(5, 8 * 9), "d": noise(5),
            "long": noise(5, 8 * 81), "rows": noise(2, 5)}  # fmt: skip


def network(nodes: list[NodeProto], bias: float, outputs: str = "y") -> SharedNetwork:
    read = {name for each in nodes for name in each.input}
    constants = {name: x for name, x in weights(bias).items() if name in read}
    return SharedNetwork.of(model(nodes, {"x": [2, 3, 9, 9]}, outputs, constants))


FIRST = node("Conv", "x w b", "h", pads=[1, 1, 1, 1])
RELU = node("Relu", "h", "r")
PATHS = {
    "zeros through padding": ([FIRST, RELU, node("Conv", "r v c", "y", pads=[1, 1, 1, 1])], 0.0),
    "a negative bias before ReLU": ([FIRST, RELU, node("Conv", "r v c", "y", pads=[1, 1, 1, 1])], -2.0),
    "a bias per row and column": (
        [FIRST, node("Flatten", "h", "f"), node("Gemm", "f long rows", "y", transB=1)],
        0.3,
    ),
    "a constant into a bias": ([FIRST, RELU, node("Conv", "r v c", "y")], 0.7),
    "a constant where there was no bias": ([FIRST, node("Sigmoid", "h", "r"), node("Conv", "r v", "y")], 0.0),
    "pools": (
        [
            FIRST,
            node("MaxPool", "h", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("LeakyRelu", "p", "r", alpha=0.5),
            node("Conv", "r v c", "y", strides=[2, 2]),
        ],
        -1.0,
    ),
    "flattened": (
        [
            FIRST,
            node("AveragePool", "h", "p", kernel_shape=[3, 3], strides=[3, 3]),
            node("Flatten", "p", "f"),
            node("Gemm", "f g d", "y", transB=1),
        ],
        0.3,
    ),
}


@pytest.mark.parametrize(("nodes", "bias"), PATHS.values(), ids=PATHS)
def test_filters_of_zeros_are_removed(nodes: list[NodeProto], bias: float) -> None:
    before = network(nodes, bias)
    after = pruned(before, next(layers(before)), 0.0)
    assert after is not None
    first = next(layers(after))
    assert after.tensors[first.weights].dims[0] == 5
    wanted = answers(before, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert after.nbytes < before.nbytes


LEFT = {
    "a constant into padding": ([FIRST, RELU, node("Conv", "r v c", "y", pads=[1, 1, 1, 1])], 0.7, "y"),
    "two readers": ([FIRST, RELU, node("Conv", "r v c", "y"), node("Conv", "r v", "z")], 0.0, "y z"),
    "an output": ([FIRST, RELU, node("Conv", "r v c", "y")], 0.0, "y h"),
    "a residual": ([FIRST, node("Add", "h h", "r"), node("Conv", "r v c", "y")], 0.0, "y"),
    "channels that meet": (
        [FIRST, node("Softmax", "h", "r", axis=1), node("Conv", "r v c", "y")], 0.0, "y",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "bias", "outputs"), LEFT.values(), ids=LEFT)
def test_elsewhere_filters_stay(nodes: list[NodeProto], bias: float, outputs: str) -> None:
    before = network(nodes, bias, outputs)
    assert pruned(before, next(layers(before)), 0.0) is None


def test_filters_stay_that_a_branch_reads() -> None:
    """The calls that measure errors may never take the branch."""
    result = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    branches = [
        helper.make_graph([helper.make_node("ReduceSum", [each], ["t"], keepdims=0)], each, [], result)
        for each in ("h", "y")
    ]
    choice = helper.make_node("If", ["which"], ["z"], then_branch=branches[0], else_branch=branches[1])
    before = network([FIRST, RELU, node("Conv", "r v c", "y")], 0.0)
    branched = before.changed((*before.nodes, choice))
    assert pruned(before, next(layers(before)), 0.0) is not None
    assert pruned(branched, next(layers(branched)), 0.0) is None
    assert {"h", "y"} <= branched.names()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_filters_stay_beside_those_that_are_not_finite(wrong: float) -> None:
    before = network([FIRST, RELU, node("Conv", "r v c", "y")], 0.0)
    w = before.array("w").copy()
    w[0] = wrong
    odd = before.changed(before.nodes, ["w"], {"w": numpy_helper.from_array(w, "w")})
    assert pruned(odd, next(layers(odd)), 0.0) is None


def test_small_filters_go_at_a_threshold() -> None:
    before = network(PATHS["a constant into a bias"][0], 0.0)
    layer = next(layers(before))
    w = before.array(layer.weights)
    norms = np.linalg.norm(w.reshape(8, -1), axis=1)
    threshold = float(np.sort(norms)[4] / norms.max()) * 1.001
    after = pruned(before, layer, threshold)
    assert after is not None
    assert after.tensors[next(layers(after)).weights].dims[0] == 3


def test_a_layer_keeps_a_filter() -> None:
    nodes, bias = PATHS["a constant into a bias"]
    before = network(nodes, bias)
    after = pruned(before, next(layers(before)), 1.0)
    assert after is not None
    assert after.tensors[next(layers(after)).weights].dims[0] == 1


def test_compress_prunes(tmp_path: Path) -> None:
    made = network(PATHS["a constant into a bias"][0], 0.7).message()
    found = cenote.compress(
        made, tmp_path / "a.onnx", calibration=X, goal="size", treatments=["prune"], within=1e-4
    )
    assert [each.treatment for each in found.kept] == ["prune"]
    onnx.checker.check_model(onnx.load(tmp_path / "a.onnx"), full_check=True)  # sizes of values among it
    wanted = np.asarray(cenote.load(made)(X))
    np.testing.assert_allclose(np.asarray(cenote.load(tmp_path / "a.onnx")(X)), wanted, rtol=0, atol=1e-4)
