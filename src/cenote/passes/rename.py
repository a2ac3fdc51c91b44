"""Renames values."""

from __future__ import annotations

from collections.abc import Mapping, MutableSet

from cenote.graph.graph import Node


def rename_values(node: Node, names: Mapping[str, str]) -> Node:
    """The node with values renamed, in its inputs and outputs; the same object when nothing changes."""
    if not names:
        return node
    inputs = tuple(names.get(name, name) for name in node.inputs)
    outputs = tuple(names.get(name, name) for name in node.outputs)
    if inputs == node.inputs and outputs == node.outputs:
        return node
    return Node(node.op, inputs, outputs, node.label)


def fresh(stem: str, taken: MutableSet[str]) -> str:
    """A value name that is not taken; it is from then on."""
    count = 0
    while f"{stem}.{count}" in taken:
        count += 1
    taken.add(f"{stem}.{count}")
    return f"{stem}.{count}"
