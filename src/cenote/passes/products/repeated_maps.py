"""Convolutions of maps whose elements are repeated become transposed ones of the maps as they were.

    %r = resize(mode=nearest) %x, ...        ->    %y = conv_transpose(strides=s) %x, %v, %b
    %y = conv %r, %w, %b

An output sees each element of x as often as taps of its window fall on copies of it: the transposed convolution's
weights v are the sums of these taps, w convolved with as many ones as there are copies. Of two copies and a window of
3x3 each output has 4 products in place of 9, and by Winograd's algorithm 25 for 16 outputs in place of 36. Decoders of
diffusion models, super-resolution and generators have such pairs (A. Odena, V. Dumoulin, C. Olah, "Deconvolution and
checkerboard artifacts", 2016).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.movement.resize import Resize
from cenote.passes.cleanup import fresh
from cenote.passes.declined import estimated


def convolve_repeated(graph: Graph, target: Target) -> Graph:
    """Return the graph with such pairs of float32 as one operator, where it is estimated to take no longer."""
    if Resize not in {type(node.op) for node in graph.nodes}:
        return graph
    producers, uses = graph.producers(), Counter(name for node in graph.nodes for name in node.inputs)
    uses.update(graph.outputs)
    taken, constants, types = set(graph.values()), dict(graph.constants), dict(graph.types)
    nodes, gone = list[Node](), set[str]()
    for node in graph.nodes:
        resize = producers.get(node.inputs[0]) if node.inputs else None
        found = (
            None if resize is None or uses[node.inputs[0]] > 1 else _transposed(graph, resize, node, target)
        )
        if resize is not None and found is not None:
            op, weights = found
            name = fresh(node.inputs[1], taken)
            constants[name], types[name] = weights, TensorType.known(weights)
            gone.add(node.inputs[0])
            node = Node(op, (resize.inputs[0], name, *node.inputs[2:]), node.outputs, node.label)
        nodes.append(node)
    if not gone:
        return graph
    left = tuple(node for node in nodes if not gone.intersection(node.outputs))
    kept = {name: kind for name, kind in types.items() if name not in gone}
    return graph.replace(nodes=left, constants=constants, types=kept)


def _transposed(graph: Graph, resize: Node, node: Node, target: Target) -> tuple[ConvTranspose, Array] | None:
    """Return the operator in place of both nodes, and its weights; None where there is none, or it takes longer."""
    if not isinstance(resize.op, Resize) or not isinstance(node.op, Conv) or not node.op.is_bare:
        return None
    if not all(name in graph.constants for name in node.inputs[1:] if name):
        return None
    inputs = graph.input_types(resize)
    x, *others = (each for each in graph.input_types(node) if each is not None)
    shape, copies = node.op.shape(x, others[0]), resize.op.repeats(inputs)
    if x.dtype != FLOAT32 or shape.groups > 1 or {*shape.strides, *shape.dilations} != {1}:
        return None
    if (
        copies[:2] != (1, 1)
        or not all(copies)
        or any(max(pads) >= taps for pads, taps in zip(shape.pads, shape.window, strict=True))
    ):
        return None
    pads = tuple(
        (taps - 1 - begin, taps - 1 - end)
        for (begin, end), taps in zip(shape.pads, shape.window, strict=True)
    )
    op = ConvTranspose(copies[2:], pads)
    weights = _repeated(graph.constants[node.inputs[1]], copies[2:])
    if not np.isfinite(weights).all():  # sums beyond float32, or what must stay at its own taps
        return None
    before = estimated(resize.op, inputs, target) + estimated(node.op, [x, *others], target)
    after = estimated(op, [inputs[0], TensorType.known(weights), *others[1:]], target)
    return (op, weights) if after <= before else None


def _repeated(weights: Array, copies: tuple[int, ...]) -> Array:
    """Return weights (C, M, *window) of the transposed convolution of those (M, C, *window) of a convolution of so many
    copies along each axis."""
    spatial = tuple(range(2, weights.ndim))
    flipped = np.flip(weights, spatial).swapaxes(0, 1).astype(np.float64)
    window = tuple(taps + count - 1 for taps, count in zip(weights.shape[2:], copies, strict=True))
    total = np.zeros((*flipped.shape[:2], *window))
    for first in np.ndindex(*copies):
        place = tuple(
            slice(begin, begin + taps) for begin, taps in zip(first, weights.shape[2:], strict=True)
        )
        total[(slice(None), slice(None), *place)] += flipped
    with np.errstate(over="ignore"):
        return total.astype(np.float32)
