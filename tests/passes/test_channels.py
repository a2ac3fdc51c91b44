"""Channel movements are composed: what a ShuffleNet unit does to its channels is one selection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.trace import Trace
from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.elementwise.activation import Relu, Sigmoid
from cenote.ops.movement.channel_gather import ChannelGather
from cenote.ops.movement.indexing import Gather
from cenote.ops.movement.parts import Concat, Slice, Split
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.passes import channels
from cenote.passes.channels import compose_channels
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.specialize import specialize

SHAPE = (1, 10, 3, 4)


def unit(channels: int = 10) -> Graph:
    """a, b -> concat -> shuffle in two groups -> split; the first part passes on, the second is computed on."""
    each = channels
    constants = {
        "spread": np.array([1, 2, each, 3, 4]),
        "joined": np.array([1, 2 * each, 3, 4]),
        "sizes": np.array([each, each]),
    }
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Sigmoid(), ("x",), ("b",)),
        Node(Concat(axis=1), ("a", "b"), ("c",)),
        Node(Reshape(), ("c", "spread"), ("d",)),
        Node(Transpose((0, 2, 1, 3, 4)), ("d",), ("e",)),
        Node(Reshape(), ("e", "joined"), ("f",)),
        Node(Split(axis=1, count=2), ("f", "sizes"), ("p", "q")),
        Node(Relu(), ("q",), ("r",)),
        Node(Concat(axis=1), ("p", "r"), ("y",)),
    )
    return Graph((Declared("x", np.dtype(np.float32), (1, each, 3, 4)),), ("y",), nodes, constants)


def typed(graph: Graph) -> Graph:
    shape = tuple(d for d in graph.inputs[0].shape or () if isinstance(d, int))
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def test_a_shuffle_unit_becomes_two_selections() -> None:
    graph = typed(unit())
    composed = eliminate_dead(compose_channels(graph, 8))
    verify(composed)
    assert [node.op.name for node in composed.nodes].count("channel_gather") == 2
    assert {type(node.op) for node in composed.nodes} == {Relu, Sigmoid, ChannelGather}
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    assert np.array_equal(evaluate(graph, {"x": x})["y"], evaluate(composed, {"x": x})["y"])


def test_it_is_idempotent() -> None:
    once = eliminate_dead(compose_channels(typed(unit()), 8))
    assert eliminate_dead(compose_channels(once, 8)) == once


def test_aligned_movements_are_left_to_the_memory_plan() -> None:
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Concat(axis=1), ("a", "x"), ("c",)),
        Node(Relu(), ("c",), ("y",)),
    )
    graph = typed(Graph((Declared("x", np.dtype(np.float32), (1, 16, 3, 4)),), ("y",), nodes))
    assert compose_channels(graph, 8) is graph


def test_a_reshape_that_is_no_shuffle_is_left_alone() -> None:
    constants = {"spread": np.array([1, 2, 8, 3, 4]), "joined": np.array([1, 16, 3, 4])}
    nodes = (
        Node(Relu(), ("x",), ("c",)),
        Node(Reshape(), ("c", "spread"), ("d",)),
        Node(Transpose((0, 1, 2, 3, 4)), ("d",), ("e",)),
        Node(Reshape(), ("e", "joined"), ("y",)),
    )
    graph = typed(Graph((Declared("x", np.dtype(np.float32), (1, 16, 3, 4)),), ("y",), nodes, constants))
    assert compose_channels(graph, 8) is graph


def selection(op: Op, *constants: list[int]) -> tuple[list[str], bool]:
    """Operators between two others once composed, and whether the numbers are the same."""
    given = {f"c{index}": np.array(value) for index, value in enumerate(constants)}
    nodes = (Node(Relu(), ("x",), ("a",)), Node(op, ("a", *given), ("b",)), Node(Sigmoid(), ("b",), ("y",)))
    graph = typed(Graph((Declared("x", np.dtype(np.float32), SHAPE),), ("y",), nodes, given))
    composed = verify(eliminate_dead(compose_channels(graph, 8)))
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    same = np.array_equal(evaluate(graph, {"x": x})["y"], evaluate(composed, {"x": x})["y"])
    return [node.op.name for node in composed.nodes[1:-1]], same


@pytest.mark.parametrize(
    ("op", "constants"),
    [
        (Gather(1), ([9, 0, 3, 3, -1, -10],)),
        (Gather(-3), ([1, 0],)),
        (Slice(), ([3], [7], [1])),
        (Slice(), ([0], [5], [-3])),
        (Slice(), ([1], [10], [1], [3])),
        (Slice(), ([-1], [-99], [1], [-2])),
    ],
)
def test_constant_selections_are_gathers_of_channels(op: Op, constants: tuple[list[int], ...]) -> None:
    assert selection(op, *constants) == (["channel_gather"], True)


@pytest.mark.parametrize(
    ("op", "constants"),
    [
        (Gather(2), ([1, 0],)),
        (Gather(1, invalid="zero"), ([1, 12],)),
        (Slice(), ([0, 1], [5, 3], [1, 2])),
        (Slice(), ([1], [3], [3])),
    ],
)
def test_other_selections_stay(op: Op, constants: tuple[list[int], ...]) -> None:
    assert selection(op, *constants) == ([op.name], True)


def test_an_open_axis_in_place_of_channels_is_not_asked_for() -> None:
    """Tokens have no channels at axis 1: a class token before so many patches, parts of them, and flipped halves."""
    trace = Trace()
    open_tokens = TensorType.of(np.float32, (2, trace.dimension(37), 24))
    constants = {
        "begin": np.array([1]),
        "end": np.array([2**31]),
        "axis": np.array([1]),
        "class": np.zeros((2, 1, 24), np.float32),
        "first": np.array([0]),
    }
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Concat(axis=1), ("class", "a"), ("tokens",)),
        Node(Slice(), ("tokens", "begin", "end", "axis"), ("patches",)),
        Node(Concat(axis=1), ("patches", "tokens", "patches"), ("thrice",)),
        Node(Gather(axis=1), ("thrice", "first"), ("y",)),
    )
    inputs = (Declared("x", np.dtype(np.float32), (2, None, 24)),)
    graph = specialize(Graph(inputs, ("thrice", "y"), nodes, constants), {"x": open_tokens}).graph
    before = len(trace.guards)
    assert compose_channels(graph, 8) is graph
    assert len(trace.guards) == before


def test_a_split_with_a_part_of_too_many_channels_stays() -> None:
    """One token is split from 3,136 that follow it, as attention with a token for the class does."""
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Split(axis=1, count=2), ("a", "sizes"), ("class", "others")),
        Node(Sigmoid(), ("others",), ("b",)),
        Node(Concat(axis=1), ("class", "b"), ("y",)),
    )
    declared = Declared("x", np.dtype(np.float32), (1, 3137, 2))
    graph = typed(Graph((declared,), ("y",), nodes, {"sizes": np.array([1, 3136])}))
    composed = compose_channels(graph, 8)
    verify(composed)
    x = np.random.default_rng(0).standard_normal((1, 3137, 2)).astype(np.float32)
    assert np.array_equal(evaluate(composed, {"x": x})["y"], evaluate(graph, {"x": x})["y"])


@settings(max_examples=150, derandomize=True, deadline=None)
@given(data=st.data())
def test_any_movements_are_what_they_were(data: st.DataObject) -> None:
    """Random concats, splits, slices and selections, under limits that some of their results exceed."""
    nodes, constants = [Node(Relu(), ("x",), ("v0",))], {}
    counts = {"v0": 10}
    for step in range(data.draw(st.integers(1, 8))):
        source = data.draw(st.sampled_from([*counts]))
        kind, count, made = data.draw(st.sampled_from("csgr")), counts[source], f"v{step + 1}"
        if kind == "c":
            other = data.draw(st.sampled_from([*counts]))
            nodes.append(Node(Concat(axis=1), (source, other), (made,)))
            counts[made] = count + counts[other]
        elif kind == "s" and count > 1:
            cut = data.draw(st.integers(1, count - 1))
            constants[f"{made}.sizes"] = np.array([cut, count - cut])
            parts = (f"{made}.0", f"{made}.1")
            nodes.append(Node(Split(axis=1, count=2), (source, f"{made}.sizes"), parts))
            counts |= dict(zip(parts, (cut, count - cut), strict=True))
        elif kind == "g":
            picked = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=9))
            constants[f"{made}.picked"] = np.array(picked)
            nodes.append(Node(Gather(axis=1), (source, f"{made}.picked"), (made,)))
            counts[made] = len(picked)
        else:
            nodes.append(Node(Sigmoid(), (source,), (made,)))
            counts[made] = count
    outputs = tuple(list(counts)[-3:])
    declared = Declared("x", np.dtype(np.float32), (1, 10, 3))
    graph = typed(Graph((declared,), outputs, tuple(nodes), constants))
    x = np.random.default_rng(0).standard_normal((1, 10, 3)).astype(np.float32)
    wanted = evaluate(graph, {"x": x})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(channels, "_MOST_CHANNELS", data.draw(st.sampled_from([4, 8, 2048])))
        patched.setattr(channels, "_MOST_SOURCES", data.draw(st.sampled_from([1, 2, 16])))
        composed = compose_channels(graph, 4)
    verify(composed)
    found = evaluate(composed, {"x": x})
    assert all(np.array_equal(found[name], wanted[name]) for name in outputs)
