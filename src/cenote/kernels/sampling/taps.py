"""Reading between the elements of an image: the taps of a place, and their weighted sum.

A place has one coordinate per axis of the image, in elements. Along each axis some taps are read: the nearest one, two
(linear) or four (cubic); the image's taps are their products. Places are float64; indices are held within the image,
whatever a place says. A tap that counts as 0 has the offset -1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F64, I64, Pointer, Scalar, Value
from cenote.kernels.elementwise.functions import emit_function, round_even

FAR = 2.0**40  # places are cut to this, so that they fit an integer
CUBIC = -0.75  # Keys' coefficient, as PyTorch and ONNX Runtime have it
PER_AXIS = {"nearest": 1, "linear": 2, "cubic": 4}


@dataclass(frozen=True)
class Taps:
    """How an image of `rank` axes is read: `mode` is "nearest", "linear" or "cubic"; `padding` "zeros", "border" or
    "reflection"; `align_corners` says where the border is: at the centres of the outer pixels, or at their edges.
    `pixels_moved`: a place may lie outside, and the taps alone are moved."""

    rank: int
    mode: str
    padding: str
    align_corners: bool
    pixels_moved: bool
    compute: Scalar

    @property
    def count(self) -> int:
        taps: int = PER_AXIS[self.mode] ** self.rank
        return taps

    def note(
        self, k: Kernel, places: Sequence[Value], extents: Sequence[Value], steps: Sequence[Value], offsets: Pointer,
        weights: Pointer,
    ) -> None:  # fmt: skip
        """Store where the taps of a place lie, and their weights."""
        axes = [
            [(index * step, inside, weight) for index, inside, weight in self._axis(k, place, extent)]
            for place, extent, step in zip(places, extents, steps, strict=True)
        ]
        for number, taps in enumerate(itertools.product(*axes)):
            offset, inside, weight = taps[0]
            for more, also, factor in taps[1:]:
                offset, weight = offset + more, weight * factor
                inside = inside if also is None or inside is None else inside & also
            offsets.store(offset if inside is None else k.select(inside, offset, k.integer(-1)), number)
            if self.mode != "nearest":
                weights.store(weight.to(self.compute), number)

    def value(self, k: Kernel, x: Pointer, offsets: Pointer, weights: Pointer) -> Value:
        """The weighted sum of the taps that `note` stored; of "nearest" the element itself."""
        total: Value | None = None
        for tap in range(self.count):
            offset = offsets.load(tap)
            pixel = x.load(k.maximum(offset, k.integer(0)) if self.padding == "zeros" else offset)
            if self.padding == "zeros":
                pixel = k.select(offset >= 0, pixel, k.constant(pixel.type, 0))
            if self.mode == "nearest":
                return pixel
            part, weight = pixel.to(self.compute), weights.load(tap)
            total = part * weight if total is None else k.fma(part, weight, total)
        assert total is not None
        return total

    def _axis(self, k: Kernel, place: Value, extent: Value) -> list[tuple[Value, Value | None, Value]]:
        """Index, whether it counts (None: always) and weight of the taps along one axis."""
        size, one = extent.to(F64), k.constant(F64, 1.0)
        edge = 0.0 if self.align_corners else -0.5
        low, high = k.constant(F64, edge), size - (1.0 + edge)
        if self.mode == "nearest":
            place = round_even(k, place)
        if not self.pixels_moved:
            place = self._held(k, place, low, high, size)
        first = emit_function(k, "floor", (), (place,))
        part = place - first
        if self.mode == "nearest":
            taps = [(0.0, one)]
        elif self.mode == "linear":
            taps = [(0.0, 1.0 - part), (1.0, part)]
        else:
            taps = [(step, _cubic(k, k.absolute(part - step))) for step in (-1.0, 0.0, 1.0, 2.0)]
        return [(*self._index(k, first + step, low, high, size), weight) for step, weight in taps]

    def _held(self, k: Kernel, place: Value, low: Value, high: Value, size: Value) -> Value:
        """A place moved to the border or reflected there, if it lies outside."""
        if self.padding == "zeros":
            return place
        outside = (place < low) | (place > high)
        if self.padding == "border":
            return k.select(outside, k.minimum(k.maximum(place, k.constant(F64, 0.0)), size - 1.0), place)
        return k.select(outside, _reflected(k, place, low, high), place)

    def _index(
        self, k: Kernel, index: Value, low: Value, high: Value, size: Value
    ) -> tuple[Value, Value | None]:
        if self.padding == "reflection":
            index = _reflected(k, index, low, high)
        held = k.minimum(k.maximum(index, k.constant(F64, 0.0)), size - 1.0)
        return held.to(I64), index.equals(held) if self.padding == "zeros" else None


def cut(k: Kernel, place: Value) -> Value:
    """A place within what integers hold; NaN is far below."""
    far = k.constant(F64, FAR)
    return k.select(place.is_nan(), -far, k.minimum(k.maximum(place, -far), far))


def _reflected(k: Kernel, place: Value, low: Value, high: Value) -> Value:
    """Moved inside by reflection at both borders, as often as it takes."""
    span = high - low
    moved, twice = place - low, span * 2.0
    folded = moved - emit_function(k, "floor", (), (moved / twice,)) * twice
    return k.select(span > 0.0, low + k.minimum(folded, twice - folded), k.constant(F64, 0.0))


def _cubic(k: Kernel, d: Value) -> Value:
    """Keys' convolution kernel at a distance."""
    near = (d * (CUBIC + 2) - (CUBIC + 3)) * d * d + 1.0
    far = ((d - 5.0) * d + 8.0) * d * CUBIC - 4.0 * CUBIC
    return k.select(d <= 1.0, near, far)
