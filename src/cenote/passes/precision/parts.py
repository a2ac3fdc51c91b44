"""Convolutions and products of float32 may multiply float16 parts where the target has tiles of them.

%y = conv %x, %w : f32        ->    %y = conv(on_tiles=True) %x, %w : f32
"""

from __future__ import annotations

from dataclasses import replace

from cenote.core.target import Target
from cenote.graph.graph import Graph
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul


def multiply_on_tiles(graph: Graph, target: Target) -> Graph:
    """Let convolutions and products multiply float16 parts, for precision="float16x3"; where that is slower, the
    scheduler takes another algorithm."""
    if not target.tiles.f16:
        layers = (node.outputs[0] for node in graph.nodes if isinstance(node.op, Conv | Gemm | MatMul))
        why = "not in float16 parts: this CPU has no tiles of float16 (AMX-FP16)"
        return graph.replace(reasons={**graph.reasons, **dict.fromkeys(layers, why)})
    nodes = tuple(
        replace(node, op=replace(node.op, on_tiles=True))
        # No subclasses of Conv: those of other types.
        if type(node.op) is Conv or isinstance(node.op, Gemm | MatMul)
        else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)
