"""What `verify` asks of an engine, and asking it for a few values at a time so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cenote.core.types import Array, TensorType
from cenote.frontends.imported import ImportedModel

Feed = Mapping[str, Array]


@dataclass(frozen=True)
class Subject:
    """A model that is compared: its path or bytes, what Cenote read of it, its format (None of a folder of parameters),
    and the signature that was asked for."""

    source: Any
    imported: ImportedModel
    form: str | None = None
    signature: str | None = None


class Peer(Protocol):
    """`known` are the values that it can give, by the model's names."""

    known: frozenset[str]

    def values(self, feed: Feed, names: Sequence[str]) -> Mapping[str, Array]:
        """These values for the model's inputs."""
        ...


class Stream:
    """Values of a peer in an order that is known beforehand: it is run for as many at a time as `budget` bytes hold."""

    def __init__(
        self, peer: Peer, feed: Feed, names: Iterable[str], types: Mapping[str, TensorType], budget: int
    ) -> None:
        self.peer, self.feed, self.types, self.budget = peer, feed, types, budget
        self.names = [name for name in names if name in peer.known]
        self.place = {name: index for index, name in enumerate(self.names)}
        self.held: dict[str, Array] = {}
        self.given: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.place

    def value(self, name: str) -> Array:
        """A value, once; asked for in about the order of the names."""
        if name not in self.held:
            self.held.update(self.peer.values(self.feed, self._batch(self.place[name])))
        self.given.add(name)
        return self.held.pop(name)

    def _batch(self, start: int) -> list[str]:
        taken: list[str] = []
        room = self.budget
        for name in self.names[start:]:
            if name in self.given or name in self.held:
                continue
            room -= self.types[name].nbytes if name in self.types else 0
            if taken and room < 0:
                break
            taken.append(name)
        return taken
