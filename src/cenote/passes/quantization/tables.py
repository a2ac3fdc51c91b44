"""Elementwise operators between dequantisation and quantisation as tables of bytes.

    %a = dequantize_linear %q, …
    %b = sigmoid %a                        ->    %y = byte_table %q, <256 bytes>
    %c = mul %a, %b
    %y = quantize_linear %c, …

Whatever depends on one tensor of bytes and on single numbers, element by element, is a function of a byte, with
quantisations in between and several branches, too. The table holds what the operators' references give for the 256
bytes, so it is exact.
"""

from __future__ import annotations

import numpy as np

from cenote.core.types import Array
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import run_node
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.movement.reshape import Identity
from cenote.ops.quantization.byte_table import ByteTable
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import BYTES


def tabulate_bytes(graph: Graph) -> Graph:
    """Replace quantisations of functions of a byte by tables, and those that give the byte back by identities.

    Where floats are quantised and the result is only dequantised again, all of it is one pass over floats, and stays.
    """
    if not any(isinstance(node.op, DequantizeLinear) for node in graph.nodes):
        return graph
    tables = _Tables(graph)
    for place, node in enumerate(graph.nodes):
        source = tables.follow(node)
        if source is not None and isinstance(node.op, QuantizeLinear) and tables.gains(node, source):
            tables.replace(place, node, source)
    return tables.rewriter.result()


class _Tables:
    """Values that are functions of a byte, while the nodes of a graph are passed in order."""

    def __init__(self, graph: Graph) -> None:
        self.rewriter = Rewriter(graph)
        self.sources: dict[str, str] = {}  # by value: the tensor of bytes that it is a function of
        self.nodes: dict[str, Node] = {}  # by value: what makes it
        self.values: dict[str, Array] = {}  # by value: what it is for the 256 bytes
        self.readers, self.outputs = graph.users(), set(graph.outputs)

    def is_byte(self, name: str) -> bool:
        return self.rewriter.type(name).dtype.name in BYTES

    def gains(self, node: Node, source: str) -> bool:
        """Whether a table in place of a quantisation to bytes saves a pass."""
        result, place = node.outputs[0], self.rewriter.position.get(source)
        if not self.is_byte(result):
            return False
        maker = None if place is None else self.rewriter.nodes[place]
        return maker is None or not isinstance(maker.op, QuantizeLinear) or not self._is_on_the_way(result)

    def _is_on_the_way(self, result: str) -> bool:
        """Whether bytes are only dequantised, for one reader."""
        readers = self.readers.get(result, [])
        if result in self.outputs or len(readers) != 1 or not isinstance(readers[0].op, DequantizeLinear):
            return False
        return len(self.readers.get(readers[0].outputs[0], [])) <= 1

    def follow(self, node: Node) -> str | None:
        """Return the tensor of bytes whose function a node's result is; None where it is no function of one."""
        if not isinstance(node.op, Pointwise) or not node.op.pure or len(node.outputs) != 1:
            return None
        sources = {self._source(node, name) for name in node.inputs if name and not self._is_number(name)}
        source = sources.pop() if len(sources) == 1 else None
        if source is None or self.rewriter.type(source).shape != self.rewriter.type(node.outputs[0]).shape:
            return None
        self.sources[node.outputs[0]], self.nodes[node.outputs[0]] = source, node
        return source

    def _source(self, node: Node, name: str) -> str | None:
        """Return the tensor of bytes that an operand is a function of: itself, where it is dequantised."""
        known = self.sources.get(name)
        if known is None and isinstance(node.op, DequantizeLinear) and self.is_byte(name):
            return None if name in self.rewriter.constants else name
        return known

    def _is_number(self, name: str) -> bool:
        value = self.rewriter.constants.get(name)
        return value is not None and value.size == 1

    def replace(self, place: int, node: Node, source: str) -> None:
        """Put a table, or nothing, in place of a node that quantises a function of `source`."""
        rewriter, table = self.rewriter, self._value(node.outputs[0], source)
        every = _every(rewriter.type(source).dtype)
        if table.dtype == every.dtype and np.array_equal(table, every):
            rewriter.nodes[place] = Node(Identity(), (source,), node.outputs, node.label)
        else:
            name = rewriter.constant(f"{node.outputs[0]}.table", table)
            rewriter.nodes[place] = Node(ByteTable(), (source, name), node.outputs, node.label)

    def _value(self, name: str, source: str) -> Array:
        """Return what a value is for the 256 bytes of its source; without recursion, for chains may be long."""
        every, pending = _every(self.rewriter.type(source).dtype), [name]
        if name == source:
            return every
        while pending:
            node = self.nodes[pending[-1]]
            made = [each for each in node.inputs if each and each != source and not self._is_number(each)]
            missing = [each for each in made if each not in self.values]
            if missing:
                pending += missing
                continue
            given = [
                self.rewriter.constants[each].reshape(())
                if self._is_number(each)
                else self.values.get(each, every)
                if each
                else None
                for each in node.inputs
            ]
            (self.values[pending.pop()],) = run_node(node, given)
        return self.values[name]


def _every(dtype: np.dtype) -> Array:
    """All bytes of a type, in the order of their bits."""
    return np.arange(256).astype(np.uint8).view(dtype)
