"""Small ONNX models for tests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT


def value(
    name: str, shape: Sequence[int | str | None] | None = (2, 3), kind: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any] = ("x",),
    outputs: Sequence[Any] = ("y",),
    weights: dict[str, Any] | None = None,
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    """A model; inputs and outputs are names (float32 [2, 3]) or ValueInfoProtos."""
    graph = helper.make_graph(
        nodes,
        "test",
        [value(item) if isinstance(item, str) else item for item in inputs],
        [value(item, None) if isinstance(item, str) else item for item in outputs],
        [tensor(name, array) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def relu_chain(length: int = 2) -> onnx.ModelProto:
    """x -> Relu -> ... -> y."""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    return model([helper.make_node("Relu", [a], [b], name=f"relu_{b}") for a, b in itertools.pairwise(names)])


def branches(outer: str = "x") -> tuple[onnx.GraphProto, onnx.GraphProto]:
    """Then: relu of an outer value plus a weight of its own; else: minus it. Inner names are the same in both."""
    then = helper.make_graph(
        [helper.make_node("Relu", [outer], ["t"], name="inner"), helper.make_node("Add", ["t", "w"], ["r"])],
        "then", [], [value("r", None)], [tensor("w", np.float32(10))],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Neg", [outer], ["r"], name="inner")], "else", [], [value("r", None)]
    )
    return then, other
