"""Offsets in the arena as formulas of buffers' sizes.

For the shapes at hand `placement` gives the place of each buffer. For other sizes that order is kept: a buffer lies
behind those below it that are alive at the same time. So no two that live at once overlap, whatever the sizes; and
since lifetimes are counted in levels of steps that may run at once, steps that were found to be independent stay so.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cenote.compiler.placement import ALIGN, Buffer
from cenote.core.formulas.expressions import Formula, Symbolic
from cenote.core.sizes import maximum, plain
from cenote.core.trace import Trace
from cenote.kernels.base import present
from cenote.runtime.steps import SlotKind

_FIRST = -1  # before every level
# Levels at which a buffer is alive that nothing touches, or that holds nothing.
_NEVER = (0, -1)
_MOST_LOOKED_AT = 16  # most buffers examined for each that a new one may rest on


def defer_offsets(buffers: Sequence[Buffer], trace: Trace) -> None:
    """Make the offsets of placed buffers numbers whose formulas `settle_offsets` gives."""
    for buffer in buffers:
        _room(buffer)  # the parts of offsets are defined before them
    for buffer in sorted(buffers, key=lambda b: present(b.slot).offset):
        slot = present(buffer.slot)
        buffer.slot = replace(slot, offset=trace.later(slot.offset))


def settle_offsets(buffers: Sequence[Buffer], lifetimes: Mapping[str, tuple[int, int]], trace: Trace) -> int:
    """Set the formulas of the offsets of buffers in the arena; return the arena's size. `lifetimes`: by root, the
    first and the last level of the steps that touch the buffer."""
    placed = [buffer for buffer in buffers if present(buffer.slot).kind is SlotKind.ARENA]
    placed.sort(key=lambda buffer: _at(buffer))
    total, seen = 0, _Skyline(placed)
    for index, buffer in enumerate(placed):
        is_empty = not isinstance(buffer.nbytes, Symbolic) and not buffer.nbytes
        alive = _NEVER if is_empty else lifetimes.get(buffer.root, _NEVER)
        supports = seen.under(index, *alive)
        offset = present(buffer.slot).offset
        ends = [present(placed[i].slot).offset + _room(placed[i]) for i in supports]
        trace.settle(offset, Formula(trace, "max", *ends) if len(ends) > 1 else (ends or [0])[0])
        total = maximum(total, offset + _room(buffer))
    return total


class _Skyline:
    """Topmost of the buffers so far at each level: seen from above, a new one rests on those alone."""

    def __init__(self, placed: Sequence[Buffer]) -> None:
        self.placed = placed
        self.starts = [_FIRST]  # of stretches of levels
        self.tops: list[int] = [-1]  # the buffer that is topmost in each, -1 for none
        self.supports: list[list[int]] = []  # of each buffer

    def under(self, index: int, first: int, last: int) -> list[int]:
        """Put the next buffer on top at its levels; return those that it rests on, without those under others of
        them."""
        if last < first:
            self.supports.append([])
            return []
        begin, end = self._cut(first), self._cut(last + 1)
        seen = sorted({*self.tops[begin:end]} - {-1})
        for other in seen:
            assert _end(self.placed[other]) <= _at(self.placed[index]), (self.placed[other].root, index)
        hidden = self._below(seen) if len(seen) > 1 else set()
        self.starts[begin:end], self.tops[begin:end] = [first], [index]
        self.supports.append([other for other in seen if other not in hidden])
        return self.supports[index]

    def _cut(self, level: int) -> int:
        """Return the stretch that begins at a level."""
        at = bisect.bisect_left(self.starts, level)
        if at == len(self.starts) or self.starts[at] != level:
            self.starts.insert(at, level)
            self.tops.insert(at, self.tops[at - 1])
        return at

    def _below(self, seen: Sequence[int]) -> set[int]:
        """Return those of some buffers that others of them rest on: they need not be named. The search is shallow,
        since naming one too many changes no offset."""
        below: set[int] = set()
        waiting, looked = list(seen), 0
        while waiting and looked < _MOST_LOOKED_AT * len(seen):
            looked += 1
            for other in self.supports[waiting.pop(0)]:
                if other >= seen[0] and other not in below:
                    below.add(other)
                    waiting.append(other)
        return below


def _room(buffer: Buffer) -> int:
    return maximum(ALIGN, -(-buffer.nbytes // ALIGN) * ALIGN)


def _at(buffer: Buffer) -> int:
    number: int = plain(present(buffer.slot).offset)
    return number


def _end(buffer: Buffer) -> int:
    number: int = plain(_room(buffer))
    return _at(buffer) + number
