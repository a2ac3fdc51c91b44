"""Products between dequantisation and quantisation run on bytes; their results are those of floats but for rounding.

Others stay as they are.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(26)
ROWS, DEPTH, COLUMNS = 5, 203, 96
X = RANDOM.standard_normal((ROWS, DEPTH)).astype(np.float32)
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02),
    "z": np.uint8(121),
    "t": np.float32(0.15),
    "o": np.uint8(110),
    "w": RANDOM.integers(-127, 128, (DEPTH, COLUMNS)).astype(np.int8),
    "ws": (RANDOM.random(COLUMNS) * 0.004 + 0.001).astype(np.float32),
    "wz": np.zeros(COLUMNS, np.int8),
    "b": RANDOM.integers(-900, 900, COLUMNS).astype(np.int32),
}
CONSTANTS["bs"] = CONSTANTS["s"] * CONSTANTS["ws"]


def nodes(
    op: str, bias: str = "bias", axis: int = 1, relu: bool = False, bias_axis: int = 0, **more: int
) -> list[onnx.NodeProto]:
    """x quantised and back, a product with dequantised weights, and the result quantised and back."""
    inputs = ["xf", "wf", bias] if bias and op == "Gemm" else ["xf", "wf"]
    return [
        N("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        N("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=axis),
        N("DequantizeLinear", ["b", "bs"], ["bias"], axis=bias_axis),
        N(op, inputs, ["c"], **more),
        *([N("Relu", ["c"], ["r"])] if relu else []),
        N("QuantizeLinear", ["r" if relu else "c", "t", "o"], ["yq"]),
        N("DequantizeLinear", ["yq", "t", "o"], ["y"]),
    ]


def floats(constants: dict[str, Array], x: Array, op: str, turned: bool, axis: int, relu: bool) -> Array:
    """The result before it is quantised, in float64 but for the scales."""
    zero, scale = float(constants["z"]), float(constants["s"])
    quantized = np.clip(np.rint(x / constants["s"]) + zero, 0, 255) - zero
    factors, zeros = (np.asarray(constants[name], np.float64) for name in ("ws", "wz"))
    if factors.ndim:
        factors, zeros = (each.reshape((1, -1) if axis == 1 else (-1, 1)) for each in (factors, zeros))
    weights = (constants["w"].astype(np.float64) - zeros) * factors
    y: Array = (quantized * scale) @ (weights.T if turned else weights)
    if op == "Gemm":
        y = y + constants["b"].astype(np.float64) * constants["bs"].astype(np.float64)
    return np.maximum(y, 0) if relu else y


def agrees(y: Array, want: Array, constants: dict[str, Array]) -> None:
    """At most one step of y's scale beside exact sums, and seldom that."""
    zero, scale = float(constants["o"]), float(constants["t"])
    levels = np.clip(np.rint(want / scale) + zero, 0, 255) - zero
    apart = np.abs(y / scale - levels)
    assert apart.max() <= 1.001
    assert (apart > 0.5).mean() < 0.02


FORMS = {
    "MatMul": ("MatMul", CONSTANTS, 1, False),
    "Gemm": ("Gemm", CONSTANTS, 1, False),
    "Gemm, transposed": ("Gemm", {**CONSTANTS, "w": np.ascontiguousarray(CONSTANTS["w"].T)}, 0, True),
    "one scale": (
        "Gemm",
        {**CONSTANTS, "ws": np.float32(0.003), "wz": np.int8(0), "bs": np.full(COLUMNS, 6e-5, np.float32)},
        1,
        False,
    ),
    "u8 weights": (
        "MatMul",
        {
            **CONSTANTS,
            "w": (CONSTANTS["w"].astype(np.int16) + 127).astype(np.uint8),
            "wz": np.arange(120, 120 + COLUMNS).clip(0, 130).astype(np.uint8),
        },
        1,
        False,
    ),
}


@pytest.mark.parametrize("relu", [False, True], ids=["alone", "relu"])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_between_quantisations_runs_on_bytes(form: str, relu: bool) -> None:
    op, constants, axis, turned = FORMS[form]
    more = {"transB": 1} if turned else {}
    loaded = cenote.load(model(nodes(op, axis=axis, relu=relu, **more), {"x": X}, constants, ["y"]))
    assert any(each.startswith("qlinear_matmul") for each in steps(loaded)), steps(loaded)
    agrees(np.asarray(loaded(X)), floats(constants, X, op, turned, axis, relu), constants)


def test_exact_sums_are_sums_of_bytes() -> None:
    content = model(nodes("Gemm"), {"x": X}, CONSTANTS, ["y"])
    loaded = cenote.load(content, precision="exact")
    assert any(each.startswith("qlinear_matmul") for each in steps(loaded)), steps(loaded)
    agrees(np.asarray(loaded(X)), floats(CONSTANTS, X, "Gemm", False, 1, False), CONSTANTS)


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_or_on_what_is_known_of_the_sizes(threads: int) -> None:
    content = onnx.load_from_string(model(nodes("Gemm", relu=True), {"x": X}, CONSTANTS, ["y"]))
    fixed = np.asarray(cenote.load(content.SerializeToString(), threads=1)(X))
    content.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    opened = cenote.load(content.SerializeToString(), threads=threads)
    for rows in (ROWS, 1, 3):
        np.testing.assert_array_equal(np.asarray(opened(X[:rows])), fixed[:rows])


ONE = {"ws": np.float32(0.003), "wz": np.int8(0)}
SQUARE = np.ascontiguousarray(CONSTANTS["w"][:COLUMNS])


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"w": SQUARE}, {"axis": 0}),  # scales of rows, as many as columns
        ({"w": SQUARE}, {"axis": 1, "transB": 1}),
        (
            {"ws": RANDOM.random(DEPTH).astype(np.float32) * 0.004, "wz": np.zeros(DEPTH, np.int8)},
            {"axis": 0},
        ),
        ({"b": CONSTANTS["b"][None]}, {"bias_axis": 1}),
        ({**ONE, "b": CONSTANTS["b"][:1], "bs": np.float32(6e-5)}, {}),
        ({"bs": np.full(COLUMNS, 0.5, np.float32)}, {}),
        ({}, {"alpha": 2.0}),
        ({}, {"beta": 0.5}),
    ],
    ids=[
        "scales of rows",
        "scales of rows, transposed",
        "scales of rows, more than columns",
        "bias of two axes",
        "bias of one number",
        "scale of the bias",
        "alpha",
        "beta",
    ],
)
def test_other_products_give_floats(change: dict[str, Array], more: dict[str, int]) -> None:
    constants = {**CONSTANTS, **change}
    x = np.ascontiguousarray(X[:, : constants["w"].shape[0]])
    loaded = cenote.load(model(nodes("Gemm", **more), {"x": x}, constants, ["y"]))
    assert not any(each.startswith("qlinear_matmul") for each in steps(loaded)), steps(loaded)
    alpha, beta = more.get("alpha", 1), more.get("beta", 1)
    scaled = {**constants, "b": constants["b"] * (beta / alpha)}
    want = alpha * floats(scaled, x, "Gemm", bool(more.get("transB")), more.get("axis", 1), False)
    agrees(np.asarray(loaded(x)), want, constants)


@pytest.mark.parametrize("scale", [0.0, -0.15, np.nan, np.inf, 1e-45])
def test_a_scale_that_is_no_ordinary_factor_is_left_to_the_operators(scale: float) -> None:
    constants = {**CONSTANTS, "t": np.float32(scale)}
    loaded = cenote.load(model(nodes("MatMul", relu=True), {"x": X}, constants, ["y"]))
    apart = cenote.load(model(nodes("MatMul", relu=True), {"x": X}, constants, ["y", "c"]))
    assert not any(each.startswith("qlinear_matmul") for each in steps(loaded))
    np.testing.assert_array_equal(np.asarray(loaded(X)), np.asarray(apart(X)[0]))
