"""Maps that are enlarged, put side by side and convolved by one tap, convolved before they are enlarged.

    %r = resize(mode=linear) %a, ...         ->    %p = conv %a, %w[:, :C], %b
    %c = concat(axis=1) %r, %d                     %r = resize(mode=linear) %p, ...
    %y = conv %c, %w, %b                           %q = conv %d, %w[:, C:]
                                                   %y = add %q, %r

Both steps are linear, one over channels and the other over pixels, so that they may change places; interpolated weights
add up to one, which makes that right for the bias too. The head of SegFormer (E. Xie et al., NeurIPS 2021) convolves
four maps of as many channels as there are filters at the size of the largest: 0.33 of the multiplications are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableSet, Sequence

import numpy as np

from cenote.core.sizes import is_size, plain
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.binary import Add
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.resize import Resize
from cenote.passes.cleanup import fresh

_LEAST_CHANNELS = 64  # of a part: multiplications that a result saves, beside one addition
_LEAST_GROWTH = 2  # of a part's pixels


def convolve_before_resizing(graph: Graph) -> Graph:
    """Return the graph with such convolutions of float32 in parts."""
    if Resize not in {type(node.op) for node in graph.nodes}:
        return graph
    producers = graph.producers()
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    uses.update(graph.outputs)
    single = {name: node for name, node in producers.items() if uses[name] == 1}
    taken = set(graph.values())
    parts, gone = dict[str, _Parts](), set[str]()
    for node in graph.nodes:
        enlarged = _enlarged(graph, single, node)
        if enlarged:
            parts[node.outputs[0]] = _Parts(graph, single[node.inputs[0]], node, enlarged, taken)
            gone |= {node.inputs[0], *enlarged}
    if not parts:
        return graph
    nodes: list[Node] = []
    types, constants = dict(graph.types), dict(graph.constants)
    for node in graph.nodes:
        made = parts.get(node.outputs[0])
        if made is not None:
            nodes += made.nodes
            types |= made.types
            constants |= made.constants
        elif node.outputs[0] not in gone:
            nodes.append(node)
    for name in gone:
        del types[name]
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _enlarged(graph: Graph, single: Mapping[str, Node], node: Node) -> dict[str, Node]:
    """Return the nodes that enlarge parts of what a node convolves, by their results; `single`: nodes whose results are
    read once, by these."""
    joined = single.get(node.inputs[0]) if node.inputs else None
    if not isinstance(node.op, Conv) or joined is None or not isinstance(joined.op, Concat):
        return {}
    x, y = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    is_constant = all(name in graph.constants for name in node.inputs[1:] if name)
    if y.dtype != FLOAT32 or not is_constant or not node.op.is_bare or joined.op.axis % x.rank != 1:
        return {}
    shape = node.op.shape(x, graph.types[node.inputs[1]])
    of_one_tap = {*shape.window, *shape.strides, shape.groups} == {1} and not any(map(any, shape.pads))
    if not of_one_tap or not 1 < len(joined.inputs) == len(set(joined.inputs)):
        return {}
    if any(is_size(graph.types[name].shape[1]) for name in joined.inputs):
        return {}
    resizes = {name: single[name] for name in joined.inputs if name in single}
    return {name: each for name, each in resizes.items() if _is_worth_it(graph, each, shape.filters)}


def _is_worth_it(graph: Graph, node: Node, filters: int) -> bool:
    """Whether a node enlarges maps of as many channels as there are filters, and of enough."""
    op = node.op
    if not isinstance(op, Resize) or op.mode == "cubic" or op.coordinates == "tf_crop_and_resize":
        return False
    small, large = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    return (
        small.shape[:2] == large.shape[:2]
        and large.shape[1] == filters >= _LEAST_CHANNELS
        and plain(small.size) * _LEAST_GROWTH <= plain(large.size)
    )


class _Parts:
    """Nodes in the place of a convolution of maps side by side, some of which `enlarged` nodes make."""

    def __init__(
        self, graph: Graph, joined: Node, node: Node, enlarged: Mapping[str, Node], taken: MutableSet[str]
    ) -> None:
        self.graph, self.node, self.taken = graph, node, taken
        self.y = graph.types[node.outputs[0]]
        self.bias = node.inputs[2:3]
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        widths = [graph.types[name].shape[1] for name in joined.inputs]
        pieces = np.split(graph.constants[node.inputs[1]], np.cumsum(widths)[:-1], axis=1)
        weights = dict(zip(joined.inputs, pieces, strict=True))
        totals = []
        rest = tuple(name for name in joined.inputs if name not in enlarged)
        if rest:
            x = self.side_by_side(joined, rest) if len(rest) > 1 else rest[0]
            totals.append(self.convolved(x, np.concatenate([weights[name] for name in rest], 1)))
        for name, resize in enlarged.items():
            small, *others = resize.inputs
            inputs = (self.convolved(small, weights[name]), *others)
            totals.append(self.value(name, self.y))
            self.nodes.append(Node(resize.op, inputs, (totals[-1],), resize.label))
        self.add(totals)

    def value(self, stem: str, kind: TensorType) -> str:
        name = fresh(stem, self.taken)
        self.types[name] = kind
        return name

    def side_by_side(self, joined: Node, rest: tuple[str, ...]) -> str:
        """Return the maps that keep their size, as one."""
        channels = sum(self.graph.types[name].shape[1] for name in rest)
        shape = (self.y.shape[0], channels, *self.y.shape[2:])
        x = self.value(joined.outputs[0], TensorType(self.y.dtype, shape))
        self.nodes.append(Node(joined.op, rest, (x,), joined.label))
        return x

    def convolved(self, x: str, weights: Array) -> str:
        """Return the convolution of a part, the first one with the bias."""
        name = fresh(self.node.inputs[1], self.taken)
        self.constants[name] = np.ascontiguousarray(weights)
        self.types[name] = TensorType.known(self.constants[name])
        spatial = (self.types.get(x) or self.graph.types[x]).shape[2:]
        result = self.value(self.node.outputs[0], TensorType(self.y.dtype, (*self.y.shape[:2], *spatial)))
        self.nodes.append(Node(self.node.op, (x, name, *self.bias), (result,), self.node.label))
        self.bias = ()
        return result

    def add(self, totals: Sequence[str]) -> None:
        """Add the parts up, to what the convolution made."""
        total = totals[0]
        for count, part in enumerate(totals[1:], 2):
            y = self.node.outputs[0]
            result = y if count == len(totals) else self.value(y, self.y)
            self.nodes.append(Node(Add(), (total, part), (result,), self.node.label))
            total = result
