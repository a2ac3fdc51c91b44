"""Convolutions and products of bfloat16, and values between convolutions kept as such, for precision="bfloat16".

    %a = conv %x, %w, %b : f32              %a = conv_bfloat16(y=bf16) %x, %w, %b : bf16
    %p = max_pool %a : f32            ->    %p = max_pool %a : bf16
    %c = conv %p, %v : f32                  %c = conv_bfloat16 %p, %v : f32
    %d = sigmoid %c : f32                   %d = sigmoid %c : f32

A value is bfloat16 in memory where a convolution makes it and one reads it, perhaps behind operators that only choose
among their elements. Whether products are of bfloat16 as well is the scheduler's choice: Winograd's algorithm in
float32 has a quarter of the products of many a layer. Values that other operators make are rounded for convolutions
whose products are estimated to be so much quicker that the rounding pays; other operators get float32. Products of
matrices round their operands themselves.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import BFLOAT16, FLOAT32, TensorType
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import LAUNCH, moved_seconds
from cenote.ops.base import Op
from cenote.ops.conv.bfloat_conv import BfloatConv
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.gated_conv import GatedConv
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.movement.parts import Concat
from cenote.ops.pool.window import MaxPool
from cenote.passes.cleanup import unused
from cenote.passes.declined import Declined

_CHOOSING = (Concat, MaxPool)  # operators whose results are among the elements that they read


def compute_in_bfloat(graph: Graph, target: Target) -> Graph:
    """Use bfloat16 where the target has products of it."""
    if not (target.bfloat or target.tiles.bf16):
        layers = (node.outputs[0] for node in graph.nodes if isinstance(node.op, Conv | Gemm | MatMul))
        why = "not in bfloat16: this CPU has no products of it (AVX512-BF16, AMX-BF16)"
        return graph.replace(reasons={**graph.reasons, **dict.fromkeys(layers, why)})
    return _Pass(graph, target).result()


class _Pass:
    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.users = graph.users()
        self.offers: dict[tuple[str, np.dtype[Any]], dict[str, float]] = {}
        self.reasons = dict(graph.reasons)
        self.convolutions: dict[str, Node] = {}
        for node in graph.nodes:
            self._sort(node)
        self.wanted: dict[str, bool] = {}
        for node in reversed(graph.nodes):
            self.wanted |= {name: self._is_wanted(name) for name in node.outputs if name}
        self.made: dict[tuple[str, np.dtype[Any]], str] = {}  # names of values in another type
        self.kept: set[str] = set()  # values in bfloat16
        self.names = set(graph.values())
        self.nodes: list[Node] = []

    def result(self) -> Graph:
        for node in self.graph.nodes:
            self._visit(node)
        types = {name: kind for name, kind in self.graph.types.items() if name not in self.kept}
        types |= {name: TensorType(BFLOAT16, self.graph.types[name].shape) for name in self.kept}
        for (name, dtype), other in self.made.items():
            types[other] = TensorType(dtype, self.graph.types[name].shape)
        return self.graph.replace(nodes=tuple(self.nodes), types=types, reasons=self.reasons)

    # ---- what may be bfloat16 -----------------------------------------------------------------------------------

    def _sort(self, node: Node) -> None:
        """Put a convolution that may be one of bfloat16 among these; say why another layer is none."""
        try:
            if isinstance(node.op, Conv | ConvTranspose | Gemm | MatMul):
                self._require_constants(node)
            if isinstance(node.op, Conv):
                if not self._offers(node, BFLOAT16):
                    raise Declined("no kernel of bfloat16 has its window, groups or strides")
                self.convolutions[node.outputs[0]] = node
            elif isinstance(node.op, ConvTranspose | GatedConv):
                raise Declined(f"{node.op.name} has no kernel of it")
        except Declined as reason:
            self.reasons[node.outputs[0]] = f"not in bfloat16: {reason}"

    def _require_constants(self, node: Node) -> None:
        """Raise Declined unless a layer computes in float32, by constant weights."""
        kinds = [self.graph.type_of(name) for name in (node.inputs[0], node.outputs[0])]
        for kind in kinds:
            if kind is not None and kind.dtype != FLOAT32:
                raise Declined(f"it is of {kind.dtype}")
        bias = node.inputs[2:3] if isinstance(node.op, Conv) else ()
        if not all(name in self.graph.constants for name in (node.inputs[1], *bias) if name):
            raise Declined("its weights or its bias are computed")

    def _offers(self, node: Node, x: np.dtype[Any]) -> dict[str, float]:
        """The ways, with their seconds, to compute a convolution with x in a type and a result in float32."""
        key = node.outputs[0], x
        if key not in self.offers:
            assert isinstance(node.op, Conv)
            first, *others = self.graph.input_types(node)
            assert first is not None
            types = [TensorType(x, first.shape), *others]
            found = BfloatConv.of(node.op, FLOAT32).lowerings(types, self.target)
            offers: dict[str, float] = {}
            for each in found:
                offers[each.name] = min(plain(each.seconds), offers.get(each.name, math.inf))
            self.offers[key] = offers
        return self.offers[key]

    def _is_wanted(self, name: str) -> bool:
        """Whether a value's readers take it in bfloat16."""
        if name in self.graph.outputs:
            return False
        return any(
            user.outputs[0] in self.convolutions
            or (isinstance(user.op, _CHOOSING) and len(user.outputs) == 1 and self.wanted[user.outputs[0]])
            for user in self.users.get(name, ())
        )

    # ---- new nodes ----------------------------------------------------------------------------------------------

    def _visit(self, node: Node) -> None:
        if node.outputs[0] in self.convolutions:
            self._visit_convolution(node)
            return
        # Constants are float32, and a concatenation's inputs are of one type.
        keeps = isinstance(node.op, _CHOOSING) and all(name in self.kept for name in node.inputs)
        if keeps and len(node.outputs) == 1 and self.wanted[node.outputs[0]]:
            self.kept.add(node.outputs[0])
            self.nodes.append(node)
            return
        inputs = tuple(self._in_type(name, FLOAT32) for name in node.inputs)
        op = self._rounding(node)
        same = op is node.op and inputs == node.inputs
        self.nodes.append(node if same else Node(op, inputs, node.outputs, node.label))

    def _rounding(self, node: Node) -> Op:
        """A product of matrices that may round its operands; others as they are."""
        op = node.op
        if not isinstance(op, Gemm | MatMul) or op.exact or node.inputs[1] not in self.graph.constants:
            return op
        return replace(op, bfloat=True) if self.graph.types[node.outputs[0]].dtype == FLOAT32 else op

    def _visit_convolution(self, node: Node) -> None:
        assert isinstance(node.op, Conv)
        (y,), x = node.outputs, node.inputs[0]
        if x not in self.kept and self._pays(node):
            x = self._in_type(x, BFLOAT16)
        narrow = x in self.kept or x != node.inputs[0]
        if not narrow and not any("bfloat16" in way for way in self._offers(node, FLOAT32)):
            self.reasons[y] = "not in bfloat16: to round its input is estimated to cost more than it saves"
        if not narrow and not self._offers(node, FLOAT32):
            inputs = tuple(self._in_type(name, FLOAT32) for name in node.inputs)
            self.nodes.append(Node(node.op, inputs, node.outputs, node.label))
            return
        if self.wanted[y]:
            self.kept.add(y)
        op: Op = BfloatConv.of(node.op, BFLOAT16 if y in self.kept else FLOAT32)
        self.nodes.append(Node(op, (x, *node.inputs[1:]), node.outputs, node.label))

    def _pays(self, node: Node) -> bool:
        """Whether rounding a float32 input costs less than it saves."""
        x = self.graph.types[node.inputs[0]]
        floats = node.op.lowerings(self.graph.input_types(node), self.target)
        unrounded = [*(plain(each.seconds) for each in floats), *self._offers(node, FLOAT32).values()]
        rounding = plain(moved_seconds(6 * x.size)) + LAUNCH
        return min(self._offers(node, BFLOAT16).values()) + rounding < min(unrounded, default=math.inf)

    def _in_type(self, name: str, dtype: np.dtype[Any]) -> str:
        """Name of a value in a type, converted once if need be."""
        kind = self.graph.types.get(name)
        if not name or kind is None or kind.dtype != FLOAT32 or name in self.graph.constants:
            return name
        if (name in self.kept) == (dtype == BFLOAT16):
            return name
        if (name, dtype) not in self.made:
            other = unused(f"{name}~{dtype.name}", self.names)
            self.made[name, dtype] = other
            self.nodes.append(Node(Cast(dtype), (name,), (other,)))
        return self.made[name, dtype]
