"""Additions of quantised tensors as parts of the convolutions of bytes that make one of them.

    %c = qlinear_conv %q, …
    %a = dequantize_linear %c, …
    %b = dequantize_linear %r, …           ->    %y = qlinear_conv_add %q, …, %r, …
    %s = relu (add %a, %b)
    %y = quantize_linear %s, …

The bits are those of the operators one after another. Of two convolutions the later one takes the other's result.
"""

from __future__ import annotations

import math

import numpy as np

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import moved_seconds
from cenote.ops.elementwise.binary import Add
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import QLinearConv
from cenote.ops.quantization.quantized_residual import QLinearConvAdd
from cenote.passes.declined import estimated
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import scale_and_zero_point
from cenote.passes.quantization.sums import bounded_source, dequantized


def add_residuals(graph: Graph, target: Target) -> Graph:
    """Add quantised tensors in the convolutions of bytes that make one of them, for one reader."""
    if not any(isinstance(node.op, QLinearConv) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    with np.errstate(over="ignore"):  # of bounds by small scales
        for node in graph.nodes:
            if isinstance(node.op, QuantizeLinear):
                _add(rewriter, node, target)
    return rewriter.result()


def _add(rewriter: Rewriter, last: Node, target: Target) -> None:
    """Replace the addition whose result a node quantises, and the convolution before it."""
    source = bounded_source(rewriter, last)
    if source is None:
        return
    found = rewriter.producer(source.name, Add)
    if found is None or len(found[0].inputs) != 2:
        return
    add = found[0]
    pairs = [(add.inputs[0], add.inputs[1]), (add.inputs[1], add.inputs[0])]
    convolutions = [(_convolution(rewriter, own), own, other) for own, other in pairs]
    ready = [(conv, own, other) for conv, own, other in convolutions if conv is not None]
    for conv, own, other in sorted(ready, key=lambda each: -rewriter.position[each[0].outputs[0]]):
        residual = _residual(rewriter, other, own)
        if residual is None:
            continue
        zero = rewriter.constant(f"{last.outputs[0]}.zero", source.zero)
        inputs = (*conv.inputs[:8], *residual, last.inputs[1], zero, *conv.inputs[8:])
        assert isinstance(conv.op, QLinearConv)
        op = QLinearConvAdd(conv.op, source.bounds)
        if not _is_quicker(rewriter, op, inputs, conv, target):
            continue
        first = dequantized(rewriter, own)
        assert first is not None
        gone = [conv, first, add, *source.between]
        for each in gone:
            rewriter.nodes[rewriter.position[each.outputs[0]]] = None
            rewriter.uses.subtract(each.inputs)
        rewriter.uses.subtract(last.inputs)
        rewriter.uses.update(inputs)
        made = Node(op, inputs, last.outputs, conv.label or last.label)
        rewriter.nodes[rewriter.position[last.outputs[0]]] = made
        return


def _convolution(rewriter: Rewriter, name: str) -> Node | None:
    """The convolution of bytes whose result is dequantised to this value and read by nobody else."""
    first = rewriter.producer(name, DequantizeLinear)
    if first is None:
        return None
    conv = rewriter.producer(first[0].inputs[0], QLinearConv)
    scale, zero = scale_and_zero_point(rewriter, first[0])
    if conv is None or type(conv[1]) is not QLinearConv or scale is None or zero is None:
        return None
    own = [rewriter.constants.get(each) for each in conv[0].inputs[6:8]]
    if own[0] is None or own[1] is None or own[0].item() != scale.item() or own[1].item() != zero.item():
        return None
    return conv[0]


def _residual(rewriter: Rewriter, name: str, own: str) -> tuple[str, str, str] | None:
    """The bytes, the scale and the zero point of a tensor like the convolution's result."""
    node = dequantized(rewriter, name)
    if node is None or rewriter.type(name) != rewriter.type(own) or node.inputs[0] in rewriter.constants:
        return None
    scale, zero = scale_and_zero_point(rewriter, node)
    if scale is None or zero is None:
        return None
    return node.inputs[0], node.inputs[1], rewriter.constant(f"{name}.zero", zero)


def _is_quicker(
    rewriter: Rewriter, op: QLinearConvAdd, inputs: tuple[str, ...], conv: Node, target: Target
) -> bool:
    """Whether the addition in the convolution is estimated to take no longer than a pass of its own."""
    types = [rewriter.type(name) if name else None for name in inputs]
    apart = estimated(conv.op, [rewriter.type(name) for name in conv.inputs], target)
    if math.isinf(apart):
        return False
    # Two tensors of bytes are read and one is written by a pass.
    moved = plain(moved_seconds(3 * rewriter.type(conv.outputs[0]).size))
    return estimated(op, types, target) <= apart + moved
