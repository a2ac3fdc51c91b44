"""LayerNormalization and RMSNormalization in the pieces that exporters write.

    d = x - mean(x), y = d / sqrt(mean(d * d) + epsilon), y * scale + bias     ->    layer_normalization
            y = x / sqrt(mean(x * x) + epsilon), y * scale                     ->    rms_normalization

The means run over the last axes. The square may be a product or a power, the quotient a product with a reciprocal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.binary import Add, Div, Mul, Pow, Sub
from cenote.ops.elementwise.unary import Reciprocal, Sqrt
from cenote.ops.normalization.layer_normalization import LayerNormalization, RMSNormalization
from cenote.ops.reduction.reduce import ReduceMean
from cenote.passes.cleanup import unused


@dataclass(frozen=True)
class _Core:
    """Core of a normalisation: the value, over the axes from `axis` on, by deviation from the mean (`centred`) or by
    magnitude."""

    x: str
    axis: int
    epsilon: float
    centred: bool


def recognize_normalizations(graph: Graph) -> Graph:
    """Put the normalisation in the place of the last node of its pieces."""
    return _Search(graph).run()


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.producers, self.users = graph, graph.producers(), graph.users()
        self.constants: dict[str, Array] = dict(graph.constants)
        self.taken = set(graph.values())
        self.found: dict[str, Node] = {}  # by the output that they make

    def run(self) -> Graph:
        for node in self.graph.nodes:
            core = self._core(node)
            if core is not None:
                self._replace(node, core)
        if not self.found:
            return self.graph
        nodes = tuple(self.found.get(node.outputs[0], node) for node in self.graph.nodes)
        types = dict(self.graph.types)
        return self.graph.replace(nodes=nodes, constants=self.constants, types=types)

    # ---- the pieces -------------------------------------------------------------------------------------------

    def _made_by(self, name: str, *kinds: type[Op]) -> Node | None:
        node = self.producers.get(name)
        return node if node is not None and isinstance(node.op, kinds) else None

    def _number(self, name: str) -> float | None:
        value = self.constants.get(name)
        if value is None or value.size != 1:
            return None
        return float(np.asarray(value, np.float64).reshape(()))

    def _core(self, node: Node) -> _Core | None:
        kind = self.graph.type_of(node.outputs[0]) if node.outputs else None
        if kind is None or not is_float(kind.dtype) or len(node.inputs) != 2:
            return None
        if isinstance(node.op, Div):
            return self._normalized(node.inputs[0], node.inputs[1])
        if not isinstance(node.op, Mul):
            return None
        for d, other in (node.inputs, node.inputs[::-1]):
            inverse = self._made_by(other, Reciprocal, Div)
            if inverse is None or (isinstance(inverse.op, Div) and self._number(inverse.inputs[0]) != 1):
                continue
            core = self._normalized(d, inverse.inputs[-1])
            if core is not None:
                return core
        return None

    def _normalized(self, d: str, root: str) -> _Core | None:
        """Return the core of d / root."""
        root_node = self._made_by(root, Sqrt)
        total = None if root_node is None else self._made_by(root_node.inputs[0], Add)
        if total is None or len(total.inputs) != 2:
            return None
        for mean, constant in (total.inputs, total.inputs[::-1]):
            epsilon = self._number(constant)
            square, axis = self._mean(mean)
            if epsilon is None or square is None or axis is None or self._root_of(square) != d:
                continue
            if not epsilon >= 0:
                continue
            difference = self._made_by(d, Sub)
            if difference is not None:
                centre, over = self._mean(difference.inputs[1])
                if centre == difference.inputs[0] and over == axis:
                    return _Core(difference.inputs[0], axis, epsilon, True)
            return _Core(d, axis, epsilon, False)
        return None

    def _mean(self, name: str) -> tuple[str | None, int | None]:
        """Return the value of which a value is the mean, over all axes from one on that stay with extent 1."""
        node = self._made_by(name, ReduceMean)
        if node is None or not isinstance(node.op, ReduceMean):
            return None, None
        rank = self.graph.type_of(node.inputs[0])
        axes = node.op.axes
        if rank is None or axes is None or not node.op.keepdims or not axes:
            return None, None
        places = sorted(axis % rank.rank for axis in axes)
        if places != list(range(places[0], rank.rank)):
            return None, None
        return node.inputs[0], places[0]

    def _root_of(self, name: str) -> str | None:
        """Return the value of the same shape of which a value is the square."""
        node = self._made_by(name, Mul, Pow)
        if node is None or len(node.inputs) != 2 or self._type(name) != self._type(node.inputs[0]):
            return None
        if isinstance(node.op, Pow):
            return node.inputs[0] if self._number(node.inputs[1]) == 2 else None
        return node.inputs[0] if node.inputs[0] == node.inputs[1] else None

    # ---- scale and bias ---------------------------------------------------------------------------------------

    def _replace(self, node: Node, core: _Core) -> None:
        x = self.graph.type_of(core.x)
        if x is None:
            return
        last, scale = self._following(node, Mul, x.shape[core.axis :])
        bias = ""
        if scale and core.centred:
            last, bias = self._following(last, Add, x.shape[core.axis :])
        if not scale:
            scale = unused(f"{node.outputs[0]}~scale", self.taken)
            self.constants[scale] = np.ones([int(extent) for extent in x.shape[core.axis :]], x.dtype)
        inputs = (core.x, scale, *((bias,) if bias else ()))
        kind = LayerNormalization if core.centred else RMSNormalization
        op = kind(axis=core.axis, epsilon=core.epsilon)
        result_type = op.infer(*(self._type(name) for name in inputs))[0]
        if result_type == self.graph.type_of(last.outputs[0]):
            self.found[last.outputs[0]] = replace(last, op=op, inputs=inputs)

    def _type(self, name: str) -> TensorType:
        return TensorType.known(self.constants[name]) if name in self.constants else self.graph.types[name]

    def _following(self, node: Node, kind: type[Op], shape: tuple[int, ...]) -> tuple[Node, str]:
        """Return the one user of a node, and the other value that it combines the result with, if that is a tensor of
        this shape."""
        users = self.users.get(node.outputs[0], [])
        if len(users) != 1 or node.outputs[0] in self.graph.outputs or not isinstance(users[0].op, kind):
            return node, ""
        user = users[0]
        if len(user.inputs) != 2 or user.inputs[0] == user.inputs[1]:
            return node, ""
        other = user.inputs[1] if user.inputs[0] == node.outputs[0] else user.inputs[0]
        kind_of = self.graph.type_of(other)
        return (user, other) if kind_of is not None and kind_of.shape == shape else (node, "")
