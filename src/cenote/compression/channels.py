"""Channels of a network's values: which go only together, and which are a constant."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cenote.compression.network import SharedNetwork
from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array


@dataclass(frozen=True)
class Channels:
    """The channels of a value, along its axis 1.

    `ids`: a number of each channel in ChannelSets; `constants`: what each is everywhere, NaN where it varies or is not
    known; `flat`: a Flatten made columns of them, as many of each channel as its map had pixels.
    """

    ids: Array
    constants: Array
    rank: int
    flat: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class CutConstant:
    """A constant that a node reads, whose entries along an axis go with channels; `place`: of the node."""

    place: int
    position: int
    axis: int
    ids: Array


@dataclass(frozen=True)
class Count:
    """A number of channels, divided by `per`, that a node states: an entry of a constant that it reads at a position,
    or its attribute `group`."""

    place: int
    ids: Array
    per: int
    position: int = -1
    entry: int = 0


@dataclass(frozen=True)
class WeightedSum:
    """A layer whose results each add all the channels it reads, so that these end here.

    `sums`: of the weights of each pair of a result and a channel; `used`: pairs that have weights other than zero;
    `constants`: what the layer reads everywhere, its padding too; NaN elsewhere.
    """

    place: int
    read: Array
    made: Array
    constants: Array
    sums: Array
    used: Array


@dataclass(frozen=True)
class Shuffle:
    """Three nodes (Reshape, Transpose, Reshape) that bring channels into another order."""

    places: tuple[int, int, int]
    ids: Array
    order: Array


class ChannelSets:
    """Disjoint sets of channels that can be removed only together (a union-find), and what refers to them.

    `threshold`: filters whose norm is at most this part of the largest one's of their layer count as zeros.
    `blocked`: channels that are read in a way that is not understood, so that their sets stay.
    """

    def __init__(self, network: SharedNetwork, threshold: float) -> None:
        self.network, self.threshold = network, threshold
        self.values: dict[str, Channels] = {}
        self.cuts, self.counts = list[CutConstant](), list[Count]()
        self.sums, self.shuffles = list[WeightedSum](), list[Shuffle]()
        self.blocked: set[int] = set()
        self.norms: list[float] = []  # of the filter of each channel
        self._parents: list[int] = []

    @cached_property
    def shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Sizes of values that ONNX infers."""
        return self.network.shapes()

    def fresh(self, norms: Iterable[float]) -> Array:
        """Return new channels, each of a set of its own."""
        first = len(self._parents)
        self.norms.extend(norms)
        self._parents.extend(range(first, len(self.norms)))
        return np.arange(first, len(self.norms))

    def unknown(self, count: int, rank: int) -> Channels:
        """Return channels of a value that was not followed."""
        ids = self.fresh([0.0] * count)
        self.block(ids)
        return Channels(ids, np.full(count, np.nan), rank)

    def block(self, ids: Array) -> None:
        self.blocked.update(ids.tolist())

    def join(self, these: Array, those: Array) -> None:
        """Make channels of two values go together, pair by pair."""
        for this, that in zip(these.tolist(), those.tolist(), strict=True):
            self._parents[self._root(that)] = self._root(this)

    def roots(self) -> Array:
        """Return a channel of the set of each channel, the same for all of the set."""
        return np.array([self._root(each) for each in range(len(self._parents))], np.int64)

    def _root(self, channel: int) -> int:
        parents = self._parents
        while parents[channel] != channel:
            parents[channel] = parents[parents[channel]]  # halves the path
            channel = parents[channel]
        return channel

    def removable(self) -> Array:
        """Return a mask of the channels that can go: no result that stays needs what varies in their sets.

        Every value keeps a channel, the one whose filter has the largest norm.
        """
        roots, norms = self.roots(), np.array(self.norms)
        kept = np.zeros(len(roots), bool)
        kept[roots[sorted(self.blocked)]] = True
        while True:
            gone = self._unneeded(roots, kept)
            empty = [each for each in self.values.values() if gone[each.ids].all()]
            if not empty:
                return gone
            for each in empty:
                kept[roots[each.ids[np.argmax(norms[each.ids])]]] = True

    def _unneeded(self, roots: Array, kept: Array) -> Array:
        """Return the channels whose sets none of those that are kept need, directly or through other layers."""
        kept, count = kept.copy(), -1
        while count != kept.sum():
            count = int(kept.sum())
            for layer in reversed(self.sums):
                stays = kept[roots[layer.made]]
                needed = np.isnan(layer.constants) & layer.used[stays].any(axis=0)
                kept[roots[layer.read[needed]]] = True
        return ~kept[roots]
