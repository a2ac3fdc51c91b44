"""Pieces of the native driver as LLVM text: waiting and waking, the clock, working through steps.

`driver` says how they fit together, and what the records hold.
"""

from __future__ import annotations

from cenote.runtime.layouts import CONTROL, STEP

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_ALL = 2**31 - 1
SLICE, _SHORT = 50_000_000, 4_000_000  # nanoseconds
NEVER = 2**63 - 1
BETWEEN_JOBS = 3  # times as long a worker spins that waits for a job
NAP = 100_000  # nanoseconds that a caller sleeps at a barrier before it fetches workers that stand still
_COARSE_CLOCK = 6  # CLOCK_MONOTONIC_COARSE


def field(name: str, base: str, word: int) -> str:
    return f"  %{name} = getelementptr i64, ptr {base}, i64 {word}"


CHANGE = f"""
declare i64 @syscall(i64, ...)

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
"""

HELPERS = f"""
; Wait until the word differs from `old`: spin, then sleep, at most so long (a timespec, or null). May return early.
define internal void @wait_while(ptr %word, i32 %old, ptr %sleepers, i64 %spin, ptr %longest) nounwind noinline {{
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
  %r = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 {_FUTEX_WAIT_PRIVATE}, i32 %old, ptr %longest,
                                    i64 0, i64 0)
  br label %awake
awake:
  %after = atomicrmw sub ptr %sleepers, i64 1 seq_cst
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
  %row = mul i64 %s, {STEP.size}
  %record = getelementptr i64, ptr %steps, i64 %row
{field("items.p", "%record", STEP.items)}
{field("done.p", "%record", STEP.done)}
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

; Work on a job, as the thread of that index. The step at which the time was up, or -1 when the job is over.
define internal i64 @walk(ptr %control, ptr %steps, i64 %first, i64 %last, ptr %scratch, i64 %job, i64 %deadline,
    i64 %index, ptr %log) nounwind noinline {{
entry:
  %logged = icmp ne ptr %log, null
  %odd = and i64 %index, 1
  %from.back = icmp ne i64 %odd, 0
  %claim = select i1 %from.back, i64 65536, i64 1
  %longest = alloca [2 x i64]
  %nanoseconds = getelementptr i64, ptr %longest, i64 1
  store i64 0, ptr %longest
  store i64 {NAP}, ptr %nanoseconds
  %timed = icmp ne i64 %deadline, {NEVER}
  %patience = select i1 %timed, ptr %longest, ptr null
{field("generation", "%control", CONTROL.generation)}
{field("sleepers", "%control", CONTROL.sleeping_at_barrier)}
{field("spin.p", "%control", CONTROL.spin)}
{field("threads.p", "%control", CONTROL.threads)}
  %spin = load i64, ptr %spin.p
  %threads = load i64, ptr %threads.p
  br label %step
step:
  %s = phi i64 [ %first, %entry ], [ %s.next, %step.end ]
  %over = icmp sge i64 %s, %last
  br i1 %over, label %finish, label %open
open:
  %row = mul i64 %s, {STEP.size}
  %record = getelementptr i64, ptr %steps, i64 %row
{field("words.p", "%record", STEP.words)}
{field("items.p", "%record", STEP.items)}
{field("grain.p", "%record", STEP.grain)}
{field("barrier.p", "%record", STEP.barrier)}
{field("group.p", "%record", STEP.group)}
{field("taken.p", "%record", STEP.taken)}
{field("chunks.p", "%record", STEP.chunks)}
{field("done.p", "%record", STEP.done)}
  %items = load i64, ptr %items.p
  %grain = load i64, ptr %grain.p
  %chunks = load i64, ptr %chunks.p
  %wall = load i64, ptr %barrier.p
  br label %look
look:
  %taken = load atomic i64, ptr %taken.p monotonic, align 8
  br label %grab
grab:
  %seen = phi i64 [ %taken, %look ], [ %actual, %lost ]
  %stamp = and i64 %seen, -4294967296
  %mine = icmp eq i64 %stamp, %job
  %front = and i64 %seen, 65535
  %upper = lshr i64 %seen, 16
  %back = and i64 %upper, 65535
  %gone = add i64 %front, %back
  %some = icmp ult i64 %gone, %chunks
  %go = and i1 %mine, %some
  br i1 %go, label %try, label %step.done
try:
  %beyond = sub i64 %chunks, %back
  %hindmost = sub i64 %beyond, 1
  %this = select i1 %from.back, i64 %hindmost, i64 %front
  %from = mul i64 %this, %grain
  %upto = add i64 %from, %grain
  %short = icmp slt i64 %upto, %items
  %to = select i1 %short, i64 %upto, i64 %items
  %claimed = add i64 %seen, %claim
  %pair = cmpxchg ptr %taken.p, i64 %seen, i64 %claimed monotonic monotonic
  %actual = extractvalue {{ i64, i1 }} %pair, 0
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %chunk, label %lost
lost:
  br label %grab
chunk:
  %kernel = load ptr, ptr %record
  %words = load ptr, ptr %words.p
  %amount = sub i64 %to, %from
  br i1 %logged, label %compute.timed, label %compute
compute:
  call void %kernel(ptr %words, i64 %from, i64 %to, ptr %scratch)
  br label %count
compute.timed:
  %chunk.begin = call i64 @ticks()
  call void %kernel(ptr %words, i64 %from, i64 %to, ptr %scratch)
  %noted = call i64 @note(ptr %log, i64 %chunk.begin, i64 %s, i64 %amount)
  br label %count
count:
  %before = atomicrmw add ptr %done.p, i64 %amount seq_cst
  %total = add i64 %before, %amount
  %whole = or i64 %job, %items
  %complete = icmp eq i64 %total, %whole
  br i1 %complete, label %announce, label %go.on
announce:
  call void @change(ptr %generation, ptr %sleepers)
  br label %go.on
go.on:
  br i1 %timed, label %time, label %look
time:
  %now = call i64 @now()
  %late = icmp sgt i64 %now, %deadline
  br i1 %late, label %away, label %look
step.done:
  %blocked = icmp ne i64 %wall, 0
  br i1 %blocked, label %meet, label %step.end
meet:
  %group = load i64, ptr %group.p
  br label %check
check:
  %since = phi i64 [ 0, %meet ], [ %waiting.since, %wait.end ]        ; when a wait began, where it is noted
  %turns = phi i64 [ %spin, %meet ], [ %turns.next, %wait.end ]       ; to spin before it sleeps
  %gave = phi i1 [ false, %meet ], [ %gives, %wait.end ]              ; did workers get this CPU?
  %era = load atomic i32, ptr %generation acquire, align 8
  %ready = call i1 @finished(ptr %steps, i64 %group, i64 %s, i64 %job)
  %waited = icmp ne i64 %since, 0
  br i1 %ready, label %met, label %wait
met:
  br i1 %gave, label %met.late, label %met.on
met.late:
  call void @keep_apart(ptr %control, i64 %threads)
  br label %met.on
met.on:
  br i1 %waited, label %met.timed, label %step.end
met.timed:
  %noted.2 = call i64 @note(ptr %log, i64 %since, i64 %s, i64 0)
  br label %step.end
wait:
  %known = xor i1 %logged, true
  %begun = or i1 %waited, %known
  br i1 %begun, label %wait.on, label %wait.begin
wait.begin:
  %now.0 = call i64 @ticks()
  br label %wait.on
wait.on:
  %waiting.since = phi i64 [ %since, %wait ], [ %now.0, %wait.begin ]
  call void @wait_while(ptr %generation, i32 %era, ptr %sleepers, i64 %turns, ptr %patience)
  br i1 %timed, label %wait.time, label %wait.end
wait.end:
  %gives = phi i1 [ %gave, %wait.on ], [ %gave, %wait.long ], [ true, %give ]
  %turns.next = phi i64 [ %spin, %wait.on ], [ %turns.long, %wait.long ], [ 0, %give ]
  br label %check
wait.time:
  %now.2 = call i64 @now()
  %late.2 = icmp sgt i64 %now.2, %deadline
  br i1 %late.2, label %wait.away, label %wait.long
wait.long:
  %era.2 = load atomic i32, ptr %generation acquire, align 8
  %news = icmp ne i32 %era.2, %era
  %turns.long = select i1 %news, i64 %spin, i64 0                     ; after a nap without news none
  br i1 %news, label %wait.end, label %give
give:
  call void @give_way(ptr %control, i64 %threads)
  br label %wait.end
wait.away:
  %noted.3 = call i64 @note(ptr %log, i64 %waiting.since, i64 %s, i64 0)
  br label %away
step.end:
  %s.next = add i64 %s, 1
  br label %step
away:
  ret i64 %s
finish:
  ret i64 -1
}}
"""

CLOCK = f"""
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() nounwind noinline {{
  %time = alloca [2 x i64]
  %nanoseconds.p = getelementptr i64, ptr %time, i64 1
  store i64 0, ptr %time
  store i64 0, ptr %nanoseconds.p
  %r = call i32 @clock_gettime(i32 {_COARSE_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  ret i64 %sum
}}
"""

STRETCH = f"""
; Call a kernel on items from..items in chunks until they are done or the time is up. The first item that is left.
define internal i64 @stretch(ptr %kernel, ptr %words, i64 %from, i64 %items, ptr %scratch, ptr %stride.p, ptr %clock,
    i64 %deadline) nounwind noinline {{
entry:
  %start = load i64, ptr %clock
  br label %chunk
chunk:
  %begin = phi i64 [ %from, %entry ], [ %to, %again ]
  %before = phi i64 [ %start, %entry ], [ %after, %again ]
  %stride = load i64, ptr %stride.p
  %upto = add i64 %begin, %stride
  %partly = icmp slt i64 %upto, %items
  %to = select i1 %partly, i64 %upto, i64 %items
  call void %kernel(ptr %words, i64 %begin, i64 %to, ptr %scratch)
  %after = call i64 @now()
  br i1 %partly, label %more, label %done
more:
  %took = sub i64 %after, %before
  %short = icmp slt i64 %took, {_SHORT}
  br i1 %short, label %grow, label %look
grow:
  %double = shl i64 %stride, 1
  store i64 %double, ptr %stride.p
  br label %look
look:
  %late = icmp sgt i64 %after, %deadline
  br i1 %late, label %done, label %again
again:
  br label %chunk
done:
  store i64 %after, ptr %clock
  ret i64 %to
}}
"""

RESTAMP = f"""
; A job's counters at nothing taken, nothing done.
define internal void @restamp(ptr %steps, i64 %first, i64 %last, i64 %job) nounwind noinline {{
entry:
  br label %reset
reset:
  %c = phi i64 [ %first, %entry ], [ %c.next, %clear ]
  %cleared = icmp sge i64 %c, %last
  br i1 %cleared, label %done, label %clear
clear:
  %row = mul i64 %c, {STEP.size}
  %record = getelementptr i64, ptr %steps, i64 %row
{field("taken.p", "%record", STEP.taken)}
{field("done.p", "%record", STEP.done)}
  store atomic i64 %job, ptr %taken.p monotonic, align 8
  store atomic i64 %job, ptr %done.p monotonic, align 8
  %c.next = add i64 %c, 1
  br label %reset
done:
  ret void
}}
"""

HALT = f"""
declare i32 @usleep(i32)

define void @cenote_halt(ptr %control, ptr %steps, i64 %first, i64 %last, i64 %stop) nounwind {{
entry:
{field("active", "%control", CONTROL.active)}
{field("sleepers", "%control", CONTROL.sleeping_workers)}
{field("first.p", "%control", CONTROL.first)}
{field("last.p", "%control", CONTROL.last)}
{field("stop.p", "%control", CONTROL.stop)}
  %odd = atomicrmw add ptr %control, i32 1 seq_cst
  %number = add i32 %odd, 2
  %wide = zext i32 %number to i64
  %job = shl i64 %wide, 32
  call void @restamp(ptr %steps, i64 %first, i64 %last, i64 %job)    ; who works on the old job finds nothing more
  store i64 0, ptr %first.p                                          ; the new one is empty
  store i64 0, ptr %last.p
  store i64 %stop, ptr %stop.p
  call void @change(ptr %control, ptr %sleepers)
{field("generation", "%control", CONTROL.generation)}
{field("at.barrier", "%control", CONTROL.sleeping_at_barrier)}
  call void @change(ptr %generation, ptr %at.barrier)
  br label %look
look:
  %inside = load atomic i64, ptr %active seq_cst, align 8
  %none = icmp eq i64 %inside, 0
  br i1 %none, label %done, label %wait
wait:
  %r = call i32 @usleep(i32 50)
  br label %look
done:
  ret void
}}
"""
