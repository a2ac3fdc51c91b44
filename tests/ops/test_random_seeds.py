"""Random operators of models: a seed that a node names gives the same numbers again; without one they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, TensorProto, helper

import cenote

X = np.full((40, 5), 0.5, np.float32)
NODES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "RandomUniform": ([], {"shape": [40, 5]}),
    "RandomUniformLike": (["x"], {}),
    "RandomNormal": ([], {"shape": [40, 5]}),
    "RandomNormalLike": (["x"], {}),
    "Bernoulli": (["x"], {}),
    "Multinomial": (["x"], {"sample_size": 9}),
    "Dropout": (["x", "", "training"], {}),
}


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> GraphProto:
    training = helper.make_tensor("training", TensorProto.BOOL, [], [True])
    return helper.make_graph(nodes, "random", inputs, outputs, [training])


def runs(made: GraphProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = cenote.load(model.SerializeToString())
    return [np.asarray(loaded.run(inputs)["y"]) for _ in range(2)]


@pytest.mark.parametrize("name", NODES)
def test_a_node_without_a_seed_draws_anew_in_each_run(name: str) -> None:
    given, attributes = NODES[name]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    result = helper.make_tensor_value_info("y", 0, None)
    for seed in (None, 3):
        more = {} if seed is None else {"seed": seed if name == "Dropout" else float(seed)}
        node = helper.make_node(name, given, ["y"], **attributes, **more)
        first, second = runs(graph([node], [value], [result]), {"x": X})
        assert np.array_equal(first, second) == (seed is not None)


def test_two_nodes_alike_draw_apart() -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], [name], name=name) for name in "ab"]
    nodes.append(helper.make_node("Sub", ["a", "b"], ["y"]))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    for difference in runs(graph(nodes, [value], [result]), {"x": X}):
        assert np.count_nonzero(difference) > X.size // 2


def test_rounds_of_a_loop_draw_apart() -> None:
    body = helper.make_graph(
        [helper.make_node("RandomUniformLike", ["s"], ["r"]), helper.make_node("Identity", ["c"], ["again"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, X.shape),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("r", TensorProto.FLOAT, X.shape),
            helper.make_tensor_value_info("r", TensorProto.FLOAT, X.shape),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "y"], body=body)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    first, _ = runs(graph([node], [value, count], [result]), {"x": X, "n": np.array(3, np.int64)})
    assert np.count_nonzero(first[0] != first[1]) > X.size // 2
    assert np.count_nonzero(first[1] != first[2]) > X.size // 2
