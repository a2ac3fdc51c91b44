"""Matrix products: B in panels of a few vectors' columns, A as it is; the direct convolution's kernel does the sums.

A row of A is a "pixel", eight of its elements are a "tap". Panels (K rows of `blocks * lanes` columns) are
streamed once per tile of rows: with one row (a linear layer at batch 1) that runs at the memory's bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Pointer, Value
from cenote.core.computed import computed
from cenote.core.sizes import is_size, maximum, minimum, plain
from cenote.core.target import Target
from cenote.core.types import Array
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.conv.direct import NUMBERS, ConvDirectSpec, widest
from cenote.kernels.conv.direct_plan import MACS_PER_SECOND, PIECE, block_runs
from cenote.kernels.conv.tile_widths import tile_widths
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.lanes import transposed
from cenote.kernels.tables import tap_steps, zeros

UNROLL = 8  # elements of a row of A per tap


@dataclass(frozen=True)
class Matrix:
    """Where a matrix, or a batch of them, lies: steps in elements from image to image, row to row, column to column."""

    source: View | Array
    image: int
    row: int
    column: int


@dataclass(frozen=True)
class Panels:
    """How B's columns are cut: runs of (first column, groups, blocks per group, clipped)."""

    rows: int
    columns: int
    runs: tuple[tuple[int, int, int, bool], ...]
    lanes: int

    @staticmethod
    def cut(m: int, n: int, k: int, target: Target) -> Panels:
        """Whole groups first; the columns that are left form a group of their own."""
        lanes = target.lanes()
        if is_size(n):  # single vectors, each clipped: never a group that may be empty
            return Panels(k, n, ((0, -(-n // lanes), 1, True),), lanes)
        runs: list[tuple[int, int, int, bool]] = []
        whole, left = divmod(n, lanes)
        start = 0
        if whole:
            for first, groups, each in block_runs(whole, m, target.registers):
                runs.append((first * lanes, groups, each, False))
            start = whole * lanes
        if left:
            runs.append((start, 1, 1, True))
        return Panels(k, n, tuple(runs), lanes)

    def offset(self, index: int) -> int:
        """Elements before a run's panels."""
        return sum(self.rows * groups * each * self.lanes for _, groups, each, _ in self.runs[:index])

    @property
    def size(self) -> int:
        """Elements of one packed matrix."""
        return self.offset(len(self.runs))

    def pack(self, b: Array) -> Array:
        """A constant (K, N) matrix in panels."""
        parts = []
        for first, groups, each, _ in self.runs:
            width = groups * each * self.lanes
            part = np.zeros((self.rows, width), np.float32)
            columns = b[:, first : first + width]
            part[:, : columns.shape[1]] = columns
            panels = part.reshape(self.rows, groups, each * self.lanes).transpose(1, 0, 2)
            parts.append(np.ascontiguousarray(panels).ravel())
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


@dataclass(frozen=True)
class PanelSpec(KernelSpec):
    """Copy a matrix into panels of `blocks` vectors, scaled. `transposed`: its columns are contiguous, not its rows."""

    blocks: int
    transposed: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ("rows", "columns", "groups", "image", "row", "column", "to_image")
        return (*pointers_to(F32, "x", "y"), *numbers_named(numbers), Parameter("alpha", F32))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.lanes()
        width = self.blocks * lanes
        for item in k.range(k.begin, k.end):
            image, group = item // k.number("groups"), item % k.number("groups")
            x = k.pointer("x") + (image * k.number("image") + group * width * k.number("column"))
            y = k.pointer("y") + (image * k.number("to_image") + group * width * k.number("rows"))
            left = k.number("columns") - group * width
            for block in range(self.blocks):
                count = left - block * lanes
                if self.transposed:
                    self._down(k, x + k.number("column") * (block * lanes), y + block * lanes, count, lanes)
                else:
                    self._across(k, x + block * lanes, y + block * lanes, count, lanes)
        return k

    def _across(self, k: Kernel, x: Pointer, y: Pointer, count: Value, lanes: int) -> None:
        """Rows are contiguous: vectors move as they are, masked past the last column."""
        mask, alpha = k.tail_mask(count, lanes), k.number("alpha")
        for row in k.range(0, k.number("rows")):
            y.store(x.load(row * k.number("row"), lanes, mask) * alpha, row * (self.blocks * lanes))

    def _down(self, k: Kernel, x: Pointer, y: Pointer, count: Value, lanes: int) -> None:
        """Columns are contiguous: squares are transposed, the rows that are left go element by element."""
        width, alpha, rows = self.blocks * lanes, k.number("alpha"), k.number("rows")
        last = count - 1
        # Columns past the last one read it again: their sums are never stored.
        columns = [k.select(last < c, last, k.integer(c)) * k.number("column") for c in range(lanes)]
        whole = rows // lanes * lanes
        for row in k.range(0, whole, lanes):
            vectors = [(x + column).load(row, lanes) for column in columns]
            for index, vector in enumerate(transposed(k, vectors)):
                y.store(vector * alpha, (row + index) * width)
        for tail in k.range(whole, rows):
            for lane, column in enumerate(columns):
                y.store((x + column).load(tail) * alpha, tail * width + lane)


def panel_calls(panels: Panels, b: Matrix, to: View, images: int, alpha: float) -> Iterator[Call]:
    """Pack B, known only when the program runs, into the temporary `to`."""
    assert isinstance(b.source, View)
    for index, (first, groups, each, _) in enumerate(panels.runs):
        spec = PanelSpec(each, transposed=b.column != 1)
        words: dict[str, Argument] = {
            "x": b.source.at(first * b.column), "y": to.at(panels.offset(index)), "alpha": float(alpha),
            "rows": panels.rows, "columns": panels.columns - first, "groups": groups, "image": b.image, "row": b.row,
            "column": b.column, "to_image": panels.size,
        }  # fmt: skip
        moved = panels.rows * each * panels.lanes * 4
        yield Call.named(spec, words, images * groups, grain=max(1, (128 << 10) // max(1, moved)))


@dataclass(frozen=True)
class Product:
    """y = activation(A B + bias + residual) for `images` pairs of matrices; B is packed."""

    images: int
    m: int
    a: Matrix
    y: Matrix
    b: View | Array
    panels: Panels
    shared: bool  # one B for all images
    bias: Array | None
    residual: Matrix | None
    activation: Activation

    def calls(self, target: Target) -> Iterator[Call]:
        """One call per run of panels."""
        if self.m and self.images:
            for index in range(len(self.panels.runs)):
                yield self._call(index, target)

    def _call(self, index: int, target: Target) -> Call:
        first, groups, each, clip = self.panels.runs[index]
        lanes, depth = self.panels.lanes, self.panels.rows
        inner = UNROLL if self.a.column == 1 else 1
        entries, rest = divmod(depth, inner)
        has_rest = is_size(rest) or rest > 0
        table = computed(tap_steps, entries + has_rest, inner * self.a.column)
        cut = tile_widths(self.m, widest(each, target.registers))
        specs = tuple(
            ConvDirectSpec(
                blocks=each, width=width, unroll=inner, ragged=has_rest, flat_x=False, flat_y=False,
                residual=self.residual is not None, activation=self.activation, clip=clip,
            )
            for width in cut.widths
        )  # fmt: skip
        tiles, width = cut.tiles, max(cut.widths)
        slab = depth * each * lanes
        r = self.residual or self.y
        r_block = lanes * r.column
        numbers = dict.fromkeys(NUMBERS, 0) | {
            "entries": entries, "chunk": self._chunk(entries, inner, each, tiles, target), "rest": int(has_rest),
            "rest_channels": rest, "wide": cut.wide, "tiles": tiles, "narrow": cut.narrow,
            "filter_groups": groups, "per_group": groups, "out_w": self.m, "out_h": 1,
            "x_w": self.a.row, "x_image": self.a.image, "y_w": self.y.row, "y_image": self.y.image, "y_block": lanes,
            "r_w": r.row, "r_image": r.image, "r_block": r_block,
            "slab": slab, "weights_image": 0 if self.shared else self.panels.size,
            "columns": self.panels.columns - first,
        }  # fmt: skip
        per_tile = maximum(1, slab) * width / MACS_PER_SECOND
        piece = minimum(PIECE, maximum(5e-6, per_tile * tiles * groups * self.images / 32))
        band = minimum(
            maximum(1, math.floor(piece / per_tile)),
            maximum(4, target.l2_bytes // 2 // maximum(1, width * depth * 4)),
        )
        bands = -(-tiles // band)
        band = -(-tiles // bands)
        bands = -(-tiles // band)
        numbers |= {"band": band, "bands": bands, "groups_inside": int(plain(bands) > 1)}
        items = self.images * bands * groups
        grain = maximum(1, minimum(math.floor(piece / (per_tile * band)), items // 8))
        pointers = self._pointers(index, first, groups * each * lanes)
        return Call.named(specs[0], {**pointers, "table": table, **numbers}, items, grain).among(
            specs, cut.chosen
        )

    def _pointers(self, index: int, first: int, width: int) -> dict[str, Argument]:
        bias = computed(zeros, width)
        if self.bias is not None:
            part = self.bias[first : first + width]
            bias[: part.size] = part
        offset = self.panels.offset(index)
        b = self.b.at(offset) if isinstance(self.b, View) else self.b[offset:]
        residual = None if self.residual is None else _at(self.residual, first)
        return {
            "x": _at(self.a, 0),
            "weights": b,
            "bias": bias,
            "residual": residual,
            "y": _at(self.y, first),
        }

    def _chunk(self, entries: int, inner: int, each: int, tiles: int, target: Target) -> int:
        """Taps per pass: a panel's part stays in the level 1 cache while several tiles of rows use it."""
        if plain(tiles) <= 2:
            return max(1, entries)
        return max(1, target.l1_bytes * 2 // 3 // (inner * each * self.panels.lanes * 4))


def _at(matrix: Matrix, column: int) -> Argument:
    """A matrix from a column on."""
    if isinstance(matrix.source, View):
        return matrix.source.at(column * matrix.column)
    return matrix.source.ravel()[column * matrix.column :]
