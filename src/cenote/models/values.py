"""Any value of a model by its name: a second plan of the same graph, in which it is an output.

A plan keeps no value that it need not: operators are fused, memory is used again. So values are asked of a plan of
their own, compiled when they are first asked for and kept in the cache like others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cenote.core.errors import InputError, near, shown
from cenote.core.locks import Guard, importing
from cenote.models.model import Model
from cenote.plans.cache import CacheEntry
from cenote.stages.planned import Interface
from cenote.stages.stage import Shared

if TYPE_CHECKING:
    from cenote.graph.graph import Graph

_KEPT = 4  # sets of values, each with a plan


class ModelsOfValues:
    """Models that give other values of a graph. `graph` reads it again, `entry`: the cache's place of the model."""

    def __init__(
        self,
        graph: Callable[[], Graph],
        shared: Shared,
        entry: CacheEntry | None,
    ) -> None:
        self._graph, self._shared, self._entry = graph, shared, entry
        self._guard = Guard()
        self._made: OrderedDict[tuple[str, ...], Model] = OrderedDict()

    def __call__(self, names: Sequence[str]) -> Model:
        """The model whose outputs are these values. Raises InputError for a name that no value has."""
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"outputs: takes a list of names of values, not {shown(names)}")
        wanted = tuple(dict.fromkeys(names))
        if not wanted:
            raise InputError("outputs: names no value")
        with self._guard.lock:
            model = self._made.get(wanted)
            if model is None:
                model = self._made[wanted] = self._model(wanted)
                if len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(wanted)
        return model

    def _model(self, names: tuple[str, ...]) -> Model:
        entry = None if self._entry is None else self._entry.giving(names)
        stored = None if entry is None else entry.find(None, self._shared.threads)
        if stored is not None:
            return Model.from_stored(stored, self._shared, entry, lambda: self._cut(names))
        with importing():
            from cenote.graph.graph import OwnedGraph

        return Model.from_graph(OwnedGraph(self._cut(names)), Interface((), ()), self._shared, entry)

    def _cut(self, names: tuple[str, ...]) -> Graph:
        """The graph with these values as outputs."""
        graph = self._graph()
        known = set(graph.values())
        for name in names:
            if name not in known:
                raise InputError(f"outputs: '{name}' is no value of the model{near(name, known)}")
        return graph.replace(outputs=names)
