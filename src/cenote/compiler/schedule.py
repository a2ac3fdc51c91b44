"""Choose how each node is computed and in which layout each value lies, and insert the conversions that follow.

Walks the graph once, in order. For each node the candidates are its operator's lowerings (and, for some, an alias that
needs no work at all); the cheapest wins, counting the conversions of inputs that lie otherwise and those that users of
the output would need. A node without candidates becomes a host step on plain arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cenote.core.target import Target
from cenote.core.types import PLAIN, Layout, TensorType
from cenote.graph.graph import Graph, Node, errors_of
from cenote.kernels.base import Call, View
from cenote.ops.base import Lowering, Op
from cenote.ops.movement.concat import Concat
from cenote.ops.movement.split import Split
from cenote.ops.reorder import Reorder

_BANDWIDTH = 1.2e10  # bytes/s a conversion moves, read and write counted: an estimate for comparing only
_LAUNCH = 1e-6  # seconds a step costs at least
_HOST = 2e-5  # seconds a host step costs beside its work

VIEW = "view"
IN_PLACE_CONCAT = "in place"
PIECES = "pieces"
ALIASES = (VIEW, IN_PLACE_CONCAT, PIECES)

BY_COST = "cost model"
_CLOSE = 2.0  # times the cheapest: the cost model is not that wrong
_RIVALS = 3


@dataclass(frozen=True)
class Schedule:
    """A graph with a lowering per node (None: a host step). Layouts give lanes; halos come with the memory plan."""

    graph: Graph
    lowerings: tuple[Lowering | None, ...]
    reasons: tuple[str, ...] = ()  # per node: why this lowering, where there was a choice


@dataclass(frozen=True)
class Rival:
    """A lowering that may be the best for a node, and the seconds of conversions that it brings along."""

    option: Lowering
    conversions: float


# Picks one of several rivals, the first being the cost model's choice, and says why; None leaves it to the cost model.
Decide = Callable[[Node, Sequence[TensorType | None], Sequence[Rival]], tuple[int, str] | None]


def _estimates(best: Lowering, ranked: Sequence[Lowering]) -> str:
    """The estimate of the best and of its first rivals; empty where there are none."""
    others: dict[str, float] = {}
    for option in ranked:
        if option.name != best.name and option.name not in ALIASES:
            others.setdefault(option.name, option.seconds)
    if not others:
        return ""
    rivals = ", ".join(f"{shown_seconds(seconds)} {name}" for name, seconds in list(others.items())[:_RIVALS])
    return f"{BY_COST}: {shown_seconds(best.seconds)} against {rivals}"


def shown_seconds(seconds: float) -> str:
    """As reasons show times."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} us"


def nothing(inputs: Sequence[View | None], outputs: Sequence[View]) -> tuple[Call, ...]:
    """The `bind` of an alias: no calls, the memory plan does it all."""
    return ()


def schedule(graph: Graph, target: Target, decide: Decide | None = None) -> Schedule:
    """Pick lowerings and layouts for a specialised graph; `decide` may overrule the cost model between close rivals."""
    return _Scheduler(graph, target, decide).run()


class _Scheduler:
    def __init__(self, graph: Graph, target: Target, decide: Decide | None) -> None:
        self.graph, self.target, self.decide = graph, target, decide
        self.types = dict(graph.types)
        self.layouts: dict[str, Layout] = {}
        self.nodes: list[Node] = []
        self.lowerings: list[Lowering | None] = []
        self.reasons: list[str] = []
        self.converted: dict[tuple[str, int], str] = {}
        self.candidates = [self._candidates(node) for node in graph.nodes]
        self.users: dict[str, list[tuple[int, int]]] = {}
        for index, node in enumerate(graph.nodes):
            for position, name in enumerate(node.inputs):
                if name:
                    self.users.setdefault(name, []).append((index, position))
        self.outputs = set(graph.outputs)
        self.fixed = {declared.name for declared in graph.inputs} | self.outputs | set(graph.constants)
        self.concat_children: set[str] = set()
        self.pieces: set[str] = set()

    def run(self) -> Schedule:
        for index, node in enumerate(self.graph.nodes):
            best, reason = self._choose(node, self.candidates[index])
            self._commit(node, best, reason)
        outputs = tuple(self._in_layout(name, 0) for name in self.graph.outputs)
        if outputs != self.graph.outputs:
            self._rename_outputs(outputs)
        graph = self.graph.replace(nodes=tuple(self.nodes), types=self.types, layouts=self.layouts)
        return Schedule(graph, tuple(self.lowerings), tuple(self.reasons))

    # ---- candidates and their cost ----------------------------------------------------------------------------

    def _candidates(self, node: Node) -> list[Lowering]:
        types = self.graph.input_types(node)
        with errors_of(node):
            options = list(node.op.lowerings(types, self.target))
        if node.op.view:
            options.append(Lowering(VIEW, (PLAIN, *[None] * (len(types) - 1)), (PLAIN,), nothing, 0.0))
        if isinstance(node.op, Concat):
            options.extend(_in_place_concats(node.op, types, self.target))
        if isinstance(node.op, Split):
            options.extend(_piece_splits(node, types, self.target))
        return options

    def _choose(self, node: Node, options: Sequence[Lowering]) -> tuple[Lowering | None, str]:
        """The cheapest option and why, or the one that `decide` picks among those that cost little more."""
        if not options:
            return None, ""
        ranked = sorted(((self._total(node, option), index) for index, option in enumerate(options)))
        least, best = ranked[0][0], options[ranked[0][1]]
        close = [(total, options[index]) for total, index in ranked if total <= _CLOSE * least]
        rivals = [
            Rival(option, total - option.seconds) for total, option in close if option.name not in ALIASES
        ]
        if best.name in ALIASES:
            return best, ""
        types = self.graph.input_types(node)
        decided = None
        if self.decide is not None and len(rivals) > 1:
            decided = self.decide(node, types, rivals[:_RIVALS])
        if decided is None:
            return best, _estimates(best, [options[index] for _, index in ranked])
        return rivals[decided[0]].option, decided[1]

    def _total(self, node: Node, option: Lowering) -> float:
        seconds = option.seconds
        for name, layout in zip(node.inputs, option.inputs, strict=True):
            if name and layout is not None:
                seconds += self._conversion(name, layout.lanes)
        for name, layout in zip(node.outputs, option.outputs, strict=False):
            if name:
                seconds += self._wish(name, layout.lanes)
        return seconds

    def _conversion(self, name: str, lanes: int) -> float:
        """Seconds to get a value into a layout."""
        have = self.layouts.get(name, PLAIN).lanes
        if have == lanes or (name, lanes) in self.converted:
            return 0.0
        return _conversion_seconds(self._type(name), have, lanes)

    def _wish(self, name: str, lanes: int) -> float:
        """Seconds of conversions that users of a value would need if it lay in this layout."""
        type, seconds = self._type(name), 0.0
        wanted: set[int] = set()
        for index, position in self.users.get(name, ()):
            accepted = {
                option.inputs[position].lanes  # type: ignore[union-attr]  # filtered below
                for option in self.candidates[index]
                if option.inputs[position] is not None
            } or {0}
            if lanes not in accepted:
                wanted.update(sorted(accepted)[:1])
        if name in self.outputs and lanes:
            wanted.add(0)
        for other in wanted:
            seconds += _conversion_seconds(type, lanes, other)
        return seconds

    def _type(self, name: str) -> TensorType:
        if name in self.graph.constants:
            return TensorType.known(self.graph.constants[name])
        return self.types[name]

    # ---- commitment -------------------------------------------------------------------------------------------

    def _commit(self, node: Node, option: Lowering | None, reason: str) -> None:
        wanted = option.inputs if option else (PLAIN,) * len(node.inputs)
        inputs = []
        for name, layout in zip(node.inputs, wanted, strict=True):
            inputs.append(name if not name or layout is None else self._in_layout(name, layout.lanes))
        if option is not None and option.name == IN_PLACE_CONCAT:
            inputs = [self._concat_child(name) for name in inputs]
        for position, name in enumerate(node.outputs):
            if name and option is not None:
                self.layouts[name] = Layout(option.outputs[position].lanes)
        node = replace(node, inputs=tuple(inputs))
        if option is not None and option.name == PIECES:
            self._commit_pieces(node, option)
        else:
            self._append(node, option, reason)

    def _commit_pieces(self, node: Node, option: Lowering) -> None:
        """Outputs of the graph cannot lie in another value's memory: they get a copy of their piece."""
        pieces = tuple(f"{name}@piece" if name in self.fixed else name for name in node.outputs)
        for piece, name in zip(pieces, node.outputs, strict=True):
            if name:
                self.types[piece], self.layouts[piece] = self.types[name], self.layouts[name]
        self._append(replace(node, outputs=pieces), option)
        self.pieces.update(pieces)
        for piece, name in zip(pieces, node.outputs, strict=True):
            if piece != name:
                lanes = self.layouts[name].lanes
                self._derive(piece, name, Reorder(), self._reorder_option(self.types[name], lanes, lanes))

    def _append(self, node: Node, option: Lowering | None, reason: str = "") -> None:
        self.nodes.append(node)
        self.lowerings.append(option)
        self.reasons.append(reason)

    def _in_layout(self, name: str, lanes: int) -> str:
        """The value's name in a layout, converting it once if need be."""
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
            option = Lowering(VIEW, (Layout(have),), (Layout(lanes),), nothing, 0.0)
        else:
            option = self._reorder_option(type, have, lanes)
        self._derive(name, fresh, Reorder(), option)
        return fresh

    def _reorder_option(self, type: TensorType, have: int, lanes: int) -> Lowering:
        for option in Reorder().lowerings((type,), self.target):
            source = option.inputs[0]
            if source is not None and source.lanes == have and option.outputs[0].lanes == lanes:
                return option
        raise AssertionError(f"no kernel converts {type} from {Layout(have)} to {Layout(lanes)}")

    def _derive(self, name: str, fresh: str, op: Op, option: Lowering) -> None:
        type = self._type(name)
        self.types[fresh] = TensorType(type.dtype, type.shape)
        self.layouts[fresh] = Layout(option.outputs[0].lanes)
        self._append(Node(op, (name,), (fresh,), label=""), option)

    def _concat_child(self, name: str) -> str:
        """A value that may be written straight into a concat's memory: the value itself, once, or a copy of it."""
        if name in self.fixed or name in self.concat_children or name in self.pieces:
            fresh = f"{name}.copy{len(self.nodes)}"
            lanes = self.layouts.get(name, PLAIN).lanes
            self._derive(name, fresh, Reorder(), self._reorder_option(self._type(name), lanes, lanes))
            name = fresh
        self.concat_children.add(name)
        return name

    def _rename_outputs(self, converted: tuple[str, ...]) -> None:
        """Outputs keep their names: what was blocked under the name gets another."""
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


def _is_free(type: TensorType, lanes: int) -> bool:
    """Blocked and plain memory are the same when there is one pixel and no ragged block."""
    return type.rank >= 2 and type.shape[1] % lanes == 0 and math.prod(type.shape[2:]) == 1


def _conversion_seconds(type: TensorType, have: int, lanes: int) -> float:
    if have == lanes or _is_free(type, max(have, lanes)):
        return 0.0
    return _LAUNCH + 2 * type.nbytes / _BANDWIDTH


def _in_place_concats(op: Concat, types: Sequence[TensorType | None], target: Target) -> list[Lowering]:
    """Concatenations whose inputs can lie in the output's memory from the start."""
    shapes = [type.shape for type in types if type is not None]
    if len(shapes) != len(types) or any(math.prod(shape) == 0 for shape in shapes):
        return []
    rank = len(shapes[0])
    axis = op.axis % rank
    options = []
    lanes = target.lanes(types[0].dtype) if types[0] is not None else 0
    if (
        axis == 1
        and rank in (3, 4, 5)
        and lanes == target.lanes()
        and all(s[1] % lanes == 0 for s in shapes[:-1])
    ):
        layout = Layout(lanes)
        options.append(Lowering(IN_PLACE_CONCAT, (layout,) * len(shapes), (layout,), nothing, 0.0))
    if math.prod(shapes[0][:axis]) == 1:
        options.append(Lowering(IN_PLACE_CONCAT, (PLAIN,) * len(shapes), (PLAIN,), nothing, 0.0))
    return options


def _piece_splits(node: Node, types: Sequence[TensorType | None], target: Target) -> list[Lowering]:
    """Splits whose outputs can lie in the input's memory."""
    x = types[0]
    if x is None or x.size == 0 or not isinstance(node.op, Split):
        return []
    axis, count = node.op.axis % x.rank, len(node.outputs)
    absent = (None,) * (len(types) - 1)
    sizes = [part.shape[axis] for part in node.op.infer(*types)]
    options = []
    lanes = target.lanes()
    if (
        axis == 1
        and x.rank in (3, 4, 5)
        and x.dtype.itemsize == 4
        and all(s % lanes == 0 for s in sizes[:-1])
    ):
        layout = Layout(lanes)
        options.append(Lowering(PIECES, (layout, *absent), (layout,) * count, nothing, 0.0))
    if math.prod(x.shape[:axis]) == 1:
        options.append(Lowering(PIECES, (PLAIN, *absent), (PLAIN,) * count, nothing, 0.0))
    return options
