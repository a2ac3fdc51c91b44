"""The list of passes, in order. Each is a function Graph -> Graph; the verifier runs after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cenote.core.target import Target
from cenote.graph.graph import Graph
from cenote.graph.verify import verify
from cenote.ops.conv import Conv
from cenote.passes.channels import compose_channels
from cenote.passes.common import eliminate_common
from cenote.passes.dead import eliminate_dead
from cenote.passes.fuse import fuse
from cenote.passes.identity import remove_identities

GraphPass = Callable[[Graph], Graph]


def passes(target: Target, exact: bool) -> tuple[GraphPass, ...]:
    """The passes for a target; `exact` forbids Winograd."""
    return (
        remove_identities,
        eliminate_common,
        eliminate_dead,
        fuse,
        lambda graph: compose_channels(graph, target.lanes()),
        eliminate_dead,
        *((forbid_winograd,) if exact else ()),
    )


def forbid_winograd(graph: Graph) -> Graph:
    """precision="exact": convolutions sum products plainly."""
    nodes = tuple(
        replace(node, op=replace(node.op, exact=True)) if isinstance(node.op, Conv) else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def optimize(graph: Graph, target: Target, *, exact: bool = False) -> Graph:
    """Run every pass over a specialised graph."""
    for graph_pass in passes(target, exact):
        graph = graph_pass(graph)
        verify(graph)
    return graph
