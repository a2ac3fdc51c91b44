"""Where Cenote and ONNX Runtime differ for a reason: models with such nodes are run, but their answers not compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

Attributes = dict[str, Any]
RANDOM = {
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
}  # fmt: skip
WINDOWS = ("HammingWindow", "HannWindow", "BlackmanWindow")


def _same(operator: str, given: Attributes) -> bool:
    """SAME whose strides exceed the window."""
    window, strides = given.get("kernel_shape", (1,)), given.get("strides", (1,))
    return "SAME" in str(given.get("auto_pad", "")) and max(strides) > min(window)


# A reason, and which nodes it is about.
REASONS: tuple[tuple[str, Callable[[str, Attributes], bool]], ...] = (
    (
        "SAME with strides beyond the window: onnxruntime lets the padding become negative, ONNX stops at 0",
        _same,
    ),
    (
        "powers: onnxruntime overflows where the norm itself does not",
        lambda operator, given: "Lp" in operator and abs(given.get("p", 2)) > 8,
    ),
    (
        "a bound that is NaN: comparisons with it are false, whichever way they are written",
        lambda operator, given: any(value != value for value in given.values() if isinstance(value, float)),
    ),
    (
        "a window of one sample: 1 here, as in SciPy; the formula divides 0 by 0",
        lambda operator, given: operator in WINDOWS,
    ),
)


def known(content: bytes) -> str:
    """ "random" for a model whose answer is; a reason why the engines differ; or nothing."""
    found = list(nodes_of(onnx.ModelProto.FromString(content).graph))
    if any(node.op_type in RANDOM for node in found):
        return "random"
    return next(
        (reason for node in found for reason, about in REASONS if about(node.op_type, attributes(node))), ""
    )


def attributes(node: onnx.NodeProto) -> Attributes:
    try:
        return {item.name: helper.get_attribute_value(item) for item in node.attribute}
    except (ValueError, TypeError):
        return {}


def nodes_of(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Those of branches too."""
    found = list(graph.node)
    for node in graph.node:
        for item in node.attribute:
            for inner in (item.g, *item.graphs):
                found += nodes_of(inner)
    return found
