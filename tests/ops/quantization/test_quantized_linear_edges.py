"""Quantised operators at their edges: what does not fit is refused with the operator, the node and what was seen, the
rest is computed as ONNX says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.errors import CenoteError
from tests.ops.quantization.one_node import Case, s, z

X = np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4)
W = (np.arange(54) - 27).astype(np.int8).reshape(2, 3, 3, 3)
A, B = X.reshape(4, 12), (np.arange(60) - 30).astype(np.int8).reshape(12, 5)
F = np.linspace(-3, 3, 48, dtype=np.float32).reshape(1, 3, 4, 4)

ONE, U, S = s(0.5), z(np.uint8, 3), z(np.int8, 0)
REFUSED = [
    (Case("QLinearConv", (X, ONE, S, W, ONE, S, ONE, U)), "different types"),
    (Case("QLinearConv", (X, ONE, U, W, ONE, U, ONE, U)), "different types"),
    (Case("QLinearConv", (X, ONE, U, W, s(1, 2, 3), S, ONE, U)), r"w_scale f32\[3\]"),
    (Case("QLinearConv", (X, ONE, U, W, ONE, z(np.int8, 1, 2, 3), ONE, U)), r"i8\[3\]"),
    (Case("QLinearConv", (X, s(1, 2), U, W, ONE, S, ONE, U)), r"x_scale.*f32\[2\]"),
    (Case("QLinearConv", (X, ONE, U, W, ONE, S, ONE, z(np.int32, 3))), "i32|int32"),
    (Case("QLinearConv", (X, ONE, U, W, ONE, S, ONE, U, z(np.int32, 1, 2, 3))), r"bias i32\[3\]"),
    (Case("ConvInteger", (X, W, S)), "different types"),
    (Case("ConvInteger", (X, W, z(np.uint8, 1, 2, 3))), r"u8\[3\]"),
    (Case("ConvInteger", (X, W, U, z(np.int8, 1, 2, 3))), r"i8\[3\]"),
    (Case("ConvInteger", (X, W.astype(np.float32), U)), "f32|float32"),
    (Case("MatMulInteger", (A, B, S)), "different types"),
    (Case("MatMulInteger", (A, B, z(np.uint8, 1, 2, 3))), r"u8\[3\]"),
    (Case("MatMulInteger", (A, B[:7])), r"i8\[7,5\]"),
    (Case("QLinearMatMul", (A, ONE, U, B, s(1, 2, 3), S, ONE, U)), r"f32\[3\]"),
    (Case("QLinearMatMul", (A, ONE, U, B, ONE, z(np.int8, 1, 2, 3), ONE, U)), r"i8\[3\]"),
    (Case("QLinearMatMul", (A, ONE, U, B, ONE, S, ONE, z(np.int16, 3))), "i16|int16"),
    (Case("QuantizeLinear", (F, s(1, 2, 3), z(np.uint8, 1, 2))), r"u8\[2\]"),
    (Case("QuantizeLinear", (F, s(1, 2), z(np.uint8, 1, 2)), {"axis": 1}), r"f32\[2\]"),
    (Case("QuantizeLinear", (F, s(1, 2, 3)), {"axis": 4}), "axis"),
    (Case("QuantizeLinear", (F, s(1, 2, 3)), {"axis": -5}), "axis"),
    (Case("QuantizeLinear", (F, ONE, z(np.int32, 0))), "int32|i32"),
    (Case("DequantizeLinear", (X, s(1, 2, 3), z(np.int8, 0, 0, 0)), {"axis": 1}), "different types"),
    (Case("DequantizeLinear", (X, s(1, 2)), {"axis": 1}), r"f32\[2\]"),
    (Case("DequantizeLinear", (X, s(1, 2, 3)), {"axis": 7}), "axis"),
]


@pytest.mark.parametrize(("case", "seen"), REFUSED, ids=lambda value: getattr(value, "kind", None))
def test_what_does_not_fit_is_refused_by_operator_and_node(case: Case, seen: str) -> None:
    with pytest.raises(CenoteError, match=seen) as raised:
        case.run()
    said = str(raised.value).lower().replace("_", "")
    assert case.kind.lower() in said
    assert "edge" in said or "-> y" in said


@pytest.mark.parametrize("scale", [0.0, -0.5, np.nan, np.inf, 1e-45, 3e38])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_odd_scales_quantise_as_their_quotients(scale: float, dtype: Any) -> None:
    """Infinite quotients are bounded, and those that are no numbers give the zero point."""
    with np.errstate(all="ignore"):
        quotient = (F / np.float32(scale)).astype(np.float64)
    limits = np.iinfo(dtype)
    want = np.clip(np.rint(np.where(np.isnan(quotient), 0, quotient)) + 5, limits.min, limits.max).astype(
        dtype
    )
    np.testing.assert_array_equal(Case("QuantizeLinear", (F, s(scale), z(dtype, 5))).run(), want)


@pytest.mark.parametrize("kind", ["x", "w", "y"])
@pytest.mark.parametrize("scale", [0.0, np.nan, np.inf, -0.5, 1e-45])
def test_odd_scales_of_sums_round_as_their_factor(kind: str, scale: float) -> None:
    parts = {"x": ONE, "w": ONE, "y": ONE, kind: s(scale)}
    sums = (A.astype(np.int64) - 3) @ B.astype(np.int64)
    with np.errstate(all="ignore"):
        scaled = np.float32(sums) * (parts["x"] * parts["w"] / parts["y"])
    want = np.clip(np.rint(np.where(np.isnan(scaled), 0, scaled.astype(np.float64))) + 3, 0, 255).astype(
        np.uint8
    )
    product = Case("QLinearMatMul", (A, parts["x"], U, B, parts["w"], S, parts["y"], U))
    np.testing.assert_array_equal(product.run(), want)
    rows = A[:, :, None, None]
    filters = np.ascontiguousarray(B.T)[:, :, None, None]
    layer = Case("QLinearConv", (rows, parts["x"], U, filters, parts["w"], S, parts["y"], U))
    np.testing.assert_array_equal(layer.run()[:, :, 0, 0], want)


@pytest.mark.parametrize("zero", [0, 255])
def test_results_are_bounded_at_both_ends(zero: int) -> None:
    rows, ends = np.full((2, 64), 255, np.uint8), np.full((64, 3), 127, np.int8)
    for matrix, want in ((ends, 255), (-ends, 0)):
        case = Case("QLinearMatMul", (rows, s(1), U, matrix, s(1), S, s(1), z(np.uint8, zero)))
        np.testing.assert_array_equal(case.run(), np.full((2, 3), want))
        filters = np.ascontiguousarray(matrix.T)[:, :, None, None]
        layer = Case(
            "QLinearConv", (rows[:, :, None, None], s(1), U, filters, s(1), S, s(1), z(np.uint8, zero))
        )
        np.testing.assert_array_equal(layer.run(), np.full((2, 3, 1, 1), want))


@pytest.mark.parametrize(
    ("case", "shape"),
    [
        (Case("QLinearConv", (X[:0], ONE, U, W, ONE, S, ONE, U)), (0, 2, 2, 2)),
        (Case("ConvInteger", (X[:0], W, U)), (0, 2, 2, 2)),
        (Case("MatMulInteger", (A[:0], B, U)), (0, 5)),
        (Case("QLinearMatMul", (A[:0], ONE, U, B, ONE, S, ONE, U)), (0, 5)),
        (Case("QuantizeLinear", (F[:0], ONE, U)), (0, 3, 4, 4)),
        (Case("DequantizeLinear", (X[:0], ONE, U)), (0, 3, 4, 4)),
        (Case("DynamicQuantizeLinear", (F[:0],), more=("scale", "zero")), (0, 3, 4, 4)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_empty_tensors(case: Case, shape: tuple[int, ...]) -> None:
    assert case.run().shape == shape


def test_products_of_no_depth_are_sums_of_nothing() -> None:
    assert not Case("MatMulInteger", (A[:, :0], B[:0], U)).run().any()
    case = Case("QLinearMatMul", (A[:, :0], ONE, U, B[:0], ONE, S, ONE, U))
    np.testing.assert_array_equal(case.run(), np.full((4, 5), 3))


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_every_version_quantises_and_back(opset: int, dtype: Any) -> None:
    """16 bits came with opset 21; ONNX Runtime's tools write them before."""
    limits = np.iinfo(dtype)
    whole = np.clip(np.rint(F / ONE) + 7, limits.min, limits.max).astype(dtype)
    np.testing.assert_array_equal(Case("QuantizeLinear", (F, ONE, z(dtype, 7))).run(opset), whole)
    back = Case("DequantizeLinear", (whole, ONE, z(dtype, 7))).run(opset)
    np.testing.assert_array_equal(back, (whole.astype(np.float32) - 7) * ONE)
