"""Convolutions between tokens: maps turned with their channels in one step, activations where the convolution is.

    %t = transpose(order=(0,2,1)) %x      [n, l, c]          %m = reshape %x           [n, h, w, c]
    %m = reshape %t                       [n, c, h, w]       %t = transpose %m         [n, c, h, w]
    %y = conv %m, %w                                 ->      %y = conv %t, %w
    %r = reshape %y                       [n, c, l]          %g = gelu %y
    %g = gelu %r                                             %r = transpose %g         [n, h, w, c]
    %z = transpose(order=(0,2,1)) %g      [n, l, c]          %z = reshape %r           [n, l, c]

Transformers with convolutions in them (PVT, SegFormer) are written as on the left: four passes over memory more, since
channels go to their blocks and back in one step only where the map has its axes. Open sizes stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import ActivationOp
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.ops.reorder import channels_first_order, channels_last_order
from cenote.passes.cleanup import eliminate_dead, fresh


def turn_tokens(graph: Graph) -> Graph:
    """Return the graph in which what lies between tokens and convolutions is on the map's axes."""
    kinds = {type(node.op) for node in graph.nodes}
    if not {Conv, Transpose} <= kinds:
        return graph
    alive = eliminate_dead(graph)  # pieces of activations read tokens too
    return _Turns(_Turns(alive).with_activations_first()).turned()


class _Turns:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers, self.users = graph, graph.producers(), graph.users()
        self.constants, self.types, self.taken = dict(graph.constants), dict(graph.types), set(graph.values())
        self.changed: dict[int, Node] = {}

    def with_activations_first(self) -> Graph:
        """Return the graph with activations of a convolution's reshaped result before the reshape."""
        for node in self.graph.nodes:
            view = self._alone(node.inputs[0], Reshape) if isinstance(node.op, ActivationOp) else None
            if view is None or self._alone(view.inputs[0], Conv) is None:
                continue
            made = self._value(view.inputs[0], self.types[view.inputs[0]].shape)
            self.changed[id(view)] = Node(node.op, view.inputs[:1], (made,), node.label)
            self.changed[id(node)] = Node(view.op, (made, *view.inputs[1:]), node.outputs, view.label)
        return self._made()

    def turned(self) -> Graph:
        """Return the graph with transposes of maps in place of those of tokens."""
        for node in self.graph.nodes:
            for before, after in (*self._to_map(node), *self._from_map(node)):
                self.changed |= {id(before[0]): before[1], id(after[0]): after[1]}
        return self._made()

    def _to_map(self, view: Node) -> Iterator[tuple[tuple[Node, Node], tuple[Node, Node]]]:
        """Yield the turn of tokens and the reshape to a map, each with what takes its place."""
        swap = self._alone(view.inputs[0], Transpose) if isinstance(view.op, Reshape) else None
        map_ = view.outputs[0]
        if swap is None or not any(isinstance(user.op, Conv) for user in self.users.get(map_, [])):
            return
        if self._are_of(self.types[view.inputs[0]], self.types[map_]) and self._swaps(swap):
            n, c, *space = self.types[map_].shape
            spread = self._value(swap.inputs[0], (n, *space, c))
            order = channels_first_order(2 + len(space))
            yield (
                (swap, self._reshape(swap, spread)),
                (view, Node(Transpose(order), (spread,), view.outputs, view.label)),
            )

    def _from_map(self, swap: Node) -> Iterator[tuple[tuple[Node, Node], tuple[Node, Node]]]:
        """Yield the reshape of a map to rows and the turn to tokens, each with what takes its place."""
        view = self._alone(swap.inputs[0], Reshape) if isinstance(swap.op, Transpose) else None
        if view is None or not self._is_convolved(view.inputs[0]):
            return
        if self._are_of(self.types[swap.inputs[0]], self.types[view.inputs[0]]) and self._swaps(swap):
            n, c, *space = self.types[view.inputs[0]].shape
            spread = self._value(view.inputs[0], (n, *space, c))
            order = channels_last_order(2 + len(space))
            yield (
                (view, Node(Transpose(order), view.inputs[:1], (spread,), view.label)),
                (swap, self._reshape(swap, swap.outputs[0], spread)),
            )

    def _is_convolved(self, name: str) -> bool:
        """Whether a value is that of a convolution, or of its activation."""
        maker = self.producers.get(name)
        if maker is not None and isinstance(maker.op, ActivationOp):
            maker = self.producers.get(maker.inputs[0])
        return maker is not None and isinstance(maker.op, Conv)

    def _alone(self, name: str, kind: type[object]) -> Node | None:
        """Return the node of a kind that makes a value which one other node reads, once."""
        maker = self.producers.get(name)
        read_once = len(self.users.get(name, [])) == 1 and name not in self.graph.outputs
        if maker is None or id(maker) in self.changed or not read_once:
            return None
        return maker if isinstance(maker.op, kind) else None

    def _are_of(self, rows: TensorType, map_: TensorType) -> bool:
        """Whether rows [n, c, l] are a map's [n, c, *space]."""
        if rows.rank != 3 or map_.rank not in (4, 5) or any(map(is_size, (*rows.shape, *map_.shape))):
            return False
        return rows.shape[:2] == map_.shape[:2] and rows.size > 0

    def _swaps(self, swap: Node) -> bool:
        assert isinstance(swap.op, Transpose)
        return swap.op.axes(3) == (0, 2, 1)

    def _reshape(self, swap: Node, to: str, source: str = "") -> Node:
        shape = fresh(f"{to}.shape", self.taken)
        self.constants[shape] = np.array(self.types[to].shape, np.int64)
        self.types[shape] = TensorType.of(np.int64, (self.types[to].rank,))
        return Node(Reshape(), (source or swap.inputs[0], shape), (to,), swap.label)

    def _value(self, stem: str, shape: tuple[int, ...]) -> str:
        name = fresh(stem, self.taken)
        self.types[name] = TensorType(self.types[stem].dtype, shape)
        return name

    def _made(self) -> Graph:
        if not self.changed:
            return self.graph
        nodes = tuple(self.changed.get(id(node), node) for node in self.graph.nodes)
        gone = {name for node in self.graph.nodes for name in node.outputs} - {
            name for node in nodes for name in node.outputs
        }
        types = {name: type for name, type in self.types.items() if name not in gone}
        return self.graph.replace(nodes=nodes, constants=self.constants, types=types)
