"""Models of one node with constants, for what operators do at their edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

import cenote
from cenote.core.types import Array


def s(*values: float) -> Array:
    """A scale, or one per channel."""
    return np.array(values if len(values) > 1 else values[0], np.float32)


def z(dtype: Any, *values: int) -> Array:
    return np.array(values if len(values) > 1 else values[0], dtype)


@dataclass(frozen=True)
class Case:
    """A node called "edge" whose first input is given at run time; None: an absent input."""

    kind: str
    inputs: tuple[Array | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()  # outputs behind the first
    domain: str = ""

    def run(self, opset: int = 21) -> Array:
        names = ["x", *(f"c{i}" if x is not None else "" for i, x in enumerate(self.inputs[1:]))]
        outputs = ["y", *self.more]
        node = helper.make_node(self.kind, names, outputs, "edge", domain=self.domain, **self.attributes)
        constants = [
            numpy_helper.from_array(x, name)
            for x, name in zip(self.inputs[1:], names[1:], strict=True)
            if x is not None
        ]
        x = self.inputs[0]
        assert x is not None
        given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        graph = helper.make_graph([node], "g", [given], [helper.make_empty_tensor_value_info("y")], constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return np.asarray(cenote.load(proto, threads=1).run({"x": x})["y"])
