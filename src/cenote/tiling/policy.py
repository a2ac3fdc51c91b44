"""Choices that the description of the three stages leaves open, as fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, shown
from cenote.core.types import dtype_named
from cenote.tiling.hardware import Hardware

_CHOICES = {
    "aligned_rest": ("stride", "whole"),
    "pad_space": ("clipped", "padded"),
    "batch": ("fused", "apart"),
    "enough": ("cores", "waves"),
}


@dataclass(frozen=True)
class Policy:
    """Choices of a planner.

    aligned_rest  "stride": while stage 2 cuts H, D is one stride (one output); while it cuts W, D and H are. Each axis
                  starts from the smallest tile that the axis before it reached, as stage 3 assumes when it starts
                  there. "whole": they stay whole, which leaves longer tiles, but fewer layers fit.
    pad_space     "clipped": the buffer holds real elements only, as a pool's windows clip. "padded": it also holds the
                  padding that a tile's windows see, for machines that write it into the buffer.
    batch         "fused": a tile's planes are any of N * C, which pools treat alike. "apart": they are of one image.
                  Convolutions are always apart, as a tile needs the input channels of its image.
    buffers       2: the next tile is loaded while one is computed, so tiles get half of the space. 1: tiles get all of
                  it, and nothing overlaps. None: the number that the hardware has.
    accumulator   Element type in which the sums of a tile lie in the buffer beside its outputs. None: a pool keeps
                  them in registers; a convolution over parts of its channels takes float32 (float64 for float64).
    enough        "cores": at least as many tasks as cores, if there are so many outputs. "waves": also a multiple of
                  the cores, so that none is idle in the last wave (where no tile does, the smallest is taken).
    scratch       Bytes of each buffer that stay free for the kernel's own use.
    """

    aligned_rest: str = "stride"
    pad_space: str = "clipped"
    batch: str = "fused"
    buffers: int | None = None
    accumulator: str | None = None
    enough: str = "cores"
    scratch: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ArgumentError(
                    f"policy: {name} must be one of {', '.join(allowed)}, got {shown(getattr(self, name))}"
                )
        if self.buffers not in (None, 1, 2):
            raise ArgumentError(f"policy: buffers must be 1, 2 or None, got {shown(self.buffers)}")
        if not isinstance(self.scratch, int) or isinstance(self.scratch, bool) or self.scratch < 0:
            raise ArgumentError(f"policy: scratch must be 0 or more bytes, got {shown(self.scratch)}")
        if self.accumulator is not None:
            try:
                dtype_named(self.accumulator)
            except TypeError as error:
                raise ArgumentError(
                    f"policy: accumulator {shown(self.accumulator)} is no element type"
                ) from error

    def copies(self, hardware: Hardware) -> int:
        """Return the number of buffers that each tile has: 1 or 2."""
        return self.buffers or (2 if hardware.double_buffering else 1)

    @property
    def sum_type(self) -> np.dtype[Any] | None:
        """The accumulator's element type."""
        return None if self.accumulator is None else dtype_named(self.accumulator)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def policy_of(given: dict[str, Any]) -> Policy:
    """Return the policy of keyword arguments; ArgumentError names those that are not known."""
    known = [item.name for item in fields(Policy)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ArgumentError(f"tiling.plan: {', '.join(unknown)} is not known (policy: {', '.join(known)})")
    return Policy(**given)
