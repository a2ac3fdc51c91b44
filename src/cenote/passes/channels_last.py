"""Convolutions with few input channels that read maps whose channels lie last, without a transpose.

In such a map, the elements under one row of the window are contiguous over all channels. So the map is read as one
channel whose rows are longer by the number of channels, and so are the rows and steps of the window:

    %a = transpose(order=(0,3,1,2)) %x           %a = %x as (N, 1, H, W * 3)
    %b = conv(strides=(2,2)) %a, %w[M,3,3,3] ->  %b = conv(strides=(2,6)) %a, %v[M,1,3,9]
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.movement.reshape import Reshape, Unsqueeze
from cenote.ops.movement.transpose import Transpose
from cenote.passes.cleanup import fresh
from cenote.passes.transpose_rules import moves_channels

_MOST_CHANNELS = 4  # with more, blocks of channels are the better layout


def read_channels_last(graph: Graph) -> Graph:
    """Return the graph in which the readers of a transpose read its source directly, where all of them are such
    convolutions."""
    users = graph.users()
    changed: dict[int, list[Node]] = {}
    constants, types, taken = dict(graph.constants), dict(graph.types), set(graph.values())
    for turn in graph.nodes:
        if not isinstance(turn.op, Transpose) or turn.outputs[0] in graph.outputs:
            continue
        source, readers = turn.inputs[0], users.get(turn.outputs[0], [])
        if source in graph.constants or not all(_can_read(graph, turn, node) for node in readers):
            continue
        for node in readers:
            changed[id(node)] = _reading(graph, source, node, constants, types, taken)
    if not changed:
        return graph
    nodes = tuple(each for node in graph.nodes for each in changed.get(id(node), [node]))
    return graph.replace(nodes=nodes, constants=constants, types=types)


def _can_read(graph: Graph, turn: Node, node: Node) -> bool:
    """Whether a node is a convolution that can read the source of a transpose."""
    op, x = node.op, graph.types[turn.outputs[0]]
    order = turn.op.axes(x.rank) if isinstance(turn.op, Transpose) else ()
    if not isinstance(op, Conv) or not moves_channels(order) or order[1] != x.rank - 1:
        return False
    weights = graph.constants.get(node.inputs[1])
    if weights is None or node.inputs[0] != turn.outputs[0] or turn.outputs[0] in node.inputs[1:]:
        return False
    if is_size(x.shape[1]) or is_size(x.shape[-1]) or x.shape[1] > _MOST_CHANNELS:
        return False
    shape = op.shape(x, TensorType.known(weights))
    pads = [number for pair in shape.pads for number in pair]
    return shape.groups == 1 and shape.dilations[-1] == 1 and not any(map(is_size, pads))


def _reading(
    graph: Graph,
    source: str,
    node: Node,
    constants: dict[str, Array],
    types: dict[str, TensorType],
    taken: set[str],
) -> list[Node]:
    """Return the convolution over rows of pixels and channels, and the views that it reads."""

    def constant(stem: str, value: Array) -> str:
        name = fresh(stem, taken)
        constants[name], types[name] = value, TensorType(value.dtype, value.shape)
        return name

    op, weights = node.op, graph.constants[node.inputs[1]]
    assert isinstance(op, Conv)
    x = types[source]
    channels, rank = x.shape[-1], x.rank
    shape = op.shape(graph.types[node.inputs[0]], TensorType.known(weights))
    deep, rows = fresh(source, taken), fresh(source, taken)
    types[deep] = TensorType(x.dtype, (x.shape[0], 1, *x.shape[1:]))
    types[rows] = TensorType(x.dtype, (x.shape[0], 1, *x.shape[1:-2], x.shape[-2] * channels))
    turned = np.moveaxis(weights, 1, -1)
    wide = np.ascontiguousarray(turned).reshape(len(weights), 1, *turned.shape[1:-2], -1)
    moved = replace(
        op,
        strides=(*shape.strides[:-1], shape.strides[-1] * channels),
        pads=(*shape.pads[:-1], (shape.pads[-1][0] * channels, shape.pads[-1][1] * channels)),
        dilations=shape.dilations,
        groups=1,
        auto_pad="NOTSET",
        window=(),
    )
    inputs = (rows, constant(node.inputs[1], wide), *node.inputs[2:])
    return [
        Node(Unsqueeze(), (source, constant(deep, np.array([1]))), (deep,)),
        Node(Reshape(), (deep, constant(rows, np.array([*(0,) * (rank - 1), -1]))), (rows,)),
        Node(moved, inputs, node.outputs, node.label),
    ]
