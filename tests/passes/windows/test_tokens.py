"""Convolutions between tokens read and write maps that are turned in one step, with the same numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.checks import int64s
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Gelu, Relu
from cenote.ops.elementwise.unary import Abs
from cenote.ops.movement.reshape import Reshape
from cenote.ops.movement.transpose import Transpose
from cenote.ops.values import seeded
from cenote.passes.cleanup import eliminate_dead
from cenote.passes.specialize import specialize
from cenote.passes.windows.tokens import turn_tokens

TOKENS = (2, 12, 6)
MAP = (2, 6, 3, 4)
SWAP = Transpose((0, 2, 1))
WEIGHTS = {"w": seeded((6, 1, 3, 3)), "v": seeded((6, 6, 1, 1))}


@dataclass
class Chain:
    """Nodes one after the other, each of which reads the last one's result and constants."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=lambda: dict(WEIGHTS))

    def then(self, op: Op, *others: str) -> Chain:
        last = self.nodes[-1].outputs[0] if self.nodes else "x"
        self.nodes.append(Node(op, (last, *others), (f"n{len(self.nodes)}",)))
        return self

    def shaped(self, *shape: int) -> Chain:
        name = f"s{len(self.nodes)}"
        self.constants[name] = int64s(shape)
        return self.then(Reshape(), name)

    def turned(self, *also: str, shape: tuple[int, ...] = TOKENS) -> list[str]:
        """Operators once tokens are turned; the numbers are the same."""
        outputs = (self.nodes[-1].outputs[0], *also)
        graph = Graph(
            (Declared("x", np.dtype(np.float32), shape),), outputs, tuple(self.nodes), self.constants
        )
        graph = specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph
        after, x = verify(eliminate_dead(turn_tokens(graph))), seeded(shape)
        wanted, got = evaluate(graph, {"x": x}), evaluate(after, {"x": x})
        for name in outputs:
            np.testing.assert_array_equal(got[name], wanted[name])
        assert str(turn_tokens(after)) == str(after)
        return [_name(node.op) for node in after.nodes]


def _name(op: Op) -> str:
    return f"{op.name}{op.order}" if isinstance(op, Transpose) else op.name


FIRST, LAST = "transpose(0, 3, 1, 2)", "transpose(0, 2, 3, 1)"


def mixed() -> Chain:
    return Chain().then(SWAP).shaped(*MAP).then(Conv(groups=6, pads=((1, 1), (1, 1))), "w")


def test_there_and_back() -> None:
    back = mixed().shaped(2, 6, 12).then(SWAP)
    assert back.turned() == ["reshape", FIRST, "conv", LAST, "reshape"]


@pytest.mark.parametrize("op", [Gelu(), Relu()])
def test_activations_go_before_the_reshape(op: Op) -> None:
    back = mixed().shaped(2, 6, 12).then(op).then(SWAP)
    assert back.turned() == ["reshape", FIRST, "conv", op.name, LAST, "reshape"]


def test_two_convolutions_and_three_axes() -> None:
    deep = Chain().then(SWAP).shaped(2, 6, 2, 3, 2)
    deep.constants["w"] = seeded((6, 1, 1, 1, 1))
    assert deep.then(Conv(groups=6), "w").turned() == ["reshape", "transpose(0, 4, 1, 2, 3)", "conv"]
    twice = mixed().then(Relu()).then(Conv(), "v").shaped(2, 6, 12).then(SWAP)
    assert twice.turned() == ["reshape", FIRST, "conv", "relu", "conv", LAST, "reshape"]


def test_what_is_read_elsewhere_stays() -> None:
    swap = "transpose(0, 2, 1)"
    assert mixed().turned("n0") == [swap, "reshape", "conv"]
    assert mixed().shaped(2, 6, 12).then(SWAP).turned("n3") == ["reshape", FIRST, "conv", "reshape", swap]
    assert mixed().shaped(2, 6, 12).then(Gelu()).turned("n3") == ["reshape", FIRST, "conv", "reshape", "gelu"]


def test_other_shapes_stay() -> None:
    assert mixed().shaped(2, 3, 24).then(SWAP).turned()[-2:] == ["reshape", "transpose(0, 2, 1)"]
    split = Chain().then(SWAP).shaped(2, 3, 6, 4)
    split.constants["w"] = seeded((3, 1, 3, 3))
    assert split.then(Conv(groups=3), "w").turned() == ["transpose(0, 2, 1)", "reshape", "conv"]
    assert Chain().then(SWAP).shaped(*MAP).then(Abs()).turned() == ["transpose(0, 2, 1)", "reshape", "abs"]
    other = Chain().then(Transpose((1, 2, 0))).shaped(12, 6, 2, 1)
    assert other.then(Conv(), "v").turned() == ["transpose(1, 2, 0)", "reshape", "conv"]
