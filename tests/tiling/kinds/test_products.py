"""Products, layer normalisations and transposed convolutions as layers, alone and as a model's nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.ops.values import seeded

TINY = {"base": "npu", "ub_bytes": 4096, "cores": 3}


@pytest.mark.parametrize(
    ("a", "b"), [((70, 90), (90, 50)), ((3, 7, 9), (3, 9, 5)), ((2, 3, 7, 9), (9, 5)), ((1, 300), (300, 1))]
)
@pytest.mark.parametrize("strategy", ["three-stage", "search"])
def test_tiles_of_a_product_are_numpys(a: tuple[int, ...], b: tuple[int, ...], strategy: Any) -> None:
    plan = cenote.tiling.plan("matmul", input=a, other=b, hardware=TINY, strategy=strategy)
    left, right = seeded(a, 1), seeded(b, 2)
    y, counts = cenote.tiling.simulate(plan, left, [right])
    expected = np.matmul(left.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    assert counts["cycles"] == plan.cycles


def test_a_long_inner_extent_is_added_up_in_parts() -> None:
    plan = cenote.tiling.plan("matmul", input=(8, 20_000), other=(20_000, 8), hardware=TINY)
    assert plan.layer.channel_parts(plan.tile.channels) > 1
    assert plan.fits


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input": (3, 4)}, "matmul needs other"),
        ({"input": (3, 4), "other": (5, 6)}, "has 4 columns"),
        ({"input": (3, 4), "other": (4,)}, r"other must be \(…, K, N\)"),
        ({"input": (2, 3, 4), "other": (3, 4, 5)}, "other must be"),
        ({"input": (3,), "other": (4, 5)}, r"input must be \(…, M, K\)"),
        ({"input": (3, 4), "other": (4, 5), "kernel": 3}, "kernel means nothing to matmul"),
    ],
)
def test_errors_of_products_name_the_argument(given: dict[str, Any], message: str) -> None:
    with pytest.raises(cenote.CenoteError, match=message):
        cenote.tiling.plan("matmul", **given)


def test_layers_of_a_transformer_block_are_planned() -> None:
    """LayerNormalization, MatMul and a Gemm whose matrix is stored the other way round, each with its bias or row."""
    shapes = {"x": (32, 48), "scale": (48,), "shift": (48,), "w1": (48, 64), "w2": (16, 64), "row": (16,)}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"]),
        helper.make_node("MatMul", ["n", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "row"], ["y"], transB=1, alpha=0.5, beta=2.0),
        helper.make_node("Softmax", ["y"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "block", inputs, [helper.make_tensor_value_info("z", 1, (32, 16))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = cenote.tiling.plan_model(model, hardware=TINY, strategy="search")
    assert [plan.layer.op.name for plan in found.plans] == ["layer_normalization", "matmul", "gemm"]
    assert found.others == 1  # Softmax; Relu is applied to the product's tiles
    for plan in found.plans:
        x = seeded(plan.layer.inputs[0].shape, 5)
        y, counts = cenote.tiling.simulate(plan, x)
        np.testing.assert_allclose(y, cenote.tiling.reference(plan, x), rtol=1e-5, atol=1e-6)
        assert counts["cycles"] == plan.cycles
