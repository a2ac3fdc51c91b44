"""Models of open sizes as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)
WEIGHTS = (RNG.standard_normal((16, 3, 3, 3)) / 5).astype(np.float32)


def saved(
    path: Path, nodes: Sequence[onnx.NodeProto], shape: Sequence[Any] = ("n", 3, "h", "w"), **constants: Any
) -> Path:
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def skipped(path: Path) -> Path:
    """A U-Net's depth of one: halved, doubled, and added to what it was, so that sides are even."""
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["c"], "third", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["half"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["half", "", "scales"], ["whole"], "double", mode="nearest"),
        helper.make_node("Add", ["c", "whole"], ["y"], "skip"),
    ]
    return saved(path, nodes, weights=WEIGHTS, scales=np.array([1, 1, 2, 2], np.float32))
