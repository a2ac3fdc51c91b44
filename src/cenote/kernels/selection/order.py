"""The k best elements along an axis, best first, and their places; with all of them it is a stable sort.

    for item in begin .. end:                          emitted; an item is a row (a column is copied to scratch first)
        the first elements become records              as many as the buffer holds
        for vector of the rest:                        emitted
            records of the elements that beat the k-th best so far
            a buffer that is full is sorted and cut to k
        the buffer is sorted; the first k are stored

A record is a key in which unsigned order is the order wanted, and the place along the axis: 32 + 32 bits for elements
of at most 32 bits, else two words of 64. Few records are sorted by counting for each how many come before it (they all
differ), many by radix: a pass per byte of the key, from the last; bytes in which all keys agree are left out. With
AVX-512 many records of one word, of keys of 32 bits, are partitioned (quicksort.py), those of 64 bits by the leading 32
bits in which they differ, and put right where these are equal and not all. Integers are stored as their keys say, not
read again from places all over the row: a million int64 take 12.2 ms with their places, 18.7 so (Zen 4). All keep the
order of equal keys, and the buffer is larger than k, so that sorting it costs little per element of random data.

NaN is greater than any number; -0 and +0 are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BOOL, F16, F32, F64, I64, U64, Pointer, Scalar, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.selection.indices import bits_of
from cenote.kernels.selection.quicksort import LEVELS, Quicksort, insert, leading_bits

RADIX = 256
FEW = 64  # records that are sorted by counting
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

    @property
    def record(self) -> int:
        """Number of words of a record."""
        return 2 if self.dtype.itemsize == 8 else 1

    @property
    def passes(self) -> int:
        return self.dtype.itemsize

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // self.dtype.itemsize
        capacity, columns = k.number("capacity"), k.number("columns")
        counts = k.scratch.cast(I64)
        first = k.scratch.cast(U64) + self.passes * RADIX
        second = first + (capacity + FEW) * self.record
        copy = (second + (capacity + FEW) * self.record).cast(bits_of(self.dtype))
        for item in k.range(k.begin, k.end):
            outer, column = (item // columns, item % columns) if self.column else (item, k.integer(0))
            x = k.pointer("x") + (outer * k.number("extent") * columns + column)
            if self.column:
                for place in k.range(0, k.number("extent")):
                    copy.store(x.load(place * columns), place)
                x = copy
            keys = partial(self._key, k, x)
            buffer = RecordBuffer(
                k, self, k.cursor(first), k.cursor(second), counts, k.variable(k.integer(0)), keys
            )
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
        several = WIDE if self.record == 1 else 1
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


@dataclass(frozen=True, eq=False)
class RecordBuffer:
    """Buffer of `count` records at `records`, with as much memory at `other` to sort with."""

    k: Kernel
    spec: OrderSpec
    records: Cursor
    other: Cursor
    counts: Pointer
    count: Variable
    keys: Callable[[Value], Value]  # keys of the elements at a place

    def append(self, key: Value, place: Value) -> None:
        """Append a record, or one for each lane of the keys, whose places begin at `place`."""
        at, count = self.records.at, self.count.value
        if self.spec.record == 2:
            at.store(key.to(U64), count * 2)
            at.store(place.bits(U64), count * 2 + 1)
        else:
            places = place.bits(U64)
            if key.lanes > 1:
                places = self.k.iota(key.lanes, U64) + places
            at.store((key.to(U64) << 32) | places, count)
        self.count.value = count + key.lanes

    def place(self, number: Value) -> Value:
        """Place of a record's element along the axis."""
        if self.spec.record == 2:
            return self.records.at.load(number * 2 + 1).bits(I64)
        return (self.records.at.load(number) & 0xFFFFFFFF).bits(I64)

    def key(self, number: Value) -> Value:
        """Key of a record's element."""
        word = self.records.at.load(number * self.spec.record)
        return (word >> 32 if self.spec.record == 1 else word).to(bits_of(self.spec.dtype))

    def worst(self) -> Value:
        """Key of the k-th best, once there are k in order."""
        return self.key(self.k.number("count") - 1)

    def cut(self) -> None:
        """Keep the k best."""
        self.sort()
        self.count.value = self.k.number("count")

    def sort(self) -> None:
        k, count = self.k, self.count.value
        if self.spec.record == 1:
            with k.when(count <= FEW):
                self._by_counting(count)
            with k.when(count > FEW):
                if k.target.has_scale and self.spec.dtype.itemsize == 4:
                    Quicksort(k, self.records.at, self.other.at, self._radix_of, self.spec.levels).sort(count)
                else:
                    self._by_radix(count)
        elif k.target.has_scale:
            with k.when(count <= FEW):
                self._by_radix(count)
            with k.when(count > FEW):
                self._by_leading_bits(count)
        else:
            self._by_radix(count)

    def _by_leading_bits(self, count: Value) -> None:
        """Sort records of two words by a sort of one: 32 bits of the key and the place. Where these bits are equal
        too often for keys that differ, sort by radix."""
        k, pairs, records = self.k, self.records.at, self.other.at
        low, shift = leading_bits(k, pairs, count)
        for number in k.range(0, count):
            leading = (pairs.load(number * 2) - low) >> shift
            records.store((leading << 32) | pairs.load(number * 2 + 1), number)
        failed = k.variable(k.integer(0))

        def give_up(*_: object) -> None:
            failed.value = k.integer(1)

        room = records + (k.number("capacity") + FEW)
        Quicksort(k, records, room, give_up, self.spec.levels).sort(count)
        is_whole = shift.equals(0)  # the leading bits are all in which keys differ
        with k.when(failed.value.equals(0) & is_whole):
            for number in k.range(0, count):
                record = records.load(number)
                pairs.store((record >> 32) + low, number * 2)
                pairs.store(record & 0xFFFFFFFF, number * 2 + 1)
        with k.when(failed.value.equals(0) & ~is_whole):
            for number in k.range(0, count):
                place = (records.load(number) & 0xFFFFFFFF).bits(I64)
                pairs.store(self.keys(place).bits(U64), number * 2)
                pairs.store(place.bits(U64), number * 2 + 1)
            failed.value = insert(k, pairs, count)
        with k.when(failed.value.differs(0)):
            self._by_radix(count)

    def _radix_of(self, source: Pointer, other: Pointer, count: Value, to: Pointer) -> None:
        """Sort some of the records by radix."""
        k = self.k
        part = RecordBuffer(
            k, self.spec, k.cursor(source), k.cursor(other), self.counts, k.variable(count), self.keys
        )
        part._by_radix(count)
        sorted_at = part.records.at
        elsewhere = k.assign(f"icmp ne ptr {sorted_at.text}, {to.text}", BOOL, 1)
        with k.when(elsewhere):
            for number in k.range(0, count):
                to.store(sorted_at.load(number), number)

    def _by_counting(self, count: Value) -> None:
        """Move each record to the place given by the number of smaller ones."""
        k, lanes = self.k, self.k.target.vector_bytes // 8
        records, other = self.records.at, self.other.at
        most = k.constant(U64, -1, lanes)
        records.store(most, count)  # fills the last vector
        for number in k.range(0, count):
            record = records.load(number)
            before = k.variable(k.constant(I64, 0, lanes))
            for at in k.range(0, count, lanes):
                smaller = records.load(at, lanes) < k.splat(record, lanes)
                before.value = before.value + smaller.to(I64)
            total = k.reduce(before.value, "add")
            other.store(record, total)
        self._swap()

    def _swap(self) -> None:
        first, second = self.records.at, self.other.at
        self.records.put(second)
        self.other.put(first)

    def _digit(self, word: Value, number: int) -> Value:
        shift = 8 * number + (32 if self.spec.record == 1 else 0)
        return ((word >> shift) & (RADIX - 1)).bits(I64)

    def _by_radix(self, count: Value) -> None:
        k, passes, words = self.k, self.spec.passes, self.spec.record
        zero = k.constant(I64, 0, k.target.vector_bytes // 8)
        for at in k.range(0, passes * RADIX, zero.lanes):
            self.counts.store(zero, at)
        records = self.records.at
        for number in k.range(0, count):
            word = records.load(number * words)
            for each in range(passes):
                counter = self.counts + (self._digit(word, each) + each * RADIX)
                counter.store(counter.load() + 1)
        for each in range(passes):
            counts = self.counts + each * RADIX
            same = counts.load(self._digit(self.records.at.load(), each)).equals(count)
            with k.unless(same):
                self._pass(count, counts, each)

    def _pass(self, count: Value, counts: Pointer, each: int) -> None:
        """Sort records by one byte of their keys, otherwise in their old order."""
        k, words = self.k, self.spec.record
        total = k.variable(k.integer(0))
        for digit in k.range(0, RADIX):
            here = counts.load(digit)
            counts.store(total.value, digit)
            total.value = total.value + here
        records, other = self.records.at, self.other.at
        for number in k.range(0, count):
            word = records.load(number * words)
            place = counts + self._digit(word, each)
            at = place.load()
            place.store(at + 1)
            other.store(word, at * words)
            if words == 2:
                other.store(records.load(number * 2 + 1), at * 2 + 1)
        self._swap()


def order_bytes(dtype: np.dtype[Any], extent: int, count: int, column: bool) -> int:
    """Bytes of scratch memory that a thread needs."""
    words = 2 if dtype.itemsize == 8 else 1
    records = 2 * (capacity_of(extent, count) + FEW) * words * 8
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
