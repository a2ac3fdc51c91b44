"""Attention in the pieces that exporters write, once transpositions and scale factors are in the products.

    %s = matmul %q, %k; %m = add %s, %mask; %p = softmax %m; %y = matmul %p, %v    ->    %y = scaled_dot_product …

The addition may be missing, or add nothing. The scores of all queries and keys are then never stored. A query whose
keys are all closed gives NaN, as its softmax would, or zeros where the pieces say so, as torch.onnx writes them today:

    %n = isnan %p; %w = where %n, 0, %p; %y = matmul %w, %v
"""

from __future__ import annotations

from cenote.core.sizes import is_size
from cenote.core.target import Target
from cenote.graph.graph import Graph, Node
from cenote.ops.elementwise.binary import Add
from cenote.ops.elementwise.compare import IsNaN
from cenote.ops.elementwise.where import Where
from cenote.ops.linear.matmul import MatMul
from cenote.ops.normalization.softmax import Softmax
from cenote.ops.sequence.scaled_dot_product import ScaledDotProduct
from cenote.passes.fuse import Rewriter


def recognize_attention(graph: Graph, target: Target) -> Graph:
    """Replace the pieces where there is a kernel for the whole."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if isinstance(node.op, MatMul) and node.op.is_bare and len(node.inputs) == 2:
            _replace(rewriter, node, node.op, target)
    return rewriter.result()


def _replace(rewriter: Rewriter, node: Node, average: MatMul, target: Target) -> None:
    found = _softmax(rewriter, node.inputs[0])
    if found is None or average.permute_a or average.alpha != 1:
        return
    softmax, clearing = found
    pieces, mask = [*clearing, softmax[0]], ""
    rank = rewriter.type(node.inputs[0]).rank
    if softmax[1].axis % rank != rank - 1 or rank < 2:
        return
    scores = softmax[0].inputs[0]
    scores_product = rewriter.producer(scores, MatMul)
    added = None if scores_product is not None else rewriter.producer(scores, Add)
    if added is not None:
        scores_product, mask = _masked(rewriter, added[0])
        pieces.append(added[0])
    if scores_product is None:
        return
    product, op = scores_product
    if not op.is_bare or len(product.inputs) > 2 or op.permute_y:
        return
    kinds = [rewriter.type(name) for name in (*product.inputs, node.inputs[1])]
    if (
        min(kind.rank for kind in kinds) < 2
        or rewriter.type(product.outputs[0]).shape != rewriter.type(scores).shape
    ):
        return
    turned = op.permute_b or tuple(range(kinds[1].rank))
    whole = ScaledDotProduct(
        op.alpha,
        nan_to_zero=bool(clearing),
        permute_q=op.permute_a,
        permute_k=(*turned[:-2], turned[-1], turned[-2]),
        permute_v=average.permute_b,
        permute_y=average.permute_y,
    )
    inputs = (*product.inputs, node.inputs[1], *((mask,) if mask else ()))
    if next(whole.lowerings([rewriter.type(name) for name in inputs], target), None) is None:
        return
    for piece in (*pieces, product):
        rewriter.nodes[rewriter.position[piece.outputs[0]]] = None
        rewriter.uses.subtract(piece.inputs)
    rewriter.uses.subtract(node.inputs)
    rewriter.uses.update(inputs)
    rewriter.nodes[rewriter.position[node.outputs[0]]] = Node(whole, inputs, node.outputs, node.label)


def _softmax(rewriter: Rewriter, weights: str) -> tuple[tuple[Node, Softmax], tuple[Node, ...]] | None:
    """Return the softmax that makes weights, and the nodes that write zeros where it gives NaN."""
    where = rewriter.producer(weights, Where)
    if where is None:
        softmax = rewriter.producer(weights, Softmax)
        return softmax and (softmax, ())
    condition, zero, powers = where[0].inputs
    test, constant = rewriter.producer(condition, IsNaN), rewriter.constants.get(zero)
    node = rewriter.nodes[rewriter.position[powers]] if powers in rewriter.position else None
    if test is None or test[0].inputs[0] != powers or rewriter.uses[powers] != 2:
        return None
    if node is None or not isinstance(node.op, Softmax) or constant is None or constant.any():
        return None
    whole = rewriter.type(powers).shape == rewriter.type(weights).shape
    return ((node, node.op), (where[0], test[0])) if whole else None


def _masked(rewriter: Rewriter, node: Node) -> tuple[tuple[Node, MatMul] | None, str]:
    """Return the product that makes the scores, of an addition of a mask to scores, and the mask: "" if it is zeros."""
    for scores, mask in (node.inputs[:2], node.inputs[1::-1]):
        product = rewriter.producer(scores, MatMul) if len(node.inputs) == 2 and mask != scores else None
        if product is None:
            continue
        known, shape = rewriter.constants.get(mask), rewriter.type(mask).shape
        if known is not None and not known.any():
            return product, ""
        if shape and not (not is_size(shape[-1]) and shape[-1] == 1):
            return product, mask
    return None, ""
