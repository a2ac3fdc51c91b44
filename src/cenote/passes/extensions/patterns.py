"""Patterns of nodes: a node by its operator, its attributes and what its inputs must be, and what stands for it in a
graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, shown
from cenote.core.types import Array
from cenote.graph.graph import Node
from cenote.ops.base import Op
from cenote.ops.user_function import UserFunction

Found = tuple[dict[str, str], dict[str, Node]]
"""Values and nodes by the names that a pattern gives them."""


@dataclass(frozen=True)
class Constant:
    """Input of a pattern that must be a constant, under a name for `Match.constant`."""

    name: str


@dataclass(frozen=True, eq=False)
class Pattern:
    """A node of a graph, by the name of its operator, and what its inputs must be.

    operator    name that graphs print: "mul", "max_pool", "shop.Frobnicate"
    inputs      for each input another pattern, the name of any value ("x"; the same name is the same value), a
                `Constant`, or None for one that is absent. A pattern in several places is the same node
    name        name for `Match.node`; that of the operator by default
    attributes  attributes that it must have: values, or functions that return whether one is accepted
    any_order   whether two inputs may also come in the other order

    Values between the nodes of a pattern must be read by these nodes alone. Raises ArgumentError for inputs of another
    kind, and for a name of two different nodes.
    """

    operator: str
    inputs: Sequence[Pattern | Constant | str | None] = ()
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    any_order: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "name", self.name or self.operator)
        for each in self.inputs:
            if not (each is None or isinstance(each, Pattern | Constant | str)):
                raise ArgumentError(f"pattern {self.operator}: {shown(each)} is no input of a pattern")
        names: dict[str, Pattern] = {}
        for each in self.nodes():
            if names.setdefault(each.name, each) is not each:
                raise ArgumentError(f"pattern {self.operator}: two nodes have the name {shown(each.name)}")

    def nodes(self) -> Iterator[Pattern]:
        """Yield the patterns of all nodes."""
        yield self
        for each in self.inputs:
            if isinstance(each, Pattern):
                yield from each.nodes()


def attributes_of(op: Op) -> Mapping[str, Any]:
    """Return the attributes of an operator, by name."""
    if isinstance(op, UserFunction):
        return op.keywords
    return {each.name: getattr(op, each.name) for each in fields(op)}  # type: ignore[arg-type]  # all are dataclasses


@dataclass(frozen=True)
class PatternSearch:
    """Search for a pattern in nodes: who makes each value, how often each is read (outputs of the graph count), and
    constants."""

    makers: Mapping[str, Node]
    uses: Counter[str]
    constants: Mapping[str, Array]

    def find(self, pattern: Pattern, last: Node) -> Found | None:
        """Return what stands for the pattern whose last node is `last`, if other nodes read no value inside."""
        for values, nodes in self._at_node(pattern, last, {}, {}):
            every = [*nodes.values()]
            inside = Counter(name for each in every for name in each.inputs)
            kept = [*last.outputs[1:], *(name for each in every if each is not last for name in each.outputs)]
            if all(self.uses[name] == inside[name] for name in kept if name):
                return values, nodes
        return None

    def _at_node(
        self, pattern: Pattern, node: Node, values: dict[str, str], nodes: dict[str, Node]
    ) -> Iterator[Found]:
        """Yield the ways in which a pattern is a node, as the values and nodes that it names."""
        if pattern.name in nodes:
            if nodes[pattern.name] is node:
                yield values, nodes
            return
        inputs = (*node.inputs, *[""] * (len(pattern.inputs) - len(node.inputs)))
        if node.op.name != pattern.operator or any(inputs[len(pattern.inputs) :]):
            return
        if not _has(attributes_of(node.op), pattern.attributes):
            return
        inputs = inputs[: len(pattern.inputs)]
        orders = (inputs, inputs[::-1]) if pattern.any_order and len(inputs) == 2 else (inputs,)
        for order in orders:
            yield from self._at_inputs(pattern.inputs, order, values, {**nodes, pattern.name: node})

    def _at_inputs(
        self,
        wanted: Sequence[Pattern | Constant | str | None],
        names: Sequence[str],
        values: dict[str, str],
        nodes: dict[str, Node],
    ) -> Iterator[Found]:
        if not wanted:
            yield values, nodes
            return
        first, name = wanted[0], names[0]
        ways: Iterable[Found]
        if isinstance(first, Pattern):
            maker = self.makers.get(name)
            ways = ()
            if maker is not None and maker.outputs[0] == name:
                ways = self._at_node(first, maker, values, nodes)
        elif first is None:
            ways = () if name else ((values, nodes),)
        else:
            ways = self._at_value(first, name, values, nodes)
        for found in ways:
            yield from self._at_inputs(wanted[1:], names[1:], *found)

    def _at_value(
        self, wanted: Constant | str, name: str, values: dict[str, str], nodes: dict[str, Node]
    ) -> Iterator[Found]:
        key = wanted.name if isinstance(wanted, Constant) else wanted
        fits = bool(name) and (not isinstance(wanted, Constant) or name in self.constants)
        if fits and values.get(key, name) == name:
            yield {**values, key: name}, nodes


def _has(attributes: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a node has the attributes that a pattern asks for."""
    missing = object()
    for name, accepted in wanted.items():
        value = attributes.get(name, missing)
        if value is missing or not (accepted(value) if callable(accepted) else _equal(value, accepted)):
            return False
    return True


def _equal(value: object, wanted: object) -> bool:
    if isinstance(value, np.ndarray) or isinstance(wanted, np.ndarray):
        return np.array_equal(value, wanted)  # type: ignore[arg-type]  # anything that is like an array
    return bool(value == wanted)
