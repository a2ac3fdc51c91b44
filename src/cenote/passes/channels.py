"""Composition of operators that only move channels: unaligned Concat and Split along channels, channel shuffles, slices
and gathers of channels.

In the blocked layout an aligned concat or split costs nothing (the placement lets pieces lie in the whole), but one
at a channel that is no multiple of the lanes, or a shuffle, would force every tensor around it into the plain layout
and back. A chain of such movements is one selection of channels: each value that an ordinary operator reads becomes a
single ChannelGather from the tensors that ordinary operators made. In ShuffleNet that also drops the copies of the
half that each unit passes through.
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.movement.channel_gather import ChannelGather
from cenote.ops.movement.indexing import Gather
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.passes.slices import channels_of

Channel = tuple[str, int]  # a value that an ordinary operator makes, and a channel of it
_MOST_CHANNELS = 2048  # the kernel is unrolled over blocks of output channels
_MOST_SOURCES = 16
_WIDEST = 8192  # most channels of a value that is traced channel by channel


def compose_channels(graph: Graph, lanes: int) -> Graph:
    """Replace unaligned channel movements; `lanes` is the block of the blocked layout."""
    moved = _Movements(graph, lanes).moved
    if not moved:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        replaced = [name for name in node.outputs if name in moved]
        if not replaced:
            nodes.append(node)
            continue
        nodes.extend(_gather(name, moved[name], node.label) for name in replaced)
    return graph.replace(nodes=tuple(nodes))


def _gather(name: str, channels: Sequence[Channel], label: str) -> Node:
    inputs = tuple(dict.fromkeys(source for source, _ in channels))
    sources = tuple((inputs.index(source), channel) for source, channel in channels)
    return Node(ChannelGather(sources), inputs, (name,), label)


class _Movements:
    """Analysis of channel movements. `moved`: the sources of the channels of each value to be gathered."""

    def __init__(self, graph: Graph, lanes: int) -> None:
        self.graph, self.lanes = graph, lanes
        self.producers = graph.producers()
        self.channels: dict[str, tuple[Channel, ...]] = {}
        self.awkward: set[str] = set()  # values that cannot be pieces of a whole
        self.passing: set[str] = set()  # inner values of a recognised shuffle
        for node in graph.nodes:
            self._visit(node)
        self.moved = {
            name: channels
            for name, channels in self.channels.items()
            if name in self.awkward and self._fits(channels)
        }

    def _fits(self, channels: Sequence[Channel]) -> bool:
        return len(channels) <= _MOST_CHANNELS and len({source for source, _ in channels}) <= _MOST_SOURCES

    def _of(self, name: str) -> tuple[Channel, ...]:
        """Return the sources of a value's channels: itself, unless it is a movement's awkward result."""
        if name in self.awkward and self._fits(self.channels[name]):
            return self.channels[name]
        return tuple((name, channel) for channel in range(self.graph.types[name].shape[1]))

    def _is_map(self, name: str) -> bool:
        if name in self.graph.constants or name not in self.graph.types:
            return False
        type = self.graph.types[name]
        if type.rank not in (3, 4, 5) or is_size(type.shape[1]):
            return False  # an open extent cannot be traced one by one; asking for it would fix it
        followed = type.shape[1] <= _WIDEST
        return followed and type.dtype.itemsize == 4 and type.size > 0

    def _visit(self, node: Node) -> None:
        if not isinstance(node.op, Concat | Split | Reshape | Gather | Slice):
            return
        if not all(self._is_map(name) for name in (*node.inputs[:1], *node.outputs) if name):
            return
        if isinstance(node.op, Concat) and node.op.axis in (1, 1 - self.graph.types[node.outputs[0]].rank):
            self._visit_concat(node)
        elif isinstance(node.op, Split) and node.op.axis in (1, 1 - self.graph.types[node.inputs[0]].rank):
            self._visit_split(node)
        elif isinstance(node.op, Reshape):
            self._visit_shuffle(node)
        elif isinstance(node.op, Gather | Slice):
            self._visit_selection(node)

    def _visit_concat(self, node: Node) -> None:
        if not all(self._is_map(name) for name in node.inputs):
            return
        sizes = [self.graph.types[name].shape[1] for name in node.inputs]
        if 2 * sum(sizes) < self.lanes and not any(name in self.awkward for name in node.inputs):
            return  # blocked, it would be mostly padding: a stack of three has 16 times the bytes with AVX-512
        aligned = all(size % self.lanes == 0 for size in sizes[:-1])
        self.channels[node.outputs[0]] = tuple(channel for name in node.inputs for channel in self._of(name))
        if not aligned or any(name in self.awkward for name in node.inputs):
            self.awkward.add(node.outputs[0])

    def _visit_split(self, node: Node) -> None:
        whole, start = self._of(node.inputs[0]), 0
        sizes = [part.shape[1] for part in node.op.infer(*self.graph.input_types(node))]
        awkward = node.inputs[0] in self.awkward or any(size % self.lanes for size in sizes[:-1])
        for name, size in zip(node.outputs, sizes, strict=False):
            if name:
                self.channels[name] = whole[start : start + size]
            start += size
        parts = [name for name in node.outputs if name]
        if awkward and all(
            self._fits(self.channels[name]) for name in parts
        ):  # else the node stays, with all parts
            self.awkward.update(parts)

    def _visit_selection(self, node: Node) -> None:
        """Follow constant indices of channels, and slices of nothing but channels."""
        whole, kinds = self._of(node.inputs[0]), self.graph.input_types(node)
        places: Sequence[int] | None
        if isinstance(node.op, Slice):
            places = channels_of(node.op, kinds)
        else:
            places = _picked(
                node.op, self.graph.constants.get(node.inputs[1]), self.graph.types[node.inputs[0]]
            )
        if places is not None:
            self.channels[node.outputs[0]] = tuple(whole[place] for place in places)
            self.awkward.add(node.outputs[0])

    def _visit_shuffle(self, node: Node) -> None:
        """Recognise Reshape (N, g, C/g, …) → Transpose of axes 1 and 2 → Reshape (N, C, …)."""
        transpose = self.producers.get(node.inputs[0])
        if transpose is None or not isinstance(transpose.op, Transpose):
            return
        spread = self.producers.get(transpose.inputs[0])
        if spread is None or not isinstance(spread.op, Reshape) or not self._is_map(spread.inputs[0]):
            return
        outer, middle = self.graph.types[spread.inputs[0]], self.graph.types[spread.outputs[0]]
        if self.graph.types[node.outputs[0]].shape != outer.shape or middle.rank != outer.rank + 1:
            return
        groups, each = middle.shape[1:3]
        swapped = (0, 2, 1, *range(3, middle.rank))
        turned = self.graph.types[transpose.outputs[0]].shape
        if middle.shape != (outer.shape[0], groups, each, *outer.shape[2:]):
            return
        if transpose.op.axes(middle.rank) != swapped or turned != tuple(
            middle.shape[axis] for axis in swapped
        ):
            return
        whole = self._of(spread.inputs[0])
        self.channels[node.outputs[0]] = tuple(
            whole[g * each + i] for i in range(each) for g in range(groups)
        )
        self.awkward.add(node.outputs[0])


def _picked(op: Op, indices: Array | None, x: TensorType) -> list[int] | None:
    """Return the channels that a Gather with constant indices takes, one axis of them and all within the axis."""
    if not isinstance(op, Gather) or indices is None or indices.ndim != 1 or op.axis not in (1, 1 - x.rank):
        return None
    count, plain = x.shape[1], op.invalid == "raise" and op.negative
    inside = plain and not is_size(count) and bool(((indices >= -count) & (indices < count)).all())
    return [place % count for place in indices.tolist()] if inside else None
