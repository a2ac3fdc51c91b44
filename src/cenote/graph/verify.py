"""Verifier of graphs: checks that a graph is well formed. Runs after every pass."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from cenote.core.errors import ModelError
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import Inference
from cenote.ops.base import ShapeFromData, ValueNeeded


def verify(graph: Graph, types: bool = True, since: Graph | None = None) -> Graph:
    """Return the graph, or raise ModelError naming the node that is wrong.

    Checks: every value is made once (SSA) and before it is used; outputs exist and are listed once; every
    node has an output; types and layouts belong to values. In a specialised graph (one that has types) every
    value has a type, it agrees with the constant or input it belongs to and, unless `types` is False, with
    `op.infer`; nodes that are the same objects between the same types and constants in `since`, a graph verified
    before, are not inferred again, and a graph of the same objects as `since` is `since`.
    """
    if since is not None and _is_same(graph, since):
        return since
    defined: set[str] = set()
    for name in (*(declared.name for declared in graph.inputs), *graph.constants):
        if not name:
            raise ModelError("an input or constant has no name")
        if name in defined:
            raise ModelError(f"value '{name}' is defined twice, as input or constant")
        defined.add(name)
    for node in graph.nodes:
        _verify_names(node, defined)
    for name in graph.outputs:
        if name not in defined:
            raise ModelError(f"output '{name}' of the graph is made by no node")
    if len(set(graph.outputs)) != len(graph.outputs):
        raise ModelError(f"an output of the graph is listed twice: {', '.join(graph.outputs)}")
    for name in (*graph.types, *graph.layouts):
        if name not in defined:
            raise ModelError(f"there is a type or layout for '{name}', which is no value of the graph")
    _verify_constants(graph)
    if is_specialized(graph):
        _verify_types(graph, types, since or Graph((), (), ()))
    return graph


def _is_same(graph: Graph, since: Graph) -> bool:
    """Whether both are made of the same objects. Most passes find nothing to do in most graphs."""
    return (
        (graph.inputs, graph.outputs) == (since.inputs, since.outputs)
        and len(graph.nodes) == len(since.nodes)
        and all(map(is_, graph.nodes, since.nodes))
        and _same_values(graph.constants, since.constants)
        and _same_values(graph.types, since.types)
        and _same_values(graph.layouts, since.layouts)
        and graph.reasons == since.reasons
    )


def _same_values(some: Mapping[str, object], others: Mapping[str, object]) -> bool:
    return some is others or (
        some.keys() == others.keys() and all(map(is_, some.values(), map(others.get, some)))
    )


def is_specialized(graph: Graph) -> bool:
    """Whether inputs and nodes' outputs have concrete types."""
    return any(name not in graph.constants for name in graph.types) or not (graph.inputs or graph.nodes)


def _verify_names(node: Node, made: set[str]) -> None:
    for name in node.inputs:
        if name and name not in made:
            raise ModelError(f"{node.where}: reads '{name}' before it is made, or nothing makes it")
    if not any(node.outputs):
        raise ModelError(f"node {node.op.name}: has no output")
    for name in node.outputs:
        if name and name in made:
            raise ModelError(f"{node.where}: makes '{name}', which is made already")
        made.add(name) if name else None


def _verify_constants(graph: Graph) -> None:
    for name, value in graph.constants.items():
        kind = graph.types.get(name)
        if kind is not None and kind != TensorType.known(value):
            raise ModelError(f"constant '{name}' is {TensorType.known(value)}, but its type says {kind}")


def _verify_types(graph: Graph, infer: bool, since: Graph) -> None:
    for declared in graph.inputs:
        kind = graph.types.get(declared.name)
        if kind is None:
            raise ModelError(f"input '{declared.name}' has no type in a specialised graph")
        if kind.dtype != declared.dtype:
            raise ModelError(f"input '{declared.name}' is {kind}, but is declared as {declared}")
    before, inference = {id(node) for node in since.nodes}, Inference()
    for node in graph.nodes:
        for name in node.outputs:
            if name and name not in graph.types:
                raise ModelError(f"{node.where}: output '{name}' has no type in a specialised graph")
        if infer and not (id(node) in before and _same_types(graph, since, node)):
            _verify_inferred(graph, node, inference)


def _same_types(graph: Graph, since: Graph, node: Node) -> bool:
    """Whether a node reads and makes the same types and constants in both graphs."""
    now, before = graph.constants, since.constants
    for name in (*node.inputs, *node.outputs):
        content = now.get(name)
        if content is not before.get(name):
            return False
        if content is None and graph.types.get(name) is not since.types.get(name):
            return False
    return True


def _verify_inferred(graph: Graph, node: Node, inference: Inference) -> None:
    try:
        inferred = inference.of(node, graph.input_types(node))
    except (ValueNeeded, ShapeFromData) as error:
        raise ModelError(
            f"{node.where}: is in a specialised graph, but its type is not known ({error})"
        ) from error
    for name, kind in zip(node.outputs, inferred, strict=False):
        if name and graph.types[name] != kind:
            raise ModelError(f"{node.where}: '{name}' is {kind}, but its type says {graph.types[name]}")
