"""Choice of a lowering for each node and a layout for each value, with the conversions that follow.

Walks the graph once, in order. For each node the candidates are its operator's lowerings (and, for some, an alias
that needs no work at all); the cheapest wins, counting the conversions of inputs in other layouts and those that
users of the output would need. A node without candidates becomes a host step on plain arrays.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from cenote.compiler.decide import NAMED, REFERENCE, Decide, PricedLowering
from cenote.core.deferred import dataclass
from cenote.core.errors import errors_at
from cenote.core.formulas.expressions import SizeFormula
from cenote.core.sizes import is_size, plain
from cenote.core.target import Target
from cenote.core.text import shown_seconds
from cenote.core.trace import Trace
from cenote.core.types import PLAIN, Layout, TensorType
from cenote.graph.graph import Graph, Node
from cenote.kernels.cost_model import conversion_seconds
from cenote.ops.base import Alias, Lowering, Op
from cenote.ops.movement.transpose import Transpose
from cenote.ops.reorder import Reorder

_HOST = 2e-5  # seconds that a host step costs besides its work
# Elements of open extents, as pixels of a batch, from which inputs are large: half way from one picture of 96 x 96 to
# one of 640 x 480. ResNet-18 planned for either took up to 2.9 times as long as necessary for the other, by
# estimates; at worst a quarter longer with one plan for small and one for large inputs.
_LARGE = 1 << 16
# Share of a model's estimated seconds. GoogLeNet, SqueezeNet and SelecSLS have 0.38 to 0.47: one plan for pictures of
# 128 x 128 and 480 x 480 takes 1.24 times as long as one for the size itself at worst.
_MUCH = 0.5

BY_COST = "cost model"
_RIVALS = 3  # that are kept and shown


Estimates = tuple[tuple[str, float], ...]
"""Names of lowerings and the cost model's seconds for them."""


@dataclass(frozen=True)
class Schedule:
    """Graph with a lowering per node (None: a host step). Layouts give lanes; halos come with the placement.

    Per node, where there was a choice: `reasons` why this lowering, `rivals` the other algorithms with their
    estimates.
    """

    graph: Graph
    lowerings: tuple[Lowering | None, ...]
    reasons: tuple[str, ...] = ()
    rivals: tuple[Estimates, ...] = ()


def _others(best: Lowering, ranked: Sequence[Lowering]) -> Estimates:
    """Return the first rivals of the best."""
    others: dict[str, float] = {}
    for option in ranked:
        if option.name != best.name and option.alias is None:
            others.setdefault(option.name, plain(option.seconds))
    return tuple(others.items())[:_RIVALS]


def _estimates(best: Lowering, others: Estimates) -> str:
    """Return the text of the estimates of the best and its rivals; empty where there are none."""
    rivals = ", ".join(f"{shown_seconds(seconds)} {name}" for name, seconds in others)
    return f"{BY_COST}: {shown_seconds(best.seconds)} against {rivals}" if others else ""


def schedule(
    graph: Graph, target: Target, decide: Decide | None = None, trace: Trace | None = None
) -> Schedule:
    """Pick lowerings and layouts for a specialised graph; `decide` may overrule the cost model.
    With a `trace`, only the questions about sizes that the chosen candidates ask count."""
    return _Scheduler(graph, target, decide, trace).run()


class _Scheduler:
    def __init__(self, graph: Graph, target: Target, decide: Decide | None, trace: Trace | None) -> None:
        self.graph, self.target, self.decide = graph, target, decide
        self.weights = sum(constant.nbytes for constant in graph.constants.values())
        self.types = dict(graph.types)
        self.layouts: dict[str, Layout] = {}
        self.nodes: list[Node] = []
        self.lowerings: list[Lowering | None] = []
        self.reasons: list[str] = []
        self.rivals: list[Estimates] = []
        self.converted: dict[tuple[str, int], str] = {}
        self.reorders: dict[Hashable, Lowering] = {}
        self.trace = trace
        self.asked: dict[int, Mapping[str, SizeFormula]] = {}  # questions, by the id of the candidate
        self.known: dict[Hashable, list[Lowering]] = {}
        self.of_objects: dict[tuple[int, ...], tuple[list[Lowering], object]] = {}
        self.candidates = [self._candidates(node) for node in graph.nodes]
        self.accepted: dict[tuple[int, int], set[int]] = {}
        self.users: dict[str, list[tuple[int, int]]] = {}
        for index, node in enumerate(graph.nodes):
            for position, name in enumerate(node.inputs):
                if name:
                    self.users.setdefault(name, []).append((index, position))
        self.outputs = set(graph.outputs)
        self.fixed = {declared.name for declared in graph.inputs} | self.outputs | set(graph.constants)
        self.concat_children: set[str] = set()
        self.parts: set[str] = set()

    def run(self) -> Schedule:
        if self.decide is not None:
            self.decide.check(self.graph, self.candidates)
        for index, node in enumerate(self.graph.nodes):
            best, reason, rivals = self._choose(node, self.candidates[index])
            if self.trace is not None and best is not None:
                self.trace.adopt(self.asked[id(best)])
            self._commit(node, best, reason, rivals)
        self._ask_how_large()
        outputs = tuple(self._in_layout(name, 0) for name in self.graph.outputs)
        if outputs != self.graph.outputs:
            self._rename_outputs(outputs)
        graph = self.graph.replace(nodes=tuple(self.nodes), types=self.types, layouts=self.layouts)
        return Schedule(graph, tuple(self.lowerings), tuple(self.reasons), tuple(self.rivals))

    def _ask_how_large(self) -> None:
        """Restrict the plan to large or to small inputs where extents are open and much time depends on them."""
        chosen = [option for option in self.lowerings if option is not None]
        by_size = sum(plain(option.seconds) for option in chosen if option.by_size)
        if by_size <= _MUCH * sum(plain(option.seconds) for option in chosen):
            return
        shapes = [self.graph.types[declared.name].shape for declared in self.graph.inputs]
        extents = [[extent for extent in shape if is_size(extent)] for shape in shapes]
        if any(extents):
            _ = sum(math.prod(each) for each in extents if each) < _LARGE  # recorded by the trace

    # ---- candidates and their cost ----------------------------------------------------------------------------

    def _candidates(self, node: Node) -> list[Lowering]:
        """Return the lowerings of a node: those of an earlier one with an equal operator and equal types, if there is
        one."""
        types = self.graph.input_types(node)
        objects = (id(node.op), *map(id, types))
        entry = self.of_objects.get(objects)
        if entry is None:
            entry = self.of_objects[objects] = self._of_equals(node, types), types  # the ids stay unique
        return entry[0]

    def _of_equals(self, node: Node, types: Sequence[TensorType | None]) -> list[Lowering]:
        key = (node.op, *(type and type.key for type in types))
        with suppress(TypeError):  # an attribute that is an array
            if (options := self.known.get(key)) is not None:
                return options
        with errors_at(node.where):
            offers = node.op.lowerings(types, self.target), node.op.aliases(types, self.target)
            options = [option for options in offers for option in self._apart(options)]
        with suppress(TypeError):
            self.known[key] = options
        return options

    def _apart(self, options: Iterator[Lowering]) -> Iterator[Lowering]:
        """Yield the options. `asked` gets the conditions on sizes that each depends on; the trace does not."""
        if self.trace is None:
            yield from options
            return
        kept = []
        with self.trace.apart() as guards:
            for option in options:
                self.asked[id(option)] = dict(guards)
                kept.append(option)
        if not kept:
            self.trace.adopt(guards)
        yield from kept

    def _choose(self, node: Node, options: Sequence[Lowering]) -> tuple[Lowering | None, str, Estimates]:
        """Return the cheapest option, or the one that `decide` picks (None: the reference); the reason, and rivals."""
        decide = self.decide
        if decide is not None and decide.named(node, (REFERENCE,)):
            return None, NAMED, ()
        if not options:
            return None, "", ()
        ranked = sorted(((self._total(node, option), index) for index, option in enumerate(options)))
        by_cost = [options[index] for _, index in ranked]
        best, decided = by_cost[0], None
        rivals = [
            PricedLowering(options[index], total, total - plain(options[index].seconds))
            for total, index in ranked
            if options[index].alias is None
        ]
        names = [rival.option.name for rival in rivals]
        if decide is not None and (best.alias is None or decide.named(node, names)):
            decided = decide(node, self.graph.input_types(node), rivals, self.weights)
        if decided is None:
            if best.alias is not None:
                return best, "", ()
            others = _others(best, by_cost)
            return best, _estimates(best, others), others
        chosen = rivals[decided[0]].option
        return chosen, decided[1], _others(chosen, by_cost)

    def _total(self, node: Node, option: Lowering) -> float:
        seconds = plain(option.seconds)
        for name, layout in zip(node.inputs, option.inputs, strict=True):
            if name and layout is not None:
                seconds += self._conversion(name, layout.lanes)
        for name, layout in zip(node.outputs, option.outputs, strict=False):
            if name:
                seconds += self._wish(name, layout.lanes)
        return seconds

    def _conversion(self, name: str, lanes: int) -> float:
        """Return the seconds to convert a value into a layout."""
        have = self.layouts.get(name, PLAIN).lanes
        if have == lanes or (name, lanes) in self.converted:
            return 0.0
        return _conversion_seconds(self._type(name), have, lanes)

    def _wish(self, name: str, lanes: int) -> float:
        """Return the seconds of conversions that users of a value would need if it had this layout."""
        type, seconds = self._type(name), 0.0
        wanted: set[int] = set()
        for index, position in self.users.get(name, ()):
            accepted = self._accepted(index, position)
            if lanes not in accepted:
                wanted.add(min(accepted))
        if name in self.outputs and lanes:
            wanted.add(0)
        for other in wanted:
            seconds += _conversion_seconds(type, lanes, other)
        return seconds

    def _accepted(self, index: int, position: int) -> set[int]:
        """Return the lanes in which a node's candidates take an input."""
        lanes = self.accepted.get((index, position))
        if lanes is None:
            layouts = [option.inputs[position] for option in self.candidates[index]]
            lanes = {layout.lanes for layout in layouts if layout is not None} or {0}
            self.accepted[index, position] = lanes
        return lanes

    def _type(self, name: str) -> TensorType:
        if name in self.graph.constants:
            return TensorType.known(self.graph.constants[name])
        return self.types[name]

    # ---- commitment -------------------------------------------------------------------------------------------

    def _commit(self, node: Node, option: Lowering | None, reason: str, rivals: Estimates) -> None:
        wanted = option.inputs if option else (PLAIN,) * len(node.inputs)
        inputs = []
        for name, layout in zip(node.inputs, wanted, strict=True):
            inputs.append(name if not name or layout is None else self._in_layout(name, layout.lanes))
        if option is not None and option.alias is Alias.JOINED:
            inputs = [self._concat_child(name) for name in inputs]
        for position, name in enumerate(node.outputs):
            if name and option is not None:
                self.layouts[name] = Layout(option.outputs[position].lanes)
        if tuple(inputs) != node.inputs:
            node = replace(node, inputs=tuple(inputs))
        if isinstance(node.op, Transpose) and option is not None and option.inputs != option.outputs:
            node = replace(node, op=Reorder(node.op.axes(self._type(node.inputs[0]).rank)))
        if option is not None and option.alias is Alias.PARTS:
            self._commit_parts(node, option)
        else:
            self._append(node, option, reason, rivals)

    def _commit_parts(self, node: Node, option: Lowering) -> None:
        """Copy parts that are outputs of the graph: these cannot lie in another value's memory."""
        parts = tuple(f"{name}@part" if name in self.fixed else name for name in node.outputs)
        for part, name in zip(parts, node.outputs, strict=True):
            if name:
                self.types[part], self.layouts[part] = self.types[name], self.layouts[name]
        self._append(replace(node, outputs=parts), option)
        self.parts.update(parts)
        for part, name in zip(parts, node.outputs, strict=True):
            if part != name:
                lanes = self.layouts[name].lanes
                self._derive(part, name, Reorder(), self._reorder_option(self.types[name], lanes, lanes))

    def _append(self, node: Node, option: Lowering | None, reason: str = "", rivals: Estimates = ()) -> None:
        self.nodes.append(node)
        self.lowerings.append(option)
        self.reasons.append(reason)
        self.rivals.append(rivals)

    def _in_layout(self, name: str, lanes: int) -> str:
        """Return the value's name in a layout, converting it once if need be."""
        have = self.layouts.get(name, PLAIN).lanes
        if have == lanes:
            return name
        if (name, lanes) not in self.converted:
            self.converted[name, lanes] = self._convert(name, have, lanes)
            if not lanes and name in self.outputs:
                self.fixed.add(self.converted[name, lanes])  # this becomes the output's memory
        return self.converted[name, lanes]

    def _convert(self, name: str, have: int, lanes: int) -> str:
        type = self._type(name)
        fresh = f"{name}@{Layout(lanes)}"
        option: Lowering | None
        if _is_free(type, max(have, lanes)):
            option = Lowering.shared(Alias.VIEW, (Layout(have),), (Layout(lanes),))
        else:
            option = self._reorder_option(type, have, lanes)
        self._derive(name, fresh, Reorder(), option)
        return fresh

    def _reorder_option(self, type: TensorType, have: int, lanes: int) -> Lowering:
        key = (type.key, have, lanes)
        if key not in self.reorders:
            self.reorders[key] = self._new_reorder(type, have, lanes)
        return self.reorders[key]

    def _new_reorder(self, type: TensorType, have: int, lanes: int) -> Lowering:
        for option in Reorder().lowerings((type,), self.target):
            source = option.inputs[0]
            if source is not None and source.lanes == have and option.outputs[0].lanes == lanes:
                return option
        raise AssertionError(f"no kernel converts {type} from {Layout(have)} to {Layout(lanes)}")

    def _derive(self, name: str, fresh: str, op: Op, option: Lowering) -> None:
        type = self._type(name)
        self.types[fresh] = type.bare
        self.layouts[fresh] = Layout(option.outputs[0].lanes)
        self._append(Node(op, (name,), (fresh,), label=""), option)

    def _concat_child(self, name: str) -> str:
        """Return a value that may be written straight into a concat's memory: the value itself, once, or a copy of
        it."""
        if name in self.fixed or name in self.concat_children or name in self.parts:
            fresh = f"{name}.copy{len(self.nodes)}"
            lanes = self.layouts.get(name, PLAIN).lanes
            self._derive(name, fresh, Reorder(), self._reorder_option(self._type(name), lanes, lanes))
            name = fresh
        self.concat_children.add(name)
        return name

    def _rename_outputs(self, converted: tuple[str, ...]) -> None:
        """Keep the names of outputs: a blocked value that has such a name gets another."""
        names = {
            old: f"{old}@blocked"
            for old, new in zip(self.graph.outputs, converted, strict=True)
            if old != new
        }
        names.update({new: old for old, new in zip(self.graph.outputs, converted, strict=True) if old != new})

        def swap(name: str) -> str:
            return names.get(name, name)

        self.nodes = [
            replace(node, inputs=tuple(map(swap, node.inputs)), outputs=tuple(map(swap, node.outputs)))
            for node in self.nodes
        ]
        self.types = {swap(name): type for name, type in self.types.items()}
        self.layouts = {swap(name): layout for name, layout in self.layouts.items()}
        reasons = {swap(name): reason for name, reason in self.graph.reasons.items()}
        self.graph = self.graph.replace(reasons=reasons)


def _is_free(type: TensorType, lanes: int) -> bool:
    """Whether blocked and plain memory are the same: one pixel and no ragged block."""
    if type.rank < 2 or any(map(is_size, type.shape[1:])):
        return False
    return type.shape[1] % lanes == 0 and math.prod(type.shape[2:]) == 1


def _conversion_seconds(type: TensorType, have: int, lanes: int) -> float:
    if have == lanes or _is_free(type, max(have, lanes)):
        return 0.0
    channels, wide = plain(type.shape[1]), max(have, lanes)
    # The blocked side also has lanes that hold no channel.
    filled = -(-channels // wide) * wide / max(channels, 1)
    return conversion_seconds(plain(type.nbytes) * (1 + filled))
