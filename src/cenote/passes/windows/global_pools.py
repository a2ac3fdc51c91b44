"""Means and maxima over whole maps that are written as reductions, replaced by the pools that read every layout.

    %y = reduce_mean(axes=(2,3), keepdims=False) %x    ->    %p = global_average_pool %x
                                                             %y = squeeze %p, [2, 3]

For float32 only: other types are rounded differently. A reduction needs its input plain, and after a convolution that
is a pass over the map.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.movement.reshape import Squeeze
from cenote.ops.pool.whole_map import GlobalAveragePool, GlobalMaxPool
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.reduction.reduce import Reduction
from cenote.passes.cleanup import fresh

_POOLS: dict[str, type[Op]] = {"reduce_mean": GlobalAveragePool, "reduce_max": GlobalMaxPool}


def recognize_quantized_pools(graph: Graph) -> Graph:
    """Return the graph with global pools in place of such reductions between dequantisation and quantisation, which may
    then run on bytes. Those that something else reads may belong to a normalisation."""
    if not any(isinstance(node.op, QuantizeLinear) for node in graph.nodes):
        return graph
    made = {name for node in graph.nodes if isinstance(node.op, DequantizeLinear) for name in node.outputs}
    users, outputs = graph.users(), set(graph.outputs)

    def is_between(node: Node) -> bool:
        readers = users.get(node.outputs[0], [])
        quantized = bool(readers) and all(isinstance(reader.op, QuantizeLinear) for reader in readers)
        return node.inputs[0] in made and quantized and node.outputs[0] not in outputs

    return recognize_global_pools(graph, is_between)


def recognize_global_pools(graph: Graph, wanted: Callable[[Node], bool] = lambda node: True) -> Graph:
    """Return the graph with global pools in place of such reductions, of those nodes that are wanted."""
    nodes: list[Node] = []
    constants, types = dict(graph.constants), dict(graph.types)
    taken = set(graph.values())
    for node in graph.nodes:
        pool = _pool_of(graph, node)
        if pool is None or not isinstance(node.op, Reduction) or not wanted(node):
            nodes.append(node)
            continue
        if node.op.keepdims:
            nodes.append(Node(pool, node.inputs[:1], node.outputs, node.label))
            continue
        x = graph.types[node.inputs[0]]
        pooled, axes = fresh(node.outputs[0], taken), fresh(node.outputs[0], taken)
        types[pooled] = pool.infer(x)[0]
        constants[axes] = np.arange(2, x.rank)
        types[axes] = TensorType(constants[axes].dtype, constants[axes].shape)
        nodes.append(Node(pool, node.inputs[:1], (pooled,), node.label))
        nodes.append(Node(Squeeze(), (pooled, axes), node.outputs, node.label))
    if len(constants) == len(graph.constants) and all(
        a is b for a, b in zip(nodes, graph.nodes, strict=True)
    ):
        return graph
    return graph.replace(nodes=tuple(nodes), constants=constants, types=types)


def _pool_of(graph: Graph, node: Node) -> Op | None:
    """Return the pool that a reduction is equal to, if any."""
    kind = _POOLS.get(node.op.name)
    if kind is None or not isinstance(node.op, Reduction) or len(node.inputs) != 1:
        return None
    x = graph.types.get(node.inputs[0])
    if x is None or node.inputs[0] in graph.constants or x.dtype != np.float32 or x.rank not in (3, 4, 5):
        return None
    axes = sorted(axis % x.rank for axis in node.op.axes or ())
    return kind() if axes == list(range(2, x.rank)) and 0 not in x.shape[2:] else None
