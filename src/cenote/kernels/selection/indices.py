"""Indices that kernels follow: the meaning of one, and the notes of invalid ones.

An index is read once, made a place within its axis, and followed only if that is valid. `found` has a row of
WORDS words per item of work: 0 where all is well, else 1 + the number of the first bad index in the array of indices,
the index, the extent of its axis, and whether negative ones are allowed. A kernel that meets a bad index goes on with
zeros; the notes are read when the native stretch ends, before NumPy reads its results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, I32, I64, U8, U16, U32, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass

WORDS = 4
FILLED = 4  # vectors that are filled at once
ALIGNED = 32  # vectors of a row from which its inner ones are aligned
MODES = ("raise", "clip", "wrap", "zero")


@dataclass(frozen=True)
class IndexRule:
    """Treatment of an index outside of its axis: noted ("raise"), moved to the nearest end ("clip"), taken modulo the
    extent ("wrap"), or not followed ("zero"). `negative`: -1 is the last place, for "raise" and "zero"."""

    mode: str = "raise"
    negative: bool = True

    def place(self, k: Kernel, index: Value, extent: Value) -> tuple[Value, Value]:
        """Return the place that an index means, and whether it is valid."""
        if self.mode == "clip":
            low = k.select(index < 0, k.integer(0), index)
            return k.select(low < extent, low, extent - 1), extent > 0
        if self.mode == "wrap":
            divisor = k.select(extent > 0, extent, k.integer(1))
            rest = index % divisor
            return k.select(rest < 0, rest + extent, rest), extent > 0
        place = k.select(index < 0, index + extent, index) if self.negative else index
        return place, place.bits(U64) < extent.bits(U64)


class Noted:
    """Row of `found` of one item of work."""

    def __init__(self, k: Kernel, item: Value, rule: IndexRule) -> None:
        self.k, self.rule = k, rule
        self.row = k.pointer("found") + item * WORDS
        self.row.store(k.integer(0))

    def note(self, valid: Value, number: Value, index: Value, extent: Value) -> None:
        """Note the first bad index, unless bad ones are ignored."""
        if self.rule.mode == "zero":
            return
        k = self.k
        with k.unless(valid), k.when(self.row.load().equals(0)):
            for word, value in enumerate((number + 1, index, extent, k.integer(int(self.rule.negative)))):
                self.row.store(value, word)


def place_of(k: Kernel, noted: Noted, number: Value, depth: int) -> tuple[Value, Value]:
    """Return the offset that the `depth` coordinates from number `number` on mean, by the words `extent_0`, `step_0`
    and so on, and whether all of them are valid."""
    offset, valid = k.integer(0), k.constant(BOOL, 1)
    for axis in range(depth):
        index = k.pointer("index").load(number + axis).to(I64)
        extent = k.number(f"extent_{axis}")
        place, fits = noted.rule.place(k, index, extent)
        noted.note(fits, number + axis, index, extent)
        offset, valid = offset + place * k.number(f"step_{axis}"), valid & fits
    return offset, valid


def index_type(dtype: np.dtype[Any]) -> Scalar:
    """Return int32 or int64 by the size."""
    return I32 if dtype.itemsize == 4 else I64


def bits_of(dtype: np.dtype[Any]) -> Scalar:
    """Return the type as which elements are moved that are only moved."""
    return {1: U8, 2: U16, 4: U32, 8: U64}[dtype.itemsize]


def copy_row(k: Kernel, y: Pointer, x: Pointer, count: Value) -> None:
    """Copy `count` elements from x to y, in vectors; the last one of a longer row overlaps the one before."""
    lanes = k.target.vector_bytes // x.element.nbytes
    whole = count // lanes * lanes
    for place in k.range(0, whole, lanes):
        y.store(x.load(place, lanes), place)
    with k.when((whole < count) & (whole > 0)):
        y.store(x.load(count - lanes, lanes), count - lanes)
    with k.when(whole.equals(0)):
        for place in k.range(0, count):
            y.store(x.load(place), place)


def stream_row(k: Kernel, y: Pointer, x: Pointer, count: Value, later: Pointer) -> None:
    """Copy `count` elements of 4 or 8 bytes, at least two vectors, from x to y past the caches. Meanwhile as many
    elements of `later` are prefetched: it may be any address.

    A line is written either past the caches or by plain stores, whole: lines that both write take 0.2 us each.
    """
    lanes = k.target.vector_bytes // x.element.nbytes
    past = k.misaligned(y, k.target.vector_bytes) // x.element.nbytes
    begin = (lanes - past) & (lanes - 1)
    end = begin + (count - begin) // lanes * lanes
    k.prefetch(later)
    y.store(x.load(0, lanes), 0, k.tail_mask(begin, lanes))
    for place in k.range(begin, end, lanes):
        k.prefetch(later, place)
        k.store_nontemporal(x.load(place, lanes), y + place)
    mask = k.tail_mask(count - end, lanes)
    y.store(x.load(end, lanes, mask), end, mask)


def fill_row(k: Kernel, y: Pointer, value: Value, count: Value) -> None:
    """Fill `count` elements of y with one value. The inner vectors of long rows do not straddle lines, which would
    take a tenth longer; in short rows the detour would."""
    lanes = k.target.vector_bytes // y.element.nbytes
    many, long = k.splat(value, lanes), count >= ALIGNED * lanes

    def fill(done: Value) -> Value:
        """Fill whole vectors from a place on; returns the end."""
        for step in (FILLED * lanes, lanes):
            end = done + (count - done) // step * step
            for place in k.range(done, end, step):
                for part in range(0, step, lanes):
                    y.store(many, place + part)
            done = end
        return done

    with k.when(long):
        y.store(many)
        fill(k.integer(lanes) - k.misaligned(y, k.target.vector_bytes) // y.element.nbytes)
        y.store(many, count - lanes)
    with k.unless(long):
        for place in k.range(fill(k.integer(0)), count):
            y.store(value, place)
