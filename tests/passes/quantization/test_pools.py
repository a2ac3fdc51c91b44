"""Means of whole maps between dequantisation and quantisation are means of bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps
from tests.passes.quantization.oracle import by_onnx, check

N = helper.make_node
Q = np.random.default_rng(3).integers(0, 256, (2, 21, 7, 9)).astype(np.uint8)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.047),
    "z": np.uint8(121),
    "t": np.float32(0.0031),
    "o": np.uint8(9),
    "two": np.float32([0.1, 0.2]),
}
NODES = [
    N("DequantizeLinear", ["q", "s", "z"], ["x"]),
    N("GlobalAveragePool", ["x"], ["m"]),
    N("QuantizeLinear", ["m", "t", "o"], ["y"]),
]


@pytest.mark.parametrize("signed", [False, True])
def test_a_mean_of_bytes_is_that_of_their_floats(signed: bool) -> None:
    """No mean of 63 numbers lies in the middle between two levels, so that every bit is the reference's."""
    constants = {**CONSTANTS, **({"z": np.int8(-7), "o": np.int8(3)} if signed else {})}
    found = check(NODES, {"q": Q.view(np.int8) if signed else Q}, constants, ["y"])
    assert set(found) == {"qlinear_global_average_pool"}


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_that_is_written_as_a_reduction_is_one_of_bytes(keepdims: int) -> None:
    reduction = N("ReduceMean", ["x", "axes"], ["m"], keepdims=keepdims)
    found = check([NODES[0], reduction, NODES[2]], {"q": Q}, {**CONSTANTS, "axes": np.array([2, 3])}, ["y"])
    assert "qlinear_global_average_pool" in found
    assert "dequantize_linear" not in found


def test_a_mean_of_a_normalisation_stays_a_reduction() -> None:
    nodes = [
        NODES[0],
        N("ReduceMean", ["x", "axes"], ["c"]),
        N("Sub", ["x", "c"], ["m"]),
        N("QuantizeLinear", ["c", "t", "o"], ["mean"]),
        NODES[2],
    ]
    kinds = {"mean": TensorProto.UINT8}
    content = model(nodes, {"q": Q}, {**CONSTANTS, "axes": np.array([2, 3])}, ["y", "mean"], kinds)
    assert "qlinear_global_average_pool" not in steps(cenote.load(content, threads=1))


def test_a_mean_that_is_read_as_floats_stays_one() -> None:
    content = model(NODES, {"q": Q}, CONSTANTS, ["y", "m"], {"m": TensorProto.FLOAT})
    assert "qlinear_global_average_pool" not in steps(cenote.load(content, threads=1))


@pytest.mark.parametrize("scale", [0.0, -0.11, np.nan, np.inf])
@pytest.mark.parametrize("name", ["s", "t"])
def test_a_mean_by_a_scale_that_is_no_ordinary_factor_is_left_to_the_operators(
    name: str, scale: float
) -> None:
    content = model(NODES, {"q": Q}, {**CONSTANTS, name: np.float32(scale)}, ["y"])
    assert "qlinear_global_average_pool" not in steps(cenote.load(content, threads=1))


def test_open_sizes_give_the_bits_of_fixed_ones() -> None:
    content = onnx.load_from_string(model(NODES, {"q": Q}, CONSTANTS, ["y"]))
    fixed = np.asarray(cenote.load(content.SerializeToString(), threads=1)(Q))
    for axis, name in enumerate("nchw"):
        content.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    opened = cenote.load(content.SerializeToString(), threads=2)
    np.testing.assert_array_equal(np.asarray(opened(Q)), fixed)
    np.testing.assert_array_equal(np.asarray(opened(Q[:1])), fixed[:1])


@pytest.mark.parametrize("zero", [121, 0])
@pytest.mark.parametrize(
    ("attributes", "is_convolution"),
    [
        ({"kernel_shape": [3, 3]}, True),
        ({"kernel_shape": [3, 1], "strides": [2, 1]}, True),
        ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, True),
        ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, False),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, False),
    ],
    ids=["plain", "two apart", "padding counts", "padding does not count", "windows that overhang"],
)
def test_a_mean_of_windows_is_a_convolution(
    attributes: dict[str, object], is_convolution: bool, zero: int
) -> None:
    """No mean of 3 or 9 numbers lies in the middle between two levels."""
    pool = N("AveragePool", ["x"], ["m"], **attributes)
    constants = {**CONSTANTS, "z": np.uint8(zero), "t": np.float32(0.0473)}
    q = np.random.default_rng(3).integers(0, 256, (1, 32, 9, 11)).astype(np.uint8)
    found = check([NODES[0], pool, NODES[2]], {"q": q}, constants, ["y"])
    assert any(op.startswith("qlinear_conv") for op in found) == is_convolution, found


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"},
    ],
    ids=["padding does not count", "windows that overhang", "SAME"],
)
def test_windows_of_several_divisors_are_means_of_whole_numbers(
    attributes: dict[str, object], signed: bool
) -> None:
    kind, zero = (np.int8, -6) if signed else (np.uint8, 120)
    constants = {"s": np.float32(0.5), "z": kind(zero), "t": np.float32(0.5), "o": kind(zero)}
    q = np.random.default_rng(3).integers(0, 256, (1, 32, 9, 11)).astype(np.uint8).view(kind)
    pool = N("AveragePool", ["x"], ["m"], **attributes)
    content = model([NODES[0], pool, NODES[2]], {"q": q}, constants, ["y"])
    loaded = cenote.load(content, threads=1)
    found = steps(loaded)
    assert any(op.startswith("average_pool") for op in found)
    assert not any("quantize_linear" in op for op in found)
    # A scale of one half rounds nothing on the way, so that means in the middle are seen.
    np.testing.assert_array_equal(np.asarray(loaded(q)), by_onnx(content, {"q": q})[0])


@pytest.mark.parametrize(
    "change", [{"t": np.float32(0.1)}, {"o": np.uint8(122)}, {"z": np.uint8(121), "o": np.uint8(121)}]
)
def test_such_windows_stay_in_floats_at_another_scale_or_an_odd_zero_point(change: dict[str, Array]) -> None:
    constants = {"s": np.float32(0.5), "z": np.uint8(120), "t": np.float32(0.5), "o": np.uint8(120), **change}
    pool = N("AveragePool", ["x"], ["m"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    found = check([NODES[0], pool, NODES[2]], {"q": Q}, constants, ["y"])
    assert any("dequantize_linear" in op for op in found)
