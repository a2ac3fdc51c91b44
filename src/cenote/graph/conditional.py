"""Choice between two bodies of nodes whose condition the file leaves open (ONNX's If).

`passes/specialize` puts the chosen body in place of the node once the condition is known: from the inputs' shapes,
or, where it depends on data, from the results of the stage before.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import DTypeError, ShapeError, UnsupportedError
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Node
from cenote.graph.interpreter import run_node
from cenote.ops.base import Arrays, Op, ShapeFromData, Types


@dataclass(frozen=True)
class Branch(Op):
    """Operator that runs the nodes of `then` where the condition (the first input, one bool) holds, else those of
    `otherwise`.

    The other inputs are `reads`: all that either body takes from outside. Both make the values `makes`, the node's
    outputs, under the same names; no other name is made in both.
    """

    name: ClassVar[str] = "if"
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]

    def __str__(self) -> str:
        return self.name

    def chosen(self, condition: Array) -> tuple[Node, ...]:
        """Return the body to run. Raises DTypeError or ShapeError for a value that is no condition."""
        if condition.dtype != np.bool_:
            raise DTypeError(f"if: the condition must be bool, got {condition.dtype}")
        if condition.size != 1:
            raise ShapeError(f"if: the condition must be one element, got shape {list(condition.shape)}")
        return self.then if condition.item() else self.otherwise

    def infer(self, *inputs: TensorType | None) -> Types:
        raise ShapeFromData("each branch has types of its own")

    def reference(self, *inputs: Array | None) -> Arrays:
        condition, *captured = inputs
        assert condition is not None
        values: dict[str, Array | None] = dict(zip(self.reads, captured, strict=True))
        for node in self.chosen(condition):
            outputs = run_node(node, [values[name] if name else None for name in node.inputs])
            values.update({name: y for name, y in zip(node.outputs, outputs, strict=False) if name})
        made = [values[name] if name else np.zeros(0) for name in self.makes]
        return tuple(y for y in made if y is not None)


@dataclass(frozen=True)
class Refused(Op):
    """Placeholder for a branch that cannot be run: an error when it is taken, nothing otherwise."""

    name: ClassVar[str] = "unsupported"
    reason: str

    def infer(self, *inputs: TensorType | None) -> Types:
        raise UnsupportedError(self.reason)

    def reference(self, *inputs: Array | None) -> Arrays:
        raise UnsupportedError(self.reason)


def refusal(error: UnsupportedError, makes: tuple[str, ...], label: str) -> Node:
    """Return the node of a branch that cannot be run, with the reason."""
    return Node(Refused(f"this branch was taken, but {error}"), (), makes, label)


def branch_node(
    condition: str, makes: tuple[str, ...], then: tuple[Node, ...], otherwise: tuple[Node, ...], label: str
) -> Node:
    """Return the node of a choice, which reads the condition and all that either body takes from outside."""
    reads = dict[str, None]()
    for body in (then, otherwise):
        own = {name for node in body for name in node.outputs}
        reads.update((name, None) for node in body for name in node.inputs if name and name not in own)
    return Node(Branch(tuple(reads), makes, then, otherwise), (condition, *reads), makes, label)
