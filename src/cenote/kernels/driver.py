"""The native program driver: walks a table of steps on every thread of a team, with one call from Python.

    cenote_run(control, steps, first, last)         the caller's part: publish the job, wake the team, work along
    cenote_work(control, index)                     a worker's whole life: wait for a job, work, again
    cenote_halt(control, steps, first, last, stop)  give up the job: returns when no worker is at it any more;
                                                    stop: the workers leave for good
    cenote_rounds(run, control, steps, …)           runs of the same steps, one after another (`driver_rounds`)
    cenote_call(record, array, array …)             one kernel on the caller's arrays, for small work

    for step in first .. last:
        while a chunk of the step is left: take the next from the front, or from the back on every other thread
        (compare-and-swap), run the kernel, count its items as done
        if step.barrier: wait until the items of all steps since the last barrier are done

A barrier waits for work, not for threads: a worker that the system has not scheduled holds nobody up, the others do
its share, and it joins later at whatever step is under way. (With a barrier that counted threads, 100 small steps took
6.6 ms instead of 0.1 ms on a machine whose cores were shared.) So that a late worker never touches a newer job, the
counters of a step carry the job's number in their upper half, and the job's description is guarded by a sequence lock.

Threads wait in two phases: a bounded spin (a step is often microseconds away), then a futex, so that a waiting thread
never burns a core that somebody else needs. Between jobs a worker spins three times as long: in the first calls after a
pause, when all caches are cold, it waits for its caller 50 to 150 us, and to sleep and be woken costs the caller 25 us
and the worker 50.
A caller that has slept long at a barrier sees to workers that stand still for want of a CPU (`driver_affinity`).

Which thread does which chunk varies; what a chunk computes does not. As threads take chunks from both ends, two of them
have nearly the same parts in every call and, where steps are alike, in every step, and find them in their own caches:
with chunks taken in turn from the front, MobileNet-v2 and SqueezeNet took 5 and 7 % longer, and a pooling layer of 4 MB
took 10 calls instead of 4 to come down to its steady time after a pause.

A run comes back to Python after 50 ms, between two chunks, so that signals are handled: 1 says that there is more to
do, and that the run goes on when called again with -1 as the first step. Only the caller looks at the clock (a coarse
one: 5 ns), after each chunk. Alone, a thread takes larger chunks than a team does: each step starts with its grain and
doubles it, for good, whenever a chunk took less than 4 ms, so most steps soon are one call of their kernel.

Every thread sets its floating-point mode for a job: round to nearest, exceptions masked, denormals kept or flushed to
zero as the step table says, whatever mode its creator or the caller was in. The caller's is restored on return. Where
the control block names logs, threads note what they do when (`driver_notes`).

`runtime.layouts` names the words of a step and of the control block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from cenote.codegen import jit
from cenote.core.target import Target
from cenote.kernels.driver_affinity import KEEP_APART, NO_KEEP_APART
from cenote.kernels.driver_call import CALL_ON_ARRAYS
from cenote.kernels.driver_modes import MODES
from cenote.kernels.driver_notes import notes
from cenote.kernels.driver_parts import (
    BETWEEN_JOBS,
    CHANGE,
    CLOCK,
    HALT,
    HELPERS,
    NEVER,
    RESTAMP,
    SLICE,
    STRETCH,
    field,
)
from cenote.kernels.driver_rounds import ROUNDS
from cenote.runtime.layouts import CALL_ARRAYS, CONTROL, NO_STEP, STEP
from cenote.runtime.memory import DATA_FIELD
from cenote.runtime.threads import DriverAbi

_RUN = f"""
; 0: done; 1: the time was up, call again with -1 as the first step.
define i32 @cenote_run(ptr %control, ptr %steps, i64 %first, i64 %last) nounwind {{
entry:
  %clock = alloca i64
{field("threads.p", "%control", CONTROL.threads)}
{field("scratch.p", "%control", CONTROL.scratch)}
{field("step.at", "%control", CONTROL.step_at)}
{field("item.at", "%control", CONTROL.item_at)}
{field("job.p", "%control", CONTROL.job)}
{field("flush.p", "%steps", STEP.flush)}
  %log = call ptr @log_of(ptr %control, i64 0)
  %logged = icmp ne ptr %log, null
  %begun = call i64 @ticks_if(ptr %log)
  %flush = load i64, ptr %flush.p
  %mode = call i64 @enter_mode(i64 %flush)
  %threads = load i64, ptr %threads.p
  %scratch = load ptr, ptr %scratch.p
  %start = call i64 @now()
  store i64 %start, ptr %clock
  %deadline = add i64 %start, {SLICE}
  %resumed = icmp slt i64 %first, 0
  %step.left = load i64, ptr %step.at
  %item.left = load i64, ptr %item.at
  %from.step = select i1 %resumed, i64 %step.left, i64 %first
  %from.item = select i1 %resumed, i64 %item.left, i64 0
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %begin.one, label %team
begin.one:
  %first.begin = call i64 @ticks_if(ptr %log)
  br label %one
one:
  %s = phi i64 [ %from.step, %begin.one ], [ %s.next, %next ]
  %i = phi i64 [ %from.item, %begin.one ], [ 0, %next ]
  %since = phi i64 [ %first.begin, %begin.one ], [ %ended, %next ]    ; where steps are noted: the last one's end
  %over = icmp sge i64 %s, %last
  br i1 %over, label %done, label %do
do:
  %row = mul i64 %s, {STEP.size}
  %record = getelementptr i64, ptr %steps, i64 %row
{field("words.p", "%record", STEP.words)}
{field("items.p", "%record", STEP.items)}
{field("stride.p", "%record", STEP.stride)}
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  br i1 %logged, label %note, label %compute
compute:
  %to.plain = call i64 @stretch(ptr %kernel, ptr %words, i64 %i, i64 %items, ptr %scratch, ptr %stride.p, ptr %clock,
                                i64 %deadline)
  br label %next
note:
  %to.noted = call i64 @stretch(ptr %kernel, ptr %words, i64 %i, i64 %items, ptr %scratch, ptr %stride.p, ptr %clock,
                                i64 %deadline)
  %amount = sub i64 %to.noted, %i
  %noted = call i64 @note(ptr %log, i64 %since, i64 %s, i64 %amount)
  br label %next
next:
  %to = phi i64 [ %to.plain, %compute ], [ %to.noted, %note ]
  %ended = phi i64 [ 0, %compute ], [ %noted, %note ]
  %s.next = add i64 %s, 1
  %whole = icmp sge i64 %to, %items
  br i1 %whole, label %one, label %pause
pause:
  store i64 %s, ptr %step.at
  store i64 %to, ptr %item.at
  br label %time.up
team:
  br i1 %resumed, label %go.on, label %begin
begin:
  call void @keep_apart(ptr %control, i64 %threads)
  %odd = atomicrmw add ptr %control, i32 1 seq_cst          ; odd: the job's description is being written
  %number = add i32 %odd, 2
  %wide = zext i32 %number to i64
  %new.job = shl i64 %wide, 32
  call void @restamp(ptr %steps, i64 %first, i64 %last, i64 %new.job)
{field("steps.p", "%control", CONTROL.steps)}
{field("first.p", "%control", CONTROL.first)}
{field("last.p", "%control", CONTROL.last)}
{field("sleepers", "%control", CONTROL.sleeping_workers)}
  store ptr %steps, ptr %steps.p
  store i64 %first, ptr %first.p
  store i64 %last, ptr %last.p
  store i64 %new.job, ptr %job.p
  call void @change(ptr %control, ptr %sleepers)
  br label %go.on
go.on:
  %job = load i64, ptr %job.p
  %left = call i64 @walk(ptr %control, ptr %steps, i64 %from.step, i64 %last, ptr %scratch, i64 %job, i64 %deadline,
                        i64 0, ptr %log)
  store i64 %left, ptr %step.at
  %finished = icmp slt i64 %left, 0
  br i1 %finished, label %done, label %time.up
time.up:
  call void @leave_mode(i64 %mode)
  %noted.up = call i64 @note(ptr %log, i64 %begun, i64 {NO_STEP}, i64 %last)
  ret i32 1
done:
  call void @leave_mode(i64 %mode)
  %noted.done = call i64 @note(ptr %log, i64 %begun, i64 {NO_STEP}, i64 %last)
  ret i32 0
}}
"""

_WORK = f"""
define void @cenote_work(ptr %control, i64 %index) nounwind {{
entry:
{field("active", "%control", CONTROL.active)}
{field("sleepers", "%control", CONTROL.sleeping_workers)}
{field("spin.p", "%control", CONTROL.spin)}
{field("steps.p", "%control", CONTROL.steps)}
{field("first.p", "%control", CONTROL.first)}
{field("last.p", "%control", CONTROL.last)}
{field("scratch.p", "%control", CONTROL.scratch)}
{field("stride.p", "%control", CONTROL.scratch_stride)}
{field("stop.p", "%control", CONTROL.stop)}
  br label %job
job:
  %seen = phi i32 [ 0, %entry ], [ %seen, %look ], [ %number, %leave ]
  %spin.short = load i64, ptr %spin.p
  %spin = mul i64 %spin.short, {BETWEEN_JOBS}
  call void @wait_while(ptr %control, i32 %seen, ptr %sleepers, i64 %spin, ptr null)
  br label %look
look:
  %early = load atomic i32, ptr %control acquire, align 8
  %same = icmp eq i32 %early, %seen
  br i1 %same, label %job, label %enter
enter:
  %in = atomicrmw add ptr %active, i64 1 seq_cst            ; from here the step table must not be freed
  br label %read
read:
  %number = load atomic i32, ptr %control seq_cst, align 8
  %steps = load ptr, ptr %steps.p
  %first = load i64, ptr %first.p
  %last = load i64, ptr %last.p
  %base = load ptr, ptr %scratch.p
  %stride = load i64, ptr %stride.p
  fence seq_cst
  %again = load atomic i32, ptr %control seq_cst, align 8
  %parity = and i32 %number, 1
  %even = icmp eq i32 %parity, 0
  %stable = icmp eq i32 %number, %again
  %whole = and i1 %even, %stable
  br i1 %whole, label %known, label %retry
retry:
  call void asm sideeffect "PAUSE", ""()
  br label %read
known:
  %stop = load i64, ptr %stop.p
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %any
any:
  %some = icmp slt i64 %first, %last
  br i1 %some, label %work, label %leave
work:
  %offset = mul i64 %stride, %index
  %scratch = getelementptr i8, ptr %base, i64 %offset
  %log = call ptr @log_of(ptr %control, i64 %index)
  %wide = zext i32 %number to i64
  %job.stamp = shl i64 %wide, 32
{field("flush.p", "%steps", STEP.flush)}
  %flush = load i64, ptr %flush.p
  %mode = call i64 @enter_mode(i64 %flush)
  %at = call i64 @walk(ptr %control, ptr %steps, i64 %first, i64 %last, ptr %scratch, i64 %job.stamp, i64 {NEVER},
                      i64 %index, ptr %log)
  br label %leave
leave:
  %out = atomicrmw sub ptr %active, i64 1 seq_cst
  br label %job
end:
  %out.2 = atomicrmw sub ptr %active, i64 1 seq_cst
  ret void
}}
"""


DRIVERS = ("cenote_run", "cenote_work", "cenote_halt", "cenote_rounds")


def driver_sources(target: Target) -> list[Driver]:
    """The driver's functions, as things to compile."""
    return [Driver(name, target) for name in DRIVERS]


@cache
def direct_call() -> Callable[..., int] | None:
    """cenote_call, or None where native code cannot find an array's data. While it gives 1, call it again."""
    if DATA_FIELD is None:
        return None
    source = Driver("cenote_call", jit.host_target())
    address = jit.addresses([source], jit.host_target())[source.symbol]
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.py_object] * CALL_ARRAYS)(address)


@cache
def driver_abi() -> DriverAbi:
    """The driver for this machine, loaded."""
    found = jit.addresses(driver_sources(jit.host_target()), jit.host_target())
    return DriverAbi(*(found[name] for name in DRIVERS))


@dataclass(frozen=True)
class Driver:
    """One function of the driver (those of `DRIVERS`, and cenote_call), as a thing to compile."""

    symbol: str
    target: Target

    def emit(self, target: Target) -> Driver:
        """Itself: the driver is written as LLVM text."""
        return self

    def module(self) -> str:
        """The LLVM module. The last step of a run must have its barrier set, so that a run ends when all is done."""
        triple = self.target.triple
        arm, x86 = triple.startswith(("aarch64", "arm64")), triple.startswith(("x86_64", "amd64"))
        modes = MODES["arm" if arm else "x86" if x86 else ""]
        apart = KEEP_APART if "linux" in triple else NO_KEEP_APART
        log = CLOCK + notes("arm" if arm else "x86" if x86 else "", "linux" in triple)
        bodies = {
            "cenote_run": modes + log + STRETCH + RESTAMP + CHANGE + HELPERS + apart + _RUN,
            "cenote_work": modes + log + CHANGE + HELPERS + apart + _WORK,
            "cenote_halt": RESTAMP + CHANGE + HALT,
            "cenote_rounds": CLOCK + ROUNDS,
            "cenote_call": modes + CLOCK + STRETCH + CALL_ON_ARRAYS,
        }
        text = bodies[self.symbol].replace("DATA_FIELD", str(DATA_FIELD or 0))
        return text.replace("PAUSE", "yield" if arm else "pause").replace("FUTEX", "98" if arm else "202")
