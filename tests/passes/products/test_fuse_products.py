"""Products of bytes take the conversion to float32, the scale and the bias in, with the bits of the single steps."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(25)
X = RANDOM.standard_normal((2, 9, 37)).astype(np.float32)
CONSTANTS: dict[str, Array] = {
    "w": RANDOM.integers(0, 256, (37, 50)).astype(np.uint8), "wz": np.array(103, np.uint8),
    "ws": (RANDOM.random(50) * 0.01 + 0.001).astype(np.float32), "b": RANDOM.standard_normal(50).astype(np.float32),
}  # fmt: skip
SCALED = [
    N("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
    N("MatMulInteger", ["q", "w", "z", "wz"], ["t"]),
    N("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
    N("Mul", ["s", "ws"], ["both"]),
    N("Mul", ["f", "both"], ["m"]),
    N("Add", ["b", "m"], ["y"]),
]


@pytest.mark.parametrize("last", ["y", "r", "m"], ids=["bias", "relu", "sums are read elsewhere"])
def test_a_dynamic_product_is_one_step_with_the_bits_of_its_steps(last: str) -> None:
    outputs = ["y", "t"] if last == "m" else [last]
    made = [*SCALED, *([N("Relu", ["y"], ["r"])] if last == "r" else [])]
    loaded = cenote.load(model(made, {"x": X}, CONSTANTS, outputs))
    found = steps(loaded)
    assert any(op.startswith("matmul_integer_to_float") for op in found) == (last != "m"), found
    result = loaded(X)
    y = np.asarray(result[0] if last == "m" else result)
    low, high = min(X.min(), 0), max(X.max(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    q = np.clip(np.rint(X / scale) + zero, 0, 255).astype(np.int64)
    total = (q - int(zero)) @ (CONSTANTS["w"].astype(np.int64) - 103)
    want = total.astype(np.float32) * (scale * CONSTANTS["ws"]) + CONSTANTS["b"]
    np.testing.assert_array_equal(y, np.maximum(want, 0) if last == "r" else want)
