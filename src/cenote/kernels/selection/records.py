"""Records of keys and places, and the ways to sort them; what they are is said in order.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, I64, U64, Pointer, Scalar, Value
from cenote.codegen.variables import Cursor, Variable
from cenote.core.deferred import dataclass
from cenote.kernels.selection.indices import bits_of
from cenote.kernels.selection.quicksort import Quicksort, insert, leading_bits

RADIX = 256
FEW = 64  # records that are sorted by counting
NARROW = np.dtype(np.uint32)  # keys whose records are one word


def words_of(dtype: np.dtype[Any]) -> int:
    """Return the number of words of a record of elements of a type."""
    return 2 if dtype.itemsize == 8 else 1


@dataclass(frozen=True, eq=False)
class RecordBuffer:
    """Buffer of `count` records at `records`, with as much memory at `other` to sort with."""

    k: Kernel
    dtype: np.dtype[Any]
    levels: int  # of partitions: see quicksort.py
    records: Cursor
    other: Cursor
    counts: Pointer
    count: Variable
    keys: Callable[[Value], Value]  # keys of the elements at a place

    @property
    def words(self) -> int:
        """Number of words of a record."""
        return words_of(self.dtype)

    def append(self, key: Value, place: Value) -> None:
        """Append a record, or one for each lane of the keys, whose places begin at `place`."""
        at, count = self.records.at, self.count.value
        if self.words == 2:
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
        if self.words == 2:
            return self.records.at.load(number * 2 + 1).bits(I64)
        return (self.records.at.load(number) & 0xFFFFFFFF).bits(I64)

    def key(self, number: Value) -> Value:
        """Key of a record's element."""
        word = self.records.at.load(number * self.words)
        return (word >> 32 if self.words == 1 else word).to(bits_of(self.dtype))

    def worst(self) -> Value:
        """Key of the k-th best, once there are k in order."""
        return self.key(self.k.number("count") - 1)

    def cut(self) -> None:
        """Keep the k best."""
        self.sort()
        self.count.value = self.k.number("count")

    def sort(self) -> None:
        k, count = self.k, self.count.value
        if self.words == 1:
            with k.when(count <= FEW):
                self._by_counting(count)
            with k.when(count > FEW):
                if k.target.has_scale and self.dtype.itemsize == 4:
                    Quicksort(k, self.records.at, self.other.at, self._radix_of, self.levels).sort(count)
                else:
                    self._by_radix(count)
        elif k.target.has_scale or not Scalar.of(self.dtype).is_float:
            with k.when(count <= FEW):
                self._by_radix(count)
            with k.when(count > FEW):
                (self._by_leading_bits if k.target.has_scale else self._by_differences)(count)
        else:
            self._by_radix(count)

    def _by_leading_bits(self, count: Value) -> None:
        """Sort records of two words by a sort of one: 32 bits of the key and the place. Where these bits are equal
        too often for keys that differ, sort by radix."""
        k, pairs, records = self.k, self.records.at, self.other.at
        low, shift = leading_bits(k, pairs, count)
        self._to_singles(count, low, shift)
        failed = k.variable(k.integer(0))

        def give_up(*_: object) -> None:
            failed.value = k.integer(1)

        room = records + (k.number("capacity") + FEW)
        Quicksort(k, records, room, give_up, self.levels).sort(count)
        is_whole = shift.equals(0)  # the leading bits are all in which keys differ
        with k.when(failed.value.equals(0) & is_whole):
            self._to_pairs(count, records, low)
        with k.when(failed.value.equals(0) & ~is_whole):
            for number in k.range(0, count):
                place = (records.load(number) & 0xFFFFFFFF).bits(I64)
                pairs.store(self.keys(place).bits(U64), number * 2)
                pairs.store(place.bits(U64), number * 2 + 1)
            failed.value = insert(k, pairs, count)
        with k.when(failed.value.differs(0)):
            self._by_radix(count)

    def _by_differences(self, count: Value) -> None:
        """Sort records of two words by radix, as records of one where the differences of keys have 32 bits."""
        k, single = self.k, self.other.at
        low, shift = leading_bits(k, self.records.at, count)
        with k.when(shift.equals(0)):
            self._to_singles(count, low, shift)
            room = single + (k.number("capacity") + FEW)
            memory = k.cursor(single), k.cursor(room), self.counts
            part = RecordBuffer(k, NARROW, self.levels, *memory, k.variable(count), self.keys)
            part._by_radix(count)
            self._to_pairs(count, part.records.at, low)
        with k.unless(shift.equals(0)):
            self._by_radix(count)

    def _to_singles(self, count: Value, low: Value, shift: Value) -> None:
        """Make records of one word, in the other memory: the key's difference to the lowest, shifted, and the place."""
        pairs = self.records.at
        for number in self.k.range(0, count):
            leading = (pairs.load(number * 2) - low) >> shift
            self.other.at.store((leading << 32) | pairs.load(number * 2 + 1), number)

    def _to_pairs(self, count: Value, singles: Pointer, low: Value) -> None:
        """Make records of two words of those of one, whose keys are whole."""
        for number in self.k.range(0, count):
            record = singles.load(number)
            self.records.at.store((record >> 32) + low, number * 2)
            self.records.at.store(record & 0xFFFFFFFF, number * 2 + 1)

    def _radix_of(self, source: Pointer, other: Pointer, count: Value, to: Pointer) -> None:
        """Sort some of the records by radix."""
        k = self.k
        memory = k.cursor(source), k.cursor(other), self.counts
        part = RecordBuffer(k, self.dtype, self.levels, *memory, k.variable(count), self.keys)
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
        shift = 8 * number + (32 if self.words == 1 else 0)
        return ((word >> shift) & (RADIX - 1)).bits(I64)

    def _by_radix(self, count: Value) -> None:
        k, passes, words = self.k, self.dtype.itemsize, self.words
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
        k, words = self.k, self.words
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
