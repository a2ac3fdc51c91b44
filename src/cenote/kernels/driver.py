"""The native program driver: walks a table of steps on every thread of a team, with one call from Python.

    cenote_run(control, steps, first, last)      the caller's part: publish the job, wake the team, work along
    cenote_work(control, index)                  a worker's whole life: wait for a job, work, again
    cenote_call(record, array, array …)          one kernel on the caller's arrays, for small work

    for step in first .. last:
        while a chunk of the step is left: take it (compare-and-swap), run the kernel, count its items as done
        if step.barrier: wait until the items of all steps since the last barrier are done

A barrier waits for work, not for threads: a worker that the system has not scheduled holds nobody up, the others do
its share, and it joins later at whatever step is under way. (With a barrier that counted threads, 100 small steps took
6.6 ms instead of 0.1 ms on a machine whose cores were shared.) So that a late worker never touches a newer job, the
counters of a step carry the job's number in their upper half, and the job's description is guarded by a sequence lock.

Threads wait in two phases: a bounded spin (a step is often microseconds away), then a futex, so that a waiting thread
never burns a core that somebody else needs. Which thread does which chunk varies; what a chunk computes does not.

Both records are 64-bit words. Step: kernel, argument record, items, grain, barrier, first step since the last barrier;
at word 8 the items taken, at word 16 the items done, each on a cache line of its own. The control block keeps each
contended word on its own line.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from cenote.codegen import jit
from cenote.core.target import Target
from cenote.runtime.memory import DATA_FIELD
from cenote.runtime.threads import DriverAbi

STEP_WORDS = 24
TAKEN, DONE = 8, 16
CONTROL_WORDS = 80
SEQUENCE, GENERATION, ACTIVE, SLEEPING_WORKERS, SLEEPING_AT_BARRIER = 0, 8, 16, 24, 32
THREADS, STEPS, FIRST, LAST, SCRATCH, SCRATCH_STRIDE, SPIN = 40, 41, 42, 43, 44, 45, 46

CONTROL = {
    "active": ACTIVE,
    "threads": THREADS,
    "scratch": SCRATCH,
    "scratch_stride": SCRATCH_STRIDE,
    "spin": SPIN,
}

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_ALL = 2**31 - 1


def _field(name: str, base: str, word: int) -> str:
    return f"  %{name} = getelementptr i64, ptr {base}, i64 {word}"


_HELPERS = f"""
declare i64 @syscall(i64, ...)

; Wait until the word differs from `old`: spin, then sleep. May return early.
define internal void @wait_while(ptr %word, i32 %old, ptr %sleepers, i64 %spin) nounwind noinline {{
entry:
  br label %spinning
spinning:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %seen = load atomic i32, ptr %word acquire, align 8
  %changed = icmp ne i32 %seen, %old
  br i1 %changed, label %done, label %relax
relax:
  call void asm sideeffect "PAUSE", ""()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %spin
  br i1 %more, label %again, label %sleep
again:
  br label %spinning
sleep:
  %before = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %now = load atomic i32, ptr %word seq_cst, align 8
  %woken = icmp ne i32 %now, %old
  br i1 %woken, label %awake, label %block
block:
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 {_FUTEX_WAIT_PRIVATE}, i32 %old, i64 0, i64 0, i64 0)
  br label %awake
awake:
  %after = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %done
done:
  ret void
}}

; Add one to the word and wake whoever sleeps on it.
define internal void @change(ptr %word, ptr %sleepers) nounwind noinline {{
  %old = atomicrmw add ptr %word, i32 1 seq_cst
  %waiting = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %waiting, 0
  br i1 %any, label %wake, label %done
wake:
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 {_FUTEX_WAKE_PRIVATE}, i32 {_ALL}, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}}

; Are all items of steps from..to done, or is the job over?
define internal i1 @finished(ptr %steps, i64 %from, i64 %to, i64 %job) nounwind noinline {{
entry:
  br label %step
step:
  %s = phi i64 [ %from, %entry ], [ %s.next, %good ]
  %over = icmp sgt i64 %s, %to
  br i1 %over, label %yes, label %look
look:
  %row = mul i64 %s, {STEP_WORDS}
  %record = getelementptr i64, ptr %steps, i64 %row
{_field("items.p", "%record", 2)}
{_field("done.p", "%record", DONE)}
  %items = load i64, ptr %items.p
  %done = load atomic i64, ptr %done.p acquire, align 8
  %whole = or i64 %job, %items
  %complete = icmp eq i64 %done, %whole
  br i1 %complete, label %good, label %stale
stale:
  %stamp = and i64 %done, -4294967296
  %same = icmp eq i64 %stamp, %job
  br i1 %same, label %no, label %yes
good:
  %s.next = add i64 %s, 1
  br label %step
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @walk(ptr %control, ptr %steps, i64 %first, i64 %last, ptr %scratch, i64 %job) nounwind noinline {{
entry:
{_field("generation", "%control", GENERATION)}
{_field("sleepers", "%control", SLEEPING_AT_BARRIER)}
{_field("spin.p", "%control", SPIN)}
  %spin = load i64, ptr %spin.p
  br label %step
step:
  %s = phi i64 [ %first, %entry ], [ %s.next, %step.end ]
  %over = icmp sge i64 %s, %last
  br i1 %over, label %finish, label %open
open:
  %row = mul i64 %s, {STEP_WORDS}
  %record = getelementptr i64, ptr %steps, i64 %row
{_field("words.p", "%record", 1)}
{_field("items.p", "%record", 2)}
{_field("grain.p", "%record", 3)}
{_field("barrier.p", "%record", 4)}
{_field("group.p", "%record", 5)}
{_field("taken.p", "%record", TAKEN)}
{_field("done.p", "%record", DONE)}
  %items = load i64, ptr %items.p
  %grain = load i64, ptr %grain.p
  %wall = load i64, ptr %barrier.p
  br label %look
look:
  %taken = load atomic i64, ptr %taken.p monotonic, align 8
  br label %grab
grab:
  %seen = phi i64 [ %taken, %look ], [ %actual, %lost ]
  %stamp = and i64 %seen, -4294967296
  %mine = icmp eq i64 %stamp, %job
  %from = and i64 %seen, 4294967295
  %some = icmp slt i64 %from, %items
  %go = and i1 %mine, %some
  br i1 %go, label %try, label %step.done
try:
  %upto = add i64 %from, %grain
  %short = icmp slt i64 %upto, %items
  %to = select i1 %short, i64 %upto, i64 %items
  %claimed = or i64 %job, %to
  %pair = cmpxchg ptr %taken.p, i64 %seen, i64 %claimed monotonic monotonic
  %actual = extractvalue {{ i64, i1 }} %pair, 0
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %chunk, label %lost
lost:
  br label %grab
chunk:
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  call void %kernel(ptr %words, i64 %from, i64 %to, ptr %scratch)
  %amount = sub i64 %to, %from
  %before = atomicrmw add ptr %done.p, i64 %amount seq_cst
  %total = add i64 %before, %amount
  %whole = or i64 %job, %items
  %complete = icmp eq i64 %total, %whole
  br i1 %complete, label %announce, label %look
announce:
  call void @change(ptr %generation, ptr %sleepers)
  br label %step.done
step.done:
  %blocked = icmp ne i64 %wall, 0
  br i1 %blocked, label %meet, label %step.end
meet:
  %group = load i64, ptr %group.p
  br label %check
check:
  %era = load atomic i32, ptr %generation acquire, align 8
  %ready = call i1 @finished(ptr %steps, i64 %group, i64 %s, i64 %job)
  br i1 %ready, label %step.end, label %wait
wait:
  call void @wait_while(ptr %generation, i32 %era, ptr %sleepers, i64 %spin)
  br label %check
step.end:
  %s.next = add i64 %s, 1
  br label %step
finish:
  ret void
}}
"""

_RUN = f"""
define void @cenote_run(ptr %control, ptr %steps, i64 %first, i64 %last) nounwind {{
entry:
{_field("threads.p", "%control", THREADS)}
{_field("scratch.p", "%control", SCRATCH)}
  %threads = load i64, ptr %threads.p
  %scratch = load ptr, ptr %scratch.p
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %one, label %begin
one:
  %s = phi i64 [ %first, %entry ], [ %s.next, %do ]
  %over = icmp sge i64 %s, %last
  br i1 %over, label %done, label %do
do:
  %row = mul i64 %s, {STEP_WORDS}
  %record = getelementptr i64, ptr %steps, i64 %row
{_field("words.p", "%record", 1)}
{_field("items.p", "%record", 2)}
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  call void %kernel(ptr %words, i64 0, i64 %items, ptr %scratch)
  %s.next = add i64 %s, 1
  br label %one
begin:
  %odd = atomicrmw add ptr %control, i32 1 seq_cst          ; odd: the job's description is being written
  %number = add i32 %odd, 2
  %wide = zext i32 %number to i64
  %job = shl i64 %wide, 32
  br label %reset
reset:
  %c = phi i64 [ %first, %begin ], [ %c.next, %clear ]
  %cleared = icmp sge i64 %c, %last
  br i1 %cleared, label %publish, label %clear
clear:
  %c.row = mul i64 %c, {STEP_WORDS}
  %c.record = getelementptr i64, ptr %steps, i64 %c.row
{_field("taken.p", "%c.record", TAKEN)}
{_field("done.p", "%c.record", DONE)}
  store atomic i64 %job, ptr %taken.p monotonic, align 8
  store atomic i64 %job, ptr %done.p monotonic, align 8
  %c.next = add i64 %c, 1
  br label %reset
publish:
{_field("steps.p", "%control", STEPS)}
{_field("first.p", "%control", FIRST)}
{_field("last.p", "%control", LAST)}
{_field("sleepers", "%control", SLEEPING_WORKERS)}
  store ptr %steps, ptr %steps.p
  store i64 %first, ptr %first.p
  store i64 %last, ptr %last.p
  call void @change(ptr %control, ptr %sleepers)
  call void @walk(ptr %control, ptr %steps, i64 %first, i64 %last, ptr %scratch, i64 %job)
  br label %done
done:
  ret void
}}
"""

_WORK = f"""
define void @cenote_work(ptr %control, i64 %index) nounwind {{
entry:
{_field("active", "%control", ACTIVE)}
{_field("sleepers", "%control", SLEEPING_WORKERS)}
{_field("spin.p", "%control", SPIN)}
{_field("steps.p", "%control", STEPS)}
{_field("first.p", "%control", FIRST)}
{_field("last.p", "%control", LAST)}
{_field("scratch.p", "%control", SCRATCH)}
{_field("stride.p", "%control", SCRATCH_STRIDE)}
  br label %job
job:
  %seen = phi i32 [ 0, %entry ], [ %seen, %look ], [ %number, %leave ]
  %spin = load i64, ptr %spin.p
  call void @wait_while(ptr %control, i32 %seen, ptr %sleepers, i64 %spin)
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
  br i1 %whole, label %work, label %retry
retry:
  call void asm sideeffect "PAUSE", ""()
  br label %read
work:
  %offset = mul i64 %stride, %index
  %scratch = getelementptr i8, ptr %base, i64 %offset
  %wide = zext i32 %number to i64
  %job.stamp = shl i64 %wide, 32
  call void @walk(ptr %control, ptr %steps, i64 %first, i64 %last, ptr %scratch, i64 %job.stamp)
  br label %leave
leave:
  %out = atomicrmw sub ptr %active, i64 1 seq_cst
  br label %job
}}
"""


def driver_sources(target: Target) -> list[Driver]:
    """The driver's two functions, as things to compile."""
    return [Driver(name, target) for name in ("cenote_run", "cenote_work")]


@cache
def direct_call() -> Callable[..., None] | None:
    """cenote_call, or None where native code cannot find an array's data."""
    if DATA_FIELD is None:
        return None
    source = Driver("cenote_call", jit.host_target())
    address = jit.addresses([source], jit.host_target())[source.symbol]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.py_object] * CALL_ARRAYS)(address)


@cache
def driver_abi() -> DriverAbi:
    """The driver for this machine, loaded."""
    found = jit.addresses(driver_sources(jit.host_target()), jit.host_target())
    return DriverAbi(found["cenote_run"], found["cenote_work"], CONTROL, CONTROL_WORDS, STEP_WORDS)


CALL_ARRAYS = 4  # array objects that cenote_call takes; absent ones are None
CALL_KERNEL, CALL_WORDS, CALL_ITEMS, CALL_SCRATCH, CALL_PATCHES = 0, 1, 2, 3, 4
CALL_HEADER = 5  # then three words a patch: where in the argument record, which array, bytes from its start

_CALL = f"""
define void @cenote_call(ptr %record, ptr %o0, ptr %o1, ptr %o2, ptr %o3) nounwind {{
entry:
  %objects = alloca [4 x ptr]
  store ptr %o0, ptr %objects
  %s1 = getelementptr ptr, ptr %objects, i64 1
  store ptr %o1, ptr %s1
  %s2 = getelementptr ptr, ptr %objects, i64 2
  store ptr %o2, ptr %s2
  %s3 = getelementptr ptr, ptr %objects, i64 3
  store ptr %o3, ptr %s3
  %words.p = getelementptr i64, ptr %record, i64 {CALL_WORDS}
  %items.p = getelementptr i64, ptr %record, i64 {CALL_ITEMS}
  %scratch.p = getelementptr i64, ptr %record, i64 {CALL_SCRATCH}
  %count.p = getelementptr i64, ptr %record, i64 {CALL_PATCHES}
  %first = getelementptr i64, ptr %record, i64 {CALL_HEADER}
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  %scratch = load ptr, ptr %scratch.p
  %count = load i64, ptr %count.p
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %patch ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %go, label %patch
patch:
  %row = mul i64 %i, 3
  %place.p = getelementptr i64, ptr %first, i64 %row
  %which.p = getelementptr i64, ptr %place.p, i64 1
  %offset.p = getelementptr i64, ptr %place.p, i64 2
  %place = load i64, ptr %place.p
  %which = load i64, ptr %which.p
  %offset = load i64, ptr %offset.p
  %slot = getelementptr ptr, ptr %objects, i64 %which
  %object = load ptr, ptr %slot
  %field = getelementptr i8, ptr %object, i64 DATA_FIELD
  %data = load ptr, ptr %field
  %moved = getelementptr i8, ptr %data, i64 %offset
  %word = getelementptr i64, ptr %words, i64 %place
  store ptr %moved, ptr %word
  %i.next = add i64 %i, 1
  br label %next
go:
  call void %kernel(ptr %words, i64 0, i64 %items, ptr %scratch)
  ret void
}}
"""


@dataclass(frozen=True)
class Driver:
    """One function of the driver (cenote_run, cenote_work, cenote_call), as a thing to compile."""

    symbol: str
    target: Target

    def emit(self, target: Target) -> Driver:
        """Itself: the driver is written as LLVM text."""
        return self

    def module(self) -> str:
        """The LLVM module. The last step of a run must have its barrier set, so that a run ends when all is done."""
        arm = self.target.triple.startswith(("aarch64", "arm64"))
        bodies = {"cenote_run": _HELPERS + _RUN, "cenote_work": _HELPERS + _WORK, "cenote_call": _CALL}
        text = bodies[self.symbol].replace("DATA_FIELD", str(DATA_FIELD or 0))
        return text.replace("PAUSE", "yield" if arm else "pause").replace("FUTEX", "98" if arm else "202")
