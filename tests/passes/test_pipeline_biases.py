"""Biases below the smallest normal number, which training leaves behind in channels that are not used."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import cenote
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.passes.pipeline import forget_tiny_biases

TINY = np.float32(1e-39)
BIAS = np.array([TINY, -TINY, 0.0, 1.2e-38, -3.0, np.inf, np.nan], np.float32)
TEXT = """<ir_version: 10, opset_import: ["" : 18]> dead (float[1,2,5,5] x) => (float[1,3,5,5] y, float[1,3,5,5] z)
  {{ {op} s = Constant<value = float {{1e30}}>() z = Mul(y, s) }}"""


def test_normal_ones_stay_as_they_are() -> None:
    inputs = (Declared("x", np.dtype(np.float32), (1, 2, 5, 5)),)
    constants = {"w": np.ones((7, 2, 1, 1), np.float32), "b": BIAS, "b~normal": BIAS}
    types = {name: TensorType.known(array) for name, array in constants.items()}
    types |= dict.fromkeys(("y", "z"), TensorType.of(np.float32, (1, 7, 5, 5)))
    types["x"] = TensorType.of(np.float32, (1, 2, 5, 5))
    nodes = (Node(Conv(), ("x", "w", "b"), ("y",)), Node(Conv(), ("x", "w"), ("z",)))
    found = forget_tiny_biases(Graph(inputs, ("y", "z"), nodes, constants, types))
    made = found.constants[found.nodes[0].inputs[2]]
    assert np.array_equal(made, np.where(np.abs(BIAS) == TINY, 0, BIAS), equal_nan=True)
    assert np.array_equal(found.constants["b~normal"], BIAS, equal_nan=True), "a name that was taken"
    assert found.nodes[1] == nodes[1]
    assert forget_tiny_biases(found) is found


@pytest.mark.parametrize("op", [Conv, ConvTranspose])
@pytest.mark.parametrize("precision", ["fast", "exact"])
def test_a_dead_channel_is_zero_unless_all_is_to_be_exact(op: type, precision: str) -> None:
    first = "y = Conv(x, w, b)" if op is Conv else "y = ConvTranspose(x, w, b)"
    model = onnx.parser.parse_model(TEXT.format(op=first))
    w = np.random.default_rng(0).standard_normal((3, 2, 1, 1)).astype(np.float32)
    w[1] = 0
    if op is ConvTranspose:
        w = w.swapaxes(0, 1)
    for name, array in (("w", w), ("b", np.array([0.5, TINY, 0.25], np.float32))):
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 5)).astype(np.float32)
    y, z = cenote.load(model, threads=1, precision=precision)(x)
    kept = precision == "exact"
    assert (y[:, 1] == (TINY if kept else 0)).all()
    assert (z[:, 1] == (TINY * np.float32(1e30) if kept else 0)).all()
    want = np.einsum("mc,nchw->nmhw", w.reshape(3, 2) if op is Conv else w[..., 0, 0].T, x)
    np.testing.assert_allclose(y[:, 2], want[:, 2] + 0.25, rtol=1e-5, atol=1e-6)
