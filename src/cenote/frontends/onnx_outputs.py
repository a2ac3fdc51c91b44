"""The types of a model's outputs: as it declares them, and where it leaves something open, as ONNX infers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onnx

from cenote.core.types import Declared
from cenote.frontends.wire import SMALL

Decode = Callable[[Any, str], Declared]


def declared_outputs(model: Any, decode: Decode) -> dict[str, Declared]:
    """The outputs that have a type, by name. `decode` reads a value's type; errors are its own.

    A declared size or name stays; one that is not declared is the inferred one, and a name gives way to a size. What
    ONNX's inference names itself has no name.
    """
    outputs = list(model.graph.output)
    known = _names(model.graph.input)
    if any(_is_open(value, known) for value in outputs):
        inferred = _inferred(model)
        outputs = [inferred.get(value.name, value) for value in outputs]
    typed = [value for value in outputs if value.type.WhichOneof("value")]
    return {value.name: decode(value, f"output '{value.name}'") for value in typed}


def _is_open(value: Any, known: set[str]) -> bool:
    """Does the declaration leave a type, a rank or a dimension open? A name that no input has may stand for a size."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return kind is None
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(
        d.dim_param not in known if d.dim_param else d.dim_value < 1 for d in tensor.shape.dim
    )


def _inferred(model: Any) -> dict[str, Any]:
    """The outputs by name, with the types that follow from those of the inputs; none where that fails."""
    try:
        found = onnx.shape_inference.infer_shapes(_without_weights(model), data_prop=True)
    except Exception:  # it is one of C++; what is declared stays
        return {}
    known = _names([*model.graph.input, *model.graph.output, *model.graph.value_info])
    outputs = {}
    for value in found.graph.output:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param and dimension.dim_param not in known:
                dimension.Clear()
        if value.type.WhichOneof("value") != "tensor_type" or value.type.tensor_type.elem_type:
            outputs[value.name] = value
    return outputs


def _names(values: Iterable[Any]) -> set[str]:
    """The names of dimensions that values have."""
    return {d.dim_param for value in values for d in value.type.tensor_type.shape.dim}


def _without_weights(model: Any) -> Any:
    """The model with the types of its large weights in place of their content, which inference has no use for."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.ByteSize() > SMALL:
            graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            graph.initializer.append(tensor)
    return light
