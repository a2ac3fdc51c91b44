"""Cross-layer equalisation and bias correction (M. Nagel et al., Data-Free Quantization Through Weight Equalization and
Bias Correction, 2019).

Equalisation: where a convolution's channel c goes through nothing or a Relu into the next convolution, channel c may
be divided by s_c > 0 in the first and multiplied in the second. With s = sqrt(r1 / r2), r the largest weight of the
channel in each, both have equal ranges, so one scale for all loses less.

Bias correction: weights that are rounded move a layer's mean by sum (w - w') E[x]. With E[x] per input channel from the
calibration data, it is added to the bias. At borders with padding it is an approximation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto

from cenote.core.types import Array
from cenote.quantization.network import Network, attribute
from cenote.quantization.placement import BytePlacement, is_weighted
from cenote.quantization.prepare import filters_axis
from cenote.quantization.qdq import WeightFormat, weights_of
from cenote.quantization.scales import ByteLevels

_ROUNDS = 20
# Factors of a round that are closer to 1 end it.
_SETTLED = 1e-3
# Largest factor of a channel: one that is nearly zero in one layer would take the other's range.
_LARGEST = 1e4


def equalize(network: Network) -> int:
    """Equalise the weights of a network in place; return the number of pairs of convolutions."""
    pairs = [pair for node in network.nodes if (pair := _pair(network, node)) is not None]
    for first, second in pairs:
        for node in (first, second):
            for place in (1, 2):
                if place < len(node.input) and node.input[place]:
                    own = network.fresh(f"{node.name}.input{place}.equalized")
                    network.set_constant(own, network.constants[node.input[place]])
                    node.input[place] = own
    network.refreshed()
    for _ in range(_ROUNDS if pairs else 0):
        if max(_round(network, first, second) for first, second in pairs) < _SETTLED:
            break
    network.drop_unread_constants()
    return len(pairs)


def _pair(network: Network, first: NodeProto) -> tuple[NodeProto, NodeProto] | None:
    """Return a convolution and the one that alone reads it, behind a Relu or nothing."""
    if first.op_type != "Conv" or not is_weighted(network, first):
        return None
    second = network.only_reader(first.output[0])
    if second is not None and second.op_type == "Relu":
        second = network.only_reader(second.output[0])
    if second is None or second.op_type != "Conv" or not is_weighted(network, second):
        return None
    return (first, second) if second.input[1] != first.input[1] else None


def _round(network: Network, first: NodeProto, second: NodeProto) -> float:
    """Move a factor per channel between two convolutions; return the largest logarithm of one."""
    left, right = network.constants[first.input[1]], network.constants[second.input[1]]
    groups = attribute(second, "group", 1)
    out = np.abs(left).reshape(len(left), -1).max(axis=1).astype(np.float64)
    # Filters of the second by group: [group, filter, channel in group, window].
    grouped = right.reshape(groups, len(right) // groups, right.shape[1], -1)
    into = np.abs(grouped).max(axis=(1, 3)).ravel().astype(np.float64)
    usable = (out > 0) & (into > 0)
    factor = np.ones(len(left))
    factor[usable] = np.clip(np.sqrt(out[usable] / into[usable]), 1 / _LARGEST, _LARGEST)
    along = [-1] + [1] * (left.ndim - 1)
    network.set_constant(first.input[1], (left / factor.reshape(along)).astype(np.float32))
    scaled = grouped * factor.reshape(groups, 1, right.shape[1], 1)
    network.set_constant(second.input[1], scaled.reshape(right.shape).astype(np.float32))
    bias = network.constant(first, 2)
    if bias is not None:
        network.set_constant(first.input[2], (bias / factor).astype(np.float32))
    return float(np.abs(np.log(factor)).max(initial=0))


def inputs_of_corrected(placement: BytePlacement) -> set[str]:
    """Return the values that are read by layers whose bias is corrected; their channels are the second axis."""
    return {layer.node.input[0] for layer in placement.layers if layer.weighted and _is_corrected(layer.node)}


def _is_corrected(node: NodeProto) -> bool:
    """Whether a layer with weights has a bias, and its channels are not in groups of a ConvTranspose."""
    grouped = node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1
    return node.op_type != "MatMul" and not grouped


def correct_biases(
    network: Network,
    nodes: Sequence[NodeProto],
    levels: Mapping[str, ByteLevels],
    means: Mapping[str, Array],
    form: WeightFormat,
) -> None:
    """Add to each layer's bias what the rounding of its weights takes from its mean, in place. A MatMul has no bias and
    stays as it is."""
    for node in nodes:
        if not _is_corrected(node):
            continue
        made, bias = weights_of(network, node, levels[node.input[0]], form)
        lost = network.constants[node.input[1]].astype(np.float64) - made.numbers()
        moved = _moved(node, lost, means[node.input[0]])
        name = network.fresh(f"{node.name}.bias.corrected")
        network.set_constant(name, ((0 if bias is None else bias) + moved).astype(np.float32))
        inputs = [*node.input[:2], name]
        del node.input[:]
        node.input.extend(inputs)
    network.drop_unread_constants()


def _moved(node: NodeProto, lost: Array, mean: Array) -> Array:
    """Return the sum of lost weights times the inputs' means, per filter."""
    if node.op_type == "Gemm":
        return np.asarray((lost if filters_axis(node) == 0 else lost.T) @ mean)
    windows = lost.reshape(*lost.shape[:2], -1).sum(axis=2)
    if node.op_type == "ConvTranspose":
        # Of a stride above 1 each number of the result sums a share of the window.
        strides = attribute(node, "strides", [1])
        return np.asarray(mean @ windows / np.prod(strides))
    groups = attribute(node, "group", 1)
    grouped = windows.reshape(groups, -1, windows.shape[1])
    return np.asarray(np.einsum("gfc,gc->gf", grouped, mean.reshape(groups, -1)).ravel())
