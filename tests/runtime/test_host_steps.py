"""Host steps read and write memory that views and concats share with inputs, constants and outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote


def run(
    nodes: list[onnx.NodeProto], x: np.ndarray, constants: dict[str, np.ndarray] | None = None
) -> np.ndarray:
    graph = helper.make_graph(
        nodes,
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = cenote.load(model)
    host = [step for step in loaded.plan.describe().steps if step.kind == "host"]
    assert host, "the case is about host steps"
    result: np.ndarray = loaded(x)
    return result


X = np.arange(32, dtype=np.float32).reshape(2, 4, 4)


def reversed_rows(source: str, result: str) -> onnx.NodeProto:
    """ReverseSequence, which has no kernel: axis 1 backwards where `lengths` are its extent."""
    return helper.make_node("ReverseSequence", [source, "lengths"], [result], batch_axis=0, time_axis=1)


def test_a_view_of_the_input() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), reversed_rows("a", "y")]
    y = run(nodes, X, {"shape": np.array([4, 8]), "lengths": np.full(4, 8)})
    np.testing.assert_array_equal(y, X.reshape(4, 8)[:, ::-1])


def test_an_output_that_is_a_view() -> None:
    nodes = [reversed_rows("x", "a"), helper.make_node("Flatten", ["a"], ["y"])]
    np.testing.assert_array_equal(run(nodes, X, {"lengths": np.full(2, 4)}), X[:, ::-1].reshape(2, 16))


@pytest.mark.parametrize("axis", [0, 1])
def test_pieces_of_an_output(axis: int) -> None:
    nodes = [
        reversed_rows("x", "a"),
        helper.make_node("ReverseSequence", ["x", "pairs"], ["b"], batch_axis=1, time_axis=0),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=axis),
    ]
    y = run(nodes, X, {"lengths": np.full(2, 4), "pairs": np.full(4, 2)})
    np.testing.assert_array_equal(y, np.concatenate([X[:, ::-1], X[::-1]], axis))
