"""Topological order of the nodes of an ONNX graph, in which every value is made before it is used."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cenote.core.errors import ModelError


def where(node: Any) -> str:
    """Return the name of a node of the file for errors."""
    if node.name:
        return f"node '{node.name}' ({node.op_type})"
    return f"node {node.op_type} -> {next(iter(node.output), '?')}"


def captured(graph: Any) -> Iterator[str]:
    """Yield the names that a subgraph reads from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        own.update(node.output)
    for node in graph.node:
        yield from (name for name in needs(node) if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def needs(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, including those of its subgraphs."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from captured(attribute.g)
        for graph in attribute.graphs:
            yield from captured(graph)


def ordered(nodes: Sequence[Any], is_known: Callable[[str], bool]) -> Sequence[Any]:
    """Return the nodes in topological order; unchanged when they are in order already, which ONNX demands.

    `is_known` returns whether a name is defined outside. Raises ModelError for a value that two nodes make, a value
    that no node makes, and a cycle.
    """
    maker: dict[str, int] = {}
    in_order = True
    reads = [list(needs(node)) for node in nodes]
    for index, node in enumerate(nodes):
        in_order = in_order and all(name in maker or is_known(name) for name in reads[index])
        for name in node.output:
            if not name:
                continue
            if name in maker or is_known(name):
                other = f"by {where(nodes[maker[name]])}" if name in maker else "before it"
                raise ModelError(f"{where(node)}: makes value '{name}', which is already made {other}")
            maker[name] = index
    if in_order:
        return nodes
    for index, node in enumerate(nodes):
        for name in reads[index]:
            if name not in maker and not is_known(name):
                raise ModelError(f"{where(node)}: reads '{name}', which nothing makes{_nearest(name, maker)}")
    return _sorted(nodes, [{maker[name] for name in names if name in maker} for names in reads])


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names)[:10_000], n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _sorted(nodes: Sequence[Any], before: Sequence[set[int]]) -> list[Any]:
    """Sort by Kahn's algorithm, earliest node of the file first."""
    after: list[list[int]] = [[] for _ in nodes]
    for index, earlier in enumerate(before):
        for other in earlier:
            after[other].append(index)
    waiting = [len(earlier) for earlier in before]
    ready = [index for index, count in enumerate(waiting) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for other in after[index]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, other)
    if len(order) < len(nodes):
        raise ModelError(f"the graph has a cycle: {_cycle(nodes, before, set(order))}")
    return [nodes[index] for index in order]


def _cycle(nodes: Sequence[Any], before: Sequence[set[int]], done: set[int]) -> str:
    """Describe the nodes of one cycle: from any node left over, walk backwards until one repeats."""
    index = next(i for i in range(len(nodes)) if i not in done)
    path: dict[int, None] = {}
    while index not in path:
        path[index] = None
        index = min(before[index] - done)
    walked = list(path)
    loop = [where(nodes[i]) for i in reversed(walked[walked.index(index) :])]
    return " -> ".join(loop[:8]) + (" -> ..." if len(loop) > 8 else "")
