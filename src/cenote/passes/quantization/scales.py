"""Scales and zero points as passes look at them."""

from __future__ import annotations

import math

import numpy as np

from cenote.core.types import Array
from cenote.graph.graph import Node
from cenote.ops.quantization.quantize import QuantizeLinear
from cenote.passes.fuse import Rewriter

BYTES = ("uint8", "int8")
_LEAST_SCALE = np.finfo(np.float32).tiny  # quotients by smaller ones are infinite


def scale_and_zero_point(rewriter: Rewriter, node: Node) -> tuple[Array | None, Array | None]:
    """Scale and zero point of a node that has one each for all elements, of bytes; None where that is not so.

    A scale that is negative, infinite, NaN, or so small that it has no reciprocal, is left to the operators."""
    quantized = node.outputs[0] if isinstance(node.op, QuantizeLinear) else node.inputs[0]
    scale, zero = rewriter.constants.get(node.inputs[1]), zero_point(rewriter, node, quantized)
    if scale is None or zero is None or scale.size != 1 or scale.dtype != np.float32 or scale.ndim > 1:
        return None, None
    if not are_ordinary(scale) or zero.dtype.name not in BYTES:
        return None, None
    return scale, zero


def are_ordinary(scales: Array) -> bool:
    """Whether scales are positive, finite, and large enough to have reciprocals."""
    return bool(((scales >= _LEAST_SCALE) & (scales < math.inf)).all())


def zero_point(rewriter: Rewriter, node: Node, quantized: str) -> Array | None:
    """The zero point of a quantised value: zero where the node names none, None where it is computed."""
    if len(node.inputs) > 2 and node.inputs[2]:
        return rewriter.constants.get(node.inputs[2])
    return np.zeros((), rewriter.type(quantized).dtype)
