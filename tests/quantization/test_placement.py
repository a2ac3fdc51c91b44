"""Which values pass through 8 bits, and which share a scale."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from cenote.quantization.network import Network
from cenote.quantization.placement import BytePlacement, place
from cenote.quantization.prepare import prepare
from tests.quantization.networks import classifier, model, node, noise

W = {"w": noise(4, 4, 1, 1), "v": noise(4, 4, 1, 1)}


def placed(given: onnx.ModelProto, exclude: str = "", kept: str = "") -> BytePlacement:
    network = Network(given)
    prepare(network)

    def excluded(each: NodeProto) -> bool:
        return each.name in exclude.split()

    return place(network, excluded, kept.split())


def of(nodes: list[NodeProto], outputs: str = "y", **more: str) -> BytePlacement:
    return placed(model(nodes, {"x": [1, 4, 6, 6]}, outputs, W), **more)


def test_a_network_of_many_kinds() -> None:
    found = placed(classifier())
    assert [layer.name for layer in found.layers] == ["c1", "c2", "c3", "sum", "averaged", "c4", "g", "y"]
    # The normalisation is gone, activations belong to their layers, the output stays float.
    assert {*found.groups} == {"x", "r1", "r2", "c3", "sum", "pooled", "averaged", "both", "r4", "g", "f"}
    groups = sorted(sorted(names) for names in found.members().values())
    assert ["averaged", "both", "pooled", "sum"] in groups
    assert ["f", "g"] in groups
    assert [name for (*names,) in groups if len(names) == 1 for name in names] == [
        "c3",
        "r1",
        "r2",
        "r4",
        "x",
    ]


def test_results_on_their_way_to_the_outputs_stay_in_float() -> None:
    nodes = [node("Conv", "x w", "c"), node("Sigmoid", "c", "s"), node("Reshape", "s shape", "y")]
    found = placed(model(nodes, {"x": [1, 4, 6, 6]}, "y", W | {"shape": np.array([1, -1])}))
    assert {*found.groups} == {"x"}


def test_activations_of_other_kinds_lie_between_bytes() -> None:
    found = of([node("Conv", "x w", "c"), node("HardSwish", "c", "h"), node("Conv", "h v", "y")])
    assert {*found.groups} == {"x", "c", "h"}


def test_a_relu_that_others_read_around_does_not_belong() -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Relu", "c", "r"),
        node("Add", "c r", "s"),
        node("Conv", "s v", "y"),
    ]
    found = of(nodes)
    assert {*found.groups} == {"x", "c", "s"}
    assert found.layers[0].result == "c"


def test_a_value_that_is_an_output_too_stays_float_for_callers() -> None:
    found = of([node("Conv", "x w", "c"), node("Conv", "c v", "y")], outputs="c y")
    assert {*found.groups} == {"x", "c"}  # c is read as bytes behind it


@pytest.mark.parametrize(
    ("op", "inputs", "more"),
    [
        ("Resize", ["c", "", "scales"], {"mode": "linear"}),
        ("MaxPool", ["c"], {"kernel_shape": [2, 2]}),
        ("Pad", ["c", "pads"], {}),
        ("Transpose", ["c"], {"perm": [0, 1, 3, 2]}),
    ],
)
def test_movement_shares_the_scale(op: str, inputs: list[str], more: dict[str, object]) -> None:
    moved = helper.make_node(op, inputs, ["m"], "m", **more)
    constants = W | {"scales": np.array([1, 1, 2, 2], np.float32), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    found = placed(
        model(
            [node("Conv", "x w", "c"), moved, node("Conv", "m v", "y")], {"x": [1, 4, 6, 6]}, "y", constants
        )
    )
    assert found.groups["c"] == found.groups["m"] != found.groups["x"]


@pytest.mark.parametrize(
    ("op", "inputs", "more"),
    [("Resize", ["c", "", "scales"], {"mode": "cubic"}), ("Pad", ["c", "pads", "one"], {})],
)
def test_what_makes_other_numbers_does_not_share(op: str, inputs: list[str], more: dict[str, object]) -> None:
    moved = helper.make_node(op, inputs, ["m"], "m", **more)
    constants = W | {
        "scales": np.array([1, 1, 2, 2], np.float32),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "one": np.float32(1),
    }
    found = placed(
        model(
            [node("Conv", "x w", "c"), moved, node("Conv", "m v", "y")], {"x": [1, 4, 6, 6]}, "y", constants
        )
    )
    assert found.groups["c"] != found.groups["m"]


def test_bytes_spread_against_the_direction_through_movement() -> None:
    nodes = [
        node("Sigmoid", "x", "s"),
        node("MaxPool", "s", "m", kernel_shape=[2, 2]),
        node("Conv", "m w", "y"),
    ]
    found = of(nodes)
    assert found.groups["s"] == found.groups["m"]
    assert "x" not in found.groups


def test_excluded_layers_and_kept_values() -> None:
    nodes = [node("Conv", "x w", "c"), node("Sigmoid", "c", "s"), node("Conv", "s v", "y")]
    assert {*of(nodes, exclude="y").groups} == {"x", "c"}
    assert {*of(nodes, exclude="c").groups} == {"s"}
    assert not of(nodes, exclude="c y").layers
    assert [layer.name for layer in of(nodes, kept="x").layers] == ["y"]


def test_weights_that_are_no_constants_of_float32() -> None:
    computed = [node("Exp", "w", "e"), node("Conv", "x e", "y")]
    assert not of(computed).layers
    infinite = W | {"w": np.full((4, 4, 1, 1), np.inf, np.float32)}
    assert not placed(model([node("Conv", "x w", "y")], {"x": [1, 4, 6, 6]}, "y", infinite)).layers
    turned = model([node("Gemm", "x w", "y", transA=1)], {"x": [4, 3]}, "y", {"w": noise(4, 5)})
    assert not placed(turned).layers
    left = model([node("MatMul", "w x", "y")], {"x": [4, 3]}, "y", {"w": noise(5, 4)})
    assert not placed(left).layers


def test_values_that_branches_read_stay_readable() -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["c"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    nodes = [
        node("Conv", "x w", "c"),
        node("Relu", "c", "r"),
        helper.make_node("If", ["yes"], ["i"], "i", then_branch=branch, else_branch=branch),
        node("Add", "r i", "s"),
        node("Conv", "s v", "y"),
    ]
    found = of_with(nodes, {"yes": np.array(True)})
    assert found.layers[0].result == "c", "the relu is not the only reader"


def of_with(nodes: list[NodeProto], constants: dict[str, np.ndarray]) -> BytePlacement:
    return placed(model(nodes, {"x": [1, 4, 6, 6]}, "y", W | constants))
