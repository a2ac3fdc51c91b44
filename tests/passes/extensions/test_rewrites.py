"""Rewrites of users: what they put in a graph is typed and verified, and refused by name where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.extensions.functions import OperatorFunction
from cenote.core.extensions.registry import in_use
from cenote.core.extensions.switched import UserExtension
from cenote.core.types import FLOAT32, TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.elementwise.unary import Exp, Neg
from cenote.passes.extensions.patterns import Constant, Pattern
from cenote.passes.extensions.rewrites import Match, rewrite
from cenote.passes.specialize import specialize
from tests.passes.toys import Add, Scale, graph, node
from tests.shop_algorithms import SHIFTED, cancel, fold

NEGATED = Pattern("neg", [Pattern("neg", ["x"], "first")])


def typed(untyped: Graph) -> Graph:
    return specialize(untyped, {"x": TensorType(FLOAT32, (2,))}).graph


def rewritten(
    function: Callable[..., Any],
    before: Graph,
    pattern: Pattern | None = None,
    functions: Mapping[str, Any] = {},
) -> Graph:
    return rewrite(UserExtension("shop.try", function, before=pattern), functions, before)


def texts(after: Graph) -> list[str]:
    return [f"{','.join(each.outputs)} = {each.op} {','.join(each.inputs)}" for each in after.nodes]


def test_a_pattern_is_replaced_and_counted() -> None:
    nodes = node(Neg(), "x", "a"), node(Neg(), "a", "b"), node(Neg(), "b", "c"), node(Neg(), "c", "d")
    before = typed(graph(*nodes, node(Exp(), "d", "y")))
    after = rewritten(lambda match: match["x"], before, NEGATED)
    # The walk goes on behind what it has made: b is x, then d is b.
    assert texts(after) == ["b = identity x", "d = identity b", "y = exp d"]
    ((origin, count),) = after.rewritten
    assert count == 2
    assert origin.startswith("shop.try, of test_rewrites.py:")


def test_new_nodes_take_constants_numbers_and_other_nodes() -> None:
    before = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "y")))

    def twice(match: Match) -> object:
        shared = match.compute("mul", match["x"], 2)
        return match.compute("add", shared, match.compute("sub", shared, np.ones(2, np.float32)))

    after = rewritten(twice, before, NEGATED)
    assert [str(each.op) for each in after.nodes] == ["mul", "sub", "add"]
    assert after.nodes[-1].outputs == ("y",)
    assert {value.dtype.name for value in after.constants.values()} == {"float32"}
    assert after.types["y"] == before.types["y"]


def test_none_leaves_a_match_and_the_graph() -> None:
    before = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "y")))
    assert rewritten(lambda match: None, before, NEGATED) is before
    assert rewritten(lambda match: match["x"], typed(graph(node(Neg(), "x", "y"))), NEGATED).rewritten == ()


def test_a_match_tells_types_constants_nodes_and_attributes() -> None:
    seen: list[object] = []

    def look(match: Match) -> None:
        seen.extend((match.type("v").shape, match.constant("c").tolist(), match.node("scale").outputs))
        seen.append(match.attributes("scale"))
        for wrong in (lambda: match["w"], lambda: match.constant("v"), lambda: match.node("neg")):
            with pytest.raises(cenote.ArgumentError):
                wrong()
        for operator, attributes in (("nothing", {}), ("softmax", {"axes": 1})):
            with pytest.raises(cenote.ArgumentError, match=operator):
                match.compute(operator, match["v"], **attributes)

    pattern = Pattern("add", [Pattern("scale", ["v"]), Constant("c")])
    before = graph(node(Scale(2), "x", "a"), node(Add(), "a c", "y"), constants={"c": np.ones(2, np.float32)})
    rewritten(look, typed(before), pattern)
    assert seen[:3] == [(2,), [1, 1], ("a",)]
    assert seen[3]["by"] == 2  # type: ignore[index]


def test_a_rewrite_computes_with_operators_of_users() -> None:
    halve = in_use("shop.Halve", OperatorFunction(lambda x, by=2.0: x / np.float32(by)))
    before = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "y")))
    functions = {"shop.Halve": halve}
    after = rewritten(
        lambda match: match.compute("shop.Halve", match["x"], by=4.0), before, NEGATED, functions
    )
    assert texts(after) == ["y = shop.Halve(by=4.0) x"]
    again = Pattern("shop.Halve", ["x"], attributes={"by": 4.0})
    assert texts(rewritten(lambda match: match["x"], after, again, functions)) == ["y = identity x"]


def test_a_function_of_graphs_leaves_types_out() -> None:
    before = typed(graph(node(Neg(), "x", "a"), node(Exp(), "a", "y")))

    def squared(whole: Graph) -> Graph:
        first, last = whole.nodes
        more = Node(Exp(), first.outputs, ("b",))
        return whole.replace(nodes=(first, more, replace(last, inputs=("b",))))

    after = rewritten(squared, before)
    assert after.types["b"] == before.types["a"]
    assert [count for _, count in after.rewritten] == [1]
    assert rewritten(lambda whole: whole, before) is before


@pytest.mark.parametrize(
    ("function", "pattern", "error", "said"),
    [
        (lambda match: match.compute("shape", match["x"]), NEGATED, cenote.ModelError, "'y' .* is i64"),
        (lambda match: np.ones(3, np.float32), NEGATED, cenote.ModelError, r"was f32\[2\], and what .* is f32\[3\]"),
        (lambda match: match.compute("add", match["x"], np.ones(3, np.float32)), NEGATED, cenote.ShapeError, "add"),
        (lambda match: "x", NEGATED, cenote.OperatorError, "computes with 'x', which is no value"),
        (lambda match: 1 / 0, NEGATED, cenote.OperatorError, "raised ZeroDivisionError"),
        (lambda match: match["z"], NEGATED, cenote.ArgumentError, "the pattern has no value 'z'"),
        (lambda whole: 3, None, cenote.OperatorError, "returned 3, not a Graph"),
        (lambda whole: whole.replace(nodes=whole.nodes[1:]), None, cenote.ModelError, "wrong behind it: .*reads 'a'"),
        (lambda whole: whole.replace(outputs=("a",)), None, cenote.ModelError, "other inputs or outputs"),
        (
            lambda whole: whole.replace(nodes=(*whole.nodes[:1], Node(Exp(), ("gone",), ("y",)))),
            None, cenote.ModelError, "reads 'gone'",
        ),
        (lambda match: match["x"], "neg", cenote.ArgumentError, "before='neg' is no Pattern"),
    ],
)  # fmt: skip
def test_wrong_rewrites_are_refused_by_name(
    function: Callable[..., Any], pattern: Pattern | None, error: type[Exception], said: str
) -> None:
    before = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "y")))
    with pytest.raises(error, match=rf"rewrite shop\.try, .*test_rewrites\.py:\d+\).*{said}"):
        rewritten(function, before, pattern)


def test_the_rewrites_of_the_shop() -> None:
    assert [each.name for each in SHIFTED.nodes()] == ["add"]
    assert callable(fold)
    before = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "b"), node(Exp(), "b", "y")))
    assert texts(rewritten(cancel, before)) == ["y = exp x"]
    kept = typed(graph(node(Neg(), "x", "a"), node(Neg(), "a", "y")))
    assert rewritten(cancel, kept) is kept
