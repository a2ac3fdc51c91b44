"""Convolutions and products between dequantisation and quantisation as those of bytes, where these are quicker.

    %a = dequantize_linear %q, …
    %w = dequantize_linear <i8>, …                ->    %y = qlinear_conv %q, …, <i8>, …, <i32>
    %c = relu (conv %a, %w, dequantize_linear <i32>)
    %y = quantize_linear %c, …

Gemm and MatMul become qlinear_matmul likewise. Constants that are dequantised stay as they are until here
(`Op.folds_late`); those that no operator of bytes reads become floats then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cenote.core.sizes import plain
from cenote.core.target import Target
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import run_node
from cenote.kernels.cost_model import moved_seconds
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.elementwise.activation import activation_of
from cenote.ops.elementwise.binary import Add
from cenote.ops.elementwise.pointwise import Pointwise
from cenote.ops.epilogue import Fusible
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.quantization.quantize import DequantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import INT32, QLinearConv
from cenote.ops.quantization.quantized_products import QLinearMatMul
from cenote.ops.quantization.quantized_transposed import QLinearConvTranspose
from cenote.passes.declined import Declined, estimated, slower
from cenote.passes.fuse import Rewriter
from cenote.passes.quantization.scales import BYTES, scale_and_zero_point, zero_point

_LINEAR = Gemm(transpose_b=True)  # a fully connected layer, as most exporters write it
SUMS = (Conv, ConvTranspose, Gemm, MatMul)
_BOUNDED = ("relu", "clip")
LARGEST_SUM = (1 << 31) - 1  # larger ones wrap around


def quantize_sums(graph: Graph, target: Target) -> Graph:
    """Make convolutions and products of bytes of those that are estimated to take no longer."""
    last = [node for node in graph.nodes if isinstance(node.op, QuantizeLinear)]
    if not last:
        return graph
    rewriter = Rewriter(graph)
    with np.errstate(over="ignore"):  # of scales' products and quotients, which are looked at
        for node in last:
            _quantize(rewriter, node, target)
    return rewriter.result()


def dequantize_constants(graph: Graph) -> Graph:
    """Compute what is dequantised or cast of constants and read, and what follows from it; remove what is not read."""
    rewriter = Rewriter(graph)
    made: set[str] = set()
    for place, node in enumerate(rewriter.nodes):
        if node is None or not all(not name or name in rewriter.constants for name in node.inputs):
            continue
        if made.isdisjoint(node.inputs) and not node.op.folds_late(graph.input_types(node)):
            continue
        if not node.op.pure or node.op.apart:
            continue
        rewriter.nodes[place] = None
        if any(name and rewriter.uses[name] for name in node.outputs):
            values = run_node(node, [rewriter.constants[name] if name else None for name in node.inputs])
            rewriter.constants.update(
                {name: x for name, x in zip(node.outputs, values, strict=False) if name}
            )
            made.update(node.outputs)
    return rewriter.result()


def _quantize(rewriter: Rewriter, last: Node, target: Target) -> None:
    """Replace the convolution or product whose result a node quantises."""
    source = bounded_source(rewriter, last)
    sums = None if source is None else rewriter.producer(source.name, Fusible)
    if source is None or sums is None or not isinstance(sums[1], SUMS):
        return
    node, op = sums
    try:
        quantized = _of_bytes(op, source.bounds)
        inputs = _operands(rewriter, node, source.scale)
        zero = rewriter.constant(f"{last.outputs[0]}.zero", source.zero)
        inputs = (*inputs[:6], last.inputs[1], zero, *inputs[6:])
        _require_quicker(rewriter, quantized, inputs, node, target)
    except Declined as reason:
        rewriter.reasons[node.outputs[0]] = f"not on bytes: {reason}"
        return
    for each in (*source.between, node):
        rewriter.nodes[rewriter.position[each.outputs[0]]] = None
        rewriter.uses.subtract(each.inputs)
    rewriter.uses.subtract(last.inputs)
    rewriter.uses.update(inputs)
    rewriter.nodes[rewriter.position[last.outputs[0]]] = Node(
        quantized, inputs, last.outputs, node.label or last.label
    )


class BoundedSource(NamedTuple):
    """A value that is quantised by one ordinary scale, perhaps after an activation that bounds it: its name, the scale,
    the zero point, the least and the largest number of the result, and the activation's node."""

    name: str
    scale: Array
    zero: Array
    bounds: tuple[int, int]
    between: tuple[Node, ...]


def bounded_source(rewriter: Rewriter, last: Node) -> BoundedSource | None:
    """Return what a node quantises; None where its scale is no ordinary one, or another activation comes before it."""
    scale, zero = scale_and_zero_point(rewriter, last)
    if scale is None or zero is None:
        return None
    limits = np.iinfo(zero.dtype)
    found = rewriter.producer(last.inputs[0], Pointwise)
    if found is None or isinstance(found[1], Add):
        return BoundedSource(last.inputs[0], scale, zero, (int(limits.min), int(limits.max)), ())
    bounds = _bounded(rewriter, found[0], scale, zero)
    return None if bounds is None else BoundedSource(found[0].inputs[0], scale, zero, bounds, (found[0],))


def _of_bytes(op: Fusible, bounds: tuple[int, int]) -> QLinearConv | QLinearMatMul:
    """The operator of bytes for one of floats. Raises Declined where there is none."""
    if isinstance(op, ConvTranspose):
        if op.groups != 1 or not op.is_bare:
            raise Declined(f"transposed convolutions of bytes have one group, not {op.groups}")
        return QLinearConvTranspose(op, bounds)
    require_bytes_of(op)
    return QLinearConv(op, bounds) if isinstance(op, Conv) else QLinearMatMul(bounds)


def require_bytes_of(op: Op) -> None:
    """Raise Declined unless operators of bytes have this convolution or product."""
    has = replace(op, exact=False) in (MatMul(), Gemm(), _LINEAR) if isinstance(op, Gemm | MatMul) else None
    if has is None:
        has = isinstance(op, Conv) and op.is_bare
    if not has:
        raise Declined(f"{op} has no form of bytes")


def _bounded(rewriter: Rewriter, node: Node, scale: Array, zero: Array) -> tuple[int, int] | None:
    """The numbers between which an activation in front of a quantisation keeps it; None for other activations."""
    activation = activation_of(node.op, [rewriter.type(name) if name else None for name in node.inputs])
    if activation is None or activation.kind not in _BOUNDED:
        return None
    limits = (0.0, math.inf) if activation.kind == "relu" else (activation.alpha, activation.beta)
    if not limits[0] <= limits[1]:
        return None
    range_of = np.iinfo(zero.dtype)
    low, high = (
        np.clip(np.rint(np.float32(limit) / scale.reshape(())) + zero.item(), range_of.min, range_of.max)
        for limit in limits
    )
    return int(low), int(high)


class Weighted(NamedTuple):
    """A convolution or product of dequantised bytes and constant weights: the names of x and of the weights, each with
    its scale and zero point, the factors from sums to floats, the number of filters, and a bound of the sums'
    magnitude."""

    x: tuple[str, str, str]
    w: tuple[str, str, str]
    scales: Array
    filters: int
    largest: int


def _operands(rewriter: Rewriter, node: Node, y_scale: Array) -> tuple[str, ...]:
    """The names of x, its scale and zero point, those of the weights, and the bias, of a convolution or product that
    reads dequantised bytes. Raises Declined of others."""
    factors = factors_of(rewriter, node)
    if factors is not None:
        _require_finite(factors.scales / y_scale)
        return (*factors.x, *factors.w)
    found = weighted(rewriter, node)
    bias = _bias(rewriter, node, found)
    _require_finite(found.scales / y_scale)
    return (*found.x, *found.w, *bias)


def _require_finite(scales: Array) -> None:
    if not np.isfinite(scales).all():
        raise Declined("its scales have no finite quotient")


def weighted(rewriter: Rewriter, node: Node) -> Weighted:
    """Return the operands of a convolution or product of dequantised bytes and constant weights. Raises Declined of
    others, and where a sum could wrap around."""
    x, w = _sides(rewriter, node)
    x_scale, x_zero = _one_scale(rewriter, x)
    weights, w_scale = rewriter.constants.get(w.inputs[0]), rewriter.constants.get(w.inputs[1])
    w_zero = zero_point(rewriter, w, w.inputs[0])
    if weights is None or w_scale is None or w_zero is None:
        raise Declined("its weights are computed, or their scale or zero point is")
    if weights.dtype.name not in BYTES or w_scale.dtype != np.float32:
        raise Declined(f"its weights are {weights.dtype}, their scale {w_scale.dtype}")
    turned = isinstance(node.op, Gemm) and node.op.transpose_b
    filters = 0 if turned or isinstance(node.op, Conv) else 1
    if not _is_by_filter(w, weights, w_scale, filters):
        raise Declined("the scales of its weights are neither one nor one for each filter")
    largest = _largest_sum(x_zero, weights, w_zero, filters)
    if largest > LARGEST_SUM:
        raise Declined(f"a sum may come to {largest}, which 32 bits do not hold")
    stem, name = node.outputs[0], w.inputs[0]
    if turned:
        name = rewriter.constant(f"{stem}.w", np.ascontiguousarray(weights.T))
    zeros = (rewriter.constant(f"{stem}.x_zero", x_zero), rewriter.constant(f"{stem}.w_zero", w_zero))
    return Weighted(
        (x.inputs[0], x.inputs[1], zeros[0]),
        (name, w.inputs[1], zeros[1]),
        np.asarray(x_scale.reshape(()) * w_scale),
        weights.shape[filters],
        largest,
    )


def _largest_sum(x_zero: Array, weights: Array, w_zero: Array, filters: int) -> int:
    """Return a bound of the magnitude of a filter's sum: by the number of its products, and by its weights where that
    one is not small enough."""
    others = tuple(axis for axis in range(weights.ndim) if axis != filters)
    depth: int = math.prod(weights.shape[axis] for axis in others)
    bound = depth * _farthest(x_zero) * _farthest(w_zero)
    if bound <= LARGEST_SUM:
        return bound
    zeros = w_zero.astype(np.int16).reshape([-1 if axis == filters else 1 for axis in range(weights.ndim)])
    apart = np.abs(weights.astype(np.int16) - zeros).sum(axis=others, dtype=np.int64)
    return _farthest(x_zero) * int(apart.max(initial=0))


def _farthest(zeros: Array) -> int:
    """Return the largest distance of a byte from one of the zero points."""
    limits = np.iinfo(zeros.dtype)
    return max(int(zeros.max(initial=0)) - int(limits.min), int(limits.max) - int(zeros.min(initial=0)))


class Factors(NamedTuple):
    """Two computed factors of a product: the name of each with its scale and zero point, and the factor from sums to
    floats."""

    x: tuple[str, str, str]
    w: tuple[str, str, str]
    scales: Array


def factors_of(rewriter: Rewriter, node: Node) -> Factors | None:
    """Return the factors of a product of which neither is a matrix of weights; None where one is. Their scales and
    zero points are one for all of their numbers. Raises Declined of others, and where a sum could wrap around."""
    a, b = _sides(rewriter, node)
    weights = rewriter.constants.get(b.inputs[0])
    if not isinstance(node.op, MatMul) or (weights is not None and weights.ndim == 2):
        return None
    (a_scale, a_zero), (b_scale, b_zero) = _one_scale(rewriter, a), _one_scale(rewriter, b)
    largest = rewriter.type(node.inputs[0]).shape[-1] * _farthest(a_zero) * _farthest(b_zero)
    if largest > LARGEST_SUM:
        raise Declined(f"a sum may come to {largest}, which 32 bits do not hold")
    zeros = [
        rewriter.constant(f"{node.outputs[0]}.{which}_zero", zero)
        for which, zero in (("a", a_zero), ("b", b_zero))
    ]
    return Factors(
        (a.inputs[0], a.inputs[1], zeros[0]),
        (b.inputs[0], b.inputs[1], zeros[1]),
        np.asarray(a_scale.reshape(()) * b_scale.reshape(())),
    )


def _sides(rewriter: Rewriter, node: Node) -> tuple[Node, Node]:
    """The nodes that dequantise both operands. Raises Declined where one is not dequantised to float32."""
    x, w = (dequantized(rewriter, name) for name in node.inputs[:2])
    if x is None or w is None:
        both = "its operands are" if x is w else "its input is" if x is None else "its weights are"
        raise Declined(f"{both} not quantised, or in blocks")
    if rewriter.type(node.inputs[0]).dtype != np.float32:
        raise Declined(f"it is of {rewriter.type(node.inputs[0]).dtype}")
    return x, w


def _one_scale(rewriter: Rewriter, node: Node) -> tuple[Array, Array]:
    """The scale and the zero point of a dequantised value. Raises Declined unless there is an ordinary one of each."""
    scale, zero = scale_and_zero_point(rewriter, node)
    if scale is not None and zero is not None:
        return scale, zero
    kind = rewriter.type(node.inputs[0]).dtype
    if kind.name not in BYTES:
        raise Declined(f"its input is {kind}")
    raise Declined("its input's scale is no single ordinary constant")


def dequantized(rewriter: Rewriter, name: str) -> Node | None:
    """The node that dequantises a value."""
    place = rewriter.position.get(name)
    node = None if place is None else rewriter.nodes[place]
    return node if node is not None and isinstance(node.op, DequantizeLinear) and not node.op.block else None


def _is_by_filter(node: Node, weights: Array, scale: Array, filters: int) -> bool:
    """Whether weights have one scale, or one per filter; `filters`: their axis."""
    op = node.op
    assert isinstance(op, DequantizeLinear)
    return scale.size == 1 or (scale.shape == (weights.shape[filters],) and op.axis % weights.ndim == filters)


def _bias(rewriter: Rewriter, node: Node, found: Weighted) -> tuple[str, ...]:
    """The name of the bias in whole numbers at the scale of the sums, () where there is none. Raises Declined where it
    has others, or a sum could wrap around with it."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return ()
    source = dequantized(rewriter, node.inputs[2])
    if source is None or source.inputs[0] not in rewriter.constants:
        raise Declined("its bias is no quantised constant")
    bias, own = rewriter.constants[source.inputs[0]], rewriter.constants.get(source.inputs[1])
    zero = zero_point(rewriter, source, source.inputs[0])
    if bias.dtype != INT32 or bias.shape != (found.filters,) or own is None or zero is None or zero.any():
        raise Declined("its bias is not int32 around 0, one number for each filter")
    largest = found.largest + int(np.abs(bias.astype(np.int64)).max(initial=0))
    if largest > LARGEST_SUM:
        raise Declined(f"a sum may come to {largest} with its bias, which 32 bits do not hold")
    if not np.allclose(own.ravel(), found.scales.ravel(), rtol=1e-5, atol=0):
        raise Declined("its bias has another scale than its sums")
    return (source.inputs[0],)


def _require_quicker(
    rewriter: Rewriter,
    quantized: QLinearConv | QLinearMatMul,
    inputs: tuple[str, ...],
    node: Node,
    target: Target,
) -> None:
    """Raise Declined unless the operator of bytes is estimated to take no longer than that of floats."""
    own = estimated(quantized, [rewriter.type(name) for name in inputs], target)
    x, y = rewriter.type(node.inputs[0]), rewriter.type(node.outputs[0])
    other = seconds_of_floats(rewriter, node, target)
    # Floats are made of the bytes of x, and bytes of those of y: five bytes read and written for each.
    require_quicker(own, other + moved_seconds(5 * (x.size + y.size)))


def require_quicker(own: float, floats: float) -> None:
    """Raise Declined unless there is a way on bytes (not infinity) that is estimated to take no longer than floats."""
    if math.isinf(own):
        raise Declined("no kernel of bytes has its window, groups, strides or sizes")
    if own > plain(floats):
        raise Declined(slower(own, plain(floats), "on bytes"))


def seconds_of_floats(rewriter: Rewriter, node: Node, target: Target) -> float:
    """Return the estimate for a convolution or product of floats by constant weights, at the sizes at hand."""
    weights = TensorType.known(np.broadcast_to(np.float32(0), rewriter.type(node.inputs[1]).shape))
    return estimated(node.op, [rewriter.type(node.inputs[0]), weights], target)
