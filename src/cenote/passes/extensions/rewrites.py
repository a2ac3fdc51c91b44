"""Rewrites of users: functions that say what takes the place of a pattern, and functions from graphs to graphs.

They run on the model's own operators, before all passes but the removal of identities, and once each, in the order of
the load's option `extensions`. What they make is checked: values have the types that they had, and the graph verifies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, CenoteError, ModelError, OperatorError, shown
from cenote.core.extensions.classes import OperatorClass
from cenote.core.extensions.functions import OperatorFunction
from cenote.core.extensions.registry import UserOperator
from cenote.core.extensions.switched import UserExtension
from cenote.core.load_options import LoadOptions
from cenote.core.types import Array, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import infer_node
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.movement.reshape import Identity
from cenote.ops.table import operators as every_operator
from cenote.ops.user_function import UserFunction, stored_attributes
from cenote.passes.cleanup import eliminate_dead, fresh
from cenote.passes.extensions.patterns import Pattern, PatternSearch, attributes_of


@dataclass(frozen=True)
class GraphValue:
    """A value of the graph."""

    name: str


@dataclass(frozen=True, eq=False)
class Computed:
    """A new node: its operator and its inputs."""

    op: Op
    inputs: tuple[Expression, ...]


Expression = GraphValue | Computed | Array | float
"""What a rewrite returns in place of a value."""


@dataclass(frozen=True)
class Match:
    """Nodes that a pattern has found: its values and nodes by the names that the pattern gives them."""

    values: Mapping[str, str]
    nodes: Mapping[str, Node]
    constants: Mapping[str, Array]
    types: Mapping[str, TensorType]
    operators: Mapping[str, UserOperator]

    def __getitem__(self, name: str) -> GraphValue:
        """Return a value, to compute with. Raises ArgumentError for a name that the pattern does not have."""
        if name not in self.values:
            raise ArgumentError(f"the pattern has no value {shown(name)} ({', '.join(self.values)})")
        return GraphValue(self.values[name])

    def type(self, name: str) -> TensorType:
        """Return the type of a value."""
        return self.types[self[name].name]

    def constant(self, name: str) -> Array:
        """Return the content of a constant. Raises ArgumentError for a value that is none."""
        found = self.constants.get(self[name].name)
        if found is None:
            raise ArgumentError(f"{shown(name)} is no constant; give it as Constant({shown(name)})")
        return found

    def node(self, name: str) -> Node:
        """Return a node. Raises ArgumentError for a name that the pattern does not have."""
        if name not in self.nodes:
            raise ArgumentError(f"the pattern has no node {shown(name)} ({', '.join(self.nodes)})")
        return self.nodes[name]

    def attributes(self, name: str) -> Mapping[str, Any]:
        """Return the attributes of a node, by name."""
        return attributes_of(self.node(name).op)

    def compute(self, operator: str | Op, *inputs: Expression, **attributes: Any) -> Computed:
        """Return a new node. `operator`: an operator, or the name of one, whose attributes follow; inputs are values
        (`match["x"]`), arrays, numbers of the first value's dtype, or other new nodes.

        Raises ArgumentError for an operator that is not known, and for attributes that it does not have.
        """
        if isinstance(operator, Op):
            return Computed(operator, inputs)
        known = self.operators.get(operator)
        if isinstance(known, OperatorFunction):
            return Computed(_of_function(operator, known, attributes), inputs)
        classes = (each.operator for each in self.operators.values() if isinstance(each, OperatorClass))
        named = (each for each in (*every_operator(), *classes) if each.name == operator)
        found = known.operator if known is not None else next(named, None)
        if found is None:
            raise ArgumentError(f"operator {shown(operator)} is not known")
        try:
            return Computed(found(**attributes), inputs)
        except TypeError as error:
            raise ArgumentError(f"operator {operator}: {error}") from error


def _of_function(operator: str, function: OperatorFunction, attributes: Mapping[str, Any]) -> Op:
    stored = stored_attributes(attributes)
    return UserFunction(operator, function.digest, stored, 1, function.pure, function.module)


def rewrites_of(options: LoadOptions) -> tuple[Callable[[Graph], Graph], ...]:
    """Return the rewrites that are switched on, as passes."""
    known = options.user_operators
    return tuple(partial(rewrite, each, known) for each in options.switched_on() if not each.of)


def rewrite(extension: UserExtension, operators: Mapping[str, UserOperator], graph: Graph) -> Graph:
    """Return a graph after a user's rewrite.

    Raises OperatorError where its function fails, and for a graph that is none; ModelError, which names the rewrite,
    where inputs or the types of outputs change, or where the graph does not verify.
    """
    if extension.before is None:
        made, count = extension(graph), 1
        if not isinstance(made, Graph):
            raise OperatorError(f"{extension.where} returned {shown(made)}, not a Graph")
    else:
        made, count = _Replacing(extension, operators, graph).run()
    if made is graph or not count:
        return graph
    try:
        made = eliminate_dead(verify(_typed(made), since=graph))
        _check_ends(graph, made)
    except CenoteError as error:
        raise ModelError(f"{extension.where}: the graph is wrong behind it: {error}") from error
    return made.replace(rewritten=(*graph.rewritten, (extension.origin, count)))


def _typed(graph: Graph) -> Graph:
    """Return the graph with the types of the values that have none, and of no others."""
    types = {name: TensorType.known(value) for name, value in graph.constants.items()}
    types |= {name: kind for name, kind in graph.types.items() if name not in types}
    graph = graph.replace(types=types)
    for node in graph.nodes:
        if all(name in types for name in node.outputs if name):
            continue
        if any(name and name not in types for name in node.inputs):
            continue  # `verify` names the value that nothing makes
        found = infer_node(node, [types[name] if name else None for name in node.inputs])
        types |= {name: kind for name, kind in zip(node.outputs, found, strict=False) if name}
    values = {*graph.values()}
    return graph.replace(types={name: kind for name, kind in types.items() if name in values})


def _check_ends(before: Graph, after: Graph) -> None:
    """Raise ModelError where a graph has other inputs or outputs than it had, or outputs of other types."""
    if before.inputs != after.inputs or before.outputs != after.outputs:
        raise ModelError("it has other inputs or outputs")
    for name in before.outputs:
        was, now = before.type_of(name), after.type_of(name)
        if was is not None and now is not None and (was.dtype, was.shape) != (now.dtype, now.shape):
            raise ModelError(f"output '{name}' was {was}, and is {now}")


class _Replacing:
    """One walk over a graph that replaces what a pattern finds."""

    def __init__(self, extension: UserExtension, operators: Mapping[str, UserOperator], graph: Graph) -> None:
        if not isinstance(extension.before, Pattern):
            raise ArgumentError(f"{extension.where}: before={shown(extension.before)} is no Pattern")
        self.extension, self.operators, self.graph = extension, operators, graph
        self.pattern: Pattern = extension.before
        self.nodes: dict[int, Node] = {}
        self.constants = dict(graph.constants)
        self.types = {name: kind for name in graph.values() if (kind := graph.type_of(name)) is not None}
        self.makers: dict[str, Node] = {}
        self.names = {*graph.values(), *graph.types}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(graph.outputs)

    def run(self) -> tuple[Graph, int]:
        """Return the graph, and how often the pattern was replaced."""
        search, count = PatternSearch(self.makers, self.uses, self.constants), 0
        for node in self.graph.nodes:
            found = search.find(self.pattern, node)
            made = None
            if found is not None:
                made = self.extension(Match(*found, self.constants, self.types, self.operators))
            if found is None or made is None:
                self._append(node)
                continue
            count += 1
            self._replace(node, found[1], made)
        graph = self.graph.replace(
            nodes=tuple(self.nodes.values()), constants=self.constants, types=self.types
        )
        return graph, count

    def _append(self, node: Node) -> None:
        self.nodes[id(node)] = node
        self.makers.update((name, node) for name in node.outputs if name)

    def _replace(self, last: Node, nodes: Mapping[str, Node], made: Expression) -> None:
        """Put what was computed at the place of the last node; the others are gone with it."""
        for each in nodes.values():
            self.uses.subtract(each.inputs)
            self.nodes.pop(id(each), None)
        output = last.outputs[0]
        was = self.types.pop(output)
        if not isinstance(made, Computed):
            made = Computed(Identity(), (made,))
        self._emit(made, last, was, {}, output)
        now = self.types[output]
        if (was.dtype, was.shape) != (now.dtype, now.shape):
            raise ModelError(
                f"{self.extension.where}: '{output}' ({last.where}) was {was}, and what takes its place is {now}"
            )

    def _emit(
        self, made: Expression, last: Node, was: TensorType, emitted: dict[int, str], output: str = ""
    ) -> str:
        """Add the nodes of an expression; return the name of its value. `emitted`: those of parts, by their ids."""
        if isinstance(made, GraphValue):
            return made.name
        if id(made) in emitted:
            return emitted[id(made)]
        name = output or fresh(f"{last.outputs[0]}~{self.extension.name}", self.names)
        if isinstance(made, Computed):
            inputs = tuple([self._emit(each, last, was, emitted) for each in made.inputs])
            node = Node(made.op, inputs, (name,), last.label)
            self.uses.update(inputs)
            with self.extension.errors():
                self.types[name] = infer_node(node, [self.types[each] for each in inputs])[0]
            self._append(node)
        else:
            self.constants[name] = self._constant(made, was.dtype)
            self.types[name] = TensorType.known(self.constants[name])
        emitted[id(made)] = name
        return name

    def _constant(self, made: object, dtype: np.dtype[Any]) -> Array:
        """Return a constant; numbers of Python have the type of the value that is replaced."""
        if isinstance(made, bool | int | float):
            return np.asarray(made, dtype)
        if isinstance(made, np.ndarray | np.generic) and made.dtype.kind != "O":
            return np.array(made, order="C")
        raise OperatorError(
            f"{self.extension.where} computes with {shown(made)}, which is no value of the match, array or number"
        )
