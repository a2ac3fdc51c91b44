"""Copy of bytes as numbers of 16 bits, in blocks of channels: direct convolutions multiply these in pairs without
taking bytes apart for every group of filters.

A copy of a whole tensor is a step of its own, halos and all:

    for block of an image's channels:                 emitted    one item each, or all blocks of a row are one
      for row:                                        emitted      (`shared_by_pixels`)
        for vector of the row, halo and all:          y = x as 16 bits

Windows of one pixel need no halo: each thread copies the pixels of a band to its scratch memory (`copy_pixels`) before
it multiplies them by all filters. So nothing is written that another thread reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I16, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
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
from cenote.kernels.conv.direct import PixelWalk
from cenote.kernels.layout.reorder import deep_strides
from cenote.kernels.row_shares import shared_by_pixels

INT16 = np.dtype(np.int16)
NUMBERS = split_words("blocks by_rows depth height row x_n x_c x_d x_h")
# Where x lies that a kernel copies by itself, in blocks; between blocks of the copy; bytes of scratch memory before it.
COPY_NUMBERS = split_words("s_image s_outer s_h s_w s_block s_blocks x_block kept")
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
        by_rows, whole = k.number("by_rows").differs(0), row // (2 * lanes) * (2 * lanes)
        parts = k.select(by_rows, depth * height, blocks)
        for item in k.range(k.begin, k.end):
            n, part = item // parts, item % parts
            d, h, none = part // height, part % height, k.integer(0)
            for block in k.range(k.select(by_rows, none, part), k.select(by_rows, blocks, part + 1)):
                origin = k.pointer("x") + (n * k.number("x_n") + block * k.number("x_c"))
                copy = k.pointer("y") + (n * blocks + block) * depth * height * row
                for deep in k.range(k.select(by_rows, d, none), k.select(by_rows, d + 1, depth)):
                    for at_h in k.range(k.select(by_rows, h, none), k.select(by_rows, h + 1, height)):
                        x = origin + (deep * k.number("x_d") + at_h * k.number("x_h"))
                        y = copy + (deep * height + at_h) * row
                        for at in k.range(0, whole, 2 * lanes):
                            y.store(x.load(at, 2 * lanes).to(I16), at)
                        for at in k.range(whole, row, lanes):
                            y.store(x.load(at, lanes).to(I16), at)
        return k


def copy_pixels(k: Kernel, walk: PixelWalk, count: Value, to: Pointer, lanes: int) -> None:
    """Copy pixels of x, those of a walk over "s", one after the other in each block of channels."""
    if walk.flat:
        start = k.pointer("x") + walk.offsets["s"].value
        numbers = count * lanes
        whole = numbers // (2 * lanes) * (2 * lanes)
        for block in k.range(0, k.number("s_blocks")):
            x, y = start + block * k.number("s_block"), to + block * k.number("x_block")
            for at in k.range(0, whole, 2 * lanes):
                y.store(x.load(at, 2 * lanes).to(I16), at)
            for at in k.range(whole, numbers, lanes):
                y.store(x.load(at, lanes).to(I16), at)
        return
    for pixel in k.range(0, count):
        x, y = k.pointer("x") + walk.take(1, lanes)[0]["s"], to + pixel * lanes
        for block in k.range(0, k.number("s_blocks")):
            y.store(x.load(block * k.number("s_block"), lanes).to(I16), block * k.number("x_block"))


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
    by_rows = shared_by_pixels(shape[1], math.prod(shape[2:]))
    words["by_rows"] = int(by_rows)
    parts = depth * height if by_rows else x.blocks
    moved = x.blocks * depth * height * width * layout.lanes
    grain = maximum(1, _PIECE * parts // maximum(1, moved))
    return Call.named(WidenSpec(x.type.dtype), words, shape[0] * parts, grain), copy
