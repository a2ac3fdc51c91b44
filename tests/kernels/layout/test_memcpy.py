"""Copies of values whose memory has many gaps."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote


@pytest.mark.parametrize("shape", [(0,) * 16, (2, 0, 3, 0, 2, 0, 3, 1, 2, 0), (1, 2) * 6])
def test_shapes_with_many_empty_axes(shape: tuple[int, ...]) -> None:
    """The copy into an output has three loops; axes of an empty value do not join into three."""
    graph = helper.make_graph(
        [helper.make_node("ConstantOfShape", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [len(shape)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    y = cenote.load(model.SerializeToString())(np.array(shape))
    assert y.shape == shape
    assert not y.any()
