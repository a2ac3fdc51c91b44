"""Softmax between dequantisation and quantisation runs on bytes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(29)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.03), "z": np.uint8(121), "t": np.float32(1 / 255), "o": np.uint8(3),
}  # fmt: skip


def nodes(axis: int = -1) -> list[onnx.NodeProto]:
    return [
        N("DequantizeLinear", ["x", "s", "z"], ["f"]),
        N("Softmax", ["f"], ["c"], axis=axis),
        N("QuantizeLinear", ["c", "t", "o"], ["y"]),
    ]


def made(x: Array, constants: dict[str, Array], axis: int = -1, outputs: tuple[str, ...] = ("y",)) -> bytes:
    kinds = {"y": helper.np_dtype_to_tensor_dtype(constants["o"].dtype), "c": onnx.TensorProto.FLOAT}
    return model(nodes(axis), {"x": x}, constants, outputs, kinds)


def softmax(x: Array, constants: dict[str, Array]) -> Array:
    """In float64."""
    floats = (x.astype(np.float64) - float(constants["z"])) * float(constants["s"])
    powers = np.exp(floats - floats.max(-1, keepdims=True))
    limits = np.iinfo(constants["o"].dtype)
    whole = np.rint(powers / powers.sum(-1, keepdims=True) / float(constants["t"])) + int(constants["o"])
    return np.clip(whole, limits.min, limits.max)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("scale", [0.03, 0.6, 1e-6])
@pytest.mark.parametrize("shape", [(2, 6, 197), (3, 64), (5, 7), (4, 1), (2, 1001)])
def test_softmax_runs_on_bytes(shape: tuple[int, ...], scale: float, kind: type) -> None:
    x = RANDOM.integers(0, 256, shape).astype(np.uint8).view(kind)
    constants = {**CONSTANTS, "s": np.float32(scale), "z": np.array(7, kind), "o": np.array(3, kind)}
    content = made(x, constants)
    loaded = cenote.load(content)
    assert steps(loaded) == ["qlinear_softmax"]
    y = np.asarray(loaded(x)).astype(int)
    apart = np.abs(y - softmax(x, constants))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (other,) = onnxruntime.InferenceSession(content, plain).run(None, {"x": x})
    assert np.abs(y - other.astype(int)).max() <= 1


def test_rows_whose_number_is_open() -> None:
    x = RANDOM.integers(0, 256, (9, 70)).astype(np.uint8)
    content = onnx.load_from_string(made(x, CONSTANTS))
    content.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    opened = cenote.load(content.SerializeToString(), threads=2)
    fixed = np.asarray(cenote.load(made(x, CONSTANTS), threads=1)(x))
    for rows in (9, 1, 4):
        np.testing.assert_array_equal(np.asarray(opened(x[:rows])), fixed[:rows])


@pytest.mark.parametrize(
    ("change", "axis", "outputs"),
    [
        ({}, 0, ("y",)),
        ({}, -1, ("y", "c")),
        ({"s": np.float32(-0.1)}, -1, ("y",)),
        ({"t": np.float32(np.nan)}, -1, ("y",)),
        ({"s": np.full(70, 0.1, np.float32), "z": np.full(70, 3, np.uint8)}, -1, ("y",)),
    ],
    ids=["another axis", "floats are read", "negative scale", "scale not a number", "scales of an axis"],
)
def test_others_stay_in_floats(change: dict[str, Array], axis: int, outputs: tuple[str, ...]) -> None:
    x = RANDOM.integers(0, 256, (9, 70)).astype(np.uint8)
    loaded = cenote.load(made(x, {**CONSTANTS, **change}, axis, outputs))
    assert "qlinear_softmax" not in steps(loaded)
