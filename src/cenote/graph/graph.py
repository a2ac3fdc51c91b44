"""Graph: named values, and nodes that hold an operator. Immutable; a pass returns a new one.

A graph prints with one line per node, the same for equal graphs, so that tests can compare them:

    graph net(%x: f32[N,3,8,8]) {
      %w: f32[4,3,3,3] = constant
      %s: i64[2] = constant [1, -1]
      %y = conv(pads=(1,1)) %x, %w, _ : f32[1,4,8,8] c8  # stem
      return %y
    }

`_` is an absent input or output; the type follows the colon when the graph is specialised, the layout follows the type
when it is not plain, the node's label in its file comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.types import Array, Declared, Layout, TensorType, short_name
from cenote.ops.base import Op

SHOWN = 8  # most elements of a constant that prints with its content


@dataclass(frozen=True)
class Node:
    """One application of an operator. An absent optional input is ""; `label` is the node's name in its file."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str = ""

    @property
    def title(self) -> str:
        """Name of the node in plans: its name in the file, else its first output."""
        return self.label or self.outputs[0]

    @property
    def where(self) -> str:
        """Name of the node in errors."""
        return (
            f"node '{self.label}' ({self.op.name})"
            if self.label
            else f"node {self.op.name} -> {self.outputs[0]}"
        )


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which every value is made before it is used.

    `types` holds the concrete type of every value once the graph is specialised to its inputs' shapes (before that,
    only of the constants); `layouts` how each lies in memory once layouts are chosen (absent: plain).
    `reasons`: by a node's first output, why passes did not give it the narrower numbers that were asked for.
    `rewritten`: rewrites of users that changed it, with where they come from, and at how many places.
    """

    inputs: tuple[Declared, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    types: Mapping[str, TensorType] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    name: str = "graph"
    reasons: Mapping[str, str] = field(default_factory=dict)
    rewritten: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for attribute in ("constants", "types", "layouts", "reasons"):
            object.__setattr__(self, attribute, MappingProxyType(dict(getattr(self, attribute))))

    def __str__(self) -> str:
        return print_graph(self)

    def replace(self, **changes: Any) -> Graph:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def type_of(self, name: str) -> TensorType | None:
        """Return the type of a value; None for "" (an absent input). Constants carry their content."""
        if not name:
            return None
        content, type = self.constants.get(name), self.types.get(name)
        if content is None:
            return self.types[name]
        return type if type is not None and type.value is content else TensorType.known(content)

    def input_types(self, node: Node) -> tuple[TensorType | None, ...]:
        return tuple([self.type_of(name) for name in node.inputs])

    def producers(self) -> dict[str, Node]:
        """Return the node that makes each value."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def users(self) -> dict[str, list[Node]]:
        """Return the nodes that read each value, once per node, in order."""
        users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    users.setdefault(name, []).append(node)
        return users

    def values(self) -> Iterator[str]:
        """Yield every value: inputs, constants, node outputs."""
        yield from (declared.name for declared in self.inputs)
        yield from self.constants
        for node in self.nodes:
            yield from (name for name in node.outputs if name)


class OwnedGraph:
    """Handover of a graph, after which the giver keeps no reference to it.

    A caller's arguments live until the call returns; through a handover, weights die as soon as they are repacked, and
    loading a model never holds them twice.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph | None = graph

    def take(self) -> Graph:
        """Return the graph, once."""
        graph, self._graph = self._graph, None
        assert graph is not None, "the graph was already taken"
        return graph


def print_graph(graph: Graph, labels: bool = False) -> str:
    """Return the graph as text; with `labels`, each node's name in its file as a comment."""
    inputs = ", ".join(_declared(graph, declared) for declared in graph.inputs)
    lines = [f"graph {graph.name}({inputs}) {{"]
    lines += [f"  {_constant(name, value)}" for name, value in graph.constants.items()]
    lines += [f"  {_node(graph, node, labels)}" for node in graph.nodes]
    lines += [f"  return {_values(graph.outputs)}", "}"]
    return "\n".join(lines)


def _values(names: tuple[str, ...]) -> str:
    return ", ".join(f"%{name}" if name else "_" for name in names)


def _declared(graph: Graph, declared: Declared) -> str:
    """Return the text of an input: its concrete type when known, else the declaration of the model."""
    if declared.name in graph.types:
        return f"%{declared.name}: {_typed(graph, declared.name)}"
    if declared.shape is None:
        return f"%{declared.name}: {short_name(declared.dtype)}[...]"
    shape = ",".join("?" if extent is None else str(extent) for extent in declared.shape)
    return f"%{declared.name}: {short_name(declared.dtype)}[{shape}]"


def _typed(graph: Graph, name: str) -> str:
    layout = graph.layouts.get(name)
    suffix = f" {layout}" if layout is not None and layout.is_blocked else ""
    return f"{graph.types[name]}{suffix}"


def _constant(name: str, value: Array) -> str:
    kind = TensorType(value.dtype, value.shape)
    content = f" {value.tolist()}" if 0 < value.size <= SHOWN else ""
    return f"%{name}: {kind} = constant{content}"


def _node(graph: Graph, node: Node, labels: bool) -> str:
    inputs = f" {_values(node.inputs)}" if node.inputs else ""
    types = ", ".join(_types_of(graph, node))
    kind = f" : {types}" if types else ""
    label = f"  # {node.label}" if labels and node.label else ""
    return f"{_values(node.outputs)} = {node.op}{inputs}{kind}{label}"


def _types_of(graph: Graph, node: Node) -> Iterator[str]:
    """Yield the types of the outputs; nothing unless all are known."""
    if all(not name or name in graph.types for name in node.outputs):
        yield from (_typed(graph, name) if name else "_" for name in node.outputs)
