"""Parts of ONNX models, `inputs=` and `outputs=`: what lies outside of them need not be supported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.core.errors import UnsupportedError

X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


def _model(declare: bool = True) -> bytes:
    """decode (of a domain that nobody has) -> relu -> neg -> encode (as decode), and a decode as a function's body."""
    nodes = [
        helper.make_node("Decode", ["text"], ["picture"], name="decode", domain="elsewhere"),
        helper.make_node("Relu", ["picture"], ["positive"], name="relu"),
        helper.make_node("Neg", ["positive"], ["negative"], name="neg"),
        helper.make_node("Encode", ["negative"], ["coded"], name="encode", domain="elsewhere"),
        helper.make_node("Both", ["negative"], ["half", "other"], name="both", domain="own"),
    ]
    body = [
        helper.make_node("Exp", ["v"], ["half"]),
        helper.make_node("Encode", ["half"], ["other"], domain="elsewhere"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("elsewhere", 1), helper.make_opsetid("own", 1)]
    both = helper.make_function("own", "Both", ["v"], ["half", "other"], body, opsets)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("text", TensorProto.UINT8, ["n"])],
        [value("coded", TensorProto.FLOAT, None), value("other", TensorProto.FLOAT, None)],
        value_info=[value("picture", TensorProto.FLOAT, ["a", 3])] if declare else [],
    )
    model: bytes = helper.make_model(graph, opset_imports=opsets, functions=[both]).SerializeToString()
    return model


def test_what_is_not_supported_lies_outside() -> None:
    model = cenote.load(_model(), inputs=["picture"], outputs=["negative"])
    assert [str(each.shape) for each in model.inputs] == ["('a', 3)"]
    np.testing.assert_array_equal(model(X), -np.maximum(X, 0))


def test_what_is_not_supported_lies_inside(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_model())
    for ends, name in (
        ({"outputs": ["negative"]}, "decode"),
        ({"inputs": ["picture"]}, "encode"),
        # Its function is one node to those who name values.
        (
            {"inputs": ["picture"], "outputs": ["half"]},
            "both",
        ),
    ):
        with pytest.raises(UnsupportedError, match=f"m.onnx.*'{name}'.*not supported"):
            cenote.load(path, **ends)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError):
        cenote.load(path)


def test_types_that_nobody_tells() -> None:
    with pytest.raises(UnsupportedError, match="type of picture cannot be told"):
        cenote.load(_model(declare=False), inputs=["picture"], outputs=["negative"])


def test_types_follow_past_what_is_not_supported() -> None:
    """An output of the file that cannot be computed does not keep the type of another value from being told."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Encode", ["b"], ["y"], domain="elsewhere"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, None)]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("elsewhere", 1)]
    proto: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets)
    model = cenote.load(proto, inputs=["a"], outputs=["b"])
    assert model.inputs[0].shape == (2, 3)
    np.testing.assert_array_equal(model(X), -X)
