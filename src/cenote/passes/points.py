"""Transposed convolutions of maps of one element, with which generators begin, as products.

    %y = conv_transpose %x, %w [c, m, 4, 4]    ->    %a = conv %x, %v [16m, c, 1, 1]
                                                     %y = reshape %a

Every weight meets the one element once. As a convolution for each output, most taps would see nothing but padding: 100
to 512 channels, 4x4, executed 16 times the products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.movement.reshape import Reshape
from cenote.passes.cleanup import fresh


def multiply_points(graph: Graph) -> Graph:
    """Return the graph with such convolutions as products, where weights and bias are constants."""
    nodes, constants, types = list[Node](), dict(graph.constants), dict(graph.types)
    taken = set(graph.values())
    for node in graph.nodes:
        if not _sees_one_element(graph, node):
            nodes.append(node)
            continue
        op, (data, weights, *bias) = node.op, node.inputs
        assert isinstance(op, ConvTranspose)
        channels, filters, *window = graph.constants[weights].shape
        spatial = (1,) * len(window)
        made = {weights: graph.constants[weights].reshape(channels, -1).T.reshape(-1, channels, *spatial)}
        if bias and bias[0]:
            made[bias[0]] = graph.constants[bias[0]].repeat(np.prod(window))
        names = {old: fresh(old, taken) for old in made}
        shape, product = fresh("numbers", taken), fresh(node.outputs[0], taken)
        constants |= {names[old]: np.ascontiguousarray(value) for old, value in made.items()}
        constants[shape] = np.array((0, filters, *window), np.int64)  # 0: the batch stays
        types |= {name: TensorType.known(constants[name]) for name in (*names.values(), shape)}
        inputs = (data, *names.values())
        conv = Conv(activation=op.activation, exact=op.exact)
        (types[product],) = conv.infer(*(types[each] for each in inputs))
        nodes.append(Node(conv, inputs, (product,), node.title))
        nodes.append(replace(node, op=Reshape(), inputs=(product, shape), label=""))
    return (
        graph.replace(nodes=tuple(nodes), constants=constants, types=types)
        if len(nodes) > len(graph.nodes)
        else graph
    )


def _sees_one_element(graph: Graph, node: Node) -> bool:
    """Whether a node is a transposed convolution of one group, of maps of one element, whose result is its window."""
    op = node.op
    if not isinstance(op, ConvTranspose) or any(
        each and each not in graph.constants for each in node.inputs[1:]
    ):
        return False
    x, weights = graph.type_of(node.inputs[0]), graph.constants[node.inputs[1]]
    if x is None or x.dtype != np.float32 or any(is_size(extent) or extent != 1 for extent in x.shape[2:]):
        return False
    shape = op.shape(x, TensorType.known(weights))
    whole = shape.out == shape.window and not any(begin or end for begin, end in shape.pads)
    return bool(shape.groups == 1 and whole and weights.size)
