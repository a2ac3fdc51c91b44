"""Graphs between quantisations at their edges, in each form that runs on bytes: axes from the end, numbers that are not
finite, both ends of the bytes, no samples, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.passes.quantization import floats, sums
from tests.passes.models import model, steps

N = helper.make_node
RANDOM = np.random.default_rng(41)
MAP, ROWS = (RANDOM.standard_normal(shape).astype(np.float32) * 2 for shape in ((2, 32, 7, 6), (5, 1100)))
CONSTANTS: dict[str, Array] = {
    "s": np.float32(0.02), "z": np.uint8(121), "t": np.float32(0.11), "o": np.uint8(7),
    "ws": (RANDOM.random(32) * 0.004 + 0.001).astype(np.float32), "wz": np.zeros(32, np.int8),
    "b": RANDOM.integers(-900, 900, 32).astype(np.int32),
}  # fmt: skip
CONSTANTS["bs"] = CONSTANTS["s"] * CONSTANTS["ws"]


@pytest.fixture(autouse=True)
def floats_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are quicker on no matter which CPU."""
    for module in (floats, sums):
        monkeypatch.setattr(module, "seconds_of_floats", lambda *_: 1e9)


@dataclass(frozen=True)
class Form:
    """A layer of dequantised x and weights, the operator that it becomes, and its axis of filters."""

    becomes: str
    x: Array
    weights: Array
    axis: int
    floats: bool = False  # its result is not quantised
    residual: bool = False

    def nodes(self, axis: int | None = None, bias_axis: int = 0) -> list[onnx.NodeProto]:
        axis = self.axis if axis is None else axis
        layer = N("Conv", ["xf", "wf", "bias"], ["c"], pads=[1, 1, 1, 1])
        if self.x.ndim == 2:
            layer = N("Gemm", ["xf", "wf", "bias"], ["c"])
        made = [
            N("QuantizeLinear", ["x", "s", "z"], ["xq"]),
            N("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
            N("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=axis),
            N("DequantizeLinear", ["b", "bs"], ["bias"], axis=bias_axis),
            layer,
        ]
        if self.floats:
            return [*made, N("Identity", ["c"], ["y"])]
        made += [
            N("QuantizeLinear", ["c", "t", "o"], ["yq"]),
            N("DequantizeLinear", ["yq", "t", "o"], ["y1"]),
        ]
        if not self.residual:
            return [*made, N("Identity", ["y1"], ["y"])]
        return [
            *made,
            N("Add", ["y1", "xf"], ["sum"]),
            N("QuantizeLinear", ["sum", "t", "o"], ["sq"]),
            N("DequantizeLinear", ["sq", "t", "o"], ["y"]),
        ]

    def run(
        self, x: Array | None = None, axis: int | None = None, bias_axis: int = 0, **constants: Any
    ) -> Array:
        """The result. The layer runs on bytes, if there is anything to compute."""
        x = self.x if x is None else x
        held = {**CONSTANTS, "w": self.weights, **constants}
        loaded = cenote.load(model(self.nodes(axis, bias_axis), {"x": x}, held, ["y"]), threads=1)
        assert not x.size or any(op.startswith(self.becomes) for op in steps(loaded)), steps(loaded)
        return np.asarray(loaded(x))


def weights(*shape: int) -> Array:
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


FORMS = {
    "convolution": Form("qlinear_conv", MAP, weights(32, 32, 3, 3), 0),
    "residual": Form("qlinear_conv_add", MAP, weights(32, 32, 3, 3), 0, residual=True),
    "convolution to floats": Form("conv_integer_to_float", MAP, weights(32, 32, 3, 3), 0, floats=True),
    "product": Form("qlinear_matmul", ROWS, weights(1100, 32), 1),
    "product to floats": Form("matmul_integer_to_float", ROWS, weights(1100, 32), 1, floats=True),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
def test_axes_are_counted_from_the_end_too(form: Form) -> None:
    backwards = form.run(axis=form.axis - form.weights.ndim, bias_axis=-1)
    np.testing.assert_array_equal(backwards, form.run())


@forms
def test_nan_is_the_zero_point_and_infinity_an_end(form: Form) -> None:
    x = form.x.copy()
    x.ravel()[[3, 17, 31]] = np.nan, np.inf, -np.inf
    finite = np.nan_to_num(x, nan=0.0, posinf=3e38, neginf=-3e38)
    np.testing.assert_array_equal(form.run(x), form.run(finite))


@forms
@pytest.mark.parametrize("zero", [0, 255])
@pytest.mark.parametrize("sign", [1, -1])
def test_results_reach_both_ends(form: Form, sign: int, zero: int) -> None:
    """Sums of nothing but the largest numbers; quantised, they are the end nearest to them."""
    x = np.full_like(form.x, 100)
    zeros = {"z": np.uint8(0), "o": np.uint8(zero), "b": np.zeros(32, np.int32)}
    y = form.run(x, w=np.full_like(form.weights, 127 * sign), **zeros)
    if form.floats:
        inside = y[..., 1:-1, 1:-1] if y.ndim == 4 else y
        taps = form.weights.size // 32
        want = taps * 127.0 * sign * 255 * 0.02 * CONSTANTS["ws"].astype(np.float64)
        shape = (1, -1, 1, 1) if y.ndim == 4 else (1, -1)
        np.testing.assert_allclose(inside, np.broadcast_to(want.reshape(shape), inside.shape), rtol=4e-7)
        return
    end = np.float32((255 if sign > 0 else 0) - zero) * np.float32(0.11)
    if form.residual:  # 255 steps of x's scale are added to the first end
        end = np.clip(np.rint((end + np.float32(5.1)) / np.float32(0.11)) + zero, 0, 255) - zero
        end = np.float32(end) * np.float32(0.11)
    np.testing.assert_array_equal(y, np.full_like(y, end))


@forms
def test_no_samples(form: Form) -> None:
    """Of a model for none, and of one for any number, which runs on bytes."""
    assert form.run(form.x[:0]).shape == (0, *form.run().shape[1:])
    constants = {**CONSTANTS, "w": form.weights}
    content = onnx.load_from_string(model(form.nodes(), {"x": form.x}, constants, ["y"]))
    content.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    opened = cenote.load(content.SerializeToString(), threads=1)
    np.testing.assert_array_equal(np.asarray(opened(form.x)), form.run())
    assert any(op.startswith(form.becomes) for op in steps(opened))
    assert np.asarray(opened(form.x[:0])).shape == (0, *form.run().shape[1:])


@forms
@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        ({"axis": 4}, "axis"),
        ({"axis": -5}, "axis"),
        ({"wz": np.zeros(32, np.uint8)}, "different types"),
        ({"z": np.int32(121)}, "int32"),
        ({"ws": CONSTANTS["ws"][:31], "wz": CONSTANTS["wz"][:31]}, r"\[31\]"),
        ({"b": CONSTANTS["b"][:31], "bs": CONSTANTS["bs"][:31]}, "31"),
    ],
    ids=["axis", "negative axis", "type of a zero point", "zero point of 32 bits", "scales", "bias"],
)  # fmt: skip
def test_what_does_not_fit_is_refused(form: Form, wrong: dict[str, Any], seen: str) -> None:
    with pytest.raises(CenoteError, match=seen):
        form.run(**wrong)
