"""Einsum written out by products and sums: the answers are NumPy's, and nothing is left on the host."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote

CASES = [
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhid,bhjd->bhij", (2, 3, 4, 8), (2, 3, 5, 8)),
    ("bnd,dhk->bnhk", (2, 7, 8), (8, 3, 4)),
    ("bnd,dhk->bhnk", (2, 7, 8), (8, 3, 4)),
    ("bhwc,hkc->bhwk", (2, 4, 5, 6), (4, 7, 6)),  # relative positions of an image's rows
    ("i,i", (5,), (5,)),
    ("ij->i", (3, 4)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("...ij,...jk", (2, 1, 3, 4), (3, 4, 2)),
    ("i...,i...->...", (3, 4, 2), (3, 1, 2)),
    ("ab,cB->aBc", (2, 3), (4, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("abc,abd,ae->cde", (2, 3, 4), (2, 3, 5), (2, 6)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("ij,j->i", (3, 4), (4,)),
    ("ij,kj->ik", (1, 4), (3, 4)),
    ("ij,ij->i", (1, 4), (3, 4)),  # an axis of one element is broadcast
    ("ij,jk->k", (3, 4), (4, 5)),  # summed before the product
]


def model(
    equation: str, shapes: tuple[tuple[int, ...], ...], symbolic: bool, constant: int = 0
) -> cenote.Model:
    """One Einsum, whose last `constant` operands are weights."""
    inputs, weights = [], []
    for index, shape in enumerate(shapes):
        if index >= len(shapes) - constant:
            weights.append(helper.make_tensor(f"x{index}", TensorProto.FLOAT, shape, data(shape, index)))
            continue
        extents = [f"n{index}_{axis}" if symbolic and n > 1 else n for axis, n in enumerate(shape)]
        inputs.append(helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, extents))
    node = helper.make_node("Einsum", [f"x{n}" for n in range(len(shapes))], ["y"], equation=equation)
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "einsum", inputs, result, weights)
    return cenote.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def data(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("equation", "shapes"), [(case[0], case[1:]) for case in CASES], ids=lambda v: str(v)
)
def test_answers_without_the_host(equation: str, shapes: tuple[tuple[int, ...], ...], symbolic: bool) -> None:
    arrays = [data(shape, index) for index, shape in enumerate(shapes)]
    loaded = model(equation, shapes, symbolic)
    y = loaded(*arrays)
    np.testing.assert_allclose(y, np.einsum(equation, *arrays, dtype=np.float64), rtol=1e-5, atol=1e-5)
    assert "0 on the host" in str(loaded.plan)


def test_weights_are_packed_once() -> None:
    loaded = model("bnd,dhk->bhnk", ((2, 7, 8), (8, 3, 4)), False, constant=1)
    x = data((2, 7, 8), 0)
    np.testing.assert_allclose(
        loaded(x), np.einsum("bnd,dhk->bhnk", x, data((8, 3, 4), 1), dtype=np.float64), rtol=1e-5, atol=1e-5
    )
    assert "b_packed" in str(loaded.plan)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("...ii->...i", ((2, 3, 3),)), ("ij,jk->ik", ((2, 0), (0, 3)))]
)
def test_what_stays_as_it_is(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [data(shape, index) for index, shape in enumerate(shapes)]
    np.testing.assert_array_equal(model(equation, shapes, False)(*arrays), np.einsum(equation, *arrays))
