"""Sort of records that all differ: partitions by vectors, where lanes can be moved to the front in one instruction.

    while segments are left:                                 emitted; the smaller one first
        at most 32 records: each to the place given by the number of smaller ones, from registers
        else, for vector of the segment:                     emitted
            some to the front of where it lies, the others to the front of its room in the other memory
        a segment whose pivots have been poor for long is sorted otherwise

A segment has its own place in the first memory, which its records reach in the end, and room for as many in the
second. It lies in one of the two; records below the pivot go to the first, the rest to the second.

A million float32 take 20 ms, int32 19.5 with their places; by radix 28 to 32 and 39 (AVX-512, one thread): its passes
write to 256 places at once, and most of the time wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cenote.codegen.builder import Kernel
from cenote.codegen.values import I64, U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.lanes import compressed, set_bits

SMALL = 32  # records that fit four registers
LEVELS = 2  # times as deep as even partitions are: then a segment is sorted otherwise
MOVES = 8  # average moves of a record by insertion that are fewer than those of a radix sort
_DEEPEST = 48  # segments on the stack: of two the larger one waits, so each is at most half of the one below
_LANES = 8

Otherwise = Callable[[Pointer, Pointer, Value, Pointer], None]
"""Function that sorts so many records at one of two places of as much memory, and puts them at the last."""


@contextmanager
def looping(k: Kernel, condition: Callable[[], Value]) -> Iterator[None]:
    """Emit the body to run as long as the condition holds, which is emitted too."""
    head, body, after = k.label("while"), k.label("loop"), k.label("done")
    k.line(f"br label %{head}")
    k.open_block(head)
    k.line(f"br i1 {condition().text}, label %{body}, label %{after}")
    k.open_block(body)
    yield
    k.line(f"br label %{head}")
    k.open_block(after)


@dataclass(frozen=True)
class Quicksort:
    """Sort of the U64 at `records`, with as much memory at `other`; SMALL more may be read behind both."""

    k: Kernel
    records: Pointer
    other: Pointer
    otherwise: Otherwise
    levels: int = LEVELS

    def sort(self, count: Value) -> None:
        """Sort this number of records in place."""
        k = self.k
        stack = Pointer(k, I64, k.stack_slot(f"[{4 * _DEEPEST} x i64]"))
        window = Pointer(k, U64, k.stack_slot(f"[{SMALL} x i64]"))
        top = k.variable(k.integer(0))

        def push(*words: Value) -> None:
            for place, word in enumerate(words):
                stack.store(word, top.value + place)
            top.value = top.value + 4

        k.declare("llvm.ctlz.i64", "i64 (i64, i1 immarg)")
        zeros = k.assign(f"call i64 @llvm.ctlz.i64(i64 {count.text}, i1 false)", I64, 1)
        zero = k.integer(0)
        push(zero, zero, count, (64 - zeros) * (2 * self.levels))  # levels left, and in which memory it lies
        with looping(k, lambda: top.value > 0):
            top.value = top.value - 4
            first, second, length, state = (stack.load(top.value + place) for place in range(4))
            in_second = (state & 1).differs(0)
            to = self.records + first
            source, room = (
                self._either(in_second, self.other + second, to),
                self._either(in_second, to, self.other + second),
            )
            with k.when(length <= SMALL):
                self._small(source, to, length, window)
            with k.when((length > SMALL) & (state < 2)):
                self.otherwise(source, room, length, to)
            with k.when((length > SMALL) & (state >= 2)):
                below = self._parted(source, room, length, in_second)
                above, later = length - below, (state - 2) & -2
                small = (first, second + above, below, later)
                large = (first + below, second, above, later | 1)
                more = below > above
                push(*(k.select(more, a, b) for a, b in zip(small, large, strict=True)))
                push(*(k.select(more, b, a) for a, b in zip(small, large, strict=True)))

    def _either(self, condition: Value, a: Pointer, b: Pointer) -> Pointer:
        text = f"select i1 {condition.text}, ptr {a.text}, ptr {b.text}"
        return Pointer(self.k, U64, self.k.assign(text, I64, 1).text)

    def _small(self, source: Pointer, to: Pointer, count: Value, window: Pointer) -> None:
        """Sort few records: the window holds them once more, so that they may go back to their own place."""
        k = self.k
        vectors = [source.load(at, _LANES) for at in range(0, SMALL, _LANES)]
        for at, vector in enumerate(vectors):
            window.store(vector, at * _LANES)
        there = (k.constant(U64, 1) << count.bits(U64)) - 1
        for number in k.range(0, count):
            record = window.load(number)
            smaller = set_bits(k, k.joined([vector < k.splat(record, _LANES) for vector in vectors]))
            to.store(record, k.intrinsic("ctpop", smaller & there).bits(I64))

    def _parted(self, source: Pointer, room: Pointer, count: Value, in_second: Value) -> Value:
        """Move records on one side of a pivot to the front of the room, the others to the front of the source: those
        below stay in the first memory or go there. Returns how many are below: not all, and at least one."""
        k = self.k
        pivot = self._pivot(source, count)
        stayed, gone = k.variable(k.integer(0)), k.variable(k.integer(0))
        whole = count & -_LANES
        for at in k.range(0, whole, _LANES):
            vector = source.load(at, _LANES)
            stays = (vector < k.splat(pivot, _LANES)) ^ k.splat(in_second, _LANES)
            number = k.intrinsic("ctpop", set_bits(k, stays)).bits(I64)
            # Junk behind the lanes that count falls on the vector's old place, or into free room.
            source.store(compressed(k, vector, stays), stayed.value)
            room.store(compressed(k, vector, ~stays), gone.value)
            stayed.value = stayed.value + number
            gone.value = gone.value + (_LANES - number)
        for at in k.range(whole, count):
            record = source.load(at)
            stays = (record < pivot) ^ in_second
            with k.when(stays):
                source.store(record, stayed.value)
                stayed.value = stayed.value + 1
            with k.unless(stays):
                room.store(record, gone.value)
                gone.value = gone.value + 1
        return k.select(in_second, gone.value, stayed.value)

    def _pivot(self, source: Pointer, count: Value) -> Value:
        """Return the median of three medians of three."""
        step = count >> 3
        records = [source.load(step * at if at < 8 else count - 1) for at in range(9)]
        medians = [self._median(*records[at::3]) for at in range(3)]
        return self._median(*medians)

    def _median(self, a: Value, b: Value, c: Value) -> Value:
        k = self.k
        return k.maximum(k.minimum(a, b), k.minimum(k.maximum(a, b), c))


def leading_bits(k: Kernel, pairs: Pointer, count: Value) -> tuple[Value, Value]:
    """Return the lowest key of pairs (key, place), and by how many bits the difference to the highest is longer than
    32."""
    lanes, whole = _LANES, count * 2 & -_LANES
    states = {
        "minimum": k.variable(k.constant(U64, -1, lanes)),
        "maximum": k.variable(k.constant(U64, 0, lanes)),
    }
    for at in k.range(0, whole, lanes):
        for name, state in states.items():
            state.value = getattr(k, name)(state.value, pairs.load(at, lanes))
    ends = {}
    for name, state in states.items():
        keys = k.shuffle(state.value, state.value, range(0, lanes, 2))
        ends[name] = k.variable(k.reduce(keys, name))
        for at in k.range(whole, count * 2, 2):
            ends[name].value = getattr(k, name)(ends[name].value, pairs.load(at))
    low = ends["minimum"].value
    k.declare("llvm.ctlz.i64", "i64 (i64, i1 immarg)")
    zeros = k.assign(f"call i64 @llvm.ctlz.i64(i64 {(ends['maximum'].value - low).text}, i1 false)", I64, 1)
    return low, k.maximum(32 - zeros, k.integer(0)).bits(U64)


def insert(k: Kernel, pairs: Pointer, count: Value) -> Value:
    """Sort pairs that are almost in order, unless that takes too long; returns not 0 then."""
    most, moves = count * MOVES, k.variable(k.integer(0))
    for number in k.range(1, count):
        key = pairs.load(number * 2)
        with k.when((key < pairs.load(number * 2 - 2)) & (moves.value < most)):
            moves.value = moves.value + (number - _moved_down(k, pairs, number, key))
    return k.select(moves.value < most, k.integer(0), k.integer(1))


def _moved_down(k: Kernel, pairs: Pointer, number: Value, key: Value) -> Value:
    """Move one pair before those with larger keys; returns its new place."""
    place, at = pairs.load(number * 2 + 1), k.variable(number)

    def below() -> Value:
        return k.maximum(at.value - 1, k.integer(0)) * 2

    with looping(k, lambda: (at.value > 0) & (key < pairs.load(below()))):
        for word in range(2):
            pairs.store(pairs.load(below() + word), at.value * 2 + word)
        at.value = at.value - 1
    pairs.store(key, at.value * 2)
    pairs.store(place, at.value * 2 + 1)
    return at.value
