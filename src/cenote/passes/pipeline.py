"""The list of passes, in order. Each is a function Graph -> Graph; the verifier runs after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cenote.graph.graph import Graph
from cenote.graph.verify import verify
from cenote.ops.conv import Conv
from cenote.passes.common import eliminate_common
from cenote.passes.dead import eliminate_dead
from cenote.passes.fuse import fuse
from cenote.passes.identity import remove_identities

GraphPass = Callable[[Graph], Graph]

PASSES: tuple[GraphPass, ...] = (remove_identities, eliminate_common, eliminate_dead, fuse, eliminate_dead)


def forbid_winograd(graph: Graph) -> Graph:
    """precision="exact": convolutions sum products plainly."""
    nodes = tuple(
        replace(node, op=replace(node.op, exact=True)) if isinstance(node.op, Conv) else node for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def optimize(graph: Graph, *, exact: bool = False) -> Graph:
    """Run every pass over a specialised graph."""
    for graph_pass in PASSES:
        graph = graph_pass(graph)
        verify(graph)
    return forbid_winograd(graph) if exact else graph
