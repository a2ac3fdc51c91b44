"""Answers of networks by ONNX's own reference."""

from __future__ import annotations

import numpy as np
import onnx.reference

from cenote.compression.network import SharedNetwork
from cenote.core.types import Array


def answers(network: SharedNetwork, x: Array) -> Array:
    """The outputs by ONNX's own reference."""
    (y,) = onnx.reference.ReferenceEvaluator(network.message()).run(None, {"x": x})
    return np.asarray(y)
