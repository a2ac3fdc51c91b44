"""Transposed convolutions of maps of one element are products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote


def generator(window: tuple[int, ...], batch: Any, size: int = 1, **attributes: Any) -> cenote.Model:
    rng = np.random.default_rng(0)
    groups = attributes.get("group", 1)
    w = rng.standard_normal((6, 10 // groups, *window)).astype(np.float32)
    b = rng.standard_normal(10).astype(np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], **attributes),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    shape = [batch, 6, *(size,) * len(window)]
    ends = (
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("y", 1, None),
    )
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return cenote.load(content, threads=1)


def steps(model: cenote.Model) -> str:
    return " ".join(str(step.op) for step in model.plan.describe().steps)


@pytest.mark.parametrize("window", [(4, 4), (3,), (2, 3, 2)])
@pytest.mark.parametrize("batch", [1, 3, "n"])
def test_maps_of_one_element(window: tuple[int, ...], batch: Any) -> None:
    torch = pytest.importorskip("torch")
    model = generator(window, batch, strides=[2] * len(window))
    for images in (1, 3, 4) if batch == "n" else (batch,):
        x = np.random.default_rng(1).standard_normal((images, 6, *(1,) * len(window))).astype(np.float32)
        y = model(x)
        rng = np.random.default_rng(0)
        w = rng.standard_normal((6, 10, *window)).astype(np.float32)
        b = rng.standard_normal(10).astype(np.float32)
        function = getattr(torch.nn.functional, f"conv_transpose{len(window)}d")
        wanted = function(torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(b), 2).numpy()
        np.testing.assert_allclose(y, np.maximum(wanted, 0), rtol=1e-4, atol=1e-5)
    assert "conv_transpose" not in steps(model)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 1, 1, 1]},
        {"dilations": [2, 2]},
        {"group": 2},
        {"output_padding": [1, 1], "strides": [2, 2]},
    ],
)
def test_others_stay(attributes: dict[str, Any]) -> None:
    assert "conv_transpose" in steps(generator((4, 4), 1, **attributes))


def test_larger_maps_stay() -> None:
    assert "conv_transpose" in steps(generator((4, 4), 1, 2))
