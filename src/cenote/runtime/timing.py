"""Program that notes when its threads computed and waited, while it runs as usual.

    recorder = CallRecorder(room, threads)
    timed = TimedProgram.of(program, recorder, number=0)
    recorder.record(lambda: timed.run(inputs))
    recorder.settle()
    recorder.calls, recorder.notes(thread)

The native driver writes notes into a log (`kernels.driver.notes`): chunks and waits of every thread, whole native calls
of the calling one. What runs in Python between native calls (host steps) is timed here. Nothing else differs from an
ordinary run, and nothing at all in runs that are not recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import NamedTuple

import numpy as np

from cenote.core.deferred import cached_property, dataclass
from cenote.core.types import Array
from cenote.runtime.layouts import CONTROL, CPU_BITS, LOG, LOGS, NOTE
from cenote.runtime.memory import address_of, aligned_bytes
from cenote.runtime.program import Instance, Program
from cenote.runtime.steps import HostStep
from cenote.runtime.threads import Team

_SETTLED = 0.02  # seconds to wait for a worker that is still writing its last note


class ThreadNotes(NamedTuple):
    """Notes of one thread, in order of their ends: `begin` and `end` in ticks, `row` of the kernel step in its
    program (-1: a whole native call), `items` (0: a wait; of a native call the row behind its last step), the CPU (-1
    where the system does not say), and `denormals`: 1 where a chunk met numbers below the smallest normal one (2: the
    processor does not say).
    """

    begin: Array
    end: Array
    row: Array
    items: Array
    cpu: Array
    denormals: Array


class HostRun(NamedTuple):
    """Host step of a program within a call (-1: the nodes that run on the host behind the program), with its start
    and end by `time.perf_counter_ns`."""

    program: int
    step: int
    begin: int
    end: int


@dataclass
class RecordedCall:
    """One recorded call of a model, with start and end by `time.perf_counter_ns`. `runs`: numbers of the programs
    that ran, each with the number of notes that the calling thread had before; `notes`: their number at the end."""

    begin: int = 0
    end: int = 0
    notes: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)
    hosts: list[HostRun] = field(default_factory=list)


class CallRecorder:
    """Logs of the threads that run a model, with room for so many notes each, and the recorded calls.

    Raises CapacityError where there is no memory for the logs.
    """

    def __init__(self, room: int, threads: int) -> None:
        self.room, self.threads = room, threads
        self.calls: list[RecordedCall] = []
        self.on = False
        self._stride = LOG.size + room * NOTE.size  # in words
        log = aligned_bytes((LOGS.size + self._stride * threads) * 8, "the notes of a profile")
        self._log = log.view(np.int64)
        self._log[LOGS.stride] = self._stride * 8
        self.address = address_of(self._log)
        self.words = self._log.data  # reads and writes a word in 40 ns, where an array takes 100
        self._team: Team | None = None
        self._workers: Team | None = None
        self.clear()

    def clear(self) -> None:
        """Forget the records. No run may be in progress."""
        self.calls = []
        for thread in range(self.threads):
            start = LOGS.size + thread * self._stride
            self._log[start + LOG.count], self._log[start + LOG.room] = 0, self.room

    def record(self, call: Callable[[], object]) -> None:
        """Call a model whose programs are recorded by this recorder."""
        recorded = RecordedCall()
        self.calls.append(recorded)
        self.on = True
        try:
            begin = time.perf_counter_ns()
            call()
            recorded.begin, recorded.end = begin, time.perf_counter_ns()
        finally:
            self.on = False
        recorded.notes = self.words[LOGS.size + LOG.count]

    @property
    def filled(self) -> float:
        """Share of its room that the busiest thread needed; above 1 notes were lost."""
        return float(self._log[LOGS.size + LOG.count :: self._stride][: self.threads].max()) / self.room

    def attend(self, team: Team) -> None:
        """Add this team's threads to the recorded ones."""
        self._team, self._workers = team, team if team.threads > 1 else self._workers

    def settle(self) -> None:
        """Wait until no worker writes any more: one that reaches the end of a run late notes its wait afterwards."""
        team, give_up = self._team, time.monotonic() + _SETTLED
        while team is not None and team.control[CONTROL.active] and time.monotonic() < give_up:
            time.sleep(50e-6)

    def notes(self, thread: int) -> ThreadNotes:
        """Return the notes of a thread."""
        start = LOGS.size + thread * self._stride
        count = min(int(self._log[start + LOG.count]), self.room)
        first = start + LOG.size
        table = self._log[first : first + count * NOTE.size].reshape(count, NOTE.size).copy()
        what = table[:, NOTE.what]
        items, cpu = what & 0xFFFFFFFF, what >> 32 & (1 << CPU_BITS) - 1
        cpu[cpu == (1 << CPU_BITS) - 1] = -1
        return ThreadNotes(
            table[:, NOTE.begin], table[:, NOTE.end], table[:, NOTE.step], items, cpu, what >> 32 + CPU_BITS
        )

    def close(self) -> None:
        """Free the memory as soon as no worker can be writing to it."""
        if self._workers is not None:
            self._workers.graveyard.append(self._log)


@dataclass(frozen=True)
class TimedProgram(Program):
    """Program whose runs are recorded while its recorder is on. `number` distinguishes it from others of the same
    model."""

    recorder: CallRecorder = field(kw_only=True, compare=False, repr=False)
    number: int = 0

    @staticmethod
    def of(program: Program, recorder: CallRecorder, number: int) -> TimedProgram:
        """Return the same program, with instances of its own, recorded."""
        values = {each.name: getattr(program, each.name) for each in fields(Program) if each.name != "_free"}
        timed = TimedProgram(**values, recorder=recorder, number=number)
        vars(timed).update(records=program.records, scratch_bytes=program.scratch_bytes)  # a template's
        return timed

    @cached_property
    def host_numbers(self) -> dict[int, int]:
        """Numbers of the host steps among the steps, by their ids."""
        return {id(step): index for index, step in enumerate(self.steps) if isinstance(step, HostStep)}

    def _new_instance(self, team: Team | None = None) -> Instance:
        return TimedInstance(self, self, team)


class TimedInstance(Instance):
    """An instance whose native calls and host steps are recorded while the recorder is on."""

    def __init__(self, program: Program, timed: TimedProgram, team: Team | None) -> None:
        super().__init__(program, team)
        self._timed, self._recorder, self._number = timed, timed.recorder, timed.number
        self._attended: Team | None = None

    def _run_segments(self, team: Team, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        recorder = self._recorder
        if not recorder.on:
            _run(self, team, inputs, outputs)
            return
        if team is not self._attended:  # mostly its first run; the following takes 0.3 us a run
            recorder.attend(team)
            self._attended, self._control, self._field = team, team.control.data, CONTROL.log
        control, place = self._control, self._field
        recorder.calls[-1].runs.append((self._number, recorder.words[LOGS.size + LOG.count]))
        control[place] = recorder.address  # no other run of the team is in progress
        try:
            _run(self, team, inputs, outputs)
        finally:
            control[place] = 0

    def _run_host(self, step: HostStep, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        begin = time.perf_counter_ns()
        super()._run_host(step, inputs, outputs)
        if self._recorder.on:
            number, end = self._timed.host_numbers[id(step)], time.perf_counter_ns()
            self._recorder.calls[-1].hosts.append(HostRun(self._number, number, begin, end))


_run = Instance._run_segments
