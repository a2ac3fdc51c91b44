"""A small model as a file, its input, and the same model with other weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cenote.plans.format import StoredModel
from cenote.plans.reader import PlanFile


def small_model(path: Path, batch: int | str = 1, height: int | str = 8) -> Path:
    """Conv, MaxPool, a host step (Einsum along a diagonal), Flatten, Gemm. Of open heights, which may be 7 and 8, even
    and odd ones are two classes of sizes."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((12, 3, 3, 3)).astype(np.float32),
        "ones": np.ones((12, 12), np.float32),
        "v": rng.standard_normal((12 * 4 * 4, 5)).astype(np.float32),
        "b": rng.standard_normal(5).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Einsum", ["p", "ones"], ["c"], equation="nchw,cc->nchw"),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, height, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def stored_at(path: Path) -> StoredModel:
    """The content of a plan file."""
    file = PlanFile.at(path)
    assert file is not None
    with file:
        return file.model(threads=1)


def picture(batch: int = 1, height: int = 8) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((batch, 3, height, 8)).astype(np.float32)


def changed(path: Path, factor: float) -> None:
    """Other weights in a model of the same size."""
    model = onnx.load(path)
    weights = numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights * np.float32(factor), "w"))
    onnx.save(model, path)
