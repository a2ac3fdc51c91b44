"""Place of the largest or smallest element along an axis.

along (the axis is the last), an item is a row:           across, an item is a vector of columns:
    for chunk of 8 vectors:      emitted                       one pair of vectors: the best, and where it is
        the best of each lane, in 4 chains                     for row of the axis:      emitted
        a pair: the best so far, and its chunk                     load, compare, replace both where better
    the pair's lanes joined by halves                          stored
    the places in the chunk that hold the best
    a row with NaN: compared pair by pair, as across

NaN is better than any number. Of equals the first stays, or with `last` the last: pairs with equal values are joined
by their places, so the answer depends neither on lanes nor on threads. A row whose sum is a number holds no NaN; where
it is none, which infinities may cause too, pairs are compared with care.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BOOL, F32, I32, I64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import is_float
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

WIDE = 4  # chains of vectors of a row
CHUNK = 8  # vectors whose best is found without its place
LONGEST = (1 << 31) - 1  # elements of an axis: places are kept in 32 bits
ITEM = 1 << 15  # approximate number of elements that a thread takes at once


class Best(NamedTuple):
    """Values, and their places along the axis."""

    value: Value
    place: Value


@dataclass(frozen=True)
class ArgReduce(KernelSpec):
    """Kernel of `kind` "max" or "min". `tail`: columns may end in a part of a vector."""

    kind: str
    dtype: np.dtype[Any]
    last: bool
    along: bool
    tail: bool

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(I64, "y"),
            *pointers_to(Scalar.of(self.dtype), "x"),
            *numbers_named(["extent", "columns"]),
        )

    @property
    def compute(self) -> Scalar:
        """Type that is compared: at least 32 bits."""
        scalar = Scalar.of(self.dtype)
        return scalar if scalar.bits >= 32 else F32 if is_float(self.dtype) else I32

    def lanes(self, target: Target) -> int:
        return target.vector_bytes // self.compute.nbytes

    def emit(self, target: Target) -> Kernel:
        k, lanes = self.kernel(target), self.lanes(target)
        for item in k.range(k.begin, k.end):
            if self.along:
                x = k.pointer("x") + item * k.number("extent")
                k.pointer("y").store(self._row(k, x, lanes).to(I64), item)
                continue
            blocks = (k.number("columns") + lanes - 1) // lanes
            column, outer = item % blocks * lanes, item // blocks
            x = k.pointer("x") + (outer * k.number("extent") * k.number("columns") + column)
            y = k.pointer("y") + (outer * k.number("columns") + column)
            if not self.tail:
                self._column(k, x, y, lanes)
                continue
            rest = k.number("columns") - column
            with k.when(rest >= lanes):
                self._column(k, x, y, lanes)
            with k.when(rest < lanes):
                for single in k.range(0, rest):
                    self._column(k, x + single, y + single, 1)
        return k

    # ---- comparison -------------------------------------------------------------------------------------------

    @property
    def places(self) -> Scalar:
        """Type of places: their lanes have the width of the values'."""
        return I64 if self.compute.bits == 64 else I32

    def _compare(self, k: Kernel, a: Value, b: Value, unordered: bool, equal: bool = False) -> Value:
        """Compare: is a better than b (or as good)? `unordered`: the answer where one is NaN."""
        code = ("g" if self.kind == "max" else "l") + ("e" if equal else "t")
        if a.type.is_float:
            text = f"fcmp {'u' if unordered else 'o'}{code} {a.ir} {a.text}, {b.text}"
        else:
            text = f"icmp {'s' if a.type.kind == 'int' else 'u'}{code} {a.ir} {a.text}, {b.text}"
        return k.assign(text, BOOL, a.lanes)

    def replaces(self, k: Kernel, value: Value, best: Value) -> Value:
        """Whether a later value replaces the best so far."""
        if self.last:
            better = self._compare(k, value, best, unordered=False, equal=True)
            return better | value.is_nan() if value.type.is_float else better
        better = self._compare(k, value, best, unordered=True)
        return better & ~best.is_nan() if value.type.is_float else better

    def join(self, k: Kernel, a: Best, b: Best) -> Best:
        """Return the better of two, by place where they are equal."""
        first = self._compare(k, b.value, a.value, unordered=False)
        same = b.value.equals(a.value)
        if a.value.type.is_float:
            first = first | (b.value.is_nan() & ~a.value.is_nan())
            same = same | (b.value.is_nan() & a.value.is_nan())
        order = b.place > a.place if self.last else b.place < a.place
        chosen = first | (same & order)
        return Best(k.select(chosen, b.value, a.value), k.select(chosen, b.place, a.place))

    # ---- loops ------------------------------------------------------------------------------------------------

    def _row(self, k: Kernel, x: Pointer, lanes: int) -> Value:
        """Find the place of the best of a row."""
        extent = k.number("extent")
        where, is_short = k.variable(k.constant(self.places, 0)), extent < lanes
        with_care = k.variable(is_short)
        with k.unless(is_short):
            best, is_number = self._best_chunk(k, x, lanes)
            with_care.value = ~is_number
            with k.when(is_number):
                where.value = self._place_in_chunk(k, x, best, lanes)
        with k.when(with_care.value):
            where.value = self._row_with_care(k, x, lanes).place
        return where.value

    def _best_chunk(self, k: Kernel, x: Pointer, lanes: int) -> tuple[Best, Value]:
        """Find the best of a row of a vector or more, and where its chunk begins: of equals the first chunk, or the
        last. Also returns whether that is right: that the row's sum is a number."""
        extent, chunk = k.number("extent"), CHUNK * lanes
        best = k.variable(k.splat(x.load().to(self.compute), lanes))
        where = k.variable(k.constant(self.places, 0, lanes))
        sums = [k.variable(k.constant(self.compute, 0, lanes)) for _ in range(WIDE)]
        whole = extent // chunk * chunk

        def taken(number: int, at: Value) -> Value:
            value = x.load(at, lanes).to(self.compute)
            if value.type.is_float:
                sums[number % WIDE].value += value
            return value

        def keep(values: list[Value], begin: Value) -> None:
            found = self._best_of(k, values)
            chosen = self._compare(k, found, best.value, unordered=False, equal=self.last)
            best.value = k.select(chosen, found, best.value)
            where.value = k.select(chosen, k.splat(begin.to(self.places), lanes), where.value)

        for begin in k.range(0, whole, chunk):
            chains: list[list[Value]] = [[] for _ in range(WIDE)]
            for number in range(CHUNK):
                at = begin + number * lanes
                chains[number % WIDE].append(taken(number, at))
            keep([self._best_of(k, chain) for chain in chains], begin)
        with k.when(whole < extent):
            start = x.load(k.min_drop_nan(whole, extent - lanes), lanes).to(self.compute)
            rest = [k.variable(start) for _ in range(WIDE)]
            for at in k.range(whole, extent, WIDE * lanes):
                for number, each in enumerate(rest):
                    # Vectors behind the row's end repeat its last elements.
                    value = taken(number, k.min_drop_nan(at + number * lanes, extent - lanes))
                    each.value = self._best_of(k, [each.value, value])
            keep([each.value for each in rest], whole)
        is_number = k.constant(BOOL, 1)
        if self.compute.is_float:
            total = _by_halves(k, reduce(operator.add, [each.value for each in sums]), operator.add)
            is_number = ~total.is_nan()
        value = _by_halves(k, best.value, lambda a, b: self._best_of(k, [a, b]))
        outside = k.constant(self.places, -1 if self.last else LONGEST, lanes)
        chunks = k.select(best.value.equals(k.splat(value, lanes)), where.value, outside)
        return Best(value, _by_halves(k, chunks, k.maximum if self.last else k.minimum)), is_number

    def _place_in_chunk(self, k: Kernel, x: Pointer, best: Best, lanes: int) -> Value:
        """Find the first place of a value in its chunk, or the last."""
        extent, begin = k.number("extent"), best.place.to(I64)
        outside = -1 if self.last else LONGEST
        nearer, iota = k.maximum if self.last else k.minimum, k.iota(lanes, self.places)
        places = []
        for number in range(CHUNK):
            at = k.min_drop_nan(begin + number * lanes, extent - lanes)
            is_it = x.load(at, lanes).to(self.compute).equals(k.splat(best.value, lanes))
            place = iota + k.splat(at.to(self.places), lanes)
            places.append(k.select(is_it, place, k.constant(self.places, outside, lanes)))
        return _by_halves(k, reduce(nearer, places), nearer)

    def _best_of(self, k: Kernel, values: list[Value]) -> Value:
        """Return the best of each lane; NaN may be lost."""
        is_float, largest = values[0].type.is_float, self.kind == "max"
        better = (
            (k.max_drop_nan if largest else k.min_drop_nan)
            if is_float
            else (k.maximum if largest else k.minimum)
        )
        return reduce(better, values)

    def _row_with_care(self, k: Kernel, x: Pointer, lanes: int) -> Best:
        """Find the best of a row. All pairs begin with the first element, which is as good a candidate as any."""
        extent, start = k.number("extent"), x.load().to(self.compute)
        best, where = k.variable(k.splat(start, lanes)), k.variable(k.constant(self.places, 0, lanes))
        iota = k.iota(lanes, self.places)
        whole = extent // lanes * lanes
        for place in k.range(0, whole, lanes):
            value = x.load(place, lanes).to(self.compute)
            chosen = self.replaces(k, value, best.value)
            best.value = k.select(chosen, value, best.value)
            where.value = k.select(chosen, iota + k.splat(place.to(self.places), lanes), where.value)
        joined = Best(best.value, where.value)
        while joined.value.lanes > 1:
            half = joined.value.lanes // 2
            parts = [
                Best(*(k.shuffle(each, each, range(begin, begin + half)) for each in joined))
                for begin in (0, half)
            ]
            joined = self.join(k, *parts)
        chosen_value, chosen_place = k.variable(joined.value), k.variable(joined.place)
        for place in k.range(whole, extent):
            single = x.load(place).to(self.compute)
            chosen = self.replaces(k, single, chosen_value.value)
            chosen_value.value = k.select(chosen, single, chosen_value.value)
            chosen_place.value = k.select(chosen, place.to(self.places), chosen_place.value)
        return Best(chosen_value.value, chosen_place.value)

    def _column(self, k: Kernel, x: Pointer, y: Pointer, lanes: int) -> None:
        best = k.variable(x.load(0, lanes).to(self.compute))
        where = k.variable(k.constant(self.places, 0, lanes))
        for row in k.range(1, k.number("extent")):
            value = x.load(row * k.number("columns"), lanes).to(self.compute)
            chosen = self.replaces(k, value, best.value)
            best.value = k.select(chosen, value, best.value)
            where.value = k.select(chosen, k.splat(row.to(self.places), lanes), where.value)
        y.store(where.value.to(I64))


def _by_halves(k: Kernel, value: Value, join: Callable[[Value, Value], Value]) -> Value:
    """Join the lanes of a vector."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = join(*(k.shuffle(value, value, range(begin, begin + half)) for begin in (0, half)))
    return value


def arg_reduce_call(
    kind: str, last: bool, x: View, y: View, outer: int, extent: int, columns: int, target: Target
) -> Call:
    """Return the launch for plain memory of (outer, extent, columns)."""
    along = not is_size(columns) and columns == 1
    spec = ArgReduce(kind, x.type.dtype, last, along, tail=False)
    lanes = spec.lanes(target)
    if not along and (is_size(columns % lanes) or columns % lanes):
        spec = ArgReduce(kind, x.type.dtype, last, along, tail=True)
    words: dict[str, Argument] = {"y": y, "x": x, "extent": extent, "columns": columns}
    items = outer if along else outer * -(-columns // lanes)
    grain = maximum(1, ITEM // maximum(1, extent * (1 if along else lanes)))
    return Call.named(spec, words, items, grain)
