"""If: a condition that is constant, follows from shapes, or from data."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote
from cenote.core.errors import CenoteError
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from tests.frontends.models import FLOAT, branches, model, tensor, value

X = np.array([[-1, 0, 1], [2, -2, 3]], np.float32)
node = helper.make_node


def run(proto: onnx.ModelProto, x: np.ndarray = X) -> dict[str, np.ndarray]:
    """Load, verify, run by references."""
    return evaluate(verify(load_onnx(proto).graph), {"x": x})


@pytest.mark.parametrize("condition", [True, False])
def test_constant_conditions_are_inlined(condition: bool) -> None:
    then, other = branches()
    nodes = [
        node("If", ["c"], ["a"], name="if", then_branch=then, else_branch=other),
        node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        node("Add", ["a", "b"], ["y"]),
    ]
    proto = model(nodes, weights={"c": np.array(condition), "w": np.float32(3)})
    single = np.maximum(X, 0) + 10 if condition else -X
    np.testing.assert_array_equal(run(proto)["y"], 2 * single)


def test_branch_that_hands_on_an_outer_value() -> None:
    direct = helper.make_graph([], "direct", [], [value("x", None)])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=direct, else_branch=direct)], weights={"c": np.array(True)}
    )
    np.testing.assert_array_equal(run(proto)["y"], X)


def of_sizes(axis: int) -> list[onnx.NodeProto]:
    """c: whether x is one long on an axis."""
    return [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "axis"], ["n"], axis=0), node("Equal", ["n", "one"], ["c"]),
    ]  # fmt: skip


SIZES = {"axis": np.array(0), "one": np.array(1), "w": np.float32(3)}


def test_conditions_that_follow_from_shapes() -> None:
    """What PyTorch exports for squeeze(0): the rank of the result depends on the batch."""
    squeeze = helper.make_graph(
        [node("Squeeze", ["x", "axes"], ["r"])],
        "then",
        [],
        [value("r", None)],
        [tensor("axes", np.array([0]))],
    )
    keep = helper.make_graph([node("Identity", ["x"], ["r"])], "else", [], [value("r", None)])
    nodes = [
        *of_sizes(0),
        node("If", ["c"], ["q"], then_branch=squeeze, else_branch=keep),
        node("Relu", ["q"], ["y"]),
    ]
    proto = model(nodes, [value("x", ("N", 3))], weights=SIZES)
    loaded = cenote.load(proto)
    for batch in (1, 2, 1):
        x = np.linspace(-1, 1, batch * 3, dtype=np.float32).reshape(batch, 3)
        want = np.maximum(x[0] if batch == 1 else x, 0)
        np.testing.assert_array_equal(loaded(x), want)
        np.testing.assert_array_equal(run(proto, x=x)["y"], want)
        assert len(loaded.plans) == 1  # no stage of its own: the plan has the chosen nodes alone


def test_conditions_that_follow_from_data() -> None:
    """The condition is computed by the stage before. Branches in branches; inner names are the same in all of them."""
    then, other = branches()
    inner = helper.make_graph(
        [node("If", ["big"], ["q"], name="deep", then_branch=then, else_branch=other)],
        "else",
        [],
        [value("q", None)],
    )
    constant = helper.make_graph([], "then", [], [value("k", None)], [tensor("k", X)])
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0), node("Less", ["total", "zero"], ["negative"]),
        node("Greater", ["total", "w"], ["big"]),
        node("If", ["negative"], ["a"], name="if", then_branch=constant, else_branch=inner), node("Neg", ["a"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, weights={"zero": np.float32(0), "w": np.float32(3)})
    loaded = cenote.load(proto)
    for x, want in ((X - 9, -X), (X, X), (X + 9, -(X + 19))):
        np.testing.assert_array_equal(loaded(x), want)
        np.testing.assert_array_equal(run(proto, x=x)["y"], want)


@pytest.mark.parametrize(("kind", "shape", "message"), [
    (FLOAT, (1,), "must be bool"), (onnx.TensorProto.BOOL, (2,), "must be one element"),
])  # fmt: skip
def test_what_is_no_condition(kind: int, shape: tuple[int, ...], message: str) -> None:
    then, other = branches()
    nodes = [node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)]
    loaded = cenote.load(model(nodes, ["x", value("c", shape, kind)]))
    with pytest.raises(CenoteError, match=f"'if'.*{message}"):
        loaded(X, np.ones(shape, np.float32 if kind == FLOAT else np.bool_))
