"""Place of the largest or smallest element along an axis.

along (the axis is the last), an item is a row:           across, an item is a vector of columns:
    4 pairs of vectors: the best, and where it is              one pair
    for block of 4 vectors:      emitted                       for row of the axis:      emitted
        load, compare, replace both where better                   the same
    the pairs joined, then their lanes by halves               stored

NaN is better than any number. Of equals the first stays, or with `last` the last: pairs with equal values are joined
by their places, so the answer depends neither on lanes nor on threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BOOL, F32, I32, I64, Pointer, Scalar, Value
from cenote.core.sizes import is_size, maximum
from cenote.core.target import Target
from cenote.core.types import is_float
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

WIDE = 4  # pairs of vectors of a row
AHEAD = 4096  # prefetch distance in bytes: a row of 4 MB takes 0.8 of the time without
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
                k.pointer("y").store(self._row(k, x, lanes).place.to(I64), item)
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

    def _row(self, k: Kernel, x: Pointer, lanes: int) -> Best:
        """Find the best of a row. All pairs begin with the first element, which is as good a candidate as any."""
        extent, start = k.number("extent"), x.load().to(self.compute)
        zero = k.constant(self.places, 0, lanes)
        pairs = [(k.variable(k.splat(start, lanes)), k.variable(zero)) for _ in range(WIDE)]
        iota = k.iota(lanes, self.places)

        def take(number: int, place: Value) -> None:
            best, where = pairs[number]
            value = x.load(place, lanes).to(self.compute)
            chosen = self.replaces(k, value, best.value)
            best.value = k.select(chosen, value, best.value)
            where.value = k.select(chosen, iota + k.splat(place.to(self.places), lanes), where.value)

        blocks = extent // (WIDE * lanes) * (WIDE * lanes)
        whole = extent // lanes * lanes
        for place in k.range(0, blocks, WIDE * lanes):
            for number in range(WIDE):
                k.prefetch(x, place + number * lanes + AHEAD // x.element.nbytes)
                take(number, place + number * lanes)
        for place in k.range(blocks, whole, lanes):
            take(0, place)
        candidates = [Best(best.value, where.value) for best, where in pairs]
        while len(candidates) > 1:
            candidates = [self.join(k, a, b) for a, b in zip(candidates[::2], candidates[1::2], strict=True)]
        best = candidates[0]
        while best.value.lanes > 1:
            half = best.value.lanes // 2
            parts = [
                Best(*(k.shuffle(each, each, range(begin, begin + half)) for each in best))
                for begin in (0, half)
            ]
            best = self.join(k, *parts)
        value, where = k.variable(best.value), k.variable(best.place)
        for at in k.range(whole, extent):
            single = x.load(at).to(self.compute)
            chosen = self.replaces(k, single, value.value)
            value.value = k.select(chosen, single, value.value)
            where.value = k.select(chosen, at.to(self.places), where.value)
        return Best(value.value, where.value)

    def _column(self, k: Kernel, x: Pointer, y: Pointer, lanes: int) -> None:
        best = k.variable(x.load(0, lanes).to(self.compute))
        where = k.variable(k.constant(self.places, 0, lanes))
        for row in k.range(1, k.number("extent")):
            value = x.load(row * k.number("columns"), lanes).to(self.compute)
            chosen = self.replaces(k, value, best.value)
            best.value = k.select(chosen, value, best.value)
            where.value = k.select(chosen, k.splat(row.to(self.places), lanes), where.value)
        y.store(where.value.to(I64))


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
