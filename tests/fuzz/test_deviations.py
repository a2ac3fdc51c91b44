"""What counts as a known deviation: the elements that a reason is about, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.fuzz.deviations import explained, rounded
from tests.fuzz.models import unlike

NAN = float("nan")


def model(*nodes: Any) -> bytes:
    graph = helper.make_graph(
        list(nodes), "deviating", [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    content: bytes = helper.make_model(graph).SerializeToString()
    return content


NORMS = model(helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2], p=12))
WINDOW = model(helper.make_node("HannWindow", ["x"], ["y"]))
SELU = model(helper.make_node("Selu", ["x"], ["y"], alpha=NAN))
PLAIN = model(helper.make_node("Relu", ["x"], ["y"]))
AFTER = model(
    helper.make_node("LpPool", ["x"], ["n"], kernel_shape=[2], p=12), helper.make_node("Neg", ["n"], ["y"])
)


@pytest.mark.parametrize(
    ("content", "ours", "theirs", "known"),
    [
        (NORMS, [2.0, 1e4], [2.0, np.inf], True),
        (NORMS, [2.0, 1e-6], [2.0, 0.0], True),
        (NORMS, [2.5, 1e4], [2.0, np.inf], False),
        (NORMS, [2.0, 3.0], [2.0, 4.0], False),
        (NORMS, [2.0], [2.0, 4.0], False),
        (WINDOW, [1.0], [NAN], True),
        (WINDOW, [0.5], [1.0], False),
        (WINDOW, [0.0, 1.0], [NAN, NAN], False),
        (WINDOW, [0.0, 1.0, 0.0], [0.0, 0.5, 0.0], False),
        (SELU, [0.0, 1.0], [NAN, 1.0], True),
        (SELU, [0.0, 1.0], [NAN, 2.0], False),
        (PLAIN, [0.0], [NAN], False),
        (AFTER, [-1e4], [-np.inf], True),
    ],
)
def test_only_what_a_reason_is_about(
    content: bytes, ours: list[float], theirs: list[float], known: bool
) -> None:
    pair = np.array(ours, np.float32), np.array(theirs, np.float32)
    assert bool(explained(content, {"y": pair}, unlike)) == known


def test_elements_of_no_rounds_have_the_extents_that_someone_says() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_"]) for name in ("going", "x")],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in ("number", "going")],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in ("going_", "x_")],
    )
    loop = model(helper.make_node("Loop", ["trips", ""], ["y"], body=body))
    none, two = np.zeros((0, 2), np.float32), np.zeros((2,), np.float32)
    assert explained(loop, {"y": (none, none[:, 0])}, unlike)
    assert not explained(loop, {"y": (none, two)}, unlike)
    assert not explained(loop, {"y": (two, two + 1)}, unlike)
    assert not explained(PLAIN, {"y": (none, none[:, 0])}, unlike)


def test_only_what_is_made_of_means_may_round_otherwise() -> None:
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["made"]),
        helper.make_node("Mul", ["made", "mean"], ["y"]),
        helper.make_node("MaxPool", ["made"], ["rest"], kernel_shape=[2, 2]),
    ]
    graph = helper.make_graph(nodes, "rounded", [], [])
    assert rounded(graph) == {"mean", "y"}
