"""Rows of A as the tiles of a product read them: where they lie, or from a copy in float32, times alpha."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import F32, Pointer, Value
from cenote.codegen.variables import Cursor
from cenote.core.deferred import dataclass


@dataclass(frozen=True)
class TileRows:
    """Rows of A whose numbers are broadcast to vectors: each row by a cursor of its own, or all by one, `apart`
    elements from row to row. `by`: elements from step to step where these are not neighbours."""

    cursors: Sequence[Cursor]
    apart: int
    by: Value | None = None

    def spread(self, row: int, step: int, lanes: int) -> Value:
        """Broadcast the number of a row this number of steps on."""
        offset = row * self.apart + (step if self.by is None else 0)
        return self.cursors[row % len(self.cursors)].at.broadcast(offset, lanes)

    def step(self) -> None:
        if self.by is not None:
            self.cursors[0].move(self.by)

    def move(self, steps: int) -> None:
        for cursor in self.cursors if self.by is None else ():
            cursor.move(steps)


def copy_vectors(k: Kernel, rows: Sequence[Pointer], to: Pointer, apart: int, count: Value) -> None:
    """Copy so many contiguous elements of each row to rows that are `apart`."""
    lanes, alpha = k.target.lanes(), k.number("alpha")
    whole = count // lanes * lanes
    for at in k.range(0, whole, lanes):
        for index, row in enumerate(rows):
            to.store(row.load(at, lanes).to(F32) * alpha, at + index * apart)
    with k.when(whole < count):
        mask = k.tail_mask(count - whole, lanes)
        for index, row in enumerate(rows):
            to.store(row.load(whole, lanes, mask).to(F32) * alpha, whole + index * apart, mask)


def copy_elements(k: Kernel, rows: Sequence[Pointer], to: Pointer, apart: int, count: Value) -> None:
    """Copy so many elements of each row, `a_column` from each other, to rows that are `apart`."""
    for at in k.range(0, count):
        for index, row in enumerate(rows):
            value = row.load(at * k.number("a_column")).to(F32)
            to.store(value * k.number("alpha"), at + index * apart)
