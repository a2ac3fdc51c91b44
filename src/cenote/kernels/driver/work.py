"""Workers of the native driver: wait for a job, work, again; and what ends that."""

from __future__ import annotations

from cenote.codegen.native import ACQUIRE, Int64, Native, Words, native
from cenote.codegen.values import I32, U8, Pointer, Value
from cenote.kernels.driver.modes import enter_mode
from cenote.kernels.driver.notes import log_of
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import change, wait_while
from cenote.kernels.driver.walk import NEVER, ThreadJob, job_stamp, restamp, walk
from cenote.runtime.layouts import CONTROL, STEP

_BETWEEN_JOBS = 3  # times as long a worker spins that waits for a job


@native
def cenote_work(f: Native, control: Words, index: Int64) -> None:
    """Work on the team's jobs until it is told to stop."""
    team, known = WordsByName(CONTROL, control), f.variable(f.constant(I32, 0))
    active = team.active
    with f.loop() as loop:
        seen = known.value
        wait_while(f, team.sequence, seen, team.sleeping_workers, team.spin.load() * _BETWEEN_JOBS, f.null())
        loop.again_if(f.load_atomic(team.sequence.cast(I32), ACQUIRE).equals(seen))
        f.fetch_add(active, 1)  # from here the step table must not be freed
        job = _Description(f, team)
        loop.leave_if(team.stop.load().differs(0))
        with f.when(job.first < job.last):
            job.work(control, index)
        f.fetch_add(active, -1)
        known.value = job.number
    f.fetch_add(active, -1)


class _Description:
    """Description of a job, whole: it is read again when its writer was at it meanwhile."""

    def __init__(self, f: Native, team: WordsByName) -> None:
        self.f, sequence = f, team.sequence.cast(I32)
        with f.loop() as loop:
            self.number: Value = f.load_atomic(sequence)
            self.steps: Pointer = f.load_pointer(team.steps)
            self.first, self.last = team.first.load(), team.last.load()
            self.scratch, self.stride = f.load_pointer(team.scratch, U8), team.scratch_stride.load()
            f.fence()
            again = f.load_atomic(sequence)
            loop.leave_if((self.number & 1).equals(0) & self.number.equals(again))
            f.pause()

    def work(self, control: Pointer, index: Value) -> None:
        """Emit a worker's share of the job."""
        f = self.f
        scratch, log = self.scratch + self.stride * index, log_of(f, control, index)
        stamp, never = job_stamp(self.number), f.integer(NEVER)
        enter_mode(f, WordsByName(STEP, self.steps).flush.load())
        walk(f, control, ThreadJob(self.steps, self.first, self.last, scratch, stamp, never), index, log)


@native
def cenote_halt(f: Native, control: Words, steps: Words, first: Int64, last: Int64, stop: Int64) -> None:
    """Give up the job and return when no worker is at it any more. `stop`: the workers leave for good."""
    team = WordsByName(CONTROL, control)
    number = f.fetch_add(team.sequence.cast(I32), 1) + 2
    f.order_stores()
    restamp(f, steps, first, last, job_stamp(number))  # who works on the old job finds nothing more
    team.first.store(f.integer(0))  # the new one is empty
    team.last.store(f.integer(0))
    team.stop.store(stop)
    change(f, team.sequence, team.sleeping_workers)
    change(f, team.generation, team.sleeping_at_barrier)
    with f.loop() as loop:
        loop.leave_if(f.load_atomic(team.active).equals(0))
        f.external("usleep", f.constant(I32, 50), result=I32)
