"""B in panels: groups of as many columns as a tile has, each group's rows one after the other, zeros past the last.

A panel is read from its beginning to its end, once per band of A's rows: no page or cache line is touched for less than
all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Scalar, Value
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array
from cenote.kernels.base import Argument, Call, KernelSpec, Packed, View, numbers_named, pointers_to
from cenote.kernels.lanes import transposed
from cenote.kernels.strided_axes import Axis, axis_names, axis_pointers, axis_words, position_count

_PIECE = 256 << 10  # bytes that a thread packs at a time


@dataclass(frozen=True)
class Panels:
    """How B (depth x columns) is cut: `groups` of `blocks` vectors."""

    depth: int
    columns: int
    blocks: int
    lanes: int

    @staticmethod
    def cut(m: int, n: int, k: int, target: Target) -> Panels:
        """As few groups as the registers allow, all of one width, so that little is computed past the last column.

        32 registers: four vectors by six rows; 16: two by six. Under 4 rows more vectors keep enough sums in flight.
        """
        lanes = target.lanes()
        most = 4 if target.registers > 16 else 2
        if not is_size(m) and m < 4:
            most = 8 if m == 1 else 4
        if is_size(n):
            return Panels(k, n, most, lanes)
        vectors = -(-n // lanes)
        groups = max(1, -(-vectors // most))
        return Panels(k, n, max(1, -(-vectors // groups)), lanes)

    @property
    def width(self) -> int:
        """Columns of a group."""
        return self.blocks * self.lanes

    @property
    def groups(self) -> int:
        return -(-self.columns // self.width)

    @property
    def size(self) -> int:
        """Elements of one packed matrix."""
        return self.depth * self.groups * self.width

    @property
    def clipped(self) -> bool:
        """Whether the last group may have fewer columns."""
        return is_size(self.columns) or self.columns % self.width != 0

    def pack(self, b: Array) -> Packed:
        """Constant matrices (..., depth, columns) in panels."""
        images = math.prod(b.shape[:-2])
        return Packed((images * self.size,), lambda: self._packed(b))

    def _packed(self, b: Array) -> Array:
        images = b.reshape(-1, self.depth, self.columns)
        panels = np.zeros((len(images), self.groups, self.depth, self.width), np.float32)
        whole = self.columns // self.width
        filled = whole * self.width
        parts = images[:, :, :filled].reshape(len(images), self.depth, whole, self.width)
        panels[:, :whole] = parts.transpose(0, 2, 1, 3)
        if filled < self.columns:
            panels[:, whole, :, : self.columns - filled] = images[:, :, filled:]
        return panels.ravel()


@dataclass(frozen=True)
class PanelSpec(KernelSpec):
    """Copy matrices of one type into panels of `blocks` vectors of float32.

    `order`: "rows" or "columns", whichever are contiguous; "" where neither is. `outer`: batch axes.
    """

    blocks: int
    order: str
    outer: int
    x_type: np.dtype[Any] = field(default=FLOAT32)

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ("rows", "columns", "groups", "pieces", "piece", "row", "column", "to_image")
        pointers = (*pointers_to(Scalar.of(self.x_type), "x"), *pointers_to(F32, "y"))
        return (*pointers, *numbers_named(numbers), *numbers_named(axis_names(self.outer, ("x",))))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.lanes()
        width = self.blocks * lanes
        for item in k.range(k.begin, k.end):
            place, piece = item // k.number("pieces"), item % k.number("pieces")
            image, group = place // k.number("groups"), place % k.number("groups")
            first = piece * k.number("piece")
            count = k.min_drop_nan(k.number("rows") - first, k.number("piece"))
            (base,) = axis_pointers(k, self.outer, ("x",), image)
            x = base + (group * width * k.number("column") + first * k.number("row"))
            to = group * width * k.number("rows") + first * width
            y = k.pointer("y") + (image * k.number("to_image") + to)
            left = k.number("columns") - group * width
            steps = (k.number("row"), k.number("column"))
            copy_panel(k, self.order, x, steps, y, left, count, self.blocks)
        return k


def copy_panel(
    k: Kernel, order: str, x: Pointer, steps: tuple[Value, Value], y: Pointer, left: Value, rows: Value, blocks: int
) -> None:  # fmt: skip
    """Emit the copy of so many rows of `blocks` vectors, of which `left` columns are there, into a panel of float32.

    `steps` are those from row to row and column to column; `order` says which of the two is 1.
    """
    lanes = k.target.lanes()
    if order == "rows":
        _copy_rows(k, x, steps[0], y, left, rows, blocks)
        return
    for block in range(blocks):
        source = x + steps[1] * (block * lanes)
        _copy_columns(k, order, source, steps, y + block * lanes, left - block * lanes, rows, blocks * lanes)


def _copy_rows(k: Kernel, x: Pointer, step: Value, y: Pointer, left: Value, rows: Value, blocks: int) -> None:
    """Rows are contiguous: vectors move as they are, masked in the last group only."""
    lanes = k.target.lanes()
    width = blocks * lanes
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


def _copy_columns(
    k: Kernel, order: str, x: Pointer, steps: tuple[Value, Value], y: Pointer, left: Value, rows: Value, width: int
) -> None:  # fmt: skip
    """Squares are transposed where columns are contiguous, the rest goes element by element."""
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
    """Pack the matrices at `axes` of B, known only when the program runs, into the temporary `to`."""
    spec = PanelSpec(panels.blocks, order_of(row, column), len(axes), b.type.dtype)
    bytes_of_row = panels.width * 4
    piece = max(panels.lanes, _PIECE // bytes_of_row)
    pieces = maximum(1, -(-panels.depth // piece))
    words: dict[str, Argument] = {
        "x": b, "y": to, "rows": panels.depth, "columns": panels.columns, "groups": panels.groups, "piece": piece,
        "pieces": pieces, "row": row, "column": column, "to_image": panels.size, **axis_words(axes, ("x",)),
    }  # fmt: skip
    items = position_count(axes) * panels.groups * pieces
    moved = maximum(1, panels.depth * bytes_of_row // pieces)
    return Call.named(spec, words, items, grain=maximum(1, _PIECE // moved))


def order_of(row: int, column: int) -> str:
    """Which of a matrix's rows and columns are contiguous: "rows", "columns" or "" for neither."""
    return "rows" if is_one(column) else "columns" if is_one(row) else ""


def is_one(step: int) -> bool:
    """Whether a step is known to be 1."""
    return not is_size(step) and step == 1
