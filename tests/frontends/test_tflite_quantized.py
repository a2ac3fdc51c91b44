"""Full-integer models of TensorFlow Lite run on bytes: sums in whole numbers, rounded once from float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.frontends.tflite import schema
from tests.frontends.records import lite_bytes, lite_record
from tests.passes.models import steps

torch = pytest.importorskip("torch")

CODES = {name: number for number, name in schema.NAMES.items()}
TYPES = {name: number for number, name in schema.TYPES.items()}
RANDOM = np.random.default_rng(31)
X_SCALE, X_ZERO = np.float32(0.05), -3
Y_SCALE, Y_ZERO = np.float32(0.21), -100


def tensor(name: str, shape: tuple[int, ...], dtype: str, buffer: int, **quantization: Any) -> dict[str, Any]:
    return {
        "name": name,
        "shape": list(shape),
        "type": TYPES[dtype],
        "buffer": buffer,
        "quantization": quantization,
    }


def model(
    op: str, x: Array, w: Array, bias: Array, axis: int, y: tuple[int, ...], scales: Array, **options: Any
) -> bytes:
    """A model of one layer with weights along whose `axis` there are these scales."""
    zeros = [0] * len(scales)
    tensors = [
        tensor("x", x.shape, "int8", 0, scale=[float(X_SCALE)], zero_point=[X_ZERO]),
        tensor("w", w.shape, "int8", 1, scale=scales.tolist(), zero_point=zeros, quantized_dimension=axis),
        tensor("b", bias.shape, "int32", 2, scale=(X_SCALE * scales).tolist(), zero_point=zeros),
        tensor("y", y, "int8", 0, scale=[float(Y_SCALE)], zero_point=[Y_ZERO]),
    ]
    operator = {"opcode_index": 0, "inputs": [0, 1, 2], "outputs": [3], "builtin_options": options}
    graph = {"tensors": tensors, "inputs": [0], "outputs": [3], "operators": [operator]}
    buffers = [{}, {"data": w.tobytes()}, {"data": bias.tobytes()}]
    code = {"deprecated_builtin_code": CODES[op], "builtin_code": CODES[op]}
    return lite_bytes({"version": 3, "operator_codes": [code], "subgraphs": [graph], "buffers": buffers})


def rounded(sums: Array, scales: Array, low: int = -128, high: int = 127) -> Array:
    """Bytes of sums with filters last."""
    numbers = np.rint(sums.astype(np.float32) * (X_SCALE * scales / Y_SCALE)) + Y_ZERO
    return np.clip(numbers, low, high).astype(np.int8)


def convolved(x: Array, w: Array, bias: Array, stride: int, groups: int) -> Array:
    """Sums (n, h, w, filters) of SAME windows of 3x3; w is (filters, channels, h, w)."""
    centred = torch.from_numpy(np.moveaxis(x, 3, 1).astype(np.float64) - X_ZERO)
    over = (x.shape[1] + stride - 1) // stride * stride - stride + 3 - x.shape[1]
    pads = (over // 2, over - over // 2)
    padded = torch.nn.functional.pad(centred, (*pads, *pads))
    y = torch.conv2d(padded, torch.from_numpy(w.astype(np.float64)), torch.from_numpy(bias.astype(np.float64)), stride,
                     groups=groups)  # fmt: skip
    return np.moveaxis(y.numpy(), 1, 3).astype(np.int64)


def bytes_of(*shape: int) -> Array:
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


def run(content: bytes, x: Array, op: str) -> Array:
    """The answer; the layer is one of bytes."""
    loaded = cenote.load(content, format="tflite", threads=1)
    assert any(step.startswith(op) for step in steps(loaded)), steps(loaded)
    return np.asarray(loaded(x))


@pytest.mark.parametrize(("activation", "low"), [("", -128), ("RELU", Y_ZERO), ("RELU6", Y_ZERO)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_with_scales_per_filter(activation: str, low: int, stride: int) -> None:
    x, w = bytes_of(1, 12, 12, 32), bytes_of(48, 3, 3, 32)
    scales = RANDOM.uniform(0.0005, 0.002, 48).astype(np.float32)
    bias = RANDOM.integers(-3000, 3000, 48).astype(np.int32)
    (number,) = (key for key, name in schema.ACTIVATIONS.items() if name == activation)
    side = 12 // stride
    content = model("CONV_2D", x, w, bias, 0, (1, side, side, 48), scales, stride_w=stride, stride_h=stride,
                    activation=number)  # fmt: skip
    high = int(np.rint(np.float32(6) / Y_SCALE) + Y_ZERO) if activation == "RELU6" else 127
    want = rounded(convolved(x, w.transpose(0, 3, 1, 2), bias, stride, 1), scales, low, high)
    np.testing.assert_array_equal(run(content, x, "qlinear_conv"), want)


def test_a_depthwise_convolution_whose_scales_lie_along_the_last_axis() -> None:
    x, w = bytes_of(1, 16, 16, 64), bytes_of(1, 3, 3, 64)
    scales = RANDOM.uniform(0.005, 0.02, 64).astype(np.float32)
    bias = RANDOM.integers(-900, 900, 64).astype(np.int32)
    content = model("DEPTHWISE_CONV_2D", x, w, bias, 3, (1, 16, 16, 64), scales, stride_w=1, stride_h=1,
                    depth_multiplier=1)  # fmt: skip
    want = rounded(convolved(x, w.transpose(3, 0, 1, 2), bias, 1, 64), scales)
    np.testing.assert_array_equal(run(content, x, "qlinear_conv"), want)


@pytest.mark.parametrize("many", [False, True])
def test_a_linear_layer(many: bool) -> None:
    x, w = bytes_of(5, 200), bytes_of(96, 200)
    scales = RANDOM.uniform(0.0005, 0.002, 96 if many else 1).astype(np.float32)
    bias = RANDOM.integers(-3000, 3000, 96).astype(np.int32)
    content = model("FULLY_CONNECTED", x, w, bias, 0, (5, 96), scales)
    sums = (x.astype(np.int64) - X_ZERO) @ w.astype(np.int64).T + bias
    np.testing.assert_array_equal(run(content, x, "qlinear_matmul"), rounded(sums, scales))


def test_scales_along_an_axis_that_is_no_filter_are_computed_as_floats() -> None:
    """As many filters as channels: shapes do not tell the axes apart."""
    x, w = bytes_of(1, 12, 12, 32), bytes_of(32, 3, 3, 32)
    scales = RANDOM.uniform(0.0005, 0.002, 32).astype(np.float32)
    bias = np.zeros(32, np.int32)
    content = model("CONV_2D", x, w, bias, 3, (1, 12, 12, 32), scales, stride_w=1, stride_h=1)
    loaded = cenote.load(content, format="tflite", threads=1)
    assert not any(step.startswith("qlinear_conv") for step in steps(loaded))
    weights = w.astype(np.float64) * scales
    sums = convolved(x, weights.transpose(0, 3, 1, 2) * 2.0**40, bias, 1, 1) / 2.0**40
    want = np.clip(np.rint(sums * float(X_SCALE) / float(Y_SCALE)) + Y_ZERO, -128, 127)
    assert np.abs(np.asarray(loaded(x)) - want).max() <= 1


def test_a_zero_point_out_of_range_is_refused() -> None:
    x, w = bytes_of(5, 20), bytes_of(9, 20)
    content = model("FULLY_CONNECTED", x, w, np.zeros(9, np.int32), 0, (5, 9), np.ones(1, np.float32))
    record = lite_record(content)
    record["subgraphs"][0]["tensors"][1]["quantization"]["zero_point"] = [200]
    with pytest.raises(CenoteError, match="zero point out of the range of int8"):
        cenote.load(lite_bytes(record), format="tflite")


def chained(op: str, x: Array, y: tuple[int, ...], inputs: list[dict[str, Any]], **options: Any) -> bytes:
    """A model of one layer whose input and output have one scale."""
    same = {"scale": [float(X_SCALE)], "zero_point": [X_ZERO]}
    buffers: list[dict[str, Any]] = [{}]
    tensors = [tensor("x", x.shape, "int8", 0, **same)]
    for number, each in enumerate(inputs):
        buffers.append({"data": each.pop("content").tobytes()})
        tensors.append(tensor(f"w{number}", buffer=number + 1, **each))
    tensors.append(tensor("y", y, "int8", 0, **same))
    last = len(tensors) - 1
    operator = {"opcode_index": 0, "inputs": [*range(last)], "outputs": [last], "builtin_options": options}
    graph = {"tensors": tensors, "inputs": [0], "outputs": [last], "operators": [operator]}
    code = {"deprecated_builtin_code": CODES[op], "builtin_code": CODES[op]}
    return lite_bytes({"version": 3, "operator_codes": [code], "subgraphs": [graph], "buffers": buffers})


@pytest.mark.parametrize(("padding", "window", "stride"), [(1, 2, 2), (0, 3, 1), (0, 2, 2), (1, 8, 8)])
def test_a_mean_is_that_of_the_stored_bytes(padding: int, window: int, stride: int) -> None:
    """Halves are rounded away from zero; `padding` 0 is SAME, which does not count."""
    x = RANDOM.integers(-128, 128, (1, 8, 9, 16)).astype(np.int8)
    height, width = (-(-size // stride) if not padding else (size - window) // stride + 1 for size in (8, 9))
    options = {"padding": padding, "stride_w": stride, "stride_h": stride}
    options |= {"filter_width": window, "filter_height": window}
    loaded = cenote.load(
        chained("AVERAGE_POOL_2D", x, (1, height, width, 16), [], **options), format="tflite"
    )
    y = np.asarray(loaded(x))
    assert not any("quantize_linear" in op or "floor" in op for op in steps(loaded)), steps(loaded)
    total = [max((out - 1) * stride + window - size, 0) for out, size in ((height, 8), (width, 9))]
    begin = [each // 2 if not padding else 0 for each in total]
    for h in range(height):
        for w in range(width):
            rows, columns = (max(at * stride - first, 0) for at, first in ((h, begin[0]), (w, begin[1])))
            ends = h * stride - begin[0] + window, w * stride - begin[1] + window
            taps = x[0, rows : ends[0], columns : ends[1]].reshape(-1, 16).astype(np.float64)
            mean = taps.mean(0)
            np.testing.assert_array_equal(y[0, h, w], np.sign(mean) * np.floor(np.abs(mean) + 0.5))


@pytest.mark.parametrize("keep", [False, True])
def test_a_linear_layer_on_more_axes_runs_on_bytes(keep: bool) -> None:
    x = RANDOM.integers(-128, 128, (2, 40, 64)).astype(np.int8)
    w = RANDOM.integers(-127, 128, (96, 64)).astype(np.int8)
    scale = np.float32(0.02)
    bias = RANDOM.integers(-900, 900, 96).astype(np.int32)
    inputs: list[dict[str, Any]] = [
        {"content": w, "shape": (96, 64), "dtype": "int8", "scale": [float(scale)], "zero_point": [0]},
        {
            "content": bias,
            "shape": (96,),
            "dtype": "int32",
            "scale": [float(X_SCALE * scale)],
            "zero_point": [0],
        },
    ]
    shape = (2, 40, 96) if keep else (80, 96)
    content = chained("FULLY_CONNECTED", x, shape, inputs, keep_num_dims=keep)
    loaded = cenote.load(content, format="tflite")
    assert any(op.startswith("qlinear_matmul") for op in steps(loaded)), steps(loaded)
    sums = (x.reshape(-1, 64).astype(np.int64) - X_ZERO) @ w.T.astype(np.int64) + bias
    want = np.clip(np.rint(sums.astype(np.float32) * (X_SCALE * scale / X_SCALE)) + X_ZERO, -128, 127)
    np.testing.assert_array_equal(np.asarray(loaded(x)), want.astype(np.int8).reshape(shape))
