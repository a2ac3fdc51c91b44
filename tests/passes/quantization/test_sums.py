"""Convolutions between dequantisation and quantisation run on bytes; their results are those of the floats but for
rounding, and others stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.reference
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(25)
X = RANDOM.standard_normal((1, 32, 10, 10)).astype(np.float32)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02), "z": np.uint8(121), "t": np.float32(0.11), "o": np.uint8(7),
    "w": RANDOM.integers(-127, 128, (48, 32, 3, 3)).astype(np.int8),
    "ws": (RANDOM.random(48) * 0.004 + 0.001).astype(np.float32), "wz": np.zeros(48, np.int8),
    "b": RANDOM.integers(-900, 900, 48).astype(np.int32),
}  # fmt: skip
CONSTANTS["bs"] = CONSTANTS["s"] * CONSTANTS["ws"]


def nodes(
    between: list[onnx.NodeProto], last: str = "c", bias: str = "bias", **more: object
) -> list[onnx.NodeProto]:
    """x quantised and back, a convolution, what is between, and the result quantised and back."""
    return [
        N("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        N("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
        N("DequantizeLinear", ["b", "bs"], ["bias"], axis=0),
        N("Conv", ["xf", "wf", bias] if bias else ["xf", "wf"], ["c"], pads=[1, 1, 1, 1], **more),
        *between,
        N("QuantizeLinear", [last, "t", "o"], ["yq"]),
        N("DequantizeLinear", ["yq", "t", "o"], ["y"]),
    ]


def run(
    made: list[onnx.NodeProto], constants: Mapping[str, Array] = CONSTANTS
) -> tuple[Array, Array, list[str]]:
    """The result, that of the references node by node, and the operators of the steps."""
    content = model(made, {"x": X}, constants, ["y"])
    loaded = cenote.load(content)
    return np.asarray(loaded(X)), by_onnx(content)[0], steps(loaded)


def by_onnx(content: bytes) -> list[Array]:
    """The outputs by ONNX's own reference, which has the quantisation of opset 21."""
    read = onnx.load_from_string(content)
    read.opset_import[0].version = 21
    found: list[Array] = onnx.reference.ReferenceEvaluator(read).run(None, {"x": X})
    return found


def close(y: Array, want: Array) -> None:
    """Sums in float32 round once in a while to the other neighbour: one step of the scale, seldom."""
    apart = np.abs(y - want) / CONSTANTS["t"]
    assert apart.max() <= 1.001
    assert (apart > 0.5).mean() < 0.01


CLIP: dict[str, Array] = {**CONSTANTS, "low": np.float32(-0.5), "high": np.float32(6.0)}


@pytest.mark.parametrize(
    ("between", "last"),
    [
        ([], "c"),
        ([N("Relu", ["c"], ["r"])], "r"),
        ([N("Clip", ["c", "low", "high"], ["r"])], "r"),
    ],
    ids=["alone", "relu", "clip"],
)
def test_a_convolution_between_quantisations_runs_on_bytes(between: list[onnx.NodeProto], last: str) -> None:
    y, want, found = run(nodes(between, last), CLIP)
    assert any(op.startswith("qlinear_conv") for op in found), found
    assert not any(op.startswith("conv(") for op in found), found
    close(y, want)


@pytest.mark.parametrize(
    ("change", "constants"),
    [
        ("a float bias", {"bias_of_its_own": np.linspace(-1, 1, 48, dtype=np.float32)}),
        ("a bias of another scale", {"bs": np.full(48, 0.5, np.float32)}),
        ("an activation that is no bound", {}),
    ],
)
def test_other_convolutions_give_floats(change: str, constants: dict[str, Array]) -> None:
    if change == "a float bias":
        made = nodes([], bias="bias_of_its_own")
    elif change == "an activation that is no bound":
        made = nodes([N("Tanh", ["c"], ["r"])], "r")
    else:
        made = nodes([])
    y, want, found = run(made, {**CONSTANTS, **constants})
    assert not any(op.startswith("qlinear_conv") for op in found), found
    close(y, want)


def test_scales_per_channel_are_not_taken_for_scales_per_filter() -> None:
    """Of a convolution with as many filters as channels the shapes do not tell."""
    made = nodes([], bias="")
    made[2] = N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=1)
    square = {"w": CONSTANTS["w"][:32], "ws": CONSTANTS["ws"][:32], "wz": CONSTANTS["wz"][:32]}
    y, want, found = run([made[0], made[1], made[2], *made[4:]], {**CONSTANTS, **square})
    assert not any(op.startswith("qlinear_conv") for op in found), found
    close(y, want)


@pytest.mark.parametrize("scale", [0.0, -0.11, np.nan, np.inf, 1e-45])
@pytest.mark.parametrize("name", ["s", "t"])
def test_a_scale_that_is_no_ordinary_factor_is_left_to_the_operators(name: str, scale: float) -> None:
    """Bounds of Relu in units of such a scale are not numbers, or the wrong way round."""
    constants = {**CONSTANTS, name: np.full_like(CONSTANTS[name], scale)}
    constants["bs"] = constants["s"] * constants["ws"]
    made = nodes([N("Relu", ["c"], ["r"])], "r")
    loaded = cenote.load(model(made, {"x": X}, constants, ["y"]))
    apart = cenote.load(model(made, {"x": X}, constants, ["y", "c"]))  # c is read: no convolution of bytes
    assert not any(op.startswith("qlinear_conv") for op in steps(loaded))
    np.testing.assert_array_equal(np.asarray(loaded(X)), np.asarray(apart(X)[0]))


def test_a_float_that_is_read_elsewhere_is_there() -> None:
    """The convolution's own result is an output, too: then it gives floats."""
    made = nodes([])
    content = model(made, {"x": X}, CONSTANTS, ["y", "c"])
    y, c = cenote.load(content)(X)
    want = by_onnx(content)
    close(np.asarray(y), want[0])
    np.testing.assert_allclose(c, want[1], rtol=0, atol=2e-5 * np.abs(want[1]).max())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_threads_or_on_what_is_known_of_the_sizes(threads: int) -> None:
    content = onnx.load_from_string(model(nodes([N("Relu", ["c"], ["r"])], "r"), {"x": X}, CONSTANTS, ["y"]))
    fixed = np.asarray(cenote.load(content.SerializeToString(), threads=1)(X))
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        content.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    opened = cenote.load(content.SerializeToString(), threads=threads)
    np.testing.assert_array_equal(np.asarray(opened(X)), fixed)
    part = np.ascontiguousarray(X[:, :, :7, :9])
    assert np.asarray(opened(part)).shape == (1, 48, 7, 9)


def test_weights_stay_bytes_in_plan_files(tmp_path: object) -> None:
    content = model(nodes([]), {"x": X}, CONSTANTS, ["y"])
    loaded = cenote.load(content)
    want = np.asarray(loaded(X))
    path = f"{tmp_path}/m.plan"
    loaded.save(path)
    np.testing.assert_array_equal(np.asarray(cenote.load(path)(X)), want)


@pytest.mark.parametrize("between", [[], [N("Relu", ["c"], ["r"])]], ids=["alone", "relu"])
def test_a_transposed_convolution_between_quantisations_runs_on_bytes(between: list[onnx.NodeProto]) -> None:
    made = nodes(between, "r" if between else "c")
    made[2] = N("DequantizeLinear", ["v", "ws", "wz"], ["wf"], axis=1)
    made[4] = N("ConvTranspose", ["xf", "wf", "bias"], ["c"], strides=[2, 2], kernel_shape=[2, 2])
    weights = RANDOM.integers(-127, 128, (32, 48, 2, 2)).astype(np.int8)
    y, want, found = run(made, {**CONSTANTS, "v": weights})
    assert any(op.startswith("qlinear_conv_transpose") for op in found), found
    close(y, want)
