"""Attributes of opset 6 that opset 7 dropped, where the meaning is the same without them.

Opset 7 made broadcasting NumPy's and inference the default. Files of opset 6 are still about; what of them is not
the same operator as in opset 7 is refused.
"""

from __future__ import annotations

from typing import Any

from cenote.core.errors import UnsupportedError

_BROADCAST = {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "Gemm"}
_TRAINING = {"BatchNormalization", "Dropout"}
_ADVICE = "upgrade the model with onnx.version_converter"


def without_legacy(op: str, attributes: list[Any]) -> list[Any]:
    """The attributes of a node of opset 6 as opset 7 would have them.

    Raises UnsupportedError where opset 7 has no equal: broadcasting from an axis, training, PRelu's slope per channel.
    """
    if op == "PRelu":
        raise UnsupportedError(f"PRelu of opset 6 (slope per channel) is not supported; {_ADVICE}")
    if op in _TRAINING:
        values = {item.name: item.i for item in attributes}
        if not values.get("is_test"):
            raise UnsupportedError(
                f"{op} of opset 6 in training mode (is_test=0) is not supported; {_ADVICE}"
            )
        if not values.get("spatial", 1):
            raise UnsupportedError(f"{op} of opset 6 with spatial=0 is not supported; {_ADVICE}")
        return [item for item in attributes if item.name not in ("is_test", "spatial")]
    if op in _BROADCAST:
        if any(item.name == "axis" for item in attributes):
            raise UnsupportedError(f"{op} of opset 6 broadcasting from an axis is not supported; {_ADVICE}")
        return [item for item in attributes if item.name != "broadcast"]
    return attributes
