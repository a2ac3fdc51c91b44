"""Slices written into a tensor element by element, as exporters do, that cover it: the result is what is written.

    %i = concat(axis=-1) %c0, %c1           ->    %y = identity %updates
    %y = scatter_nd %data, %i, %updates

Here %c0 is the number of the row and %c1 that of the column of each element of the updates: `x[:, :] = y` in PyTorch,
or with bounds that turn out to be the whole extent. A coordinate is an Unsqueeze of an Expand of consecutive numbers
along its axis, which is too large to be folded where the tensor is, or the indices are a constant.
"""

from __future__ import annotations

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.sizes import is_size
from cenote.core.types import Array
from cenote.graph.graph import Graph, Node
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.reshape import Expand, Identity, Reshape, Unsqueeze
from cenote.ops.movement.scatter import ScatterND


def recognize_overwrites(graph: Graph) -> Graph:
    """Return the graph with the updates in place of the results of such nodes."""
    search = _Search(graph)
    nodes = tuple(
        Node(Identity(), node.inputs[2:], node.outputs, node.label) if search.overwrites(node) else node
        for node in graph.nodes
    )
    return (
        graph if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)) else graph.replace(nodes=nodes)
    )


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers = graph, graph.producers()

    def overwrites(self, node: Node) -> bool:
        """Whether a node writes each element once, in order."""
        if not isinstance(node.op, ScatterND) or node.op.reduction != "none":
            return False
        data, indices, updates = (self.graph.types[name] for name in node.inputs)
        if any(map(is_size, (*data.shape, *indices.shape))) or updates.shape != data.shape:
            return False
        coordinates = self._coordinates(node.inputs[1])
        return len(coordinates) == indices.rank - 1 and all(
            _counts(coordinate, extent, len(coordinates) - 1 - axis)
            for axis, (coordinate, extent) in enumerate(zip(coordinates, data.shape, strict=False))
        )

    def _coordinates(self, indices: str) -> list[Array]:
        """Return the coordinates in each axis, in arrays that broadcast to the updates' leading axes; none where they
        are not known."""
        constant = self._constant(indices)
        if constant is not None:
            return list(np.moveaxis(constant, -1, 0))
        joined, rank = self.producers.get(indices), self.graph.types[indices].rank
        if joined is None or not isinstance(joined.op, Concat) or joined.op.axis % rank != rank - 1:
            return []
        found = [self._column(name) for name in joined.inputs]
        return [column for column in found if column is not None]

    def _column(self, name: str) -> Array | None:
        """Return the one column of a value (..., 1), without its last axis, before it is repeated."""
        shape = self.graph.types[name].shape
        column, maker = self._constant(name), self.producers.get(name)
        if column is not None:
            return column[..., 0] if shape[-1] == 1 else None
        if maker is None or not isinstance(maker.op, Unsqueeze | Reshape):
            return None
        if (*self.graph.types[maker.inputs[0]].shape, 1) != shape:
            return None
        expand = self.producers.get(maker.inputs[0])
        if expand is None or not isinstance(expand.op, Expand):
            return self._constant(maker.inputs[0])
        return self._constant(expand.inputs[0])

    def _constant(self, name: str) -> Array | None:
        value = self.graph.constants.get(name)
        return None if isinstance(value, SizedArray) else value


def _counts(coordinate: Array, extent: int, behind: int) -> bool:
    """Whether a coordinate counts the places along an axis with so many axes behind it, alike along all others."""
    return bool((coordinate == np.arange(extent).reshape(-1, *[1] * behind)).all())
