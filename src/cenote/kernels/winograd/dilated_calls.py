"""Calls of a dilated Winograd convolution: those of smaller maps of every d-th row and column, or of such volumes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.kernels.base import View
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.kernel import APART, WinogradSpec


@dataclass(frozen=True)
class WinogradDilatedTiling(WinogradTiling):
    """Tiling of those maps of a dilated layer that are of one size; `shape` is one of them, its n counts all.

    `apart`: the dilations, down and across. `begins`: the numbers of rows and of columns where maps begin, from the
    first element of the calls' tensors on.
    """

    apart: tuple[int, ...] = (1, 1)
    begins: tuple[int, ...] = (1, 1)

    @property
    def pitch(self) -> int:
        return self.lanes * self.apart[1]

    def steps(self, view: View) -> dict[str, int]:
        steps = super().steps(view)
        return steps | {"h": steps["h"] * self.apart[0], "next_row": steps["h"]}

    @property
    def may_be_empty(self) -> bool:  # type: ignore[override]  # others are never empty
        return is_size(self.tiles)

    def _spec(self, phase: str, activation: Activation, residual: bool) -> WinogradSpec:
        return replace(super()._spec(phase, activation, residual), dilated=True)

    def numbers(self, phase: str) -> dict[str, int]:
        rows, columns = self.begins
        phases = {APART: self.apart[1], "row_phases": rows, "column_phases": columns}
        return super().numbers(phase) | phases


@dataclass(frozen=True)
class Apart:
    """Maps or volumes of a dilated layer that are of one size; `shape` is one of them, its n counts all. `first`: where
    the first one begins along each axis; `begins`: the number of places, from there on, where some begin."""

    shape: ConvShape
    first: tuple[int, ...]
    begins: tuple[int, ...]


def parts_apart(shape: ConvShape) -> Iterator[Apart]:
    """Yield what a dilated layer is made of, by size: where the dilation does not divide the rows, the first maps have
    one more than the others, and so along other axes. Where the number of rows is open, so are those of these maps, of
    which there may be none.

    Pads before x are multiples of the dilations.
    """
    steps = shape.dilations
    pads = tuple((before // step, after) for (before, after), step in zip(shape.pads, steps, strict=True))
    axes = (list(_begins(*each)) for each in zip(shape.out, steps, strict=True))
    for part in itertools.product(*axes):
        first, begins = (tuple(each) for each in zip(*part, strict=True))
        size, out = (
            tuple(_every(extent, begin, step) for extent, begin, step in zip(of, first, steps, strict=True))
            for of in (shape.size, shape.out)
        )
        one = replace(
            shape, n=shape.n * math.prod(begins), size=size, out=out, pads=pads, dilations=(1,) * len(steps)
        )
        yield Apart(one, first, begins)


def _every(extent: int, begin: int, step: int) -> int:
    """Return how many places there are from `begin` on, so many apart."""
    return extent if step == 1 else maximum(0, -(-(extent - begin) // step))


def _begins(extent: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield where maps of one extent begin, and how many there are: longer ones first."""
    longer = 0 if step == 1 else extent % step
    if is_size(longer) or longer:
        yield 0, longer
    if step == 1 or is_size(extent) or extent >= step:
        yield longer, step - longer
