"""Random operators without a seed rewritten as those with one, which have kernels; the seed is new in each run.

%y = unseeded_normal %shape     ->     %y.seed.0 = fresh_seed
                                       %y = random_normal %shape, %y.seed.0
"""

from __future__ import annotations

from dataclasses import fields, replace

from cenote.graph.graph import Graph, Node
from cenote.ops.base import Op
from cenote.ops.random.distributions import (
    Bernoulli,
    FreshSeed,
    Multinomial,
    RandomNormal,
    RandomUniform,
    UnseededBernoulli,
    UnseededMultinomial,
    UnseededNormal,
    UnseededUniform,
)
from cenote.ops.random.dropout import Dropout, UnseededDropout
from cenote.passes.cleanup import fresh

SEEDED: dict[type[Op], type[Op]] = {
    UnseededUniform: RandomUniform,
    UnseededNormal: RandomNormal,
    UnseededBernoulli: Bernoulli,
    UnseededMultinomial: Multinomial,
    UnseededDropout: Dropout,
}


def draw_seeds(graph: Graph) -> Graph:
    """Give every random operator a seed."""
    if not any(type(node.op) in SEEDED for node in graph.nodes):
        return graph
    nodes, types, taken = list[Node](), dict(graph.types), set(graph.values())
    for node in graph.nodes:
        kind = SEEDED.get(type(node.op))
        if kind is not None:
            seed = fresh(f"{node.outputs[0]}.seed", taken)
            (types[seed],) = FreshSeed().infer()
            nodes.append(Node(FreshSeed(), (), (seed,), node.label))
            values = {item.name: getattr(node.op, item.name) for item in fields(node.op)}  # type: ignore[arg-type]  # a dataclass
            absent = ("",) * (len(kind.operands) - 1 - len(node.inputs))
            node = replace(node, op=kind(**values), inputs=(*node.inputs, *absent, seed))
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes), types=types)
