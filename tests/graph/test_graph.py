"""Graphs as text."""

from __future__ import annotations

import numpy as np

from cenote.core.types import Layout, TensorType
from cenote.graph.graph import print_graph
from tests.passes.toys import Add, Same, Scale, graph, node


def test_untyped_graph_with_absent_values_and_labels() -> None:
    before = graph(
        node(Same(), "x", "_ m"),
        node(Add(), "m _", "y", "the sum"),
        shape=("N", 3),
        constants={"w": np.zeros((3, 3)), "s": np.array([1, -1])},
        name="net",
    )
    assert str(before) == "\n".join(
        [
            "graph net(%x: f32[N,3]) {",
            "  %w: f64[3,3] = constant",
            "  %s: i64[2] = constant [1, -1]",
            "  _, %m = same %x",
            "  %y = add %m, _",
            "  return %y",
            "}",
        ]
    )
    assert "%y = add %m, _  # the sum" in print_graph(before, labels=True)


def test_types_and_layouts() -> None:
    types = {name: TensorType.of(np.float32, (1, 8, 4, 4)) for name in ("x", "a", "y")}
    before = graph(
        node(Scale(2), "x", "a"),
        node(Scale(), "a", "y"),
        types=types,
        layouts={"a": Layout(8, ((1, 1), (1, 1)))},
    )
    assert "  %a = scale(by=2) %x : f32[1,8,4,4] c8 1+1 1+1\n  %y = scale %a : f32[1,8,4,4]\n" in str(before)


def test_unknown_shapes() -> None:
    assert "%x: f32[...]" in str(graph(node(Scale(), "x", "y")))
    assert "%x: f32[?]" in str(graph(node(Scale(), "x", "y"), shape=(None,)))  # type: ignore[arg-type]
