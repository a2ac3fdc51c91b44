"""Attention: softmax(scale Q K' + mask) V for a band of queries at a time, without the scores ever leaving the caches.

    item = pair of matrices, band of queries                                emitted
      copy the band of Q, scaled: scratch                                   emitted
      for group of keys:                                                    emitted
        for tile of queries: scores = Q K' + mask                           emitted, tiles as in `tiles.py`
      for query: largest score, powers and their sum                        emitted
      for group of V's columns, chunk of keys:                              emitted
        for tile: sums += powers * V, at the end times 1 / sum of powers    emitted

K' and V come in panels. The scores of a band lie in scratch, a chunk of keys of one tile in one place, so that a chunk
of V is used by all tiles while it is in the first cache. Sums are in float32, each in one order whatever the threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, Pointer, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.target import Target
from cenote.core.types import FLOAT32
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.strided_axes import axis_names, axis_pointers

OPERANDS = ("q", "k", "v", "mask", "y")
NUMBERS = (
    "queries", "keys", "columns", "tiles", "band", "bands", "key_groups", "value_groups",
    "q_row", "mask_row", "y_row", "offset",  # keys that precede the queries
)  # fmt: skip
GROUPS = 2  # of keys in a chunk


@dataclass(frozen=True)
class AttentionSpec(KernelSpec):
    """`blocks` vectors of keys, or of V's columns (`value_blocks`), by `width` queries in registers.

    `depth` is the size of a head. `mask`: the type of a mask ("" none; bool: what to attend; else added), whose columns
    are contiguous. `causal`: query i attends keys up to i + offset. `zeros`: a query without any key gives zeros, else
    NaN.
    """

    blocks: int
    value_blocks: int
    width: int
    depth: int
    outer: int
    mask: str
    causal: bool
    zeros: bool
    q_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)

    @property
    def words(self) -> tuple[Parameter, ...]:
        mask = (
            F32 if not self.mask else Scalar.of(np.bool_) if self.mask == "bool" else Scalar.named(self.mask)
        )
        return (
            *pointers_to(Scalar.of(self.q_type), "q"),
            *pointers_to(F32, "k", "v"),
            *pointers_to(mask, "mask"),
            *pointers_to(Scalar.of(self.y_type), "y"),
            *numbers_named(NUMBERS),
            Parameter("scale", F32),
            *numbers_named(axis_names(self.outer, OPERANDS)),
        )

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target.lanes()).run()
        return kernel


class _Emitter:
    def __init__(self, spec: AttentionSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.group = spec.blocks * lanes  # keys
        self.chunk = GROUPS * self.group
        self.padded = -(-spec.depth // lanes) * lanes
        self.value_row = spec.value_blocks * lanes

    def run(self) -> None:
        k, spec = self.k, self.spec
        bands, band = k.number("bands"), k.number("band")
        self.chunks = (k.number("key_groups") + (GROUPS - 1)) // GROUPS
        rows = band * spec.width
        self.copied = k.scratch.cast(F32)
        self.scores = self.copied + rows * self.padded
        self.sums = self.scores + rows * (self.chunks * self.chunk)
        self.factors = self.sums + rows * self.value_row
        for item in k.range(k.begin, k.end):
            self.q, self.keys, self.v, self.mask, self.y = axis_pointers(
                k, spec.outer, OPERANDS, item // bands
            )
            self.first = (item % bands) * band
            self.last = k.min_drop_nan(self.first + band, k.number("tiles"))
            self.attended = k.number("keys")  # by the band's last query
            if spec.causal:
                end = self.last * spec.width + k.number("offset")
                self.attended = k.max_drop_nan(k.min_drop_nan(self.attended, end), k.integer(0))
            self.groups = (self.attended + (self.group - 1)) // self.group
            for tile, rows_of in self.tiles():
                self.copy(tile, rows_of)
            for group in k.range(0, self.groups):
                for tile, rows_of in self.tiles():
                    self.score(group, tile, rows_of)
            for tile, _ in self.tiles():
                for row in k.range(0, spec.width):
                    self.normalize(tile, row)
            for group in k.range(0, k.number("value_groups")):
                self.average(group)

    def tiles(self) -> Iterator[tuple[Value, list[Value]]]:
        """Emitted loop over the band's tiles: the number in the band, its queries. Those past the last are the last."""
        k = self.k
        most = k.number("queries") - 1
        for tile in k.range(self.first, self.last):
            start = tile * self.spec.width
            yield tile - self.first, [k.min_drop_nan(start + row, most) for row in range(self.spec.width)]

    def score_place(self, tile: Value, chunk: Value) -> Pointer:
        """The scores of a tile for a chunk of keys; its rows follow each other."""
        return self.scores + (tile * self.chunks + chunk) * (self.spec.width * self.chunk)

    def copy(self, tile: Value, rows: Sequence[Value]) -> None:
        k, lanes, scale = self.k, self.lanes, self.k.number("scale")
        to = self.copied + tile * (self.spec.width * self.padded)
        for index, row in enumerate(rows):
            source = self.q + row * k.number("q_row")
            for at in range(0, self.spec.depth, lanes):
                left = self.spec.depth - at
                mask = None if left >= lanes else k.tail_mask(left, lanes)
                to.store(source.load(at, lanes, mask).to(F32) * scale, index * self.padded + at, mask)

    # ---- scores -----------------------------------------------------------------------------------------------

    def score(self, group: Value, tile: Value, rows: Sequence[Value]) -> None:
        """The scores of a tile for a group of keys; minus infinity for keys that are not there or not attended."""
        k, lanes, spec = self.k, self.lanes, self.spec
        zero = k.constant(F32, 0.0, lanes)
        sums = [[k.variable(zero) for _ in range(spec.blocks)] for _ in rows]
        copied = self.copied + tile * (spec.width * self.padded)
        panel = self.keys + group * (spec.depth * self.group)
        self.multiply(sums, copied, self.padded, panel, self.group, k.integer(spec.depth))
        chunk, part = group // GROUPS, group % GROUPS
        to = self.score_place(tile, chunk) + part * self.group
        closed = k.constant(F32, float("-inf"), lanes)
        column = group * self.group
        there = [
            k.tail_mask(k.number("keys") - column - block * lanes, lanes) for block in range(spec.blocks)
        ]
        for index, row in enumerate(rows):
            for block, total in enumerate(sums[index]):
                value, open_, first = total.value, there[block], column + block * lanes
                if spec.mask:
                    value = self.masked(
                        value, self.mask + (row * k.number("mask_row") + first), open_, closed
                    )
                if spec.causal:
                    open_ = k.tail_mask(
                        k.min_drop_nan(k.number("keys"), row + k.number("offset") + 1) - first, lanes
                    )
                to.store(k.select(open_, value, closed), index * self.chunk + block * lanes)

    def masked(self, value: Value, mask: Pointer, there: Value, closed: Value) -> Value:
        k, lanes = self.k, self.lanes
        loaded = mask.load(0, lanes, there)
        if self.spec.mask == "bool":
            return k.select(loaded.to(I32).differs(0), value, closed)
        return value + loaded.to(F32)

    def multiply(
        self, sums: Sequence[Sequence[Variable]], a: Pointer, a_row: int, b: Pointer, b_row: int, count: Value
    ) -> None:
        """Add the products of so many steps; rows of A lie `a_row` apart, those of B `b_row`."""
        k, unroll = self.k, 8
        left, right = k.cursor(a), k.cursor(b)
        whole = count // unroll

        def step(index: int) -> None:
            vectors = [
                right.at.load(index * b_row + block * self.lanes, self.lanes) for block in range(len(sums[0]))
            ]
            for row, totals in enumerate(sums):
                spread = left.at.broadcast(row * a_row + index, self.lanes)
                for vector, total in zip(vectors, totals, strict=True):
                    total.value = k.fma(spread, vector, total.value)

        for _ in k.range(0, whole):
            for index in range(unroll):
                step(index)
            left.move(unroll)
            right.move(unroll * b_row)
        for _ in k.range(whole * unroll, count):
            step(0)
            left.move(1)
            right.move(b_row)

    # ---- softmax ----------------------------------------------------------------------------------------------

    def row_of_scores(self, tile: Value, row: Value) -> Iterator[list[Pointer]]:
        """Emitted loop over the groups of a query's scores: where their vectors lie."""
        for group in self.k.range(0, self.groups):
            place = self.score_place(tile, group // GROUPS) + (row * self.chunk + group % GROUPS * self.group)
            yield [place + block * self.lanes for block in range(self.spec.blocks)]

    def normalize(self, tile: Value, row: Value) -> None:
        """Turn scores into powers of e, and keep 1 / their sum."""
        k, lanes = self.k, self.lanes
        most = k.variable(k.constant(F32, float("-inf"), lanes))
        for places in self.row_of_scores(tile, row):
            values = [place.load(0, lanes) for place in places]
            while len(values) > 1:
                pairs = [k.maximum(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
                values = [*pairs, *values[2 * len(pairs) :]]
            most.value = k.maximum(most.value, values[0])
        largest = k.reduce(most.value, "maximum")
        # A query without keys: the powers of minus infinity are zeros.
        finite = k.select(largest.equals(float("-inf")), k.constant(F32, 0.0), largest)
        shift = k.splat(finite, lanes)
        total = k.variable(k.constant(F32, 0.0, lanes))
        for places in self.row_of_scores(tile, row):
            powers = [math.exp(k, place.load(0, lanes) - shift) for place in places]
            for place, power in zip(places, powers, strict=True):
                place.store(power)
                total.value = total.value + power
        whole = k.reduce(total.value, "add")
        factor = 1.0 / whole
        if self.spec.zeros:
            factor = k.select(whole.equals(0.0), k.constant(F32, 0.0), factor)
        self.factors.store(factor, tile * self.spec.width + row)

    # ---- averages ---------------------------------------------------------------------------------------------

    def average(self, group: Value) -> None:
        """A group of V's columns for all tiles, chunk by chunk of keys."""
        k, lanes, spec = self.k, self.lanes, self.spec
        column = group * self.value_row
        panel = self.v + group * (k.number("keys") * self.value_row)
        masks = [
            k.tail_mask(k.number("columns") - column - o * lanes, lanes) for o in range(spec.value_blocks)
        ]
        for chunk in k.range(
            0, k.max_drop_nan((self.attended + (self.chunk - 1)) // self.chunk, k.integer(1))
        ):
            begin = chunk * self.chunk
            end = k.min_drop_nan(begin + self.chunk, self.attended)
            is_last = end >= self.attended
            for tile, rows in self.tiles():
                kept = self.sums + tile * (spec.width * self.value_row)
                zero = k.constant(F32, 0.0, lanes)
                sums = [[k.variable(zero) for _ in range(spec.value_blocks)] for _ in rows]
                with k.when(chunk > 0):
                    for index, totals in enumerate(sums):
                        for block, total in enumerate(totals):
                            total.value = kept.load(index * self.value_row + block * lanes, lanes)
                place = self.score_place(tile, chunk)
                self.multiply(
                    sums, place, self.chunk, panel + begin * self.value_row, self.value_row, end - begin
                )
                with k.unless(is_last):
                    for index, totals in enumerate(sums):
                        for block, total in enumerate(totals):
                            kept.store(total.value, index * self.value_row + block * lanes)
                with k.when(is_last):
                    for index, row in enumerate(rows):
                        factor = self.factors.broadcast(tile * spec.width + index, lanes)
                        to = self.y + (row * k.number("y_row") + column)
                        for block, total in enumerate(sums[index]):
                            value = (total.value * factor).to(to.element)
                            to.store(value, block * lanes, masks[block])
