"""Search for the cause of a value that differs from the peer's although every kernel computed what its operator says.

The operators, as they were imported, are applied to the peer's own values: the first whose result is not the peer's
was imported wrongly. If there is none, the plan's optimisation is compared with the imported operators, both in
float64. The remaining cause is rounding, amplified on its way.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from cenote.core.deferred import dataclass
from cenote.core.errors import FAULTS, CenoteError
from cenote.core.types import Array
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.passes.cleanup import eliminate_dead
from cenote.verification.errors import ALLOWED, relative_error, steps_of
from cenote.verification.production import excused, own_error, reference64
from cenote.verification.stream import Feed, RecordedValues

# Relative: the change that folded constants, rounded to float32, may cause.
_SAME = 3e-5


@dataclass(frozen=True)
class Fault:
    """The first value that was imported wrongly."""

    value: str
    node: Node
    error: float


def import_fault(graph: Graph, feed: Feed, ends: Sequence[str], theirs: RecordedValues) -> Fault | None:
    """Return the first node, of those that lead to some values, whose result on the peer's values is not the
    peer's."""
    part = eliminate_dead(graph.replace(outputs=tuple(ends)))
    values: dict[str, Array] = dict(part.constants)
    for declared in part.inputs:
        name = declared.name
        values[name] = feed[name] if name in feed else theirs.value(name)
    last = {name: index for index, node in enumerate(part.nodes) for name in node.inputs if name}
    for index, node in enumerate(part.nodes):
        inputs = [values[name] if name else None for name in node.inputs]
        outputs = reference64(node, inputs) if node.op.pure else None
        for position, name in enumerate(node.outputs):
            if not name:
                continue
            peers = theirs.value(name) if name in theirs else None
            if peers is None:
                if outputs is None:
                    # No value behind this node is known.
                    return None
                values[name] = outputs[position]
                continue
            values[name] = peers
            if outputs is None:
                continue
            allowed = max(ALLOWED.get(peers.dtype.name, 0.0), steps_of(peers, 1))
            error = own_error(node, position, inputs, peers, outputs[position], allowed)
            if error > allowed and not excused(node, position, inputs, peers, outputs[position]):
                return Fault(name, node, error)
        for name in set(node.inputs):
            if name and last[name] == index:
                values.pop(name, None)
    return None


def is_optimised_wrongly(
    imported: Graph, optimised: Graph, feed: Feed, value: str, name: str, order: Sequence[int] | None
) -> bool:
    """Return whether the optimised graph computes another value (there `name`, with its axes in this order)."""
    try:
        want = _in_float64(imported, feed, value)
        got = _in_float64(optimised, feed, name)
    except (CenoteError, *FAULTS):
        return False
    allowed = max(_SAME, steps_of(want, 2))
    return relative_error(got if order is None else got.transpose(order), want) > allowed


def _in_float64(graph: Graph, feed: Feed, value: str) -> Array:
    """Return a value computed by the references alone, without rounding in between."""
    part = eliminate_dead(graph.replace(outputs=(value,)))
    # Each constant is widened where it is used: there are many weights.
    values: dict[str, Array] = dict(part.constants)
    values |= {declared.name: feed[declared.name] for declared in part.inputs}
    last = {name: index for index, node in enumerate(part.nodes) for name in node.inputs if name}
    for index, node in enumerate(part.nodes):
        outputs = reference64(node, [values[name] if name else None for name in node.inputs])
        if outputs is None:
            return evaluate(part, feed)[value]
        values.update({name: y for name, y in zip(node.outputs, outputs, strict=False) if name})
        for name in set(node.inputs):
            if name and last[name] == index and name != value:
                del values[name]
    return values[value]


def turned(
    name: str, known: Mapping[str, tuple[int, ...]], shape: tuple[int, ...], preferred: Container[str]
) -> tuple[str, tuple[int, ...] | None]:
    """Return the imported value that a value of the plan corresponds to, one of the `preferred` if possible, and the
    transposition of the plan's axes that gives it; "" if it corresponds to none.

    Passes that move transposes name the moved map like the value with a number behind it, another layout adds one
    behind "@"; readers of channels-last files call an operator's output "NAME/channels_first".
    """
    stem = name.partition("@")[0]
    base, dot, number = stem.rpartition(".")
    rank = len(shape)
    match: tuple[str, tuple[int, ...] | None] = ("", None)
    last, first = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    moved = base if dot and number.isdigit() else stem
    candidates = [(stem, (None,)), (moved, (last, first)), (moved.removesuffix("/channels_first"), (last,))]
    for each, orders in candidates:
        for order in orders:
            if each not in known or (order is not None and (rank < 3 or each == name)):
                continue
            read = shape if order is None else tuple(shape[axis] for axis in order)
            if known[each] == read and (not match[0] or each in preferred):
                if each in preferred:
                    return each, order
                match = each, order
    return match
