"""Selection by a mask, one element behind the other: the elements themselves, or their coordinates.

Blocks of BLOCK elements are counted first; from the counts follows where each block's results begin, and the blocks are
then written independently. A block writes between its own start and end only, whatever the mask has become meanwhile.

    count:                              elements:                               coordinates:
    for block:                          for block:                              for block:
        for vector of the mask:             for vector:                             for vector of the mask:
            add the bits that are set           where any bit is set:                   for bit that is set:
                                                compress, store, move on                    divide, store
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import I64, U8, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to
from cenote.kernels.lanes import compressed, set_bits
from cenote.kernels.selection.indices import bits_of
from cenote.kernels.selection.order import each_bit

BLOCK = 1 << 14  # elements
GRAIN = 4
AHEAD = 4096  # prefetch distance in bytes: half the time at any density


def span(k: Kernel, block: Value) -> tuple[Value, Value]:
    """Range of the elements of a block."""
    begin = block * BLOCK
    return begin, k.minimum(begin + BLOCK, k.number("size"))


@dataclass(frozen=True)
class CountMask(KernelSpec):
    """Kernel that counts elements that are not zero, block by block. NaN is not zero."""

    dtype: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(I64, "counts"),
            *pointers_to(Scalar.of(self.dtype), "mask"),
            *numbers_named(["size"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // self.dtype.itemsize
        for block in k.range(k.begin, k.end):
            begin, end = span(k, block)
            total = k.variable(k.constant(U64, 0))
            whole = begin + (end - begin) // lanes * lanes
            for place in k.range(begin, whole, lanes):
                mask = is_set(k, k.pointer("mask"), place, lanes)
                total.value = total.value + k.intrinsic("ctpop", set_bits(k, mask))
            for place in k.range(whole, end):
                total.value = total.value + is_set(k, k.pointer("mask"), place, 1).to(U64)
            k.pointer("counts").store(total.value.bits(I64), block)
        return k


def is_set(k: Kernel, mask: Pointer, place: Value, lanes: int) -> Value:
    """Bits of the elements that are not zero: tested by their bits, without the sign of a float's zero."""
    type = mask.element
    bits = mask.cast(bits_of(np.dtype(f"u{type.nbytes}"))).load(place, lanes)
    if type.is_float:
        bits = bits & ((1 << (type.bits - 1)) - 1)
    return bits.differs(0)


@dataclass(frozen=True)
class Compact(KernelSpec):
    """Kernel of the elements of x where the mask holds. `offsets` has one number more than there are blocks."""

    dtype: np.dtype[Any]

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (
            *pointers_to(bits_of(self.dtype), "y", "x"),
            *pointers_to(U8, "mask"),
            *pointers_to(I64, "offsets"),
            *numbers_named(["size"]),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // max(4, self.dtype.itemsize)
        mask, x = k.pointer("mask"), k.pointer("x")
        for block in k.range(k.begin, k.end):
            begin, end = span(k, block)
            at = k.variable(k.pointer("offsets").load(block))
            limit = k.pointer("offsets").load(block + 1)
            whole = begin + (end - begin) // lanes * lanes
            for place in k.range(begin, whole, lanes):
                k.prefetch(x, place + AHEAD // self.dtype.itemsize)
                chosen = is_set(k, mask, place, lanes)
                bits = set_bits(k, chosen)
                with k.when(bits.differs(0)):
                    self._put(k, compressed(k, x.load(place, lanes), chosen), at.value, limit)
                    at.value = at.value + k.intrinsic("ctpop", bits).bits(I64)
            for place in k.range(whole, end):
                with k.when(is_set(k, mask, place, 1) & (at.value < limit)):
                    k.pointer("y").store(x.load(place), at.value)
                    at.value = at.value + 1
        return k

    def _put(self, k: Kernel, value: Value, at: Value, limit: Value) -> None:
        """Store junk lanes too, which the block's next store covers, but never past its end."""
        with k.when(at + value.lanes <= limit):
            k.pointer("y").store(value, at)
        with k.when(at + value.lanes > limit):
            k.pointer("y").store(value, at, k.tail_mask(limit - at, value.lanes))


@dataclass(frozen=True)
class Coordinates(KernelSpec):
    """Kernel of the coordinates of non-zero elements, `rank` of them, `axis_step` apart; elements are `step` apart."""

    dtype: np.dtype[Any]
    rank: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        numbers = ["size", "step", "axis_step", *(f"extent_{axis}" for axis in range(self.rank))]
        return (
            *pointers_to(I64, "y"),
            *pointers_to(Scalar.of(self.dtype), "mask"),
            *pointers_to(I64, "offsets"),
            *numbers_named(numbers),
        )

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.vector_bytes // self.dtype.itemsize
        mask = k.pointer("mask")
        for block in k.range(k.begin, k.end):
            begin, end = span(k, block)
            at = k.variable(k.pointer("offsets").load(block))
            limit = k.pointer("offsets").load(block + 1)
            whole = begin + (end - begin) // lanes * lanes
            for place in k.range(begin, whole, lanes):
                for lane in each_bit(k, set_bits(k, is_set(k, mask, place, lanes))):
                    self._put(k, place + lane, at, limit)
            for place in k.range(whole, end):
                with k.when(is_set(k, mask, place, 1)):
                    self._put(k, place, at, limit)
        return k

    def _put(self, k: Kernel, place: Value, at: Any, limit: Value) -> None:
        with k.when(at.value < limit):
            rest = place
            for axis in reversed(range(self.rank)):
                extent = k.number(f"extent_{axis}")
                coordinate, rest = (rest % extent, rest // extent) if axis else (rest, rest)
                k.pointer("y").store(coordinate, at.value * k.number("step") + k.number("axis_step") * axis)
            at.value = at.value + 1


def blocks_of(size: int) -> int:
    return -(-size // BLOCK)


def count_call(mask: View, counts: View) -> Call:
    """Return the call that counts the blocks of a plain mask."""
    size = mask.type.size
    words: dict[str, Argument] = {"counts": counts, "mask": mask, "size": size}
    return Call.named(CountMask(mask.type.dtype), words, blocks_of(size), GRAIN)


def compact_call(x: View, mask: View, offsets: View, y: View) -> Call:
    """Return the call that takes elements of plain x where a plain mask of as many bools holds."""
    size = x.type.size
    words: dict[str, Argument] = {"y": y, "x": x, "mask": mask, "offsets": offsets, "size": size}
    return Call.named(Compact(x.type.dtype), words, blocks_of(size), GRAIN)


def coordinates_call(x: View, offsets: View, y: View, step: int, axis_step: Argument) -> Call:
    """Return the call that writes coordinates in x of non-zero elements."""
    spec = Coordinates(x.type.dtype, x.type.rank)
    words: dict[str, Argument] = {
        "y": y,
        "mask": x,
        "offsets": offsets,
        "size": x.type.size,
        "step": step,
        "axis_step": axis_step,
        **{f"extent_{axis}": extent for axis, extent in enumerate(x.shape)},
    }
    return Call.named(spec, words, blocks_of(x.type.size), GRAIN)
