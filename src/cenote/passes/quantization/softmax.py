"""Softmax between dequantisation and quantisation as that of bytes.

%a = dequantize_linear %q, …
%b = softmax %a                        ->    %y = qlinear_softmax %q, …
%y = quantize_linear %b, …
"""

from __future__ import annotations

from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.graph.graph import Graph
from cenote.ops.normalization.softmax import Softmax
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_softmax import QLinearSoftmax
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import scale_and_zero_point


def quantize_softmax(graph: Graph, target: Target) -> Graph:
    """Take softmax of bytes where the quantised result is all that is read, and a kernel does it."""
    if not any(isinstance(node.op, Softmax) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for last in graph.nodes:
        found = rewriter.producer(last.inputs[0], Softmax) if isinstance(last.op, QuantizeLinear) else None
        place = None if found is None else rewriter.position.get(found[0].inputs[0])
        first = None if place is None else rewriter.nodes[place]
        if found is None or first is None or not isinstance(first.op, DequantizeLinear):
            continue
        node, op = found
        x = rewriter.type(first.inputs[0])
        scales = (*scale_and_zero_point(rewriter, first), *scale_and_zero_point(rewriter, last))
        values = [each for each in scales if each is not None]
        if len(values) < 4 or op.axes(x.rank) != (x.rank - 1,):
            continue
        if not [*QLinearSoftmax().lowerings([x, *map(TensorType.known, values)], target)]:
            continue
        names = zip(QLinearSoftmax.operands[1:], values, strict=True)
        made = [rewriter.constant(f"{last.outputs[0]}.{name}", value) for name, value in names]
        rewriter.merge(node, last, QLinearSoftmax(), (first.inputs[0], *made))
    return rewriter.result()
