"""ONNX's own inference of types, for models that it could end the process on.

Its Slice asserts in C++ that the extent of a known axis is not negative (`std::clamp` in onnx 1.23), and a failed
assertion cannot be caught. Extents become negative where a padding takes more than there is, or a window is larger
than its input. So a Slice is shown to it only once a round without that Slice has found no negative extent before it:

    round 0   all Slices that no operator which may make a negative extent comes before
    round 1   those, too, that come after such an operator, and these Slices of round 0
    ...

A model without such Slices takes one round, as one in which every Slice reads the content of a Shape does. Slices
inside of bodies and functions are never shown: their outputs stay open. Nor are nodes whose numbers it would use
without a look (onnx 1.23: an axis of 2**31 + 1 of LayerNormalization, negative batch_dims of GatherND).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onnx

from cenote.frontends.wire import SMALL

# Extents that are not negative stay so through these; any other operator may make a negative one.
_SAFE = """
    Abs Add And BatchNormalization Cast CastLike Ceil Clip Concat Constant Cos CumSum DepthToSpace DequantizeLinear Div
    Dropout Elu Equal Erf Exp Flatten Floor Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool
    Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization LRN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow
    QuantizeLinear Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Round Shape Sigmoid Sign
    Sin Size Slice Softmax Softplus Softsign SpaceToDepth Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze Where Xor
"""


def inferred(model: Any, enough: Callable[[Any], bool] = lambda made: False) -> Any:
    """Return a copy of `model` without large weights, with the types that follow from those of its inputs.

    Rounds end once `enough` holds of the copy, or once an extent is negative: the model is then wrong, and what comes
    after such an extent has no type. Raises what ONNX's inference raises.
    """
    light = _without_weights(model)
    nodes = [*light.graph.node]
    rounds = _rounds(nodes)
    for number in range(max(rounds, default=0) + 1):
        del light.graph.node[:]
        light.graph.node.extend(node for node, first in zip(nodes, rounds, strict=True) if first <= number)
        found = onnx.shape_inference.infer_shapes(light, data_prop=True)
        if enough(found) or any(
            _is_negative(value) for value in (*found.graph.value_info, *found.graph.output)
        ):
            break
    return found


def _rounds(nodes: list[Any]) -> list[int]:
    """Return the round from which on each node is shown: 0, and for a Slice one more than for the nodes before it, if
    an operator that is not safe lies between."""
    # By value: twice the round in which its extents are known, and one more if they may be negative.
    states: dict[str, int] = {}
    safe = frozenset(_SAFE.split())
    rounds = []
    for node in nodes:
        state = max((states.get(name, 0) for name in node.input), default=0)
        is_slice = node.op_type == "Slice"
        if is_slice:
            state += state % 2
        elif node.op_type not in safe or node.domain not in ("", "ai.onnx"):
            state |= 1
        states.update(dict.fromkeys(node.output, state))
        rounds.append(state // 2 if is_slice else 0)
    return rounds


def _without_weights(model: Any) -> Any:
    """Return the model with the types of its large weights in place of their content, which inference does not use,
    without Slices inside of bodies and without negative extents, which some exporters declare for unknown ones."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend([node for node in model.graph.node if not (node.attribute and _is_absurd(node))])
    for field in ("input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.ByteSize() > SMALL:
            graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            graph.initializer.append(tensor)
    for function in light.functions:
        _hide_hazards(function.node)
    for body in _bodies(graph.node):
        _hide_hazards(body.node)
    _forget_negative([*graph.input, *graph.output, *graph.value_info])
    return light


def _is_absurd(node: onnx.NodeProto) -> bool:
    """Return whether a number of the node is none that its operator could mean: beyond 32 bits, or a negative count
    of batch dimensions."""
    return any(
        not -(1 << 31) <= attribute.i < 1 << 31 or (attribute.name == "batch_dims" and attribute.i < 0)
        for attribute in node.attribute
    )


def _hide_hazards(nodes: Any) -> None:
    """Remove the Slices and the absurd nodes from a list of nodes and from the bodies of the others."""
    for body in _bodies(nodes):
        _hide_hazards(body.node)
        _forget_negative([*body.input, *body.output, *body.value_info])
    kept = [node for node in nodes if node.op_type != "Slice" and not _is_absurd(node)]
    if len(kept) < len(nodes):
        del nodes[:]
        nodes.extend(kept)


def _bodies(nodes: Iterable[Any]) -> list[Any]:
    """Return the graphs that are attributes of nodes."""
    return [
        body
        for node in nodes
        for attribute in node.attribute
        for body in (attribute.g, *attribute.graphs)
        if body.node
    ]


def _forget_negative(values: Iterable[Any]) -> None:
    for value in values:
        for dimension in _dimensions(value):
            if dimension.dim_value < 0:
                dimension.Clear()


def _is_negative(value: Any) -> bool:
    return any(dimension.dim_value < 0 for dimension in _dimensions(value))


def _dimensions(value: Any) -> Any:
    """Return the dimensions of a tensor; none for a sequence, an optional or a value without a type."""
    return value.type.tensor_type.shape.dim
