"""Nodes of standard operators that stand for one of ONNX Runtime's own, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from cenote.core.errors import UnsupportedError
from cenote.frontends.builder import trimmed

Write = Callable[["Writer"], Sequence[str]]
WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


class Writer:
    """Collector of the nodes that replace one node. Values are names; "" is an absent one."""

    def __init__(self, node: Any, attributes: Mapping[str, Any]) -> None:
        self.kind, self.attributes = node.op_type, attributes
        self.inputs = [f"in{i}" if name else "" for i, name in enumerate(node.input)]
        self.wanted = [bool(name) for name in node.output]
        self.nodes: list[Any] = []
        self.used: set[str] = set()

    def input(self, index: int) -> str:
        """Return an input; "" where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        self.used.add(name)
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.kind}: {what} is not supported")

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; return its output's name. Absent inputs at the end are left out."""
        return self.several(kind, 1, *inputs, domain=domain, **attributes)[0]

    def several(
        self, kind: str, outputs: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs; return their names."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        present = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, trimmed(inputs), names, domain=domain, **present))
        return names

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def passed(self, *names: str) -> dict[str, Any]:
        """Return attributes that are passed on unchanged, where they are present."""
        return {name: self.get(name) for name in names if self.get(name) is not None}

    def plus(self, *values: str) -> str:
        """Return the sum of the values that are present."""
        present = [value for value in values if value]
        total = present[0]
        for value in present[1:]:
            total = self.op("Add", total, value)
        return total

    def dequantized(self, index: int, **attributes: Any) -> str:
        """Return input `index` with the scale and zero point behind it, as floats."""
        return self.op("DequantizeLinear", *(self.input(index + i) for i in range(3)), **attributes)

    def quantized(self, x: str, index: int, like: str) -> str:
        """Return x quantised by the scale at `index` and the zero point behind it; without one 0, in the type of
        `like`."""
        zero = self.input(index + 1) or self.op("CastLike", self.constant(0, np.int32), like)
        return self.op("QuantizeLinear", x, self.input(index), zero)

    def channels_first(self, x: str, rank: int) -> str:
        return self.op("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])

    def channels_last(self, x: str, rank: int) -> str:
        return self.op("Transpose", x, perm=[0, *range(2, rank), 1])
