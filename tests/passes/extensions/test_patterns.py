"""Patterns find nodes by operators, attributes and inputs, and refuse values that others read."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cenote.core.errors import ArgumentError
from cenote.graph.graph import Graph, Node
from cenote.passes.extensions.patterns import Constant, Pattern, PatternSearch
from tests.passes.toys import Add, Same, Scale, graph, node


def found(pattern: Pattern, of: Graph, last: str) -> tuple[dict[str, str], dict[str, Node]] | None:
    uses = Counter(name for each in of.nodes for name in each.inputs)
    uses.update(of.outputs)
    return PatternSearch(of.producers(), uses, of.constants).find(pattern, of.producers()[last])


def test_values_constants_and_nodes_are_named() -> None:
    before = graph(node(Scale(2), "x", "a"), node(Add(), "c a", "y"), constants={"c": np.ones(2, np.float32)})
    pattern = Pattern("add", [Pattern("scale", ["v"], "twice"), Constant("one")], any_order=True)
    match = found(pattern, before, "y")
    assert match is not None
    assert match[0] == {"v": "x", "one": "c"}
    assert {name: each.outputs for name, each in match[1].items()} == {"add": ("y",), "twice": ("a",)}
    fixed = Pattern("add", [Pattern("scale", ["v"]), Constant("one")])
    assert found(fixed, before, "y") is None
    assert found(Pattern("add", ["one", Constant("v")], any_order=True), before, "y") is not None
    assert found(Pattern("add", [Constant("v"), Constant("w")], any_order=True), before, "y") is None


def test_one_name_is_one_value_and_one_pattern_one_node() -> None:
    twice = graph(node(Scale(2), "x", "a"), node(Add(), "a a", "y"))
    apart = graph(node(Scale(2), "x", "a"), node(Scale(2), "x", "b"), node(Add(), "a b", "y"))
    scaled = Pattern("scale", ["v"])
    assert found(Pattern("add", ["v", "v"]), twice, "y") is not None
    assert found(Pattern("add", ["v", "v"]), apart, "y") is None
    assert found(Pattern("add", [scaled, scaled]), twice, "y") is not None
    assert found(Pattern("add", [scaled, scaled]), apart, "y") is None
    assert found(Pattern("add", [scaled, Pattern("scale", ["v"], "other")]), apart, "y") is not None


def test_a_value_that_another_node_or_the_caller_reads_stays() -> None:
    pattern = Pattern("scale", [Pattern("scale", ["v"], "first")])
    nodes = node(Scale(2), "x", "a"), node(Scale(3), "a", "y")
    assert found(pattern, graph(*nodes), "y") is not None
    assert found(pattern, graph(*nodes, outputs="y a"), "y") is None
    assert found(pattern, graph(*nodes, node(Scale(4), "a", "z"), outputs="y z"), "y") is None


def test_attributes_are_compared_or_asked() -> None:
    before = graph(node(Scale(2), "x", "y"))
    for wanted, fits in (
        ({"by": 2}, True),
        ({"by": 3}, False),
        ({"to": 2}, False),
        ({"by": lambda by: by < 3}, True),
    ):
        assert (found(Pattern("scale", ["v"], attributes=wanted), before, "y") is not None) is fits


def test_absent_inputs_and_other_outputs() -> None:
    before = graph(node(Add(), "x", "y"))
    assert found(Pattern("add", ["v", None]), before, "y") is not None
    assert found(Pattern("add", ["v", "w"]), before, "y") is None
    assert found(Pattern("add", ["v"]), graph(node(Add(), "x x", "y")), "y") is None
    read = graph(node(Same(), "x", "a m"), node(Scale(2), "a", "y"), outputs="y m")
    unread = graph(node(Same(), "x", "a m"), node(Scale(2), "a", "y"))
    pattern = Pattern("scale", [Pattern("same", ["v"])])
    assert found(pattern, read, "y") is None
    assert found(pattern, unread, "y") is not None


def test_wrong_patterns_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"pattern add: 3 is no input"):
        Pattern("add", [3])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match=r"pattern add: two nodes have the name 'scale'"):
        Pattern("add", [Pattern("scale", ["v"]), Pattern("scale", ["w"])])
