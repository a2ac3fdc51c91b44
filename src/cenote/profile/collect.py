"""Milliseconds per call, step and thread, from the notes that threads write.

In a native stretch a thread's time is of three kinds: it computed a chunk, it waited, or it was between the two (the
driver). Chunks name the step that they belong to. Waits and the driver's time belong to the step that was under way:
a step ends with the last of its chunks, and the next one's time begins then. A worker's time before its first note of
a stretch and after its last one is waiting: it was not awake yet, or had nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.types import Array
from cenote.profile.recording import RecordedProgram
from cenote.runtime.layouts import NO_STEP, UNTOLD
from cenote.runtime.timing import RecordedCall, ThreadNotes


class Stretch(NamedTuple):
    """A native stretch of a call: rows `first` to `last` of a program, from tick `begin` to tick `end`."""

    program: int
    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True)
class Collected:
    """Times of each recorded call. In nanoseconds: `wall`; `host` [call, step]. In ticks of the native clock:
    `kernels` [call, step, thread], `waits` and `driver` [call, step], means over the threads. `begins`: the beginning
    of each call on Python's clock, and of its first native stretch in ticks (0: none). `migrations`: the number of
    calls in which a thread changed its CPU (None where the system does not report it). `denormals` [call, step]:
    whether a thread met denormal numbers there (None where the processor does not report it)."""

    wall: Array
    host: Array
    kernels: Array
    waits: Array
    driver: Array
    begins: Array
    migrations: int | None
    denormals: Array | None

    @staticmethod
    def joined(pieces: Sequence[Collected]) -> Collected:
        """Join several batches of calls."""
        moved = [piece.migrations for piece in pieces if piece.migrations is not None]
        met = [piece.denormals for piece in pieces if piece.denormals is not None]
        return Collected(
            **{
                name: np.concatenate([getattr(piece, name) for piece in pieces])
                for name in ("wall", "host", "kernels", "waits", "driver", "begins")
            },
            migrations=sum(moved) if moved else None,
            denormals=np.concatenate(met) if len(met) == len(pieces) else None,
        )

    @property
    def tick(self) -> float:
        """Nanoseconds of a tick: the median slope between calls that are half of all calls apart."""
        return tick_of(self.begins[self.begins[:, 1] > 0])


def tick_of(begins: Array) -> float:
    """Return the nanoseconds of a tick, from (nanoseconds, ticks) of events one after another."""
    half = len(begins) // 2
    if not half:
        return 1.0
    steps = begins[half:] - begins[:-half]
    return float(np.median(steps[:, 0] / steps[:, 1]))


def stretches(call: RecordedCall, caller: ThreadNotes, parts: Sequence[RecordedProgram]) -> Iterator[Stretch]:
    """Yield the native stretches of a call, from the calling thread's notes. Pieces of a stretch that returned to
    Python for a moment are joined again."""
    starts = [*(start for _, start in call.runs), call.notes]
    for (program, start), stop in zip(call.runs, starts[1:], strict=True):
        stretch: Stretch | None = None
        for at in np.flatnonzero(caller.row[start:stop] == NO_STEP) + start:
            last, begin, end = int(caller.items[at]), int(caller.begin[at]), int(caller.end[at])
            if stretch is not None and stretch.last == last:
                stretch = stretch._replace(end=end)
                continue
            if stretch is not None:
                yield stretch
            stretch = Stretch(program, parts[program].ends[last], last, begin, end)
        if stretch is not None:
            yield stretch


def collect(
    calls: Sequence[RecordedCall],
    notes: Sequence[ThreadNotes],
    parts: Sequence[RecordedProgram],
    threads: int,
) -> Collected:
    """Return the times of calls whose notes are complete. `threads`: of the program that has the most."""
    count = parts[-1].first + len(parts[-1].steps) + (parts[-1].between >= 0)
    shape = (len(calls), count)
    host, waits, driver = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    kernels, begins = np.zeros((*shape, threads)), np.zeros((len(calls), 2), np.int64)
    met = np.zeros(shape, bool)
    sorted_notes = [_chunks(thread) for thread in notes]
    moved = 0
    for number, call in enumerate(calls):
        begins[number, 0] = call.begin
        for run in call.hosts:
            part = parts[run.program]
            host[number, part.first + run.step if run.step >= 0 else part.between] += run.end - run.begin
        cpus: list[set[int]] = [set() for _ in range(threads)]
        for stretch in stretches(call, notes[0], parts):
            begins[number, 1] = begins[number, 1] or stretch.begin
            part, team = parts[stretch.program], parts[stretch.program].program.threads
            rows = part.rows[stretch.first : stretch.last]
            times = [_within(sorted_notes[thread], stretch) for thread in range(team)]
            ends = _ends(times, stretch)
            for thread, own in enumerate(times):
                busy, wait, between = _split(own, stretch, ends, thread > 0)
                kernels[number, rows, thread] += busy
                waits[number, rows] += wait / team
                driver[number, rows] += between / team
                cpus[thread].update(own.cpu.tolist())
                met[number, rows[own.row[own.denormals > 0] - stretch.first]] = True
        moved += any(len(each) > 1 for each in cpus)
    has_cpus = any(bool((thread.cpu >= 0).any()) for thread in notes)
    wall = np.array([call.end - call.begin for call in calls], np.float64)
    known = not any(bool((thread.denormals == UNTOLD).any()) for thread in notes)
    return Collected(
        wall, host, kernels, waits, driver, begins, moved if has_cpus else None, met if known else None
    )


def _chunks(notes: ThreadNotes) -> ThreadNotes:
    """Return the notes without those of native calls, so that each follows the one before it in time."""
    kept = notes.row != NO_STEP
    return ThreadNotes(*(each[kept] for each in notes))


def _within(notes: ThreadNotes, stretch: Stretch) -> ThreadNotes:
    """Return the notes of a thread that were begun within a stretch."""
    first, last = np.searchsorted(notes.begin, (stretch.begin, stretch.end))
    return ThreadNotes(*(each[first:last] for each in notes))


def _ends(times: Sequence[ThreadNotes], stretch: Stretch) -> Array:
    """Return the time at which each step of a stretch ended."""
    ends = np.full(stretch.last - stretch.first, stretch.begin, np.int64)
    for own in times:
        chunk = own.items > 0
        np.maximum.at(ends, own.row[chunk] - stretch.first, own.end[chunk])
    ends = np.minimum(np.maximum.accumulate(ends), stretch.end)
    # Time after the last chunk belongs to the last step.
    ends[-1] = stretch.end
    return ends


def _split(own: ThreadNotes, stretch: Stretch, ends: Array, worker: bool) -> tuple[Array, Array, Array]:
    """Return the ticks per step that a thread computed, waited, and did neither."""
    chunk, count = own.items > 0, len(ends)
    begin, end = own.begin, np.minimum(own.end, stretch.end)
    busy = np.bincount(own.row[chunk] - stretch.first, (end - begin)[chunk], count)
    waits = [*zip(begin[~chunk].tolist(), end[~chunk].tolist(), strict=True)]
    if worker:
        first, last = (int(begin[0]), int(end[-1])) if len(begin) else (stretch.end, stretch.end)
        waits = [(stretch.begin, first), *waits, (last, stretch.end)]
    waited = _until(ends, stretch.begin, waits)
    computed = _until(ends, stretch.begin, [*zip(begin[chunk].tolist(), end[chunk].tolist(), strict=True)])
    return busy, waited, np.diff(ends, prepend=stretch.begin) - waited - computed


def _until(ends: Array, start: int, spans: Sequence[tuple[int, int]]) -> Array:
    """Return how much of the time between one end and the next, the first from `start`, lies in these spans, which
    follow one another."""
    if not spans:
        return np.zeros(len(ends))
    edges = np.array(spans, np.float64) - start
    total = np.cumsum(edges[:, 1] - edges[:, 0])
    before = np.concatenate(([0.0], total[:-1]))
    covered = np.interp(ends - start, edges.reshape(-1), np.stack((before, total), 1).reshape(-1))
    return np.diff(covered, prepend=0.0)
