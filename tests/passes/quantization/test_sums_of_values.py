"""Products of two computed values between dequantisation and quantisation, as attention has them, run on bytes."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onnx import helper

import cenote
from cenote.core.types import Array
from cenote.passes.quantization import sums
from tests.passes.models import model, steps

N = helper.make_node
CONSTANTS: dict[str, Array] = {
    "as": np.float32(0.02),
    "bs": np.float32(0.03),
    "ys": np.float32(0.09),
    "az": np.uint8(121),
    "bz": np.uint8(250),
    "yz": np.uint8(131),
}
NODES = [
    N("DequantizeLinear", ["a", "as", "az"], ["af"]),
    N("DequantizeLinear", ["b", "bs", "bz"], ["bf"]),
    N("MatMul", ["af", "bf"], ["c"]),
    N("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
]
RANDOM = np.random.default_rng(27)


def random_bytes(shape: tuple[int, ...], dtype: type = np.uint8) -> Array:
    return RANDOM.integers(0, 256, shape).astype(np.uint8).view(dtype)


def product(a: Array, b: Array, constants: dict[str, Array]) -> Array:
    """Exact sums, and the rule by which they become bytes."""
    sums = (a.astype(np.int64) - int(constants["az"])) @ (b.astype(np.int64) - int(constants["bz"]))
    factor = constants["as"] * constants["bs"] / constants["ys"]
    limits = np.iinfo(constants["yz"].dtype)
    whole = np.rint(sums.astype(np.float32) * factor) + int(constants["yz"])
    return np.clip(whole, limits.min, limits.max).astype(constants["yz"].dtype)


def content_of(a: Array, b: Array, constants: dict[str, Array]) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype(constants["yz"].dtype)
    return model(NODES, {"a": a, "b": b}, constants, ["y"], {"y": kind})


@settings(max_examples=12, derandomize=True, phases=[Phase.generate])
@given(
    st.sampled_from([((1, 6), (1, 6)), ((2, 3), (2, 3)), ((2, 1), (1, 3)), ((), (2,)), ((3,), ()), ((), ())]),
    st.tuples(st.integers(1, 70), st.integers(1, 70), st.integers(1, 70)),
    st.tuples(*[st.sampled_from([np.uint8, np.int8])] * 3),
    st.tuples(*[st.sampled_from([0, 3, 127, 128, 255])] * 3),
)
def test_sums_are_exact(
    batch: tuple[tuple[int, ...], tuple[int, ...]],
    sizes: tuple[int, int, int],
    types: tuple[type, type, type],
    zeros: tuple[int, int, int],
) -> None:
    m, k, n = sizes
    a, b = random_bytes((*batch[0], m, k), types[0]), random_bytes((*batch[1], k, n), types[1])
    a.reshape(-1)[::3], b.reshape(-1)[::3] = np.iinfo(types[0]).max, np.iinfo(types[1]).min
    chosen = {
        f"{name}z": np.array(zero, np.uint8).view(dtype)
        for name, zero, dtype in zip("aby", zeros, types, strict=True)
    }
    # Results fill the range.
    constants = {**CONSTANTS, **chosen, "ys": np.float32(0.0006 * 100 * math.sqrt(k))}
    made = content_of(a, b, constants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_require_quicker", lambda *_: None)  # floats are, for the smallest ones
        loaded = cenote.load(made, threads=1)
    assert any(each.startswith("qlinear_matmul") for each in steps(loaded)), steps(loaded)
    got = np.asarray(loaded(a, b))
    np.testing.assert_array_equal(got, product(a, b, constants))
    apart = onnxruntime.SessionOptions()
    apart.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (floats,) = onnxruntime.InferenceSession(made, apart).run(None, {"a": a, "b": b})
    # Sums of floats are rounded.
    assert np.abs(floats.astype(int) - got).max(initial=0) <= 1


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_factor_may_be_a_constant_of_several_matrices(side: str) -> None:
    a, b = random_bytes((2, 3, 70, 81)), random_bytes((2, 3, 81, 61))
    held, given_ = ({"a": a}, {"b": b}) if side == "a" else ({"b": b}, {"a": a})
    loaded = cenote.load(model(NODES, given_, {**CONSTANTS, **held}, ["y"], {"y": onnx.TensorProto.UINT8}))
    assert any(each.startswith("qlinear_matmul") for each in steps(loaded)), steps(loaded)
    np.testing.assert_array_equal(np.asarray(loaded(*given_.values())), product(a, b, CONSTANTS))


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_or_on_what_is_known_of_the_sizes(threads: int) -> None:
    a, b = random_bytes((2, 3, 70, 81)), random_bytes((2, 3, 81, 61))
    content = onnx.load_from_string(content_of(a, b, CONSTANTS))
    for value, axis, name in ((0, 0, "batch"), (1, 0, "batch"), (0, 2, "rows"), (1, 3, "columns")):
        content.graph.input[value].type.tensor_type.shape.dim[axis].dim_param = name
    opened = cenote.load(content.SerializeToString(), threads=threads)
    np.testing.assert_array_equal(np.asarray(opened(a, b)), product(a, b, CONSTANTS))
    assert any(each.startswith("qlinear_matmul") for each in steps(opened)), steps(opened)
    part = np.ascontiguousarray(a[:1, :, :5]), np.ascontiguousarray(b[:1, :, :, :17])
    np.testing.assert_array_equal(np.asarray(opened(*part)), product(*part, CONSTANTS))


@pytest.mark.parametrize(
    "change",
    [
        {"as": np.float32(0)},
        {"bs": np.float32(-0.1)},
        {"bs": np.float32(np.nan)},
        {"ys": np.float32(1e-45)},
        {"as": np.float32(1e30), "bs": np.float32(1e30)},
        {"bs": np.full(61, 0.03, np.float32), "bz": np.full(61, 7, np.uint8)},
    ],
    ids=["zero", "negative", "nan", "tiny", "overflow", "per column"],
)
def test_scales_that_are_no_ordinary_factors_are_left_to_the_operators(change: dict[str, Array]) -> None:
    a, b = random_bytes((70, 240)), random_bytes((240, 61))
    content = content_of(a, b, {**CONSTANTS, **change})
    loaded = cenote.load(content)
    assert not any(each.startswith("qlinear_matmul") for each in steps(loaded))
    apart = cenote.load(model(NODES, {"a": a, "b": b}, {**CONSTANTS, **change}, ["y", "c"], {
        "y": onnx.TensorProto.UINT8, "c": onnx.TensorProto.FLOAT}))  # fmt: skip
    np.testing.assert_array_equal(np.asarray(loaded(a, b)), np.asarray(apart(a, b)[0]))
