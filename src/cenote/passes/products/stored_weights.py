"""Products whose constant weights stay in few bits, where decoding them as they are read is quicker.

    %w = dequantize_linear <i8>, …    ->    %y = stored_linear(block=64) %x, <i8>, <f32>, %c
    %y = gemm %x, %w, %c

So are cast(f32) of 16-bit floats, and on request (`LoadOptions.weights`) float32 weights, which are rounded. Constants
that are decoded stay as they are until here (`Op.folds_late`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, TensorType, dtype_named
from cenote.graph.graph import Graph, Node
from cenote.kernels.product.stored import BATCH, BLOCKS
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.linear.stored_linear import StoredLinear
from cenote.ops.quantization.quantize import DequantizeLinear, spread_scale
from cenote.passes.declined import estimated
from cenote.passes.fuse import Rewriter

_ORDINARY = (1e-30, 1e30)  # scales whose products with weights are neither denormal nor infinite


class StoredWeights(NamedTuple):
    """Weights (N, K), a scale for each block of a row where `block` is not 0."""

    weights: Array
    scales: Array | None = None
    block: int = 0


def store_weights(graph: Graph, target: Target) -> Graph:
    """Make products with weights that are dequantised or cast read them as they are stored."""
    if not any(isinstance(node.op, DequantizeLinear | Cast) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if isinstance(node.op, Gemm | MatMul):
            place = rewriter.position.get(node.inputs[1])
            source = None if place is None else rewriter.nodes[place]
            stored = None if source is None else _stored(rewriter, source, node)
            if stored is not None:
                _replace(rewriter, node, stored, target)
    return rewriter.result()


def narrow_weights(graph: Graph, target: Target, dtype: str) -> Graph:
    """Keep constant float32 weights of products as 16-bit floats: half the bytes to read, which bounds them."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        weights = rewriter.constants.get(node.inputs[1]) if isinstance(node.op, Gemm | MatMul) else None
        if weights is not None and weights.ndim == 2 and weights.dtype == FLOAT32:
            _replace(
                rewriter, node, StoredWeights(_in_rows(node, weights).astype(dtype_named(dtype))), target
            )
    return rewriter.result()


def _replace(rewriter: Rewriter, node: Node, stored: StoredWeights, target: Target) -> None:
    """Make a product one that decodes its weights, where that is estimated to take no longer."""
    bias = _bias(rewriter, node, len(stored.weights))
    x, op = rewriter.type(node.inputs[0]), node.op
    rows = math.prod(x.shape[:-1])
    if bias is None or x.dtype != FLOAT32 or not x.rank or not _is_plain(op, x):
        return
    assert isinstance(op, Gemm | MatMul)
    if is_size(rows):
        if rows > BATCH:  # few rows and many are classes of sizes of their own
            return
        x = TensorType(x.dtype, (*[1] * (x.rank - 2), BATCH, x.shape[-1]))
    made = StoredLinear(stored.block, op.activation)
    types = [x, TensorType.known(stored.weights)]
    types += [] if stored.scales is None else [TensorType.known(stored.scales)]
    known = TensorType.known(np.broadcast_to(np.float32(0), rewriter.type(node.inputs[1]).shape))
    floats = replace(op, activation=made.activation)
    if estimated(made, types, target) > estimated(floats, [x, known], target):
        return
    stem = node.outputs[0]
    names = [node.inputs[0], rewriter.constant(f"{stem}.stored", stored.weights)]
    names.append("" if stored.scales is None else rewriter.constant(f"{stem}.scales", stored.scales))
    names.append(bias)
    while not names[-1]:
        names.pop()
    rewriter.uses.subtract(node.inputs)
    rewriter.uses.update(names)
    rewriter.nodes[rewriter.position[stem]] = Node(made, tuple(names), node.outputs, node.label)


def _is_plain(op: object, x: TensorType) -> bool:
    """Whether a product is that of x's last axis with a matrix."""
    if isinstance(op, Gemm):
        return op.alpha == 1 and not op.transpose_a
    assert isinstance(op, MatMul)
    orders = (op.permute_a, op.permute_y, op.permute_b)
    return op.alpha == 1 and not op.residual and orders in (((), (), ()), ((), (), (1, 0))) and x.rank > 1


def _bias(rewriter: Rewriter, node: Node, columns: int) -> str | None:
    """Return the name of what is added to each row, "" for nothing; None for anything else that is added."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    if not name or not isinstance(node.op, Gemm):
        return name
    row = rewriter.constants.get(name)
    if row is None or row.ndim > 2 or (row.ndim == 2 and row.shape[0] != 1):
        return None
    spread = np.broadcast_to(row.reshape(-1) * np.float32(node.op.beta), (columns,))
    return rewriter.constant(f"{name}~bias", np.ascontiguousarray(spread, np.float32))


def _is_turned(node: Node) -> bool:
    """Whether the weights lie as (N, K)."""
    op = node.op
    return op.transpose_b if isinstance(op, Gemm) else isinstance(op, MatMul) and op.permute_b == (1, 0)


def _in_rows(node: Node, weights: Array) -> Array:
    return weights if _is_turned(node) else np.ascontiguousarray(weights.T)


def _stored(rewriter: Rewriter, source: Node, node: Node) -> StoredWeights | None:
    """Return the weights that a node decodes for a product; None where no kernel reads them."""
    made = rewriter.type(node.inputs[1])
    constants = [rewriter.constants.get(name) for name in source.inputs if name]
    if made.rank != 2 or made.dtype != FLOAT32 or any(each is None for each in constants):
        return None
    weights, *others = [each for each in constants if each is not None]
    if isinstance(source.op, Cast):
        half = weights.dtype.name in ("float16", "bfloat16")
        return StoredWeights(_in_rows(node, weights)) if half else None
    if not isinstance(source.op, DequantizeLinear) or others[0].dtype != FLOAT32:
        return None
    axis = 1 if _is_turned(node) else 0
    numbers = _numbers(weights, others[1] if len(others) > 1 else None, source.op)
    scales = _scales(others[0], source.op, made.shape, axis)
    if numbers is None or scales is None:
        return None
    return StoredWeights(_in_rows(node, numbers), *scales)


def _numbers(weights: Array, zero: Array | None, op: DequantizeLinear) -> Array | None:
    """Whole numbers without their zero point as int4 or int8; None where they need more bits."""
    if weights.dtype.name not in ("int8", "uint8", "int4", "uint4"):
        return None
    narrow = weights.dtype.name.endswith("4")
    numbers = weights.astype(np.int8 if narrow else np.int16)
    if zero is not None and zero.any():
        numbers = numbers - spread_scale(zero.astype(np.int16), weights.shape, op.axis, op.block)
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if narrow and low >= -8 and high <= 7:
        return numbers.astype(np.int8).astype(dtype_named("int4"))
    return numbers.astype(np.int8) if low >= -128 and high <= 127 else None


def _scales(
    scale: Array, op: DequantizeLinear, shape: tuple[int, ...], depth: int
) -> tuple[Array, int] | None:
    """Scales (N, blocks) and the size of a block, where rows have one or several; `depth`: the axis of K."""
    size = np.abs(scale[scale != 0])
    if not ((size >= _ORDINARY[0]) & (size <= _ORDINARY[1])).all():
        return None
    n, k = shape[1 - depth], shape[depth]
    block = BLOCKS[-1]
    if op.block and scale.ndim == 2:
        block = next((each for each in reversed(BLOCKS) if op.block % each == 0), 0)
        if op.axis % 2 != depth or not block:
            return None
        rows = scale if depth else scale.T
        return np.ascontiguousarray(np.repeat(rows, op.block // block, 1)[:, : -(-k // block)]), block
    if scale.size > 1 and op.axis % 2 == depth:
        return None
    return np.broadcast_to(scale.reshape(-1, 1), (n, -(-k // block))).copy(), block
