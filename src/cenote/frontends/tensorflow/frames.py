"""Loops of TensorFlow 1, also those that freezing a model of TensorFlow 2 makes: nodes in a frame.

    start -> Enter -> Merge -> Switch -> Exit -> result          a variable of the loop; Switch asks LoopCond
                        ^         |
                        +-- NextIteration <- body

An Enter without a Merge brings a value that stays the same in. A loop whose condition stays a constant is unrolled:
each round is a scope of its own, in which the variables have that round's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import count
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError
from cenote.frontends.pieces import unrolled
from cenote.frontends.tensorflow.nodes import Decode, NodeSite, TensorFlowImporter, Value
from cenote.frontends.tensorflow.scope import MERGES, TensorFlowScope

Scope = TensorFlowScope[Value]


@dataclass
class _Frame:
    """A loop: the Enter of each Merge and what its NextIteration passes on, the Merge of each Switch, and what LoopCond
    reads."""

    starts: dict[str, str] = field(default_factory=dict)
    nexts: dict[str, str] = field(default_factory=dict)
    switches: dict[str, str] = field(default_factory=dict)
    condition: str = ""


def _frame_of(scope: Scope, enters: Mapping[str, Any]) -> _Frame:
    """Return the frame that these Enters lead into."""
    nodes, found = scope.nodes, _Frame()

    def named(reference: str) -> tuple[str, Any]:
        name, _ = scope.place(reference)
        if name not in nodes:
            raise ModelError(f"no node is named '{name}'")
        return name, nodes[name]

    for name, node in nodes.items():
        if node.op in MERGES and len(node.input) == 2 and scope.place(node.input[0])[0] in enters:
            _, following = named(node.input[1])
            if following.op not in ("NextIteration", "RefNextIteration") or not following.input:
                raise ModelError(f"node '{name}' merges a loop's start with {following.op}")
            found.starts[name], found.nexts[name] = scope.place(node.input[0])[0], following.input[0]
    for name, node in nodes.items():
        if node.op in ("Switch", "RefSwitch") and scope.place(node.input[0])[0] in found.starts:
            found.switches[name] = scope.place(node.input[0])[0]
            _, decision = named(node.input[1])
            if decision.op != "LoopCond" or not decision.input:
                raise ModelError(f"node '{name}' of a loop is decided by {decision.op}, not LoopCond")
            found.condition = decision.input[0]
    return found


def _exit(site: NodeSite) -> Value:
    """Decode Exit: its inputs are what enters its loop, which is unrolled for the first of its Exits."""
    frame, enters = site.scope.frame_of(site.node)
    if frame not in site.scope.frames:
        entered = dict(zip(enters, site.inputs, strict=True))
        site.scope.frames[frame] = _unrolled(site.importer, site.scope, enters, entered)
    switch = site.scope.place(site.scope.nodes[site.node].input[0])[0]
    return site.scope.frames[frame][switch]


def _unrolled(
    importer: TensorFlowImporter, scope: Scope, enters: Mapping[str, Any], entered: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the last values of a loop's variables, by their Switches."""
    found = _frame_of(scope, enters)
    rounds = count()

    def inside(state: Mapping[str, Value]) -> Scope:
        return replace(
            scope,
            prefix=f"{scope.prefix}{next(rounds)}/",
            arguments={**scope.arguments, **entered, **state, **_switched(found, state)},
            made={},
            sides={},
            frames={},
        )

    # A state is its scope: the condition and the body of a round share what they compute.
    last = unrolled(
        importer.builder,
        inside({merge: entered[start] for merge, start in found.starts.items()}),
        lambda now: importer.value(now, found.condition),
        lambda now: inside({merge: importer.value(now, each) for merge, each in found.nexts.items()}),
    )
    return _switched(found, last.arguments)


def _switched(found: _Frame, state: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of the Switches, which are those of their Merges."""
    return {switch: state[merge] for switch, merge in found.switches.items()}


FRAMES: Mapping[str, Decode] = dict.fromkeys(("Exit", "RefExit"), _exit)
