"""Steps on a team: each thread takes chunks and meets the others at barriers."""

from __future__ import annotations

from cenote.codegen.native import ACQUIRE, MONOTONIC, Bool, Bytes, Int64, Native, NativeLoop, Words, native
from cenote.codegen.values import BOOL, I32, I64, U8, U32, U64, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.kernels.driver.affinity import give_way, keep_apart
from cenote.kernels.driver.notes import note, ticks
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import change, now, wait_while
from cenote.runtime.layouts import CONTROL, STEP

NEVER = 2**63 - 1
_NAP = 100_000  # nanoseconds that a caller sleeps at a barrier before it fetches workers that stand still
_JOB = -(1 << 32)  # bits of a step's counters that carry the job's number
_MOST_CHUNKS = 16  # of a claim: 2 ms of work, after which a thread looks at the time
_FRONT = (1 << 16) - 1  # chunks taken from the front; those from the back are above them


def job_stamp(number: Value) -> Value:
    """Return a job's number where counters carry it."""
    return number.bits(U32).to(I64) << 32


@native
def restamp(f: Native, steps: Words, first: Int64, last: Int64, job: Int64) -> None:
    """Set a job's counters to nothing taken, nothing done."""
    at = f.variable(first)
    with f.loop() as loop:
        loop.leave_if(at.value >= last)
        step = WordsByName(STEP, steps, at.value)
        f.store_atomic(job, step.taken, MONOTONIC)
        f.store_atomic(job, step.done, MONOTONIC)
        at.value += 1


@native
def finished(f: Native, steps: Words, first: Int64, last: Int64, job: Int64) -> Bool:
    """Return whether all items of steps from first to last, both included, are done, or the job is over."""
    at = f.variable(first)
    with f.loop() as loop:
        loop.leave_if(at.value > last)
        step = WordsByName(STEP, steps, at.value)
        done = f.load_atomic(step.done, ACQUIRE)
        with f.when(done.differs(job | step.items.load())):
            f.return_now((done & _JOB).differs(job))
        at.value += 1
    return f.constant(BOOL, 1)


@dataclass(frozen=True)
class ThreadJob:
    """Steps from first to before last, as one thread works on them."""

    steps: Words
    first: Int64
    last: Int64
    scratch: Bytes
    stamp: Int64
    deadline: Int64


@native
def walk(f: Native, control: Words, job: ThreadJob, index: Int64, log: Words) -> Int64:
    """Work on a job, as the thread of that index. Return the step at which the time was up, or -1 when the job is
    over."""
    member, number = _Member(f, control, job, index, log), f.variable(job.first)
    with f.loop() as loop:
        at = number.value
        loop.leave_if(at >= job.last)
        step = WordsByName(STEP, job.steps, at)
        is_barrier = member.compute(at, step)
        with f.when(is_barrier.differs(0)):
            member.meet(at, step.group.load())
        number.value = at + 1
    return f.integer(-1)


class _Member:
    """Thread of a team that walks: its values in native code, and the parts of its code."""

    def __init__(self, f: Native, control: Pointer, job: ThreadJob, index: Value, log: Pointer) -> None:
        self.f, self.control, self.job, self.log = f, control, job, log
        self.logged = ~f.is_null(log)
        self.from_back = (index & 1).differs(0)
        self.claimed = f.select(self.from_back, f.integer(1 << 16), f.integer(1))
        longest = f.array(2)
        longest.store(f.integer(0))
        longest.store(f.integer(_NAP), 1)
        self.is_timed = job.deadline.differs(NEVER)
        self.patience = f.select_pointer(self.is_timed, longest, f.null())
        team = WordsByName(CONTROL, control)
        self.generation, self.sleepers = team.generation, team.sleeping_at_barrier
        self.spin, self.threads = team.spin.load(), team.threads.load()
        self.shares = self.threads * 3

    def compute(self, at: Value, step: WordsByName) -> Value:
        """Emit the loop over chunks of a step; return whether a barrier follows."""
        f, job = self.f, self.job
        words, taken = step.words, step.taken
        items, grain, chunks = step.items.load(), step.grain.load(), step.chunks.load()
        is_barrier, computed = step.barrier.load(), f.variable(f.integer(0))
        is_late = f.variable(f.constant(BOOL, 0))
        with f.loop() as loop:
            begin, end = self._claim(loop, taken, chunks, grain, items)
            kernel, arguments, amount = f.load_pointer(step.kernel, U8), f.load_pointer(words), end - begin
            for noted in f.either(self.logged):
                since = ticks(f) if noted else None
                f.call_address(kernel, arguments, begin, end, job.scratch)
                if since is not None:
                    note(f, self.log, since, at, amount)
            computed.value += amount
            with f.when(self.is_timed):
                is_late.value = now(f) > job.deadline
            loop.leave_if(is_late.value)
        with f.when(computed.value > 0):
            done = f.fetch_add(step.done, computed.value) + computed.value
            with f.when(done.equals(job.stamp | items)):
                change(f, self.generation, self.sleepers)
        f.return_if(is_late.value, at)
        return is_barrier

    def _claim(
        self, loop: NativeLoop, taken: Pointer, chunks: Value, grain: Value, items: Value
    ) -> tuple[Value, Value]:
        """Emit the claim of chunks and return their items; the loop over chunks is left when there are none.

        How many is guided by what is left (Polychronopoulos and Kuck, 1987): two thirds of a thread's equal share, so
        that a thread may be a third slower than all on average and no other waits for it; the last claims are single
        chunks. One by one, chunks cost two threads 1 to 4 % of a network's time: MobileNet-v2 2.83 ms instead of
        2.74, ShuffleNet-v2 1.59 instead of 1.54, ResNet-18 7.74 instead of 7.56, DenseNet-121 17.4 instead of 17.0
        (Emerald Rapids). The whole share and half of it differ from that by as much as two runs do. Tried, and left,
        without a difference: the exchange without a load before it, and waiting for `done` itself at a barrier.

        Items are known before they are claimed: computed afterwards, they wait for the exchange.
        """
        f = self.f
        latest = f.variable(f.load_atomic(taken, MONOTONIC))
        with f.loop() as attempt:
            seen = latest.value
            mine = (seen & _JOB).equals(self.job.stamp)
            front, back = seen & _FRONT, (seen.bits(U64) >> 16).bits(I64) & _FRONT
            loop.leave_unless(mine & ((front + back).bits(U64) < chunks.bits(U64)))
            share = (chunks - front - back) * 2 // self.shares
            count = f.maximum(f.integer(1), f.minimum(share, f.integer(_MOST_CHUNKS)))
            begin = f.select(self.from_back, chunks - back - count, front) * grain
            end = f.minimum(begin + count * grain, items)
            there, won = f.compare_exchange(taken, seen, seen + count * self.claimed)
            attempt.leave_if(won)
            latest.value = there
        return begin, end

    def meet(self, at: Value, group: Value) -> None:
        """Emit the wait for all items of the steps since `group`."""
        f, job, generation = self.f, self.job, self.generation.cast(I32)
        since = f.variable(f.integer(0))  # when a wait began, where it is noted
        turns = f.variable(self.spin)  # to spin before it sleeps
        gave = f.variable(f.constant(BOOL, 0))  # did workers get this CPU?
        with f.loop() as loop:
            era = f.load_atomic(generation, ACQUIRE)
            ready = finished(f, job.steps, group, at, job.stamp)
            waited = since.value.differs(0)
            with f.when(ready):
                with f.when(gave.value):
                    keep_apart(f, self.control, self.threads)
                with f.when(waited):
                    note(f, self.log, since.value, at, f.integer(0))
                loop.leave()
            with f.unless(waited | ~self.logged):
                since.value = ticks(f)
            wait_while(f, self.generation, era, self.sleepers, turns.value, self.patience)
            turns.value = self.spin
            with f.when(self.is_timed):
                with f.when(now(f) > job.deadline):
                    note(f, self.log, since.value, at, f.integer(0))
                    f.return_now(at)
                news = f.load_atomic(generation, ACQUIRE).differs(era)
                with f.unless(news):
                    give_way(f, self.control, self.threads)
                    gave.value = f.constant(BOOL, 1)
                    turns.value = f.integer(0)  # after a nap without news none
