"""Long sums in blocks: one chain of float32 additions holds the terms of a block, and blocks are added pairwise.

A chain's error grows like its length, that of a pairwise sum like its logarithm (N. Higham, "The accuracy of floating
point summation", SIAM J. Sci. Comput. 1993). 65,536 products of 0.1 and 1: 6e-4 off in one chain, 2.5e-6 in blocks of
256. Sixteen blocks are added in a chain, then sixteen such sums, and so on: pairs throughout were no better there, but
took 10 % longer for 4 rows of 1,000 by 1,000, since a processor cannot foresee how many sums a block completes.
precision="exact" has blocks of 32 and pairs, which takes up to 13 % longer.

Scratch memory has slots: the first for the block at hand where it is not complete, one more per level. As in a counter,
block i finds a sum at each level whose digit of i, to the base 2 or 16, is not 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cenote.codegen.builder import Kernel
from cenote.codegen.values import BOOL, I64, Pointer, Value
from cenote.codegen.variables import Variable
from cenote.core.deferred import dataclass
from cenote.core.sizes import is_size, plain
from cenote.core.types import Array

WORDS = ("block", "fan")  # of a kernel that has such sums
FAST_TERMS = 256  # of a block
EXACT_TERMS = 32  # with precision="exact"
_LARGEST_WEIGHT = 1e30
_OPEN_BLOCKS = 32  # binary logarithm: where the number of terms is open, more than memory holds


@dataclass(frozen=True)
class SumBlocks:
    """Sizes: a block has 2^`block` steps, and 2^2^`fan` sums of one level are added in a chain to one of the next."""

    block: int
    fan: int

    @staticmethod
    def of(exact: bool, unroll: int = 1) -> SumBlocks:
        """Return the sizes for a precision, where a step adds `unroll` terms."""
        terms, fan = (EXACT_TERMS, 0) if exact else (FAST_TERMS, 2)
        return SumBlocks(max(0, (terms // unroll).bit_length() - 1), fan)

    @property
    def words(self) -> dict[str, int]:
        return {"block": self.block, "fan": self.fan}

    def slots(self, steps: int) -> int:
        """Number of slots for sums of this number of steps."""
        last = (1 << _OPEN_BLOCKS) - 1 if is_size(steps) else -(-steps >> self.block) - 1
        bits = max(0, last).bit_length()
        return 1 + -(-bits >> self.fan)


def two_level_terms(terms: int, exact: bool) -> int:
    """Number of terms of a block where the blocks' sums are added in one chain: that of the precision, and more for
    long sums, so that neither chain is much longer than the other."""
    return max(EXACT_TERMS if exact else FAST_TERMS, math.isqrt(terms))


def can_be_added(weights: Array) -> bool:
    """Whether sums of a few weights, with factors below 100, are finite: algorithms that make such sums (Winograd's and
    Strassen's) make NaN of others."""
    return bool(weights.min() > -_LARGEST_WEIGHT and weights.max() < _LARGEST_WEIGHT)


def summation_tolerance(terms: int) -> float:
    """Error of a float32 sum in blocks relative to the largest output: a chain's error grows with the root of its
    length."""
    return 2e-6 + 2e-7 * math.sqrt(min(plain(terms), FAST_TERMS))


class PartialSum:
    """Steps `begin` to `end` of a sum of `steps`, in one block. The constructor emits what all tiles of it have in
    common."""

    def __init__(self, k: Kernel, begin: Value, end: Value, steps: Value) -> None:
        self.k, self.begin, self.end = k, begin, end
        bits, fan = k.number("block"), k.number("fan")
        inside = (k.integer(1) << bits) - 1
        self.is_last = end >= steps
        self.is_first = (begin & inside).equals(0)  # first part of its block
        self.ends = (end & inside).equals(0) | self.is_last  # last part of its block
        self.block = begin >> bits
        full = _count(k, "cttz", ~self.block) >> fan  # levels whose chain is complete
        digit = k.integer(1) << fan
        every = (64 - _count(k, "ctlz", self.block) + (digit - 1)) >> fan
        self.levels = k.select(self.ends, k.select(self.is_last, every, full + 1), k.integer(0))
        self.slot = k.select(self.ends, full + 1, k.integer(0))

    def resume(self, sums: Sequence[Variable], kept: Pointer) -> None:
        """Continue from what an earlier part of the block left. `kept`: the vectors in slot 0, in the order of
        `sums`."""
        with self.k.unless(self.is_first):
            for index, total in enumerate(sums):
                total.value = kept.load(index * total.lanes, total.lanes)

    def fold(self, sums: Sequence[Variable], kept: Pointer, apart: Value) -> None:
        """Finish the part: at the end of a block add the earlier blocks of the levels that it completes, at the end
        of the sum all of them; elsewhere keep the sums. Slots are `apart` elements from each other."""
        k, fan = self.k, self.k.number("fan")
        for level in k.range(0, self.levels):
            number = (self.block >> (level << fan)) & ((k.integer(1) << (k.integer(1) << fan)) - 1)
            with k.when(number.differs(0)):
                place = kept + (level + 1) * apart
                for index, total in enumerate(sums):
                    total.value = total.value + place.load(index * total.lanes, total.lanes)
        with k.unless(self.is_last):
            place = kept + self.slot * apart
            for index, total in enumerate(sums):
                place.store(total.value, index * total.lanes)


def _count(k: Kernel, which: str, value: Value) -> Value:
    """Count zeros before the first bit that is set ("ctlz"), or after the last ("cttz"); 64 where none is set."""
    return k.call(f"llvm.{which}.i64", I64, 1, [value, k.constant(BOOL, 0)])
