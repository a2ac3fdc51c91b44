"""Attention: softmax(scale Q K' + mask) V for a group of queries at a time, without the scores ever leaving the caches.

    item = pair of matrices, group of queries                              emitted
      scratch = scale Q', transposed                                       emitted
      for chunk of keys:                                                   emitted
        scores = mask                                                      emitted, where there is one per query
        for tile of keys: scores += K Q', and each query's largest         emitted, queries in the lanes
        powers of the scores less the largest so far, and their sums       emitted
        for group of V's columns, tile of queries:                         emitted
          sums = sums * the change of the largest + powers * V             after the last chunk / sum of powers

With the queries in the lanes, K is read as broadcast numbers and V as vectors, so both are read in place,
and neither the largest score nor the sum of powers is searched for across lanes. A chunk's scores and its part of V
stay in the nearest caches, however many keys there are. Every sum is in float32, over the keys in one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from cenote.codegen import math
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, Scalar, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import FLOAT32
from cenote.kernels.base import KernelSpec, numbers_named, pointers_to
from cenote.kernels.conv.tile_widths import widest
from cenote.kernels.lanes import transposed
from cenote.kernels.strided_axes import axis_names, axis_pointers

OPERANDS = ("q", "k", "v", "mask", "y")
NUMBERS = split_words(
    # The last two: groups of `blocks` vectors of queries, all groups.
    "queries keys depth columns wide groups",
    # Keys of a chunk, chunks; groups of `value_blocks` vectors of columns, all groups.
    "chunk chunks value_wide value_groups",
    # Steps from row to row; the number of keys that precede the queries.
    "q_row k_row v_row mask_row y_row offset",
)
UNROLL = 4  # steps of a sum at a time
SPARE = 8  # rows that tiles may write past the last
PER_QUERY = 4  # numbers


def mask_scalar(mask: str) -> Scalar:
    """Return the element type of a mask as kernels name it: "" (there is none), "bool", or a float's name."""
    return F32 if not mask else Scalar.of(np.bool_) if mask == "bool" else Scalar.named(mask)


@dataclass(frozen=True)
class AttentionSpec(KernelSpec):
    """Groups of `blocks` vectors of queries, of `value_blocks` vectors of V's columns; `mixed`: or of one less.

    `width`: queries that are multiplied by V at a time. `mask`: the type of a mask ("" none; bool: what to attend; else
    added), whose columns are contiguous; `per_query`: it has a row for each. `causal`: query i attends keys up to
    i + offset. `zeros`: a query without any key gives zeros, else NaN. `nan_to_zero`: weights that are NaN count as
    zeros. `clip`: V's columns may end within a vector.
    """

    blocks: int
    mixed: bool
    value_blocks: int
    value_mixed: bool
    width: int
    outer: int
    mask: str
    per_query: bool
    causal: bool
    zeros: bool
    nan_to_zero: bool
    clip: bool
    q_type: np.dtype[Any] = field(default=FLOAT32)
    y_type: np.dtype[Any] = field(default=FLOAT32)

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(Scalar.of(self.q_type), "q"),
            *pointers_to(F32, "k", "v"),
            *pointers_to(mask_scalar(self.mask), "mask"),
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


def most_queries(value_blocks: int, clip: bool, registers: int) -> int:
    """Return the most queries that are multiplied by V at a time: the mask of a clipped vector takes registers too."""
    return widest(value_blocks, registers - 2 * clip)


def scratch_elements(row: int, depth: int, chunk: int, columns: int) -> int:
    """Number of scratch elements for groups of `row` queries; `depth` and `columns` in whole vectors."""
    return row * (depth + chunk + SPARE + PER_QUERY) + (row + SPARE) * columns


def inverse_total(k: Kernel, total: Value, zeros: bool, nan_to_zero: bool) -> Value:
    """Return 1 / the sum of a query's powers; 0 where its weights count as zeros."""
    zero, inverse = k.constant(F32, 0.0, total.lanes), 1.0 / total
    if nan_to_zero:
        return k.select(total > 0.0, inverse, zero)
    return k.select(total.equals(0.0), zero, inverse) if zeros else inverse


class _Emitter:
    def __init__(self, spec: AttentionSpec, k: Kernel, lanes: int) -> None:
        self.spec, self.k, self.lanes = spec, k, lanes
        self.row = spec.blocks * lanes  # queries of a group
        whole = (k.number("depth") + (lanes - 1)) // lanes * lanes
        self.turned = k.scratch.cast(F32)  # scale Q'
        numbers = self.turned + whole * self.row
        self.largest, self.before, self.totals, self.factors = (
            numbers + n * self.row for n in range(PER_QUERY)
        )
        self.scores = numbers + PER_QUERY * self.row
        self.sums = self.scores + (k.number("chunk") + SPARE) * self.row

    def run(self) -> None:
        k, lanes, blocks = self.k, self.lanes, self.spec.blocks
        groups, wide, chunk = k.number("groups"), k.number("wide"), k.number("chunk")
        for item in k.range(k.begin, k.end):
            self.q, self.keys, self.v, self.mask, self.y = axis_pointers(
                k, self.spec.outer, OPERANDS, item // groups
            )
            group = item % groups
            first, vectors = group * blocks, k.integer(blocks)
            if self.spec.mixed:
                self.is_wide = group < wide
                first = k.select(self.is_wide, first, group * (blocks - 1) + wide)
                vectors = k.select(self.is_wide, vectors, vectors - 1)
            self.first = first * lanes
            self.count = k.min_drop_nan(k.number("queries") - self.first, vectors * lanes)
            self.turn(vectors)
            attended = k.number("keys")  # keys that the group's last query attends
            chunks = k.number("chunks")
            if self.spec.causal:
                end = self.first + self.count + k.number("offset")
                attended = k.max_drop_nan(k.min_drop_nan(attended, end), k.integer(0))
                chunks = k.max_drop_nan((attended + (chunk - 1)) // chunk, k.integer(1))
            for index in k.range(0, chunks):
                begin = index * chunk
                count = k.min_drop_nan(attended - begin, chunk)
                self.chunk(begin, count, index.equals(0), (index + 1).equals(chunks))

    def chunk(self, begin: Value, count: Value, is_first: Value, is_last: Value) -> None:
        if self.spec.per_query:
            self.turn_mask(begin, count)
        for blocks in self.widths():
            self.score(blocks, begin, count)
            self.normalize(blocks, count, is_last)
        for column, value_blocks in self.column_groups():
            self.average(column, value_blocks, begin, count, is_first, is_last)

    def widths(self) -> Iterator[int]:
        """Emit branches; yields the number of vectors of the group at hand."""
        if not self.spec.mixed:
            yield self.spec.blocks
            return
        with self.k.when(self.is_wide):
            yield self.spec.blocks
        with self.k.unless(self.is_wide):
            yield self.spec.blocks - 1

    def tiles(self, count: Value, width: int) -> Iterator[tuple[Value, int]]:
        """Emit loops over tiles of `width` rows and of one less; yields each tile's start and number of rows.

        They cover `count` exactly where two such numbers can, else the last one has rows too many.
        """
        k = self.k
        if width == 1:
            for row in k.range(0, count):
                yield row, 1
            return
        tiles = (count + (width - 1)) // width
        wide = k.max_drop_nan(count - tiles * (width - 1), k.integer(0))
        for tile in k.range(0, wide):
            yield tile * width, width
        for tile in k.range(wide, tiles):
            yield tile * (width - 1) + wide, width - 1

    # ---- queries and mask in the lanes ------------------------------------------------------------------------

    def turn(self, vectors: Value) -> None:
        """Copy the group's queries, scaled and transposed: queries past the last repeat it."""
        k, lanes = self.k, self.lanes
        depth, scale, most = k.number("depth"), k.number("scale"), k.number("queries") - 1
        for block in k.range(0, vectors):
            start = self.first + block * lanes
            rows = [self.q + k.min_drop_nan(start + lane, most) * k.number("q_row") for lane in range(lanes)]
            for at in k.range(0, depth, lanes):
                mask = k.tail_mask(depth - at, lanes)
                loaded = [row.load(at, lanes, mask).to(F32) * scale for row in rows]
                to = self.turned + (at * self.row + block * lanes)
                for index, vector in enumerate(transposed(k, loaded)):
                    to.store(vector, index * self.row)
        for first in range(0, self.row, lanes):
            self.largest.store(k.constant(F32, float("-inf"), lanes), first)
            self.before.store(k.constant(F32, float("-inf"), lanes), first)
            self.totals.store(k.constant(F32, 0.0, lanes), first)

    def turn_mask(self, begin: Value, count: Value) -> None:
        """Turn the mask of a chunk into its first scores: the numbers to be added, a row per key."""
        k, lanes = self.k, self.lanes
        most = k.number("queries") - 1
        for block in k.range(0, (self.count + (lanes - 1)) // lanes):
            start = self.first + block * lanes
            rows = [
                self.mask + (k.min_drop_nan(start + lane, most) * k.number("mask_row") + begin)
                for lane in range(lanes)
            ]
            for at in k.range(0, count, lanes):
                mask = k.tail_mask(count - at, lanes)
                loaded = [self.added(row.load(at, lanes, mask)) for row in rows]
                to = self.scores + (at * self.row + block * lanes)
                for index, vector in enumerate(transposed(k, loaded)):
                    with k.when(at + index < count):
                        to.store(vector, index * self.row)

    def added(self, loaded: Value) -> Value:
        """Return the numbers that a mask's elements add to scores."""
        if self.spec.mask != "bool":
            return loaded.to(F32)
        closed = self.k.constant(F32, float("-inf"), loaded.lanes)
        return self.k.select(loaded.differs(0), self.k.constant(F32, 0.0, loaded.lanes), closed)

    # ---- scores -----------------------------------------------------------------------------------------------

    def score(self, blocks: int, begin: Value, count: Value) -> None:
        """Compute the scores of a chunk's keys, and the largest of each query. Keys past the last repeat it."""
        k, lanes = self.k, self.lanes
        keys = self.keys + begin * k.number("k_row")
        for start, rows in self.tiles(count, widest(blocks, k.target.registers)):
            places = [k.min_drop_nan(start + row, count - 1) for row in range(rows)]
            sources = [k.cursor(keys + place * k.number("k_row")) for place in places]
            sums = self.zeros(rows, blocks)
            vectors = k.cursor(self.turned)
            for steps in self.steps(k.number("depth")):
                for index in range(steps):
                    right = [vectors.at.load(index * self.row + o * lanes, lanes) for o in range(blocks)]
                    for totals, source in zip(sums, sources, strict=True):
                        self.add(totals, source.at.broadcast(index, lanes), right)
                for source in sources:
                    source.move(steps)
                vectors.move(steps * self.row)
            values = [
                [self.masked(total.value, place, block, begin) for block, total in enumerate(totals)]
                for place, totals in zip(places, sums, strict=True)
            ]
            self.keep(values, start, blocks)

    def keep(self, values: Sequence[Sequence[Value]], start: Value, blocks: int) -> None:
        """Store the scores of a tile."""
        k, lanes = self.k, self.lanes
        to = self.scores + start * self.row
        for block in range(blocks):
            most = self.largest.load(block * lanes, lanes)
            for index, row in enumerate(values):
                most = k.max_drop_nan(row[block], most)  # a NaN makes the sum of powers NaN
                to.store(row[block], index * self.row + block * lanes)
            self.largest.store(most, block * lanes)

    def masked(self, value: Value, place: Value, block: int, begin: Value) -> Value:
        """A score with the mask; minus infinity where a key is not attended."""
        k, lanes, spec = self.k, self.lanes, self.spec
        if spec.mask:
            if spec.per_query:
                extra = self.scores.load(place * self.row + block * lanes, lanes)
            else:
                extra = k.splat(self.added((self.mask + (begin + place)).load()), lanes)
            value = k.select(extra < 0.0, extra, value) if spec.mask == "bool" else value + extra
        if spec.causal:
            before = k.tail_mask(begin + place - k.number("offset") - self.first - block * lanes, lanes)
            value = k.select(before, k.constant(F32, float("-inf"), lanes), value)
        return value

    # ---- softmax ----------------------------------------------------------------------------------------------

    def normalize(self, blocks: int, count: Value, is_last: Value) -> None:
        """Turn a chunk's scores into powers of e. `factors` becomes the factors of earlier sums, `totals` the sum of
        all powers; after the last chunk 1 / that sum."""
        k, lanes = self.k, self.lanes
        shifts, totals = [], []
        for at in range(0, blocks * lanes, lanes):
            largest = self.largest.load(at, lanes)
            # For a query without keys the powers of minus infinity are zeros.
            shifts.append(k.select(largest.equals(float("-inf")), k.constant(F32, 0.0, lanes), largest))
            grown = self.cleared(math.exp_falling(k, self.before.load(at, lanes) - shifts[-1]))
            self.before.store(largest, at)
            self.factors.store(grown, at)
            totals.append(k.variable(k.constant(F32, 0.0, lanes)))
        for row in k.range(0, count):
            place = self.scores + row * self.row
            for block in range(blocks):
                power = math.exp_falling(k, place.load(block * lanes, lanes) - shifts[block])
                place.store(self.cleared(power), block * lanes)
                totals[block].value = totals[block].value + power
        for block, total in enumerate(totals):  # a chunk's sum is a chain of its own
            at = block * lanes
            total.value = k.fma(self.totals.load(at, lanes), self.factors.load(at, lanes), total.value)
            self.totals.store(total.value, at)
        with k.when(is_last):
            for block, total in enumerate(totals):
                inverse = inverse_total(k, total.value, self.spec.zeros, self.spec.nan_to_zero)
                self.totals.store(inverse, block * lanes)

    def cleared(self, power: Value) -> Value:
        """Return a power to multiply V by: 0 for NaN where that counts as zero, of which `totals` still tells."""
        zero = self.k.constant(F32, 0.0, self.lanes)
        return self.k.max_drop_nan(power, zero) if self.spec.nan_to_zero else power

    # ---- averages ---------------------------------------------------------------------------------------------

    def column_groups(self) -> Iterator[tuple[Value, int]]:
        """Emit loops over groups of V's columns; yields the first column of each, and its number of vectors."""
        k, lanes, blocks = self.k, self.lanes, self.spec.value_blocks
        wide, groups = k.number("value_wide"), k.number("value_groups")
        for group in k.range(0, wide):
            yield group * (blocks * lanes), blocks
        if self.spec.value_mixed:
            for group in k.range(wide, groups):
                yield (group * (blocks - 1) + wide) * lanes, blocks - 1

    def average(
        self, column: Value, blocks: int, begin: Value, count: Value, is_first: Value, is_last: Value
    ) -> None:
        """Average a group of V's columns for all queries."""
        k, lanes = self.k, self.lanes
        masks: list[Value | None] = [None] * blocks
        if self.spec.clip:
            left = k.number("columns") - column
            masks[-1] = k.tail_mask(left - (blocks - 1) * lanes, lanes)
        v = self.v + (begin * k.number("v_row") + column)
        for start, rows in self.tiles(self.count, self.spec.width):
            kept = self.sums + (column * (self.row + SPARE) + start * (blocks * lanes))
            places = [
                (index, o, (index * blocks + o) * lanes) for index in range(rows) for o in range(blocks)
            ]
            sums = self.zeros(rows, blocks)
            powers, source = k.cursor(self.scores + start), k.cursor(v)
            for steps in self.steps(count):
                for index in range(steps):
                    right = [source.at.load(o * lanes, lanes, mask) for o, mask in enumerate(masks)]
                    source.move(k.number("v_row"))
                    for row, totals in enumerate(sums):
                        self.add(totals, powers.at.broadcast(index * self.row + row, lanes), right)
                powers.move(steps * self.row)
            with k.unless(is_first):
                for index, block, at in places:
                    total, factor = sums[index][block], self.factors.broadcast(start + index, lanes)
                    total.value = k.fma(kept.load(at, lanes), factor, total.value)
            with k.unless(is_last):
                for index, block, at in places:
                    kept.store(sums[index][block].value, at)
            with k.when(is_last):
                self.finish(sums, start, column, masks)

    def finish(
        self, sums: Sequence[Sequence[Variable]], start: Value, column: Value, masks: Sequence[Value | None]
    ) -> None:
        k, lanes = self.k, self.lanes
        for index, totals in enumerate(sums):
            with k.when(start + index < self.count):
                factor = self.totals.broadcast(start + index, lanes)
                to = self.y + ((self.first + start + index) * k.number("y_row") + column)
                for block, (total, mask) in enumerate(zip(totals, masks, strict=True)):
                    to.store((total.value * factor).to(to.element), block * lanes, mask)

    # ---- sums -------------------------------------------------------------------------------------------------

    def zeros(self, rows: int, blocks: int) -> list[list[Variable]]:
        zero = self.k.constant(F32, 0.0, self.lanes)
        return [[self.k.variable(zero) for _ in range(blocks)] for _ in range(rows)]

    def steps(self, count: Value) -> Iterator[int]:
        """Emit loops over the steps of a sum; yields the number of steps emitted at a time."""
        whole = count // UNROLL
        for _ in self.k.range(0, whole):
            yield UNROLL
        for _ in self.k.range(whole * UNROLL, count):
            yield 1

    def add(self, sums: Sequence[Variable], left: Value, right: Sequence[Value]) -> None:
        for total, vector in zip(sums, right, strict=True):
            total.value = self.k.fma(left, vector, total.value)
