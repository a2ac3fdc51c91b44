"""Convolutions and products of dequantised 16-bit numbers as exact sums of bytes, for precision="exact".

    %a = dequantize_linear %q : u16, …         %l, %h = the lower and the upper bytes of %q
    %w = dequantize_linear <i16>, …            %s = conv_integer %l, <u>, and so on for each pair of digits
    %c = conv %a, %w                     ->    %c = (%s + 255 %t + 256 %u + …) * scale : f64
    %y = quantize_linear %c, …                 %y = quantize_linear %c, <scale : f64>, …

A sum of 16-bit products needs up to 48 bits: float32 rounds it to 24, float64 holds it. Activations are two bytes,
weights up to three digits of base 255 from -127 to 127, and each pair of these is a sum of bytes in 32 bits, exact.
The result rounds once where it becomes float32 or 16 bits. Otherwise such layers compute in float32, as ONNX defines
them: with u16 activations and s16 weights one number in some hundreds is then a step of 65,536 off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cenote.core.types import FLOAT32, FLOAT64, Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Clip, Relu
from cenote.ops.elementwise.binary import Add, Div, Mul, Sub
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import ConvInteger
from cenote.ops.quantization.quantized_products import MatMulInteger
from cenote.passes.cleanup import unused
from cenote.passes.declined import Declined
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import are_ordinary, zero_point
from cenote.passes.quantization.sums import LARGEST_SUM, dequantized, require_bytes_of

_BASE, _DIGIT = 255, 127  # of weights: digits from -127 to 127
_INT32 = np.dtype(np.int32)
_UINT8 = np.dtype(np.uint8)
_WIDE = ("int16", "uint16")
_WHOLE = ("int8", "uint8", *_WIDE)


class _Layer(NamedTuple):
    """A convolution or product: the name of x and its zero point, weights less theirs, and the factor from sums to
    floats and the bias, in float64, as they are broadcast to the result."""

    x: str
    zero: int
    weights: Array
    factor: Array
    bias: Array | None


def sum_digits(graph: Graph) -> Graph:
    """Sum exactly in the convolutions and products of dequantised numbers of which some have 16 bits."""
    reader, made = Rewriter(graph), _Made(graph)
    wide: dict[str, str] = {}  # float64 values by the names of what they are in float32
    for node in graph.nodes:
        layer = None
        if isinstance(node.op, Conv | Gemm | MatMul):
            try:
                layer = _layer(reader, node)
            except Declined as reason:
                made.reasons[node.outputs[0]] = f"not in whole numbers: {reason}"
        if layer is not None:
            wide[node.outputs[0]] = made.sums(node, layer)
        elif node.inputs and node.inputs[0] in wide and _goes_on(reader, node):
            made.follow(node, wide)
            continue
        else:
            made.nodes.append(node)
            continue
        made.append(Cast(FLOAT32), (wide[node.outputs[0]],), node.outputs[0])
    return made.result()


def _layer(reader: Rewriter, node: Node) -> _Layer | None:
    """Return a layer's operands; None where none of them has 16 bits. Raises Declined where they do not suit."""
    x, w = (dequantized(reader, name) for name in node.inputs[:2])
    if x is None or w is None:
        return None
    kinds = [reader.type(each.inputs[0]).dtype.name for each in (x, w)]
    if not {*kinds} & {*_WIDE} or reader.type(node.outputs[0]).dtype != FLOAT32:
        return None
    require_bytes_of(replace(node.op, exact=False))  # type: ignore[type-var]  # every operator is a dataclass
    x_scale, x_zero = reader.constants.get(x.inputs[1]), zero_point(reader, x, x.inputs[0])
    w_scale, w_zero = reader.constants.get(w.inputs[1]), zero_point(reader, w, w.inputs[0])
    weights = reader.constants.get(w.inputs[0])
    if weights is None or x_scale is None or x_zero is None or w_scale is None or w_zero is None:
        raise Declined("its weights are computed, or a scale or zero point is")
    if not {*kinds} <= {*_WHOLE} or x_scale.size != 1 or x_zero.size != 1:
        raise Declined("its input's scale is no single constant")
    if not (are_ordinary(x_scale) and are_ordinary(w_scale)):
        raise Declined("its scales are no ordinary numbers")
    assert isinstance(w.op, DequantizeLinear)
    filters = 0 if isinstance(node.op, Conv) or (isinstance(node.op, Gemm) and node.op.transpose_b) else 1
    if weights.ndim < 2 or (w_scale.size != 1 and w.op.axis % weights.ndim != filters):
        raise Declined("the scales of its weights are neither one nor one for each filter")
    count = weights.shape[filters]
    spread = [-1 if axis == filters else 1 for axis in range(weights.ndim)]
    centred = weights.astype(np.int64) - w_zero.astype(np.int64).reshape(spread)
    if centred.size // max(1, count) * 255 * _DIGIT > LARGEST_SUM:
        raise Declined("a sum of its digits may leave 32 bits")
    factor = x_scale.astype(np.float64).reshape(()) * w_scale.astype(np.float64).reshape(-1)
    behind = [-1] + [1] * (weights.ndim - 2 if isinstance(node.op, Conv) else 0)
    bias = _bias(reader, node, count)
    return _Layer(
        x.inputs[0],
        int(x_zero.item()),
        centred.T if filters == 0 and not isinstance(node.op, Conv) else centred,
        factor.reshape(behind),
        None if bias is None else bias.reshape(behind),
    )


def _bias(reader: Rewriter, node: Node, count: int) -> Array | None:
    """Return the bias in float64: of dequantised whole numbers their product with the scale."""
    name = (*node.inputs[2:], "")[0]
    if not name:
        return None
    source = dequantized(reader, name)
    if source is not None and all(each in reader.constants for each in source.inputs if each):
        whole, scale = (reader.constants[each].astype(np.float64) for each in source.inputs[:2])
        zero = zero_point(reader, source, source.inputs[0])
        bias = (whole - (0 if zero is None else zero.astype(np.float64))) * scale
    elif name in reader.constants:
        bias = reader.constants[name].astype(np.float64)
    else:
        raise Declined("its bias is computed")
    if bias.shape != (count,):
        raise Declined("its bias is not one number for each filter")
    return np.asarray(bias)


def _goes_on(reader: Rewriter, node: Node) -> bool:
    """Whether a node that reads a float64 sum takes it as it is: a quantisation by constants, or a bound before one."""
    if isinstance(node.op, QuantizeLinear):
        scale = reader.constants.get(node.inputs[1])
        return scale is not None and scale.dtype == FLOAT32 and node.op.precision is None
    if not isinstance(node.op, Relu | Clip) or not all(
        name in reader.constants for name in node.inputs[1:] if name
    ):
        return False
    readers = [each for each in reader.graph.nodes if node.outputs[0] in each.inputs]
    quantised = all(isinstance(each.op, QuantizeLinear) and _goes_on(reader, each) for each in readers)
    return bool(readers) and quantised and node.outputs[0] not in reader.graph.outputs


def digits(weights: Array) -> list[Array]:
    """Return the digits of whole numbers to the base 255, the lowest first, each from -127 to 127."""
    found: list[Array] = []
    left = weights
    while left.any() or not found:
        low = (left + _DIGIT) % _BASE - _DIGIT
        found.append(np.ascontiguousarray(low.astype(np.int8)))
        left = (left - low) // _BASE
    return found


class _Made:
    """The nodes, types and constants of the graph that is made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.reasons = dict(graph.reasons)
        self.names = set(graph.values())
        self.bytes: dict[str, list[tuple[str, int]]] = {}

    def result(self) -> Graph:
        made = self.graph.replace(nodes=tuple(self.nodes), constants=self.constants, reasons=self.reasons)
        return made.replace(types={name: self.types[name] for name in made.values() if name in self.types})

    def constant(self, stem: str, value: Array) -> str:
        name = unused(stem, self.names)
        self.constants[name], self.types[name] = value, TensorType.known(value)
        return name

    def append(self, op: Op, inputs: Sequence[str], name: str, label: str = "") -> str:
        """Add a node that makes a value; return its name."""
        self.names.add(name)
        kinds = [
            None
            if not each
            else TensorType.known(self.constants[each])
            if each in self.constants
            else self.types[each]
            for each in inputs
        ]
        (self.types[name],) = op.infer(*kinds)
        self.nodes.append(Node(op, tuple(inputs), (name,), label))
        return name

    def value(self, op: Op, *inputs: str, label: str = "") -> str:
        return self.append(op, inputs, unused(f"{inputs[0]}~{op.name}", self.names), label)

    def split(self, name: str) -> list[tuple[str, int]]:
        """Bytes of which a value consists, lowest first, and what is to be added to a zero point before its own bytes
        are taken."""
        if name in self.bytes:
            return self.bytes[name]
        kind = self.types[name].dtype
        if kind.itemsize == 1:
            self.bytes[name] = [(name, 0)]
            return self.bytes[name]
        moved = 32768 if kind.kind == "i" else 0
        whole = self.value(Cast(_INT32), name)
        if moved:
            whole = self.value(Add(), whole, self.constant("moved", np.array(moved, np.int32)))
        base = self.constant("base", np.array(256, np.int32))
        upper = self.value(Div(), whole, base)
        lower = self.value(Sub(), whole, self.value(Mul(), upper, base))
        self.bytes[name] = [(self.value(Cast(_UINT8), each), moved) for each in (lower, upper)]
        return self.bytes[name]

    def sums(self, node: Node, layer: _Layer) -> str:
        """Add a layer's sums; return the name of its result in float64."""
        x, weights = self.split(layer.x), digits(layer.weights)
        total = ""
        for place, (name, moved) in enumerate(x):
            kind = self.types[name].dtype
            zero = layer.zero if len(x) == 1 else (layer.zero + moved) >> (8 * place) & 255
            x_zero = self.constant("zero", np.array(zero, kind))
            for power, digit in enumerate(weights):
                w = self.constant("digits", digit)
                op: Op = (
                    ConvInteger(replace(node.op, exact=False))
                    if isinstance(node.op, Conv)
                    else MatMulInteger()
                )
                part = self.value(Cast(FLOAT64), self.value(op, name, w, x_zero, label=node.label))
                worth = self.constant("worth", np.array(256.0**place * float(_BASE) ** power))
                part = self.value(Mul(), part, worth)
                total = self.value(Add(), total, part) if total else part
        total = self.value(Mul(), total, self.constant("factor", layer.factor))
        return total if layer.bias is None else self.value(Add(), total, self.constant("bias", layer.bias))

    def follow(self, node: Node, wide: dict[str, str]) -> None:
        """Add a quantisation, or a bound before one, of a float64 value."""
        others = [
            self.constant(f"{name}~wide", self.constants[name].astype(np.float64))
            if name and self.constants[name].dtype == FLOAT32
            else name
            for name in node.inputs[1:]
        ]
        inputs = (wide[node.inputs[0]], *others)
        if isinstance(node.op, QuantizeLinear):
            self.append(node.op, inputs, node.outputs[0], node.label)
        else:
            wide[node.outputs[0]] = self.value(node.op, *inputs, label=node.label)
