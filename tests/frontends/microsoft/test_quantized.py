"""ONNX Runtime's operators on quantised tensors that become operators on bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.types import Array

RANDOM = np.random.default_rng(30)
S, Z, T, O = np.float32(0.02), np.uint8(120), np.float32(0.9), np.uint8(100)


def loaded(kind: str, x: Array, others: list[Array | None], attributes: dict[str, Any]) -> cenote.Model:
    """A model of one node, whose first input is x."""
    names = ["x", *("" if value is None else f"c{index}" for index, value in enumerate(others))]
    node = helper.make_node(kind, names, ["y"], domain="com.microsoft", **attributes)
    constants = {name: value for name, value in zip(names[1:], others, strict=True) if value is not None}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return cenote.load(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def operators(model: cenote.Model) -> set[str]:
    return {step.op.split("(")[0] for step in model.plan.describe().steps}


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_with_a_quantised_result_has_no_floats(turned: bool, per_column: bool) -> None:
    x, b = (RANDOM.integers(0, 256, shape).astype(np.uint8) for shape in ((40, 203), (203, 96)))
    scale = (RANDOM.random(96) * 0.01 + 0.001).astype(np.float32) if per_column else np.float32(0.01)
    zero = np.full(scale.shape, 131, np.uint8)
    bias = RANDOM.integers(-9000, 9000, 96).astype(np.int32)
    given = [S, Z, np.ascontiguousarray(b.T) if turned else b, scale, zero, bias, T, O]
    model = loaded("QGemm", x, given, {"transB": int(turned)})
    assert operators(model) == {"qlinear_matmul"}
    sums = (x.astype(np.int64) - 120) @ (b.astype(np.int64) - 131) + bias
    want = np.clip(np.rint(sums.astype(np.float32) * (S * scale / T)) + 100, 0, 255)
    np.testing.assert_array_equal(np.asarray(model(x)), want.astype(np.uint8))


@pytest.mark.parametrize("last", [0, 1])
def test_means_of_bytes_have_no_floats_wherever_their_channels_are(last: int) -> None:
    x = RANDOM.integers(0, 256, (2, 9, 8, 32) if last else (2, 32, 9, 8)).astype(np.uint8)
    step, axes = np.float32(0.004), (1, 2) if last else (2, 3)
    whole = loaded("QLinearGlobalAveragePool", x, [S, Z, step, O], {"channels_last": last})
    assert operators(whole) <= {"qlinear_global_average_pool", "transpose", "reorder"}
    sums = x.astype(np.int64).sum(axes, keepdims=True) - 72 * 120
    want = np.rint(sums.astype(np.float32) * (S / (np.float32(72) * step))) + 100
    np.testing.assert_array_equal(np.asarray(whole(x)), np.clip(want, 0, 255).astype(np.uint8))
    if last:
        mean = loaded("QLinearAveragePool", x, [S, Z, S, Z], {"kernel_shape": [1, 1], "channels_last": 1})
        assert not operators(mean) & {"dequantize_linear", "average_pool", "quantize_linear"}
        np.testing.assert_array_equal(np.asarray(mean(x)), x)


EVERY = np.arange(256, dtype=np.uint8)
HALF = np.float32(0.5)


@pytest.mark.parametrize("zero", [0, 7, 128, 255])
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_every_pair_of_bytes_is_right_also_halfway(kind: str, zero: int) -> None:
    """Floats in registers are exact: scales are powers of two, and every other result lies between two numbers."""
    x, other = np.meshgrid(EVERY, EVERY)
    zeros = np.uint8(zero), np.uint8(121), np.uint8(99)
    step = np.float32(1 if kind == "QLinearAdd" else 128)
    model = loaded(kind, x, [HALF, zeros[0], other, HALF, zeros[1], step, zeros[2]], {})
    a, b = x.astype(np.float64) - zero, other.astype(np.float64) - 121
    real = (a + b) / 2 if kind == "QLinearAdd" else a * b / 4 / 128
    assert (np.abs(real - np.trunc(real)) == 0.5).any()
    np.testing.assert_array_equal(np.asarray(model(x)), np.clip(np.rint(real) + 99, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("zero", [0, 7, 128])
def test_a_mean_halfway_is_rounded_before_the_zero_point_is_added(zero: int) -> None:
    """By the rule of QuantizeLinear, also where the zero point is odd; ONNX Runtime's operator adds it first there."""
    x = np.stack(np.meshgrid(EVERY, EVERY), axis=-1).reshape(1, 1, 256, 512)
    own = np.uint8(zero)
    model = loaded(
        "QLinearAveragePool", x, [HALF, own, HALF, own], {"kernel_shape": [1, 2], "strides": [1, 2]}
    )
    mean = (x.astype(np.float64).reshape(1, 1, 256, 256, 2) - zero).mean(axis=-1)
    np.testing.assert_array_equal(
        np.asarray(model(x)), np.clip(np.rint(mean) + zero, 0, 255).astype(np.uint8)
    )
