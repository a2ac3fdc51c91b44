"""Slices of one value that lie side by side along the channels, as the parts of one Split.

    %a = slice(0:32) %x         ->    %a, %b = split %x, [32, 32]
    %b = slice(32:64) %x

Exporters write torch's `chunk` so where sizes are traced. A split of blocked maps costs nothing where its parts end
with a block, and its parts are followed through gathers of channels where they do not (`channels.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.movement.parts import Slice, Split
from cenote.passes.cleanup import fresh

_CHANNELS = 1
Range = tuple[int, int]


def join_slices(graph: Graph) -> Graph:
    """Return the graph with splits in place of such slices."""
    if Slice not in {type(node.op) for node in graph.nodes}:
        return graph
    parts: dict[str, dict[Range, Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, Slice) and (channels := _channels(graph, node.op, node)) is not None:
            parts.setdefault(node.inputs[0], {}).setdefault(channels, node)
    splits = {source: named for source, named in parts.items() if _are_apart(named)}
    if not splits:
        return graph
    joined = {id(node) for named in splits.values() for node in named.values()}
    constants, types, taken = dict(graph.constants), dict(graph.types), set(graph.values())
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) not in joined:
            nodes.append(node)
        elif named := splits.pop(node.inputs[0], None):
            nodes.append(_split(graph, node, named, constants, types, taken))
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _channels(graph: Graph, op: Slice, node: Node) -> Range | None:
    """Return where the channels begin and end that a slice of maps takes, some and not all."""
    if node.inputs[0] in graph.constants:
        return None
    taken = channels_of(op, graph.input_types(node))
    return (taken.start, taken.stop) if taken is not None and taken.step == 1 else None


def channels_of(op: Slice, inputs: Sequence[TensorType | None]) -> range | None:
    """Return the channels that a slice of maps takes, some and not all, where it is of nothing else."""
    x = inputs[0]
    if x is None or x.rank not in (3, 4, 5) or is_size(x.shape[_CHANNELS]):
        return None
    taken = op.ranges(*inputs)  # type: ignore[arg-type]
    for axis, (each, extent) in enumerate(zip(taken, x.shape, strict=True)):
        if (axis == _CHANNELS) == each.is_all(extent):
            return None
    channels = taken[_CHANNELS]
    return None if any(map(is_size, channels)) else range(*channels) or None


def _are_apart(parts: dict[Range, Node]) -> bool:
    """Whether there are several, none of which has channels of another."""
    ranges = sorted(parts)
    return len(ranges) > 1 and all(a[1] <= b[0] for a, b in pairwise(ranges))


def _split(
    graph: Graph,
    first: Node,
    parts: dict[Range, Node],
    constants: dict[str, Array],
    types: dict[str, TensorType],
    taken: set[str],
) -> Node:
    """Return the split into parts, and what lies between them, which nothing reads."""
    x = graph.types[first.inputs[0]]
    ends = sorted({0, x.shape[_CHANNELS], *(end for each in parts for end in each)})
    ranges = list(pairwise(ends))
    outputs = []
    for begin, end in ranges:
        part = parts.get((begin, end))
        name = part.outputs[0] if part else fresh(f"{first.inputs[0]}.unread", taken)
        types.setdefault(name, TensorType(x.dtype, (x.shape[0], end - begin, *x.shape[2:])))
        outputs.append(name)
    sizes = fresh(f"{first.inputs[0]}.parts", taken)
    constants[sizes] = np.array([end - begin for begin, end in ranges], np.int64)
    types[sizes] = TensorType.of(np.int64, (len(ranges),))
    return Node(Split(len(ranges), _CHANNELS), (first.inputs[0], sizes), tuple(outputs), first.label)
