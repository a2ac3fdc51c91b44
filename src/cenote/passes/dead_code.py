"""Removes what no output depends on."""

from __future__ import annotations

from dataclasses import replace

from cenote.graph.graph import Graph, Node


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
