"""Weights in few bits: the numbers, and that the constants of ONNX say the same."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from cenote.compression.network import SharedNetwork, layers
from cenote.compression.storage import BLOCK, quantized, stored
from cenote.core.types import Array
from tests.compression.reference import answers
from tests.quantization.networks import model, node, noise

X = noise(2, 70)


def linear(turned: bool = True, opset: int = 21, weights: Array | None = None) -> SharedNetwork:
    w = noise(40, 70) if weights is None else weights
    op = node("Gemm", "x w b", "y", transB=1) if turned else node("MatMul", "x w", "y")
    constants = {"w": w if turned else np.ascontiguousarray(w.T), "b": noise(40)}
    made = model([op], {"x": ["n", 70]}, "y", constants if turned else {"w": constants["w"]}, opset)
    made.ir_version = 10
    return SharedNetwork.of(made)


@pytest.mark.parametrize("turned", [True, False], ids=["Gemm", "MatMul"])
@pytest.mark.parametrize(
    ("kind", "within"), [("float16", 1e-3), ("bfloat16", 8e-3), ("int8", 1e-2), ("int4", 0.15)]
)
def test_products_of_stored_weights(kind: str, within: float, turned: bool) -> None:
    before = linear(turned)
    (layer,) = layers(before)
    after = stored(before, layer, kind)
    assert after is not None
    wanted, found = answers(before, X), answers(after, X)
    assert 0 < np.abs(wanted - found).max() < within * np.abs(wanted).max()
    assert not list(layers(after)), "it is not stored twice"
    bits = {"int4": 4 + 1, "int8": 8 + 0.5}.get(kind, 16)  # and the scales
    assert after.nbytes < before.nbytes * (bits / 32 + 0.15)


@pytest.mark.parametrize(("kind", "within"), [("float16", 1e-3), ("int8", 1e-2), ("int4", 0.2)])
def test_convolutions_of_stored_weights(kind: str, within: float) -> None:
    convolution = node("Conv", "x w", "y", pads=[1, 1, 1, 1])
    made = model([convolution], {"x": [1, 32, 5, 5]}, "y", {"w": noise(8, 32, 3, 3)}, 21)
    made.ir_version = 10
    before, x = SharedNetwork.of(made), noise(1, 32, 5, 5)
    (layer,) = layers(before)
    after = stored(before, layer, kind)
    assert after is not None
    wanted, found = answers(before, x), answers(after, x)
    assert 0 < np.abs(wanted - found).max() < within * np.abs(wanted).max()


@pytest.mark.parametrize(("bits", "block"), [(4, 32), (8, 64), (8, 0)])
def test_scales_hold_each_block(bits: int, block: int) -> None:
    """No number is off by more than half a step, but for those that are cut."""
    values = noise(5, 70)
    numbers, scales = quantized(values, 1 if block else 0, block, bits)
    spread = np.repeat(scales, block, 1)[:, :70] if block else scales[:, None]
    half = 1 << bits - 1
    assert numbers.min() >= -half
    assert numbers.max() < half
    off = np.abs(numbers * spread - values)
    cut = np.abs(values) > spread * (half - 1)
    assert (off[~cut] <= spread[~cut] / 2 * (1 + 1e-6) if block else off[~cut].max() < scales.max()).all()
    assert cut.mean() < 0.1


def test_zeros_and_extremes_are_kept() -> None:
    values = np.zeros((3, 64), np.float32)
    values[1], values[2, 0] = 1e-38, 3e38
    numbers, scales = quantized(values, 1, 32, 4)
    decoded = numbers * np.repeat(scales, 32, 1)
    assert np.isfinite(decoded).all()
    assert not decoded[0].any()
    assert decoded[2, 0] > 2e38


def test_blocks_need_an_opset_and_sixteen_bits_a_range() -> None:
    old = linear(opset=12)
    (layer,) = layers(old)
    assert [stored(old, layer, kind) for kind in ("int4", "int8", "bfloat16")] == [None] * 3
    assert stored(old, layer, "float16") is not None
    rows = linear(opset=13)
    found = stored(rows, next(layers(rows)), "int8")
    assert found is not None
    assert found.tensors["w.scales"].dims == [40], "a scale per row"
    huge = linear(weights=noise(40, 70) * np.float32(1e6))
    assert stored(huge, next(layers(huge)), "float16") is None
    wrong = linear(weights=np.full((40, 70), np.inf, np.float32))
    assert stored(wrong, next(layers(wrong)), "int8") is None


def test_four_bits_are_two_in_a_byte() -> None:
    network = linear()
    after = stored(network, next(layers(network)), "int4")
    assert after is not None
    tensor = after.tensors["w.int4"]
    assert tensor.data_type == TensorProto.INT4
    assert len(tensor.raw_data) == 40 * 70 // 2
    assert after.tensors["w.scales"].dims == [40, -(-70 // BLOCK["int4"])]


def test_a_network_is_converted_for_blocks() -> None:
    converted = linear(opset=13).with_blocks()
    assert converted is not None
    assert converted.opset == 21
    np.testing.assert_array_equal(answers(converted, X), answers(linear(opset=13), X))
