"""Blocks of mobile networks, computed band by band of rows where their inner maps would not stay in the second cache.

    %a = conv[clip] %x, %v           [c, h, w]     ->    %y = banded_convs(conv, conv, conv) %x, %v, , %u, , %w, , %x
    %b = conv[groups=c, clip] %a, %u
    %y = conv %b, %w + %x

The first or the last convolution may be missing. At two threads the convolutions stay apart, and have the same bits:
for so few weights their algorithms are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.conv.banded_convs import BandedConvs, can_band
from cenote.ops.conv.conv import Conv
from cenote.passes.fuse import Rewriter

# Of the second cache: a larger map leaves it before it is read; the largest has some 32 bands, each some ten steps.
_FAR, _FARTHEST = 0.5, 24
_WEIGHTS = 0.125  # of the second cache: more are not read anew for each band (Xception: 1.5 % longer)


def band_convolutions(graph: Graph, target: Target) -> Graph:
    """Return the graph with such blocks as one operator, for one thread of a machine whose third cache is slow
    (`Target.is_wide`). One thread of a Xeon with AVX-512, medians in turns, ms: MobileNet-v2 4.94, 4.67; MobileNet-v3
    4.29, 4.14; EfficientNet-b0 8.41, 8.28; ReXNet 8.65, 8.24; NAFNet 8.65, 8.36. Two threads gain 0 to 2 %, or lose
    that: each reads half of its rows from the other one's cache, and they meet for each band.
    """
    if not target.is_wide or target.threads > 1 or Conv.name not in {node.op.name for node in graph.nodes}:
        return graph
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        node = rewriter.nodes[index]
        if node is not None and _is_link(rewriter, node, target):
            _join(rewriter, node, target)
    return rewriter.result()


def _is_link(rewriter: Rewriter, node: Node, target: Target) -> bool:
    """Whether a node is a convolution that a chain may have, of one picture of known size by constant weights."""
    op = node.op
    if type(op) is not Conv or op.pool or op.on_tiles:
        return False
    x = rewriter.type(node.inputs[0])
    weights = rewriter.type(node.inputs[1])
    constants = all(name in rewriter.constants for name in node.inputs[1:3] if name)
    if weights.nbytes > _WEIGHTS * target.l2_bytes:
        return False
    if not constants or x.dtype != FLOAT32 or x.rank != 4 or any(map(is_size, x.shape)) or x.shape[0] != 1:
        return False
    return can_band(op.shape(x, weights))


def _join(rewriter: Rewriter, node: Node, target: Target) -> None:
    """Put a depthwise convolution with the 1x1 one before it, and a 1x1 one with what is depthwise before it, into one
    node, if the map between them is large."""
    name, op = node.inputs[0], node.op
    assert isinstance(op, Conv)
    found = rewriter.producer(name, Op)
    if found is None:
        return
    before, first = found
    if isinstance(first, BandedConvs):
        convs = first.convs
        if len(convs) > 2 or _is_pointwise(convs[-1]):
            return
    elif isinstance(first, Conv) and _is_link(rewriter, before, target) and not first.residual:
        convs = (first,)
        if not _FAR <= rewriter.type(name).nbytes / target.l2_bytes <= _FARTHEST:
            return
    else:
        return
    if _is_pointwise(op) == _is_pointwise(convs[-1]) or (op.residual and not _is_pointwise(op)):
        return
    given = [
        before.inputs[0],
        *_constants(before.inputs[1:], 2 * len(convs)),
        *_constants(node.inputs[1:3], 2),
    ]
    if op.residual:
        given += [*[""] * (7 - len(given)), node.inputs[3]]
    rewriter.merge(before, node, BandedConvs((*convs, op)), tuple(given), node.label)


def _is_pointwise(conv: Conv) -> bool:
    return conv.groups == 1


def _constants(names: Sequence[str], count: int) -> tuple[str, ...]:
    return (*names, *[""] * (count - len(names)))
