"""Removes operators that hand on their input as it is."""

from __future__ import annotations

from cenote.graph.graph import Graph, Node
from cenote.passes.rename import rename_values


def remove_identities(graph: Graph) -> Graph:
    """Drop nodes of a specialised graph whose operator says that it forwards its input (`Op.forwards`).

        %a = relu %x                      %a = relu %x
        %b = identity %a            ->    %c = sigmoid %a
        %c = sigmoid %b                   return %c
        return %c

    Identity, inference Dropout, casts to the same type, reshapes to the same shape. A node stays when another
    of its outputs is read, or when it joins an output of the graph to an input, a constant or another output.
    """
    users = graph.users()
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    fixed = {declared.name for declared in graph.inputs} | set(graph.constants)
    outputs = set(graph.outputs)

    def now(name: str) -> str:
        """What a value is called: what it was a copy of, which may have got the name of an output later."""
        name = renamed.get(name, name)
        return renamed.get(name, name)

    for node in graph.nodes:
        extra = [name for name in node.outputs[1:] if name in users or name in outputs]
        if extra or not node.outputs[0] or not _forwards(graph, node):
            kept.append(node)
            continue
        source, result = now(node.inputs[0]), node.outputs[0]
        if result not in outputs:
            renamed[result] = source
        elif source in fixed or source in outputs:
            kept.append(node)
        else:  # the maker of the source makes the output of the graph instead
            renamed[source] = result
    names = {name: now(name) for name in renamed}
    kept = [rename_values(node, names) for node in kept]
    made = fixed | {name for node in kept for name in node.outputs if name}
    return graph.replace(
        nodes=tuple(kept),
        types={name: kind for name, kind in graph.types.items() if name in made},
        layouts={name: layout for name, layout in graph.layouts.items() if name in made},
    )


def _forwards(graph: Graph, node: Node) -> bool:
    if any(name and graph.type_of(name) is None for name in node.inputs):
        return False
    return bool(node.inputs) and bool(node.inputs[0]) and node.op.forwards(graph.input_types(node))
