"""Sums over a stack, the form in which exporters write branches that are added (ESNet, SKNet), turned into additions.

    %u = unsqueeze %a, [1]                  ->    %y = add %a, %b
    %v = unsqueeze %b, [1]
    %s = concat(axis=1) %u, %v
    %y = reduce_sum(axes=(1), keepdims=False) %s

A convolution can absorb an addition. The stack has an axis more, which the blocked layout would treat as channels.
"""

from __future__ import annotations

from cenote.graph.graph import Graph, Node
from cenote.ops.elementwise.binary import Add
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.reshape import Reshape, Unsqueeze
from cenote.ops.reduction.reduce import ReduceSum
from cenote.passes.cleanup import fresh


def add_stacks(graph: Graph) -> Graph:
    """Return the graph with additions in place of such sums."""
    producers = graph.producers()
    nodes: list[Node] = []
    types = dict(graph.types)
    taken = set(graph.values())
    for node in graph.nodes:
        parts = _stacked(graph, producers, node)
        if not parts:
            nodes.append(node)
            continue
        total = parts[0]
        for count, part in enumerate(parts[1:], 2):
            result = node.outputs[0] if count == len(parts) else fresh(node.outputs[0], taken)
            types[result] = types[node.outputs[0]]
            nodes.append(Node(Add(), (total, part), (result,), node.label))
            total = result
    if all(a is b for a, b in zip(nodes, graph.nodes, strict=False)):
        return graph
    return graph.replace(nodes=tuple(nodes), types=types)


def _stacked(graph: Graph, producers: dict[str, Node], node: Node) -> list[str]:
    """Return the values whose stack the node sums; none where it does not."""
    if not isinstance(node.op, ReduceSum) or len(node.inputs) != 1 or node.op.keepdims:
        return []
    stack = producers.get(node.inputs[0])
    kind, wanted = graph.types.get(node.inputs[0]), graph.types.get(node.outputs[0])
    if stack is None or not isinstance(stack.op, Concat) or kind is None or wanted is None:
        return []
    axis = stack.op.axis % kind.rank
    if [each % kind.rank for each in node.op.axes or ()] != [axis] or len(stack.inputs) < 2:
        return []
    values = []
    for name in stack.inputs:
        maker = producers.get(name)
        if maker is None or not isinstance(maker.op, Unsqueeze | Reshape):
            return []
        if graph.types.get(maker.inputs[0]) != wanted:
            return []
        values.append(maker.inputs[0])
    return values
