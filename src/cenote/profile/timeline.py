"""Actions of every thread in one call, as spans for a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from cenote.profile.collect import Stretch, stretches, tick_of
from cenote.profile.fields import Span
from cenote.profile.recording import RecordedProgram
from cenote.runtime.layouts import NO_STEP
from cenote.runtime.timing import RecordedCall, ThreadNotes

# Most spans of a call, all threads together.
_MOST_SPANS = 20_000


def timeline(
    calls: Sequence[RecordedCall], notes: Sequence[ThreadNotes], parts: Sequence[RecordedProgram]
) -> tuple[Span, ...]:
    """Return the spans of the call whose duration is the median; no more than a picture can show."""
    native = [[*stretches(call, notes[0], parts)] for call in calls]
    tick = _tick(calls, native)
    order = sorted(range(len(calls)), key=lambda index: calls[index].end - calls[index].begin)
    chosen = order[len(order) // 2]
    call = calls[chosen]
    spans = [
        Span(
            0,
            part.first + run.step if run.step >= 0 else part.between,
            "host",
            (run.begin - call.begin) / 1e3,
            (run.end - call.begin) / 1e3,
        )
        for run in call.hosts
        for part in [parts[run.program]]
    ]
    # The beginning of native stretches within the call is not known exactly: they are put in the middle, which leaves
    # an error of a few microseconds.
    first, last = (native[chosen][0].begin, native[chosen][-1].end) if native[chosen] else (0, 0)
    start = (call.end - call.begin - (last - first) * tick) / 2
    for stretch in native[chosen]:
        for thread in range(parts[stretch.program].program.threads):
            spans += _native(notes[thread], thread, stretch, parts[stretch.program], tick, first, start)
    spans.sort(key=lambda span: (span.thread, span.begin_us))
    return tuple(spans[:_MOST_SPANS])


def _native(
    notes: ThreadNotes,
    thread: int,
    stretch: Stretch,
    part: RecordedProgram,
    tick: float,
    first: int,
    start: float,
) -> Iterator[Span]:
    kept = (notes.begin >= stretch.begin) & (notes.begin < stretch.end) & (notes.row != NO_STEP)
    for begin, end, row, items, cpu, _ in zip(*(each[kept].tolist() for each in notes), strict=True):
        what: Literal["kernel", "wait"] = "kernel" if items else "wait"
        times = ((begin - first) * tick + start) / 1e3, ((end - first) * tick + start) / 1e3
        yield Span(thread, int(part.rows[row]), what, *times, cpu)


def _tick(calls: Sequence[RecordedCall], native: Sequence[Sequence[Stretch]]) -> float:
    """Return the nanoseconds of a tick."""
    pairs = [(call.begin, each[0].begin) for call, each in zip(calls, native, strict=True) if each]
    return tick_of(np.array(pairs, np.int64).reshape(-1, 2))
