"""Decision between the algorithms of a node, in place of the cost model's."""

from __future__ import annotations

from collections.abc import Container, Sequence

from cenote.core.deferred import dataclass
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.ops.base import Lowering

NAMED = "named by the caller"
REFERENCE = "reference"  # the algorithm of a host step, which every node has


@dataclass(frozen=True)
class PricedLowering:
    """Lowering that may be the best for a node, the cost model's seconds in all, and those of the conversions that it
    needs."""

    option: Lowering
    seconds: float
    conversions: float


class Decide:
    """Base of functions that may overrule the cost model."""

    def check(self, graph: Graph, candidates: Sequence[Sequence[Lowering]]) -> None:
        """Raise ArgumentError for what the caller has named and no node of the graph has."""

    def named(self, node: Node, offered: Container[str]) -> str:
        """Return the algorithm of these that the caller has named for a node, however expensive it is; "" for none."""
        return ""

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType | None],
        rivals: Sequence[PricedLowering],
        weights: int,
        /,
    ) -> tuple[int, str] | None:
        """Return one of the rivals, which come with the cost model's choice first and the others by its order, and the
        reason; None: the cost model decides. `weights`: bytes of all constants of the graph."""
        return None
