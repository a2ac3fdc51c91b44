"""Dilated convolutions as plain ones of every d-th row and column, which Winograd's algorithm computes.

    %y = conv(dilation=(2,2)) %x, %w    ->    %a = reshape, transpose %x      [4n, c, h/2, w/2]: batches of sub-maps
                                              %b = conv %a, %w
                                              %y = transpose, reshape %b      (and a slice, where 2 does not divide)

Twice a map is turned for it, but not between two such convolutions. Small sub-maps fill tiles badly, so it is not
always faster: `Model.treat` tries it where `cenote diagnose` finds dilated convolutions that take long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.movement.pad import Pad
from cenote.ops.movement.parts import Slice
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.passes.cleanup import fresh

_WINDOW = (3, 3)  # window for which Winograd's algorithm has tiles


def space_to_batch(graph: Graph) -> Graph:
    """Return the graph with such convolutions on batches of sub-maps."""
    writer = _Writer(graph)
    for node in graph.nodes:
        shape = _dilated(graph, node)
        if shape is None:
            writer.nodes.append(node)
        else:
            writer.write(node, shape)
    return writer.result() if len(writer.nodes) > len(graph.nodes) else graph


def _dilated(graph: Graph, node: Node) -> ConvShape | None:
    """Return the sizes of a convolution that Winograd's algorithm would compute except for its dilation."""
    op = node.op
    if not isinstance(op, Conv) or op.pool or op.exact:
        return None
    x, w = graph.type_of(node.inputs[0]), graph.type_of(node.inputs[1])
    if x is None or w is None or x.dtype != np.float32 or any(map(is_size, (*x.shape, *w.shape))):
        return None
    shape = op.shape(x, w)
    plain = shape.window == _WINDOW and shape.strides == (1, 1) and shape.groups == 1
    return shape if plain and max(shape.dilations) > 1 else None


@dataclass(frozen=True)
class _Axis:
    """Cut of an axis into `step` sub-axes of `length` elements, with `before` and `after` zeros added to the axis. The
    plain convolution pads each sub-axis by `pads` and has `out` outputs along it."""

    step: int
    before: int
    after: int
    length: int
    pads: tuple[int, int]
    out: int

    @staticmethod
    def of(shape: ConvShape, axis: int) -> _Axis:
        step, size, (begin, _) = shape.dilations[axis], shape.size[axis], shape.pads[axis]
        before = begin % step  # zeros that are not a whole number of sub-pixels
        length = -(-(before + size) // step)
        out = -(-shape.out[axis] // step)
        front = begin // step
        back = max(0, out + shape.window[axis] - 1 - front - length)
        after = length * step - before - size
        return _Axis(
            step, before, after, length, (front, back), front + length + back - shape.window[axis] + 1
        )

    def of_output(self, size: int) -> _Axis:
        """Return the cut of the output's axis."""
        return _Axis(self.step, 0, self.out * self.step - size, self.out, (0, 0), self.out)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, list[Node]()
        self.constants: dict[str, Array] = dict(graph.constants)
        self.types = dict(graph.types)
        self.taken = set(graph.values())
        # Values whose sub-maps exist, with the numbers of rows and columns of these.
        self.cut: dict[str, tuple[str, int, int]] = {}

    def result(self) -> Graph:
        return self.graph.replace(nodes=tuple(self.nodes), constants=self.constants, types=self.types)

    def write(self, node: Node, shape: ConvShape) -> None:
        """Write the nodes in place of a dilated convolution."""
        assert isinstance(node.op, Conv)
        rows, columns = _Axis.of(shape, 0), _Axis.of(shape, 1)
        value = self.batched(node.inputs[0], (rows, columns))
        others = list(node.inputs[1:])
        if node.op.residual:
            others[-1] = self.batched(
                others[-1], (rows.of_output(shape.out[0]), columns.of_output(shape.out[1]))
            )
        plain = replace(node.op, dilations=(), auto_pad="NOTSET", pads=(rows.pads, columns.pads))
        value = convolved = self.add(plain, value, *others, label=node.title)
        sizes = (shape.n, shape.filters, rows.out * rows.step, columns.out * columns.step)
        value = self.reshape(value, (rows.step, columns.step, *sizes[:2], rows.out, columns.out))
        value = self.add(Transpose((2, 3, 4, 0, 5, 1)), value)
        if sizes[2:] == tuple(shape.out):
            self.reshape(value, sizes, node.outputs[0])
            self.cut[node.outputs[0]] = convolved, rows.step, columns.step
        else:
            value = self.reshape(value, sizes)
            ranges = self.numbers((0, 0)), self.numbers(shape.out), self.numbers((2, 3))
            self.add(Slice(), value, *ranges, name=node.outputs[0])

    def batched(self, value: str, axes: tuple[_Axis, _Axis]) -> str:
        """Return a value as a batch of its sub-maps."""
        kind, (rows, columns) = self._type(value), axes
        assert kind is not None
        images, channels = kind.shape[:2]
        if any((axis.before, axis.after) != (0, 0) for axis in axes):
            pads = ((0, 0), (0, 0), (rows.before, rows.after), (columns.before, columns.after))
            value = self.add(Pad(pads, value=0.0), value)
        elif self.cut.get(value, ("",))[1:] == (rows.step, columns.step):
            return self.cut[value][0]  # it comes from such a convolution: no transpose is needed
        value = self.reshape(value, (images, channels, rows.length, rows.step, columns.length, columns.step))
        value = self.add(Transpose((3, 5, 0, 1, 2, 4)), value)
        return self.reshape(value, (rows.step * columns.step * images, channels, rows.length, columns.length))

    def add(self, op: Op, *inputs: str, name: str = "", label: str = "") -> str:
        """Add a node; return its output's name."""
        name = name or fresh(inputs[0], self.taken)
        self.nodes.append(Node(op, inputs, (name,), label))
        (self.types[name],) = op.infer(*(self._type(each) for each in inputs))
        return name

    def reshape(self, value: str, shape: Sequence[int], name: str = "") -> str:
        return self.add(Reshape(allow_zero=True), value, self.numbers(shape), name=name)

    def numbers(self, values: Sequence[int]) -> str:
        """Return a constant of whole numbers."""
        name = fresh("numbers", self.taken)
        self.constants[name] = np.array(values, np.int64)
        self.types[name] = TensorType.known(self.constants[name])
        return name

    def _type(self, name: str) -> TensorType | None:
        if name in self.constants:
            return TensorType.known(self.constants[name])
        return self.types[name] if name else None
