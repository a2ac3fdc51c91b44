"""Scopes of names in an ONNX file, and the interface that nodes are added to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.core.types import Array
from cenote.frontends.onnx_tensors import Tensors
from cenote.graph.graph import Node


@dataclass
class OnnxScope:
    """The meaning of names in one graph, function body or branch.

    `names` maps a name of the file to a value of the graph; `wanted` gives names of outputs that the caller
    chose; `attributes` are the AttributeProtos that a function's `ref_attr_name` stand for, None outside of functions.
    """

    opsets: Mapping[str, int]
    prefix: str = ""
    names: dict[str, str] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] | None = None
    parent: OnnxScope | None = None
    depth: int = 0

    def find(self, name: str) -> str | None:
        """Return the value that a name stands for; None when there is none."""
        scope: OnnxScope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def inside(self, prefix: str, wanted: Mapping[str, str] | None = None) -> OnnxScope:
        """Return the scope of a graph inside of this one."""
        return OnnxScope(
            self.opsets,
            prefix,
            wanted=wanted or {},
            attributes=self.attributes,
            parent=self,
            depth=self.depth,
        )

    def resolve(self, name: str) -> str:
        """Return the value that a name stands for; "" stays "" (absent)."""
        value = self.find(name) if name else ""
        if value is None:
            raise ModelError(f"reads '{name}', which nothing makes")
        return value


class Adder(Protocol):
    """Collector of the nodes and constants of one model; `onnx_nodes.Importer` implements it."""

    nodes: list[Node]
    constants: dict[str, Array]
    tensors: Tensors

    def add_nodes(self, nodes: Sequence[Any], scope: OnnxScope) -> None: ...

    def add_initializers(self, graph: Any, scope: OnnxScope) -> None: ...

    def define(self, name: str, scope: OnnxScope) -> str: ...

    def unused(self, name: str) -> str: ...

    def connect(self, made: Sequence[tuple[str, str]], body: OnnxScope) -> None: ...
