"""Choosing algorithms: nodes that are alike share what there is to choose from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import jit
from cenote.compiler.schedule import schedule
from cenote.core.types import TensorType
from cenote.frontends.formats import import_model
from cenote.ops.base import Lowering
from cenote.ops.pool.window import MaxPool
from cenote.passes.specialize import specialize


def chain_of_pools(count: int) -> onnx.ModelProto:
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("MaxPool", [a], [b], **window) for a, b in itertools.pairwise(names)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 9)) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_nodes_alike_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    original = MaxPool.lowerings

    def counted(self: MaxPool, *arguments: Any) -> Iterator[Lowering]:
        asked.append(self)
        return original(self, *arguments)

    monkeypatch.setattr(MaxPool, "lowerings", counted)
    found = []
    for count in (2, 7):
        asked.clear()
        cenote.load(chain_of_pools(count), tune="off")
        found.append(len(asked))
    assert found[0] == found[1] > 0


@pytest.mark.parametrize(("other", "shared"), [(0.0, True), (-0.0, False), (0.5, False)])
def test_operators_must_print_alike_too(other: float, shared: bool) -> None:
    """0.0 and -0.0 are equal, and what they make of negative numbers is not."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (3,)) for name in ("x", "a", "b")]
    nodes = [
        helper.make_node("LeakyRelu", ["x"], [name], alpha=alpha)
        for name, alpha in (("a", 0.0), ("b", other))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    imported = import_model(model.SerializeToString()).graph
    typed = specialize(imported, {"x": TensorType(np.dtype(np.float32), (3,))}).graph
    first, second = schedule(typed, jit.host_target()).lowerings
    assert first is not None
    assert second is not None
    assert (first.bind is second.bind) == shared
