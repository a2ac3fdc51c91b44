"""The k best elements along an axis, best first, and their places; with all of them it is a stable sort.

    for item in begin .. end:                          emitted; an item is a row (a column is copied to scratch first)
        the first elements become records              as many as the buffer holds
        for vector of the rest:                        emitted
            records of the elements that beat the k-th best so far
            a buffer that is full is sorted and cut to k
        the buffer is sorted; the first k are stored

A record is a key in which unsigned order is the order wanted, and the place along the axis: 32 + 32 bits for elements
of at most 32 bits, else two words of 64. Few records are sorted by counting for each how many come before it (they all
differ), many by radix: a pass per byte of the key, from the last; bytes in which all keys agree are left out. Integers
of 64 bits that are nearer each other than 2^32 become records of one word (a million 14.7 ms, 23 so, Zen 3). With
AVX-512 many records of one word, of keys of 32 bits, are partitioned (quicksort.py), those of 64 bits by the leading 32
bits in which they differ, and put right where these are equal and not all. Integers are stored as their keys say, not
read again from places all over the row: a million int64 take 12.2 ms with their places, 18.7 so (Zen 4). All keep the
order of equal keys, and the buffer is larger than k, so that sorting it costs little per element of random data.

NaN is greater than any number; -0 and +0 are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F16, F32, F64, I64, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import bits_of
from cenote.kernels.selection.quicksort import LEVELS
from cenote.kernels.selection.records import FEW, RADIX, RecordBuffer, words_of

LEAST = 256  # records of a buffer
WIDE = 8  # elements that become records at once
SPARE = 3  # times k: larger buffers are sorted less often, but hold more
LONGEST = (1 << 31) - 1  # elements of an axis: places are kept in 32 bits
AHEAD = 4096  # prefetch distance in bytes: rows of 400 kB take 0.7 of the time without
ITEM = 1 << 15  # approximate number of elements that a thread takes at once


def key_of(k: Kernel, bits: Value, type: Scalar, descending: bool) -> Value:
    """Unsigned number by which an element is ordered, from its bits."""
    width = type.bits
    sign = 1 << (width - 1)
    key = bits
    if type.is_float:
        mantissa = {F64: 52, F32: 23, F16: 10}.get(type, 7)
        infinity = (sign - 1) >> mantissa << mantissa
        size = bits & (sign - 1)
        plain = k.select(size.equals(0), k.constant(bits.type, 0, bits.lanes), bits)
        negative = plain >= sign
        key = k.select(negative, ~plain, plain ^ sign)
        key = k.select(size > infinity, k.constant(bits.type, -1, bits.lanes), key)
    elif type.kind == "int":
        key = bits ^ sign
    return ~key if descending else key


@dataclass(frozen=True)
class OrderSpec(KernelSpec):
    """Kernel of an order. `column`: the axis is not the last, so rows are gathered into scratch first."""

    dtype: np.dtype[Any]
    descending: bool
    column: bool
    levels: int = LEVELS  # of partitions: see quicksort.py

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(bits_of(self.dtype), "y", "x"),
            *pointers_to(I64, "places"),
            *numbers_named(["extent", "count", "columns", "capacity"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // self.dtype.itemsize
        capacity, columns = k.number("capacity"), k.number("columns")
        counts = k.scratch.cast(I64)
        first = k.scratch.cast(U64) + self.dtype.itemsize * RADIX
        second = first + (capacity + FEW) * words_of(self.dtype)
        copy = (second + (capacity + FEW) * words_of(self.dtype)).cast(bits_of(self.dtype))
        for item in k.range(k.begin, k.end):
            outer, column = (item // columns, item % columns) if self.column else (item, k.integer(0))
            x = k.pointer("x") + (outer * k.number("extent") * columns + column)
            if self.column:
                for place in k.range(0, k.number("extent")):
                    copy.store(x.load(place * columns), place)
                x = copy
            keys = partial(self._key, k, x)
            memory = k.cursor(first), k.cursor(second), counts
            buffer = RecordBuffer(k, self.dtype, self.levels, *memory, k.variable(k.integer(0)), keys)
            self._collect(k, x, buffer, lanes)
            buffer.sort()
            start = outer * k.number("count") * columns + column
            for number in k.range(0, k.number("count")):
                place = buffer.place(number)
                at = start + number * columns
                # A float is read again: its key has no bits of a NaN, nor the sign of a zero.
                is_float = Scalar.of(self.dtype).is_float
                k.pointer("y").store(x.load(place) if is_float else self._element(buffer.key(number)), at)
                k.pointer("places").store(place, at)
        return k

    def _collect(self, k: Kernel, x: Pointer, buffer: RecordBuffer, lanes: int) -> None:
        """Collect records of all elements that can be among the best."""
        extent, capacity = k.number("extent"), k.number("capacity")
        begin = k.minimum(extent, capacity)
        several = WIDE if buffer.words == 1 else 1
        for first, last, step in (
            (k.integer(0), begin // several * several, several),
            (begin // several * several, begin, 1),
        ):
            for place in k.range(first, last, step):
                buffer.append(self._key(k, x, place, step), place)
        with k.when(begin < extent):
            buffer.cut()
            limit = k.variable(buffer.worst())
            whole = begin + (extent - begin) // lanes * lanes
            for place in k.range(begin, whole, lanes):
                k.prefetch(x, place + AHEAD // self.dtype.itemsize)
                keys = key_of(k, x.load(place, lanes), Scalar.of(self.dtype), self.descending)
                better = keys < k.splat(limit.value, lanes)
                mask = k.assign(f"bitcast {better.ir} {better.text} to i{lanes}", unsigned(lanes), 1)
                with k.when(mask.differs(0)):
                    self._take(k, x, place, mask.to(U64), buffer)
                    with k.when(buffer.count.value > capacity - lanes):
                        buffer.cut()
                        limit.value = buffer.worst()
            for place in k.range(whole, extent):
                key = self._key(k, x, place)
                with k.when(key < limit.value):
                    buffer.append(key, place)

    def _key(self, k: Kernel, x: Pointer, place: Value, lanes: int = 1) -> Value:
        return key_of(k, x.load(place, lanes), Scalar.of(self.dtype), self.descending)

    def _element(self, key: Value) -> Value:
        """Return the bits of the integer that has this key."""
        sign = 1 << (key.type.bits - 1) if Scalar.of(self.dtype).kind == "int" else 0
        return (~key if self.descending else key) ^ sign

    def _take(self, k: Kernel, x: Pointer, place: Value, mask: Value, buffer: RecordBuffer) -> None:
        """Append the elements of a vector whose bits are set."""
        for lane in each_bit(k, mask):
            buffer.append(self._key(k, x, place + lane), place + lane)


def each_bit(k: Kernel, mask: Value) -> Iterator[Value]:
    """Emit a loop over the bits that are set in a U64, from the lowest; yields their numbers."""
    left = k.variable(mask)
    k.declare("llvm.cttz.i64", "i64 (i64, i1 immarg)")
    for _ in k.range(0, k.intrinsic("ctpop", mask).bits(I64)):
        bits = left.value
        left.value = bits & (bits - 1)
        yield k.assign(f"call i64 @llvm.cttz.i64(i64 {bits.text}, i1 true)", I64, 1)


def unsigned(bits: int) -> Scalar:
    """Return the type of unsigned numbers of so many bits."""
    return Scalar(f"u{bits}", "uint", bits, f"i{bits}")


def order_bytes(dtype: np.dtype[Any], extent: int, count: int, column: bool) -> int:
    """Bytes of scratch memory that a thread needs."""
    records = 2 * (capacity_of(extent, count) + FEW) * words_of(dtype) * 8
    return dtype.itemsize * RADIX * 8 + records + (extent * dtype.itemsize if column else 0) + 64


def capacity_of(extent: int, count: int) -> int:
    """Number of records that a buffer holds, at least a vector of bytes more than k."""
    return minimum(extent, maximum(LEAST, SPARE * count))


def order_call(
    x: View, y: View, places: View, outer: int, extent: int, columns: int, count: int, descending: bool
) -> Call:
    """Return the launch for plain memory of (outer, extent, columns); `count` of the axis are wanted, at least 1."""
    column = is_size(columns) or columns != 1
    spec = OrderSpec(x.type.dtype, descending, column, LEVELS)
    words: dict[str, Argument] = {
        "y": y,
        "x": x,
        "places": places,
        "extent": extent,
        "count": count,
        "columns": columns,
        "capacity": capacity_of(extent, count),
    }
    scratch = order_bytes(x.type.dtype, extent, count, column)
    return Call.named(spec, words, outer * columns, maximum(1, ITEM // maximum(1, extent)), scratch)
