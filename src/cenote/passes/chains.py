"""Chains of elementwise operators that become one operator: values between them never go through memory.

    %a = mul %x, %scale
    %b = add %a, %y               ->    %c = chain(mul, add, relu) %x, %scale, %y
    %c = relu %b

A value joins its reader's chain where no other node reads it and it has the shape of the chain's result, so nothing
is computed more often than before. What is dequantised joins every reader's: bytes are read in a quarter of the time of
floats, and no floats need be written. The bits of the results stay the same.

A chain under construction keeps its steps and inputs: each link is analysed once, not again at every join.
"""

from __future__ import annotations

from collections import Counter

from cenote.core.deferred import dataclass
from cenote.graph.graph import Graph, Node
from cenote.ops.elementwise.binary import MOST_OPERANDS
from cenote.ops.elementwise.chain import MOST_STEPS, Named, chain_of
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.quantization.quantize import DequantizeLinear
from cenote.passes.fuse import Rewriter


@dataclass(frozen=True)
class _Part:
    """Elementwise operators that a kernel computes, joined so far: their inputs, those of them that the formulas
    read, and the number of their steps."""

    links: tuple[Named, ...]
    inputs: tuple[str, ...]
    read: frozenset[str]
    steps: int
    label: str


def fuse_chains(graph: Graph) -> Graph:
    """Join every elementwise operator with those that make its operands, in the order of the graph."""
    chains = _Chains(graph)
    for node in graph.nodes:
        if isinstance(node.op, Pointwise):
            while chains.join(node):
                pass
    return chains.result()


class _Chains:
    """Chains of a graph under construction, by the node that each ends with."""

    def __init__(self, graph: Graph) -> None:
        self.rewriter = Rewriter(graph)
        self.parts: dict[str, _Part | None] = {}  # by the value that they make; None: no kernel computes it

    def join(self, node: Node) -> bool:
        """Join the producer of one operand to the node's chain, if there is one that may be joined."""
        output = node.outputs[0]
        part = self.parts.get(output)
        inputs = Counter(node.inputs if part is None else part.inputs)
        shape = self.rewriter.type(output).shape
        for value, count in inputs.items():
            maker = self._maker(value, count)
            if maker is None or self.rewriter.type(value).shape != shape:
                continue
            second = self._part(node)
            if second is None:
                return False
            first = self._part(maker)
            joined = None if first is None else _joined(first, second, value)
            if first is not None and joined is not None:
                self._put(maker, first, node, second, joined, stays=self.rewriter.uses[value] > count)
                return True
        return False

    def _maker(self, value: str, count: int) -> Node | None:
        """Return the elementwise operator that makes a value which no other node reads, or that is dequantised."""
        place = self.rewriter.position.get(value)
        producer = None if place is None else self.rewriter.nodes[place]
        if producer is None or not isinstance(producer.op, Pointwise):
            return None
        alone = self.rewriter.uses[value] == count
        return producer if alone or self._is_dequantized(producer) else None

    def _is_dequantized(self, node: Node) -> bool:
        """Whether a node makes floats of bytes."""
        return (
            isinstance(node.op, DequantizeLinear) and self.rewriter.type(node.inputs[0]).dtype.itemsize == 1
        )

    def _part(self, node: Node) -> _Part | None:
        """Return the chain that ends with a node, if a kernel computes it: of one link before anything is joined to
        it."""
        output = node.outputs[0]
        if output not in self.parts:
            self.parts[output] = self._alone(node)
        return self.parts[output]

    def _alone(self, node: Node) -> _Part | None:
        types = [self.rewriter.type(name) if name else None for name in node.inputs]
        assert isinstance(node.op, Pointwise)
        function = node.op.function(types)
        if function is None or not function.allowed(types):
            return None
        steps = function.as_expression(self.rewriter.type(node.outputs[0])).steps
        read = frozenset(node.inputs[index] for index in function.operands)
        return _Part(
            (Named(node.op, node.inputs, node.outputs[0]),), node.inputs, read, len(steps), node.label
        )

    def _put(
        self, maker: Node, first: _Part, node: Node, second: _Part, joined: _Part, *, stays: bool
    ) -> None:
        """Note a joined chain. `stays`: others read what its first part makes."""
        rewriter, (output, *_) = self.rewriter, node.outputs
        if not stays:
            rewriter.nodes[rewriter.position[maker.outputs[0]]] = None
            rewriter.uses.subtract(first.inputs)
        rewriter.uses.subtract(second.inputs)
        rewriter.uses.update(joined.inputs)
        self.parts[output] = joined

    def result(self) -> Graph:
        """Return the graph with the chains."""
        rewriter = self.rewriter
        for output, part in self.parts.items():
            place = rewriter.position[output]
            node = rewriter.nodes[place]
            if node is not None and part is not None and len(part.links) > 1:
                chain = chain_of(part.links, part.inputs)
                rewriter.nodes[place] = Node(chain, part.inputs, node.outputs, part.label)
        return rewriter.result()


def _joined(first: _Part, second: _Part, value: str) -> _Part | None:
    """Join two parts, the first of which makes `value`; None where a kernel would be too large."""
    read, steps = first.read | (second.read - {value}), first.steps + second.steps
    if len(read) > MOST_OPERANDS or steps > MOST_STEPS:
        return None
    # Both parts may dequantise the same bytes: once is enough.
    links = (*first.links, *(link for link in second.links if link not in first.links))
    outputs = {link.output for link in links}
    names = [name for name in (*first.inputs, *second.inputs) if name and name not in outputs]
    label = second.label or first.label
    return _Part(links, tuple(dict.fromkeys(names)), read - outputs, steps, label)
