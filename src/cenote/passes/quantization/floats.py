"""Convolutions and products of dequantised bytes whose results stay floats as sums of bytes, where these are quicker.

    %a = dequantize_linear %q, …
    %w = dequantize_linear <i8>, …         ->    %y = conv_integer_to_float %q, <i8>, <scales>, …, %bias
    %y = conv %a, %w, %bias

Gemm and MatMul become matmul_integer_to_float likewise. They are those that `quantize_sums` has left: of a last layer,
of results that are read as floats, with a bias of floats. Sums are exact, then float32(sum) * scale + bias rounds at
every step, and so was the scale: four roundings in all, where floats round once for each product.
"""

from __future__ import annotations

import numpy as np

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import moved_seconds
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.quantization.quantize import DequantizeLinear
from cenote.ops.quantization.quantized_linear import ConvIntegerToFloat
from cenote.ops.quantization.quantized_products import MatMulIntegerToFloat
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import are_ordinary
from cenote.passes.quantization.sums import seconds_of_floats, turns_to_bytes, weighted


def sum_bytes_to_floats(graph: Graph, target: Target) -> Graph:
    """Make sums of bytes of the convolutions and products of dequantised numbers that are left, where these are
    estimated to take no longer."""
    if not any(isinstance(node.op, DequantizeLinear) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    with np.errstate(over="ignore"):  # of scales' products, which are looked at
        for node in graph.nodes:
            if isinstance(node.op, Conv | Gemm | MatMul) and turns_to_bytes(node.op):
                _sum(rewriter, node, target)
    return rewriter.result()


def _sum(rewriter: Rewriter, node: Node, target: Target) -> None:
    """Replace a convolution or product whose operands are dequantised."""
    found = weighted(rewriter, node)
    if found is None or not are_ordinary(found.scales):
        return
    bias = (*node.inputs[2:], "")[0]
    if bias and (rewriter.type(bias).dtype != np.float32 or rewriter.type(bias).shape != (found.filters,)):
        return
    scale = rewriter.constant(f"{node.outputs[0]}.scale", found.scales)
    inputs = (found.x[0], found.w[0], scale, found.x[2], found.w[2], bias)
    op = ConvIntegerToFloat(node.op) if isinstance(node.op, Conv) else MatMulIntegerToFloat()
    types = [rewriter.type(name) if name else None for name in inputs]
    own = [each.seconds for each in op.lowerings(types, target)]
    # Floats are made of the bytes of x: five bytes read and written for each.
    other = seconds_of_floats(rewriter, node, target) + moved_seconds(5 * rewriter.type(node.inputs[0]).size)
    if not own or plain(min(own)) > plain(other):
        return
    rewriter.uses.subtract(node.inputs)
    rewriter.uses.update(inputs)
    rewriter.nodes[rewriter.position[node.outputs[0]]] = Node(op, inputs, node.outputs, node.label)
