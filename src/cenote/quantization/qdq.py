"""Writes QuantizeLinear and DequantizeLinear into a network, in the form that ONNX Runtime and OpenVINO fuse.

    x - conv(w, b) - relu - y          x - Q - DQ - conv(DQ(w), DQ(b)) - relu - y - Q - DQ

Activations are u8 with one scale, weights s8 with a scale per filter or one, biases int32 at the scale of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, helper

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.quantization.network import Network, attribute
from cenote.quantization.placement import BytePlacement
from cenote.quantization.prepare import filters_axis
from cenote.quantization.scales import ByteLevels, RoundedWeights, quantized_bias, quantized_weights


@dataclass(frozen=True)
class WeightFormat:
    """`per_channel`: a scale per filter; `most`: the largest level, 127, or 63 for engines whose sums saturate."""

    per_channel: bool = True
    most: int = 127


@dataclass(frozen=True)
class QdqNetwork:
    """A network with values in 8 bits; `behind`: the name of each such value behind its DequantizeLinear."""

    network: Network
    behind: dict[str, str]


def weights_of(
    network: Network, node: NodeProto, levels: ByteLevels, form: WeightFormat
) -> tuple[RoundedWeights, Array | None]:
    """Return a layer's weights in 8 bits, and its bias as it is. `levels`: those of its input."""
    weights, bias = network.constants[node.input[1]], network.constant(node, 2)
    axis = filters_axis(node)
    grouped = node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1
    bound = bias
    if bias is not None and grouped:
        bound = np.full(weights.shape[axis], np.abs(bias).max(initial=0))
    made = quantized_weights(weights, axis, form.per_channel and not grouped, form.most, bound, levels.scale)
    return made, bias


def write_qdq(
    network: Network, placement: BytePlacement, levels: Mapping[str, ByteLevels], form: WeightFormat
) -> QdqNetwork:
    """Return a new network with the layers of a placement on bytes. `levels`: by value."""
    model = ModelProto()
    model.CopyFrom(network.model)
    made = Network(model)
    weighted = {layer.name for layer in placement.layers if layer.weighted}
    behind = {name: made.fresh(f"{name}.dequantized") for name in placement.groups}
    nodes: list[NodeProto] = []
    for name in network.inputs:
        if name in behind:
            nodes += _pair(made, name, behind[name], levels[name])
    for node in made.nodes:
        inputs = [behind.get(name, name) for name in node.input]
        if node.name in weighted:
            nodes += _parameters(made, node, levels[node.input[0]], form, inputs)
        del node.input[:]
        node.input.extend(inputs)
        nodes.append(node)
        for name in node.output:
            if name in behind:
                nodes += _pair(made, name, behind[name], levels[name])
    made.replace_nodes(nodes)
    made.drop_unread_constants()
    del model.graph.value_info[:]
    return QdqNetwork(made, behind)


def _pair(network: Network, name: str, behind: str, levels: ByteLevels) -> list[NodeProto]:
    """Return the QuantizeLinear and the DequantizeLinear of a value, which gives `behind`."""
    scale, zero, narrow = (network.fresh(f"{name}.{each}") for each in ("scale", "zero_point", "quantized"))
    network.set_constant(scale, np.asarray(levels.scale))
    network.set_constant(zero, np.asarray(levels.zero))
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [narrow], f"{name}.quantize"),
        helper.make_node("DequantizeLinear", [narrow, scale, zero], [behind], f"{name}.dequantize"),
    ]


def _parameters(
    network: Network, node: NodeProto, levels: ByteLevels, form: WeightFormat, inputs: list[str]
) -> list[NodeProto]:
    """Return the nodes that dequantise a layer's weights and bias, whose names they put into `inputs`."""
    weights, bias = weights_of(network, node, levels, form)
    nodes = [_constant(network, f"{node.name}.weights", weights.levels, weights.scales, weights.axis)]
    inputs[1] = nodes[0].output[0]
    if bias is not None:
        numbers, scales = quantized_bias(bias, levels.scale, weights.scales)
        nodes.append(_constant(network, f"{node.name}.bias", numbers, scales, 0))
        inputs[2] = nodes[1].output[0]
    return nodes


def _constant(network: Network, name: str, numbers: Array, scales: Array, axis: int) -> NodeProto:
    network.set_constant(narrow := network.fresh(f"{name}.quantized"), numbers)
    network.set_constant(scale := network.fresh(f"{name}.scale"), scales)
    network.set_constant(zero := network.fresh(f"{name}.zero_point"), np.zeros(scales.shape, numbers.dtype))
    axes = {"axis": axis} if scales.ndim else {}
    inputs = [narrow, scale, zero]
    result = network.fresh(f"{name}.dequantized")
    return helper.make_node("DequantizeLinear", inputs, [result], f"{name}.dequantize", **axes)
