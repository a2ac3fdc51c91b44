"""Pads as part of the convolution or pool that reads them, whose windows know where no elements are.

    %p = pad(((0,0), (0,0), (0,1), (0,1))) %x    ->    %y = conv(stride=(2,2), pads=((0,1), (0,1))) %x, %w
    %y = conv(stride=(2,2)) %p, %w

TensorFlow's networks are written so, Keras' and its ports in PyTorch. A convolution reads zeros there, in 8 bits its
zero point; a maximum pool reads nothing, which is what the lowest number comes to, and zero where no element is less;
an average pool counts zeros as elements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.pool_geometry import Pairs, padding_pairs
from cenote.core.sizes import is_size
from cenote.core.types import Array, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Clip, Relu, Sigmoid
from cenote.ops.movement.pad import Pad
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.window import MaxPool, WindowPool
from cenote.ops.quantization.quantized_linear import ConvInteger, QLinearConv


def absorb_pads(graph: Graph) -> Graph:
    """Return the graph with convolutions and pools that pad by themselves; pads that nothing else reads are dead."""
    pads = {node.outputs[0]: node for node in graph.nodes if type(node.op) is Pad}
    if not pads:
        return graph
    search = _Search(graph)
    nodes = [
        search.padding(node, pads[node.inputs[0]]) if node.inputs and node.inputs[0] in pads else node
        for node in graph.nodes
    ]
    return graph.replace(nodes=tuple(nodes))


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers = graph, graph.producers()

    def padding(self, node: Node, pad: Node) -> Node:
        """Return the node as one that pads by itself; the same where it cannot."""
        known = self._known(pad)
        if known is None:
            return node
        pads, filled = known
        op = self._convolution(node, pads, filled) or self._pool(node, pad, pads, filled)
        return node if op is None else Node(op, (pad.inputs[0], *node.inputs[1:]), node.outputs, node.label)

    def _known(self, pad: Node) -> tuple[Pairs, Array] | None:
        """Pads of the spatial axes and the number that fills them, where these are constants and nothing else is
        padded or cropped."""
        x, op = self.graph.type_of(pad.inputs[0]), pad.op
        given = [self.graph.constants.get(name) if name else None for name in pad.inputs]
        missing = any(name and value is None for name, value in zip(pad.inputs[1:], given[1:], strict=True))
        if x is None or missing or not isinstance(op, Pad) or op.mode != "constant":
            return None
        pads = op.resolved(self.graph.input_types(pad))
        if x.rank < 3 or any(is_size(each) or each < 0 for pair in pads for each in pair):
            return None
        return None if any(map(any, pads[:2])) else (pads[2:], op.constant(given, x.dtype))

    def _convolution(self, node: Node, pads: Pairs, filled: Array) -> Op | None:
        """The convolution with these pads added to its own, where it would fill its own with the same number."""
        if isinstance(node.op, Conv) and filled == 0:
            return _with_pads(node.op, pads)
        if isinstance(node.op, ConvInteger | QLinearConv):
            name = node.inputs[2] if len(node.inputs) > 2 else ""
            zero = self.graph.constants.get(name) if name else np.zeros(1, np.int64)
            conv = _with_pads(node.op.conv, pads)
            if conv is not None and zero is not None and zero.size == 1 and filled == zero.item():
                return replace(node.op, conv=conv)
        return None

    def _pool(self, node: Node, pad: Node, pads: Pairs, filled: Array) -> Op | None:
        """The pool with these pads in place of none of its own, where no window lies on padding alone."""
        op = node.op
        if not isinstance(op, WindowPool) or op.ceil_mode or op.channels_last or any(map(any, op.pads)):
            return None
        plain = op.auto_pad in ("NOTSET", "VALID") and all(step == 1 for step in op.dilation)
        if not plain or any(max(pair) >= taps for pair, taps in zip(pads, op.window, strict=True)):
            return None
        if isinstance(op, AveragePool) and filled == 0:
            return replace(op, pads=pads, auto_pad="NOTSET", count_include_pad=True)
        x = self.graph.type_of(pad.inputs[0])
        if type(op) is MaxPool and x is not None and not op.return_indices and op.nan == "propagate":
            least = filled == 0 and self._is_not_negative(pad.inputs[0])
            if least or filled == _lowest(x.dtype):
                return replace(op, pads=pads, auto_pad="NOTSET")
        return None

    def _is_not_negative(self, name: str) -> bool:
        """Whether a value comes from an activation of which no element is less than zero."""
        node = self.producers.get(name)
        if node is None or not isinstance(node.op, Clip):
            return node is not None and isinstance(node.op, Relu | Sigmoid)
        bounds: list[float | None] = [node.op.low, node.op.high]
        for place, name in enumerate(node.inputs[1:3]):
            if name:
                bound = self.graph.constants.get(name)
                bounds[place] = -np.inf if bound is None else float(bound.reshape(()))
        low, high = bounds
        return low is not None and low >= 0 and (high is None or high >= 0)


def _with_pads(conv: Conv, pads: Pairs) -> Conv | None:
    """Return the convolution with more pads; None where its own depend on the size of what it reads."""
    if conv.auto_pad not in ("", "NOTSET", "VALID"):
        return None
    own = padding_pairs("conv", () if conv.auto_pad == "VALID" else conv.pads, len(pads))
    both = tuple((a + begin, b + end) for (a, b), (begin, end) in zip(own, pads, strict=True))
    return replace(conv, pads=both, auto_pad="NOTSET")


def _lowest(dtype: np.dtype[Any]) -> float | int:
    """Return the lowest number of a type."""
    if is_float(dtype):
        return -np.inf
    return False if dtype == np.bool_ else int(np.iinfo(dtype).min)
