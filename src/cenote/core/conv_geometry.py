"""Resolved sizes of one convolution, from an operator's attributes and its inputs' shapes.

Spatial sizes are tuples over 1 to 3 axes; `deep` gives them over (depth, height, width), on which the kernels
compute: a 1-D convolution is one of height 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeVar

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.pool_geometry import AUTO_PADS, AxisWindow, Pairs, padding_pairs, same_pads
from cenote.core.sizes import is_size

T = TypeVar("T")


@dataclass(frozen=True)
class ConvShape:
    """Sizes of a convolution: x (n, channels, *size) with w (filters, channels / groups, *window) gives y (n, filters,
    *out).
    """

    n: int
    channels: int
    filters: int
    groups: int
    size: tuple[int, ...]
    out: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pairs
    dilations: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        return self.filters // self.groups

    @property
    def pixels(self) -> int:
        """Number of output pixels of one image."""
        return math.prod(self.out)

    @property
    def taps(self) -> int:
        return math.prod(self.window)

    @property
    def operations(self) -> int:
        """Operations: multiply-adds counted as 2, as if no tap fell into the padding."""
        return 2 * self.n * self.filters * self.pixels * self.group_channels * self.taps

    @property
    def reach(self) -> tuple[int, ...]:
        """Input extent under one window: (window - 1) * dilation + 1."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilations, strict=True))

    @property
    def axes(self) -> tuple[AxisWindow, ...]:
        """Windows along each spatial axis."""
        windows = []
        for axis in range(self.rank):
            begin, end = self.pads[axis]
            sizes = self.size[axis], self.window[axis], self.strides[axis], self.dilations[axis]
            windows.append(AxisWindow(*sizes, begin, end, self.out[axis]))
        return tuple(windows)

    @property
    def halo(self) -> Pairs:
        """Widths of the border of zeros that a kernel reads around the input; never negative, and enough for every
        window."""
        borders = []
        for axis in range(self.rank):
            begin, end = self.pads[axis]
            last = (self.out[axis] - 1) * self.strides[axis] + self.reach[axis] - begin
            needed = last - self.size[axis]
            borders.append((begin, max(0, end if is_size(needed) else needed)))  # at most the padding
        return tuple(borders)

    @property
    def is_pointwise(self) -> bool:
        """Whether a 1x1 window moves by one and needs no padding: a matrix product over the pixels."""
        ones = all(k == 1 for k in self.window) and all(s == 1 for s in self.strides)
        return ones and not any(begin or end for begin, end in self.pads)

    def deep(self) -> ConvShape:
        """The same convolution over three axes."""
        missing = 3 - self.rank
        return dataclasses.replace(
            self,
            size=_lead(self.size, 1, missing),
            out=_lead(self.out, 1, missing),
            window=_lead(self.window, 1, missing),
            strides=_lead(self.strides, 1, missing),
            pads=_lead(self.pads, (0, 0), missing),
            dilations=_lead(self.dilations, 1, missing),
        )


def _lead(values: tuple[T, ...], first: T, count: int) -> tuple[T, ...]:
    return (first,) * count + values


def pairs_from_onnx(op: str, pads: Sequence[int]) -> Pairs:
    """Return (begin, end) per axis from ONNX's pads, which list all begins, then all ends."""
    if len(pads) % 2:
        raise ArgumentError(f"{op}: pads {tuple(pads)} must hold a begin and an end per axis")
    half = len(pads) // 2
    return tuple((int(begin), int(end)) for begin, end in zip(pads[:half], pads[half:], strict=True))


def check_auto_pad(op: str, auto_pad: str) -> str:
    """Return one of AUTO_PADS; some exporters write an empty one for NOTSET."""
    if auto_pad and auto_pad not in AUTO_PADS:
        raise ArgumentError(f"{op}: auto_pad '{auto_pad}' is not known ({', '.join(AUTO_PADS)})")
    return auto_pad or "NOTSET"


def resolve_pads(
    op: str, auto_pad: str, pads: Pairs, size: Sequence[int], reach: Sequence[int], strides: Sequence[int]
) -> Pairs:
    """Return the pads of a convolution; with `auto_pad` the explicit ones are ignored, as in ONNX Runtime."""
    if check_auto_pad(op, auto_pad) == "NOTSET":
        return padding_pairs(op, pads, len(size))
    if auto_pad == "VALID":
        return ((0, 0),) * len(size)
    resolved = []
    for extent, covered, stride in zip(size, reach, strides, strict=True):
        out = -(-extent // stride)
        resolved.append(same_pads(max(0, (out - 1) * stride + covered - extent), auto_pad == "SAME_UPPER"))
    return tuple(resolved)


def output_size(
    op: str, size: Sequence[int], reach: Sequence[int], strides: Sequence[int], pads: Pairs
) -> tuple[int, ...]:
    """Return output extents; ShapeError when the window does not fit into the padded input."""
    out = []
    for axis, (extent, covered, stride, (begin, end)) in enumerate(
        zip(size, reach, strides, pads, strict=True)
    ):
        padded = extent + begin + end
        if padded < covered:
            raise ShapeError(
                f"{op}: the window covers {covered} along spatial axis {axis}, but the input has {extent} "
                f"and its padding {begin}+{end}; pad more, or use a smaller window or dilation"
            )
        out.append((padded - covered) // stride + 1)
    return tuple(out)
