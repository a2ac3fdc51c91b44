"""Neighbours that matrix products absorb: transpositions, scale factors, bias, residual.

    %t = transpose %k, %s = matmul %q, %t, %y = mul %s, 0.125    ->    %y = matmul(permute_b=…, alpha=0.125) %q, %k

A transposition that is folded in is not computed: products read and write in steps. It stays where another node reads
it too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.core.types import FLOAT32, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.elementwise.binary import Add, Div, Mul
from cenote.ops.elementwise.cast import Cast
from cenote.ops.linear.matmul import MatMul
from cenote.ops.linear.stored_linear import StoredLinear
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.ops.quantization.quantized_linear import ConvInteger, ConvIntegerToFloat
from cenote.ops.quantization.quantized_products import MatMulInteger, MatMulIntegerToFloat
from cenote.passes.fuse import Rewriter


def fuse_products(graph: Graph) -> Graph:
    """Fold transpositions and scale factors into products, until nothing changes."""
    changed = True
    while changed:
        rewriter, changed = Rewriter(graph), False
        for index in range(len(rewriter.nodes)):
            node = rewriter.nodes[index]
            if node is None:
                continue
            if isinstance(node.op, MatMul) and is_float(rewriter.type(node.inputs[0]).dtype):
                changed |= _transposed_input(rewriter, node, node.op) or _scaled_input(
                    rewriter, node, node.op
                )
            elif isinstance(node.op, Transpose):
                changed |= _transposed_output(rewriter, node, node.op)
            elif isinstance(node.op, Reshape):
                changed |= _transposed_batch(rewriter, node)
            elif isinstance(node.op, Mul | Div):
                changed |= _scaled_output(rewriter, node)
        graph = rewriter.result()
    return graph


def scale_integer_sums(graph: Graph) -> Graph:
    """Fold the conversion to float32, the scale and the bias into products and convolutions of bytes, as dynamic
    quantisation has them: matmul_integer or conv_integer, cast, mul, add. Each step rounds as it did before."""
    if not any(isinstance(node.op, MatMulInteger | ConvInteger) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        node = rewriter.nodes[index]
        if node is not None and isinstance(node.op, Mul):
            _scaled_bytes(rewriter, node)
        elif node is not None and isinstance(node.op, Add):
            _biased_bytes(rewriter, node)
    return rewriter.result()


def add_to_products(graph: Graph) -> Graph:
    """Fold sums into the products that they follow: first a bias, then a residual."""
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        node = rewriter.nodes[index]
        if node is not None and isinstance(node.op, Add):
            _ = (
                _fold_bias(rewriter, node)
                or _fold_stored_bias(rewriter, node)
                or _fold_residual(rewriter, node)
            )
    return rewriter.result()


def _fold_bias(rewriter: Rewriter, node: Node) -> bool:
    """MatMul -> Add of one number per column: the product's bias."""
    for made, other in (node.inputs[:2], node.inputs[1::-1]):
        found = rewriter.producer(made, MatMul) if len(node.inputs) == 2 else None
        if found is None or not other or other == made:
            continue
        product, op = found
        kind, result = rewriter.type(other), rewriter.type(made)
        if len(product.inputs) > 2 or not op.is_bare or not is_float(kind.dtype) or _ends_otherwise(op):
            continue
        if rewriter.type(product.inputs[1]).rank < 2 or rewriter.type(node.outputs[0]).shape != result.shape:
            continue
        bias = _one_per_column(rewriter, other, result)
        if not bias:
            continue
        rewriter.merge(product, node, op, (*product.inputs, bias))
        return True
    return False


def _fold_stored_bias(rewriter: Rewriter, node: Node) -> bool:
    """StoredLinear -> Add of one number per column: the product's bias."""
    for made, other in (node.inputs[:2], node.inputs[1::-1]):
        found = rewriter.producer(made, StoredLinear) if len(node.inputs) == 2 else None
        if found is None or len(found[0].inputs) > 3 or not found[1].is_bare:
            continue
        bias = _one_per_column(rewriter, other, rewriter.type(made))
        if bias and rewriter.type(bias).dtype == FLOAT32:
            if rewriter.type(node.outputs[0]).shape != rewriter.type(made).shape:
                continue
            inputs = (*found[0].inputs, "")[:3]
            rewriter.merge(found[0], node, found[1], (*inputs, bias))
            return True
    return False


def _one_per_column(rewriter: Rewriter, name: str, result: TensorType) -> str:
    """Return a value with one number per column of the result, as a list of them; "" where it is none."""
    kind = rewriter.type(name)
    if kind.shape == result.shape[-1:]:
        return name
    if (
        name not in rewriter.constants
        or not kind.rank
        or kind.shape != (*[1] * (kind.rank - 1), *result.shape[-1:])
    ):
        return ""
    return rewriter.constant(f"{name}~bias", rewriter.constants[name].reshape(-1))


def _fold_residual(rewriter: Rewriter, node: Node) -> bool:
    """MatMul -> Add of a tensor of the same shape."""
    for made, other in (node.inputs[:2], node.inputs[1::-1]):
        found = rewriter.producer(made, MatMul) if len(node.inputs) == 2 else None
        if found is None or not other or other == made or other in rewriter.constants:
            continue
        product, op = found
        if not op.is_bare or rewriter.type(other).shape != rewriter.type(made).shape:
            continue
        if not is_float(rewriter.type(made).dtype) or 1 in (
            rewriter.type(x).rank for x in product.inputs[:2]
        ):
            continue
        bias = product.inputs[2] if len(product.inputs) > 2 else ""
        rewriter.merge(product, node, replace(op, residual=True), (*product.inputs[:2], bias, other))
        return True
    return False


def _ends_otherwise(op: MatMul) -> bool:
    """Whether the result's last axis is not the product's columns."""
    return bool(op.permute_y) and op.permute_y[-1] != len(op.permute_y) - 1


def _transposed_input(rewriter: Rewriter, node: Node, op: MatMul) -> bool:
    for index in (0, 1):
        found = rewriter.producer(node.inputs[index], Transpose)
        if found is None or node.inputs[index] == node.inputs[1 - index]:
            continue
        transpose, turn = found
        rank = rewriter.type(transpose.inputs[0]).rank
        order = turn.axes(rank)
        permute = (op.permute_a, op.permute_b)[index] or tuple(range(rank))
        taken = tuple(order[axis] for axis in permute)
        # A matrix that is a constant is packed once; a vector has nothing to transpose.
        if rank < 2 or transpose.inputs[0] in rewriter.constants:
            continue
        changed = replace(op, permute_b=taken) if index else replace(op, permute_a=taken)
        inputs = (*node.inputs[:index], transpose.inputs[0], *node.inputs[index + 1 :])
        rewriter.merge(transpose, node, changed, inputs)
        return True
    return False


def _transposed_output(rewriter: Rewriter, node: Node, op: Transpose) -> bool:
    found = rewriter.producer(node.inputs[0], MatMul)
    if found is None:
        return False
    product, matmul = found
    rank = rewriter.type(node.inputs[0]).rank
    order = op.axes(rank)
    if order[-1] != rank - 1 or matmul.permute_y or matmul.residual:
        return False
    if not is_float(rewriter.type(node.inputs[0]).dtype):
        return False
    if 1 in (rewriter.type(x).rank for x in product.inputs[:2]):
        return False
    rewriter.merge(product, node, replace(matmul, permute_y=tuple(order)), product.inputs)
    return True


def _transposed_batch(rewriter: Rewriter, node: Node) -> bool:
    """Reshape -> Transpose of the last two axes -> Reshape that undoes the first: a Transpose of the last two axes."""
    found = rewriter.producer(node.inputs[0], Transpose)
    first = None if found is None else rewriter.producer(found[0].inputs[0], Reshape)
    if found is None or first is None:
        return False
    x, middle = rewriter.type(first[0].inputs[0]), rewriter.type(found[0].inputs[0])
    rank, order = x.rank, found[1].axes(middle.rank)
    swapped = (*range(middle.rank - 2), middle.rank - 1, middle.rank - 2)
    if min(rank, middle.rank) < 2 or tuple(order) != swapped or x.shape[-2:] != middle.shape[-2:]:
        return False
    if rewriter.type(node.outputs[0]).shape != (*x.shape[:-2], x.shape[-1], x.shape[-2]):
        return False
    whole = Transpose((*range(rank - 2), rank - 1, rank - 2))
    inputs = first[0].inputs[:1]
    rewriter.nodes[rewriter.position[first[0].outputs[0]]] = None
    rewriter.uses.subtract(first[0].inputs)
    rewriter.merge(found[0], node, whole, inputs)
    return True


def scalar(rewriter: Rewriter, name: str) -> float | None:
    """Return the one finite number that a constant holds; None for other numbers, and for several."""
    value = rewriter.constants.get(name)
    if value is None or value.size != 1 or not is_float(value.dtype):
        return None
    number = float(np.asarray(value, np.float64).reshape(()))
    return number if np.isfinite(number) else None


def factor_of(rewriter: Rewriter, node: Node) -> tuple[str, float] | None:
    """Return the value that a Mul or Div multiplies by a constant number, and the number. The shape stays."""
    if len(node.inputs) != 2:
        return None
    for index, other in ((0, 1), (1, 0)):
        number = scalar(rewriter, node.inputs[other])
        divides = isinstance(node.op, Div)
        if number is None or (divides and (index == 1 or number == 0)):
            continue
        name = node.inputs[index]
        if name in rewriter.constants or rewriter.type(name).shape != rewriter.type(node.outputs[0]).shape:
            continue
        return name, 1 / number if divides else number
    return None


def _scaled_input(rewriter: Rewriter, node: Node, op: MatMul) -> bool:
    if len(node.inputs) > 2 or not op.is_bare:
        return False
    for index in (0, 1):
        found = rewriter.producer(node.inputs[index], Mul) or rewriter.producer(node.inputs[index], Div)
        scaled = None if found is None else factor_of(rewriter, found[0])
        if found is None or scaled is None or node.inputs[index] == node.inputs[1 - index]:
            continue
        inputs = (*node.inputs[:index], scaled[0], *node.inputs[index + 1 :])
        rewriter.merge(found[0], node, replace(op, alpha=op.alpha * scaled[1]), inputs)
        return True
    return False


def _scaled_output(rewriter: Rewriter, node: Node) -> bool:
    scaled = factor_of(rewriter, node)
    found = None if scaled is None else rewriter.producer(scaled[0], MatMul)
    if found is None or scaled is None:
        return False
    product, op = found
    if len(product.inputs) > 2 or not op.is_bare or not is_float(rewriter.type(scaled[0]).dtype):
        return False
    rewriter.merge(product, node, replace(op, alpha=op.alpha * scaled[1]), product.inputs)
    return True


def _scaled_bytes(rewriter: Rewriter, node: Node) -> None:
    """MatMulInteger or ConvInteger → Cast → Mul of one number, or of one per column or filter."""
    for made, scale in (node.inputs[:2], node.inputs[1::-1]):
        cast = rewriter.producer(made, Cast)
        if cast is None or rewriter.type(made).dtype != np.float32:
            continue
        source = cast[0].inputs[0]
        found: tuple[Node, Op] | None = rewriter.producer(source, MatMulInteger)
        found = found or rewriter.producer(source, ConvInteger)
        if found is None or rewriter.type(node.outputs[0]).shape != rewriter.type(made).shape:
            continue
        sums, op = found
        floats = ConvIntegerToFloat(op.conv) if isinstance(op, ConvInteger) else MatMulIntegerToFloat()
        kind, result = rewriter.type(scale), rewriter.type(made)
        columns = kind.shape[-1:] == result.shape[-1:] and kind.size == kind.shape[-1]
        fits = _one_per_filter(kind, result) if isinstance(op, ConvInteger) else columns
        if not (kind.size == 1 or fits) or rewriter.type(sums.inputs[1]).rank < 2:
            continue
        rewriter.nodes[rewriter.position[made]] = None
        rewriter.uses.subtract(cast[0].inputs)
        zeros = (*sums.inputs[2:], "", "")[:2]
        rewriter.merge(sums, node, floats, (*sums.inputs[:2], scale, *zeros))
        return


def _biased_bytes(rewriter: Rewriter, node: Node) -> None:
    """Add of one number per column or filter."""
    for made, other in (node.inputs[:2], node.inputs[1::-1]):
        found: tuple[Node, Op] | None = rewriter.producer(made, MatMulIntegerToFloat)
        found = found or rewriter.producer(made, ConvIntegerToFloat)
        if found is None or other == made or len(found[0].inputs) > 5:
            continue
        result = rewriter.type(made)
        if isinstance(found[1], ConvIntegerToFloat):
            bias = other if _one_per_filter(rewriter.type(other), result) else ""
        else:
            bias = _one_per_column(rewriter, other, result)
        if bias and rewriter.type(node.outputs[0]).shape == result.shape:
            inputs = (*found[0].inputs, "", "")[:5]
            rewriter.merge(found[0], node, found[1], (*inputs, bias))
            return


def _one_per_filter(kind: TensorType, result: TensorType) -> bool:
    """Whether a value that is added to a convolution's result has one number per filter."""
    spatial = result.rank - 2
    return spatial < kind.rank <= result.rank and kind.shape[-spatial - 1] == result.shape[1] == kind.size
