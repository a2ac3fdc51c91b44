"""Group normalisation in the pieces that torch writes, as the operator.

    %r = reshape %x                                  [n, g, l]
    %i = instance_normalization %r, ones, zeros
    %b = reshape %i                                  [n, c, h, w]      ->    %y = group_normalization %x, %w, %v
    %m = mul %b, %w                                  w: [c, 1, 1]
    %y = add %m, %v

The pieces are of plain memory, between two conversions of the map and two more passes over it.
"""

from __future__ import annotations

import math

import numpy as np

from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.binary import Add, Mul
from cenote.ops.movement.reshape import Reshape
from cenote.ops.normalization.instance_normalization import GroupNormalization, InstanceNormalization
from cenote.passes.cleanup import fresh


def recognize_group_norms(graph: Graph) -> Graph:
    """Return the graph with the operator in place of the last of its pieces; what only they read is dead."""
    norms = [node for node in graph.nodes if type(node.op) is InstanceNormalization]
    if not norms:
        return graph
    search = _Search(graph)
    made = {id(found[0]): found[1] for found in map(search.group_norm, norms) if found is not None}
    if not made:
        return graph
    nodes = tuple(made.get(id(node), node) for node in graph.nodes)
    return graph.replace(nodes=nodes, constants=search.constants, types=search.types)


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers, self.users = graph, graph.producers(), graph.users()
        self.constants, self.types, self.taken = dict(graph.constants), dict(graph.types), set(graph.values())

    def group_norm(self, node: Node) -> tuple[Node, Node] | None:
        """Return the last piece around an instance normalisation, and the node that computes the same."""
        view, back, op = self.producers.get(node.inputs[0]), self._reader(node), node.op
        if (
            view is None
            or back is None
            or not isinstance(view.op, Reshape)
            or not isinstance(back.op, Reshape)
        ):
            return None
        x, rows = self.graph.type_of(view.inputs[0]), self.graph.types[node.inputs[0]]
        if x is None or not isinstance(op, InstanceNormalization) or not self._are_groups(x, rows):
            return None
        if self.graph.types[back.outputs[0]].bare.key != x.bare.key:
            return None
        parameters = [self.graph.constants.get(name) if name else None for name in node.inputs[1:3]]
        if len(parameters) != 2 or any(each is None for each in parameters):
            return None
        each = x.shape[1] // rows.shape[1]
        scale, bias = (np.repeat(value, each) for value in parameters if value is not None)
        last = back
        factor = self._parameter(last, Mul, x)
        if factor is not None:
            last, scale, bias = factor[0], scale * factor[1], bias * factor[1]
        offset = self._parameter(last, Add, x)
        if offset is not None:
            last, bias = offset[0], bias + offset[1]
        group = GroupNormalization(rows.shape[1], op.epsilon, accumulate=op.accumulate)
        inputs = (view.inputs[0], self._constant(scale), self._constant(bias))
        return last, Node(group, inputs, last.outputs, node.label)

    def _are_groups(self, x: TensorType, rows: TensorType) -> bool:
        """Whether rows are those of groups of channels of a map."""
        if (
            not is_float(x.dtype)
            or x.rank < 3
            or rows.rank < 3
            or is_size(x.shape[1])
            or is_size(rows.shape[1])
        ):
            return False
        (n, channels, *space), (pictures, groups, *rest) = x.shape, rows.shape
        whole = groups > 0 and channels % groups == 0 and always_equal(n, pictures)
        return whole and always_equal(math.prod(rest), channels // groups * math.prod(space))

    def _reader(self, node: Node) -> Node | None:
        """Return the node that alone reads a result, once."""
        name = node.outputs[0]
        readers = self.users.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.graph.outputs else None

    def _parameter(self, node: Node, kind: type[Op], x: TensorType) -> tuple[Node, Array] | None:
        """Return the operator that takes a node's result and a constant per channel, and the constant."""
        reader, name = self._reader(node), node.outputs[0]
        if reader is None or not isinstance(reader.op, kind) or len(reader.inputs) != 2:
            return None
        value = self.graph.constants.get(reader.inputs[1] if reader.inputs[0] == name else reader.inputs[0])
        if value is None or value.ndim > x.rank:
            return None
        shape = (1,) * (x.rank - value.ndim) + value.shape
        along = (1, x.shape[1], *(1,) * (x.rank - 2))
        return (reader, value.ravel()) if shape == along else None

    def _constant(self, value: Array) -> str:
        name = fresh("group", self.taken)
        self.constants[name], self.types[name] = value, TensorType(value.dtype, value.shape)
        return name
