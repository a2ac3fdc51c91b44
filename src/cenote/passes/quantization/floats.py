"""Convolutions and products of dequantised bytes whose results stay floats as sums of bytes, where these are quicker.

    %a = dequantize_linear %q, …
    %w = dequantize_linear <i8>, …         ->    %y = conv_integer_to_float %q, <i8>, <scales>, …, %bias
    %y = conv %a, %w, %bias

Gemm and MatMul, of two computed factors too, become matmul_integer_to_float likewise. They are those that
`quantize_sums` has left: of a last layer, of results that are read as floats, with a bias of floats. Sums are exact,
then float32(sum) * scale + bias rounds at every step, and so was the scale: four roundings in all, where floats round
once for each product. Layers that stay in float get a reason here (`Graph.reasons`).
"""

from __future__ import annotations

import numpy as np

from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import moved_seconds
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.quantization.quantize import DequantizeLinear
from cenote.ops.quantization.quantized_linear import ConvIntegerToFloat
from cenote.ops.quantization.quantized_products import MatMulIntegerToFloat
from cenote.passes.declined import Declined, estimated
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import are_ordinary
from cenote.passes.quantization.sums import (
    SUMS,
    Factors,
    Weighted,
    factors_of,
    require_bytes_of,
    require_quicker,
    seconds_of_floats,
    weighted,
)


def sum_bytes_to_floats(graph: Graph, target: Target) -> Graph:
    """Make sums of bytes of the convolutions and products of dequantised numbers that are left, where these are
    estimated to take no longer."""
    # Where weights alone are quantised, they are stored so, and computation is meant to be in float.
    if not any(
        isinstance(node.op, DequantizeLinear) and node.inputs[0] not in graph.constants
        for node in graph.nodes
    ):
        return graph
    rewriter = Rewriter(graph)
    with np.errstate(over="ignore"):  # of scales' products, which are looked at
        for node in graph.nodes:
            if isinstance(node.op, SUMS):
                try:
                    _sum(rewriter, node, target)
                except Declined as reason:
                    rewriter.reasons[node.outputs[0]] = f"not on bytes: {reason}"
                else:
                    rewriter.reasons.pop(node.outputs[0], None)
    return rewriter.result()


def _sum(rewriter: Rewriter, node: Node, target: Target) -> None:
    """Replace a convolution or product whose operands are dequantised. Raises Declined."""
    if isinstance(node.op, ConvTranspose):
        before = rewriter.reasons.get(node.outputs[0], "").removeprefix("not on bytes: ")
        raise Declined(before or "transposed convolutions of bytes make no floats")
    require_bytes_of(node.op)
    found: Factors | Weighted = factors_of(rewriter, node) or weighted(rewriter, node)
    if not are_ordinary(found.scales):
        raise Declined("the product of its scales is no ordinary number")
    bias = (*node.inputs[2:], "")[0]
    columns = rewriter.type(node.outputs[0]).shape[-1:]
    filters = (found.filters,) if isinstance(found, Weighted) else columns
    if bias and (rewriter.type(bias).dtype != np.float32 or rewriter.type(bias).shape != filters):
        raise Declined("its bias is not float32, one number for each filter")
    scale = rewriter.constant(f"{node.outputs[0]}.scale", found.scales)
    inputs = (found.x[0], found.w[0], scale, found.x[2], found.w[2], bias)
    op = ConvIntegerToFloat(node.op) if isinstance(node.op, Conv) else MatMulIntegerToFloat()
    types = [rewriter.type(name) if name else None for name in inputs]
    own = estimated(op, types, target)
    # Floats are made of the bytes of x: five bytes read and written for each.
    read = [
        rewriter.type(node.inputs[0]),
        *([] if isinstance(found, Weighted) else [rewriter.type(node.inputs[1])]),
    ]
    floats = seconds_of_floats(rewriter, node, target) + sum(moved_seconds(5 * each.size) for each in read)
    require_quicker(own, floats)
    rewriter.uses.subtract(node.inputs)
    rewriter.uses.update(inputs)
    rewriter.nodes[rewriter.position[node.outputs[0]]] = Node(op, inputs, node.outputs, node.label)
