"""Where buffers lie in the arena: those that live at the same time must not overlap.

Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020): the largest
first, each at the smallest gap that fits among the placed buffers whose lifetimes cross its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cenote.runtime.program import Slot

FOREVER = 1 << 60  # a step after all others
_ALIGN = 64
_GOOD_ENOUGH = 1.02  # of the lower bound: no need to look for better
_ATTEMPTS = 30


@dataclass
class Buffer:
    """One stretch of memory and the values in it. `step` is the first to touch it; it is alive from rank `first` to
    `last`."""

    root: str
    slot: Slot | None = None
    nbytes: int = 0
    step: int = FOREVER
    first: int = FOREVER
    last: int = -1
    halo: tuple[tuple[int, int], ...] = ()
    members: list[str] = field(default_factory=list)


def place(buffers: Sequence[Buffer]) -> int:
    """Give every buffer an offset in the arena; the arena's size. Sets `slot`.

    Tries the buffers by size and by the fullness of their busiest step; while the best is well above the lower bound,
    buffers that stick out at the top are placed earlier, which mends most of what greedy order spoils (ShuffleNet: 43 %
    above the bound by size alone, under 10 % after).
    """
    bound = live_peak(buffers)
    best_size, best_offsets = FOREVER, [0] * len(buffers)
    for order in (_by_size(buffers), _by_fullest_step(buffers)):
        for _ in range(_ATTEMPTS):
            offsets, size = _place_in_order(buffers, order)
            if size < best_size:
                best_size, best_offsets = size, offsets
            if best_size <= bound * _GOOD_ENOUGH:
                break
            high = [i for i in order if offsets[i] + buffers[i].nbytes > size * 0.98]
            order = high + [i for i in order if i not in high]
        if best_size <= bound * _GOOD_ENOUGH:
            break
    for buffer, offset in zip(buffers, best_offsets, strict=True):
        buffer.slot = Slot("arena", 0, offset)
    return best_size if buffers else 0


def _by_size(buffers: Sequence[Buffer]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda i: (-buffers[i].nbytes, buffers[i].first))


def _by_fullest_step(buffers: Sequence[Buffer]) -> list[int]:
    """Those alive at the fullest step first, then those of the next fullest."""
    steps = sorted({buffer.first for buffer in buffers})
    live = {step: [i for i, b in enumerate(buffers) if b.first <= step <= b.last] for step in steps}
    order: dict[int, None] = {}
    for step in sorted(steps, key=lambda s: -sum(buffers[i].nbytes for i in live[s])):
        order.update(dict.fromkeys(sorted(live[step], key=lambda i: -buffers[i].nbytes)))
    order.update(dict.fromkeys(range(len(buffers))))
    return list(order)


def _place_in_order(buffers: Sequence[Buffer], order: Sequence[int]) -> tuple[list[int], int]:
    """Each at the smallest gap that fits among those placed before it; offsets and total size."""
    placed: list[tuple[int, int, Buffer]] = []
    offsets, total = [0] * len(buffers), 0
    for i in order:
        buffer = buffers[i]
        size = max(_ALIGN, -(-buffer.nbytes // _ALIGN) * _ALIGN)
        busy = sorted(
            (o, s) for o, s, other in placed if other.first <= buffer.last and buffer.first <= other.last
        )
        offsets[i] = _best_gap(busy, size)
        placed.append((offsets[i], size, buffer))
        total = max(total, offsets[i] + size)
    return offsets, total


def _best_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    """The smallest gap that fits, else the end of what is busy."""
    best, best_room, end = None, FOREVER, 0
    for offset, length in busy:
        room = offset - end
        if size <= room < best_room:
            best, best_room = end, room
        end = max(end, offset + length)
    return end if best is None else best


def live_peak(buffers: Sequence[Buffer]) -> int:
    """The largest sum of sizes alive at one step."""
    events: dict[int, int] = {}
    for buffer in buffers:
        if buffer.last >= 0:
            events[buffer.first] = events.get(buffer.first, 0) + buffer.nbytes
            events[buffer.last + 1] = events.get(buffer.last + 1, 0) - buffer.nbytes
    peak = total = 0
    for step in sorted(events):
        total += events[step]
        peak = max(peak, total)
    return peak
