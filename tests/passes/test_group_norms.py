"""Group normalisation in torch's pieces becomes the operator; what only looks like it stays."""

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
from cenote.ops.elementwise.binary import Add, Mul, Sub
from cenote.ops.movement.reshape import Reshape
from cenote.ops.normalization.instance_normalization import InstanceNormalization
from cenote.ops.values import seeded
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.group_norms import recognize_group_norms
from cenote.passes.specialize import specialize

SHAPE = (2, 12, 3, 5)
PLAIN = {"one": np.ones(4, np.float32), "zero": np.zeros(4, np.float32)}
PER_CHANNEL = {"w": seeded((12, 1, 1), 2), "v": seeded((1, 12, 1, 1), 3)}


def pieces(
    *behind: Node,
    grouped: tuple[int, ...] = (2, 4, 45),
    shape: tuple[int, ...] = SHAPE,
    also: tuple[str, ...] = (),
    more: dict[str, Array] | None = None,
) -> Graph:
    """The pieces up to the second reshape, %b, and what is behind them."""
    constants = {**PLAIN, **PER_CHANNEL, "r": int64s(grouped), "s": int64s(shape), **(more or {})}
    nodes = (
        Node(Relu(), ("x",), ("a",)),
        Node(Reshape(), ("a", "r"), ("g",)),
        Node(InstanceNormalization(1e-3), ("g", "one", "zero"), ("i",)),
        Node(Reshape(), ("i", "s"), ("b",)),
        *behind,
    )
    graph = Graph(
        (Declared("x", np.dtype(np.float32), shape),), (nodes[-1].outputs[0], *also), nodes, constants
    )
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def recognized(graph: Graph) -> list[str]:
    """Operators behind the activation; the numbers are the same."""
    after, shape = verify(eliminate_dead(recognize_group_norms(graph))), graph.types["x"].shape
    x = seeded(shape, 1)
    wanted, got = evaluate(graph, {"x": x}), evaluate(after, {"x": x})
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=2e-6 * float(np.abs(value).max()))
    return [node.op.name for node in after.nodes[1:]]


def node(op: Op, *names: str) -> Node:
    return Node(op, names[:-1], names[-1:])


@pytest.mark.parametrize(
    "behind",
    [
        (),
        (node(Mul(), "b", "w", "m"),),
        (node(Mul(), "v", "b", "m"), node(Add(), "w", "m", "y")),
        (node(Add(), "b", "v", "y"),),
    ],
)
def test_the_pieces_become_the_operator(behind: tuple[Node, ...]) -> None:
    assert recognized(pieces(*behind)) == ["group_normalization"]


def test_scales_of_groups_are_those_of_their_channels() -> None:
    own = {"one": seeded((4,), 5), "zero": seeded((4,), 6)}
    full = (node(Mul(), "b", "w", "m"), node(Add(), "m", "v", "y"))
    assert recognized(pieces(*full, more=own)) == ["group_normalization"]


@pytest.mark.parametrize(
    ("grouped", "shape"), [((2, 4, 3, 3, 5), SHAPE), ((1, 4, 6), (1, 12, 2)), ((1, 4, 72), (1, 12, 2, 3, 4))]
)
def test_other_numbers_of_axes(grouped: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert recognized(pieces(grouped=grouped, shape=shape)) == ["group_normalization"]


def test_what_is_read_elsewhere_is_made_too() -> None:
    behind = (node(Mul(), "b", "w", "m"), node(Add(), "m", "v", "y"))
    assert recognized(pieces(*behind, also=("b",)))[-2:] == ["mul", "add"]
    assert recognized(pieces(*behind, also=("m",))) == ["group_normalization", "add"]
    assert recognized(pieces(*behind, also=("i",)))[-1] == "add"


def test_what_looks_like_it_stays() -> None:
    across = recognized(pieces(grouped=(1, 4, 90)))  # groups of both pictures together
    assert across == ["reshape", "instance_normalization", "reshape"]
    rows = {"w": seeded((1, 1, 5), 7)}  # a factor of columns, not of channels
    assert recognized(pieces(node(Mul(), "b", "w", "m"), more=rows)) == ["group_normalization", "mul"]
    assert recognized(pieces(node(Sub(), "b", "w", "m"))) == ["group_normalization", "sub"]
