"""Sums over stacked branches become additions, which convolutions take along."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.types import Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.elementwise.activation import Relu, Sigmoid, Tanh
from cenote.ops.movement.channel_gather import ChannelGather
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.reshape import Unsqueeze
from cenote.ops.reduction.reduce import ReduceSum
from cenote.passes.channels import compose_channels
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.specialize import specialize
from cenote.passes.stacks import add_stacks

SHAPE = (1, 6, 3, 4)


def stacked(
    stack: int, summed: int, keepdims: bool = False, parts: tuple[str, ...] = ("u0", "u1", "u2")
) -> Graph:
    """Three branches stacked along one axis and summed along another."""
    branches = [Node(op(), ("x",), (f"c{n}",)) for n, op in enumerate((Relu, Sigmoid, Tanh))]
    lifted = [Node(Unsqueeze(), (f"c{n}", "axis"), (f"u{n}",)) for n in range(3)]
    joined = Node(Concat(axis=stack), parts, ("s",))
    total = Node(ReduceSum((summed,), keepdims=keepdims), ("s",), ("y",))
    graph = Graph(
        (Declared("x", np.dtype(np.float32), SHAPE),), ("y",), (*branches, *lifted, joined, total),
        {"axis": np.array([stack])},
    )  # fmt: skip
    return specialize(graph, {"x": TensorType.of(np.float32, SHAPE)}).graph


@pytest.mark.parametrize("axis", [0, 1, 4, -1])
def test_a_sum_over_a_stack_is_added(axis: int) -> None:
    graph = stacked(axis, axis)
    added = eliminate_dead(add_stacks(graph))
    verify(added)
    assert sorted(node.op.name for node in added.nodes) == ["add", "add", "relu", "sigmoid", "tanh"]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    assert np.abs(evaluate(graph, {"x": x})["y"] - evaluate(added, {"x": x})["y"]).max() <= 1e-6


@pytest.mark.parametrize("parts", [("u0", "u1", "u1"), ("u2", "u2", "u2")])
def test_a_branch_may_be_there_more_than_once(parts: tuple[str, ...]) -> None:
    graph = stacked(1, 1, parts=parts)
    added = verify(eliminate_dead(add_stacks(graph)))
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    assert np.abs(evaluate(graph, {"x": x})["y"] - evaluate(added, {"x": x})["y"]).max() <= 1e-6


@pytest.mark.parametrize(("stack", "summed", "keepdims"), [(1, 2, False), (1, 1, True)])
def test_other_sums_stay(stack: int, summed: int, keepdims: bool) -> None:
    graph = stacked(stack, summed, keepdims)
    assert add_stacks(graph) is graph


def test_a_stack_of_few_is_no_selection_of_channels() -> None:
    """In the blocked layout it would be mostly padding."""
    graph = stacked(1, 2)
    assert not any(isinstance(node.op, ChannelGather) for node in compose_channels(graph, 16).nodes)
