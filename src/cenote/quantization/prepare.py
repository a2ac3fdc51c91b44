"""Rewrites before quantisation, none of which changes what a model computes but for rounding.

    Constant, Identity of a constant            ->  an initializer
    conv (or gemm) - BatchNormalization         ->  conv with other weights and bias
    gemm with alpha, beta or a scalar bias      ->  gemm with alpha = beta = 1 and a bias per column
    matmul of a matrix - add of a constant      ->  gemm

A QuantizeLinear between a convolution and its normalisation would round twice, and engines would not fuse the two.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, numpy_helper

from cenote.core.types import Array
from cenote.quantization.network import Network, attribute


def prepare(network: Network) -> None:
    """Rewrite a network in place."""
    _name_nodes(network)
    _collect_constants(network)
    for node in network.nodes:
        if node.op_type == "Gemm":
            _plain_gemm(network, node)
    network.refreshed()
    _join_biases(network)
    _fold_normalizations(network)
    network.drop_unread_constants()


def filters_axis(node: NodeProto) -> int:
    """Return the axis of a layer's weights that its results' channels lie on."""
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}[node.op_type]


def _name_nodes(network: Network) -> None:
    """Give each node a name that no other has: nodes are excluded and reported by name."""
    taken: set[str] = set()
    for node in network.nodes:
        name = str(node.name or next(filter(None, node.output), node.op_type))
        while name in taken:
            name += "_"
        taken.add(name)
        node.name = name


def _collect_constants(network: Network) -> None:
    nodes = []
    for node in network.nodes:
        value = _constant(node)
        if node.op_type == "Identity" and network.constant(node, 0) is not None:
            value = network.constants[node.input[0]]
        if value is None or node.output[0] in network.outputs:
            nodes.append(node)
        else:
            network.set_constant(node.output[0], value)
    if len(nodes) < len(network.nodes):
        network.replace_nodes(nodes)


def _constant(node: NodeProto) -> Array | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    tensor = attribute(node, "value", None)
    if tensor is not None:
        return np.asarray(numpy_helper.to_array(tensor))
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        value = attribute(node, name, None)
        if value is not None:
            return np.asarray(value, np.float32 if "float" in name else np.int64)
    return None


def _plain_gemm(network: Network, node: NodeProto) -> None:
    weights, bias = network.constant(node, 1), network.constant(node, 2)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    if weights is None or weights.dtype != np.float32 or (has_bias and bias is None):
        return
    alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    columns = weights.shape[filters_axis(node)]
    if bias is not None and bias.size != 1 and bias.shape not in ((columns,), (1, columns)):
        return  # a bias per row as well
    if alpha != 1:
        network.set_constant(name := network.fresh(f"{node.name}.weights"), weights * np.float32(alpha))
        node.input[1] = name
    if bias is not None and (beta != 1 or bias.shape != (columns,)):
        whole = np.resize(bias.ravel() * np.float32(beta), columns)
        network.set_constant(name := network.fresh(f"{node.name}.bias"), whole)
        node.input[2] = name
    kept = [each for each in node.attribute if each.name not in ("alpha", "beta")]
    del node.attribute[:]
    node.attribute.extend(kept)


def _join_biases(network: Network) -> None:
    """Put biases that are added to products into them: between the two there would be another rounding."""
    matrices = network.of_rank(2)
    gone: set[str] = set()
    nodes = network.nodes
    for node in nodes:
        reader = network.only_reader(node.output[0]) if node.op_type == "MatMul" else None
        weights = network.constant(node, 1)
        if reader is None or reader.op_type != "Add" or weights is None or weights.ndim != 2:
            continue
        bias = network.constant(reader, 1 if reader.input[0] == node.output[0] else 0)
        if bias is None or bias.shape not in (weights.shape[1:], (1, *weights.shape[1:])):
            continue
        if node.input[0] in matrices and weights.dtype == bias.dtype == np.float32:
            network.set_constant(name := network.fresh(f"{node.name}.bias"), bias.ravel())
            node.op_type = "Gemm"
            node.input.append(name)
            node.output[0] = reader.output[0]
            gone.add(reader.name)
    if gone:
        network.replace_nodes([node for node in nodes if node.name not in gone])


def _fold_normalizations(network: Network) -> None:
    nodes = network.nodes
    gone: set[str] = set()
    for node in nodes:
        if node.op_type != "BatchNormalization" or len([name for name in node.output if name]) != 1:
            continue
        if attribute(node, "training_mode", 0):
            continue  # its statistics are those of its input
        layer = network.makers.get(node.input[0])
        parameters = [network.constant(node, place) for place in range(1, 5)]
        if layer is None or network.only_reader(node.input[0]) is None or any(p is None for p in parameters):
            continue
        if _fold(network, layer, [p for p in parameters if p is not None], attribute(node, "epsilon", 1e-5)):
            layer.output[0] = node.output[0]
            gone.add(node.name)
    if gone:
        network.replace_nodes([node for node in nodes if node.name not in gone])


def _fold(network: Network, layer: NodeProto, parameters: list[Array], epsilon: float) -> bool:
    """Put a normalisation (scale, shift, mean, variance) into the layer before it; False where that is impossible."""
    if layer.op_type not in ("Conv", "ConvTranspose", "Gemm"):
        return False
    weights, bias = network.constant(layer, 1), network.constant(layer, 2)
    if (
        weights is None
        or weights.dtype != np.float32
        or (bias is None and len(layer.input) > 2 and layer.input[2])
    ):
        return False
    grouped = layer.op_type == "ConvTranspose" and attribute(layer, "group", 1) != 1
    plain = layer.op_type != "Gemm" or not any(
        attribute(layer, name, 0) for name in ("alpha", "beta", "transA")
    )
    scale, shift, mean, variance = (each.astype(np.float64) for each in parameters)
    axis = filters_axis(layer)
    if grouped or not plain or scale.size != weights.shape[axis] or not (variance + epsilon > 0).all():
        return False
    factor = scale / np.sqrt(variance + epsilon)
    along = [-1 if each == axis else 1 for each in range(weights.ndim)]
    moved = ((0 if bias is None else bias) - mean) * factor + shift
    network.set_constant(
        w := network.fresh(f"{layer.name}.weights.folded"),
        (weights * factor.reshape(along)).astype(np.float32),
    )
    network.set_constant(b := network.fresh(f"{layer.name}.bias.folded"), moved.astype(np.float32))
    inputs = [layer.input[0], w, b]
    del layer.input[:]
    layer.input.extend(inputs)
    return True
