"""Means of whole maps between dequantisation and quantisation as those of bytes.

%a = dequantize_linear %q, …
%b = global_average_pool %a            ->    %y = qlinear_global_average_pool %q, …
%y = quantize_linear %b, …
"""

from __future__ import annotations

from dataclasses import replace

from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.ops.pool.whole_map import GlobalAveragePool
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_pools import QLinearGlobalAveragePool
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import scale_and_zero_point


def quantize_means(graph: Graph, target: Target) -> Graph:
    """Take means of bytes where the quantised means are all that is read."""
    if not any(isinstance(node.op, GlobalAveragePool) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if isinstance(node.op, QuantizeLinear):
            _quantize(rewriter, node, target)
    return rewriter.result()


def _quantize(rewriter: Rewriter, last: Node, target: Target) -> None:
    """Replace the mean that a node quantises."""
    found = rewriter.producer(last.inputs[0], GlobalAveragePool)
    if found is None or replace(found[1], accumulate=None) != GlobalAveragePool():
        return
    place = rewriter.position.get(found[0].inputs[0])
    first = None if place is None else rewriter.nodes[place]
    if first is None or not isinstance(first.op, DequantizeLinear):
        return
    scales = [*scale_and_zero_point(rewriter, first), *scale_and_zero_point(rewriter, last)]
    if any(each is None for each in scales):
        return
    names = [
        rewriter.constant(f"{last.outputs[0]}.{what}", each)
        for what, each in zip(("x_scale", "x_zero", "y_scale", "y_zero"), scales, strict=True)
        if each is not None
    ]
    op, inputs = QLinearGlobalAveragePool(), (first.inputs[0], *names)
    if any(op.lowerings([rewriter.type(name) for name in inputs], target)):
        rewriter.merge(found[0], last, op, inputs)
