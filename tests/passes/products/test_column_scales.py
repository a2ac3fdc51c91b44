"""Factors and batch norms of a product's columns become part of its matrix and bias; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.checks import int64s
from cenote.ops.elementwise.activation import Relu
from cenote.ops.elementwise.binary import Add, Div, Mul
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.ops.movement.reshape import Flatten, Reshape
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.values import seeded
from cenote.passes.products.column_scales import scale_columns
from cenote.passes.specialize import specialize

DEPTH, COLUMNS = 6, 5
CONSTANTS = {
    "b": seeded((DEPTH, COLUMNS), 2),
    "t": seeded((COLUMNS, DEPTH), 2),
    "c": seeded((COLUMNS,), 3),
    "wide": seeded((1, 1, COLUMNS), 3),
    "one": seeded((1,), 3),
    "rows": seeded((7, 1), 3),
    "zero": np.zeros(COLUMNS, np.float32),
    "inf": np.full(COLUMNS, np.inf, np.float32),
    "positive": np.abs(seeded((COLUMNS,), 4)) + np.float32(0.1),
    "back": int64s((2, 7, COLUMNS)),
    "transposed": int64s((2, 7 * COLUMNS)),
}
STATISTICS = ("c", "c", "c", "positive")


def folded(nodes: list[tuple[Op, tuple[str, ...]]], shape: tuple[int, ...]) -> list[str]:
    """Operators after the pass of nodes one after the other ("_": the value before); the numbers are the same."""
    made = []
    for number, (op, inputs) in enumerate(nodes):
        named = tuple(f"v{number - 1}" if name == "_" else name for name in inputs)
        made.append(Node(op, named, (f"v{number}",)))
    used = {name for _, inputs in nodes for name in inputs} & set(CONSTANTS)
    constants: dict[str, Array] = {name: CONSTANTS[name] for name in used}
    declared = (Declared("x", np.dtype(np.float32), shape),)
    graph = specialize(
        Graph(declared, (made[-1].outputs[0],), tuple(made), constants),
        {"x": TensorType.of(np.float32, shape)},
    ).graph
    after, x = verify(scale_columns(graph)), seeded(shape)
    (wanted,), (got,) = (list(evaluate(each, {"x": x}).values()) for each in (graph, after))
    assert wanted.shape == got.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    return [node.op.name for node in after.nodes]


@pytest.mark.parametrize("factor", ["c", "wide"])
@pytest.mark.parametrize("kind", [Mul(), Div()])
def test_factors(kind: Op, factor: str) -> None:
    assert folded([(MatMul(), ("x", "b")), (kind, ("_", factor))], (2, 7, DEPTH)) == ["matmul"]
    both = [(MatMul(), ("x", "b")), (Add(), ("c", "_")), (kind, ("_", factor))]
    assert folded(both, (2, 7, DEPTH)) == ["matmul"]


def test_batch_norm_behind_a_reshape_and_the_reshapes_are_gone() -> None:
    norm = [(MatMul(), ("x", "b")), (Flatten(2), ("_",)), (BatchNormalization(), ("_", *STATISTICS))]
    back = [*norm, (Reshape(), ("_", "back")), (Relu(), ("_",))]
    assert folded(back, (2, 7, DEPTH)) == ["matmul", "relu"]
    assert folded(norm, (2, 7, DEPTH)) == ["matmul", "flatten"]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [(), ("c",)])
def test_gemm(transposed: bool, bias: tuple[str, ...]) -> None:
    gemm = (Gemm(transpose_b=transposed), ("x", "t" if transposed else "b", *bias))
    assert folded([gemm, (BatchNormalization(), ("_", *STATISTICS))], (3, DEPTH)) == ["gemm"]


@pytest.mark.parametrize(
    "last",
    [
        (Mul(), ("_", "rows")),  # of rows
        (Div(), ("_", "zero")),  # infinite
        (Mul(), ("_", "inf")),
        (Div(), ("c", "_")),  # the product divides
        (Add(), ("_", "c")),  # nothing to scale
    ],
)
def test_others_stay(last: tuple[Op, tuple[str, ...]]) -> None:
    with np.errstate(all="ignore"):
        assert len(folded([(MatMul(), ("x", "b")), last], (2, 7, DEPTH))) == 2


def test_products_that_end_otherwise_stay() -> None:
    assert len(folded([(Gemm(alpha=2.0), ("x", "b")), (Mul(), ("_", "c"))], (3, DEPTH))) == 2
    assert len(folded([(Gemm(beta=2.0), ("x", "b", "c")), (Mul(), ("_", "c"))], (3, DEPTH))) == 2
    assert len(folded([(MatMul(), ("x", "b")), (Relu(), ("_",)), (Mul(), ("_", "c"))], (3, DEPTH))) == 3
    assert len(folded([(MatMul(), ("x", "b")), (Mul(), ("_", "_"))], (3, DEPTH))) == 2
    # A result that something else reads keeps its numbers.
    read = [(MatMul(), ("x", "b")), (Mul(), ("_", "c")), (Add(), ("_", "v0"))]
    assert len(folded(read, (3, DEPTH))) == 3


def test_columns_are_those_of_the_product_not_of_a_reshape_of_it() -> None:
    turned = [(MatMul(), ("x", "b")), (Reshape(), ("_", "transposed")), (Mul(), ("_", "long"))]
    CONSTANTS["long"] = seeded((7 * COLUMNS,), 5)
    assert len(folded(turned, (2, 7, DEPTH))) == 3
