"""ONNX Runtime's operators on quantised tensors at their edges: what does not fit is refused with the node, the rest is
computed as the standard operators compute it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cenote.core.errors import CenoteError
from cenote.core.types import Array
from tests.ops.quantization.one_node import Case, s, z

X = np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4)
A, B = X.reshape(4, 12), (np.arange(60) - 30).astype(np.int8).reshape(12, 5)
F = np.linspace(-3, 3, 48, dtype=np.float32).reshape(4, 12)
ONE, U, S = s(0.5), z(np.uint8, 3), z(np.int8, 0)
INTO, WRONG = (ONE, U), (ONE, z(np.int32, 3))
ODD = [0.0, -0.5, np.nan, np.inf, 1e-45]


def case(kind: str, *inputs: Array | None, **attributes: Any) -> Case:
    return Case(kind, inputs, attributes, domain="com.microsoft")


def qgemm(
    a: Array = A, b: Array = B, *, a_scale: Array = ONE, a_zero: Array = U, b_scale: Array = ONE, b_zero: Array = S,
    bias: Array | None = None, into: tuple[Array | None, ...] = INTO,
) -> Case:  # fmt: skip
    return case("QGemm", a, a_scale, a_zero, b, b_scale, b_zero, bias, *into)


@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        (qgemm(a_zero=S), "different types"),
        (qgemm(b_zero=U), "different types"),
        (qgemm(into=WRONG), "int32"),
        (qgemm(into=(None, U)), "zero point of y without its scale"),
        (qgemm(a_scale=s(1, 2)), r"f32\[2\]"),
        (qgemm(b_scale=s(1, 2, 3)), r"f32\[3\]"),
        (qgemm(b_scale=s(1, 2, 3), b_zero=z(np.int8, 1, 2, 3)), r"f32\[3\]"),
        (qgemm(bias=z(np.int32, 1, 2, 3)), "3"),
        (qgemm(bias=s(1, 2, 3, 4, 5)), r"f32\[5\]"),
        (qgemm(b=B[:7]), r"\[7,5\]"),
        (case("DynamicQuantizeMatMul", F, B, s(1, 2, 3), S), r"\[3\]"),
        (case("DynamicQuantizeMatMul", F, B, ONE, U), "different types"),
        (case("MatMulIntegerToFloat", A, B, ONE, ONE, S), "different types"),
        (case("QLinearAdd", X, ONE, S, X, *INTO, *INTO), "different types"),
        (case("QLinearAdd", X, *INTO, X[:, :2], *INTO, *INTO), "broadcast"),
        (case("QLinearMul", X, *INTO, X, *INTO, *WRONG), "int32"),
        (case("QLinearSigmoid", X, s(1, 2), U, *INTO), r"f32\[2\]"),
        (case("QLinearGlobalAveragePool", X, *INTO, *WRONG, channels_last=0), "int32"),
        (case("QLinearSoftmax", X, ONE, S, *INTO, axis=-1, opset=13), "different types"),
        (case("QLinearSoftmax", X, *INTO, *INTO, axis=5, opset=13), "axis"),
        (case("QLinearConcat", *INTO, X, *INTO, axis=-6), "axis|input|given"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_what_does_not_fit_is_refused_by_node(wrong: Case, seen: str) -> None:
    with pytest.raises(CenoteError, match=seen) as raised:
        wrong.run(17)
    assert "edge" in str(raised.value) or "-> y" in str(raised.value)


@pytest.mark.parametrize("scale", ODD)
@pytest.mark.parametrize("place", ["a", "b", "y", "a of floats", "b of floats"])
def test_odd_scales_of_products_round_as_their_factor(place: str, scale: float) -> None:
    parts = {"a": ONE, "b": ONE, "y": ONE, place[0]: s(scale)}
    sums = (A.astype(np.int64) - 3) @ B.astype(np.int64)
    with np.errstate(all="ignore"):
        floats = np.float32(sums) * (parts["a"] * parts["b"])
        quotient = (floats / parts["y"]).astype(np.float64)
    given = {"a_scale": parts["a"], "b_scale": parts["b"]}
    if "floats" in place:
        np.testing.assert_array_equal(qgemm(**given, into=()).run(17), floats)
        return
    want = np.clip(np.rint(np.where(np.isnan(quotient), 0, quotient)) + 3, 0, 255)
    # Weights and rows first: infinity - infinity, 0 * infinity.
    dequantized = np.isinf(scale) and place != "y"
    y = qgemm(**given, into=(parts["y"], U)).run(17)
    np.testing.assert_array_equal(y, 3 if dequantized else want)


@pytest.mark.parametrize("scale", ODD[:-1])
def test_odd_scales_of_a_rounded_matrix(scale: float) -> None:
    plain = case("DynamicQuantizeMatMul", F, B, s(1), S).run(17)
    with np.errstate(all="ignore"):
        want = plain * np.float32(scale)
    np.testing.assert_array_equal(case("DynamicQuantizeMatMul", F, B, s(scale), S).run(17), want)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_in_the_range_that_all_are_rounded_by(value: float) -> None:
    x = F.copy()
    x[1, 3] = value
    assert np.isnan(case("DynamicQuantizeMatMul", x, B, ONE, S).run(17)).all()


@pytest.mark.parametrize("zero", [0, 255])
def test_results_are_bounded_at_both_ends(zero: int) -> None:
    rows, ends = np.full((2, 64), 255, np.uint8), np.full((64, 3), 127, np.int8)
    for matrix, want in ((ends, 255), (-ends, 0)):
        product = qgemm(rows, matrix, a_scale=s(1), b_scale=s(1), into=(s(1), z(np.uint8, zero)))
        np.testing.assert_array_equal(product.run(17), np.full((2, 3), want))
    added = case(
        "QLinearAdd", rows, s(9), z(np.uint8, zero), rows, s(9), z(np.uint8, zero), s(1), z(np.uint8, zero)
    )
    np.testing.assert_array_equal(added.run(17), np.full((2, 64), 255))


@pytest.mark.parametrize(
    ("empty", "shape"),
    [
        (qgemm(A[:0]), (0, 5)),
        (qgemm(b=B[:, :0]), (4, 0)),
        (qgemm(A[:0], into=()), (0, 5)),
        (case("DynamicQuantizeMatMul", F[:0], B, ONE, S), (0, 5)),
        (case("MatMulIntegerToFloat", A[:0], B, ONE, ONE, U, S), (0, 5)),
        (case("QLinearAdd", X[:0], *INTO, X[:0], *INTO, *INTO), (0, 3, 4, 4)),
        (case("QLinearSigmoid", X[:0], *INTO, *INTO), (0, 3, 4, 4)),
        (case("QLinearSoftmax", X[:0], *INTO, *INTO, axis=-1, opset=13), (0, 3, 4, 4)),
        (case("QLinearGlobalAveragePool", X[:0], *INTO, *INTO, channels_last=0), (0, 3, 1, 1)),
        (case("QLinearAveragePool", X[:0], *INTO, *INTO, kernel_shape=[2, 2]), (0, 3, 3, 3)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)  # fmt: skip
def test_empty_tensors(empty: Case, shape: tuple[int, ...]) -> None:
    assert empty.run(17).shape == shape


def test_a_product_of_no_depth_is_its_bias() -> None:
    bias = np.arange(5, dtype=np.int32) * 8
    np.testing.assert_array_equal(qgemm(A[:, :0], B[:0], bias=bias).run(17), np.tile(bias // 2 + 3, (4, 1)))
