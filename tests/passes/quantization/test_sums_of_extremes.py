"""Sums of bytes that could leave 32 bits are those of floats, in every form; long sums that cannot stay on bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array
from tests.passes.models import model, steps

N = helper.make_node
UINT8 = {"y": onnx.TensorProto.UINT8}
LONG = 66_400  # times 255 * 127 is more than 2^31
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02), "z": np.uint8(0), "ws": np.float32(0.001), "wz": np.int8(0), "ys": np.float32(400),
}  # fmt: skip
READ = [N("DequantizeLinear", ["x", "s", "z"], ["xf"]), N("DequantizeLinear", ["w", "ws", "wz"], ["wf"])]
LAST = [N("QuantizeLinear", ["c", "ys", "z"], ["y"])]


def run(nodes: list[onnx.NodeProto], x: Array, **constants: Array) -> tuple[Array, bool]:
    """The result, and whether sums are of bytes."""
    loaded = cenote.load(model([*READ, *nodes, *LAST], {"x": x}, {**CONSTANTS, **constants}, ["y"], UINT8))
    return np.asarray(loaded(x)), any(op.startswith("qlinear") for op in steps(loaded))


FORMS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "matmul": ("MatMul", (1, LONG), (LONG, 16), {}),
    "gemm": ("Gemm", (1, LONG), (LONG, 16), {}),
    "turned": ("Gemm", (1, LONG), (16, LONG), {"transB": 1}),
    "convolution": ("Conv", (1, LONG, 1, 1), (16, LONG, 1, 1), {}),
    "transposed": ("ConvTranspose", (1, LONG, 1, 1), (LONG, 16, 1, 1), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_sums_that_could_wrap_around_are_those_of_floats(form: str) -> None:
    op, x, w, attributes = FORMS[form]
    node = N(op, ["xf", "wf"], ["c"], **attributes)
    y, of_bytes = run([node], np.full(x, 255, np.uint8), w=np.full(w, 127, np.int8))
    assert not of_bytes
    assert y.size == 16
    assert set(y.ravel()) == {108}  # 66400 * 255 * 127 * 0.00002 / 400 = 107.5...


def test_as_many_products_of_small_weights_stay_on_bytes() -> None:
    rows, weights = np.full((1, LONG), 255, np.uint8), np.full((LONG, 16), 3, np.int8)
    y, of_bytes = run([N("MatMul", ["xf", "wf"], ["c"])], rows, w=weights, ys=np.float32(10))
    assert of_bytes
    assert set(y.ravel()) == {102}  # 66400 * 255 * 3 * 0.00002 / 10


def test_a_bias_may_make_sums_wrap_around() -> None:
    nodes = [N("DequantizeLinear", ["b", "bs"], ["bf"]), N("Gemm", ["xf", "wf", "bf"], ["c"])]
    held = {"b": np.full(16, 2**31 - 1, np.int32), "bs": CONSTANTS["s"] * CONSTANTS["ws"]}
    y, of_bytes = run(nodes, np.full((1, 512), 255, np.uint8), w=np.full((512, 16), 127, np.int8), **held)
    assert not of_bytes
    assert set(y.ravel()) == {108}  # (512 * 255 * 127 + 2^31) * 0.00002 / 400 = 108.2


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
def test_long_sums_of_two_computed_values_are_those_of_floats(is_open: bool) -> None:
    """33,026 products of 255 and 255 do not fit; of an open size, both plans are right."""
    nodes = [
        READ[0], N("DequantizeLinear", ["v", "s", "z"], ["vf"]), N("MatMul", ["xf", "vf"], ["c"]), *LAST,
    ]  # fmt: skip
    long = np.full((70, 33_100), 255, np.uint8), np.full((33_100, 70), 255, np.uint8)
    short = long[0][:, :300], long[1][:300]
    content = onnx.load_from_string(
        model(nodes, {"x": long[0], "v": long[1]}, {**CONSTANTS, "ys": np.float32(10_000)}, ["y"], UINT8)
    )
    if is_open:
        for value, axis in ((0, 1), (1, 0)):
            content.graph.input[value].type.tensor_type.shape.dim[axis].dim_param = "depth"
    loaded = cenote.load(content.SerializeToString())
    for x, v in (short, long, short) if is_open else (long,):
        y = np.asarray(loaded(np.ascontiguousarray(x), np.ascontiguousarray(v)))
        assert set(y.ravel()) == {round(x.shape[1] * 255 * 255 * 0.0004 / 10_000)}


@pytest.mark.parametrize("scales", [{"s": 1e30, "ws": 1e30}, {"s": 1e30, "ws": 1e30, "ys": 1e-37}])
def test_factors_that_overflow_are_left_to_the_operators_without_a_warning(scales: dict[str, float]) -> None:
    """For results that are quantised and for those that stay floats; warnings are errors in this suite."""
    held = {**CONSTANTS, **{name: np.float32(scale) for name, scale in scales.items()}}
    x, w = np.full((4, 512), 3, np.uint8), np.full((512, 16), 3, np.int8)
    nodes = [*READ, N("MatMul", ["xf", "wf"], ["c"]), *LAST]
    for output, kind in (("y", onnx.TensorProto.UINT8), ("c", onnx.TensorProto.FLOAT)):
        loaded = cenote.load(model(nodes, {"x": x}, {**held, "w": w}, [output], {output: kind}))
        assert not any(op.startswith(("qlinear", "matmul_integer")) for op in steps(loaded))
