"""Affinity of the native driver's threads: a team's workers keep off the CPU of their caller.

Linux wakes a thread on the waker's own CPU when the one it ran on before looks taken, and on a virtual machine a CPU
that has halted for want of work does look so. After a pause of milliseconds caller and worker then share a CPU until
the scheduler moves one of them, which took 2 to 5 ms: 20 calls of a small model. So workers may run where their caller
may, except on the CPU where it is at the moment. It is set while they sleep or wait, which moves them at no other cost.

Nothing else is taken from anybody: the caller's own affinity stays as it is and is followed, and where it allows a
single CPU, the workers have that one too. A call asks for its CPU (4 ns) and is done when that is the same as before
and no worker sleeps; it asks for the caller's affinity (0.2 us) only before it wakes one, and sets the workers' (0.7 us
each) only when something has changed.

Somebody else may want the workers' CPU: then a worker stands still for a time slice (3 to 4 ms) in the middle of a
chunk, and the caller, all else done, waits for it beside an idle CPU. So a caller that has waited long at a barrier
fetches workers that stand still (as their processor time does) to its own CPU, and sleeps on: an idle CPU takes a
thread that waits on another only now and then. When the caller goes on, workers keep off its CPU again.

Threads that are bound (`threads="bound"`) have a CPU each, and nothing is done about them.
"""

from __future__ import annotations

from collections.abc import Iterator

from cenote.codegen.native import MONOTONIC, Bool, Int32, Int64, Native, Words, native
from cenote.codegen.values import BOOL, I32, I64, U64, Pointer, Value
from cenote.kernels.driver.notes import cpu
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import read_clock
from cenote.runtime.layouts import CONTROL, CPU_WORDS

_THREAD_CLOCK = 6  # of a thread, by its number: what it has run, not what it was promised


@native
def same_cpus(f: Native, a: Words, b: Words) -> Bool:
    """Return whether two sets of CPUs are the same."""
    at = f.variable(f.integer(0))
    with f.loop() as loop:
        is_through = at.value.equals(CPU_WORDS)
        loop.leave_if(is_through)
        loop.leave_unless(a.load(at.value).equals(b.load(at.value)))
        at.value += 1
    return is_through


@native
def cpus_beside(f: Native, cpus: Words, here: Int64) -> Bool:
    """Find where this thread may run, without the CPU that it is on unless that is all it has. Return whether the
    system tells."""
    none = f.array(CPU_WORDS)
    f.clear(none, CPU_WORDS)
    f.return_if(~_allowed_to(f, cpus, here), f.constant(BOOL, 0))
    word, bit = _bit_of(cpus, here)
    every = word.load()
    word.store(every & ~bit)
    with f.when(same_cpus(f, cpus, none)):
        word.store(every)
    return f.constant(BOOL, 1)


@native
def keep_apart(f: Native, control: Words, threads: Int64) -> None:
    """Let the workers run where the caller may, but not on its CPU: before it publishes a job."""
    if not f.is_linux:
        return
    team, cpus = WordsByName(CONTROL, control), f.array(CPU_WORDS)
    f.return_if(team.bound.load() > 0)
    here = cpu(f).to(I64)
    noted = here + 1  # 0: none, which a new worker stores
    still = noted.equals(f.load_atomic(team.caller_cpu))
    awake = f.load_atomic(team.sleeping_workers, MONOTONIC).equals(0)
    f.return_if(still & awake)
    f.return_if(~cpus_beside(f, cpus, here))
    f.return_if(same_cpus(f, cpus, team.cpus) & still)
    f.copy(cpus, team.cpus, CPU_WORDS)
    # Before the first thread id is read: a worker that writes its own later stores 0, and the next call looks again.
    f.store_atomic(noted, team.caller_cpu)
    for thread in _workers(f, control, threads):
        with f.when(thread > 0):
            _set_cpus(f, thread.to(I32), cpus)


@native
def processor_time(f: Native, thread: Int32) -> Int64:
    """Return the processor time of a thread in nanoseconds; 0 where the system does not tell."""
    time, failure = read_clock(f, (~thread << 3) | _THREAD_CLOCK)
    return f.select(failure.equals(0), time, f.integer(0))


@native
def give_way(f: Native, control: Words, threads: Int64) -> None:
    """Let the workers have the caller's CPU, too, while it waits. Those that stand still are moved there (one that
    sleeps stays where it is). What is noted is no CPU, so that `keep_apart` looks again."""
    if not f.is_linux:
        return
    cpus, own = f.array(CPU_WORDS), f.array(CPU_WORDS)
    f.return_if(WordsByName(CONTROL, control).bound.load() > 0)
    f.clear(cpus, CPU_WORDS)
    f.clear(own, CPU_WORDS)
    here = cpu(f).to(I64)
    f.return_if(~_allowed_to(f, cpus, here))
    f.store_atomic(f.integer(0), WordsByName(CONTROL, control).caller_cpu)
    word, bit = _bit_of(own, here)
    word.store(bit)
    for number in _workers(f, control, threads):
        thread = number.to(I32)
        with f.when(thread > 0):
            before = processor_time(f, thread)
            _set_cpus(f, thread, cpus)
            after = processor_time(f, thread)
            with f.when(before.equals(after) & (after > 0)):
                _set_cpus(f, thread, own)
                _set_cpus(f, thread, cpus)


def _allowed_to(f: Native, cpus: Pointer, here: Value) -> Value:
    """Ask where this thread may run. Return whether the system tells, and has a number for the CPU at hand."""
    failure = f.external("sched_getaffinity", f.constant(I32, 0), f.integer(CPU_WORDS * 8), cpus, result=I32)
    return failure.equals(0) & (here.bits(U64) < CPU_WORDS * 64)


def _bit_of(cpus: Pointer, cpu: Value) -> tuple[Pointer, Value]:
    """Return the word in which a set has a CPU, and the CPU's bit in it."""
    number = cpu.bits(U64)
    return cpus + (number >> 6).bits(I64), cpu.kernel.constant(I64, 1) << (cpu & 63)


def _workers(f: Native, control: Pointer, threads: Value) -> Iterator[Value]:
    """Emit a loop over the thread ids of a team's workers; 0: not there."""
    index = f.variable(f.integer(1))
    with f.loop() as loop:
        loop.leave_if(index.value >= threads)
        yield f.load_atomic(control + (index.value + CONTROL.thread_ids))
        index.value += 1


def _set_cpus(f: Native, thread: Value, cpus: Pointer) -> None:
    f.external("sched_setaffinity", thread, f.integer(CPU_WORDS * 8), cpus, result=I32)
