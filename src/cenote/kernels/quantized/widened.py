"""Copy of bytes as numbers of 16 bits, halos and all, in blocks of channels: direct convolutions multiply these in
pairs without taking bytes apart for every group of filters.

    for row of an image's block of channels:      emitted, one item each
      for vector of the row, halo and all:        y = x as 16 bits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I16, Scalar
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Layout, TensorType
from cenote.kernels.base import (
    Argument,
    Call,
    KernelSpec,
    View,
    dense_strides,
    halo_offset,
    numbers_named,
    padded_spatial,
    pointers_to,
)
from cenote.kernels.layout.reorder import deep_strides

INT16 = np.dtype(np.int16)
NUMBERS = split_words("blocks depth height row x_n x_c x_d x_h")
_PIECE = 64 << 10  # bytes of x that a thread takes at a time


@dataclass(frozen=True)
class WidenSpec(KernelSpec):
    """Kernel for bytes of the type `x`."""

    x: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.x), "x"),
            *pointers_to(I16, "y"),
            *numbers_named(NUMBERS),
        )

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), target.lanes()
        blocks, depth, height, row = (k.number(name) for name in ("blocks", "depth", "height", "row"))
        for item in k.range(k.begin, k.end):
            h, outer = item % height, item // height
            d, outer = outer % depth, outer // depth
            steps = {"h": h, "d": d, "c": outer % blocks, "n": outer // blocks}
            x, y = k.pointer("x"), k.pointer("y") + item * row
            for axis, index in steps.items():
                x = x + index * k.number(f"x_{axis}")
            whole = row // (2 * lanes) * (2 * lanes)
            for at in k.range(0, whole, 2 * lanes):
                y.store(x.load(at, 2 * lanes).to(I16), at)
            for at in k.range(whole, row, lanes):
                y.store(x.load(at, lanes).to(I16), at)
        return k


def widened_type(shape: Sequence[int], layout: Layout) -> TensorType:
    """Return the type of the memory of a copy in this layout."""
    blocks = -(-shape[1] // layout.lanes)
    return TensorType(INT16, (shape[0] * blocks * layout.lanes, *padded_spatial(shape, layout)))


def widened(x: View, memory: View, layout: Layout) -> tuple[Call, View]:
    """Return the call that copies x into other memory, in a layout with at most the halo of its own, and the copy."""
    shape, halo = x.shape, layout.halo
    type = TensorType(INT16, shape)
    slot = replace(memory.slot, offset=memory.slot.offset + halo_offset(shape, layout) * INT16.itemsize)
    copy = View(type, layout, dense_strides(shape, layout), slot)
    depth, height, width = (1,) * (5 - len(shape)) + tuple(padded_spatial(shape, layout))
    n, c, d, h, _ = deep_strides(x)
    begin = sum(before * step for (before, _), step in zip(halo, x.strides[2:], strict=True))
    words: dict[str, Argument] = {"x": x.at(-begin), "y": memory, "blocks": x.blocks, "depth": depth}
    words |= {"height": height, "row": width * layout.lanes, "x_n": n, "x_c": c, "x_d": d, "x_h": h}
    items = shape[0] * x.blocks * depth * height
    grain = maximum(1, _PIECE // maximum(1, width * layout.lanes))
    return Call.named(WidenSpec(x.type.dtype), words, items, grain), copy
