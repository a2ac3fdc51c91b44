"""Moves transposes of channels behind operators that allow it, until they meet their inverse and both vanish.

Exporters of networks whose channels lie last surround every convolution and pool by a transpose to channels first and
one back:

    %a = transpose(order=(0,3,1,2)) %x        %a = transpose(order=(0,3,1,2)) %x
    %b = conv %a, %w                          %b = conv %a, %w
    %c = transpose(order=(0,2,3,1)) %b   ->   %d = relu %b
    %d = relu %c                              %f = conv %d, %v
    %e = transpose(order=(0,3,1,2)) %d
    %f = conv %e, %v

A transpose is not put where it stands: its result is remembered as "that value, its axes in this order", elementwise
operators, reductions, concatenations and the like work on the value as it is, with their axes and constants moved,
and only an operator that knows no such rule (or the end of the graph) has the transpose made. A graph that would not
lose any transpose stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.movement.reshape import Flatten, Identity, Reshape, Squeeze, Unsqueeze
from cenote.ops.movement.transpose import Transpose
from cenote.passes.cleanup import fresh
from cenote.passes.transpose_rules import RULES, Order, Turned, inverse, is_identity, moves_channels


def sink_transposes(graph: Graph) -> Graph:
    """Return the graph with fewer transposes, or itself."""
    before = _count(graph.nodes)
    if not before:
        return graph
    moved = _Walk(graph).result()
    return moved if _count(moved.nodes) < before else graph


def _count(nodes: Sequence[Node]) -> int:
    return sum(isinstance(node.op, Transpose) for node in nodes)


class _Walk:
    """One walk over the nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = dict(graph.constants)
        self.types: dict[str, TensorType] = dict(graph.types)
        self.taken = set(graph.values())
        self.turned: dict[str, Turned] = {}
        self.flat: dict[
            str, tuple[Turned, Node]
        ] = {}  # transposed maps that were flattened, and the nodes that did so
        self.made: dict[str, str] = {}  # transposed values that had to be made after all
        self.views: dict[str, Node] = {}  # nodes that only give a transposed map another shape

    def result(self) -> Graph:
        for node in self.graph.nodes:
            if (
                not self._turn(node)
                and not self._flatten(node)
                and not self._multiply(node)
                and not self._move(node)
            ):
                self.nodes.append(replace(node, inputs=tuple(self.real(name) for name in node.inputs)))
        for name in self.graph.outputs:
            if name in self.turned or name in self.flat:
                real_name = self.real(name)
                if real_name != name:
                    self.nodes.append(Node(Identity(), (real_name,), (name,)))
        used = {name for node in self.nodes for name in node.inputs} | set(self.graph.outputs)
        known = {name for node in self.nodes for name in node.outputs} | {
            each.name for each in self.graph.inputs
        }
        constants = {name: value for name, value in self.constants.items() if name in used}
        types = {name: kind for name, kind in self.types.items() if name in known or name in constants}
        return self.graph.replace(nodes=tuple(self.nodes), constants=constants, types=types)

    # ---- values -----------------------------------------------------------------------------------------------------

    def real(self, name: str) -> str:
        """Return a value in the graph's own order, made now if it is only known as another one transposed."""
        if name in self.flat:
            _, node = self.flat.pop(name)
            self.nodes.append(replace(node, inputs=(self.real(node.inputs[0]), *node.inputs[1:])))
            return name
        turned_one = self.turned.get(name)
        if turned_one is None:
            return name
        if is_identity(turned_one.order):
            return turned_one.source
        if name not in self.made:
            self.made[name] = name
            if name in self.views:  # its map is transposed instead: where the map is made, that costs least
                node = self.views[name]
                self.nodes.append(replace(node, inputs=(self.real(node.inputs[0]), *node.inputs[1:])))
            else:
                self._emit_turned(turned_one, name)
        return self.made[name]

    def _emit_turned(self, turned: Turned, name: str) -> None:
        """Write the node that transposes; where only axes of extent 1 move, no element does."""
        shape = self.types[turned.source].shape
        moving = [axis for axis in turned.order if is_size(shape[axis]) or shape[axis] != 1]
        units = [axis for axis in range(len(shape)) if axis not in moving]
        if moving != sorted(moving) or not units:
            self.nodes.append(Node(Transpose(turned.order), (turned.source,), (name,)))
            return
        squeezed = self.name(name)
        kept = tuple(shape[axis] for axis in moving)
        self.types[squeezed] = TensorType(self.types[turned.source].dtype, kept)
        back = [place for place, axis in enumerate(turned.order) if axis in units]
        self.nodes.append(
            Node(Squeeze(), (turned.source, self.constant(squeezed, np.array(units))), (squeezed,))
        )
        self.nodes.append(Node(Unsqueeze(), (squeezed, self.constant(name, np.array(back))), (name,)))

    def source(self, name: str) -> Turned:
        """Return a value as a transposed other one; as itself in its own order if nothing is known."""
        return self.turned.get(name) or Turned(name, tuple(range(self.rank(name))))

    def rank(self, name: str) -> int:
        content = self.constants.get(name)
        return self.types[name].rank if content is None else content.ndim

    def name(self, stem: str) -> str:
        return fresh(stem, self.taken)

    def constant(self, stem: str, value: Array) -> str:
        name = self.name(f"{stem}~turned")
        self.constants[name] = value
        self.types[name] = TensorType(value.dtype, value.shape)
        return name

    def _shape(self, name: str) -> tuple[int, ...]:
        content = self.constants.get(name)
        return self.types[name].shape if content is None else content.shape

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def _turn(self, node: Node) -> bool:
        """Remember a transpose."""
        if not isinstance(node.op, Transpose) or node.inputs[0] in self.constants:
            return False
        own = node.op.axes(self.types[node.inputs[0]].rank)
        before = self.source(node.inputs[0])
        order = tuple(before.order[axis] for axis in own)
        if node.inputs[0] not in self.turned and not moves_channels(own):
            return False
        self.turned[node.outputs[0]] = Turned(before.source, order)
        return True

    def _move(self, node: Node) -> bool:
        """Let a node work on the values that its inputs were turned from."""
        orders = {
            turned.order
            for name in node.inputs
            if (turned := self.turned.get(name)) is not None and not is_identity(turned.order)
        }
        if len(orders) != 1 or any(name in self.flat for name in node.inputs):
            return False
        (order,) = orders
        rule = next((rule for kind, rule in RULES.items() if isinstance(node.op, kind)), None)
        moved = None if rule is None else rule(self, node, order)
        if moved is None:
            return False
        outputs = []
        for index, name in enumerate(node.outputs):
            if not name:
                outputs.append("")
                continue
            read = moved.orders[index] if moved.orders else order
            kind = self.types[name]
            shape = tuple(kind.shape[axis] for axis in inverse(read))
            outputs.append(self.name(name))
            self.types[outputs[-1]] = TensorType(kind.dtype, shape)
            self.turned[name] = Turned(outputs[-1], read)
        self.nodes.append(Node(moved.op, moved.inputs, tuple(outputs), node.label))
        if node.op.view:
            self.views[node.outputs[0]] = node
        return True

    def operand(self, name: str, order: Order) -> str | None:
        """Return an operand of an elementwise operator whose other operands are transposed by `order`; None where it
        would take a pass over a whole map."""
        turned = self.turned.get(name)
        if turned is not None and turned.order == order:
            return turned.source
        name, rank = self.real(name), len(order)
        shape = self._shape(name)
        units = [not is_size(extent) and extent == 1 for extent in shape]
        if all(units):
            return name
        content = self.constants.get(name)
        if content is not None:
            full = content.reshape((1,) * (rank - content.ndim) + content.shape)
            return self.constant(name, np.ascontiguousarray(full.transpose(inverse(order))))
        if len(shape) != rank or not any(units):
            return None
        back = self.name(name)
        read = inverse(order)
        self.types[back] = TensorType(self.types[name].dtype, tuple(shape[axis] for axis in read))
        self._emit_turned(Turned(name, read), back)
        return back

    def turn_back(self, name: str, order: Order) -> str:
        """Return a whole map transposed so that `order` gives it back."""
        fresh_name, real, read = self.name(name), self.real(name), inverse(order)
        shape = self.types[real].shape
        self.types[fresh_name] = TensorType(self.types[real].dtype, tuple(shape[axis] for axis in read))
        self.nodes.append(Node(Transpose(read), (real,), (fresh_name,)))
        return fresh_name

    # ---- a flattened map and the product that reads it --------------------------------------------------------------

    def _flatten(self, node: Node) -> bool:
        """Remember a flattening of (N, H, W, C) to (N, H * W * C): the rows of a linear layer's weights can be permuted
        instead."""
        if not isinstance(node.op, Reshape | Flatten) or node.inputs[0] not in self.turned:
            return False
        turned = self.turned[node.inputs[0]]
        inner, out = self.types[turned.source].shape[1:], self.types[node.outputs[0]].shape
        if is_identity(turned.order) or len(out) != 2 or any(map(is_size, (*inner, out[1]))):
            return False
        if out[1] != int(np.prod(inner)):
            return False
        self.flat[node.outputs[0]] = turned, node
        return True

    def _multiply(self, node: Node) -> bool:
        """Compute a product of a flattened map with constant weights on the map as it is, by weights whose rows are
        permuted."""
        if not isinstance(node.op, Gemm | MatMul) or node.inputs[0] not in self.flat:
            return False
        weights = self.constants.get(node.inputs[1])
        turned_a = isinstance(node.op, Gemm) and node.op.transpose_a
        if weights is None or weights.ndim != 2 or turned_a or node.inputs[0] in node.inputs[1:]:
            return False
        if (
            sum(node.inputs[0] in each.inputs for each in self.graph.nodes) != 1
            or node.inputs[0] in self.graph.outputs
        ):
            return False
        turned, reshape = self.flat.pop(node.inputs[0])
        shape = self.types[turned.source].shape
        places = np.arange(int(np.prod(shape[1:]))).reshape(shape[1:])
        rows = places.transpose([axis - 1 for axis in turned.order[1:]]).reshape(-1)
        moved = np.empty_like(weights)
        if isinstance(node.op, Gemm) and node.op.transpose_b:
            moved[:, rows] = weights
        else:
            moved[rows] = weights
        flat = self.name(node.inputs[0])
        self.types[flat] = self.types[node.inputs[0]]
        self.nodes.append(Node(Flatten(1), (turned.source,), (flat,), reshape.label))
        rest = tuple(self.real(name) for name in node.inputs[2:])
        self.nodes.append(replace(node, inputs=(flat, self.constant(node.inputs[1], moved), *rest)))
        return True
