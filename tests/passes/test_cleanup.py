"""Dead code, identities and common subexpressions: printed graphs before and after, twice for idempotence."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Declared, Layout, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.checks import int64s
from cenote.ops.movement.reshape import Reshape
from cenote.passes.cleanup import eliminate_common, eliminate_dead, remove_identities
from cenote.passes.specialize import specialize
from tests.passes.toys import Add, Noise, Same, Scale, graph, node


def typed(untyped: Graph) -> Graph:
    return specialize(untyped, {d.name: TensorType.of(d.dtype, (2,)) for d in untyped.inputs}).graph


def body(result: Graph) -> str:
    """The printed nodes without types."""
    lines = [line.strip().split(" : ")[0] for line in str(result).splitlines()[1:-1]]
    return "\n".join(line for line in lines)


def check(graph_pass, before: Graph, after: str) -> Graph:  # type: ignore[no-untyped-def]
    """The pass gives the printed graph, changes nothing the second time, and does not change the results."""
    result = graph_pass(before)
    verify(result)
    assert body(result) == after.strip()
    assert str(graph_pass(result)) == str(result)
    feed = {d.name: np.array([1.5, -2.0], np.float32) for d in before.inputs}
    expected, seen = evaluate(before, feed), evaluate(result, feed)
    assert list(expected) == list(seen)
    for name, array in expected.items():
        np.testing.assert_array_equal(seen[name], array)
    return result


def test_dead_nodes_constants_types_and_outputs_go() -> None:
    before = graph(
        node(Same(), "x", "a mask"),
        node(Scale(2), "a", "unused"),
        node(Scale(3), "a", "y"),
        constants={"c": np.zeros(2, np.float32)},
    )
    result = check(eliminate_dead, typed(before), "%a = same %x\n%y = scale(by=3) %a\nreturn %y")
    assert set(result.types) == {"x", "a", "y"}
    assert eliminate_dead(before).constants == {}


def test_dead_keeps_the_position_of_a_later_output() -> None:
    before = graph(node(Same(), "x", "a mask"), outputs="mask")
    check(eliminate_dead, before, "_, %mask = same %x\nreturn %mask")


def test_identity_is_skipped_by_its_readers() -> None:
    before = graph(
        node(Scale(2), "x", "a"), node(Same(), "a", "b"), node(Same(), "b", "c"), node(Scale(3), "c", "y")
    )
    check(remove_identities, typed(before), "%a = scale(by=2) %x\n%y = scale(by=3) %a\nreturn %y")


def test_identity_that_makes_an_output_gives_its_name_to_the_maker() -> None:
    before = graph(node(Scale(2), "x", "a"), node(Scale(3), "a", "z"), node(Same(), "a", "y"), outputs="y z")
    check(remove_identities, typed(before), "%y = scale(by=2) %x\n%z = scale(by=3) %y\nreturn %y, %z")


def test_chain_of_identities_into_an_output() -> None:
    before = graph(
        node(Scale(2), "x", "a"),
        node(Same(), "a", "b"),
        node(Same(), "b", "y"),
        node(Add(), "b a", "z"),
        outputs="y z",
    )
    check(remove_identities, typed(before), "%y = scale(by=2) %x\n%z = add %y, %y\nreturn %y, %z")


def test_identities_that_must_stay() -> None:
    before = graph(
        node(Same(), "x", "y"),  # joins an input to an output
        node(Same(), "y", "z"),  # two outputs
        node(Same(), "x", "a mask"),  # the mask is read
        node(Scale(), "mask", "m"),
        node(Scale(), "a", "n"),
        outputs="y z m n",
    )
    after = """
%y = same %x
%z = same %y
%a, %mask = same %x
%m = scale %mask
%n = scale %a
return %y, %z, %m, %n"""
    check(remove_identities, typed(before), after)


def test_reshapes_that_undo_each_other_are_skipped() -> None:
    shapes = {"flat": int64s((-1,)), "back": int64s((2, 3)), "other": int64s((3, 2))}
    nodes = (
        Node(Scale(2), ("x",), ("a",)),
        Node(Reshape(), ("a", "flat"), ("b",)),
        Node(Reshape(), ("b", "other"), ("c",)),
        Node(Reshape(), ("c", "back"), ("d",)),
        Node(Scale(3), ("d",), ("y",)),
        Node(Scale(4), ("c",), ("z",)),
    )
    before = Graph((Declared("x", np.dtype(np.float32), (2, 3)),), ("y", "z"), nodes, shapes)
    after = remove_identities(specialize(before, {"x": TensorType.of(np.float32, (2, 3))}).graph)
    readers = {node.outputs[0]: node.inputs[0] for node in after.nodes}
    assert readers == {"a": "x", "b": "a", "c": "b", "y": "a", "z": "c"}


def test_identity_removal_drops_layouts_of_what_is_gone() -> None:
    before = typed(graph(node(Scale(2), "x", "a"), node(Same(), "a", "b"), node(Scale(3), "b", "y")))
    result = remove_identities(before.replace(layouts={"a": Layout(8), "b": Layout(8)}))
    assert dict(result.layouts) == {"a": Layout(8)}


def test_equal_nodes_are_computed_once() -> None:
    before = graph(
        node(Scale(2), "x", "a"),
        node(Scale(2), "x", "b"),
        node(Scale(3), "a", "c"),
        node(Scale(3), "b", "d"),
        node(Add(), "c d", "y"),
    )
    after = "%a = scale(by=2) %x\n%c = scale(by=3) %a\n%y = add %c, %c\nreturn %y"
    check(eliminate_common, typed(before), after)


def test_equal_constants_are_kept_once_and_outputs_keep_their_names() -> None:
    ones = np.ones(2, np.float32)
    before = graph(
        node(Add(), "x p", "a"),
        node(Add(), "x q", "b"),
        node(Add(), "a b", "y"),
        node(Add(), "x p", "z"),
        outputs="y z",
        constants={"p": ones, "q": ones.copy(), "r": np.array([1, 2], np.float32)},
    )
    result = eliminate_common(before)
    assert set(result.constants) == {"p", "r"}
    assert body(result).splitlines()[-4:] == [
        "%a = add %x, %p",
        "%y = add %a, %a",
        "%z = add %x, %p",
        "return %y, %z",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scale(0.0), Scale(-0.0)),  # equal to Python, not to arithmetic
        (Scale(1), Scale(True)),
        (Noise(2), Noise(2)),  # not pure
    ],
)
def test_nodes_that_only_look_equal_stay(one: Scale, other: Scale) -> None:
    before = graph(node(one, "x", "a"), node(other, "x", "b"), node(Add(), "a b", "y"))
    assert len(eliminate_common(before).nodes) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([0.0, 1.0]), np.array([-0.0, 1.0])),
        (np.zeros(2, np.int32), np.zeros(2, np.float32)),
        (np.zeros((1, 2)), np.zeros((2, 1))),
        (np.array([0, 1, 1 << 40]), np.array([0, 1, 1 << 41])),
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
    ],
)
def test_constants_that_differ_stay(one: np.ndarray, other: np.ndarray) -> None:
    before = graph(node(Scale(), "x", "y"), constants={"p": one, "q": other})
    assert set(eliminate_common(before).constants) == {"p", "q"}
    twins = graph(node(Scale(), "x", "y"), constants={"p": one, "q": one.copy()})
    assert set(eliminate_common(twins).constants) == {"p"}


def test_twin_without_the_output_that_is_read_is_not_used() -> None:
    before = graph(node(Same(), "x", "a"), node(Same(), "x", "b mask"), node(Scale(), "mask", "y"))
    assert len(eliminate_common(before).nodes) == 3
