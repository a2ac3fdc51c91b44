"""Lines, pictures and volumes read at places given by a grid, in all modes: what pictures.py does not.

for item in begin .. end:                    emitted; an item is a run of places of one image
    for place in the run:                    emitted
        offsets and weights to the scratch   `kernels.sampling.taps.py`
    for channel:                             emitted
        for place in the run:                emitted
            y = sum of weight * x            taps unrolled
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, F64, I64, Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.sampling.taps import Taps, cut

RUN = 256  # places of an item
_WORK = 1 << 15  # numbers of a piece of work


@dataclass(frozen=True)
class GridSampleGeneralSpec(KernelSpec):
    """`rank` spatial axes; the rest as in the operator. A nearest pixel is copied as bits."""

    dtype: np.dtype[Any]
    grid: np.dtype[Any]
    rank: int
    mode: str
    padding: str
    align_corners: bool
    pixels_moved: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        axes = [f"{what}_{axis}" for axis in range(self.rank) for what in ("size", "step")]
        return (
            *pointers_to(Scalar.of(self.dtype), "y", "x"),
            *pointers_to(Scalar.of(self.grid), "grid"),
            *numbers_named(["places", "channels", "x_channel", *axes]),
        )

    @property
    def taps(self) -> Taps:
        compute = F64 if Scalar.of(self.dtype) is F64 else F32
        return Taps(self.rank, self.mode, self.padding, self.align_corners, self.pixels_moved, compute)

    def emit(self, target: Target) -> Kernel:
        k, taps = self.kernel(target), self.taps
        n, places = k.number, k.number("places")
        offsets = k.scratch.cast(I64)
        weights = (offsets + RUN * taps.count).cast(taps.compute)
        runs = (places + (RUN - 1)) // RUN
        for item in k.range(k.begin, k.end):
            image, first = item // runs, item % runs * RUN
            count = k.minimum(places - first, k.integer(RUN))
            grid = k.pointer("grid") + (image * places + first) * self.rank
            for place in k.range(0, count):
                at = place * taps.count
                self._note(k, taps, grid + place * self.rank, offsets + at, weights + at)
            for channel in k.range(0, n("channels")):
                plane = image * n("channels") + channel
                x, y = k.pointer("x") + plane * n("x_channel"), k.pointer("y") + (plane * places + first)
                for place in k.range(0, count):
                    at = place * taps.count
                    y.store(taps.value(k, x, offsets + at, weights + at).to(y.element), place)
        return k

    def _note(self, k: Kernel, taps: Taps, grid: Pointer, offsets: Pointer, weights: Pointer) -> None:
        """The taps of one place, whose last coordinate is the first axis's."""
        sizes = [k.number(f"size_{axis}") for axis in range(self.rank)]
        steps = [k.number(f"step_{axis}") for axis in range(self.rank)]
        places = [self._place(k, grid.load(self.rank - 1 - axis), size) for axis, size in enumerate(sizes)]
        taps.note(k, places, sizes, steps, offsets, weights)

    def _place(self, k: Kernel, coordinate: Value, extent: Value) -> Value:
        """In pixels."""
        size = extent.to(F64)
        half = coordinate.type.nbytes == 2
        unit = cut(k, (coordinate.to(F32) if half else coordinate).to(F64) + 1.0)
        return cut(k, unit / 2.0 * (size - 1.0) if self.align_corners else (unit * size - 1.0) / 2.0)


def grid_sample_general_call(
    x: View, grid: View, y: View, mode: str, padding: str, align_corners: bool, pixels_moved: bool
) -> Call:
    """The launch for dense x (N, C, *spatial), grid (N, *out, rank) and y (N, C, *out)."""
    dtype = np.dtype(f"u{x.type.dtype.itemsize}") if mode == "nearest" else x.type.dtype
    sizes = x.shape[2:]
    spec = GridSampleGeneralSpec(
        dtype, grid.type.dtype, len(sizes), mode, padding, align_corners, pixels_moved
    )
    places = math.prod(y.shape[2:])
    words: dict[str, Argument] = {
        "y": y, "x": x, "grid": grid, "places": places, "channels": y.shape[1], "x_channel": math.prod(sizes),
    }  # fmt: skip
    for axis, size in enumerate(sizes):
        words |= {f"size_{axis}": size, f"step_{axis}": math.prod(sizes[axis + 1 :])}
    count = spec.taps.count
    grain = maximum(1, _WORK // maximum(1, RUN * count * y.shape[1]))
    return Call.named(spec, words, y.shape[0] * -(-places // RUN), grain, scratch=RUN * count * 16)
