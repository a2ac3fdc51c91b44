"""Factors and batch norms of the columns of a product with a constant matrix, as part of the matrix and its bias.

    %p = matmul %x, %b                        %p = matmul %x, %b * scale, shift
    %r = reshape %p, [-1, C]            ->    %r = reshape %p, [-1, C]
    %y = batch_normalization %r, …

Transformers scale the branches of their residual sums so (Touvron et al., "Going deeper with image transformers",
2021), and LeViT has a batch norm behind each linear layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import is_size
from cenote.core.types import FLOAT32, Array
from cenote.graph.graph import Graph, Node
from cenote.kernels.base import present
from cenote.ops.base import Op
from cenote.ops.elementwise.binary import Add, Div, Mul
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.passes.cleanup import eliminate_dead, remove_identities
from cenote.passes.fuse import Rewriter, scale_and_shift

_SCALES = {Mul, Div, BatchNormalization}


class _Columns(NamedTuple):
    """Scale and shift of each column of a value, in float64."""

    value: str
    scale: Array
    shift: Array


class _Product(NamedTuple):
    """A product with a constant matrix, and the constant numbers that are added to its columns: by itself, or by the
    node `sum` after it."""

    node: Node
    op: MatMul | Gemm
    sum: Node | None
    bias: Array | None


def scale_columns(graph: Graph) -> Graph:
    """Return the graph with such factors in the products' matrices."""
    kinds = {type(node.op) for node in graph.nodes}
    if kinds.isdisjoint(_SCALES) or kinds.isdisjoint({MatMul, Gemm}):
        return graph
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        node = rewriter.nodes[index]
        if node is not None and type(node.op) in _SCALES:
            _fold(rewriter, node)
    changed = rewriter.result()
    # The reshapes around batch norms undo each other.
    return graph if changed is graph else eliminate_dead(remove_identities(changed))


def _fold(rewriter: Rewriter, node: Node) -> None:
    columns = _columns(rewriter, node)
    if columns is None:
        return
    last = rewriter.producer(columns.value, Op)
    made = last[0].inputs[0] if last is not None and last[1].view else columns.value
    product = _product(rewriter, made)
    if product is None or not always_equal(rewriter.type(made).shape[-1], len(columns.scale)):
        return
    name, op = product.node.inputs[1], product.op
    matrix, scale = rewriter.constants[name], columns.scale
    scaled = (matrix * (scale[:, None] if isinstance(op, Gemm) and op.transpose_b else scale)).astype(FLOAT32)
    bias = columns.shift if product.bias is None else product.bias * scale + columns.shift
    if not np.isfinite(scaled).all() or not np.isfinite(bias).all():
        return
    inputs = (
        product.node.inputs[0],
        rewriter.constant(f"{name}~scaled", scaled),
        rewriter.constant(f"{name}~bias", bias.astype(FLOAT32)),
    )
    if product.sum is not None:
        rewriter.merge(product.node, product.sum, op, inputs)
    else:
        rewriter.uses.subtract(product.node.inputs)
        rewriter.uses.update(inputs)
        rewriter.nodes[rewriter.position[made]] = replace(product.node, op=op, inputs=inputs)
    before = present(rewriter.nodes[rewriter.position[columns.value]])
    rewriter.merge(before, node, before.op, before.inputs)


def _columns(rewriter: Rewriter, node: Node) -> _Columns | None:
    """Return how a node scales and shifts the columns of a value of float32, if it does nothing else."""
    if len(node.outputs) != 1 or rewriter.type(node.outputs[0]).dtype != FLOAT32:
        return None
    if isinstance(node.op, BatchNormalization):
        x, *statistics = node.inputs
        known = all(name in rewriter.constants for name in statistics)
        if not known or node.op.training or not node.op.is_bare or rewriter.type(x).rank != 2:
            return None
        return _Columns(x, *scale_and_shift(node.op, rewriter.constants, tuple(statistics)))
    for x, other in (node.inputs, node.inputs[::-1])[: 1 if isinstance(node.op, Div) else 2]:
        factors = _per_column(rewriter, x, other)
        if factors is not None and _is_shape(rewriter, x, node.outputs[0]):
            with np.errstate(divide="ignore"):
                scale = 1 / factors if isinstance(node.op, Div) else factors
            return _Columns(x, scale, np.zeros_like(scale))
    return None


def _per_column(rewriter: Rewriter, x: str, name: str) -> Array | None:
    """Return a constant as one number per column of x; None where it is something else."""
    value, shape = rewriter.constants.get(name), rewriter.type(x).shape
    if value is None or not shape or is_size(shape[-1]) or value.ndim > len(shape):
        return None
    if value.shape[-1:] != shape[-1:] or value.size != shape[-1]:
        return None
    return value.reshape(-1).astype(np.float64)


def _is_shape(rewriter: Rewriter, one: str, other: str) -> bool:
    """Whether two values have the same shape, at all sizes."""
    shapes = rewriter.type(one).shape, rewriter.type(other).shape
    return len(shapes[0]) == len(shapes[1]) and all(map(always_equal, *shapes))


def _product(rewriter: Rewriter, made: str) -> _Product | None:
    """Return the product that makes a value, alone or with the sum after it."""
    found, total, bias = _bare(rewriter, made), rewriter.producer(made, Add), None
    if found is None and total is not None:
        for x, other in (total[0].inputs, total[0].inputs[::-1]):
            bias = _per_column(rewriter, x, other)
            if bias is not None and _is_shape(rewriter, x, made):
                found = _bare(rewriter, x)
                break
    if found is None or (bias is not None and len(found[0].inputs) > 2):
        return None
    if len(found[0].inputs) > 2:
        bias = _per_column(rewriter, made, found[0].inputs[2])
        if bias is None:
            return None
    return _Product(*found, None if total is None else total[0], bias)


def _bare(rewriter: Rewriter, made: str) -> tuple[Node, MatMul | Gemm] | None:
    """Return the product with a constant matrix that makes a value, if it does nothing else."""
    found: tuple[Node, MatMul | Gemm] | None = rewriter.producer(made, MatMul)
    found = found or rewriter.producer(made, Gemm)
    if found is None or found[0].inputs[1] not in rewriter.constants:
        return None
    node, op = found
    plain = op.is_bare and op.alpha == 1 and rewriter.constants[node.inputs[1]].ndim == 2
    if isinstance(op, MatMul):
        plain = plain and not op.permute_b and not op.permute_y and rewriter.type(node.inputs[0]).rank > 1
    else:
        plain = plain and op.beta == 1
    return found if plain else None
