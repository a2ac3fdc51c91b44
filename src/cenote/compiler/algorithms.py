"""Algorithms that the caller has named, by node or by operator (the option `algorithms`): the decision for them, and
refusals of those that are not to be had.

`check_names` and `check_part` are about names of nodes and operators, `NamedAlgorithms.check` about names of
algorithms. Nothing that a caller has named is left out in silence.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from cenote.compiler.decide import NAMED, REFERENCE, Decide, PricedLowering
from cenote.core.errors import ArgumentError, near
from cenote.core.extensions.switched import algorithm_named, is_of_user, unknown_algorithm
from cenote.core.types import TensorType
from cenote.graph.conditional import Branch
from cenote.graph.graph import Graph, Node
from cenote.graph.loops import ControlFlow
from cenote.ops.base import Lowering, Op
from cenote.ops.conv import algorithms as convolutions
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.pool import algorithms as pools
from cenote.ops.pool.whole_map import GlobalPool
from cenote.ops.pool.window import TapPool
from cenote.ops.table import operators


class NamedAlgorithms(Decide):
    """Decision for nodes whose algorithm is named (`algorithms`: by the title of a node, or by the name of an operator;
    a node's own entry wins); `otherwise` for the others, and for nodes of an operator that do not have its
    algorithm."""

    def __init__(self, algorithms: Mapping[str, str], otherwise: Decide) -> None:
        self.algorithms, self.otherwise = algorithms, otherwise

    def named(self, node: Node, offered: Container[str]) -> str:
        """Return the algorithm of these that is named for a node; "" for none."""
        wanted = (self.algorithms.get(key, "") for key in (node.title, node.op.name))
        return next((name for name in wanted if name in offered), "")

    def __call__(
        self, node: Node, types: Sequence[TensorType | None], rivals: Sequence[PricedLowering], weights: int
    ) -> tuple[int, str] | None:
        names = [rival.option.name for rival in rivals]
        wanted = self.named(node, names)
        return (names.index(wanted), NAMED) if wanted else self.otherwise(node, types, rivals, weights)

    def check(self, graph: Graph, candidates: Sequence[Sequence[Lowering]]) -> None:
        """Raise ArgumentError for an algorithm that none of the nodes has that it is named for.

        Names in files are not unique, and passes make several nodes of one: it is enough that one of them has it.
        """
        for key, wanted in self.algorithms.items():
            found = [
                (node, [each.name for each in options if each.alias is None])
                for node, options in zip(graph.nodes, candidates, strict=True)
                if key in (node.title, node.op.name)
            ]
            if found and wanted != REFERENCE and all(wanted not in names for _, names in found):
                node, _ = found[0]
                possible = [*dict.fromkeys(name for _, names in found for name in names), REFERENCE]
                types = ", ".join(map(str, filter(None, graph.input_types(node))))
                where = key if key == node.op.name else f"{key} ({node.op.name})"
                raise ArgumentError(f"algorithms: {where} of {types}: {refused(node.op, wanted, possible)}")


def refused(op: Op, wanted: str, possible: Sequence[str]) -> str:
    """Return why an algorithm cannot be had for an operator, and those that can (`possible`)."""
    those = f"possible: {', '.join(possible)}"
    if is_of_user(wanted):
        found = algorithm_named(wanted)
        if found is None:
            return f"{unknown_algorithm(wanted)}; {those}"
        return f"'{wanted}', of {found.place}, does not serve it (it is registered for of=\"{found.of}\"); {those}"
    # Of Winograd's, say, each size of tiles is a lowering of its own.
    said = [each.wins for each in _listed(op) if f"{wanted}_".startswith(f"{each.name}_")]
    if said:
        return f"'{wanted}' does not serve it (it is for {said[-1]}); {those}"
    return f"it has no algorithm '{wanted}'; {those}{near(wanted, possible)}"


def _listed(op: Op) -> Iterator[pools.PoolingAlgorithm | convolutions.ConvolutionAlgorithm]:
    """Yield the algorithms in the lists for operators of this kind."""
    if isinstance(op, TapPool | GlobalPool):
        yield from (each for listed in pools.PROBLEMS.values() for each in listed)
    elif isinstance(op, Conv | ConvTranspose):
        yield from (each for listed in convolutions.PROBLEMS.values() for each in listed)


def check_names(named: Iterable[str], source: Graph) -> None:
    """Raise ArgumentError for names of no node and no operator of a graph, before passes make others of them."""
    known = _names((*source.nodes, *_within(source.nodes)))
    if unknown := set(named) - known - set(source.values()) - {op.name for op in operators()}:
        raise _unknown(min(unknown), known)


def check_part(
    named: Iterable[str], source: Graph, made: Graph, later: Sequence[Node] = (), whole: bool = True
) -> None:
    """Raise ArgumentError for names of which nothing is left in what has been `made` of a graph. `later`: nodes that
    are compiled afterwards. `whole`: the graph is all of the model, so that names that it does not have are wrong."""
    known, within = _names(source.nodes), _names(_within(source.nodes))
    left = _names((*made.nodes, *later, *_within((*source.nodes, *later))))
    for name in sorted({*named} - left):
        if name in known:
            raise ArgumentError(
                f"algorithms: nothing is left of {name}: passes have merged it into other nodes, or computed it, or it "
                "runs between the stages of the model; `cenote inspect` shows the steps there are"
            )
        if whole:
            raise _unknown(name, known | within)


def _unknown(name: str, known: Iterable[str]) -> ArgumentError:
    return ArgumentError(f"algorithms: the model has no node and no operator '{name}'{near(name, known)}")


def _names(nodes: Iterable[Node]) -> set[str]:
    """Return the titles and the operators of nodes."""
    return {name for node in nodes for name in (node.title, node.op.name)}


def _within(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes within others: of the bodies of loops, and of branches."""
    for node in nodes:
        inner: tuple[Node, ...] = ()
        if isinstance(node.op, ControlFlow):
            inner = node.op.body.nodes
        elif isinstance(node.op, Branch):
            inner = (*node.op.then, *node.op.otherwise)
        yield from inner
        yield from _within(inner)
