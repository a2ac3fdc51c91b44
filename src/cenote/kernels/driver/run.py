"""The caller's part of the native driver: publish a job, work along, return when it is done or the time is up."""

from __future__ import annotations

from cenote.codegen.native import Bytes, Int32, Int64, Native, Words, native
from cenote.codegen.values import I32, U8, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.driver.affinity import keep_apart
from cenote.kernels.driver.modes import enter_mode, leave_mode
from cenote.kernels.driver.notes import log_of, note, ticks_if
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import SLICE, change, now
from cenote.kernels.driver.walk import ThreadJob, job_stamp, restamp, walk
from cenote.runtime.layouts import CONTROL, NO_STEP, STEP

_SHORT = 4_000_000  # nanoseconds


@dataclass(frozen=True)
class KernelWork:
    """Items of a kernel from `begin` on. `stride`: address of the number of items of one call."""

    kernel: Bytes
    words: Words
    begin: Int64
    items: Int64
    scratch: Bytes
    stride: Words

    @staticmethod
    def of(f: Native, record: WordsByName, begin: Value, scratch: Pointer) -> KernelWork:
        """Return the work of a step's record, or a call's."""
        kernel, words = f.load_pointer(record.kernel, U8), f.load_pointer(record.words)
        return KernelWork(kernel, words, begin, record.items.load(), scratch, record.stride)


@native
def stretch(f: Native, work: KernelWork, clock: Words, deadline: Int64) -> Int64:
    """Call a kernel in chunks until all items are done or the time is up. Return the first item that is left.

    `clock` holds the time of the beginning, and is set to that of the end.
    """
    begin, before = f.variable(work.begin), f.variable(clock.load())
    with f.loop() as loop:
        length = work.stride.load()
        upto = begin.value + length
        partly = upto < work.items
        to = f.select(partly, upto, work.items)
        f.call_address(work.kernel, work.words, begin.value, to, work.scratch)
        after = now(f)
        loop.leave_unless(partly)
        with f.when(after - before.value < _SHORT):
            work.stride.store(length << 1)
        loop.leave_if(after > deadline)
        begin.value, before.value = to, after
    clock.store(after)
    return to


@native
def cenote_run(f: Native, control: Words, steps: Words, first: Int64, last: Int64) -> Int32:
    """Run steps from first to before last. Return 0: done; 1: the time was up, call again with -1 as the first step.

    The last step must have its barrier set, so that a run ends when all is done.
    """
    team = WordsByName(CONTROL, control)
    log = log_of(f, control, f.integer(0))
    begun = ticks_if(f, log)
    mode = enter_mode(f, WordsByName(STEP, steps).flush.load())
    caller = _Caller(f, control, steps, last, log)
    is_resumed = first < 0
    step = f.select(is_resumed, team.step_at.load(), first)
    for is_alone in f.either(team.threads.load().equals(1)):
        if is_alone:
            caller.run_alone(step, f.select(is_resumed, team.item_at.load(), f.integer(0)))
        else:
            with f.unless(is_resumed):
                caller.publish(first)
            caller.work_along(step)
    leave_mode(f, mode)
    note(f, log, begun, f.integer(NO_STEP), last)
    return caller.is_late.value


class _Caller:
    """Caller of a team: its values in native code, and the parts of its code. `is_late`: 1 once the time is up."""

    def __init__(self, f: Native, control: Pointer, steps: Pointer, last: Value, log: Pointer) -> None:
        self.f, self.control, self.steps, self.last, self.log = f, control, steps, last, log
        self.start, self.is_late = now(f), f.variable(f.constant(I32, 0))
        self.deadline = self.start + SLICE
        self.team = WordsByName(CONTROL, control)
        self.scratch = f.load_pointer(self.team.scratch, U8)

    def run_alone(self, first: Value, item: Value) -> None:
        """Emit the loop over steps of a caller without workers."""
        f, clock = self.f, self.f.array(1)
        clock.store(self.start)
        number, begin = f.variable(first), f.variable(item)
        since = f.variable(ticks_if(f, self.log))  # where steps are noted: the last one's end
        logged = ~f.is_null(self.log)
        with f.loop() as loop:
            at, start = number.value, begin.value
            loop.leave_if(at >= self.last)
            work = KernelWork.of(f, WordsByName(STEP, self.steps, at), start, self.scratch)
            end = f.variable(f.integer(0))
            for noted in f.either(logged):
                end.value = stretch(f, work, clock, self.deadline)
                if noted:
                    since.value = note(f, self.log, since.value, at, end.value - start)
            with f.when(end.value < work.items):
                self.team.step_at.store(at)
                self.team.item_at.store(end.value)
                self.is_late.value = f.constant(I32, 1)
                loop.leave()
            number.value, begin.value = at + 1, f.integer(0)

    def publish(self, first: Value) -> None:
        """Emit the description of a new job, and wake the workers."""
        f, team = self.f, self.team
        keep_apart(f, self.control, team.threads.load())
        # Odd: the job's description is being written.
        number = f.fetch_add(team.sequence.cast(I32), 1) + 2
        f.order_stores()
        job = job_stamp(number)
        restamp(f, self.steps, first, self.last, job)
        f.store_pointer(self.steps, team.steps)
        team.first.store(first)
        team.last.store(self.last)
        team.job.store(job)
        change(f, team.sequence, team.sleeping_workers)

    def work_along(self, first: Value) -> None:
        """Emit the caller's share of the job."""
        f, team = self.f, self.team
        job = ThreadJob(self.steps, first, self.last, self.scratch, team.job.load(), self.deadline)
        left = walk(f, self.control, job, f.integer(0), self.log)
        team.step_at.store(left)
        with f.unless(left < 0):
            self.is_late.value = f.constant(I32, 1)
