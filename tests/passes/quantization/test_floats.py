"""Convolutions and products of dequantised bytes whose results stay floats: exact sums, then four roundings."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

torch = pytest.importorskip("torch")

N = helper.make_node
RANDOM = np.random.default_rng(35)
UNIT = 2.0**-24
X = RANDOM.integers(0, 256, (1, 40, 9, 11)).astype(np.uint8)
ROWS = RANDOM.integers(0, 256, (3, 1100)).astype(np.uint8)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.021), "z": np.uint8(121), "t": np.float32(0.11), "o": np.uint8(7),
    "w": RANDOM.integers(-127, 128, (48, 40, 3, 3)).astype(np.int8),
    "ws": (RANDOM.random(48) * 0.004 + 0.001).astype(np.float32), "wz": np.zeros(48, np.int8),
    "m": RANDOM.integers(0, 256, (1100, 70)).astype(np.uint8), "ms": np.float32(0.0173), "mz": np.uint8(131),
    "b": RANDOM.standard_normal(48).astype(np.float32), "rb": RANDOM.standard_normal(70).astype(np.float32),
}  # fmt: skip
READ = [N("DequantizeLinear", ["x", "s", "z"], ["xf"])]
WINDOWS = [*READ, N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0)]
MATRIX = [*READ, N("DequantizeLinear", ["m", "ms", "mz"], ["mf"])]
TO_FLOATS = ("conv_integer_to_float", "matmul_integer_to_float")


def run(
    nodes: list[onnx.NodeProto], x: Array, output: str = "y", **constants: Array
) -> tuple[Array, list[str]]:
    """The result and the operators that make floats of sums of bytes. Without Winograd's algorithm, which on AVX2 may
    be faster in floats than sums of bytes are."""
    loaded = cenote.load(
        model(nodes, {"x": x}, {**CONSTANTS, **constants}, [output], {output: onnx.TensorProto.FLOAT}),
        precision="exact",
    )
    return np.asarray(loaded(x)), [op for op in steps(loaded) if op.startswith(TO_FLOATS)]


def within_four_roundings(y: Array, sums: Array, bias: Array | float) -> None:
    """`sums`: exact but for float64, of dequantised numbers; the bias is one rounding behind them."""
    bound = 3.01 * UNIT * np.abs(sums) + 1.01 * UNIT * np.abs(sums + bias)
    assert (np.abs(y - (sums + bias)) <= bound).all()


def convolution() -> Array:
    """The sums of the convolution in float64, times the scales' exact product."""
    centred = np.pad(X.astype(np.float64) - 121, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = torch.nn.functional.conv2d(
        torch.from_numpy(centred), torch.from_numpy(CONSTANTS["w"].astype(np.float64))
    )
    scales = np.float64(CONSTANTS["s"]) * CONSTANTS["ws"].astype(np.float64)
    return np.asarray(sums.numpy() * scales.reshape(1, -1, 1, 1))


def product() -> Array:
    sums = (ROWS.astype(np.float64) - 121) @ (CONSTANTS["m"].astype(np.float64) - 131)
    return np.asarray(sums * (np.float64(CONSTANTS["s"]) * np.float64(CONSTANTS["ms"])))


@pytest.mark.parametrize("bias", ["", "b"], ids=["alone", "bias"])
def test_a_convolution_of_bytes_gives_floats(bias: str) -> None:
    given = [name for name in ("xf", "wf", bias) if name]
    y, found = run([*WINDOWS, N("Conv", given, ["y"], pads=[1, 1, 1, 1])], X)
    assert found
    within_four_roundings(y, convolution(), CONSTANTS["b"].reshape(-1, 1, 1) if bias else 0.0)


@pytest.mark.parametrize(
    "last",
    [
        N("MatMul", ["xf", "mf"], ["y"]),
        N("Gemm", ["xf", "mf"], ["y"]),
        N("Gemm", ["xf", "mf", "rb"], ["y"]),
        N("Gemm", ["xf", "tf", "rb"], ["y"], transB=1),
    ],
    ids=["matmul", "gemm", "bias", "turned"],
)
def test_a_product_of_bytes_gives_floats(last: onnx.NodeProto) -> None:
    turned = {"tm": np.ascontiguousarray(CONSTANTS["m"].T)}
    y, found = run([*MATRIX, N("DequantizeLinear", ["tm", "ms", "mz"], ["tf"]), last], ROWS, **turned)
    assert found
    within_four_roundings(y, product(), CONSTANTS["rb"] if len(last.input) > 2 else 0.0)


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=["matrices", "batch"])
def test_a_product_of_two_computed_factors_gives_floats(batch: tuple[int, ...]) -> None:
    a, b = (RANDOM.integers(0, 256, (*batch, *shape)).astype(np.uint8) for shape in ((70, 240), (240, 61)))
    nodes = [*READ, N("DequantizeLinear", ["v", "ms", "mz"], ["vf"]), N("MatMul", ["xf", "vf"], ["y"])]
    loaded = cenote.load(model(nodes, {"x": a, "v": b}, CONSTANTS, ["y"], {"y": onnx.TensorProto.FLOAT}))
    assert [op for op in steps(loaded) if op.startswith(TO_FLOATS)]
    exact = (a.astype(np.float64) - 121) @ (b.astype(np.float64) - 131)
    within_four_roundings(
        np.asarray(loaded(a, b)), exact * (np.float64(CONSTANTS["s"]) * np.float64(CONSTANTS["ms"])), 0.0
    )


def test_a_bias_in_whole_numbers_is_added_as_floats() -> None:
    whole = {
        "ib": RANDOM.integers(-9000, 9000, 70).astype(np.int32),
        "is": np.float32(0.021) * CONSTANTS["ms"],
    }
    nodes = [*MATRIX, N("DequantizeLinear", ["ib", "is"], ["bf"]), N("Gemm", ["xf", "mf", "bf"], ["y"])]
    y, found = run(nodes, ROWS, **whole)
    assert found
    within_four_roundings(y, product(), whole["ib"].astype(np.float32) * whole["is"])


def test_an_activation_is_part_of_it() -> None:
    y, found = run([*MATRIX, N("MatMul", ["xf", "mf"], ["c"]), N("Relu", ["c"], ["y"])], ROWS)
    assert {*found} == {"matmul_integer_to_float(activation=relu)"}
    within_four_roundings(y, np.maximum(product(), 0), 0.0)


def test_a_result_is_read_as_floats_and_as_bytes() -> None:
    nodes = [
        *WINDOWS, N("Conv", ["xf", "wf", "b"], ["y"], pads=[1, 1, 1, 1]), N("QuantizeLinear", ["y", "t", "o"], ["q"]),
    ]  # fmt: skip
    kinds = {"y": onnx.TensorProto.FLOAT, "q": onnx.TensorProto.UINT8}
    loaded = cenote.load(model(nodes, {"x": X}, CONSTANTS, ["y", "q"], kinds), precision="exact")
    assert any(op.startswith(TO_FLOATS) for op in steps(loaded))
    y, q = (np.asarray(each) for each in loaded(X))
    within_four_roundings(y, convolution(), CONSTANTS["b"].reshape(-1, 1, 1))
    np.testing.assert_array_equal(q, np.clip(np.rint(y / np.float32(0.11)) + 7, 0, 255))


@pytest.mark.parametrize("name", ["s", "ms"])
@pytest.mark.parametrize("scale", [0.0, -0.5, 1e-45, 1e-30, np.inf, np.nan])
def test_scales_that_are_no_ordinary_factors_are_left_to_the_operators(name: str, scale: float) -> None:
    """The product of two small ones is no normal number."""
    odd = {"s": np.float32(1e-30), "ms": np.float32(1e-30), name: np.float32(scale)}
    y, found = run([*MATRIX, N("MatMul", ["xf", "mf"], ["y"])], ROWS, **odd)
    assert not found
    assert y.shape == (3, 70)


def test_sums_that_could_wrap_around_are_those_of_floats() -> None:
    rows, matrix = np.full((1, 66400), 255, np.uint8), np.full((66400, 8), 127, np.int8)
    nodes = [*READ, N("DequantizeLinear", ["m", "ms", "mz"], ["mf"]), N("MatMul", ["xf", "mf"], ["y"])]
    y, found = run(nodes, rows, m=matrix, mz=np.int8(0), z=np.uint8(0))
    assert not found
    np.testing.assert_allclose(y, 66400 * 255 * 127 * 0.021 * 0.0173, rtol=1e-5)


def test_a_bias_of_another_shape_is_added_apart() -> None:
    y, _ = run([*MATRIX, N("Gemm", ["xf", "mf", "one"], ["y"])], ROWS, one=np.full((3, 1), 2.5, np.float32))
    np.testing.assert_allclose(y, product() + 2.5, rtol=0, atol=1e-4)
