"""Graphs as text: one line per node, the same for equal graphs, so that tests can compare them.

    graph net(%x: f32[N,3,8,8]) {
      %w: f32[4,3,3,3] = constant
      %s: i64[2] = constant [1, -1]
      %y = conv(pads=(1,1)) %x, %w, _ : f32[1,4,8,8] c8  # stem
      return %y
    }

`_` is an absent input or output; the type follows the colon when the graph is specialised, the layout follows
the type when it is not plain, the node's label in its file comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cenote.core.types import Array, TensorType, short_name

if TYPE_CHECKING:
    from cenote.graph.graph import Declared, Graph, Node

SHOWN = 8  # elements: larger constants print without their content


def print_graph(graph: Graph, labels: bool = False) -> str:
    """The graph as text; with `labels`, each node's name in its file as a comment."""
    inputs = ", ".join(_declared(graph, declared) for declared in graph.inputs)
    lines = [f"graph {graph.name}({inputs}) {{"]
    lines += [f"  {_constant(name, value)}" for name, value in graph.constants.items()]
    lines += [f"  {_node(graph, node, labels)}" for node in graph.nodes]
    lines += [f"  return {_values(graph.outputs)}", "}"]
    return "\n".join(lines)


def _values(names: tuple[str, ...]) -> str:
    return ", ".join(f"%{name}" if name else "_" for name in names)


def _declared(graph: Graph, declared: Declared) -> str:
    """An input: its concrete type when known, else what the model declares."""
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
    """Types of the outputs; nothing unless all are known."""
    if all(not name or name in graph.types for name in node.outputs):
        yield from (_typed(graph, name) if name else "_" for name in node.outputs)
