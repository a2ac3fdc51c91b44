"""Computes equal things once, and stores equal constants once."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

from cenote.core.types import Array
from cenote.graph.graph import Graph, Node
from cenote.passes.rename import rename_values


def eliminate_common(graph: Graph) -> Graph:
    """Keep one of equal constants, and one of nodes with equal operators and inputs.

        %a = relu %x                      %a = relu %x
        %b = relu %x                ->    %c = add %a, %a
        %c = add %a, %b                   return %c
        return %c

    Outputs of the graph keep their names, so a node that makes one stays.
    """
    outputs = set(graph.outputs)
    renamed = _equal_constants(graph)
    first: dict[Hashable, list[Node]] = {}
    kept: list[Node] = []
    for original in graph.nodes:
        node = rename_values(original, renamed)
        twin = _twin(node, first)
        if twin is node or not outputs.isdisjoint(node.outputs) or not _covers(twin, node):
            kept.append(node)
            continue
        renamed.update({mine: its for mine, its in zip(node.outputs, twin.outputs, strict=False) if mine})
    gone = set(renamed)
    return graph.replace(
        nodes=tuple(kept),
        constants={name: value for name, value in graph.constants.items() if name not in gone},
        types={name: kind for name, kind in graph.types.items() if name not in gone},
        layouts={name: layout for name, layout in graph.layouts.items() if name not in gone},
    )


def _covers(twin: Node, node: Node) -> bool:
    """True when the twin makes every output that the node makes."""
    return all(
        not name or (position < len(twin.outputs) and twin.outputs[position])
        for position, name in enumerate(node.outputs)
    )


def _twin(node: Node, first: dict[Hashable, list[Node]]) -> Node:
    """The first node that computes the same; the node itself where there is none, or it must not be merged.

    Operators must print the same too, because equality alone takes 0.0 for -0.0 and 1 for True.
    """
    if not node.op.pure:
        return node
    try:
        equal = first.setdefault((node.op, node.inputs), [])
    except TypeError:  # an attribute that is an array
        return node
    text = repr(node.op) if equal else ""
    for twin in equal:
        if repr(twin.op) == text:
            return twin
    equal.append(node)
    return node


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Constant -> the first one with the same content, for those that are not outputs of the graph."""
    samples: dict[Hashable, list[str]] = {}
    for name, value in graph.constants.items():
        samples.setdefault(_sample(value), []).append(name)
    renamed: dict[str, str] = {}
    outputs = set(graph.outputs)
    for names in samples.values():
        if len(names) == 1:
            continue  # weights usually differ in a few elements already: no need to hash 500 MB
        first: dict[bytes, str] = {}
        for name in names:
            twin = first.setdefault(_digest(graph.constants[name]), name)
            if twin != name and name not in outputs:
                renamed[name] = twin
    return renamed


def _sample(value: Array) -> Hashable:
    """Type, shape and a few elements."""
    flat = value.reshape(-1)
    few = flat[:: max(1, flat.size // 16)]
    content = repr(few.tolist()).encode() if value.dtype == np.object_ else few.tobytes()
    return value.dtype.str, value.dtype.name, value.shape, content


def _digest(value: Array) -> bytes:
    if value.dtype == np.object_:
        return repr(value.tolist()).encode()
    return hashlib.blake2b(
        np.ascontiguousarray(value).reshape(-1).view(np.uint8).data, digest_size=16
    ).digest()
