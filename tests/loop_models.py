"""Models with loops, and their answers beside those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Array

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, tensor = helper.make_node, helper.make_tensor_value_info


def model(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], opset: int = 17, **weights: Any
) -> onnx.ModelProto:
    constants = [numpy_helper.from_array(np.asarray(x), name) for name, x in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **weights: Any) -> Any:
    constants = [numpy_helper.from_array(np.asarray(x), name) for name, x in weights.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, constants)


def both(proto: onnx.ModelProto, feed: dict[str, Array]) -> dict[str, Array]:
    """Cenote's answer, after a comparison with ONNX Runtime's."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = cenote.load(proto, threads=1).run(feed)
    for y, expected in zip(ours.values(), session.run(None, feed), strict=True):
        assert y.dtype == expected.dtype
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    return ours


ITER, GOES, GOING = tensor("i", INT64, []), tensor("go", BOOL, []), tensor("going", BOOL, [])
