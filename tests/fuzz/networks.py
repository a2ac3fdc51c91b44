"""Models whose plans and caches are damaged, killed, forked: few kernels, so that compiling them takes little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def network(batch: int | str = 2, width: int = 8, linear: int = 0, seed: int = 0) -> onnx.ModelProto:
    """Convolution, relu, pool, and a NumPy step; with `linear`, a product with a matrix of that many MB."""
    source = np.random.default_rng(seed)
    weights = {"w": source.standard_normal((width, 3, 3, 3)).astype(np.float32) / 5}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Mod", ["p", "m"], ["q"], fmod=1),
        helper.make_node("Flatten", ["q"], ["f"]),
    ]
    weights["m"] = np.full(1, 2, np.float32)
    if linear:
        rows = width * 16
        weights["l"] = source.standard_normal((rows, linear * 250_000 // rows)).astype(np.float32) / rows
        nodes.append(helper.make_node("MatMul", ["f", "l"], ["y"]))
    else:
        nodes.append(helper.make_node("Neg", ["f"], ["y"]))
    graph = helper.make_graph(
        nodes, "fuzzed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def picture(batch: int = 2) -> Array:
    return np.random.default_rng(7).standard_normal((batch, 3, 8, 8)).astype(np.float32)


def saved(path: Path, **more: Any) -> Path:
    path.write_bytes(network(**more).SerializeToString())
    return path
