"""Dilated convolutions on batches of sub-maps: the same numbers as by the plain sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.core.load_options import LoadOptions
from cenote.models.loading import load_with
from cenote.ops.conv.conv import Conv
from tests.diagnosis.causes.models import Node, model, noise


def dilated(
    size: tuple[int, int],
    dilations: list[int],
    pads: list[int],
    *,
    batch: int = 1,
    bias: bool = False,
    **more: Any,
) -> tuple[Any, dict[str, Any]]:
    """A convolution with an activation behind it."""
    shape = (batch, 5, *size)
    constants = {"w": noise(6, 5 // more.get("group", 1), 3, 3, scale=0.3)}
    if bias:
        constants["b"] = noise(6)
    nodes: list[Node] = [
        ("Conv", ["x", *constants], ["c"], {"dilations": dilations, "pads": pads, **more}),
        ("Relu", ["c"], ["y"], {}),
    ]
    return model(nodes, {"x": shape}, ["y"], constants), {"x": noise(*shape)}


def operators(loaded: cenote.Model) -> list[str]:
    return [step.op for step in loaded.plan.describe().steps]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("size", "dilations", "pads"),
    [
        ((16, 16), [2, 2], [2, 2, 2, 2]),  # nothing is padded or cropped but by the convolution
        ((16, 12), [4, 4], [4, 4, 4, 4]),
        ((13, 15), [2, 2], [2, 2, 2, 2]),  # does not divide
        ((11, 14), [3, 2], [1, 0, 5, 3]),
        ((12, 12), [1, 2], [1, 2, 1, 2]),  # along one axis
        ((9, 9), [2, 2], [0, 0, 0, 0]),
        ((9, 9), [4, 4], [0, 0, 0, 0]),  # an output of one pixel
        ((7, 8), [5, 3], [7, 11, 6, 2]),
    ],
)
def test_the_same_numbers(size: tuple[int, int], dilations: list[int], pads: list[int], bias: bool) -> None:
    made, inputs = dilated(size, dilations, pads, batch=2, bias=bias)
    treated = load_with(made.SerializeToString(), LoadOptions(rewrites=("space_to_batch",), threads=1))
    assert any(op.startswith("conv") for op in operators(treated))
    assert not any("dilation" in op for op in operators(treated))
    pairs = tuple(zip(pads[:2], pads[2:], strict=True))
    weights = {
        each.name: np.frombuffer(each.raw_data, np.float32).reshape(each.dims)
        for each in made.graph.initializer
    }
    (expected,) = Conv(pads=pairs, dilations=tuple(dilations)).compute(
        inputs["x"], weights["w"], weights.get("b"), None
    )
    np.testing.assert_allclose(treated.run(inputs)["y"], np.maximum(expected, 0), atol=2e-5)


@pytest.mark.parametrize(
    ("more", "precision"),
    [
        ({"strides": [2, 2]}, "fast"),
        ({"group": 5, "dilations": [2, 2]}, "fast"),
        ({}, "exact"),
        ({"symbol": 1}, "fast"),
    ],
)
def test_others_stay(more: dict[str, Any], precision: str) -> None:
    if more.get("group"):
        nodes: list[Node] = [("Conv", ["x", "w"], ["y"], {"dilations": [2, 2], "group": 5})]
        made = model(nodes, {"x": (1, 5, 16, 16)}, ["y"], {"w": noise(5, 1, 3, 3)})
    else:
        made, _ = dilated((16, 16), [2, 2], [2, 2, 2, 2], **{k: v for k, v in more.items() if k != "symbol"})
    if "symbol" in more:
        made.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "h"
    loaded = load_with(
        made.SerializeToString(),
        LoadOptions(rewrites=("space_to_batch",), threads=1, precision=precision),
    )
    loaded.run({"x": noise(1, 5, 16, 16)})
    assert any("dilation" in op for op in operators(loaded))


@pytest.mark.parametrize("size", [(16, 16), (13, 15)])
def test_a_residual_goes_along(size: tuple[int, int]) -> None:
    made, inputs = dilated(size, [2, 2], [2, 2, 2, 2], bias=True)
    made.graph.node.insert(1, helper.make_node("Add", ["c", "r"], ["d"]))
    made.graph.node[2].input[0] = "d"
    made.graph.input.append(helper.make_tensor_value_info("r", 1, [1, 6, *size]))
    inputs["r"] = noise(1, 6, *size)
    plain, treated = (
        load_with(made.SerializeToString(), LoadOptions(rewrites=each, threads=1))
        for each in ((), ("space_to_batch",))
    )
    assert any("residual" in op for op in operators(treated)), "still one step"
    assert not any("dilation" in op for op in operators(treated))
    np.testing.assert_allclose(treated.run(inputs)["y"], plain.run(inputs)["y"], atol=2e-5)


def test_nothing_is_turned_between_two_of_them() -> None:
    """A residual block."""
    attributes = {"dilations": [2, 2], "pads": [2, 2, 2, 2]}
    nodes: list[Node] = [
        ("Conv", ["x", "v"], ["a"], attributes), ("Relu", ["a"], ["b"], {}), ("Conv", ["b", "w"], ["c"], attributes),
        ("Add", ["c", "b"], ["d"], {}), ("Relu", ["d"], ["y"], {}),
    ]  # fmt: skip
    constants = {"v": noise(6, 5, 3, 3, scale=0.3), "w": noise(6, 6, 3, 3, scale=0.3)}
    made, inputs = model(nodes, {"x": (1, 5, 16, 16)}, ["y"], constants), {"x": noise(1, 5, 16, 16)}
    plain, treated = (
        load_with(made.SerializeToString(), LoadOptions(rewrites=each, threads=1))
        for each in ((), ("space_to_batch",))
    )
    assert sum(op.startswith("transpose") for op in operators(treated)) == 2
    np.testing.assert_allclose(treated.run(inputs)["y"], plain.run(inputs)["y"], atol=2e-5)


def test_what_is_not_known_is_refused() -> None:
    made, _ = dilated((9, 9), [2, 2], [0, 0, 0, 0])
    with pytest.raises(cenote.ArgumentError, match=r"rewrites.*magic"):
        load_with(made.SerializeToString(), LoadOptions(rewrites=("magic",)))
