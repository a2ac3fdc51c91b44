"""Networks for the algorithms and rewrites of `shop_algorithms`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from cenote.core.types import Array

NAMES = ("shop.fold", "shop.cancel", "shop.by_rows", "shop.direct")
_RANDOM = np.random.default_rng(0)
# So many filters that the convolution takes longer on every CPU than converting its input does.
_FILTERS = 64
CONSTANTS = {
    "shift": _RANDOM.standard_normal((8, 1, 1)).astype(np.float32),
    "scale": _RANDOM.standard_normal((8, 1, 1)).astype(np.float32),
    "w": _RANDOM.standard_normal((_FILTERS, 8, 3, 3)).astype(np.float32),
}
POOL = helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[3, 3])


def network(shape: Sequence[int | str] = (1, 8, 12, 12)) -> bytes:
    """(x + shift) * scale, two negations, a convolution and a pool: what each of the extensions serves."""
    nodes = [
        helper.make_node("Add", ["x", "shift"], ["a"]),
        helper.make_node("Mul", ["scale", "a"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["e"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["e"], ["y"], "pool", kernel_shape=[3, 3]),
    ]
    return serialized(nodes, shape)


def serialized(nodes: Sequence[NodeProto], shape: Sequence[int | str] = (1, 8, 12, 12)) -> bytes:
    """A model from `x` to `y` of these nodes, which may use `CONSTANTS`."""
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        list(nodes),
        "shop",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items() if name in used],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("shop", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def picture(*shape: int) -> Array:
    """A picture of seeded noise."""
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def wanted(x: Array) -> Array:
    """The answer of `network`, in float64."""
    scaled = (x.astype(np.float64) + CONSTANTS["shift"]) * CONSTANTS["scale"]
    padded = np.pad(scaled, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    convolved = np.einsum("ncyxij,kcij->nkyx", windows, CONSTANTS["w"])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(convolved, (3, 3), axis=(2, 3)).max((-1, -2)))
