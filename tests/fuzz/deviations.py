"""Where Cenote and ONNX Runtime differ for a reason: which nodes, and which elements of what they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

Attributes = dict[str, Any]
RANDOM = {
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
}  # fmt: skip
WINDOWS = ("HammingWindow", "HannWindow", "BlackmanWindow")


def _same(given: Attributes) -> bool:
    """SAME whose strides exceed the window."""
    window, strides = given.get("kernel_shape", (1,)), given.get("strides", (1,))
    return "SAME" in str(given.get("auto_pad", "")) and max(strides, default=0) > min(window, default=0)


@dataclass(frozen=True)
class Reason:
    """Why answers may differ, the nodes that it is about, and the elements of their outputs (ours, theirs), which are
    of one shape: the others must agree. Without `where`, outputs may be anything. What other nodes make of such outputs
    is not compared."""

    text: str
    about: Callable[[str, Attributes], bool]
    where: Callable[[Attributes, Any, Any], Any] | None = None


def _range_left(given: Attributes, ours: Any, theirs: Any) -> Any:
    """Norms whose sum of powers, norm ** p, is no ordinary number of the type."""
    kind = np.finfo(theirs.dtype)
    with np.errstate(all="ignore"):
        power = np.log(np.abs(theirs.astype(np.float64))) * given.get("p", 2)
    return ~((power > np.log(kind.tiny) + 10) & (power < np.log(kind.max) - 1))


REASONS = (
    Reason(
        "SAME with strides beyond the window: onnxruntime lets the padding become negative, ONNX stops at 0",
        lambda operator, given: _same(given),
    ),
    Reason(
        "powers: onnxruntime overflows and underflows where the norm itself does not",
        lambda operator, given: operator in ("LpPool", "GlobalLpPool"),
        _range_left,
    ),
    Reason(
        "an alpha that is no number, at 0 and above: ours is not multiplied by it",
        lambda operator, given: operator in ("Selu", "Celu") and not np.isfinite(given.get("alpha", 1.0)),
        lambda given, ours, theirs: np.isnan(theirs),
    ),
    Reason(
        "scores that leave float32: q and k are scaled before their product, each by the root",
        lambda operator, given: operator == "Attention" and abs(given.get("scale", 1.0)) > 1e30,
    ),
    Reason(
        "align_corners by fractional scales: onnxruntime counts with the rounded size, ONNX's own tests as we do",
        lambda operator, given: (
            operator == "Resize" and given.get("coordinate_transformation_mode") == b"align_corners"
        ),
    ),
    Reason(
        "an aspect ratio kept along axes counted from the end: onnxruntime leaves those axes as they are",
        lambda operator, given: (
            operator == "Resize"
            and given.get("keep_aspect_ratio_policy", b"stretch") != b"stretch"
            and min(given.get("axes", ()), default=0) < 0
        ),
    ),
    Reason(
        "a window of one sample: 1 here, as in SciPy; the formula divides 0 by 0",
        lambda operator, given: operator in WINDOWS,
        lambda given, ours, theirs: np.isnan(theirs) & (theirs.size == 1),
    ),
)

NO_ROUNDS = (
    "a loop of no rounds: onnxruntime takes an element's extents from the body's declaration, right or wrong"
)

# Where a plan for all sizes rounds otherwise than one for known sizes: operators, and why. No other differs in a bit.
ROUNDED = {
    **dict.fromkeys(
        ("AveragePool", "GlobalAveragePool", "ReduceMean", "LpPool", "GlobalLpPool"),
        "the order in which a window is added up is chosen for the first size of a class",
    ),
    **dict.fromkeys(
        ("Conv", "ConvTranspose"),
        "the algorithm, the layout and what is fused into it are chosen for the first size of a class",
    ),
    **dict.fromkeys(
        ("MatMul", "Gemm", "Einsum"),
        "one row is added up in another order than several, and which it is a class decides",
    ),
    **dict.fromkeys(
        ("ConstantOfShape", "If", "Loop"),
        "gone where sizes are known: zeros that are added, branches; a convolution then reads another layout",
    ),
    "Softmax": "between two products it is attention, whose algorithm is chosen for the first size of a class",
    "Resize": "the axis that is interpolated first is chosen for the first size of a class",
    "Div": "a divisor made of sizes is a constant where these are known, and scales the product before it",
}


def rounded(graph: onnx.GraphProto) -> set[str]:
    """The values that these operators make, and what is made of them."""
    found: set[str] = set()
    for node in graph.node:
        if node.op_type in ROUNDED or not found.isdisjoint(read_by(node)):
            found.update(node.output)
    return found


def is_random(content: bytes) -> bool:
    """A model whose answer is random."""
    return any(node.op_type in RANDOM for node in nodes_of(onnx.ModelProto.FromString(content).graph))


def explained(
    content: bytes, differing: dict[str, tuple[Any, Any]], unlike: Callable[[Any, Any], str]
) -> str:
    """The reason for outputs (ours, theirs) by name that differ; nothing where one of them has none."""
    reasons: dict[str, tuple[Reason, Attributes] | None] = {}  # None: what other nodes make of such values
    texts, loops = [], set[str]()
    for node in onnx.ModelProto.FromString(content).graph.node:
        found = [
            (reason, attributes(inner))
            for inner in (node, *inside(node))
            for reason in REASONS
            if reason.about(inner.op_type, attributes(inner))
        ]
        texts += [reason.text for reason, _ in found]
        if node.op_type in ("Loop", "Scan"):
            loops.update(node.output)
        if any(name in reasons for name in read_by(node)) or len(found) > 1 or (found and inside(node)):
            reasons.update(dict.fromkeys(node.output))
        elif found:
            reasons.update(dict.fromkeys(node.output, found[0]))
    for name, (ours, theirs) in differing.items():
        if name in loops and ours.size == theirs.size == 0:
            texts.append(NO_ROUNDS)
            continue
        if name not in reasons:
            return ""
        here = reasons[name]
        if here is None or here[0].where is None:
            continue
        if ours.shape != theirs.shape:
            return ""
        rest = ~here[0].where(here[1], ours, theirs)
        if unlike(ours[rest], theirs[rest]):
            return ""
    return texts[0] if differing else ""


def read_by(node: onnx.NodeProto) -> set[str]:
    """The values that a node reads, its branches' too."""
    return {name for each in (node, *inside(node)) for name in each.input}


def inside(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a node's branches."""
    return [each for item in node.attribute for graph in (item.g, *item.graphs) for each in nodes_of(graph)]


def attributes(node: onnx.NodeProto) -> Attributes:
    try:
        return {item.name: helper.get_attribute_value(item) for item in node.attribute}
    except (ValueError, TypeError):
        return {}


def nodes_of(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Those of branches too."""
    return [each for node in graph.node for each in (node, *inside(node))]
