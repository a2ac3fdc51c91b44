"""Slices of one value that lie side by side along the channels, as the parts of one Split.

    %a = slice(0:32) %x         ->    %a, %b = split %x, [32, 32]
    %b = slice(32:64) %x

Exporters write torch's `chunk` so where sizes are traced. A split of blocked maps costs nothing where its parts end
with a block, and its parts are followed through gathers of channels where they do not (`channels.py`). Slices along the
first axis of what is transposed are joined too, as the newer exporter writes the queries, keys and values of attention:
parts of plain memory, one behind the other, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.movement.parts import Slice, Split
from cenote.ops.movement.transpose import Transpose
from cenote.passes.cleanup import fresh

_FIRST, _CHANNELS = 0, 1
Range = tuple[int, int]


def join_slices(graph: Graph) -> Graph:
    """Return the graph with splits in place of such slices."""
    if Slice not in {type(node.op) for node in graph.nodes}:
        return graph
    producers = graph.producers()
    parts: dict[tuple[str, int], dict[Range, Node]] = {}
    for node in graph.nodes:
        if (found := _part(graph, producers, node)) is not None:
            axis, taken = found
            parts.setdefault((node.inputs[0], axis), {}).setdefault((taken.start, taken.stop), node)
    splits = {source: named for source, named in parts.items() if _are_apart(named)}
    if not splits:
        return graph
    joined = {id(node): whole for whole, named in splits.items() for node in named.values()}
    constants, types, names = dict(graph.constants), dict(graph.types), set(graph.values())
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) not in joined:
            nodes.append(node)
        elif named := splits.pop(whole := joined[id(node)], None):
            nodes.append(_split(graph, node, whole[1], named, constants, types, names))
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _part(graph: Graph, producers: Mapping[str, Node], node: Node) -> tuple[int, range] | None:
    """Return an axis and the places of it that a node slices, one behind the other: channels of maps, or along the
    first axis of what is transposed."""
    if not isinstance(node.op, Slice) or node.inputs[0] in graph.constants:
        return None
    inputs, maker = graph.input_types(node), producers.get(node.inputs[0])
    axes = (_FIRST, _CHANNELS) if maker is not None and isinstance(maker.op, Transpose) else (_CHANNELS,)
    for axis in axes:
        taken = _taken_of(node.op, inputs, axis)
        if taken is not None and taken.step == 1:
            return axis, taken
    return None


def channels_of(op: Slice, inputs: Sequence[TensorType | None]) -> range | None:
    """Return the channels that a slice of maps takes, some and not all, where it is of nothing else."""
    return _taken_of(op, inputs, _CHANNELS)


def _taken_of(op: Slice, inputs: Sequence[TensorType | None], axis: int) -> range | None:
    x = inputs[0]
    if x is None or x.rank not in (3, 4, 5) or is_size(x.shape[axis]):
        return None
    taken = op.ranges(*inputs)  # type: ignore[arg-type]
    for other, (each, extent) in enumerate(zip(taken, x.shape, strict=True)):
        if (other == axis) == each.is_all(extent):
            return None
    places = taken[axis]
    return None if any(map(is_size, places)) else range(*places) or None


def _are_apart(parts: dict[Range, Node]) -> bool:
    """Whether there are several, none of which has channels of another."""
    ranges = sorted(parts)
    return len(ranges) > 1 and all(a[1] <= b[0] for a, b in pairwise(ranges))


def _split(
    graph: Graph,
    first: Node,
    axis: int,
    parts: dict[Range, Node],
    constants: dict[str, Array],
    types: dict[str, TensorType],
    taken: set[str],
) -> Node:
    """Return the split into parts, and what lies between them, which nothing reads."""
    x = graph.types[first.inputs[0]]
    ends = sorted({0, x.shape[axis], *(end for each in parts for end in each)})
    ranges = list(pairwise(ends))
    outputs = []
    for begin, end in ranges:
        part = parts.get((begin, end))
        name = part.outputs[0] if part else fresh(f"{first.inputs[0]}.unread", taken)
        types.setdefault(name, TensorType(x.dtype, (*x.shape[:axis], end - begin, *x.shape[axis + 1 :])))
        outputs.append(name)
    sizes = fresh(f"{first.inputs[0]}.parts", taken)
    constants[sizes] = np.array([end - begin for begin, end in ranges], np.int64)
    types[sizes] = TensorType.of(np.int64, (len(ranges),))
    return Node(Split(len(ranges), axis), (first.inputs[0], sizes), tuple(outputs), first.label)
