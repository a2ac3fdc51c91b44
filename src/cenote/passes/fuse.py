"""Folding of neighbours into the operator that makes their input: fewer steps, and no trip through memory between
them.

Every rule examines one node and its producer; a producer whose result another node reads too stays. Rules need a
specialised graph, for they compare shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import is_
from typing import TypeVar

import numpy as np

from cenote.core.sizes import plain
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.gated_conv import GatedConv, is_gateable
from cenote.ops.conv.winograd import can_pool
from cenote.ops.elementwise.activation import (
    ActivationOp,
    Clip,
    HardSigmoid,
    HardSwish,
    Sigmoid,
    Swish,
    activation_of,
)
from cenote.ops.elementwise.binary import Add, Div, Mul, Sub
from cenote.ops.epilogue import Fusible
from cenote.ops.linear.gemm import Gemm
from cenote.ops.movement.parts import Concat, Split
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.pool.window import MaxPool
from cenote.runtime.pieces import on_all_cores

K = TypeVar("K", bound=Op)
_PIECE = 1 << 20  # bytes of weights that a thread scales at a time


class Rewriter:
    """A graph being rewritten: nodes by output, users by value, new constants."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node | None] = list(graph.nodes)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.reasons = dict(graph.reasons)
        self.position = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs if name}
        self.copies: Counter[str] = Counter()  # numbers of copies of constants' names
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)  # one per occurrence
        self.uses.update(graph.outputs)
        self._operators: dict[Op, Op] = {}

    def producer(self, name: str, kind: type[K]) -> tuple[Node, K] | None:
        """Return the node that makes a value and its operator, if that is of the kind and no other node reads it."""
        if self.uses[name] != 1 or name not in self.position:
            return None
        node = self.nodes[self.position[name]]
        return (node, node.op) if node is not None and isinstance(node.op, kind) else None

    def merge(self, first: Node, second: Node, op: Op, inputs: tuple[str, ...], label: str = "") -> None:
        """Replace both nodes by one at the second's place, with the second's output."""
        self.nodes[self.position[first.outputs[0]]] = None
        self.uses.subtract((*first.inputs, *second.inputs))
        self.uses.update(inputs)
        label = label or first.label or second.label
        with suppress(TypeError):  # an attribute that is an array
            op = self._operators.setdefault(op, op)  # for what is remembered of nodes alike
        self.nodes[self.position[second.outputs[0]]] = Node(op, inputs, second.outputs, label)
        if first.outputs[0] in self.reasons:
            self.reasons[second.outputs[0]] = self.reasons.pop(first.outputs[0])

    def constant(self, stem: str, value: Array) -> str:
        """Add a constant; return its name."""
        name = stem
        # Types are those of inputs, too.
        while name in self.constants or name in self.position or name in self.graph.types:
            self.copies[stem] += 1
            name = f"{stem}.{self.copies[stem]}"
        self.constants[name] = value
        return name

    def type(self, name: str) -> TensorType:
        return TensorType.known(self.constants[name]) if name in self.constants else self.graph.types[name]

    def result(self) -> Graph:
        """Return the present graph: the same object where no rule applied."""
        graph = self.graph if self.reasons == self.graph.reasons else self.graph.replace(reasons=self.reasons)
        if all(map(is_, self.nodes, graph.nodes)):
            return graph
        nodes = tuple(node for node in self.nodes if node is not None)
        made = (*self.constants, *(name for node in nodes for name in node.outputs if name))
        names = (*(declared.name for declared in self.graph.inputs), *made)
        types = {name: graph.types[name] if name in graph.types else self.type(name) for name in names}
        return graph.replace(nodes=nodes, constants=self.constants, types=types)


Rule = Callable[[Rewriter, Node], bool]


def fuse(graph: Graph) -> Graph:
    """Apply every rule to every node until nothing changes."""
    changed = True
    while changed:
        rewriter, changed = Rewriter(graph), False
        for index in range(len(rewriter.nodes)):
            node = rewriter.nodes[index]
            if node is not None and any(rule(rewriter, node) for rule in RULES.get(type(node.op), ())):
                changed = True
        graph = rewriter.result()
    return graph


# ---- batch normalisation --------------------------------------------------------------------------------------------


def scale_and_shift(
    op: BatchNormalization, constants: Mapping[str, Array], names: tuple[str, ...]
) -> tuple[Array, Array]:
    """BatchNormalization with constant statistics as y = x * scale + shift per channel, in float64."""
    gamma, beta, mean, variance = (constants[name].astype(np.float64) for name in names)
    scale = gamma / np.sqrt(variance + op.epsilon)
    return scale, beta - mean * scale


def fold_batch_normalization(rewriter: Rewriter, node: Node) -> bool:
    """Conv, ConvTranspose → BatchNormalization: scale the filters, shift the bias."""
    found, normalization, statistics = rewriter.producer(node.inputs[0], Fusible), node.op, node.inputs[1:5]
    if found is None or len(node.outputs) != 1 or any(name not in rewriter.constants for name in statistics):
        return False
    producer, op = found
    if not isinstance(normalization, BatchNormalization) or normalization.training:
        return False
    if not isinstance(op, Conv | ConvTranspose) or not op.is_bare:
        return False
    if producer.inputs[1] not in rewriter.constants:
        return False
    scale, shift = scale_and_shift(normalization, rewriter.constants, statistics)
    weights = rewriter.constants[producer.inputs[1]]
    scaled = _scale_filters(op, weights, scale)
    bias_name = producer.inputs[2] if len(producer.inputs) > 2 else ""
    if bias_name and bias_name not in rewriter.constants:
        return False
    bias = rewriter.constants[bias_name].astype(np.float64) if bias_name else np.zeros_like(scale)
    names = (
        producer.inputs[0],
        rewriter.constant(f"{producer.inputs[1]}~bn", scaled),
        rewriter.constant(f"{node.inputs[2]}~bias", (bias * scale + shift).astype(weights.dtype)),
    )
    rewriter.merge(producer, node, op.activated(normalization.activation), names)
    return True


def _scale_filters(op: Conv | ConvTranspose, weights: Array, scale: Array) -> Array:
    """Weights times the scale of the filter (output channel) they belong to."""
    if isinstance(op, Conv):
        shape = (-1, *[1] * (weights.ndim - 1))
        scaled, factors = np.empty_like(weights), scale.reshape(shape)
        filters = max(1, _PIECE * len(weights) // max(1, weights.nbytes))

        def work(piece: int) -> None:
            part = slice(piece * filters, (piece + 1) * filters)
            # In float64, rounded once, without a float64 copy of the weights (ResNet-50: 0.2 s of page faults).
            np.multiply(weights[part], factors[part], out=scaled[part], casting="same_kind")

        on_all_cores(-(-len(weights) // filters), work)
        return scaled
    # ConvTranspose's weights are (C, M/groups, …): the filters of a group lie along axis 1.
    per_group = scale.reshape(op.groups, 1, -1, *[1] * (weights.ndim - 2))
    grouped = weights.reshape(op.groups, weights.shape[0] // op.groups, *weights.shape[1:])
    return (grouped * per_group).reshape(weights.shape).astype(weights.dtype)


# ---- bias, residual, activation -------------------------------------------------------------------------------------


def per_channel(rewriter: Rewriter, conv: str, constant: str) -> Array | None:
    """A constant as one number per channel of a convolution's result; None where it is something else."""
    value, made = rewriter.constants.get(constant), rewriter.type(conv)
    if value is None or value.ndim > made.rank or value.size not in (1, made.shape[1]):
        return None
    places = (1,) * (made.rank - value.ndim) + value.shape
    if any(extent != 1 for axis, extent in enumerate(places) if axis != 1):
        return None
    return np.broadcast_to(value.reshape(-1), made.shape[1:2]).astype(np.float64)


def fold_constant(rewriter: Rewriter, node: Node) -> bool:
    """Conv → Add, Sub, Mul or Div of one constant per channel: its bias, or its filters and its bias scaled.

    Batch normalisation that an exporter wrote out is such a chain.
    """
    pairs = (node.inputs, node.inputs[::-1]) if isinstance(node.op, Add | Mul) else (node.inputs,)
    for name, other in pairs:
        found = rewriter.producer(name, Fusible)
        if found is None:
            continue
        producer, op = found[0], found[1]
        if not isinstance(op, Conv | ConvTranspose) or not op.is_bare:
            continue
        value, bias = per_channel(rewriter, name, other), [*producer.inputs, ""][2]
        if value is None or (bias and bias not in rewriter.constants):
            continue
        if rewriter.type(node.outputs[0]) != rewriter.type(name):
            continue
        before = rewriter.constants[bias].astype(np.float64) if bias else np.zeros_like(value)
        weights = producer.inputs[1]
        if isinstance(node.op, Add | Sub):
            after = before + (value if isinstance(node.op, Add) else -value)
        else:
            scale = value if isinstance(node.op, Mul) else 1 / value
            if weights not in rewriter.constants or not np.isfinite(scale).all():
                continue
            after = before * scale
            scaled = _scale_filters(op, rewriter.constants[weights], scale)
            weights = rewriter.constant(f"{weights}~scaled", scaled)
        dtype = rewriter.type(name).dtype
        inputs = (producer.inputs[0], weights, rewriter.constant(f"{other}~bias", after.astype(dtype)))
        rewriter.merge(producer, node, op, inputs)
        return True
    return False


def fold_into_gemm(rewriter: Rewriter, node: Node) -> bool:
    """Gemm → Add of a constant row: its C."""
    for name, other in (node.inputs, node.inputs[::-1]):
        found, row = rewriter.producer(name, Gemm), rewriter.constants.get(other)
        if found is None or row is None or len(found[0].inputs) > 2 or not found[1].is_bare:
            continue
        made = rewriter.type(name)
        if row.size != made.shape[1] or row.shape[-1:] != made.shape[1:] or row.ndim > 2:
            continue
        rewriter.merge(found[0], node, replace(found[1], beta=1.0), (*found[0].inputs, other))
        return True
    return False


def fold_residual(rewriter: Rewriter, node: Node) -> bool:
    """Conv → Add of a tensor of the same shape: the accumulators start from it."""
    for producer_name, other in (node.inputs, node.inputs[::-1]):
        found = rewriter.producer(producer_name, Conv)
        if found is None or other == producer_name or other in rewriter.constants:
            continue
        producer, op = found
        if not op.is_bare:
            continue
        if rewriter.type(other).shape != rewriter.type(producer_name).shape:
            continue
        bias = producer.inputs[2] if len(producer.inputs) > 2 else ""
        inputs = (*producer.inputs[:2], bias, other)
        rewriter.merge(producer, node, replace(op, residual=True), inputs)
        return True
    return False


def fold_activation(rewriter: Rewriter, node: Node) -> bool:
    """Conv, ConvTranspose, Gemm, BatchNormalization → activation."""
    found = rewriter.producer(node.inputs[0], Fusible)
    if found is None or rewriter.type(node.inputs[0]).dtype != np.float32:
        return False
    producer, op = found
    activation = activation_of(node.op, [rewriter.type(name) if name else None for name in node.inputs])
    if activation is None or not op.activation.is_identity:
        return False
    if op.pool and not activation.never_decreases:
        return False  # the maximum comes first: largest(f(x)) is f(largest(x)) for others only
    rewriter.merge(producer, node, op.activated(activation), producer.inputs)
    return True


def fold_max_pool(rewriter: Rewriter, node: Node) -> bool:
    """Conv → MaxPool of 2x2, two apart, where the convolution's kernels can write the maxima themselves."""
    found, pool = rewriter.producer(node.inputs[0], Conv), node.op
    if found is None or not isinstance(pool, MaxPool) or len(node.outputs) != 1:
        return False
    producer, op = found
    made, constants = rewriter.type(node.inputs[0]), rewriter.constants
    if (
        op.residual
        or op.pool
        or op.exact
        or made.dtype != np.float32
        or any(name and name not in constants for name in producer.inputs[1:])
        or not is_plain_2x2(pool, made.shape)
        or not can_pool(op.shape(*(rewriter.type(name) for name in producer.inputs[:2])))
    ):
        return False
    rewriter.merge(producer, node, replace(op, pool=True), producer.inputs)
    return True


def is_plain_2x2(pool: MaxPool, shape: tuple[int, ...]) -> bool:
    """Whether a pool takes 2x2 windows, two apart, and nothing else, of a map of this shape."""
    if type(pool) is not MaxPool or pool.return_indices or pool.nan != "propagate" or pool.channels_last:
        return False
    return len(pool.window) == 2 and all(
        (axis.window, axis.stride, axis.dilation, axis.begin) == (2, 2, 1, 0) and axis.out == axis.size // 2
        for axis in pool.geometry(shape)
    )


def recognize_gate(rewriter: Rewriter, node: Node) -> bool:
    """Mul(x, Sigmoid(x)) is Swish; Mul(x, HardSigmoid(x)) with slope 1/6 is HardSwish."""
    for gate_name, x in (node.inputs, node.inputs[::-1]):
        found = rewriter.producer(gate_name, ActivationOp)
        if found is None or found[0].inputs[0] != x or not isinstance(found[1], Sigmoid | HardSigmoid):
            continue
        gate, op = found
        if isinstance(op, HardSigmoid):
            if abs(op.alpha - 1 / 6) > 1e-6 or op.beta != 0.5:
                continue
            rewriter.merge(gate, node, HardSwish(), (x,))
        else:
            rewriter.merge(gate, node, Swish(), (x,))
        return True
    return False


def join_split_pieces(rewriter: Rewriter, node: Node) -> bool:
    """Concat(…, all parts of Split(x) in order, …) along the same axis: x itself."""
    inputs: list[str] = []
    taken = 0  # inputs of the node that are among them, or in a whole among them
    for start, name in enumerate(node.inputs):
        if start < taken:
            continue
        inputs.append(name)
        taken = start + 1
        where = rewriter.position.get(name)
        split = None if where is None else rewriter.nodes[where]
        if split is None or not isinstance(split.op, Split) or not isinstance(node.op, Concat):
            continue
        rank, count = rewriter.type(name).rank, len(split.outputs)
        if node.inputs[start : start + count] != split.outputs or split.op.axis % rank != node.op.axis % rank:
            continue
        axis, whole = node.op.axis % rank, rewriter.type(split.inputs[0])
        if sum(rewriter.type(part).shape[axis] for part in split.outputs) != whole.shape[axis]:
            continue  # parts at the end that nobody reads have no names any more
        rewriter.uses.subtract(split.outputs)
        rewriter.uses.update(split.inputs[:1])
        inputs[-1], taken = split.inputs[0], start + count
    if tuple(inputs) == node.inputs:
        return False
    rewriter.nodes[rewriter.position[node.outputs[0]]] = replace(node, inputs=tuple(inputs))
    return True


RULES: Mapping[type[Op], tuple[Rule, ...]] = {
    BatchNormalization: (fold_batch_normalization,),
    Add: (fold_constant, fold_into_gemm, fold_residual),
    Sub: (fold_constant,),
    Mul: (fold_constant, recognize_gate),
    Div: (fold_constant,),
    Clip: (fold_activation,),
    MaxPool: (fold_max_pool,),
    Concat: (join_split_pieces,),
    **dict.fromkeys(ActivationOp.__subclasses__(), (fold_activation,)),
}


def fuse_gates(graph: Graph) -> Graph:
    """Conv(x * gate) of one number per channel, where the convolution has far fewer weights than x has elements.

        %m = mul %x, %gate                ->    %y = gated_conv(conv=conv) %x, %gate, %w, %b
        %y = conv %m, %w, %b

    Multiplying the weights, once per inference, takes the place of a pass over the map. It pays where they are at
    most a quarter as many as the map's elements (480 channels at 14x14 to 80: 9 us either way).
    """
    rewriter = Rewriter(graph)
    for index in range(len(rewriter.nodes)):
        node = rewriter.nodes[index]
        if node is not None and isinstance(node.op, Conv):
            _fuse(rewriter, node, node.op)
    return rewriter.result()


def _fuse(rewriter: Rewriter, node: Node, op: Conv) -> None:
    found = rewriter.producer(node.inputs[0], Mul)
    if found is None or node.inputs[0] in node.inputs[1:]:
        return
    product, _ = found
    weights, made = rewriter.type(node.inputs[1]), rewriter.type(node.inputs[0])
    constants = [name in rewriter.constants for name in node.inputs[1:3] if name]
    if made.dtype != np.float32 or not all(constants) or not is_gateable(op.shape(made, weights)):
        return
    for x, gate in (product.inputs, product.inputs[::-1]):
        per_channel = (*made.shape[:2], *(1,) * (made.rank - 2))
        if rewriter.type(x).shape != made.shape or rewriter.type(gate).shape != per_channel:
            continue
        if weights.size * plain(made.shape[0]) * 4 <= plain(made.size) and gate not in rewriter.constants:
            rewriter.merge(product, node, GatedConv(op), (x, gate, *node.inputs[1:]), node.label)
            return
