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


def cropped(source: str, shape: str, result: str) -> onnx.NodeProto:
    """CenterCropPad, which has no kernel."""
    return helper.make_node("CenterCropPad", [source, shape], [result])


def test_a_view_of_the_input() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"]), cropped("a", "size", "y")]
    y = run(nodes, X, {"shape": np.array([4, 8]), "size": np.array([4, 6])})
    np.testing.assert_array_equal(y, X.reshape(4, 8)[:, 1:7])


def test_an_output_that_is_a_view() -> None:
    nodes = [cropped("x", "size", "a"), helper.make_node("Flatten", ["a"], ["y"])]
    np.testing.assert_array_equal(run(nodes, X, {"size": np.array([2, 4, 2])}), X[..., 1:3].reshape(2, 8))


@pytest.mark.parametrize("axis", [0, 1])
def test_pieces_of_an_output(axis: int) -> None:
    nodes = [
        cropped("x", "size", "a"),
        cropped("x", "all", "b"),
        helper.make_node("Slice", ["b", "begin", "end", "last"], ["c"]),
        cropped("c", "size", "d"),
        helper.make_node("Concat", ["a", "d"], ["y"], axis=axis),
    ]
    numbers = {"size": [2, 4, 2], "all": [2, 4, 4], "begin": [0], "end": [2], "last": [2]}
    y = run(nodes, X, {name: np.array(value) for name, value in numbers.items()})
    np.testing.assert_array_equal(y, np.concatenate([X[..., 1:3], X[..., :2]], axis))


def test_a_view_that_cannot_share_memory_is_no_host_step() -> None:
    """An input that is handed on, under its own shape or another: a kernel copies it."""
    for dtype in (TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT16):
        nodes = [
            helper.make_node("Identity", ["x"], ["y"]),
            helper.make_node("Reshape", ["x", "shape"], ["z"]),
        ]
        graph = helper.make_graph(
            nodes,
            "handed_on",
            [helper.make_tensor_value_info("x", dtype, [2, 4, 4])],
            [helper.make_tensor_value_info(name, dtype, None) for name in "yz"],
            [numpy_helper.from_array(np.array([8, 4]), "shape")],
        )
        loaded = cenote.load(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        )
        assert "0 on the host" in str(loaded.plan)
        x = X.astype(helper.tensor_dtype_to_np_dtype(dtype))
        y, z = loaded(x)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(z, x.reshape(8, 4))
        assert not np.shares_memory(x, y)
        assert not np.shares_memory(y, z)
