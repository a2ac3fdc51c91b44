"""Rows of windows as channels: a convolution of bytes with few channels whose numbers of a pixel lie beside those of
the next, so that a row of a window is one run of numbers and is filled up to four once, not pixel by pixel.

    7x7 windows of 3 channels: 7 runs of 21 numbers, 11 pairs each, where 49 pixels of 4 numbers make 98 pairs

The copy of 16-bit numbers is made of one of bytes in fours of channels, halo and all:

    item = a piece of an image               emitted
      for four pixels:                       emitted    one load, a shuffle, a conversion, a store
      for pixel left:                        emitted
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.dots import BYTES
from cenote.codegen.values import I16, Scalar
from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import (
    Argument,
    Call,
    KernelSpec,
    View,
    halo_offset,
    numbers_named,
    padded_spatial,
    pointers_to,
)

INT16 = np.dtype(np.int16)
_SLACK = BYTES  # numbers behind an image: what fills its last run up is read there
_PIECE = 4096  # pixels of an item: 2 us


@dataclass(frozen=True)
class ThinSpec(KernelSpec):
    """Kernel for bytes of the type `x`, which keeps `channels` of each four."""

    x: np.dtype[Any]
    channels: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = (*pointers_to(Scalar.of(self.x), "x"), *pointers_to(I16, "y"))
        return (*pointers, *numbers_named(("pixels", "piece", "pieces", "y_image")))

    def emit(self, target: Target) -> Kernel:
        k, kept = self.kernel(target), self.channels
        pixels, piece, pieces = (k.number(name) for name in ("pixels", "piece", "pieces"))
        order = [pixel * BYTES + channel for pixel in range(BYTES) for channel in range(kept)]
        for item in k.range(k.begin, k.end):
            image, begin = item // pieces, item % pieces * piece
            end = k.min_drop_nan(begin + piece, pixels)
            x = k.pointer("x") + image * pixels * BYTES
            y = k.pointer("y") + image * k.number("y_image")
            whole = begin + (end - begin) // BYTES * BYTES
            for pixel in k.range(begin, whole, BYTES):
                bytes_ = x.load(pixel * BYTES, BYTES**2)
                y.store(k.shuffle(bytes_, bytes_, order).to(I16), pixel * kept)
            for pixel in k.range(whole, end):
                for channel in range(kept):
                    y.store(x.load(pixel * BYTES + channel).to(I16), pixel * kept + channel)
        return k


@dataclass(frozen=True)
class WindowRows:
    """A convolution whose windows' rows are channels; `shape` is over three axes and of one group."""

    shape: ConvShape

    @property
    def numbers(self) -> int:
        """Number of a row's numbers."""
        return self.shape.channels * self.shape.window[2]

    @property
    def unit(self) -> int:
        """Number of a row's numbers with those that fill it."""
        return -(-self.numbers // BYTES) * BYTES

    @property
    def is_short(self) -> bool:
        """Whether the last two numbers of a row fill it."""
        return self.unit - self.numbers >= 2

    @property
    def as_rows(self) -> ConvShape:
        """The convolution as its kernels see it."""
        shape = self.shape
        window, dilations = (*shape.window[:2], 1), (*shape.dilations[:2], 1)
        return replace(shape, channels=self.numbers, window=window, dilations=dilations)

    def weights(self, weights: Array) -> Array:
        """Weights (filters, channels, d, h, w) with the numbers of a row as channels."""
        rows = weights.transpose(0, 4, 1, 2, 3)
        return np.ascontiguousarray(rows.reshape(len(weights), self.numbers, *weights.shape[2:4], 1))

    def memory(self, x: TensorType, layout: Layout) -> TensorType:
        """Type of the memory of the copy of x."""
        return TensorType(INT16, (x.shape[0] * self._image(x.shape, layout),))

    def _image(self, shape: tuple[int, ...], layout: Layout) -> int:
        """Numbers from image to image."""
        return math.prod(padded_spatial(shape, layout)) * self.shape.channels + _SLACK

    def copied(self, x: View, memory: View) -> tuple[Call, View]:
        """Return the call that copies bytes in fours of channels, and the copy as kernels see it."""
        channels, image = self.shape.channels, self._image(x.shape, x.layout)
        padded = padded_spatial(x.shape, x.layout)
        begin = halo_offset(x.shape, x.layout)
        pixels = math.prod(padded)
        pieces = -(-pixels // _PIECE)
        words: dict[str, Argument] = {"x": x.at(-begin), "y": memory, "y_image": image}
        words |= {"pixels": pixels, "piece": _PIECE, "pieces": pieces}
        call = Call.named(ThinSpec(x.type.dtype, channels), words, x.shape[0] * pieces, 1)
        steps = [channels * math.prod(padded[axis + 1 :]) for axis in range(len(padded))]
        kind = TensorType(INT16, (x.shape[0], self.numbers, *x.shape[2:]))
        first = begin // BYTES * channels
        return call, replace(memory, type=kind, layout=Layout(self.unit), strides=(image, 0, *steps)).at(
            first
        )


def suits(shape: ConvShape) -> bool:
    """Whether a convolution over three axes has few channels that do not fill fours, and rows of several pixels."""
    return shape.groups == 1 and shape.channels < BYTES and shape.window[2] > 1 and shape.dilations[2] == 1
