"""Specialisation: gives every value of a graph its concrete type, and folds constants on the way.

Most models are typed whole once the shapes of their inputs are known. Where a shape depends on the *content* of a
value that is only computed when the model runs, the graph is cut:

    stage = specialize(graph, types)          types: TensorType by input name
    stage.graph                               all that can be typed: a native program
    stage.rest                                None, or the part after it
    stage.rest.cut                            runs the host's part, and gives the finding for which the rest is compiled
    stage.rest.opened(finding)                -> the rest as a graph, and its types: specialise it, and so on

Two things cut: an operator raises ValueNeeded (Reshape to a computed shape), or a branch's condition is not known:
the rest then takes the content of that small value as a constant; or ShapeFromData (NonZero): the node runs by its
reference between the stages. So do loops, and nodes on strings, sequences or optionals. A branch whose condition is
known is replaced by the nodes it chooses. Nodes that do not depend on a cut stay in the first stage. `run_in_stages`
is the loop; a runtime may cache each stage's program by the types and contents that it was specialised to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from cenote.core.computed import SizedArray
from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, ModelError
from cenote.core.sizes import is_size
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.conditional import Branch
from cenote.graph.cut import Cut, CutFindings
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import Inference, check_input_types, run_node
from cenote.graph.sized_values import run_sized
from cenote.ops.base import ShapeFromData, Types, ValueNeeded

FOLD_BYTES = 4 << 20  # most bytes of a folded result,
FOLD_RATIO = 8  # or this many times the bytes of its inputs (int4 weights that become float32)


class Following(NamedTuple):
    """Rest of a cut graph, and the types to specialise it to: values whose type has a content become constants."""

    graph: Graph
    types: Mapping[str, TensorType]


@dataclass(frozen=True)
class Continuation:
    """Part of a graph after a cut: `nodes`, once the `cut` gives their inputs. `known` are the types of the values
    that it reads from before the cut."""

    cut: Cut
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    known: Mapping[str, TensorType]
    name: str

    @property
    def host(self) -> tuple[Node, ...]:
        """Nodes that run first, by their references."""
        return self.cut.host

    def opened(self, found: CutFindings) -> Following:
        """Return the rest as a graph, and the types of its inputs for a finding at the cut."""
        types = self.cut.types(self.known, found)
        inputs = tuple(Declared(name, kind.dtype, (None,) * kind.rank) for name, kind in types.items())
        return Following(Graph(inputs, self.outputs, self.nodes, self.constants, name=self.name), types)


@dataclass(frozen=True)
class Specialized:
    """Result of specialisation. `graph`: fully typed; its outputs are those outputs of the model that it makes, then
    the values that `rest` reads.

    An output may be an input or a constant of the graph. `reasons` say which node cut the graph, and why.
    """

    graph: Graph
    rest: Continuation | None = None
    reasons: tuple[str, ...] = ()


def specialize(graph: Graph, types: Mapping[str, TensorType]) -> Specialized:
    """Type the graph for inputs of these types. An input whose type carries its value becomes a constant.

    Raises InputError when a type does not fit what the model declares, and the errors of `Op.infer` naming
    the node.
    """
    check_input_types(graph, types)
    return _Specializer(graph, types).result()


def run_in_stages(
    graph: Graph,
    inputs: Mapping[str, Array],
    run: Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]],
) -> dict[str, Array]:
    """Specialise, run with `run`, and go on with the rest until every output is there."""
    outputs = graph.outputs
    values = {name: np.asarray(array) for name, array in inputs.items()}
    feed: Mapping[str, Array] = values
    types: Mapping[str, TensorType] = {name: TensorType(x.dtype, x.shape) for name, x in values.items()}
    while True:
        stage = specialize(graph, types)
        values.update(run(stage.graph, feed))
        if stage.rest is None:
            return {name: values[name] for name in outputs}
        cut = stage.rest.cut
        values = cut.run(values)
        if cut.ends:
            return {name: values[name] for name in outputs}
        graph, types = stage.rest.opened(cut.finding(values))
        feed = {name: values[name] for name, kind in types.items() if kind.value is None}


@dataclass
class _Specializer:
    """Walk over the nodes, in which each goes to the typed part, becomes constants, runs on the host, or is left for
    later."""

    graph: Graph
    given: Mapping[str, TensorType]
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    typed: list[Node] = field(default_factory=list)
    host: list[Node] = field(default_factory=list)
    later: list[Node] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)  # values that host or later nodes make
    after: set[str] = field(default_factory=set)  # values that later nodes make
    ready: set[str] = field(default_factory=set)  # outputs of the graph that the host makes
    contents: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    inference: Inference = field(default_factory=Inference)
    folded: dict[tuple[int, ...], tuple[Sequence[Array], object]] = field(default_factory=dict)

    def result(self) -> Specialized:
        for name, value in self.graph.constants.items():
            self._set_constant(name, value)
        for name, kind in self.given.items():
            if kind.value is not None:
                self._set_constant(name, kind.value)
            else:
                self.types[name] = self.inference.one(kind)
        for node in self.graph.nodes:
            self._visit(node)
        return self._cut()

    def _set_constant(self, name: str, value: Array) -> None:
        self.constants[name] = value
        self.types[name] = TensorType.known(value)

    def _visit(self, node: Node) -> None:
        if isinstance(node.op, Branch) and node.inputs[0] not in self.pending:
            self._choose(node, node.op)
            return
        if not self.pending.isdisjoint(node.inputs):
            between = node.op.apart and self.after.isdisjoint(node.inputs)
            self._postpone(node, self.host if between else self.later)
            self.ready.update(name for name in node.outputs if name and between)
            return
        inputs = tuple(self.types[name] if name else None for name in node.inputs)
        if node.op.apart or any(kind is not None and kind.dtype == object for kind in inputs):
            self.reasons.append(f"{node.where}: runs on the host")
            self._postpone(node, self.host)
            self.ready.update(name for name in node.outputs if name)
            return
        try:
            types = self.inference.of(node, inputs)
        except ValueNeeded as error:
            self._stop_for_content(node, error.index)
            return
        except ShapeFromData as error:
            if not self._constant_inputs(node):
                self.reasons.append(f"{node.where}: {error or 'the shape of its output depends on data'}")
                self._postpone(node, self.host)
                return
            types = ()
        if not self._fold(node, inputs, types):
            self.typed.append(node)
            self.types.update({name: t for name, t in zip(node.outputs, types, strict=False) if name})

    def _choose(self, node: Node, branch: Branch) -> None:
        """Continue with the nodes of the branch that the condition chooses."""
        condition = self.constants.get(node.inputs[0])
        if condition is None:
            self._stop_for_content(node, 0)
            return
        try:
            chosen = branch.chosen(condition)
        except CenoteError as error:
            raise error.located(node.where) from error
        for inner in chosen:
            self._visit(inner)

    def _postpone(self, node: Node, where: list[Node]) -> None:
        where.append(node)
        outputs = [name for name in node.outputs if name]
        self.pending.update(outputs)
        if where is self.later:
            self.after.update(outputs)

    def _stop_for_content(self, node: Node, index: int) -> None:
        name = node.inputs[index] if index < len(node.inputs) else ""
        if not name or name in self.constants:
            raise ModelError(f"{node.where}: needs the content of input {index}, which is absent or known")
        self.reasons.append(f"{node.where}: needs the content of '{name}'")
        self.contents.add(name)
        self._postpone(node, self.later)

    def _constant_inputs(self, node: Node) -> bool:
        return all(not name or name in self.constants for name in node.inputs)

    def _fold(self, node: Node, inputs: tuple[TensorType | None, ...], types: Types) -> bool:
        """Make the outputs constants where their content follows from types or constants."""
        if types and all(kind.value is not None for kind in types):
            values = [np.asanyarray(kind.value) for kind in types]
        else:
            if not self._constant_inputs(node) or not node.op.pure or node.op.folds_late(inputs):
                return False
            available = sum(kind.nbytes for kind in inputs if kind is not None)
            size = sum(kind.nbytes for kind in types)
            if is_size(size) or size > max(FOLD_BYTES, FOLD_RATIO * available):
                return False
            contents = [self.constants[name] if name else None for name in node.inputs]
            values = [*self._folded(node, contents)]
        for name, value in zip(node.outputs, values, strict=False):
            if name:
                self._set_constant(name, value)
        return True

    def _folded(self, node: Node, given: Sequence[Array | None]) -> Sequence[Array]:
        """The outputs of a node with constant inputs: computed once for nodes alike."""
        key = id(node.op), len(node.outputs), *map(id, given)
        if key not in self.folded:
            sized = any(isinstance(array, SizedArray) for array in given)
            self.folded[key] = (run_sized if sized else run_node)(node, given), (node.op, given)
        return self.folded[key][0]

    def _cut(self) -> Specialized:
        """The typed part, and the rest when there is one."""
        graph = self.graph
        done = [name for name in graph.outputs if name not in self.pending]
        rest = self._rest() if self.pending else None
        own_inputs = {name for name, kind in self.given.items() if kind.value is None}
        handed = () if rest is None else tuple(x for x in rest.known if x not in own_inputs and x not in done)
        outputs = (*done, *handed)
        if rest is not None:
            rest = replace(rest, cut=replace(rest.cut, made=outputs))
        used = _read_by(self.typed, outputs)
        constants = {name: value for name, value in self.constants.items() if name in used}
        by_typed = {name for node in self.typed for name in node.outputs} | own_inputs | set(constants)
        types = {
            name: kind if name in constants else kind.bare
            for name, kind in self.types.items()
            if name in by_typed
        }
        typed = Graph(
            tuple(declared for declared in graph.inputs if declared.name in own_inputs),
            outputs,
            tuple(self.typed),
            constants,
            types,
            name=graph.name,
        )
        return Specialized(typed, rest, tuple(self.reasons))

    def _rest(self) -> Continuation:
        outputs = tuple(
            name for name in self.graph.outputs if name in self.pending and name not in self.ready
        )
        by_host, by_later = _read_by(self.host, ()), _read_by(self.later, outputs)
        by_host_nodes = {name for node in self.host for name in node.outputs if name}
        # What sizes make is a constant for the later nodes, and for the host a value that the part before makes.
        by_either = by_host | by_later
        reads = tuple(
            name
            for name in self.types
            if (name in by_either and name not in self.constants)
            or (name in by_host and isinstance(self.constants.get(name), SizedArray))
        )
        takes = tuple(
            name for name in (*reads, *by_host_nodes) if name in by_later and name not in self.constants
        )
        cut = Cut(
            tuple(self.host),
            {name: x for name, x in self.constants.items() if name in by_host and name not in reads},
            (),
            takes,
            tuple(name for name in takes if name in self.contents),
            not self.later and not outputs,
        )
        constants = {name: value for name, value in self.constants.items() if name in by_later}
        known = {name: self.types[name] for name in reads}
        return Continuation(cut, tuple(self.later), outputs, constants, known, self.graph.name)


def _read_by(nodes: Iterable[Node], outputs: Iterable[str]) -> set[str]:
    """Return every value that nodes read or that is an output."""
    return {name for node in nodes for name in node.inputs if name} | set(outputs)
