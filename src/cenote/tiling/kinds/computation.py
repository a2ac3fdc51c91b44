"""Computation of a layer: its tensors as planes of maps, and a tile's outputs from what a core has loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from cenote.core.deferred import dataclass
from cenote.core.types import Array, TensorType
from cenote.ops.base import Op
from cenote.ops.values import seeded

Range = tuple[int, int]
Ranges = tuple[Range, ...]


@dataclass(frozen=True)
class TileData:
    """One step of a task on one core: what it computes, and access to what was loaded for it.

    planes, spatial   ranges of output planes and of outputs along each spatial axis
    channels          range of input planes, within their image
    read              a box (planes, *spatial) of a source that was loaded; PlanError where it was not
    weights           the weights that were loaded, one behind the other
    """

    planes: Range
    spatial: Ranges
    channels: Range
    read: Callable[[int, Ranges], Array]
    weights: Callable[[], Array]


@dataclass(frozen=True)
class Computation(ABC):
    """The operator of a layer on inputs of these types, a tile at a time. `given` are the inputs that a caller gives;
    the operator may take others, whose content it does not read."""

    op: Op
    given: tuple[TensorType, ...]

    weights_at: ClassVar[int] = 1
    """Number of the input that holds the weights of a sum over input channels."""

    def examples(self) -> tuple[Array, ...]:
        """Return seeded content of the inputs after the first."""
        return tuple(seeded(kind.shape, number, kind.dtype) for number, kind in enumerate(self.given[1:], 1))

    def reference(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the outputs of the operator, computed on whole inputs in one piece."""
        return tuple(self.op.reference(*arrays))

    @abstractmethod
    def sources(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the inputs that are cut along the layer's axes, as (images, planes, *spatial)."""

    @abstractmethod
    def values(self, arrays: Sequence[Array], data: TileData) -> tuple[Array, ...]:
        """Return the outputs (planes, *spatial) of a tile whose input channels were all loaded at once."""

    def partial(self, data: TileData) -> Array:
        """Return the sums of a part of the input channels in float64. For layers with parts of channels only."""
        raise NotImplementedError(f"{type(self).__name__}.partial")

    def finished(self, total: Array, arrays: Sequence[Array], data: TileData) -> Array:
        """Return a tile's outputs from its sums over all parts of the channels."""
        raise NotImplementedError(f"{type(self).__name__}.finished")

    def delivered(self, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return a whole layer's outputs as the operator gives them, from those of the tiles."""
        return outputs
