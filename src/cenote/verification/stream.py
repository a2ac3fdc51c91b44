"""What `verify` asks of an engine, and what the engine said: kept in a file, asked for a few values at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cenote.core.types import Array, TensorType
from cenote.frontends.imported import ImportedModel
from cenote.verification.spill import Spill

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


class Recorded:
    """Values of a peer by name, each read from the file when it is asked for.

    The peer is run for as many at a time as `budget` bytes hold, and not needed any more then.
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
        found: Array = held if hasattr(held, "nbytes") else self._spill.read(held)
        return found


def _fitting(names: Sequence[str], types: Mapping[str, TensorType], budget: int) -> list[str]:
    """The first of the names whose values fit, one at least."""
    taken: list[str] = []
    for name in names:
        budget -= types[name].nbytes if name in types else 0
        if taken and budget < 0:
            break
        taken.append(name)
    return taken
