"""Pins of nodes to algorithms, checked against those that the nodes have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cenote.core.errors import ArgumentError
from cenote.graph.graph import Node
from cenote.ops.base import Lowering


def check_pins(
    pins: Mapping[str, str], nodes: Sequence[Node], candidates: Sequence[Sequence[Lowering]]
) -> None:
    """Raise ArgumentError for a pin to an algorithm that no node of this name has. `pins`: algorithms by node.

    Names in files are not unique, and passes make several nodes of one: it is enough that one of them has it.
    """
    found: dict[str, list[str]] = {}
    for node, options in zip(nodes, candidates, strict=True):
        if node.title in pins:
            found.setdefault(node.title, []).extend(each.name for each in options if each.alias is None)
    for title, names in found.items():
        if pins[title] not in names:
            has = (
                f"it has {', '.join(dict.fromkeys(names))}"
                if names
                else "it runs on the host or costs nothing"
            )
            raise ArgumentError(f"pins: {title}: no algorithm '{pins[title]}' to pin it to; {has}")
