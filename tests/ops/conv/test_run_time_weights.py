"""Convolutions whose weights are known when the model runs: which way is taken, at any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import jit
from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.ops.conv.conv import Conv
from tests.targets import TARGETS

FLOAT = TensorProto.FLOAT


def chosen(op: Conv, x: tuple[int, ...], w: tuple[int, ...], target: Target, constant: bool) -> str:
    """The lowering whose estimate is the smallest."""
    weights = TensorType.of(np.float32, w)
    if constant:
        weights = TensorType.known(np.zeros(w, np.float32))
    inputs = (TensorType.of(np.float32, x), weights, None)
    return min(op.lowerings(inputs, target), key=lambda each: float(each.seconds)).name


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_many_weights_of_a_small_map_are_not_packed(target: Target) -> None:
    same = ((1, 1), (1, 1))
    assert chosen(Conv(pads=same), (1, 512, 4, 4), (512, 512, 3, 3), target, False) == "columns"
    assert chosen(Conv(), (1, 2048, 4, 4), (2048, 2048, 1, 1), target, False) == "columns"
    assert chosen(Conv(), (1, 512, 7, 7), (512, 512, 1, 1), target, False) == "direct"
    assert chosen(Conv(pads=same), (1, 64, 64, 64), (64, 64, 3, 3), target, False) == "direct"
    assert chosen(Conv(pads=same), (1, 512, 7, 7), (512, 512, 3, 3), target, True) != "columns"


def test_regions_pay_for_reading_weights_again() -> None:
    def dilated(by: int) -> str:
        op = Conv(pads=((by, by),) * 2, dilations=(by, by), exact=True)  # without Winograd's algorithm
        return chosen(op, (1, 1024, 16, 16), (256, 1024, 3, 3), jit.named_target("avx2"), True)

    assert dilated(4) == "direct"
    assert dilated(12) == "direct_regions"


def model(w: tuple[Any, ...], bias: bool, relu: bool, **attributes: Any) -> cenote.Model:
    names = ["x", "w", *(["b"] if bias else [])]
    nodes = [helper.make_node("Conv", names, ["c"], **attributes)]
    nodes.append(helper.make_node("Relu" if relu else "Identity", ["c"], ["y"]))
    shapes: dict[str, tuple[Any, ...]] = {"x": ("n", "c", "h", "w"), "w": w, "b": (w[0],)}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shapes[name]) for name in names]
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return cenote.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), threads=1
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("bias", "relu"), [(True, True), (False, True), (True, False)])
def test_pictures_of_any_size(groups: int, bias: bool, relu: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    w = rng.standard_normal((12, 6, 3, 3)).astype(np.float32) / 7
    b = rng.standard_normal(12).astype(np.float32)
    loaded = model(w.shape, bias, relu, pads=[1, 1, 1, 1], strides=[2, 1], group=groups)
    for size in ((1, 6 * groups, 9, 7), (2, 6 * groups, 20, 31), (1, 6 * groups, 3, 2)):
        x = rng.standard_normal(size).astype(np.float32)
        given = [x, w, *([b] if bias else [])]
        y = loaded(*given)
        wanted = torch.nn.functional.conv2d(
            torch.from_numpy(x),
            torch.from_numpy(w),
            torch.from_numpy(b) if bias else None,
            (2, 1),
            1,
            1,
            groups,
        ).numpy()
        np.testing.assert_allclose(y, np.maximum(wanted, 0) if relu else wanted, rtol=1e-4, atol=1e-5)
        assert "host" not in {step.kind for step in loaded.plan.describe().steps}


def test_more_weights_than_can_be_numbered() -> None:
    """Packing by a table ends at 2^24 weights; the product does not."""
    w = TensorType.of(np.float32, (2048, 8208, 1, 1))
    x = TensorType.of(np.float32, (1, 8208, 2, 2))
    assert [each.name for each in Conv().lowerings((x, w, None), TARGETS[0])] == ["columns"]
