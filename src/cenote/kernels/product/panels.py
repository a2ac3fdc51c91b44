"""B in panels: groups of as many columns as a tile has, each group's rows one after the other, zeros past the last.

A panel is read from its beginning to its end, once per band of A's rows: no page or cache line is touched for less than
all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array
from cenote.kernels.base import Argument, Call, KernelSpec, Packed, View, numbers_named, pointers_to
from cenote.kernels.conv.tile_widths import cut
from cenote.kernels.lanes import transposed
from cenote.kernels.strided_axes import Axis, axis_names, axis_pointers, axis_words, is_one, position_count

_PIECE = 256 << 10  # bytes that a thread packs at a time
# Contiguous rows are read in runs of so many columns, in strips of so many rows: 4,096 x 4,096 on one thread of a Zen 3
# by whole panels, 16 columns wide, 20.7 ms, so 7.7; 1,024 x 1,024 0.36, 0.14. Strips of 4 and 16: 8.1 and 9.4, 0.17 and
# 0.23.
_RUN = 1024
_STRIP = 8
_UNROLLED = 8  # vectors of a row
_TOGETHER = 4  # vectors of a wide row that are copied at a time
LINE = 16  # elements of a cache line


@dataclass(frozen=True)
class Panels:
    """Cut of B (depth x columns): groups of `blocks` vectors, and after them `narrow` groups of one vector less."""

    depth: int
    columns: int
    blocks: int
    lanes: int
    narrow: int = 0

    @staticmethod
    def cut(m: int, n: int, k: int, target: Target) -> Panels:
        """Cut B into as few groups as the registers allow, of two neighbouring widths, so that nothing is computed
        past the last vector of columns.

        32 registers: four vectors by six rows; 16: two by six. Under 4 rows more vectors keep enough sums in flight.
        """
        lanes = target.lanes()
        most = 4 if target.registers > 16 else 2
        if not is_size(m) and m < 4:
            most = 8 if m == 1 else 4
        if is_size(n):
            return Panels(k, n, most, lanes)
        blocks, groups, wide = cut_exactly(-(-n // lanes), most)
        return Panels(k, n, blocks, lanes, groups - wide)

    @property
    def width(self) -> int:
        """Number of columns of a group."""
        return self.blocks * self.lanes

    @property
    def groups(self) -> int:
        vectors = -(-self.columns // self.lanes)
        return self.narrow - (((self.blocks - 1) * self.narrow - vectors) // self.blocks)

    @property
    def mixed(self) -> bool:
        return self.narrow != 0

    @property
    def wide(self) -> int:
        """Number of groups of `blocks` vectors."""
        return self.groups - self.narrow

    @property
    def padded(self) -> int:
        """Number of columns of all groups."""
        return self.groups * self.width - self.narrow * self.lanes

    @property
    def size(self) -> int:
        """Number of elements of one packed matrix."""
        return self.depth * self.padded

    @property
    def clipped(self) -> int:
        """Number of vectors at the end of a group that may have fewer columns, or none."""
        if is_size(self.columns):
            return self.blocks
        return int(self.columns % self.lanes != 0)

    def pack(self, b: Array) -> Packed:
        """Pack constant matrices (..., depth, columns) into panels."""
        images = math.prod(b.shape[:-2])
        return Packed((images * self.size,), lambda: self._packed(b))

    def _packed(self, b: Array) -> Array:
        images = b.reshape(-1, self.depth, self.columns)
        panels = np.zeros((len(images), self.size), np.float32)
        done = 0
        for groups, width in ((self.wide, self.width), (self.narrow, self.width - self.lanes)):
            end = done + groups * width
            to = panels[:, done * self.depth : end * self.depth].reshape(
                len(images), groups, self.depth, width
            )
            for group in range(groups):
                part = images[:, :, done + group * width : done + (group + 1) * width]
                to[:, group, :, : part.shape[2]] = part
            done = end
        return panels.ravel()


def cut_exactly(vectors: int, most: int) -> tuple[int, int, int]:
    """Cut into groups of so many vectors, at most `most`, and of one less, which cover all: (vectors, groups, wide
    groups)."""
    blocks, groups, wide = cut(vectors, most)
    return (blocks, groups, wide) if wide else (blocks - 1, groups, groups)


def group_columns(k: Kernel, group: Value, blocks: int, mixed: bool) -> Iterator[tuple[Value, int]]:
    """Emit branches for the two widths of groups; yields a group's first column, and its number of vectors."""
    lanes = k.target.lanes()
    if not mixed:
        yield group * (blocks * lanes), blocks
        return
    wide = k.number("wide_groups")
    with k.when(group < wide):
        yield group * (blocks * lanes), blocks
    with k.unless(group < wide):
        yield (group * (blocks - 1) + wide) * lanes, blocks - 1


@dataclass(frozen=True)
class PanelSpec(KernelSpec):
    """Kernel that copies matrices of one type into panels of `blocks` vectors of float32; `mixed`: or of one less.

    `order`: "rows" or "columns", whichever are contiguous; "" where neither is. `outer`: batch axes. An item is a
    `piece` of rows of a `run` of groups, done in strips of so many rows.
    """

    blocks: int
    mixed: bool
    order: str
    outer: int
    x_type: np.dtype[Any] = field(default=FLOAT32)

    @property
    def words(self) -> tuple[Parameter, ...]:
        sizes = ("rows", "columns", "wide_groups", "groups", "run", "piece", "strip")
        numbers = (*sizes, "row", "column", "to_image")
        pointers = (*pointers_to(Scalar.of(self.x_type), "x"), *pointers_to(F32, "y"))
        return (*pointers, *numbers_named(numbers), *numbers_named(axis_names(self.outer, ("x",))))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        rows, groups, run, piece = (k.number(name) for name in ("rows", "groups", "run", "piece"))
        runs, pieces = (groups + run - 1) // run, (rows + piece - 1) // piece
        for item in k.range(k.begin, k.end):
            image, place = item // (runs * pieces), item % (runs * pieces)
            first, group = place % pieces * piece, place // pieces * run
            (x,) = axis_pointers(k, self.outer, ("x",), image)
            y = k.pointer("y") + image * k.number("to_image")
            last, end = k.min_drop_nan(first + piece, rows), k.min_drop_nan(group + run, groups)
            for row in k.range(first, last, k.number("strip")):
                count = k.min_drop_nan(last - row, k.number("strip"))
                for at in k.range(group, end):
                    self._copy(k, x, y, row, count, at)
        return k

    def _copy(self, k: Kernel, x: Pointer, y: Pointer, row: Value, count: Value, group: Value) -> None:
        """Copy so many rows of one group."""
        steps = (k.number("row"), k.number("column"))
        for column, blocks in group_columns(k, group, self.blocks, self.mixed):
            source = x + (column * steps[1] + row * steps[0])
            to = y + (column * k.number("rows") + row * (blocks * k.target.lanes()))
            copy_panel(k, self.order, source, steps, to, k.number("columns") - column, count, blocks)


def copy_panel(
    k: Kernel,
    order: str,
    x: Pointer,
    steps: tuple[Value, Value],
    y: Pointer,
    left: Value,
    rows: Value,
    blocks: int,
) -> None:
    """Emit the copy of so many rows of `blocks` vectors, of which `left` columns exist, into a panel of float32.

    `steps` are those from row to row and column to column; `order` says which of the two is 1.
    """
    lanes = k.target.lanes()
    if order == "rows":
        _copy_rows(k, x, steps[0], y, left, rows, blocks)
        return
    for at in k.steps(blocks * lanes, lanes):
        _copy_columns(k, order, x + steps[1] * at, steps, y + at, left - at, rows, blocks * lanes)


def _copy_rows(k: Kernel, x: Pointer, step: Value, y: Pointer, left: Value, rows: Value, blocks: int) -> None:
    """Copy contiguous rows: vectors move as they are, masked in the last group only."""
    lanes = k.target.lanes()
    width = blocks * lanes
    if blocks > _UNROLLED:
        for row in k.range(0, rows):
            for column in k.range(0, width, lanes):
                vector = x.load(row * step + column, lanes, k.tail_mask(left - column, lanes)).to(F32)
                y.store(vector, row * width + column)
        return
    whole = left >= width
    with k.when(whole):
        for row in k.range(0, rows):
            for at in range(0, width, lanes):
                y.store(x.load(row * step + at, lanes).to(F32), row * width + at)
    with k.unless(whole):
        masks = [k.tail_mask(left - at, lanes) for at in range(0, width, lanes)]
        for row in k.range(0, rows):
            for index, mask in enumerate(masks):
                vector = x.load(row * step + index * lanes, lanes, mask).to(F32)
                y.store(vector, row * width + index * lanes)


def copy_wide_rows(
    k: Kernel, x: Pointer, step: Value, y: Pointer, apart: int, rows: Value, columns: Value
) -> None:
    """Emit the copy of so many rows of contiguous columns, `step` apart, into rows of float32 that are `apart`.

    The next row is prefetched: runs of a row are too short for the processor to foresee (64 MB by blocks of 256 x 256
    on a Zen 3 4.7 ms instead of 6.7; two to six rows ahead 5.1).
    """
    lanes = k.target.lanes()
    whole = columns // (_TOGETHER * lanes) * (_TOGETHER * lanes)
    for row in k.range(0, rows):
        source, to = x + row * step, y + row * apart
        for at in k.range(0, whole, _TOGETHER * lanes):
            for line in range(0, _TOGETHER * lanes, LINE):
                k.prefetch(source + step, at + line)
            for vector in range(0, _TOGETHER * lanes, lanes):
                to.store(source.load(at + vector, lanes).to(F32), at + vector)
        for at in k.range(whole, columns, lanes):
            to.store(source.load(at, lanes, k.tail_mask(columns - at, lanes)).to(F32), at)


def _copy_columns(
    k: Kernel,
    order: str,
    x: Pointer,
    steps: tuple[Value, Value],
    y: Pointer,
    left: Value,
    rows: Value,
    width: int,
) -> None:
    """Copy columns: squares are transposed where columns are contiguous, the rest goes element by element."""
    lanes, last = k.target.lanes(), left - 1
    with k.when(left <= 0):
        for row in k.range(0, rows):
            y.store(k.constant(F32, 0.0, lanes), row * width)
    with k.when(left > 0):
        # Columns past the last one read it again: their sums are never stored.
        columns = [k.select(last < c, last, k.integer(c)) * steps[1] for c in range(lanes)]
        done: Value = k.integer(0)
        if order == "columns":
            done = rows // lanes * lanes
            for row in k.range(0, done, lanes):
                vectors = [(x + column).load(row, lanes).to(F32) for column in columns]
                for index, vector in enumerate(transposed(k, vectors)):
                    y.store(vector, (row + index) * width)
        for tail in k.range(done, rows):
            for lane, column in enumerate(columns):
                element = (x + column).load(tail * steps[0]).to(F32)
                y.store(element, tail * width + lane)


def panel_call(panels: Panels, b: View, row: int, column: int, axes: list[Axis], to: View) -> Call:
    """Return the call that packs the matrices at `axes` of B, known only when the program runs, into the temporary
    `to`."""
    order = order_of(row, column)
    spec = PanelSpec(panels.blocks, panels.mixed, order, len(axes), b.type.dtype)
    run, piece = 1, max(panels.lanes, _PIECE // (4 * panels.width))
    strip = piece
    if order == "rows":
        run, piece, strip = max(1, _RUN // panels.width), _PIECE // (4 * _RUN), _STRIP
    words: dict[str, Argument] = {
        "x": b,
        "y": to,
        "rows": panels.depth,
        "columns": panels.columns,
        "wide_groups": panels.wide,
        "groups": panels.groups,
        "run": run,
        "piece": piece,
        "strip": strip,
        "row": row,
        "column": column,
        "to_image": panels.size,
        **axis_words(axes, ("x",)),
    }
    items = position_count(axes) * -(-panels.groups // run) * -(-panels.depth // piece)
    moved = 4 * minimum(piece, panels.depth) * minimum(run * panels.width, panels.padded)
    return Call.named(spec, words, items, grain=maximum(1, _PIECE // maximum(1, moved)))


def order_of(row: int, column: int) -> str:
    """Return which of a matrix's rows and columns are contiguous: "rows", "columns" or "" for neither."""
    return "rows" if is_one(column) else "columns" if is_one(row) else ""
