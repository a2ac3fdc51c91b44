"""Notes of the native driver: when threads computed and waited.

Where a team's control block names logs, every thread notes in its own when it began and ended each chunk and each wait,
and the caller its whole native call. Without (null), a chunk takes one more comparison. Two readings of the counter and
a note of 32 bytes take 30 to 40 ns a chunk. Alone, a thread reads it once a step, whose begin is the last one's end.

`runtime.layouts` has the form of the logs.
"""

from __future__ import annotations

from cenote.codegen.native import Int64, Native, Words, native
from cenote.codegen.values import I32, I64, U8, U32, U64, Value
from cenote.kernels.driver.modes import take_denormals
from cenote.kernels.driver.records import WordsByName
from cenote.kernels.driver.waiting import MONOTONIC_CLOCK, read_clock
from cenote.runtime.layouts import CONTROL, CPU_BITS, LOG, LOGS, NO_STEP, NOTE


def cpu(f: Native) -> Value:
    """Return the number of the CPU that this thread is on; -1 where the system does not tell."""
    return f.external("sched_getcpu", result=I32) if f.is_linux else f.constant(I32, -1)


@native
def ticks(f: Native) -> Int64:
    """Return a counter that runs at the same speed on all cores, read in 12 ns; elsewhere the system's clock, in
    nanoseconds. What came before is done: what a chunk has computed, above all."""
    if f.is_x86:
        f.assembly("lfence", "~{memory}")
        return f.external("llvm.x86.rdtsc", result=I64)
    if f.is_arm:
        f.external("llvm.aarch64.isb", f.constant(I32, 15))
        return f.system_register("cntvct_el0")
    return read_clock(f, f.constant(I32, MONOTONIC_CLOCK))[0]


def _ticks_and_cpu(f: Native) -> tuple[Value, Value]:
    """Read the counter and the CPU. On x86 one instruction does both, and waits for what came before as well; Linux
    keeps the CPU's number in the lower 12 bits of its second result."""
    if not (f.is_x86 and f.is_linux):
        return ticks(f), cpu(f)
    f.assembly("", "~{memory}")
    f.declare("llvm.x86.rdtscp", "{ i64, i32 } ()")
    both = f.assign("call { i64, i32 } @llvm.x86.rdtscp()", I64, 1)
    counter, where = f.parts(both, I64, I32)
    return counter, where & 4095


@native
def log_of(f: Native, control: Words, index: Int64) -> Words:
    """Return the log of a thread, or null."""
    logs = f.load_pointer(WordsByName(CONTROL, control).log)
    f.return_if(f.is_null(logs), f.null())
    stride = WordsByName(LOGS, logs).stride.load()
    return (logs.cast(U8) + (stride * index + LOGS.size * 8)).cast(I64)


@native
def ticks_if(f: Native, log: Words) -> Int64:
    """Return when a native call began, where that is noted, else 0."""
    f.return_if(f.is_null(log), f.integer(0))
    return ticks(f)


@native
def note(f: Native, log: Words, begin: Int64, step: Int64, items: Int64) -> Int64:
    """Note what this thread has done from `begin` until now: items of a step, a wait (0 items), a native call
    (`NO_STEP`). Return the counter, or 0.

    Without a log nothing is done; where it is full, notes are counted but not kept.
    """
    f.return_if(f.is_null(log), f.integer(0))
    end, where = _ticks_and_cpu(f)
    book = WordsByName(LOG, log)
    count, room = book.count.load(), book.room.load()
    book.count.store(count + 1)
    f.return_if(count.bits(U64) >= room.bits(U64), end)
    what = f.variable(items | ((where.bits(U32).to(I64) & ((1 << CPU_BITS) - 1)) << 32))
    with f.when(step > NO_STEP):  # else the mode is the caller's again
        what.value |= take_denormals(f) << (32 + CPU_BITS)
    written = WordsByName(NOTE, log + LOG.size, count)
    written.begin.store(begin)
    written.end.store(end)
    written.step.store(step)
    written.what.store(what.value)
    return end
