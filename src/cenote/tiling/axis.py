"""One spatial axis of a layer as planners see it: the inputs that each output reads, and that tiles of some size
read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cenote.core import limits
from cenote.core.deferred import dataclass
from cenote.core.pool_geometry import AxisWindow
from cenote.core.types import Array


class AxisCut(NamedTuple):
    """An axis cut into tiles of one size: the outputs of each tile, and the inputs that each reads."""

    outputs: Array
    inputs: Array


@dataclass(eq=False)
class Axis:
    """`out` outputs over `size` inputs: output o reads inputs low[o] to high[o] - 1, once clipped to the input, and
    begins[o] to ends[o] - 1 of the padded axis. `aligned`: there is no padding and no two outputs read the same.
    `begin`: the padding before windows that slide; None where ranges are given. `step`: the outputs of an aligned cut,
    more than one where several outputs read one input."""

    size: int
    out: int
    low: Array
    high: Array
    begins: Array
    ends: Array
    aligned: bool
    stride: int = 1
    begin: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        self._spans: dict[tuple[int, bool], int] = {}
        self._cuts: dict[int, AxisCut] = {}

    def span(self, outputs: int, padded: bool = False) -> int:
        """Return the most inputs that `outputs` neighbours read, at any position; more outputs never read
        fewer."""
        key = outputs, padded
        if key not in self._spans:
            if self.begin is None:
                reads = self.high[outputs - 1 :] - self.low[: self.out - outputs + 1]
                self._spans[key] = int(reads.max())
            else:
                self._spans[key] = int(self.spans(np.array([outputs]), padded)[0])
        return self._spans[key]

    def spans(self, outputs: Array, padded: bool = False) -> Array:
        """Return `span` of each number of outputs."""
        if self.begin is None:
            return np.array([self.span(count, padded) for count in outputs.tolist()])
        # The inputs that a tile of equal windows reads, once clipped, become more from place to place as long as the
        # padding reaches into the tile, and fewer from where the input ends: the most are next to the end of the
        # padding.
        first, last = (self.begins, self.ends) if padded else (self.low, self.high)
        most: Array = np.zeros(len(outputs), np.int64)
        for place in (self.begin // self.stride, -(-self.begin // self.stride)):
            start = np.clip(place, 0, self.out - outputs)
            most = np.maximum(most, last[start + outputs - 1] - first[start])
        return most

    def cut(self, outputs: int) -> AxisCut:
        """Return the axis cut into tiles of this size; the last tile may be smaller."""
        if outputs not in self._cuts:
            starts = np.arange(0, self.out, outputs)
            stops = np.minimum(starts + outputs, self.out)
            self._cuts[outputs] = AxisCut(stops - starts, self.high[stops - 1] - self.low[starts])
        return self._cuts[outputs]

    def reads(self, first: int, stop: int) -> tuple[int, int]:
        """Return the half-open range of inputs that the outputs first..stop-1 read."""
        return int(self.low[first]), int(self.high[stop - 1])

    def sizes(self) -> list[int]:
        """Return the smallest tile of each number of parts, from 1 to the whole axis."""
        sizes, size = [], self.out
        while size > 1:
            sizes.append(size)
            parts = -(-self.out // (size - 1))
            size = -(-self.out // parts)
        return [1, *reversed(sizes)]


def window_axis(windows: AxisWindow) -> Axis:
    """Return the axis of a window that slides."""
    count = len(limits.positions("tiling", windows.out))
    begins = np.arange(count, dtype=np.int64) * windows.stride - windows.begin
    ends = begins + windows.reach
    low = np.clip(begins, 0, windows.size)
    high = np.maximum(low, np.clip(ends, 0, windows.size))
    aligned = not windows.begin and not windows.end and windows.reach <= windows.stride
    return Axis(windows.size, count, low, high, begins, ends, aligned, windows.stride, windows.begin)


def range_axis(size: int, ranges: Sequence[tuple[int, int]]) -> Axis:
    """Return the axis of ranges that are given, such as those of an adaptive pool."""
    pairs: np.ndarray[Any, Any] = np.array(ranges, np.int64).reshape(-1, 2)
    low, high = pairs[:, 0], pairs[:, 1]
    return Axis(size, len(pairs), low, high, low, high, bool((high[:-1] <= low[1:]).all()))


def transposed_axis(forward: Axis, extent: int) -> Axis:
    """Return the axis of a layer that runs the other way, from the outputs of `forward` to its `extent` inputs: each of
    them reads the outputs whose windows reach it, perhaps none. Where windows do not overlap and have no padding, an
    aligned cut has a stride's inputs and reads whole windows."""
    places = np.arange(len(limits.positions("tiling", extent)))
    low = np.searchsorted(forward.high, places, side="right")
    high = np.maximum(low, np.searchsorted(forward.low, places, side="right"))
    step = forward.stride if forward.begin is not None else 1
    aligned = forward.aligned and forward.begin is not None
    return Axis(forward.out, extent, low, high, low, high, aligned, step=step)
