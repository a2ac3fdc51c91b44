"""Models with nodes of a domain of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cenote.core.types import Array

OPERATOR = "shop.Frobnicate"
_WEIGHTS = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


def between(
    outputs: int = 1,
    shape: Sequence[int | str] = ("n", 3, "h", "w"),
    kind: str = "Frobnicate",
    **attributes: Any,
) -> bytes:
    """A convolution, a node `shop.Frobnicate` with these attributes, and a Relu of each of its outputs."""
    names = [f"f{i}" for i in range(outputs)]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(kind, ["c"], names, "frob", domain="shop", **attributes),
        *(helper.make_node("Relu", [name], [f"y{i}"], f"relu{i}") for i, name in enumerate(names)),
    ]
    return serialized(nodes, shape, [f"y{i}" for i in range(outputs)])


def serialized(nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], outputs: Sequence[str]) -> bytes:
    """A model of one input `x` with these nodes, which may use the weights `w` of a 3x3 convolution from 3 to 4
    channels."""
    graph = helper.make_graph(
        list(nodes),
        "shop",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(_WEIGHTS, "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("shop", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


def picture(*shape: int, seed: int = 1) -> Array:
    """A picture of seeded noise."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolved(x: Array) -> Array:
    """What the convolution of `between` makes, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("ncyxij,kcij->nkyx", windows, _WEIGHTS)
