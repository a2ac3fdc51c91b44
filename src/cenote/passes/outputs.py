"""Passes for outputs: the program owns the memory of its outputs, pools without a reader of their indices make none,
and nodes with a kernel have memory for all of their outputs."""

from __future__ import annotations

from dataclasses import replace

from cenote.core.errors import errors_at
from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import Inference
from cenote.ops.base import ShapeFromData, ValueNeeded
from cenote.ops.movement.reshape import Identity
from cenote.ops.pool.window import MaxPool
from cenote.ops.reorder import Reorder
from cenote.passes.cleanup import fresh


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
    taken = set(graph.values())
    for position, name in enumerate(graph.outputs):
        if name in fixed:
            type = graph.type_of(name)
            assert type is not None
            outputs[position] = fresh(f"{name}.result", taken)
            op = Identity() if type.dtype.kind in "OSU" else Reorder()  # kernels move numbers only
            nodes.append(Node(op, (name,), (outputs[position],)))
            types[outputs[position]] = type
    return graph.replace(nodes=tuple(nodes), types=types, outputs=tuple(outputs))


def forget_indices(graph: Graph) -> Graph:
    """Replace pools whose indices are never read by pools without indices.

    %y, _ = max_pool[indices] %x         ->    %y = max_pool %x
    """
    nodes = tuple(
        replace(node, op=replace(node.op, return_indices=False))
        if isinstance(node.op, MaxPool) and node.op.return_indices and len(node.outputs) == 1
        else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def complete_outputs(graph: Graph, target: Target) -> Graph:
    """Name the outputs that a kernel writes and nobody reads, so that they have memory.

        _, %i = max_pool[indices] %x         ->    %i.unread0, %i = max_pool[indices] %x

    Split needs none of it: its parts lie in its input. Operators that run as NumPy drop what is absent.
    """
    nodes, types, taken = list(graph.nodes), dict(graph.types), set(graph.values())
    inference = Inference()
    for position, node in enumerate(nodes):
        op, read = node.op, [*node.outputs]
        inputs = [graph.type_of(name) if name else None for name in node.inputs]
        with errors_at(node.where):
            try:
                output_types = inference.of(node, inputs)
            except (ShapeFromData, ValueNeeded):  # only a reference computes it
                continue
            read += [""] * (len(output_types) - len(read))  # trailing absent outputs are left out
            if "" not in read or next(iter(op.lowerings(inputs, target)), None) is None:
                continue
        stem = next(name for name in read if name)
        for index, (name, type) in enumerate(zip(read, output_types, strict=False)):
            if not name:
                read[index] = fresh(f"{stem}.unread{index}", taken)
                types[read[index]] = type
        nodes[position] = replace(node, outputs=tuple(read))
    return graph.replace(nodes=tuple(nodes), types=types)
