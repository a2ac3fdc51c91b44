"""Values inside of a model by their names: outputs of a second plan of the same graph.

A plan keeps few values: operators are fused, memory is used again. So values inside are computed by a plan of their
own, which is compiled on their first use and cached like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cenote.core.errors import InputError, near, shown
from cenote.core.locks import importing
from cenote.models.origin import Origin
from cenote.stages.planned import Interface

if TYPE_CHECKING:
    from cenote.graph.graph import Graph, OwnedGraph


class ValuesOrigin(Origin):
    """Origin of a model whose outputs are other values of the graph of `whole`."""

    has_graph = True
    is_whole = False

    def __init__(self, whole: Origin, names: tuple[str, ...]) -> None:
        super().__init__(None if whole.entry is None else whole.entry.giving(names))
        self._whole, self._names = whole, names

    def __str__(self) -> str:
        return f"values {', '.join(self._names)}"

    def imported(self) -> tuple[OwnedGraph, Interface]:
        with importing():
            from cenote.graph.graph import OwnedGraph

        return OwnedGraph(self.graph()), Interface((), ())

    def graph(self) -> Graph:
        """Return the graph with these values as outputs. Raises InputError for a name that no value has."""
        graph = self._whole.graph()
        known = set(graph.values())
        for name in self._names:
            if name not in known:
                raise InputError(f"outputs: '{name}' is no value of the model{near(name, known)}")
        return graph.replace(outputs=self._names)


def names_of_values(given: Sequence[str] | Any) -> tuple[str, ...]:
    """Return the names of values that a caller wants, each once. Raises InputError for no list of names."""
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise InputError(f"outputs: takes a list of names of values, not {shown(given)}")
    names = tuple(dict.fromkeys(given))
    if not names:
        raise InputError("outputs: names no value")
    return names
