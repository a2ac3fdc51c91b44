"""Filters without weights, removed with the channels that read them.

    conv (F, C) - relu - pool - conv (G, F)    ->    conv (F - r, C) - relu - pool - conv (G, F - r)

A filter of zeros makes a channel that is its bias everywhere. Behind the functions of one element on the way it is a
constant: that is added to the bias of the layer that reads it, where each of its sums reads all of the window (no
padding), or is zero. What lies between must treat channels apart, and have one reader: functions of one element, pools,
means of maps, Flatten. Elsewhere (concatenations, residuals, depthwise convolutions) filters stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cenote.compression.network import SharedNetwork, WeightLayer
from cenote.core.text import split_words
from cenote.core.types import Array
from cenote.quantization.network import attribute, read_inside

_FUNCTIONS = split_words("Relu LeakyRelu Clip Sigmoid HardSigmoid HardSwish Tanh Elu Selu Softplus Identity")
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")


@dataclass(frozen=True)
class ChannelPath:
    """The nodes from a convolution to the layer that alone reads its channels; `spread`: values of that layer's depth
    that one channel becomes (Flatten)."""

    functions: tuple[NodeProto, ...]
    reader: NodeProto
    spread: int
    padded: bool


def pruned(network: SharedNetwork, layer: WeightLayer, threshold: float) -> SharedNetwork | None:
    """Return the network without a convolution's filters whose norm is at most a part of the largest one's; None where
    there are none, or they cannot be removed."""
    if layer.node.op_type != "Conv" or _readers(network, layer.weights) != 1:
        return None
    weights = network.array(layer.weights)
    norms = np.sqrt(np.square(weights.astype(np.float64)).reshape(len(weights), -1).sum(axis=1))
    if not np.isfinite(norms).all():
        return None
    gone = norms <= threshold * norms.max(initial=0)
    if not gone.any() or attribute(layer.node, "group", 1) != 1:
        return None
    gone[int(np.argmax(norms))] = False  # a layer keeps a filter
    path = _path(network, layer)
    return None if path is None or not gone.any() else _removed(network, layer, path, weights, gone)


def _readers(network: SharedNetwork, name: str) -> int:
    outputs = [str(each.name) for each in network.shell.graph.output]
    return outputs.count(name) + sum(
        list(node.input).count(name) + list(read_inside(node)).count(name) for node in network.nodes
    )


def _path(network: SharedNetwork, layer: WeightLayer) -> ChannelPath | None:
    """Follow a convolution's channels to the layer that reads them."""
    value, functions, flat, padded = layer.node.output[0], list[NodeProto](), False, False
    while True:
        if _readers(network, value) != 1:
            return None
        node = next((each for each in network.nodes if value in each.input), None)
        if node is None or node.input[0] != value or node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type in ("Conv", "Gemm"):
            break
        if node.op_type == "Flatten" and attribute(node, "axis", 1) == 1:
            flat = True
        elif node.op_type in _POOLS and len([each for each in node.output if each]) == 1:
            padded |= _is_padded(node)
        elif node.op_type not in _FUNCTIONS or any(
            each and each not in network.tensors for each in node.input[1:]
        ):
            return None
        else:
            functions.append(node)
        value = node.output[0]
    if len(node.input) < 2 or node.input[1] not in network.tensors or _readers(network, node.input[1]) != 1:
        return None
    if len(node.input) > 2 and node.input[2] and node.input[2] not in network.tensors:
        return None
    return _to_reader(network, layer, node, tuple(functions), flat, padded)


def _is_padded(node: NodeProto) -> bool:
    """Whether windows may reach past the map."""
    if attribute(node, "auto_pad", b"NOTSET") not in (b"", b"NOTSET", b"VALID"):
        return True
    return bool(attribute(node, "ceil_mode", 0)) or any(attribute(node, "pads", [0]))


def _to_reader(
    network: SharedNetwork,
    layer: WeightLayer,
    node: NodeProto,
    functions: tuple[NodeProto, ...],
    flat: bool,
    padded: bool,
) -> ChannelPath | None:
    filters, dims = network.tensors[layer.weights].dims[0], network.tensors[node.input[1]].dims
    if node.op_type == "Conv":
        padded |= _is_padded(node)
        plain = attribute(node, "group", 1) == 1 and not flat and dims[1] == filters
        return ChannelPath(functions, node, 1, padded) if plain else None
    names = ("alpha", 1.0), ("beta", 1.0), ("transA", 0)
    depth = dims[1] if attribute(node, "transB", 0) else dims[0]
    if not flat or depth % filters or any(attribute(node, name, usual) != usual for name, usual in names):
        return None
    return ChannelPath(functions, node, depth // filters, padded)


def _removed(
    network: SharedNetwork, layer: WeightLayer, path: ChannelPath, weights: Array, gone: Array
) -> SharedNetwork | None:
    """Return the network without these filters."""
    node, reader = layer.node, path.reader
    bias = network.array(node.input[2]) if len(node.input) > 2 and node.input[2] in network.tensors else None
    if bias is None and len(node.input) > 2 and node.input[2]:
        return None
    constant = _through(network, path.functions, np.zeros(len(weights), np.float32) if bias is None else bias)
    if (path.padded and constant[gone].any()) or not np.isfinite(constant[gone]).all():
        return None
    read = network.array(reader.input[1])
    axis = 1 if reader.op_type == "Conv" or attribute(reader, "transB", 0) else 0
    dropped = np.repeat(gone, path.spread)
    lost = np.compress(dropped, np.moveaxis(read, axis, 0).astype(np.float64), axis=0)
    added = np.repeat(constant, path.spread)[dropped].astype(np.float64)
    sums = np.tensordot(added, lost, 1)
    sums = sums.reshape(len(sums), -1).sum(axis=1)
    changed = {node.input[1]: weights[~gone], reader.input[1]: np.compress(~dropped, read, axis=axis)}
    if bias is not None:
        changed[node.input[2]] = bias[~gone]
    inputs = list(reader.input[:2])
    old = network.array(reader.input[2]) if len(reader.input) > 2 and reader.input[2] else None
    if sums.any() or old is not None:
        total = sums if old is None else old + sums
        inputs.append(network.fresh(f"{reader.input[1]}.bias"))
        changed[inputs[2]] = total.astype(np.float32)
    return _with(network, node, reader, inputs, changed)


def _with(
    network: SharedNetwork,
    node: NodeProto,
    reader: NodeProto,
    inputs: Sequence[str],
    changed: dict[str, Array],
) -> SharedNetwork:
    """Return the network with constants under fresh names, which a convolution and its reader read."""
    names = {name: network.fresh(f"{name}.kept") for name in changed}
    nodes = []
    for each in network.nodes:
        if each is node or each is reader:
            copy = NodeProto()
            copy.CopyFrom(each)
            read = list(inputs) if each is reader else list(each.input)
            del copy.input[:]
            copy.input.extend(names.get(name, name) for name in read)
            each = copy
        nodes.append(each)
    still = {str(each.name) for each in network.shell.graph.output}
    still |= {name for each in nodes for name in (*each.input, *read_inside(each))}
    tensors = {
        names[name]: numpy_helper.from_array(np.ascontiguousarray(x), names[name])
        for name, x in changed.items()
    }
    return network.changed(nodes, [name for name in network.tensors if name not in still], tensors)


def _through(network: SharedNetwork, functions: Sequence[NodeProto], values: Array) -> Array:
    """Return what functions of one element make of values, by ONNX's own reference."""
    if not functions:
        return values
    ends = [functions[0].input[0], functions[-1].output[0]]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ends)
    nodes = []
    for place, each in enumerate(functions):
        copy = NodeProto()
        copy.CopyFrom(each)
        copy.input[0] = ends[0] if not place else functions[place - 1].output[0]
        nodes.append(copy)
    constants = [network.tensors[name] for each in functions for name in each.input[1:] if name]
    graph = helper.make_graph(nodes, "functions", [x], [y], constants)
    opsets = [helper.make_opsetid("", network.opset)]
    (found,) = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets)).run(None, {ends[0]: values})
    return np.asarray(found, np.float32)
