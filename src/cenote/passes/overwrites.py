"""Slices written into a tensor element by element, as exporters do (`x[:, 2:5] = y` in PyTorch), joined instead.

    %i = concat(axis=-1) %c0, %c1           ->    %before = slice %data [:, :2]
    %y = scatter_nd %data, %i, %updates           %behind = slice %data [:, 5:]
                                                  %y = concat(axis=1) %before, %updates, %behind

Here %c0 is the number of the row and %c1 that of the column of each element of the updates. A coordinate is an
Unsqueeze of an Expand of consecutive numbers along its axis: a constant, or a Range whose extent depends on open sizes;
or all the indices are a constant. Updates that cover the whole tensor are the result. Those of a small part stay: they
may be written in place, where a join copies everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.formulas.certain import always_at_most, always_equal
from cenote.core.sizes import is_size, plain
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.movement.parts import Concat, Slice
from cenote.ops.movement.reshape import Expand, Identity, Reshape, Unsqueeze
from cenote.ops.movement.scatter import ScatterND
from cenote.ops.movement.shape import Range
from cenote.passes.cleanup import fresh

# An axis, the first place that the updates cover, and the first behind them; None: they cover the rest.
_Covered = tuple[int, int, int | None]
# An element is scattered in the time in which so many are copied (11 ns, and 1).
_WORTH_COPYING = 8
_END = np.iinfo(np.int64).max


def recognize_overwrites(graph: Graph) -> Graph:
    """Return the graph with slices and joins in place of such nodes."""
    search = _Search(graph)
    starts = {node.outputs[0]: found for node in graph.nodes if (found := search.starts(node))}
    return _Joiner(graph).join(starts) if starts else graph


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers = graph, graph.producers()

    def starts(self, node: Node) -> list[int]:
        """Return the first place along each axis that a node has coordinates of, if it writes its updates in order,
        each to a place of its own, whatever the sizes are; none where it does something else."""
        if not isinstance(node.op, ScatterND) or node.op.reduction != "none":
            return []
        data, indices, updates = (self.graph.types[name] for name in node.inputs)
        if plain(updates.size) * _WORTH_COPYING < plain(data.size):
            return []
        extents, coordinates = indices.shape[:-1], self._coordinates(node.inputs[1])
        if not coordinates or len(coordinates) != len(extents):
            return []
        starts = []
        for axis, (coordinate, extent) in enumerate(zip(coordinates, extents, strict=True)):
            start = self._start(coordinate, extent, len(extents) - 1 - axis)
            if start is None or not _ends_inside(start + extent, data.shape[axis]):
                return []
            starts.append(start)
        return starts

    def _coordinates(self, indices: str) -> list[str | Array]:
        """Return the coordinates of each axis, in constants or the names of values that broadcast to the updates'
        leading axes; none where they are not known."""
        constant = self._constant(indices)
        if constant is not None:
            return list(np.moveaxis(constant, -1, 0))
        maker, rank = self.producers.get(indices), self.graph.types[indices].rank
        joins = maker is not None and isinstance(maker.op, Concat) and maker.op.axis % rank == rank - 1
        names = maker.inputs if maker is not None and joins else (indices,)
        found = [self._column(name) for name in names]
        return [column for column in found if column is not None]

    def _column(self, name: str) -> str | Array | None:
        """Return the one column of a value (..., 1), without its last axis, before it is repeated."""
        shape = self.graph.types[name].shape
        column, maker = self._constant(name), self.producers.get(name)
        if column is not None:
            return column[..., 0] if shape[-1] == 1 else None
        if maker is None or not isinstance(maker.op, Unsqueeze | Reshape):
            return None
        lifted = self.graph.types[maker.inputs[0]].shape
        if len(shape) != len(lifted) + 1 or not all(map(always_equal, (*lifted, 1), shape)):
            return None
        expand = self.producers.get(maker.inputs[0])
        name = expand.inputs[0] if expand is not None and isinstance(expand.op, Expand) else maker.inputs[0]
        constant = self._constant(name)
        return name if constant is None else constant

    def _start(self, coordinate: str | Array, extent: int, behind: int) -> int | None:
        """Return the first of consecutive numbers along an axis of this extent with so many behind it, alike along all
        others; None where a constant or a value is no such numbers."""
        if not isinstance(coordinate, str):
            return _first(coordinate, extent, behind)
        name = coordinate
        if not _lies_along(self.graph.types[name].shape, extent, behind):
            return None
        skipped = 0
        while (maker := self.producers.get(name)) is not None:
            if isinstance(maker.op, Range):
                start, step = (self._constant(maker.inputs[index]) for index in (0, 2))
                counts = start is not None and step is not None and start >= 0 and step == 1
                return int(start) + skipped if counts and start is not None else None
            if isinstance(maker.op, Slice) and self.graph.types[maker.inputs[0]].rank == 1:
                (taken,) = maker.op.ranges(*maker.op.arranged(self.graph.input_types(maker)))
                if is_size(taken.start) or taken.step != 1:
                    return None
                skipped += taken.start
            elif not isinstance(maker.op, Reshape | Unsqueeze):
                return None
            name = maker.inputs[0]
        return None

    def _constant(self, name: str) -> Array | None:
        value = self.graph.constants.get(name)
        return None if isinstance(value, SizedArray) else value


def _lies_along(shape: tuple[int, ...], extent: int, behind: int) -> bool:
    """Whether a value has this extent along the axis with so many behind it, and 1 along all others."""
    wanted = (*[1] * (len(shape) - 1 - behind), extent, *[1] * behind)
    return len(shape) == len(wanted) and all(map(always_equal, shape, wanted))


def _ends_inside(end: int, extent: int) -> bool:
    """Whether an end is that of the axis, or a known number that the axis always reaches."""
    return always_equal(end, extent) or (not is_size(end) and always_at_most(end, extent))


def _first(coordinate: Array, extent: int, behind: int) -> int | None:
    """Return the first number of a constant that counts along the axis, alike along all others."""
    if is_size(extent) or not coordinate.size or (start := int(coordinate.flat[0])) < 0:
        return None
    return start if (coordinate == start + np.arange(extent).reshape(-1, *[1] * behind)).all() else None


class _Joiner:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.taken = graph, set(graph.values())
        self.types, self.constants = dict(graph.types), dict(graph.constants)
        self.nodes: list[Node] = []

    def join(self, starts: Mapping[str, list[int]]) -> Graph:
        """Return the graph with updates joined to what is around them in place of the nodes whose results have
        starts."""
        for node in self.graph.nodes:
            result = node.outputs[0]
            if result in starts:
                self._join(node, node.inputs[0], self._around(node, starts[result]), result)
            else:
                self.nodes.append(node)
        return self.graph.replace(nodes=tuple(self.nodes), types=self.types, constants=self.constants)

    def _around(self, node: Node, starts: list[int]) -> list[_Covered]:
        """Return the axes along which the updates leave something of the data."""
        data, _, updates = (self.types[name] for name in node.inputs)
        ends = [start + extent for start, extent in zip(starts, updates.shape, strict=False)]
        return [
            (axis, start, None if always_equal(end, extent) else end)
            for axis, (start, end, extent) in enumerate(zip(starts, ends, data.shape, strict=False))
            if start or not always_equal(end, extent)
        ]

    def _join(self, node: Node, data: str, around: list[_Covered], result: str) -> None:
        """Add the nodes that make a value: the data, with the updates in the covered part of these axes."""
        if not around:
            self.nodes.append(Node(Identity(), node.inputs[2:], (result,), node.label))
            return
        (axis, start, end), *others = around
        inner = node.inputs[2]
        if others:
            inner = fresh(result, self.taken)
            middle = self._slice(node, data, axis, start, end)
            self._join(node, middle, others, inner)
            self.types[inner] = self.types[middle]
        before = [self._slice(node, data, axis, 0, start)] if start else []
        behind = [] if end is None else [self._slice(node, data, axis, end, None)]
        self.nodes.append(Node(Concat(axis), (*before, inner, *behind), (result,), node.label))

    def _slice(self, node: Node, data: str, axis: int, start: int, end: int | None) -> str:
        """Add a node that takes part of an axis."""
        bounds = {"start": start, "end": _END if end is None else end, "axis": axis}
        names = [fresh(f"{node.outputs[0]}.{each}", self.taken) for each in bounds]
        for name, bound in zip(names, bounds.values(), strict=True):
            self.constants[name] = np.array([bound], np.int64)
            self.types[name] = TensorType.known(self.constants[name])
        taken = fresh(node.outputs[0], self.taken)
        (self.types[taken],) = Slice().infer(self.types[data], *(self.types[name] for name in names))
        self.nodes.append(Node(Slice(), (data, *names), (taken,), node.label))
        return taken
