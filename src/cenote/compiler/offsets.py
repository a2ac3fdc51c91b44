"""Offsets in the arena as formulas of buffers' sizes.

For the shapes at hand `placement` says where each buffer lies. For other sizes that order is kept: a buffer lies behind
those below it that are alive at the same time. So no two that live at once overlap, whatever the sizes; and since
lifetimes are counted in levels of steps that may run at once, steps that were found to be independent stay so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cenote.compiler.placement import ALIGN, Buffer
from cenote.core.formulas.expressions import Formula
from cenote.core.sizes import maximum, plain
from cenote.core.trace import Trace
from cenote.kernels.base import present


def defer_offsets(buffers: Sequence[Buffer], trace: Trace) -> None:
    """Make the offsets of placed buffers numbers whose formulas `settle_offsets` gives."""
    for buffer in buffers:
        _room(buffer)  # what offsets are made of comes before them
    for buffer in sorted(buffers, key=lambda b: present(b.slot).offset):
        slot = present(buffer.slot)
        buffer.slot = replace(slot, offset=trace.later(slot.offset))


def settle_offsets(buffers: Sequence[Buffer], lifetimes: Mapping[str, tuple[int, int]], trace: Trace) -> int:
    """Give the offsets of buffers in the arena their formulas; the arena's size. `lifetimes`: by root, the first and
    the last level of the steps that touch the buffer."""
    placed = [buffer for buffer in buffers if present(buffer.slot).kind == "arena"]
    placed.sort(key=lambda buffer: _at(buffer))
    total = 0
    below: list[set[int]] = []  # of each, all that lie under it and are alive with one of these or with it
    for index, buffer in enumerate(placed):
        first, last = lifetimes.get(buffer.root, (0, -1))
        supports: set[int] = set()
        covered: set[int] = set()
        for other in reversed(range(index)):
            begin, end = lifetimes.get(placed[other].root, (0, -1))
            if begin <= last and first <= end and other not in covered:
                assert _end(placed[other]) <= _at(buffer), (placed[other].root, buffer.root)
                supports.add(other)
                covered |= below[other]
        below.append(supports | covered)
        offset = present(buffer.slot).offset
        ends = [present(placed[i].slot).offset + _room(placed[i]) for i in sorted(supports)]
        trace.settle(offset, Formula(trace, "max", *ends) if len(ends) > 1 else (ends or [0])[0])
        total = maximum(total, offset + _room(buffer))
    return total


def _room(buffer: Buffer) -> int:
    return maximum(ALIGN, -(-buffer.nbytes // ALIGN) * ALIGN)


def _at(buffer: Buffer) -> int:
    number: int = plain(present(buffer.slot).offset)
    return number


def _end(buffer: Buffer) -> int:
    number: int = plain(_room(buffer))
    return _at(buffer) + number
