"""The piece of the native driver that notes when threads computed and waited, as LLVM text.

Where a team's control block names logs, every thread notes in its own when it began and ended each chunk and each wait,
and the caller its whole native call. Without (null), a chunk takes one more comparison. Two readings of the counter and
a note of 32 bytes take 30 to 40 ns a chunk. Alone, a thread reads it once a step, whose begin is the last one's end.

`runtime.layouts` has the form of the logs.
"""

from __future__ import annotations

from cenote.kernels.driver_parts import field
from cenote.runtime.layouts import CONTROL, CPU_BITS, LOG, LOGS, NO_STEP, NOTE

_CPU = """
declare i32 @sched_getcpu()

define internal i32 @cpu() nounwind {
  %r = call i32 @sched_getcpu()
  ret i32 %r
}
"""

_NO_CPU = """
define internal i32 @cpu() nounwind { ret i32 -1 }
"""

_TICKS_THEN_CPU = """
define internal { i64, i32 } @ticks_and_cpu() nounwind {
  %now = call i64 @ticks()
  %where = call i32 @cpu()
  %first = insertvalue { i64, i32 } undef, i64 %now, 0
  %both = insertvalue { i64, i32 } %first, i32 %where, 1
  ret { i64, i32 } %both
}
"""

# One instruction for both, which waits for what came before as well; Linux keeps the CPU's number in its lower 12 bits.
_TICKS_AND_CPU = """
declare { i64, i32 } @llvm.x86.rdtscp()

define internal { i64, i32 } @ticks_and_cpu() nounwind {
  call void asm sideeffect "", "~{memory}"()
  %both = call { i64, i32 } @llvm.x86.rdtscp()
  %wide = extractvalue { i64, i32 } %both, 1
  %where = and i32 %wide, 4095
  %r = insertvalue { i64, i32 } %both, i32 %where, 1
  ret { i64, i32 } %r
}
"""

# A counter that runs at the same speed on all cores, read in 12 ns. The fence: what came before is done (what a chunk
# has computed, above all). Elsewhere the system's clock, in nanoseconds.
_TICKS = {
    "x86": """
declare i64 @llvm.x86.rdtsc()

define internal i64 @ticks() nounwind noinline {
  call void asm sideeffect "lfence", "~{memory}"()
  %r = call i64 @llvm.x86.rdtsc()
  ret i64 %r
}
""",
    "arm": """
define internal i64 @ticks() nounwind noinline {
  %r = call i64 asm sideeffect "isb\\0Amrs $0, cntvct_el0", "=r,~{memory}"()
  ret i64 %r
}
""",
    "": """
define internal i64 @ticks() nounwind noinline {
  %time = alloca [2 x i64]
  %nanoseconds.p = getelementptr i64, ptr %time, i64 1
  store i64 0, ptr %time
  store i64 0, ptr %nanoseconds.p
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  ret i64 %sum
}
""",
}

_NOTE = f"""
; The log of a thread, if there is one.
define internal ptr @log_of(ptr %control, i64 %index) nounwind noinline {{
entry:
{field("logs.p", "%control", CONTROL.log)}
  %logs = load ptr, ptr %logs.p
  %on = icmp ne ptr %logs, null
  br i1 %on, label %look, label %done
look:
  %stride = load i64, ptr %logs
  %offset = mul i64 %stride, %index
  %behind = add i64 %offset, {LOGS.size * 8}
  %own = getelementptr i8, ptr %logs, i64 %behind
  br label %done
done:
  %r = phi ptr [ null, %entry ], [ %own, %look ]
  ret ptr %r
}}

; When a native call began, where that is noted.
define internal i64 @ticks_if(ptr %log) nounwind noinline {{
entry:
  %on = icmp ne ptr %log, null
  br i1 %on, label %look, label %done
look:
  %now = call i64 @ticks()
  br label %done
done:
  %r = phi i64 [ 0, %entry ], [ %now, %look ]
  ret i64 %r
}}

; Note what this thread has done from `begin` until now: items of a step, a wait (0 items), a native call ({NO_STEP}).
; Gives the counter, or 0. Without a log nothing; where it is full, notes are counted but not kept.
define internal i64 @note(ptr %log, i64 %begin, i64 %step, i64 %items) nounwind noinline {{
entry:
  %on = icmp ne ptr %log, null
  br i1 %on, label %look, label %off
look:
  %end.cpu = call {{ i64, i32 }} @ticks_and_cpu()
  %end = extractvalue {{ i64, i32 }} %end.cpu, 0
{field("room.p", "%log", LOG.room)}
  %count = load i64, ptr %log
  %room = load i64, ptr %room.p
  %next = add i64 %count, 1
  store i64 %next, ptr %log
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %keep, label %done
keep:
  %cpu = extractvalue {{ i64, i32 }} %end.cpu, 1
  %cpu.wide = zext i32 %cpu to i64
  %cpu.few = and i64 %cpu.wide, {(1 << CPU_BITS) - 1}
  %cpu.upper = shl i64 %cpu.few, 32
  %computed = icmp sge i64 %step, 0          ; else the mode is the caller's again
  br i1 %computed, label %ask, label %write
ask:
  %met = call i64 @take_denormals()
  br label %write
write:
  %denormals = phi i64 [ 0, %keep ], [ %met, %ask ]
  %denormals.upper = shl i64 %denormals, {32 + CPU_BITS}
  %where = or i64 %items, %cpu.upper
  %both = or i64 %where, %denormals.upper
  %at = mul i64 %count, {NOTE.size}
  %after = add i64 %at, {LOG.size}
  %record = getelementptr i64, ptr %log, i64 %after
{field("end.p", "%record", NOTE.end)}
{field("step.p", "%record", NOTE.step)}
{field("both.p", "%record", NOTE.what)}
  store i64 %begin, ptr %record
  store i64 %end, ptr %end.p
  store i64 %step, ptr %step.p
  store i64 %both, ptr %both.p
  br label %done
done:
  ret i64 %end
off:
  ret i64 0
}}
"""


def notes(architecture: str, linux: bool) -> str:
    """Return the functions with which threads note their work. Needs `CLOCK` and `MODES`."""
    both = _TICKS_AND_CPU if architecture == "x86" and linux else _TICKS_THEN_CPU
    return _TICKS[architecture] + (_CPU if linux else _NO_CPU) + both + _NOTE
