"""Gives the program outputs that it makes itself."""

from __future__ import annotations

from cenote.graph.graph import Graph, Node
from cenote.ops.reorder import Reorder
from cenote.ops.reshape import Identity


def own_outputs(graph: Graph) -> Graph:
    """Copy what is an output of the graph and also an input or a constant: the caller's memory is not ours to return.

        input %x                          input %x
        return %x                   ->    %x.result = reorder %x
                                          return %x.result

    Such outputs come from models that hand an input on, and from stages that follow a data-dependent node.
    """
    fixed = {declared.name for declared in graph.inputs} | set(graph.constants)
    if fixed.isdisjoint(graph.outputs):
        return graph
    nodes, types, outputs = list(graph.nodes), dict(graph.types), list(graph.outputs)
    for position, name in enumerate(graph.outputs):
        if name in fixed:
            type = graph.type_of(name)
            assert type is not None
            outputs[position] = graph.fresh(f"{name}.result")
            op = Identity() if type.dtype.kind in "OSU" else Reorder()  # kernels move numbers only
            nodes.append(Node(op, (name,), (outputs[position],)))
            types[outputs[position]] = type
    return graph.replace(nodes=tuple(nodes), types=types, outputs=tuple(outputs))
