"""Independent steps side by side: the branches of a network, for threads to work on without waiting between them.

A node's rank is one more than the highest rank of its inputs' producers. Nodes are put in the order of their ranks,
and the placement keeps values of a rank apart as though all its nodes ran at once. A branch with one small piece of
work (a Winograd transform of a 14x14 map: one block of tiles) then delays no thread while another branch has more.
"""

from __future__ import annotations

from cenote.compiler.schedule import Schedule


def in_ranks(scheduled: Schedule) -> tuple[Schedule, tuple[int, ...]]:
    """Return the schedule with its nodes in order of their ranks, and each node's rank."""
    graph = scheduled.graph
    ready: dict[str, int] = {}  # the rank from which a value may be read
    ranks = []
    for node, option in zip(graph.nodes, scheduled.lowerings, strict=True):
        needed = max((ready.get(name, 0) for name in node.inputs), default=0)
        alias = option is not None and option.alias is not None
        ranks.append(max(0, needed - 1) if alias else needed)
        ready.update(dict.fromkeys(node.outputs, needed if alias else needed + 1))
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    reasons = tuple(scheduled.reasons[i] for i in order) if scheduled.reasons else ()
    rivals = tuple(scheduled.rivals[i] for i in order) if scheduled.rivals else ()
    nodes = tuple(graph.nodes[i] for i in order)
    lowerings = tuple(scheduled.lowerings[i] for i in order)
    return Schedule(graph.replace(nodes=nodes), lowerings, reasons, rivals), tuple(ranks[i] for i in order)
