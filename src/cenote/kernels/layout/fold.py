"""Columns added up to images: the inverse layout of unfolding (col2im).

    for item in begin .. end:                    emitted; an item is one row of one plane
        sums of the row: scratch, zeros          emitted
        for tap along the depth, the height:     emitted; where some window has the row under this tap
            for tap along the width:             emitted
                sums[places] += columns          emitted; vectors where windows are neighbours
        y = sums                                 emitted

Every row has one owner, and its taps are added in one order: equal bits for any number of threads. Floats of 16 bits
are added up in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.types import is_float
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.elementwise.elementwise import vector_lanes

AXES = ("d", "h", "w")  # of the image; missing ones have extent 1
NUMBERS = [
    f"{what}_{axis}" for axis in AXES for what in ("size", "blocks", "window", "stride", "pad", "dilation")
]
_WORK = 1 << 15  # elements of a piece of work


@dataclass(frozen=True)
class FoldSpec(KernelSpec):
    """Kernel that folds columns. `adjacent`: windows lie one element apart along the width."""

    dtype: np.dtype[Any]
    lanes: int
    adjacent: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*pointers_to(Scalar.of(self.dtype), "y", "x"), *numbers_named(NUMBERS))

    @property
    def compute(self) -> Scalar:
        element = Scalar.of(self.dtype)
        return F32 if element.is_float and element.nbytes < 4 else element

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        n, sums = k.number, k.scratch.cast(self.compute)
        blocks = n("blocks_d") * n("blocks_h") * n("blocks_w")
        taps = n("window_d") * n("window_h") * n("window_w")
        width = n("size_w")
        for item in k.range(k.begin, k.end):
            row, rest = item % n("size_h"), item // n("size_h")
            plane, image = rest % n("size_d"), rest // n("size_d")
            for at in k.range(0, width, self.lanes):
                sums.store(k.constant(self.compute, 0, self.lanes), at)
            columns = k.pointer("x") + image * taps * blocks
            for down, block_d in self._windows(k, "d", plane):
                for tap, block_h in self._windows(k, "h", row):
                    first = (down * n("window_h") + tap) * n("window_w")
                    at = (block_d * n("blocks_h") + block_h) * n("blocks_w")
                    for across in k.range(0, n("window_w")):
                        self._add(k, sums, columns + ((first + across) * blocks + at), across)
            y = k.pointer("y") + item * width
            whole = width // self.lanes * self.lanes
            for at in k.range(0, whole, self.lanes):
                y.store(sums.load(at, self.lanes).to(y.element), at)
            for at in k.range(whole, width):
                y.store(sums.load(at).to(y.element), at)
        return k

    def _windows(self, k: Kernel, axis: str, place: Value) -> Iterator[tuple[Value, Value]]:
        """Yield taps along an axis under which a window has this place, and the window's number."""
        n = k.number
        for tap in k.range(0, n(f"window_{axis}")):
            begin = place + n(f"pad_{axis}") - tap * n(f"dilation_{axis}")
            window, stride = begin // n(f"stride_{axis}"), n(f"stride_{axis}")
            with k.when((begin >= 0) & (begin % stride).equals(0) & (window < n(f"blocks_{axis}"))):
                yield tap, window

    def _add(self, k: Kernel, sums: Pointer, x: Pointer, tap: Value) -> None:
        """Add one tap of all windows along the width, except windows whose tap lies in the border."""
        n = k.number
        # Window b reads place b * stride + shift.
        stride, shift = n("stride_w"), tap * n("dilation_w") - n("pad_w")
        first = k.maximum(k.integer(0), (stride - 1 - shift) // stride)
        last = k.minimum(n("blocks_w"), k.maximum(k.integer(0), (n("size_w") - 1 - shift + stride) // stride))
        if not self.adjacent:
            for block in k.range(first, last):
                place = block * stride + shift
                sums.store(sums.load(place) + x.load(block).to(self.compute), place)
            return
        whole = first + k.maximum(k.integer(0), last - first) // self.lanes * self.lanes
        for lanes, begin, end in ((self.lanes, first, whole), (1, whole, last)):
            for block in k.range(begin, end, lanes):
                total = sums.load(block + shift, lanes) + x.load(block, lanes).to(self.compute)
                sums.store(total, block + shift)


@dataclass(frozen=True)
class Windows:
    """A sliding window over an image of 1 to 3 axes: per axis the image's extent, the number of places, the window's
    extent, stride, padding before and dilation."""

    axes: tuple[tuple[int, int, int, int, int, int], ...]

    @staticmethod
    def of(*values: Sequence[int]) -> Windows:
        """Make windows of the six values, each given per axis."""
        return Windows(tuple(zip(*values, strict=True)))

    @property
    def words(self) -> dict[str, Argument]:
        """Numbers of a call; missing axes come first."""
        alone = (1, 1, 1, 1, 0, 1)
        axes = ((alone,) * (len(AXES) - len(self.axes))) + self.axes
        return dict(zip(NUMBERS, [number for axis in axes for number in axis], strict=True))


def fold_call(x: View, y: View, windows: Windows, target: Target) -> Call:
    """Return the launch for dense columns (N, C * taps, places) and images (N, C, *spatial)."""
    dtype = y.type.dtype
    lanes = vector_lanes(dtype, target) if is_float(dtype) or dtype.itemsize >= 4 else 16
    width, step = windows.axes[-1][0], windows.axes[-1][3]
    spec = FoldSpec(dtype, lanes, isinstance(step, int) and step == 1)
    rows = y.type.size // maximum(1, width)
    grain = maximum(1, _WORK // maximum(1, width * windows.axes[-1][2]))
    words: dict[str, Argument] = {"y": y, "x": x, **windows.words}
    return Call.named(spec, words, rows, grain, scratch=(width + lanes) * 8)
