"""The piece of the native driver that sets a thread's floating-point mode, and reads whether denormals were met."""

from __future__ import annotations

from cenote.runtime.layouts import UNTOLD

_MODE, _MODE_FLUSH = 0x1F80, 0x9FC0  # MXCSR: all exceptions masked; and FTZ, DAZ
_FLAGS, _DENORMAL = 0x3F, 0x12  # of MXCSR: all exceptions; a denormal operand, or a result that became one
_ARM_FLUSH = 1 << 24 | 1 << 19  # FPCR: FZ, FZ16

_UNTOLD = f"""
define internal i64 @take_denormals() nounwind {{ ret i64 {UNTOLD} }}
"""

MODES = {
    "x86": f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

; Set this thread's floating-point mode; the old one.
define internal i64 @enter_mode(i64 %flush) nounwind noinline {{
  %old.p = alloca i32
  %new.p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %old.p)
  %flushes = icmp ne i64 %flush, 0
  %new = select i1 %flushes, i32 {_MODE_FLUSH}, i32 {_MODE}
  store i32 %new, ptr %new.p
  call void @llvm.x86.sse.ldmxcsr(ptr %new.p)
  %old = load i32, ptr %old.p
  %wide = zext i32 %old to i64
  ret i64 %wide
}}

define internal void @leave_mode(i64 %old) nounwind noinline {{
  %p = alloca i32
  %narrow = trunc i64 %old to i32
  store i32 %narrow, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}}

; 1 where this thread has met denormal numbers since it was last asked.
define internal i64 @take_denormals() nounwind noinline {{
entry:
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %state = load i32, ptr %p
  %flags = and i32 %state, {_DENORMAL}
  %met = icmp ne i32 %flags, 0
  br i1 %met, label %forget, label %done
forget:
  %without = and i32 %state, {~_FLAGS}
  store i32 %without, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  br label %done
done:
  %r = zext i1 %met to i64
  ret i64 %r
}}
""",
    "arm": f"""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @enter_mode(i64 %flush) nounwind noinline {{
  %old = call i64 @llvm.aarch64.get.fpcr()
  %flushes = icmp ne i64 %flush, 0
  %new = select i1 %flushes, i64 {_ARM_FLUSH}, i64 0
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}}

define internal void @leave_mode(i64 %old) nounwind noinline {{
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}}
"""
    + _UNTOLD,
    "": """
define internal i64 @enter_mode(i64 %flush) nounwind { ret i64 0 }
define internal void @leave_mode(i64 %old) nounwind { ret void }
"""
    + _UNTOLD,
}
