"""Chains of elementwise operators become one: their results between never go through memory.

    %a = mul %x, %scale
    %b = add %a, %y               ->    %c = chain(mul, add, relu) %x, %scale, %y
    %c = relu %b

A value joins its reader's chain where nobody else reads it and it has the shape of the chain's result, so nothing is
computed more often than before. The bits of the results stay the same.
"""

from __future__ import annotations

from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.chain import Chain, joined
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.passes.fuse import Rewriter


def fuse_chains(graph: Graph) -> Graph:
    """Join every elementwise operator with those that make its operands, in the order of the graph."""
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        while _join_one(rewriter, rewriter.nodes[index]):
            pass
    return rewriter.result()


def _join_one(rewriter: Rewriter, node: Node | None) -> bool:
    """Take the maker of one operand into the node, if there is one that may be taken."""
    if node is None or not isinstance(node.op, Pointwise):
        return False
    shape = rewriter.type(node.outputs[0]).shape
    for value in dict.fromkeys(node.inputs):
        producer = _maker(rewriter, value, node)
        if producer is None or rewriter.type(value).shape != shape:
            continue
        if not (_is_native(rewriter, node) and _is_native(rewriter, producer)):
            continue
        chain, inputs = joined(producer.op, producer.inputs, node.op, node.inputs, value)
        if _has_kernel(rewriter, chain, inputs):
            rewriter.merge(producer, node, chain, inputs, node.label)
            return True
    return False


def _maker(rewriter: Rewriter, value: str, reader: Node) -> Node | None:
    """The elementwise operator that makes a value which nobody else reads."""
    place = rewriter.position.get(value)
    producer = None if place is None else rewriter.nodes[place]
    if producer is None or rewriter.uses[value] != reader.inputs.count(value):
        return None
    return producer if isinstance(producer.op, Pointwise) else None


def _is_native(rewriter: Rewriter, node: Node) -> bool:
    """Whether a kernel computes an elementwise operator: of a chain, that was asked before it was put there."""
    return isinstance(node.op, Chain) or _has_kernel(rewriter, node.op, node.inputs)


def _has_kernel(rewriter: Rewriter, op: Op, inputs: tuple[str, ...]) -> bool:
    types = [rewriter.type(name) if name else None for name in inputs]
    function = op.function(types) if isinstance(op, Pointwise) else None
    # A chain asks its links, which know what its scalars are.
    return function is not None and (isinstance(op, Chain) or function.allowed(types))
