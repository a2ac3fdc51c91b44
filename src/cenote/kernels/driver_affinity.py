"""The piece of the native driver that keeps a team's workers off the CPU of their caller, as LLVM text.

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
"""

from __future__ import annotations

from cenote.kernels.driver_parts import field
from cenote.runtime.layouts import CONTROL, CPU_WORDS

_THREAD_CLOCK = 6  # of a thread, by its number: what it has run, not what it was promised

# Needs `CLOCK` and the CPU of `driver_notes`.
KEEP_APART = f"""
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

; Are both sets of CPUs the same?
define internal i1 @same_cpus(ptr %a, ptr %b) nounwind noinline {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %equal ]
  %over = icmp eq i64 %i, {CPU_WORDS}
  br i1 %over, label %done, label %look
look:
  %a.p = getelementptr i64, ptr %a, i64 %i
  %b.p = getelementptr i64, ptr %b, i64 %i
  %a.word = load i64, ptr %a.p
  %b.word = load i64, ptr %b.p
  %same = icmp eq i64 %a.word, %b.word
  br i1 %same, label %equal, label %done
equal:
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i1 %over
}}

; Where this thread may run, without the CPU that it is on unless that is all it has. False where the system won't tell.
define internal i1 @cpus_beside(ptr %cpus, i64 %cpu) nounwind noinline {{
entry:
  %none = alloca [{CPU_WORDS} x i64]
  call void @llvm.memset.p0.i64(ptr %none, i8 0, i64 {CPU_WORDS * 8}, i1 false)
  %r = call i32 @sched_getaffinity(i32 0, i64 {CPU_WORDS * 8}, ptr %cpus)
  %told = icmp eq i32 %r, 0
  %known = icmp ult i64 %cpu, {CPU_WORDS * 64}
  %good = and i1 %told, %known
  br i1 %good, label %take, label %no
take:
  %at = lshr i64 %cpu, 6
  %shift = and i64 %cpu, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %word.p = getelementptr i64, ptr %cpus, i64 %at
  %all = load i64, ptr %word.p
  %rest = and i64 %all, %others
  store i64 %rest, ptr %word.p
  %empty = call i1 @same_cpus(ptr %cpus, ptr %none)
  br i1 %empty, label %only, label %yes
only:
  store i64 %all, ptr %word.p
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Before the caller publishes a job: the workers may run where it may, but not on its CPU.
define internal void @keep_apart(ptr %control, i64 %threads) nounwind noinline {{
entry:
  %cpus = alloca [{CPU_WORDS} x i64]
{field("caller.p", "%control", CONTROL.caller_cpu)}
{field("sleepers.p", "%control", CONTROL.sleeping_workers)}
{field("kept.p", "%control", CONTROL.cpus)}
  %cpu = call i32 @cpu()
  %wide = sext i32 %cpu to i64
  %here = add i64 %wide, 1                                 ; a new worker stores 0: none
  %there = load atomic i64, ptr %caller.p seq_cst, align 8
  %still = icmp eq i64 %here, %there
  %asleep = load atomic i64, ptr %sleepers.p monotonic, align 8
  %awake = icmp eq i64 %asleep, 0
  %nothing = and i1 %still, %awake
  br i1 %nothing, label %done, label %ask
ask:
  %told = call i1 @cpus_beside(ptr %cpus, i64 %wide)
  br i1 %told, label %compare, label %done
compare:
  %same = call i1 @same_cpus(ptr %cpus, ptr %kept.p)
  %kept = and i1 %same, %still
  br i1 %kept, label %done, label %set
set:
  call void @llvm.memcpy.p0.p0.i64(ptr %kept.p, ptr %cpus, i64 {CPU_WORDS * 8}, i1 false)
  store atomic i64 %here, ptr %caller.p seq_cst, align 8   ; before the first number is read: see above
  br label %worker
worker:
  %i = phi i64 [ 1, %set ], [ %i.next, %next ]
  %over = icmp sge i64 %i, %threads
  br i1 %over, label %done, label %look
look:
  %place = add i64 %i, {CONTROL.thread_ids}
  %id.p = getelementptr i64, ptr %control, i64 %place
  %id = load atomic i64, ptr %id.p seq_cst, align 8
  %there.is = icmp sgt i64 %id, 0
  br i1 %there.is, label %move, label %next
move:
  %id.narrow = trunc i64 %id to i32
  %r = call i32 @sched_setaffinity(i32 %id.narrow, i64 {CPU_WORDS * 8}, ptr %cpus)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %worker
done:
  ret void
}}

; Processor time of a thread in nanoseconds; 0 where the system does not tell.
define internal i64 @processor_time(i32 %id) nounwind noinline {{
entry:
  %time = alloca [2 x i64]
  %nanoseconds.p = getelementptr i64, ptr %time, i64 1
  store i64 0, ptr %time
  store i64 0, ptr %nanoseconds.p
  %inverse = xor i32 %id, -1
  %shifted = shl i32 %inverse, 3
  %clock = or i32 %shifted, {_THREAD_CLOCK}
  %r = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  %told = icmp eq i32 %r, 0
  %known = select i1 %told, i64 %sum, i64 0
  ret i64 %known
}}

; While the caller waits: the workers may have its CPU, too, and those that stand still are moved there (one that sleeps
; stays where it is). What is noted is no CPU, so that `keep_apart` looks again.
define internal void @give_way(ptr %control, i64 %threads) nounwind noinline {{
entry:
  %cpus = alloca [{CPU_WORDS} x i64]
  %own = alloca [{CPU_WORDS} x i64]
  call void @llvm.memset.p0.i64(ptr %cpus, i8 0, i64 {CPU_WORDS * 8}, i1 false)
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 {CPU_WORDS * 8}, i1 false)
{field("caller.p", "%control", CONTROL.caller_cpu)}
  %cpu = call i32 @cpu()
  %wide = sext i32 %cpu to i64
  %r = call i32 @sched_getaffinity(i32 0, i64 {CPU_WORDS * 8}, ptr %cpus)
  %told = icmp eq i32 %r, 0
  %known = icmp ult i64 %wide, {CPU_WORDS * 64}
  %good = and i1 %told, %known
  br i1 %good, label %set, label %done
set:
  store atomic i64 0, ptr %caller.p seq_cst, align 8
  %at = lshr i64 %wide, 6
  %shift = and i64 %wide, 63
  %bit = shl i64 1, %shift
  %own.p = getelementptr i64, ptr %own, i64 %at
  store i64 %bit, ptr %own.p
  br label %worker
worker:
  %i = phi i64 [ 1, %set ], [ %i.next, %next ]
  %over = icmp sge i64 %i, %threads
  br i1 %over, label %done, label %look
look:
  %place = add i64 %i, {CONTROL.thread_ids}
  %id.p = getelementptr i64, ptr %control, i64 %place
  %id.wide = load atomic i64, ptr %id.p seq_cst, align 8
  %id = trunc i64 %id.wide to i32
  %there.is = icmp sgt i32 %id, 0
  br i1 %there.is, label %open, label %next
open:
  %before = call i64 @processor_time(i32 %id)
  %opened = call i32 @sched_setaffinity(i32 %id, i64 {CPU_WORDS * 8}, ptr %cpus)
  %after = call i64 @processor_time(i32 %id)
  %still = icmp eq i64 %before, %after
  %says = icmp sgt i64 %after, 0
  %fetch = and i1 %still, %says
  br i1 %fetch, label %move, label %next
move:
  %moved = call i32 @sched_setaffinity(i32 %id, i64 {CPU_WORDS * 8}, ptr %own)
  %free = call i32 @sched_setaffinity(i32 %id, i64 {CPU_WORDS * 8}, ptr %cpus)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %worker
done:
  ret void
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

NO_KEEP_APART = """
define internal void @keep_apart(ptr %control, i64 %threads) nounwind { ret void }
define internal void @give_way(ptr %control, i64 %threads) nounwind { ret void }
"""
