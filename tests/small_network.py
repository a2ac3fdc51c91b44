"""Convolution, ReLU and pool as a file, and their input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

X = np.random.default_rng(0).standard_normal((1, 8, 9, 9)).astype(np.float32)


def small(path: Path, batch: Any = 1) -> Path:
    generator = np.random.default_rng(1)
    weights = {
        "w": generator.standard_normal((16, 8, 3, 3)).astype(np.float32),
        "b": generator.standard_normal(16).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["convolved"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["convolved"], ["rectified"], "second"),
        helper.make_node("MaxPool", ["rectified"], ["y"], "third", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
