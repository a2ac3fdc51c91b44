"""Branches whose condition is computed when the model runs (`tf.cond` on a placeholder): a Switch before each input
of a branch, a Merge behind each of its outputs; and If.

    %t, %f = Switch %x, %c          the nodes between record the branches that they are in, and for each Merge
    %m = Merge(g(%f), h(%t))        ->    %m = if %c { h(%x) } else { g(%x) }

The nodes of both branches are imported like others. Then the nodes between the Switches and the Merges of one call
become the two bodies of one node (`graph/conditional.py`), of which a run computes the chosen one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import GraphBuilder
from cenote.graph.conditional import branch_node, refusal
from cenote.graph.graph import Node
from cenote.ops.movement.reshape import Identity

Sides = tuple[tuple[str, bool], ...]
"""Branches around a node, the outermost first: the value of the condition, and whether the branch is taken where it
holds."""


def around(*sides: Sides) -> Sides:
    """Return all of these branches, without duplicates."""
    return tuple(dict.fromkeys(each for some in sides for each in some))


@dataclass
class _Merge:
    """A value that comes from either branch: `made` is `ways[True]` or `ways[False]`."""

    condition: str
    sides: Sides
    ways: tuple[str, str]
    made: str
    label: str


class Branches:
    """The undecided branches of a graph under construction."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        # Branches of the nodes that are in some, by the nodes' first outputs.
        self.sides: dict[str, Sides] = {}
        self.merges: list[_Merge] = []

    def note(self, since: int, sides: Sides) -> None:
        """Record that the nodes which the builder has made since then are in these branches."""
        if sides:
            for node in self.builder.nodes[since:]:
                self.sides.setdefault(node.outputs[0], sides)

    def refused(self, error: UnsupportedError, label: str) -> str:
        """Add a value of a branch that Cenote cannot compute: an error when the branch is taken."""
        value = self.builder.name(label)
        self.builder.nodes.append(refusal(error, (value,), label))
        return value

    def merged(self, condition: str, sides: Sides, ways: tuple[str, str], label: str) -> str:
        """Return the value that is `ways[1]` where the condition holds, else `ways[0]`."""
        if ways[0] == ways[1]:
            return ways[0]
        made = self.builder.name(label)
        self.merges.append(_Merge(condition, sides, ways, made, label))
        # A placeholder until `structured` is called.
        self.builder.nodes.append(Node(Identity(), (made,), (made,), label))
        self.sides[made] = sides
        return made

    def structured(self) -> None:
        """Replace the nodes between Switches and Merges by branches, the innermost first."""
        if not self.merges:
            return
        nodes = {node.outputs[0]: node for node in self.builder.nodes}
        makers = {name: node.outputs[0] for node in self.builder.nodes for name in node.outputs if name}
        for depth in sorted({len(merge.sides) for merge in self.merges}, reverse=True):
            for group in self._groups([m for m in self.merges if len(m.sides) == depth], nodes, makers):
                self._put(group, nodes, makers)
        self.builder.nodes[:] = _sorted(nodes, makers)

    def _groups(
        self, merges: Sequence[_Merge], nodes: dict[str, Node], makers: dict[str, str]
    ) -> Iterator[list[tuple[_Merge, tuple[list[str], list[str]]]]]:
        """Yield groups of merges that share nodes of a branch: they belong to one call of tf.cond."""
        owner: dict[str, int] = {}
        groups: dict[int, list[tuple[_Merge, tuple[list[str], list[str]]]]] = {}
        for number, merge in enumerate(merges):
            inner = (self._inside(merge, False, nodes, makers), self._inside(merge, True, nodes, makers))
            touched = {owner[name] for side in inner for name in side if name in owner}
            groups[number] = [(merge, inner)]
            for other in sorted(touched):
                groups[number] = groups.pop(other) + groups[number]
            for _, sides in groups[number]:
                owner.update(dict.fromkeys((*sides[0], *sides[1]), number))
        yield from groups.values()

    def _inside(self, merge: _Merge, side: bool, nodes: dict[str, Node], makers: dict[str, str]) -> list[str]:
        """Return the nodes of a branch that a merge needs, by their first outputs."""
        here = (merge.condition, side)
        inside: dict[str, None] = {}
        stack = [merge.ways[side]]
        while stack:
            name = makers.get(stack.pop())
            if name is None or name in inside or here not in self.sides.get(name, ()):
                continue
            inside[name] = None
            stack.extend(nodes[name].inputs)
        return list(inside)

    def _put(
        self,
        group: list[tuple[_Merge, tuple[list[str], list[str]]]],
        nodes: dict[str, Node],
        makers: dict[str, str],
    ) -> None:
        """Add one node for the merges of a group, with the nodes that they need inside of it."""
        first, made = group[0][0], tuple(merge.made for merge, _ in group)
        bodies = []
        for side in (False, True):
            inside = {name: nodes[name] for _, inner in group for name in inner[side]}
            ends = [Node(Identity(), (merge.ways[side],), (merge.made,), merge.label) for merge, _ in group]
            bodies.append((*_sorted(inside, makers), *ends))
        for _, inner in group:
            for name in (*inner[0], *inner[1]):
                nodes.pop(name, None)
        for name in made:
            nodes.pop(name)
        nodes[made[0]] = branch_node(first.condition, made, bodies[True], bodies[False], first.label)
        makers.update(dict.fromkeys(made, made[0]))

    def condition_of(self, ways: Sequence[Sides]) -> tuple[str, Sides, bool]:
        """Return the condition that chooses between two values in these branches, the branches around both, and
        whether the first value is the one that is taken where it holds."""
        first, second = ways
        both = around(first, second)
        certain = [(c, side) for c, side in both if (c, side) in first and (c, not side) in second]
        of_one = [(c, side) for c, side in both if ((c, side) in first) != ((c, side) in second)]
        if not certain and not of_one:
            raise UnsupportedError("nothing says in which branch either of its inputs lies")
        condition, side = (certain or of_one)[-1]
        outer = tuple(each for each in both if each[0] != condition)
        return condition, outer, side if (condition, side) in first else not side

    def index(self, condition: str, first_is_true: bool) -> str:
        """Return the index of the taken input of a Merge: an int32."""
        chosen = self.builder.add("Not", condition) if first_is_true else condition
        return self.builder.cast(chosen, np.dtype(np.int32))


def _sorted(nodes: dict[str, Node], makers: dict[str, str]) -> list[Node]:
    """Return nodes in an order in which each comes after those that it reads from."""
    done: dict[str, Node] = {}
    waiting: set[str] = set()
    for wanted in nodes:
        stack = [wanted]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            sources = dict.fromkeys(makers.get(each, "") for each in nodes[name].inputs)
            missing = [each for each in sources if each in nodes and each not in done]
            if not missing:
                done[stack.pop()] = nodes[name]
            elif name in waiting:
                raise ModelError(f"{nodes[name].where}: its branches need what they make")
            else:
                waiting.add(name)
                stack.extend(missing)
    return list(done.values())
