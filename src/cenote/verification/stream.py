"""The interface of an engine for `verify`, and an engine's values: kept in a file, requested a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from cenote.core.deferred import dataclass
from cenote.core.types import Array, TensorType
from cenote.frontends.imported import ImportedModel
from cenote.verification.spill import Spill

Feed = Mapping[str, Array]


@dataclass(frozen=True)
class Subject:
    """A model that is compared: its path or bytes, the graph that Cenote imported, its format (None for a folder of
    parameters), and the requested signature."""

    source: Any
    imported: ImportedModel
    form: str | None = None
    signature: str | None = None


class Peer(Protocol):
    """An engine with a model. `known` are the values that it can give, by the model's names."""

    known: frozenset[str]

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        """Return these values for the model's inputs."""
        ...


class RecordedValues:
    """Values of a peer by name, each read from the file when it is requested.

    The peer is run for as many values at a time as fit `budget` bytes, and is not needed afterwards.
    """

    def __init__(
        self,
        peer: Peer,
        feed: Feed,
        names: Iterable[str],
        types: Mapping[str, TensorType],
        budget: int,
        spill: Spill,
    ) -> None:
        self.known, self._spill = peer.known, spill
        self._held: dict[str, Any] = {}
        waiting = [name for name in dict.fromkeys(names) if name in peer.known]
        while waiting:
            batch = _fitting(waiting, types, budget)
            del waiting[: len(batch)]
            for name, array in peer.values(feed, batch).items():
                self._held[name] = array if array.dtype.kind in "OSUT" else spill.write(array)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def value(self, name: str) -> Array:
        held = self._held[name]
        array: Array = held if hasattr(held, "nbytes") else self._spill.read(held)
        return array


def _fitting(names: Sequence[str], types: Mapping[str, TensorType], budget: int) -> list[str]:
    """Return the first of the names whose values fit, at least one."""
    taken: list[str] = []
    for name in names:
        budget -= types[name].nbytes if name in types else 0
        if taken and budget < 0:
            break
        taken.append(name)
    return taken
