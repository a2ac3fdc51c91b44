"""Removal of superfluous parts of a graph: operators that forward their input, duplicates, and values never read."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, MutableSet
from dataclasses import replace

import numpy as np

from cenote.core.formulas.certain import always_equal
from cenote.core.types import Array
from cenote.graph.graph import Graph, Node
from cenote.kernels.base import present


def rename_values(node: Node, names: Mapping[str, str]) -> Node:
    """Return the node with values renamed, in its inputs and outputs; the same object when nothing changes."""
    if not names:
        return node
    inputs = tuple(names.get(name, name) for name in node.inputs)
    outputs = tuple(names.get(name, name) for name in node.outputs)
    if inputs == node.inputs and outputs == node.outputs:
        return node
    return Node(node.op, inputs, outputs, node.label)


def fresh(stem: str, taken: MutableSet[str]) -> str:
    """Return a value name that is not taken, and take it."""
    count = 0
    while f"{stem}.{count}" in taken:
        count += 1
    taken.add(f"{stem}.{count}")
    return f"{stem}.{count}"


def unused(name: str, taken: MutableSet[str]) -> str:
    """Return a value name, with "~" behind it until it is not taken, and take it."""
    while name in taken:
        name += "~"
    taken.add(name)
    return name


def remove_identities(graph: Graph) -> Graph:
    """Drop nodes of a specialised graph whose operator says that it forwards an input (`Op.forwarded`).

        %a = relu %x                      %a = relu %x
        %b = identity %a            ->    %c = sigmoid %a
        %c = sigmoid %b                   return %c
        return %c

    Identity, inference Dropout, casts to the same type, reshapes to the same shape or to one before. A node stays when
    another of its outputs is read, or when it joins an output of the graph to an input, a constant or another output.
    """
    users = graph.users()
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    fixed = {declared.name for declared in graph.inputs} | set(graph.constants)
    outputs = set(graph.outputs)
    makers = {node.outputs[0]: node for node in graph.nodes if node.op.view}

    def now(name: str) -> str:
        """Return the name under which a value is known now: that of the value it is a copy of, or of the output of the
        graph that this value has become."""
        name = renamed.get(name, name)
        return renamed.get(name, name)

    for node in graph.nodes:
        extra = [name for name in node.outputs[1:] if name in users or name in outputs]
        forwarded = "" if extra or not node.outputs[0] else _forwarded(graph, node, makers)
        if not forwarded:
            kept.append(node)
            continue
        source, result = now(forwarded), node.outputs[0]
        if result not in outputs:
            renamed[result] = source
        elif source in fixed or source in outputs:
            kept.append(node)
        else:  # the producer of the source makes the output of the graph instead
            renamed[source] = result
    names = {name: now(name) for name in renamed}
    kept = [rename_values(node, names) for node in kept]
    existing = fixed | {name for node in kept for name in node.outputs if name}
    return graph.replace(
        nodes=tuple(kept),
        types={name: kind for name, kind in graph.types.items() if name in existing},
        layouts={name: layout for name, layout in graph.layouts.items() if name in existing},
    )


def _forwarded(graph: Graph, node: Node, makers: Mapping[str, Node]) -> str:
    """Return the value that a node's first output is; "" where it is computed. `makers` are the views, by value."""
    if not node.inputs or any(name and graph.type_of(name) is None for name in node.inputs):
        return ""
    number = node.op.forwarded(graph.input_types(node))
    if number is not None:
        return node.inputs[number]
    if not node.op.view:
        return ""
    shape, source = graph.types[node.outputs[0]].shape, makers.get(node.inputs[0])
    while source is not None:
        name = source.inputs[0]
        before = present(graph.type_of(name)).shape
        if len(before) == len(shape) and all(map(always_equal, before, shape)):
            return name
        source = makers.get(name)
    return ""


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
    first: dict[Hashable, Node] = {}
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
    """Whether the twin makes every output that the node makes."""
    return all(
        not name or (position < len(twin.outputs) and twin.outputs[position])
        for position, name in enumerate(node.outputs)
    )


def _twin(node: Node, first: dict[Hashable, Node]) -> Node:
    """Return the first node that computes the same; the node itself where there is none, or it must not be merged."""
    if not node.op.pure:
        return node
    try:
        return first.setdefault((node.op, node.inputs), node)
    except TypeError:  # an attribute that is an array
        return node


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Return constant -> the first one with the same content, for those that are not outputs of the graph."""
    samples: dict[Hashable, list[str]] = {}
    for name, value in graph.constants.items():
        samples.setdefault(_sample(value), []).append(name)
    renamed: dict[str, str] = {}
    outputs = set(graph.outputs)
    for names in samples.values():
        if len(names) == 1:
            continue  # weights mostly differ in a few elements already: no need to hash 500 MB
        first: dict[bytes, str] = {}
        for name in names:
            twin = first.setdefault(_digest(graph.constants[name]), name)
            if twin != name and name not in outputs:
                renamed[name] = twin
    return renamed


def _sample(value: Array) -> Hashable:
    """Return type, shape and a few elements."""
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


def eliminate_dead(graph: Graph) -> Graph:
    """Drop nodes, constants, types and layouts that no output needs; unread outputs become absent.

        %a = relu %x                      %a = relu %x
        %b = sigmoid %x             ->    return %a
        return %a

    Inputs stay, because they are the model's signature.
    """
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        outputs = tuple(name if name in needed else "" for name in node.outputs)
        while not outputs[-1]:
            outputs = outputs[:-1]
        kept.append(node if outputs == node.outputs else replace(node, outputs=outputs))
        needed.update(name for name in node.inputs if name)
    values = needed | {declared.name for declared in graph.inputs}
    return graph.replace(
        nodes=tuple(reversed(kept)),
        constants={name: value for name, value in graph.constants.items() if name in needed},
        types={name: kind for name, kind in graph.types.items() if name in values},
        layouts={name: layout for name, layout in graph.layouts.items() if name in values},
    )
