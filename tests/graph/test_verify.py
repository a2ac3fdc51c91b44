"""The verifier finds each kind of damage, and names where it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cenote.codegen import jit
from cenote.core.errors import CapacityError, InputError, ModelError, ShapeError
from cenote.core.types import TensorType
from cenote.graph import verify as verification
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import Inference, evaluate, infer_node, run_node
from cenote.graph.verify import verify
from cenote.passes.pipeline import optimize
from tests.passes.toys import Add, Fill, Positive, Same, Scale, graph, node

F2, F3 = TensorType.of(np.float32, (2,)), TensorType.of(np.float32, (3,))
INTEGERS = TensorType.of(np.int64, (2,))
ONES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph(node(Scale(), "a", "y", "n1")), "node 'n1' .*reads 'a' before it is made"),
        (graph(node(Scale(), "b", "y"), node(Scale(), "x", "b")), "node scale -> y: reads 'b' before"),
        (graph(node(Scale(), "x", "y"), node(Scale(), "x", "y")), "makes 'y', which is made already"),
        (graph(node(Scale(), "x", "x"), outputs="x"), "makes 'x', which is made already"),
        (graph(node(Scale(), "x", "_")), "has no output"),
        (graph(node(Scale(), "x", "a")), "output 'y' of the graph is made by no node"),
        (graph(node(Scale(), "x", "y"), outputs="y y"), "listed twice"),
        (graph(node(Scale(), "x", "y"), constants={"x": ONES}), "'x' is defined twice"),
        (graph(node(Scale(), "x", "y"), types={"q": F2}), "no value of the graph"),
        (graph(constants={"y": ONES}, types={"y": F3}), "constant 'y' is .*its type says"),
        (graph(node(Scale(), "x", "y"), types={"x": F2}), "output 'y' has no type"),
        (graph(node(Scale(), "x", "y"), types={"y": F2}), "input 'x' has no type"),
        (graph(node(Scale(), "x", "y"), types={"x": F2, "y": F3}), r"'y' is f32\[2\], but its type says f32"),
        (graph(node(Positive(), "x", "y"), types={"x": F2, "y": F3}), "its type is not known"),
        (graph(node(Scale(), "x", "y"), types={"x": INTEGERS, "y": F2}), "is declared as"),
    ],
)  # fmt: skip
def test_damage_is_found(broken: Graph, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        verify(broken)


def test_good_graphs_pass_and_come_back() -> None:
    good = graph(node(Add(), "x _", "y"), types={"x": F2, "y": F2})
    assert verify(good) is good
    assert verify(graph(node(Scale(), "x", "y"))).types == {}


def test_infer_guards_impossible_sizes() -> None:
    with pytest.raises(ShapeError, match="negative extent"):
        infer_node(node(Fill((-1,)), "", "y"), ())
    with pytest.raises(CapacityError, match="larger than memory can be"):
        infer_node(node(Fill((1 << 40, 1 << 40)), "", "y"), ())
    with pytest.raises(CapacityError, match="more than is available"):
        run_node(node(Fill((1 << 50,)), "", "y"), ())


def test_faults_of_an_operator_come_out_as_errors_of_cenote() -> None:
    with pytest.raises(ModelError, match=r"node 'n' \(scale\): cannot work on nothing"):
        infer_node(node(Scale(), "_", "y", "n"), (None,))


def test_evaluate_checks_names_and_types() -> None:
    model = graph(node(Scale(2), "x", "y"))
    with pytest.raises(InputError, match="input 'x' is missing"):
        evaluate(model, {})
    with pytest.raises(InputError, match="'z' is no input"):
        evaluate(model, {"x": ONES, "z": ONES})
    with pytest.raises(InputError, match="float64, the model takes float32"):
        evaluate(model, {"x": ONES.astype(np.float64)})
    swapped = ONES.astype(">f4")[::-1]
    assert evaluate(model, {"x": swapped})["y"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "change",
    [
        {"types": {"x": F2, "y": F3}},
        {"types": {"x": F2, "y": F2, "q": F2}},
        {"outputs": ("q",)},
        {"constants": {"y": ONES}},
        {"nodes": (node(Scale(), "q", "y"),)},
    ],
)
def test_a_graph_verified_before_is_not_verified_again_but_any_change_is(change: dict[str, object]) -> None:
    before = verify(graph(node(Scale(), "x", "y"), types={"x": F2, "y": F2}))
    assert verify(before.replace(), since=before) is before
    with pytest.raises(ModelError):
        verify(before.replace(**change), since=before)


def test_types_just_inferred_are_not_asked_for_again_but_those_of_new_nodes_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = graph(
        node(Scale(2), "x", "a"), node(Same(), "a", "b _"), node(Scale(3), "b", "y"),
        types=dict.fromkeys(("x", "a", "b", "y"), F2),
    )  # fmt: skip
    asked: list[str] = []

    class Asking(Inference):
        def of(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
            asked.append(str(node.op))
            return super().of(node, inputs)

    monkeypatch.setattr(verification, "Inference", Asking)
    optimize(before, jit.host_target(), inferred=True)
    assert asked == ["scale(by=3)"]  # reads %a now
    optimize(before, jit.host_target())
    assert sorted(asked[1:]) == ["scale(by=2)", "scale(by=3)"]
    wrong = before.replace(types={**before.types, "y": F3})
    with pytest.raises(ModelError, match="its type says"):
        optimize(wrong, jit.host_target(), inferred=True)
