"""Attributes of opset 6 that opset 7 dropped, where the meaning is the same without them.

Opset 7 made broadcasting NumPy's and inference the default. Files of opset 6 are still in use; those of their nodes
that are not the same operator as in opset 7 are refused. Of older files, the nodes run whose operator is the same in
opset 7.
"""

from __future__ import annotations

from typing import Any

from cenote.core.errors import UnsupportedError

_BROADCAST = {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "Gemm"}
_TRAINING = {"BatchNormalization", "Dropout"}
_ADVICE = "upgrade the model with onnx.version_converter"


def without_legacy(op: str, attributes: list[Any]) -> tuple[list[Any], int | None]:
    """Return the attributes of a node of opset 6 as opset 7 has them; and the axis of the first input at which those
    of the second begin, where broadcasting is not NumPy's.

    Raises UnsupportedError where opset 7 has no equivalent: training.
    """
    if op == "PRelu":
        # A slope per channel.
        return attributes, 1
    if op in _TRAINING:
        values = {item.name: item.i for item in attributes}
        if not values.get("is_test"):
            raise UnsupportedError(
                f"{op} of opset 6 in training mode (is_test=0) is not supported; {_ADVICE}"
            )
        if not values.get("spatial", 1):
            raise UnsupportedError(f"{op} of opset 6 with spatial=0 is not supported; {_ADVICE}")
        return [item for item in attributes if item.name not in ("is_test", "spatial")], None
    if op in _BROADCAST:
        axis = next((item.i for item in attributes if item.name == "axis"), None)
        return [item for item in attributes if item.name not in ("broadcast", "axis")], axis
    return attributes, None
