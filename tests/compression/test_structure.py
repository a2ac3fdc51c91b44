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
            "long": noise(5, 8 * 81), "rows": noise(2, 5), "twice": np.array([1, 1, 2, 2], np.float32),
            "sizes": np.array([2, 8, 5, 11]), "each": noise(8, 1, 1), "map": noise(9, 9), "v6": noise(4, 6, 3, 3),
            "turned": noise(8, 6, 3, 3), "u": noise(7, 8), "e": noise(7), "o": noise(7, 4),
            "v4": noise(8, 2, 3, 3), "c8": noise(8), "scale": noise(8),
            "shift": noise(8) + 1, "mean": noise(8) - 1, "spread": 1 + np.abs(noise(8)),
            "w2": noise(8, 3, 3, 3), "all": np.array([1, 2, 1, 1], np.float32), "v2": noise(6, 16, 3, 3)}  # fmt: skip


def network(nodes: list[NodeProto], bias: float, outputs: str = "y") -> SharedNetwork:
    read = {name for each in nodes for name in each.input}
    constants = {name: x for name, x in weights(bias).items() if name in read}
    return SharedNetwork.of(model(nodes, {"x": [2, 3, 9, 9]}, outputs, constants))


def resize(*inputs: str, mode: str) -> NodeProto:
    return helper.make_node("Resize", inputs, ["r"], "r", mode=mode)


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
    "two readers": (
        [FIRST, RELU, node("Conv", "r v c", "s"), node("Conv", "r v", "t"), node("Add", "s t", "y")],
        0.7,
    ),
    "added to itself": ([FIRST, node("Add", "h h", "r"), node("Conv", "r v c", "y")], 0.7),
    "a branch of one pixel": (
        [FIRST, node("GlobalAveragePool", "h", "g"), node("Mul", "g h", "r"), node("Conv", "r v c", "y")],
        0.7,
    ),
    "normalised": (
        [FIRST, node("BatchNormalization", "h scale shift mean spread", "r"), node("Conv", "r v c", "y")],
        0.7,
    ),
    "resized": (
        [FIRST, resize("h", "", "twice", mode="nearest"), node("Conv", "r v c", "y")],
        0.7,
    ),
    "resized to sizes": (
        [FIRST, resize("h", "", "", "sizes", mode="linear"), node("Conv", "r v c", "y")],
        0.7,
    ),
    "a constant of each channel": (
        [FIRST, node("Mul", "h each", "s"), node("PRelu", "s each", "r"), node("Conv", "r v c", "y")],
        0.7,
    ),
    "a transposed convolution": (
        [FIRST, RELU, node("ConvTranspose", "r turned c", "y", strides=[2, 2])],
        0.0,
    ),
    "a product": (
        [
            FIRST,
            node("ReduceMean", "h", "m", axes=[2, -1], keepdims=0),
            node("Gemm", "m u e", "n", transB=1),
            node("Relu", "n", "r"),
            node("Gemm", "r o", "y"),
        ],
        0.7,
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
    after = pruned(before, 0.0)
    assert after is not None
    first = next(layers(after))
    assert after.tensors[first.weights].dims[0] == 5
    wanted = answers(before, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert after.nbytes < before.nbytes


LEFT = {
    "a constant into padding": ([FIRST, RELU, node("Conv", "r v c", "y", pads=[1, 1, 1, 1])], 0.7, "y"),
    "an output": ([FIRST, RELU, node("Conv", "r v c", "y")], 0.0, "y h"),
    "a constant of each pixel": ([FIRST, node("Add", "h map", "r"), node("Conv", "r v c", "y")], 0.0, "y"),
    "a constant into a transposed convolution": ([FIRST, node("ConvTranspose", "h turned c", "y")], 0.7, "y"),
    "a constant into zeros beside a mean": (
        [FIRST, node("AveragePool", "h", "r", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
         node("Conv", "r v c", "y")], 0.7, "y",
    ),
    "added to another": (
        [FIRST, node("Conv", "x w2", "k", pads=[1, 1, 1, 1]), node("Add", "h k", "r"), node("Conv", "r v c", "y")],
        0.0, "y",
    ),
    "resized channels": (
        [FIRST, resize("h", "", "all", mode="nearest"), node("Conv", "r v2", "y")], 0.0, "y",
    ),
    "channels that meet": (
        [FIRST, node("Softmax", "h", "r", axis=1), node("Conv", "r v c", "y")], 0.0, "y",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "bias", "outputs"), LEFT.values(), ids=LEFT)
def test_elsewhere_filters_stay(nodes: list[NodeProto], bias: float, outputs: str) -> None:
    before = network(nodes, bias, outputs)
    assert pruned(before, 0.0) is None


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
    assert pruned(before, 0.0) is not None
    assert pruned(branched, 0.0) is None
    assert {"h", "y"} <= branched.names()


def test_groups_of_a_convolution_go_as_wholes() -> None:
    """Group 2 reads channels 4 and 5, which are zeros; channel 1 stays for the sake of channel 0."""
    apart = node("Conv", "h v4 c8", "k", group=4)
    before = network([FIRST, apart, node("Conv", "k v c", "y")], 0.0)
    after = pruned(before, 0.0)
    assert after is not None
    grouped = after.nodes[1]
    assert [after.array(each.input[1]).shape[0] for each in after.nodes] == [6, 6, 6]
    assert grouped.attribute[0].i == 3
    wanted = answers(before, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_channels_go_that_nothing_needs() -> None:
    """The reader has no weights for channel 2, whose filter is not zero."""
    before = network([FIRST, RELU, node("Conv", "r v c", "y", pads=[1, 1, 1, 1])], 0.7)
    v = before.array("v").copy()
    v[:, 2] = 0
    blind = before.changed(before.nodes, ["v"], {"v": numpy_helper.from_array(v, "v")})
    after = pruned(blind, 0.0)
    assert after is not None
    assert after.array(after.nodes[0].input[1]).shape[0] == 7  # 1, 4 and 5 stay: a constant into padding
    wanted = answers(blind, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_channels_go_that_only_unneeded_filters_read() -> None:
    """Channel 2 is read by filter 0 of the second layer alone, for which the third has no weights."""
    nodes = [FIRST, node("Conv", "h v c", "k", pads=[1, 1, 1, 1]), node("Conv", "k v6", "y")]
    before = network(nodes, 0.7)
    v, v6 = before.array("v").copy(), before.array("v6").copy()
    v[1:, 2], v6[:, 0] = 0, 0
    changed = {"v": numpy_helper.from_array(v, "v"), "v6": numpy_helper.from_array(v6, "v6")}
    blind = before.changed(before.nodes, changed, changed)
    after = pruned(blind, 0.0)
    assert after is not None
    assert [after.array(each.input[1]).shape[0] for each in after.nodes] == [7, 5, 4]
    wanted = answers(blind, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_a_shared_weight_is_cut_for_each_reader() -> None:
    """Both layers read the same filters, on channels of which others are zeros."""
    nodes = [
        FIRST,
        node("Conv", "x w2", "k", pads=[1, 1, 1, 1]),
        node("Conv", "h v c", "s"),
        node("Conv", "k v c", "t"),
    ]
    before = network([*nodes, node("Concat", "s t", "y", axis=1)], 0.7)
    after = pruned(before, 0.0)
    assert after is not None
    assert [after.array(each.input[1]).shape[1] for each in after.nodes[2:4]] == [5, 8]
    wanted = answers(before, X)
    np.testing.assert_allclose(answers(after, X), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_filters_stay_beside_those_that_are_not_finite(wrong: float) -> None:
    before = network([FIRST, RELU, node("Conv", "r v c", "y")], 0.0)
    w = before.array("w").copy()
    w[0] = wrong
    odd = before.changed(before.nodes, ["w"], {"w": numpy_helper.from_array(w, "w")})
    assert pruned(odd, 0.0) is None


def test_small_filters_go_at_a_threshold() -> None:
    before = network(PATHS["a constant into a bias"][0], 0.0)
    layer = next(layers(before))
    w = before.array(layer.weights)
    norms = np.linalg.norm(w.reshape(8, -1), axis=1)
    threshold = float(np.sort(norms)[4] / norms.max()) * 1.001
    after = pruned(before, threshold)
    assert after is not None
    assert after.tensors[next(layers(after)).weights].dims[0] == 3


def test_a_layer_keeps_a_filter() -> None:
    nodes, bias = PATHS["a constant into a bias"]
    before = network(nodes, bias)
    after = pruned(before, 1.0)
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
