"""Columns of a convolution whose taps are displaced (deformable convolution): each tap reads by linear interpolation,
zeros outside the image.

    for item in begin .. end:                    emitted; an item is a run of places of one tap of one part of an image
        for place in the run:                    emitted
            offsets and weights to the scratch   `kernels.sampling.taps.py`, times the mask
        for channel of the part:                 emitted
            for place in the run:                emitted
                column = sum of weight * x       taps unrolled

The columns (N, C, taps of the window, places) are float32, whatever the type of the image; a matrix product follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.sampling.taps import SamplingRule, cut

RUN = 256  # output places of an item
NUMBERS = ("size", "out", "window", "stride", "pad", "dilation")  # along each axis
_WORK = 1 << 15  # output numbers that a thread takes at a time


@dataclass(frozen=True)
class DeformedSpec(KernelSpec):
    """Columns of an image of `rank` spatial axes; `mask`: a tensor of factors multiplies what the taps read."""

    dtype: np.dtype[Any]
    rank: int
    mask: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar.of(self.dtype)
        axes = [f"{what}_{axis}" for axis in range(self.rank) for what in NUMBERS]
        return (
            *pointers_to(F32, "y"),
            *pointers_to(element, "x", "offset", "mask"),
            *numbers_named(["taps", "places", "channels", "plane", *axes]),
        )

    @property
    def reading(self) -> SamplingRule:
        return SamplingRule(self.rank, "linear", "zeros", True, F32)

    def emit(self, target: Target) -> Kernel:
        k, reading = self.kernel(target), self.reading
        n, count = k.number, reading.count
        offsets = k.scratch.cast(I64)
        weights = (offsets + RUN * count).cast(F32)
        runs = (n("places") + (RUN - 1)) // RUN
        for item in k.range(k.begin, k.end):
            first, rest = item % runs * RUN, item // runs
            tap, part = rest % n("taps"), rest // n("taps")  # parts of all images
            length = k.minimum(n("places") - first, k.integer(RUN))
            moved = k.pointer("offset") + (rest * self.rank * n("places") + first)
            factors = k.pointer("mask") + (rest * n("places") + first)
            for place in k.range(0, length):
                at = place * count
                self._note(k, tap, first + place, moved + place, offsets + at, weights + at)
                if self.mask:
                    factor = (factors + place).load().to(F32)
                    for number in range(count):
                        weights.store(weights.load(at + number) * factor, at + number)
            for channel in k.range(0, n("channels")):
                plane = part * n("channels") + channel
                x = k.pointer("x") + plane * n("plane")
                y = k.pointer("y") + ((plane * n("taps") + tap) * n("places") + first)
                for place in k.range(0, length):
                    at = place * count
                    y.store(reading.value(k, x, offsets + at, weights + at), place)
        return k

    def _note(
        self, k: Kernel, tap: Value, place: Value, moved: Pointer, offsets: Pointer, weights: Pointer
    ) -> None:
        """Store the offsets and weights that one output place reads: the window's tap, displaced along each axis."""
        n, places, steps = k.number, list[Value](), list[Value]()
        for axis in reversed(range(self.rank)):
            step, tap = tap % n(f"window_{axis}"), tap // n(f"window_{axis}")
            out, place = place % n(f"out_{axis}"), place // n(f"out_{axis}")
            base = out * n(f"stride_{axis}") - n(f"pad_{axis}") + step * n(f"dilation_{axis}")
            places.insert(0, cut(k, base.to(F64) + moved.load(n("places") * axis).to(F32).to(F64)))
            steps.insert(0, steps[0] * n(f"size_{axis + 1}") if steps else k.integer(1))
        self.reading.note(
            k, places, [n(f"size_{axis}") for axis in range(self.rank)], steps, offsets, weights
        )


@dataclass(frozen=True)
class Deformation:
    """Geometry of a deformable convolution: per axis the numbers of NUMBERS; `parts` groups of channels, each
    displaced alike."""

    axes: tuple[tuple[int, ...], ...]
    parts: int

    @staticmethod
    def of(parts: int, *values: Sequence[int]) -> Deformation:
        return Deformation(tuple(zip(*values, strict=True)), parts)

    @property
    def taps(self) -> int:
        return math.prod(axis[2] for axis in self.axes)

    @property
    def places(self) -> int:
        return math.prod(axis[1] for axis in self.axes)


def deformed_call(x: View, offset: View, mask: View | None, y: View, how: Deformation) -> Call:
    """Return the launch for dense x (N, C, *spatial), offsets (N, parts * taps * rank, *out), mask (N, parts * taps,
    *out) and columns y (N, C, taps, places)."""
    spec = DeformedSpec(x.type.dtype, len(how.axes), mask is not None)
    channels = x.shape[1] // how.parts
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "offset": offset,
        "mask": mask,
        "taps": how.taps,
        "places": how.places,
        "channels": channels,
        "plane": math.prod(axis[0] for axis in how.axes),
    }
    for number, axis in enumerate(how.axes):
        words |= {f"{what}_{number}": value for what, value in zip(NUMBERS, axis, strict=True)}
    items = x.shape[0] * how.parts * how.taps * -(-how.places // RUN)
    count = spec.reading.count
    grain = maximum(1, _WORK // maximum(1, RUN * count * channels))
    return Call.named(spec, words, items, grain, scratch=RUN * count * 12)
