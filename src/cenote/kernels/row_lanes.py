"""Lanes of vectors that fit rows: no vector is longer than the row that it covers."""

from __future__ import annotations

from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_at_most, always_equal
from cenote.core.sizes import is_size, maximum, minimum


def fitting(widest: int, length: int) -> int:
    """Largest power of two within both. A Size is compared with two numbers alone, for fewer classes of sizes: the
    lanes are all, 4 or 1."""
    if not is_size(length):
        return 1 << (min(widest, int(length)).bit_length() - 1)
    return next((lanes for lanes in _steps(widest) if length >= lanes), 1)


def _steps(widest: int) -> tuple[int, ...]:
    return tuple(sorted({widest, min(widest, 4), 1}, reverse=True))


@dataclass(frozen=True)
class RowLanes:
    """Lanes for rows of the input and of the output: pairs, the widest first, and the index of the right one. There
    is one pair where rows are as long as a vector at all sizes, or their lengths known; else no question is asked, and
    a formula chooses."""

    pairs: tuple[tuple[int, int], ...]
    chosen: int = 0

    @staticmethod
    def of(widest: int, row: int, out_row: int) -> RowLanes:
        """Pairs for rows of so many elements."""
        (each, narrow), (outs, out_narrow) = _narrowed(widest, row), _narrowed(widest, out_row)
        if len(each) == 1 or len(outs) == 1:
            return RowLanes(tuple((lanes, out) for lanes in each for out in outs), narrow + out_narrow)
        if always_equal(row, out_row):
            return RowLanes(tuple(zip(each, each, strict=True)), narrow)
        # The output's lanes are the input's or a step fewer, which leaves five pairs of nine: where its rows are
        # shorter still, those of the input are taken with fewer lanes than they could be.
        out_narrow = maximum(narrow, out_narrow)
        pairs = tuple((each[step // 2], each[(step + 1) // 2]) for step in range(2 * len(each) - 1))
        return RowLanes(pairs, maximum(narrow, out_narrow - 1) + out_narrow)


def _narrowed(widest: int, length: int) -> tuple[tuple[int, ...], int]:
    """Return numbers of lanes of which `fitting` gives one at each size, and the index of that one."""
    if not is_size(length):
        return (fitting(widest, length),), 0
    if always_at_most(widest, length):
        return (widest,), 0
    each = _steps(widest)
    return each, sum(1 - minimum(length // lanes, 1) for lanes in each[:-1])
