"""Typing, folding and cutting graphs."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.errors import InputError, ModelError, ShapeError
from cenote.core.types import TensorType
from cenote.graph.cut import OPEN
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.passes.specialize import FOLD_BYTES, run_in_stages, specialize
from tests.passes.toys import Add, Fill, Noise, Positive, Reshape, Same, Scale, Shape, graph, node

F23 = TensorType.of(np.float32, (2, 3))


def test_types_everything_and_folds_what_is_constant() -> None:
    before = graph(
        node(Shape(), "x", "s"),
        node(Scale(1), "s", "t"),
        node(Reshape(), "x t", "r"),
        node(Scale(2), "w", "v"),
        node(Add(), "r v", "y"),
        constants={"w": np.ones((2, 3), np.float32)},
    )
    stage = specialize(before, {"x": F23})
    assert stage.rest is None
    assert stage.reasons == ()
    verify(stage.graph)
    assert str(stage.graph) == "\n".join(
        [
            "graph graph(%x: f32[2,3]) {",
            "  %t: i64[2] = constant [2, 3]",
            "  %v: f32[2,3] = constant [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]",
            "  %r = reshape %x, %t : f32[2,3]",
            "  %y = add %r, %v : f32[2,3]",
            "  return %y",
            "}",
        ]
    )
    again = specialize(stage.graph, {"x": F23})
    assert str(again.graph) == str(stage.graph)


def test_input_given_with_its_value_becomes_a_constant() -> None:
    before = graph(node(Reshape(), "x s", "y"), inputs="x s")
    before = before.replace(inputs=(before.inputs[0], type(before.inputs[0])("s", np.dtype(np.int64), (1,))))
    stage = specialize(before, {"x": F23, "s": TensorType.known(np.array([6]))})
    assert [declared.name for declared in stage.graph.inputs] == ["x"]
    assert stage.graph.types["y"] == TensorType.of(np.float32, (6,))


def test_outputs_that_are_inputs_or_constants_stay_outputs() -> None:
    before = graph(node(Shape(), "x", "s"), outputs="x s w", constants={"w": np.ones(1)})
    stage = specialize(before, {"x": F23})
    assert stage.graph.outputs == ("x", "s", "w")
    assert set(stage.graph.constants) == {"s", "w"}
    verify(stage.graph)


def test_large_and_impure_nodes_are_not_folded() -> None:
    extent = FOLD_BYTES // 4 + 1
    before = graph(
        node(Fill((extent,)), "", "a"), node(Noise(2), "w", "b"), node(Fill((3,)), "", "c"), outputs="a b c",
        constants={"w": np.ones(2)},
    )  # fmt: skip
    stage = specialize(before, {"x": F23})
    assert [n.op.name for n in stage.graph.nodes] == ["fill", "noise"]
    assert set(stage.graph.constants) == {"w", "c"}


def cut_by_content() -> Graph:
    """The new shape is computed from a second input."""
    return graph(
        node(Scale(2), "s", "t"),
        node(Scale(3), "x", "a"),
        node(Reshape(), "a t", "r"),
        node(Add(), "r w", "y"),
        node(Scale(4), "a", "z"),
        inputs="x s",
        outputs="y z",
        constants={"w": np.float32(1)[None].reshape(())},
    )


def test_content_that_is_not_known_cuts_the_graph() -> None:
    before = cut_by_content()
    before = before.replace(inputs=(before.inputs[0], type(before.inputs[0])("s", np.dtype(np.int64), None)))
    stage = specialize(before, {"x": F23, "s": TensorType.of(np.int64, (2,))})
    verify(stage.graph)
    assert [n.outputs[0] for n in stage.graph.nodes] == ["t", "a", "z"]
    assert stage.graph.outputs == ("z", "t", "a")
    assert stage.reasons == ("node reshape -> r: needs the content of 't'",)
    rest = stage.rest
    assert rest is not None
    assert (rest.host, rest.cut.takes, rest.cut.contents, rest.outputs) == ((), ("t", "a"), ("t",), ("y",))
    found = rest.cut.finding({"t": np.array([3, 2]), "a": np.ones((2, 3), np.float32)})
    assert found == ((("int64", (2,), ((), ())),), (3, 2)), "a shape's numbers count as sizes"
    following = rest.opened(found)
    final = specialize(following.graph, following.types)
    assert final.rest is None
    assert final.graph.types["y"] == TensorType.of(np.float32, (3, 2))
    assert [declared.name for declared in final.graph.inputs] == ["a"]


def cut_by_data() -> Graph:
    """A list whose length depends on the data, then its length as a shape."""
    return graph(
        node(Scale(2), "x", "a"),
        node(Positive(), "a", "p", "pick"),
        node(Shape(), "p", "n"),
        node(Scale(3), "p", "q"),
        node(Reshape(), "q n", "y"),
        node(Positive(), "q", "z"),
        node(Scale(5), "a", "u"),
        outputs="y z u p",
    )


def test_shape_from_data_cuts_and_its_node_runs_between_the_stages() -> None:
    stage = specialize(cut_by_data(), {"x": F23})
    verify(stage.graph)
    assert stage.graph.outputs == ("u", "a")
    assert stage.rest is not None
    assert [n.label for n in stage.rest.host] == ["pick"]
    assert "node 'pick' (positive): how many elements are positive" in stage.reasons[0]
    values = stage.rest.cut.run({"a": np.array([[1, -1, 2]], np.float32), "u": np.zeros(1)})
    found = stage.rest.cut.finding(values)
    assert found == ((("float32", (OPEN,)),), (2,))
    assert stage.rest.opened(found).types == {"p": TensorType.of(np.float32, (2,))}


def test_positive_of_constants_is_folded() -> None:
    before = graph(node(Positive(), "w", "y"), constants={"w": np.array([1.0, -1.0])})
    stage = specialize(before, {"x": F23})
    assert stage.rest is None
    assert stage.graph.constants["y"].tolist() == [1.0]


@pytest.mark.parametrize("make", [cut_by_content, cut_by_data])
def test_stages_give_what_the_interpreter_gives(make) -> None:  # type: ignore[no-untyped-def]
    before = make()
    feed = {"x": np.arange(-2, 4, dtype=np.float32).reshape(2, 3)}
    if len(before.inputs) > 1:
        before = before.replace(
            inputs=(before.inputs[0], type(before.inputs[0])("s", np.dtype(np.int64), None))
        )
        feed["s"] = np.array([3, 1]) // 2 + np.array([0, 3])  # twice that is the new shape: 2, 6
        feed["x"] = np.arange(12, dtype=np.float32).reshape(2, 6)
    ran = []

    def run(part: Graph, inputs):  # type: ignore[no-untyped-def]
        ran.append(verify(part))
        return evaluate(part, inputs)

    seen, expected = run_in_stages(before, feed, run), evaluate(before, feed)
    assert list(seen) == list(before.outputs)
    assert len(ran) == 2 + (make is cut_by_data)
    for name in before.outputs:
        np.testing.assert_array_equal(seen[name], expected[name])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": F23, "q": F23}, "'q' is no input"),
        ({"x": TensorType.of(np.float64, (2, 3))}, "float64, the model takes float32"),
        ({"x": TensorType.of(np.float32, (2,))}, "the rank must be 2"),
        ({"x": TensorType.of(np.float32, (2, 4))}, "axis 1 must be 3"),
    ],
)
def test_types_that_do_not_fit(types: dict[str, TensorType], message: str) -> None:
    with pytest.raises(InputError, match=message):
        specialize(graph(node(Scale(), "x", "y"), shape=("N", 3)), types)


def test_errors_name_the_node() -> None:
    before = graph(node(Add(), "x w", "y", "sum"), constants={"w": np.ones((3, 3), np.float32)})
    with pytest.raises(ShapeError, match=r"node 'sum' \(add\): add: f32\[2,3\] and f32\[3,3\]"):
        specialize(before, {"x": F23})


def test_more_outputs_than_the_operator_has() -> None:
    with pytest.raises(ModelError, match="gives 2 outputs, but 3"):
        specialize(graph(node(Same(), "x", "y a b")), {"x": F23})
