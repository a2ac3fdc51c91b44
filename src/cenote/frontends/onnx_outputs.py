"""The types of a model's outputs: as it declares them, and where it leaves parts open, as ONNX infers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cenote.core.types import Declared
from cenote.frontends.onnx_inference import inferred

Decode = Callable[[Any, str], Declared]


def declared_outputs(model: Any, decode: Decode) -> dict[str, Declared]:
    """Return the outputs that have a type, by name. `decode` reads a value's type; errors are its own.

    A declared size or name stays; an undeclared one is inferred, and a name gives way to a size. Dimensions that
    ONNX's inference names itself get no name.
    """
    outputs = list(model.graph.output)
    known = _names(model.graph.input)
    if any(_is_open(value, known) for value in outputs):
        inferred_outputs = _inferred(model, known)
        outputs = [inferred_outputs.get(value.name, value) for value in outputs]
    typed = [value for value in outputs if value.type.WhichOneof("value")]
    return {value.name: decode(value, f"output '{value.name}'") for value in typed}


def _is_open(value: Any, known: set[str]) -> bool:
    """Return whether the declaration leaves a type, a rank or a dimension open. A name that no input has may stand
    for a size."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return kind is None
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(
        d.dim_param not in known if d.dim_param else d.dim_value < 1 for d in tensor.shape.dim
    )


def _inferred(model: Any, inputs: set[str]) -> dict[str, Any]:
    """Return the outputs by name, with the types that follow from those of the inputs; none where that fails."""
    try:
        complete = inferred(
            model, lambda made: not any(_is_open(value, inputs) for value in made.graph.output)
        )
    except Exception:
        # An error in C++; the declared types stay.
        return {}
    known = _names([*model.graph.input, *model.graph.output, *model.graph.value_info])
    outputs = {}
    for value in complete.graph.output:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param and dimension.dim_param not in known:
                dimension.Clear()
        if value.type.WhichOneof("value") != "tensor_type" or value.type.tensor_type.elem_type:
            outputs[value.name] = value
    return outputs


def _names(values: Iterable[Any]) -> set[str]:
    """Return the names of dimensions that values have."""
    return {d.dim_param for value in values for d in value.type.tensor_type.shape.dim}
