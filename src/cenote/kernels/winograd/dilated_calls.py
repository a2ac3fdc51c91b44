"""Calls of a dilated Winograd convolution of maps: those of smaller maps, of every d-th row and column."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from cenote.core.conv_geometry import ConvShape
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.kernels.base import View
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.winograd.calls import WinogradTiling
from cenote.kernels.winograd.kernel import APART, WinogradSpec


@dataclass(frozen=True)
class WinogradDilatedTiling(WinogradTiling):
    """Tiling of those maps of a dilated layer that are of one size; `shape` is one of them, its n counts all.

    `apart`: the dilations, down and across. `first`: the row and column where the first map begins, and the tensors of
    the calls; `begins`: the numbers of rows and of columns, from there on, where maps begin.
    """

    apart: tuple[int, ...] = (1, 1)
    first: tuple[int, int] = (0, 0)
    begins: tuple[int, int] = (1, 1)

    @property
    def pitch(self) -> int:
        return self.lanes * self.apart[1]

    def steps(self, view: View) -> dict[str, int]:
        steps = super().steps(view)
        return steps | {"h": steps["h"] * self.apart[0], "next_row": steps["h"]}

    @property
    def may_be_empty(self) -> bool:  # type: ignore[override]  # no other tiling is ever empty
        return is_size(self.tiles)

    def _spec(self, phase: str, activation: Activation, residual: bool) -> WinogradSpec:
        return replace(super()._spec(phase, activation, residual), dilated=True)

    def numbers(self, phase: str) -> dict[str, int]:
        rows, columns = self.begins
        phases = {APART: self.apart[1], "row_phases": rows, "column_phases": columns}
        return super().numbers(phase) | phases


def dilated_tilings(
    shape: ConvShape, tile: tuple[int, int], target: Target
) -> Iterator[WinogradDilatedTiling]:
    """Yield a tiling of each size that the maps of a dilated layer have: where the dilation does not divide the rows,
    the first maps have one more than the others, and so with columns. Where the number of rows is open, so are those of
    these maps, of which there may be none.

    Pads before x are multiples of the dilations.
    """
    steps = shape.dilations
    pads = tuple((before // step, after) for (before, after), step in zip(shape.pads, steps, strict=True))
    rows, columns = (list(_begins(*each)) for each in zip(shape.out, steps, strict=True))
    for (row, tall), (column, wide) in itertools.product(rows, columns):
        size, out = (
            tuple(
                maximum(0, -(-(extent - begin) // step))
                for extent, begin, step in zip(of, (row, column), steps, strict=True)
            )
            for of in (shape.size, shape.out)
        )
        one = replace(shape, n=shape.n * tall * wide, size=size, out=out, pads=pads, dilations=(1, 1))
        yield WinogradDilatedTiling(one, *tile, target, apart=steps, first=(row, column), begins=(tall, wide))


def _begins(extent: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield where maps of one extent begin, and how many there are: longer ones first."""
    longer = extent % step
    if is_size(extent) or longer:
        yield 0, longer
    if is_size(extent) or extent >= step:
        yield longer, step - longer
