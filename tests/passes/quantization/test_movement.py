"""Movement between dequantisation and quantisation is movement of bytes; its results keep every bit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import NodeProto, helper

import cenote
from cenote.codegen import jit
from cenote.core.target import PAIRS
from cenote.core.types import Array
from tests.passes.models import model, steps
from tests.passes.quantization.oracle import by_onnx, check

N = helper.make_node
RANDOM = np.random.default_rng(5)
Q = RANDOM.integers(0, 256, (1, 48, 6, 10)).astype(np.uint8)
P = RANDOM.integers(0, 256, (1, 32, 6, 10)).astype(np.uint8)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.047),
    "z": np.uint8(121),
    "t": np.float32(0.031),
    "o": np.uint8(9),
    "value": np.float32(-1.3),
    "shape": np.int64([1, 6, -1]),
    "pads": np.int64([0, 0, 1, 2, 0, 0, 0, 3]),
    "scales": np.float32([1, 1, 2, 3]),
    "from": np.int64([1]),
    "to": np.int64([9]),
    "axis": np.int64([3]),
    "by": np.int64([2]),
    "sizes": np.int64([16, 32]),
    "places": np.int64([[3, 0], [-1, 5]]),
    "wide": np.int64([3, 48, 6, 10]),
    "w": RANDOM.random((1, 16, 6, 10), np.float32),
}
CONSTANTS["one"] = np.int64([1])

MOVES: dict[str, list[NodeProto]] = {
    "reshape": [N("Reshape", ["x", "shape"], ["r"])],
    "flatten": [N("Flatten", ["x"], ["r"])],
    "transpose": [N("Transpose", ["x"], ["r"], perm=[0, 2, 3, 1])],
    "slice": [N("Slice", ["x", "from", "to", "axis", "by"], ["r"])],
    "gather": [N("Gather", ["x", "places"], ["r"], axis=2)],
    "expand": [N("Expand", ["x", "wide"], ["r"])],
    "depth to space": [N("DepthToSpace", ["x"], ["r"], blocksize=2)],
    "space to depth": [N("SpaceToDepth", ["x"], ["r"], blocksize=2)],
    "nearest": [N("Resize", ["x", "", "scales"], ["r"], coordinate_transformation_mode="asymmetric")],
    "pad by zero": [N("Pad", ["x", "pads"], ["r"])],
    "pad by a number": [N("Pad", ["x", "pads", "value"], ["r"])],
    "pad by a mirror": [N("Pad", ["x", "pads"], ["r"], mode="reflect")],
    "maximum": [N("MaxPool", ["x"], ["r"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
    "maximum of all": [N("GlobalMaxPool", ["x"], ["r"])],
    "split": [N("Split", ["x", "sizes"], ["other", "r"], axis=1)],
    "several": [
        N("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
        N("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        N("Unsqueeze", ["b", "one"], ["c"]),
        N("Squeeze", ["c", "one"], ["r"]),
    ],
}


def between(*nodes: NodeProto, scale: tuple[str, str]) -> list[NodeProto]:
    """q dequantised to x, p to v, nodes, and their value r quantised to y."""
    return [
        N("DequantizeLinear", ["q", "s", "z"], ["x"]),
        N("DequantizeLinear", ["p", "t", "o"], ["v"]),
        *nodes,
        N("QuantizeLinear", ["r", *scale], ["y"]),
    ]


def floats(found: list[str]) -> list[str]:
    """The steps that convert to floats or back."""
    return [op for op in found if "quantize" in op]


@pytest.mark.parametrize("name", [*MOVES])
@pytest.mark.parametrize("signed", [False, True])
def test_bytes_are_moved(name: str, signed: bool) -> None:
    """At the same scale there is nothing else to do, at another one a table."""
    for scale in (("s", "z"), ("t", "o")):
        constants, q = dict(CONSTANTS), Q
        if signed:
            constants |= {"z": np.int8(-7), "o": np.int8(100)}
            q = Q.view(np.int8)
        found = check(between(*MOVES[name], scale=scale)[::1], {"q": q, "p": q}, constants, ["y"])
        assert not floats(found), found
        assert sum(op == "byte_table" for op in found) == (scale == ("t", "o")), found


@pytest.mark.parametrize("axis", [1, 2])
def test_a_concat_of_other_scales_is_one_of_bytes(axis: int) -> None:
    """The input of the result's own scale is taken as it is; a constant is quantised when the model is loaded."""
    q, p = (Q, P) if axis == 1 else (Q[:, :32], P)
    joined = N("Concat", ["x", "v", "w"] if axis == 1 else ["x", "v"], ["r"], axis=axis)
    found = check(between(joined, scale=("s", "z")), {"q": q, "p": p}, CONSTANTS, ["y"])
    assert not floats(found), found
    assert found.count("byte_table") == 1


def test_a_part_is_written_into_the_concat_by_its_table() -> None:
    """Between tables, in maps that lie in blocks of channels, nothing is copied."""
    nodes = between(
        N("MaxPool", ["x"], ["a"], kernel_shape=[3, 3]),
        N("MaxPool", ["v"], ["b"], kernel_shape=[3, 3]),
        N("Concat", ["a", "b"], ["c"], axis=1),
        N("MaxPool", ["c"], ["r"], kernel_shape=[2, 2]),
        scale=("t", "o"),
    )
    found = check(nodes, {"q": Q, "p": P}, CONSTANTS, ["y"])
    assert not floats(found), found


@pytest.mark.parametrize("scale", [0.0, -0.11, np.nan, np.inf])
def test_maxima_by_scales_that_reverse_their_order_stay_maxima_of_floats(scale: float) -> None:
    constants = {**CONSTANTS, "s": np.float32(scale)}
    content = model(between(*MOVES["maximum"], scale=("t", "o")), {"q": Q, "p": P}, constants, ["y"])
    loaded = cenote.load(content, threads=1)
    assert any("dequantize" in op for op in steps(loaded))
    if np.isfinite(scale):  # NumPy's maximum of NaN in ONNX's reference is not ONNX Runtime's
        np.testing.assert_array_equal(np.asarray(loaded(Q, P)), by_onnx(content, {"q": Q, "p": P})[0])


def test_what_is_read_as_floats_is_there_as_floats() -> None:
    nodes = between(*MOVES["transpose"], scale=("t", "o"))
    nodes += [N("DequantizeLinear", ["y", "t", "o"], ["yf"]), N("Exp", ["r"], ["e"])]
    content = model(nodes, {"f": Q.astype(np.float32)}, CONSTANTS, ["e", "yf"])
    first = [N("QuantizeLinear", ["f", "s", "z"], ["q"]), N("QuantizeLinear", ["f", "t", "o"], ["p"])]
    content = model([*first, *nodes], {"f": (Q * np.float32(0.04) - 4)}, CONSTANTS, ["r", "yf"])
    loaded = cenote.load(content, threads=1)
    f = Q * np.float32(0.04) - 4
    for y, want in zip(loaded(f), by_onnx(content, {"f": f}), strict=True):
        np.testing.assert_array_equal(y, want)


def test_padding_by_a_computed_number_stays_padding_of_floats() -> None:
    """The number is not known when zeros of bytes would take its place."""
    nodes = between(N("Abs", ["n"], ["number"]), N("Pad", ["x", "pads", "number"], ["r"]), scale=("t", "o"))
    check(nodes, {"q": Q, "p": P, "n": np.array(-1.7, np.float32)}, CONSTANTS, ["y"])


@pytest.mark.parametrize("name", ["w.quantized", "y.zero", "c.x_zero"])
def test_constants_that_are_made_are_not_called_as_inputs(name: str) -> None:
    nodes = between(N("Concat", ["x", "v", "w"], ["r"], axis=1), scale=("s", "z"))
    nodes[-1].output[0] = "i"
    nodes += [
        N("DequantizeLinear", ["i", "s", "z"], ["d"]),
        N("DequantizeLinear", ["k", "t"], ["f"]),
        N("Conv", ["d", "f"], ["c"]),
        N("QuantizeLinear", ["c", "t", "o"], ["y"]),
        N("Neg", [name], ["other"]),
    ]
    constants = {**CONSTANTS, "k": RANDOM.integers(-128, 128, (16, 96, 1, 1)).astype(np.int8)}
    given = {"q": Q, "p": P, name: np.float32([1, 2])}
    check(nodes, given, constants, ["y", "other"], other=onnx.TensorProto.FLOAT)


def test_a_float_is_quantised_before_it_is_turned() -> None:
    """As pictures of a camera come: the transpose moves a quarter of the bytes."""
    nodes = [
        N("Transpose", ["f"], ["a"], perm=[0, 3, 1, 2]),
        N("QuantizeLinear", ["a", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    found = check(nodes, {"f": RANDOM.standard_normal((1, 9, 7, 3)).astype(np.float32) * 9}, CONSTANTS, ["y"])
    assert found[0] == "quantize_linear(axis=1)" or "quantize_linear" in found[0], found


def test_a_long_row_of_movements_is_loaded() -> None:
    nodes, name = (
        [N("QuantizeLinear", ["f", "s", "z"], ["q"]), N("DequantizeLinear", ["q", "s", "z"], ["v0"])],
        "v0",
    )
    for number in range(1500):
        nodes.append(N("Transpose", [name], [f"v{number + 1}"], perm=[1, 0] if number % 2 else [0, 1]))
        name = f"v{number + 1}"
    nodes += [N("QuantizeLinear", [name, "t", "o"], ["r"]), N("DequantizeLinear", ["r", "t", "o"], ["y"])]
    check(nodes, {"f": RANDOM.standard_normal((3, 4)).astype(np.float32)}, CONSTANTS, ["y"])


@pytest.mark.parametrize("bounded", [False, True])
def test_sums_before_a_maximum_are_quantised_themselves(bounded: bool) -> None:
    """As exporters write it that quantise what convolutions read, and nothing else."""
    constants = {
        **CONSTANTS,
        "u": RANDOM.integers(-127, 128, (32, 48, 1, 1)).astype(np.int8),
        "n": np.int8(0),
    }
    nodes = [
        N("DequantizeLinear", ["q", "s", "z"], ["x"]),
        N("DequantizeLinear", ["u", "t", "n"], ["k"]),
        N("Conv", ["x", "k"], ["c"]),
        *([N("Relu", ["c"], ["b"])] if bounded else []),
        N("MaxPool", ["b" if bounded else "c"], ["r"], kernel_shape=[2, 2], strides=[2, 2]),
        N("QuantizeLinear", ["r", "big", "o"], ["y"]),
    ]
    constants["big"] = np.float32(0.5)
    content = model(nodes, {"q": Q}, constants, ["y"])
    loaded = cenote.load(content, threads=1)
    found = np.asarray(loaded(Q)).astype(int)
    assert np.abs(found - by_onnx(content, {"q": Q})[0]).max() <= 1  # sums of floats round
    if jit.host_target().dots != PAIRS:
        assert [op.split("(")[0] for op in steps(loaded) if op.startswith(("qlinear", "max"))] == [
            "qlinear_conv",
            "max_pool",
        ]
        assert not floats(steps(loaded)), steps(loaded)
