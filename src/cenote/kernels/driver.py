"""The native program driver: walks a table of steps on every thread of a team, with one call from Python.

    cenote_run(control, steps, first, last)      the caller's part: publish the job, wake the team, work along
    cenote_work(control, index)                  a worker's whole life: wait for a job, work, again

    for step in first .. last:
        while (item = fetch_add(step.counter, step.grain)) < step.items:       dynamic chunks
            step.kernel(step.words, item, min(item + grain, items), scratch of this thread)
        if step.barrier: wait for all threads

Threads wait in two phases: a bounded spin (a step is often microseconds away), then a futex, so that a waiting thread
never burns a core that somebody else needs. Which thread does which chunk varies; what a chunk computes does not.

Both records are 64-bit words. A step is 16 words: kernel, argument record, items, grain, barrier, unused …, and at
word 8, on a cache line of its own, the counter. The control block keeps each contended word on its own cache line.
"""

from __future__ import annotations

from dataclasses import dataclass

from cenote.core.target import Target

STEP_WORDS = 16
CONTROL_WORDS = 80
SEQUENCE, GENERATION, ARRIVED, SLEEPING_WORKERS, SLEEPING_AT_BARRIER = 0, 8, 16, 24, 32
THREADS, STEPS, FIRST, LAST, SCRATCH, SCRATCH_STRIDE, SPIN, STOP = 40, 41, 42, 43, 44, 45, 46, 47

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_EVERYBODY = 2**31 - 1

_HELPERS = f"""
declare i64 @syscall(i64, ...)

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
  br label %asleep
asleep:
  %now = load atomic i32, ptr %word seq_cst, align 8
  %woken = icmp ne i32 %now, %old
  br i1 %woken, label %awake, label %block
block:
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 {_FUTEX_WAIT_PRIVATE}, i32 %old, i64 0, i64 0, i64 0)
  br label %asleep
awake:
  %after = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %done
done:
  ret void
}}

define internal void @change(ptr %word, ptr %sleepers) nounwind noinline {{
  %old = atomicrmw add ptr %word, i32 1 seq_cst
  %waiting = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %waiting, 0
  br i1 %any, label %wake, label %done
wake:
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 {_FUTEX_WAKE_PRIVATE}, i32 {_EVERYBODY}, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}}

define internal void @barrier(ptr %control) nounwind noinline {{
  %generation = getelementptr i64, ptr %control, i64 {GENERATION}
  %arrived = getelementptr i64, ptr %control, i64 {ARRIVED}
  %sleepers = getelementptr i64, ptr %control, i64 {SLEEPING_AT_BARRIER}
  %threads.p = getelementptr i64, ptr %control, i64 {THREADS}
  %spin.p = getelementptr i64, ptr %control, i64 {SPIN}
  %threads = load i64, ptr %threads.p
  %mine = load atomic i32, ptr %generation acquire, align 8
  %others = atomicrmw add ptr %arrived, i64 1 seq_cst
  %count = add i64 %others, 1
  %last = icmp eq i64 %count, %threads
  br i1 %last, label %release, label %wait
release:
  store atomic i64 0, ptr %arrived release, align 8
  call void @change(ptr %generation, ptr %sleepers)
  ret void
wait:
  %spin = load i64, ptr %spin.p
  call void @wait_while(ptr %generation, i32 %mine, ptr %sleepers, i64 %spin)
  ret void
}}

define internal void @walk(ptr %control, i64 %index) nounwind noinline {{
entry:
  %threads.p = getelementptr i64, ptr %control, i64 {THREADS}
  %steps.p = getelementptr i64, ptr %control, i64 {STEPS}
  %first.p = getelementptr i64, ptr %control, i64 {FIRST}
  %last.p = getelementptr i64, ptr %control, i64 {LAST}
  %scratch.p = getelementptr i64, ptr %control, i64 {SCRATCH}
  %stride.p = getelementptr i64, ptr %control, i64 {SCRATCH_STRIDE}
  %steps = load ptr, ptr %steps.p
  %first = load i64, ptr %first.p
  %last = load i64, ptr %last.p
  %base = load ptr, ptr %scratch.p
  %stride = load i64, ptr %stride.p
  %offset = mul i64 %stride, %index
  %scratch = getelementptr i8, ptr %base, i64 %offset
  br label %step
step:
  %s = phi i64 [ %first, %entry ], [ %s.next, %step.end ]
  %over = icmp sge i64 %s, %last
  br i1 %over, label %finish, label %open
open:
  %row = mul i64 %s, {STEP_WORDS}
  %record = getelementptr i64, ptr %steps, i64 %row
  %words.p = getelementptr i64, ptr %record, i64 1
  %items.p = getelementptr i64, ptr %record, i64 2
  %grain.p = getelementptr i64, ptr %record, i64 3
  %barrier.p = getelementptr i64, ptr %record, i64 4
  %counter = getelementptr i64, ptr %record, i64 8
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  %grain = load i64, ptr %grain.p
  %wall = load i64, ptr %barrier.p
  br label %grab
grab:
  %from = atomicrmw add ptr %counter, i64 %grain monotonic
  %some = icmp slt i64 %from, %items
  br i1 %some, label %chunk, label %step.done
chunk:
  %upto = add i64 %from, %grain
  %short = icmp slt i64 %upto, %items
  %to = select i1 %short, i64 %upto, i64 %items
  call void %kernel(ptr %words, i64 %from, i64 %to, ptr %scratch)
  br label %grab
step.done:
  %blocked = icmp ne i64 %wall, 0
  br i1 %blocked, label %meet, label %step.end
meet:
  call void @barrier(ptr %control)
  br label %step.end
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
  %threads.p = getelementptr i64, ptr %control, i64 {THREADS}
  %threads = load i64, ptr %threads.p
  %scratch.p = getelementptr i64, ptr %control, i64 {SCRATCH}
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %serial, label %reset
serial:
  %scratch = load ptr, ptr %scratch.p
  br label %one
one:
  %s = phi i64 [ %first, %serial ], [ %s.next, %do ]
  %over = icmp sge i64 %s, %last
  br i1 %over, label %done, label %do
do:
  %row = mul i64 %s, {STEP_WORDS}
  %record = getelementptr i64, ptr %steps, i64 %row
  %words.p = getelementptr i64, ptr %record, i64 1
  %items.p = getelementptr i64, ptr %record, i64 2
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %items = load i64, ptr %items.p
  call void %kernel(ptr %words, i64 0, i64 %items, ptr %scratch)
  %s.next = add i64 %s, 1
  br label %one
reset:
  %c = phi i64 [ %first, %entry ], [ %c.next, %clear ]
  %cleared = icmp sge i64 %c, %last
  br i1 %cleared, label %publish, label %clear
clear:
  %c.row = mul i64 %c, {STEP_WORDS}
  %c.word = add i64 %c.row, 8
  %counter = getelementptr i64, ptr %steps, i64 %c.word
  store i64 0, ptr %counter
  %c.next = add i64 %c, 1
  br label %reset
publish:
  %steps.p = getelementptr i64, ptr %control, i64 {STEPS}
  %first.p = getelementptr i64, ptr %control, i64 {FIRST}
  %last.p = getelementptr i64, ptr %control, i64 {LAST}
  store ptr %steps, ptr %steps.p
  store i64 %first, ptr %first.p
  store i64 %last, ptr %last.p
  %sleepers = getelementptr i64, ptr %control, i64 {SLEEPING_WORKERS}
  call void @change(ptr %control, ptr %sleepers)
  call void @walk(ptr %control, i64 0)
  br label %done
done:
  ret void
}}
"""

_WORK = f"""
define void @cenote_work(ptr %control, i64 %index) nounwind {{
entry:
  %sleepers = getelementptr i64, ptr %control, i64 {SLEEPING_WORKERS}
  %spin.p = getelementptr i64, ptr %control, i64 {SPIN}
  %stop.p = getelementptr i64, ptr %control, i64 {STOP}
  br label %job
job:
  %seen = phi i32 [ 0, %entry ], [ %next, %work ]
  %spin = load i64, ptr %spin.p
  call void @wait_while(ptr %control, i32 %seen, ptr %sleepers, i64 %spin)
  %stop = load i64, ptr %stop.p
  %leave = icmp ne i64 %stop, 0
  br i1 %leave, label %done, label %work
work:
  call void @walk(ptr %control, i64 %index)
  %next = add i32 %seen, 1
  br label %job
done:
  ret void
}}
"""


@dataclass(frozen=True)
class Driver:
    """One function of the driver: what `cenote.codegen.jit` needs to build it."""

    symbol: str
    target: Target

    def module(self) -> str:
        """The LLVM module; the last step of a program must have its barrier set, so that a run ends together."""
        arm = self.target.triple.startswith(("aarch64", "arm64"))
        helpers = _HELPERS.replace("PAUSE", "yield" if arm else "pause").replace("FUTEX", "98" if arm else "202")
        if self.symbol == "cenote_run":
            return helpers + _RUN
        return helpers + _WORK
