"""Attributes that the decoders of all ONNX pools read."""

from __future__ import annotations

from typing import Any

from cenote.core.errors import ArgumentError
from cenote.ops.base import Imported

WINDOW_NAMES = ("auto_pad", "kernel_shape", "pads", "strides")
"""The ONNX attributes that pools have had since their first version."""


def window_attributes(op: str, node: Imported) -> dict[str, Any]:
    """The fields that all ONNX pools share. `strides` and `dilations` are ones where absent, in every
    version.
    """
    window = tuple(node.get("kernel_shape", ()))
    if not window:
        raise ArgumentError(f"{op}: attribute kernel_shape is missing; one number per spatial axis is needed")
    pads = tuple(node.get("pads", ()))
    if len(pads) % 2:
        raise ArgumentError(f"{op}: pads {pads} must hold a begin and an end per axis")
    half = len(pads) // 2
    return {
        "window": window,
        "stride": tuple(node.get("strides", ())),
        "pads": tuple((int(begin), int(end)) for begin, end in zip(pads[:half], pads[half:], strict=True)),
        "dilation": tuple(node.get("dilations", ())),
        "auto_pad": str(node.get("auto_pad", "NOTSET")) or "NOTSET",
        "ceil_mode": node.flag("ceil_mode"),
    }
