"""Networks of 16-bit floats compute in float32: convolutions, products and all around them.

    %c = conv %x, %w : f16        ->    %x~wide = cast(f32) %x
    %y = relu %c : f16                  %c~wide = conv %x~wide, %w~wide : f32
    return %y                           %y~wide = relu %c~wide : f32
                                        %y = cast(f16) %y~wide
                                        return %y

Constants become float32 here, once. Values are rounded to 16 bits where the model gives them away, where it casts them
itself, and where an operator looks at them without making such floats (a comparison). Between operators nothing is
rounded, so that results are closer to the exact ones than those of a machine with 16-bit arithmetic, and a value past
65504 is no infinity before it gets to an output. Graphs without convolutions, products and recurrent layers keep their
16 bits, in which the other kernels read and write half the bytes.

On request (`Rewrite` "float32") float64 is put in float32 in the same way, which rounds more than the model asks for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from cenote.core.errors import CenoteError
from cenote.core.types import FLOAT32, Array, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.deform_conv import DeformConv
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.einsum import Einsum
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.sequence.attention import Attention
from cenote.ops.sequence.recurrent import GRU, LSTM, RNN
from cenote.passes.cleanup import unused

WORTH_IT = (Attention, Conv, ConvTranspose, DeformConv, Einsum, Gemm, MatMul, GRU, LSTM, RNN)


def widen(graph: Graph, doubles: bool = False) -> Graph:
    """Compute in float32 where a convolution, product or recurrent layer of 16-bit floats is among the nodes; with
    `doubles`, float64 too, wherever it is. Inputs and outputs keep their types."""
    sizes = (
        (2,)
        if any(
            isinstance(node.op, WORTH_IT) and _is_float(graph.type_of(node.inputs[0]), (2,))
            for node in graph.nodes
        )
        else ()
    )
    sizes = (*sizes, 8) if doubles else sizes
    return _Widener(graph, sizes).run() if sizes else graph


def _is_float(kind: TensorType | None, sizes: Collection[int]) -> bool:
    """Whether the type is a float of this number of bytes."""
    return kind is not None and is_float(kind.dtype) and kind.dtype.itemsize in sizes


class _Widener:
    """Rewriter to float32. `sizes`: bytes of the floats that become float32."""

    def __init__(self, graph: Graph, sizes: Collection[int]) -> None:
        self.graph, self.sizes = graph, sizes
        self.nodes: list[Node] = []
        self.types = dict(graph.types)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.wide: dict[str, str] = {}  # the names of values in float32
        self.taken = set(graph.values())
        self.made: set[str] = set()  # values of other floats that exist only in float32 so far

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self._widened(node) and not self._cast(node):
                for name in node.inputs:
                    self._narrowed(name)
                self.nodes.append(node)
        for name in self.graph.outputs:
            self._narrowed(name)
        reasons = {self.wide.get(name, name): reason for name, reason in self.graph.reasons.items()}
        values = self.graph.replace(nodes=tuple(self.nodes), constants=self.constants, reasons=reasons)
        types = {name: self.types[name] for name in values.values() if name in self.types}
        return values.replace(types=types)

    def _widened(self, node: Node) -> bool:
        """Compute the node in float32, if it gives the same types for float32 as for the others."""
        inputs = self.graph.input_types(node)
        outputs = [self.graph.type_of(name) for name in node.outputs]
        if not any(map(self._goes, inputs)) or not any(map(self._goes, outputs)) or isinstance(node.op, Cast):
            return False
        try:
            inferred = node.op.infer(*map(self._type_in_float32, inputs))
        except CenoteError:
            return False
        for got, wanted in zip(inferred, outputs, strict=False):
            expected = self._type_in_float32(wanted)
            if expected is not None and (got.dtype, got.shape) != (expected.dtype, expected.shape):
                return False
        names = tuple(
            self._in_float32(name) if self._goes(kind) else name
            for name, kind in zip(node.inputs, inputs, strict=True)
        )
        results = tuple(
            self._fresh(name) if self._goes(kind) else name
            for name, kind in zip(node.outputs, outputs, strict=True)
        )
        self.nodes.append(replace(node, inputs=names, outputs=results))
        return True

    def _cast(self, node: Node) -> bool:
        """Drop a cast between float32 and float64, where the latter becomes float32. Casts to 16 bits round, as the
        model asks."""
        if not isinstance(node.op, Cast) or not node.inputs[0]:
            return False
        source, result = self.graph.type_of(node.inputs[0]), self.graph.type_of(node.outputs[0])
        assert source is not None
        assert result is not None
        if source.dtype == FLOAT32 and result.dtype == np.float64 and self._goes(result):
            self.wide[node.outputs[0]] = node.inputs[0]
            self.made.add(node.outputs[0])
            return True
        if source.dtype == np.float64 and self._goes(source) and result.dtype == FLOAT32:
            self.nodes.append(replace(node, inputs=(self._in_float32(node.inputs[0]),)))
            return True
        return False

    def _goes(self, kind: TensorType | None) -> bool:
        return _is_float(kind, self.sizes)

    def _type_in_float32(self, kind: TensorType | None) -> TensorType | None:
        """Return the type in float32, if it is one of those that become float32."""
        if kind is None or not self._goes(kind):
            return kind
        value = None if kind.value is None else kind.value.astype(np.float32)
        return TensorType(FLOAT32, kind.shape, value)

    def _fresh(self, name: str) -> str:
        """Return the name of a node's output in float32."""
        wide = unused(f"{name}~wide", self.taken)
        self.types[wide] = TensorType(FLOAT32, self.graph.types[name].shape)
        self.wide[name] = wide
        self.made.add(name)
        return wide

    def _in_float32(self, name: str) -> str:
        """Return the value in float32."""
        if name not in self.wide:
            wide = self.wide[name] = unused(f"{name}~wide", self.taken)
            if name in self.constants:
                self.constants[wide] = self.constants[name].astype(np.float32)
                self.types[wide] = TensorType(FLOAT32, self.constants[wide].shape)
            else:
                self.types[wide] = TensorType(FLOAT32, self.graph.types[name].shape)
                self.nodes.append(Node(Cast(FLOAT32), (name,), (wide,), label=""))
        return self.wide[name]

    def _narrowed(self, name: str) -> None:
        """Make the value in its own type, if there is none so far."""
        if name in self.made:
            self.made.remove(name)
            self.nodes.append(Node(Cast(self.graph.types[name].dtype), (self.wide[name],), (name,), label=""))
