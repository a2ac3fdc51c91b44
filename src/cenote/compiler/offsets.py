"""Offsets in the arena as formulas of buffers' sizes.

For the shapes at hand `placement` gives the place of each buffer. For other sizes that order is kept: a buffer lies
behind those below it that are alive at the same time. So no two that live at once overlap, whatever the sizes; and
since lifetimes are counted in levels of steps that may run at once, steps that were found to be independent stay so.

A step that writes one part of a Concat's buffer may have moved before others that use the place of the parts not
written yet. The whole buffer is alive then, so the buffers are placed anew, by their lifetimes in levels.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from cenote.compiler.placement import ALIGN, Buffer, place
from cenote.core.formulas.expressions import SizeFormula, Symbolic
from cenote.core.sizes import Size, maximum, plain
from cenote.core.trace import Trace
from cenote.kernels.base import present
from cenote.runtime.steps import Slot, SlotKind

_FIRST = -1  # before every level
# Levels at which a buffer is alive that nothing touches, or that holds nothing.
_NEVER = (0, -1)
_MOST_LOOKED_AT = 16  # most buffers examined for each that a new one may rest on


def offsets_as_formulas(
    buffers: Sequence[Buffer], lifetimes: Mapping[str, tuple[int, int]], trace: Trace
) -> int:
    """Give the buffers in the arena their offsets for all sizes, in place of those for the shapes at hand; return the
    arena's size. `lifetimes`: by root, the first and the last level of the steps that touch the buffer."""
    placed = [buffer for buffer in buffers if present(buffer.slot).kind is SlotKind.ARENA]
    alive = {buffer.root: _lifetime(buffer, lifetimes) for buffer in placed}
    room = _Rooms()
    placed.sort(key=_at)
    supports = _supports(placed, alive, room)
    if supports is None:
        for buffer in placed:
            buffer.first, buffer.last = alive[buffer.root]
        place(placed)
        placed.sort(key=_at)
        supports = present(_supports(placed, alive, room))
    ends: list[int] = []
    tops: dict[Hashable, int] = {}
    for buffer, below in zip(placed, supports, strict=True):
        offset = _highest({_key(ends[i]): ends[i] for i in below}, trace)
        ends.append(offset + room.of(buffer))
        tops.setdefault(_key(ends[-1]), ends[-1])
        buffer.slot = Slot(SlotKind.ARENA, 0, offset)
    total = 0
    for end in tops.values():
        total = maximum(total, end)
    return total


def _lifetime(buffer: Buffer, lifetimes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the first and the last level at which a buffer is alive."""
    is_empty = not isinstance(buffer.nbytes, Symbolic) and not buffer.nbytes
    return _NEVER if is_empty else lifetimes.get(buffer.root, _NEVER)


def _supports(
    placed: Sequence[Buffer], alive: Mapping[str, tuple[int, int]], room: _Rooms
) -> list[list[int]] | None:
    """Return the buffers that each rests on, given in the order of their offsets; None where two that are alive at
    once share bytes."""
    skyline = _Skyline([_at(buffer) + plain(room.of(buffer)) for buffer in placed])
    for index, buffer in enumerate(placed):
        if not skyline.put(index, _at(buffer), *alive[buffer.root]):
            return None
    return skyline.supports


def _highest(ends: Mapping[Hashable, int], trace: Trace) -> int:
    """Return the largest of some numbers, which may be Sizes; 0 where there are none."""
    if len(ends) < 2:
        return next(iter(ends.values()), 0)
    lows, highs = zip(*map(trace.bounds, ends.values()), strict=True)
    largest: int = trace.unknown(SizeFormula(trace, "max", *ends.values()), max(lows), max(highs))
    return largest


class _Rooms:
    """Sizes of buffers in the arena, rounded up to the alignment; equal sizes share one formula."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, buffer: Buffer) -> int:
        key = _key(buffer.nbytes)
        if key not in self._known:
            self._known[key] = maximum(ALIGN, -(-buffer.nbytes // ALIGN) * ALIGN)
        return self._known[key]


class _Skyline:
    """Topmost buffer at each level, of those placed so far: the next one rests on topmost buffers alone. `ends`: the
    end of each buffer for the shapes at hand; `supports`: those that each placed one rests on."""

    def __init__(self, ends: Sequence[int]) -> None:
        self.ends = ends
        self.starts = [_FIRST]  # first levels of stretches with one topmost buffer
        self.tops: list[int] = [-1]  # the topmost buffer of each stretch, -1 for none
        self.supports: list[list[int]] = []

    def put(self, index: int, offset: int, first: int, last: int) -> bool:
        """Put the next buffer on top at its levels, on those that are there, except for those that others of them rest
        on. Return whether all of these end before it begins."""
        if last < first:
            self.supports.append([])
            return True
        begin, end = self._cut(first), self._cut(last + 1)
        seen = sorted({*self.tops[begin:end]} - {-1})
        if any(self.ends[other] > offset for other in seen):
            return False
        hidden = self._below(seen) if len(seen) > 1 else set()
        self.starts[begin:end], self.tops[begin:end] = [first], [index]
        self.supports.append([other for other in seen if other not in hidden])
        return True

    def _cut(self, level: int) -> int:
        """Return the stretch that begins at a level."""
        at = bisect.bisect_left(self.starts, level)
        if at == len(self.starts) or self.starts[at] != level:
            self.starts.insert(at, level)
            self.tops.insert(at, self.tops[at - 1])
        return at

    def _below(self, seen: Sequence[int]) -> set[int]:
        """Return those of some buffers that others of them rest on, which a formula need not name. The search is
        limited: one name too many changes no offset."""
        below: set[int] = set()
        waiting, looked = list(seen), 0
        while waiting and looked < _MOST_LOOKED_AT * len(seen):
            looked += 1
            for other in self.supports[waiting.pop(0)]:
                if other >= seen[0] and other not in below:
                    below.add(other)
                    waiting.append(other)
        return below


def _at(buffer: Buffer) -> int:
    return present(buffer.slot).offset


def _key(number: Any) -> Hashable:
    """Return a key that is equal for numbers that are equal for all sizes."""
    return number.terms if isinstance(number, Size) else number
