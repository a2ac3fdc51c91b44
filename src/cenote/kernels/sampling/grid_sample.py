"""Interpolation in lines, pictures and volumes at places given by a grid, in all modes.

for item in begin .. end:                        emitted; an item is a run of places of one image
    for place in the run:                        emitted, by vectors
        offsets and weights of its taps          to the scratch (taps.py): those of the first tap, of the second …
    for channel:                                 emitted
        for place in the run:                    emitted, by vectors where pixels can be gathered
            y = sum of weight * x                taps unrolled; with AVX2 two neighbours by one load where they are

Places are computed in float64, their pixels' indices held within the image, whatever the grid holds. Nearest pixels are
copied as bits, whatever their type. Runs are long, so that a channel's pixels stay in the nearest cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I32, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.sampling.taps import SamplingRule, cut

# Places of an item, and their pixels, at most: by runs of 256, 64 maps of 56x56 take 1.15 of the time (bilinear, random
# places), 1.05 (bicubic).
RUN, TAPS = 512, 2048
_WORK = 1 << 15  # numbers that a thread takes at a time


@dataclass(frozen=True)
class GridSampleSpec(KernelSpec):
    """Kernel for `rank` spatial axes; the rest as in the operator. `small`: offsets within an image fit 32 bits."""

    dtype: np.dtype[Any]
    grid: np.dtype[Any]
    rank: int
    mode: str
    padding: str
    align_corners: bool
    small: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        axes = [f"size_{axis}" for axis in range(self.rank)] + [
            f"step_{axis}" for axis in range(self.rank - 1)
        ]
        numbers = ["places", "channels", "x_image", "x_channel", "y_image", "y_channel", *axes]
        return (
            *pointers_to(Scalar.of(self.dtype), "y", "x"),
            *pointers_to(Scalar.of(self.grid), "grid"),
            *numbers_named(numbers),
        )

    @property
    def taps(self) -> SamplingRule:
        compute = F64 if Scalar.of(self.dtype) is F64 else F32
        index = I32 if self.small else I64
        how = (self.rank, self.mode, self.padding, self.align_corners)
        rule = SamplingRule(*how, compute, index)
        return replace(
            rule, apart=min(RUN, max(TAPS // rule.count, 1))
        )  # the numbers of a run lie side by side

    def lanes(self, target: Target) -> int:
        """Number of places at a time, where pixels can be gathered."""
        return target.lanes(self.dtype) if target.vector_bytes > 16 and self.dtype.itemsize >= 4 else 1

    def emit(self, target: Target) -> Kernel:
        k, taps, lanes = self.kernel(target), self.taps, self.lanes(target)
        n, places, run = k.number, k.number("places"), taps.apart
        offsets = k.scratch.cast(taps.index)
        weights = (k.scratch.cast(I64) + run * taps.count).cast(taps.compute)
        runs = (places + (run - 1)) // run
        for item in k.range(k.begin, k.end):
            image, first = item // runs, item % runs * run
            count = k.minimum(places - first, k.integer(run))
            whole = count // lanes * lanes
            parts = (
                ((k.integer(0), whole, lanes), (whole, count, 1))
                if lanes > 1
                else ((k.integer(0), count, 1),)
            )
            grid = k.pointer("grid") + (image * places + first) * self.rank
            for begin, end, step in parts:
                for place in k.range(begin, end, step):
                    found = self._places(k, grid + place * self.rank, step)
                    taps.note(k, found, *self._axes(k), offsets + place, weights + place)
            for channel in k.range(0, n("channels")):
                x = k.pointer("x") + (image * n("x_image") + channel * n("x_channel"))
                y = k.pointer("y") + (image * n("y_image") + channel * n("y_channel") + first)
                for begin, end, step in parts:
                    for place in k.range(begin, end, step):
                        for plain in self._cases(k, offsets + place, step):
                            value = taps.value(k, x, offsets + place, weights + place, step, plain)
                            y.store(value.to(y.element), place)
        return k

    def _cases(self, k: Kernel, offsets: Pointer, lanes: int) -> Iterator[bool]:
        """Emit branches by whether a vector's taps are plain: most are, and need no masks and half of the loads."""
        if lanes == 1 or k.target.has_gather or not self.taps.may_be_plain:
            yield False
            return
        plain = self.taps.are_plain(k, offsets, lanes)
        with k.when(plain):
            yield True
        with k.unless(plain):
            yield False

    def _axes(self, k: Kernel) -> tuple[list[Value], list[Value]]:
        """Return the extents of the image, and the steps from one element of an axis to the next."""
        axes = range(self.rank)
        steps = [k.number(f"step_{axis}") for axis in axes[:-1]]
        return [k.number(f"size_{axis}") for axis in axes], [*steps, k.integer(1)]

    def _places(self, k: Kernel, grid: Pointer, lanes: int) -> list[Value]:
        """Compute some places in pixels, axis by axis; the grid has the last axis first."""
        coordinates = grid.load(0, self.rank * lanes)
        parts = [
            k.shuffle(coordinates, coordinates, range(at, self.rank * lanes, self.rank))
            if self.rank > 1
            else coordinates
            for at in reversed(range(self.rank))
        ]
        return [self._place(k, part, size) for part, size in zip(parts, self._axes(k)[0], strict=True)]

    def _place(self, k: Kernel, coordinate: Value, extent: Value) -> Value:
        size = extent.to(F64)
        half = coordinate.type.nbytes == 2
        unit = (coordinate.to(F32) if half else coordinate).to(F64) + 1.0
        if self.align_corners:
            return cut(k, unit) * ((size - 1.0) * 0.5)  # infinity times 0 would be NaN
        return k.fma(unit, size * 0.5, k.constant(F64, -0.5))


def grid_sample_call(x: View, grid: View, y: View, mode: str, padding: str, align_corners: bool) -> Call:
    """Return the launch for x (N, C, *spatial), a dense grid (N, *out, rank) and y (N, C, *out), whose channels are
    dense."""
    dtype = np.dtype(f"u{x.type.dtype.itemsize}") if mode == "nearest" else x.type.dtype
    sizes, steps = x.shape[2:], x.strides[2:]
    last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    small = not is_size(last) and last < (1 << 31) - 8  # indices may leave the image by a few
    how = (len(sizes), mode, padding, align_corners, small)
    spec = GridSampleSpec(dtype, grid.type.dtype, *how)
    places = math.prod(y.shape[2:])
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "grid": grid,
        "places": places,
        "channels": y.shape[1],
        "x_image": x.strides[0],
        "x_channel": x.strides[1],
        "y_image": y.strides[0],
        "y_channel": y.strides[1],
    }
    words |= {f"size_{axis}": size for axis, size in enumerate(sizes)}
    words |= {f"step_{axis}": step for axis, step in enumerate(steps[:-1])}
    run = spec.taps.apart
    pixels = run * spec.taps.count
    grain = maximum(1, _WORK // maximum(1, pixels * y.shape[1]))
    return Call.named(spec, words, y.shape[0] * -(-places // run), grain, scratch=pixels * 16)
