"""Floating-point modes of the native driver's threads, and whether they have met denormal numbers."""

from __future__ import annotations

from cenote.codegen.native import Int64, Native, native
from cenote.codegen.values import I32, I64, U32, Pointer
from cenote.runtime.layouts import UNTOLD

# MXCSR: all exceptions masked; and FTZ, DAZ.
_MODE, _MODE_FLUSH = 0x1F80, 0x9FC0
# Of MXCSR: flags of all exceptions; of a denormal operand, or a result that became one.
_FLAGS, _DENORMAL = 0x3F, 0x12
_X86_GET, _X86_SET = "llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr"
_ARM_FLUSH = 1 << 24 | 1 << 19  # FPCR: FZ, FZ16
_ARM_SET = "llvm.aarch64.set.fpcr"


@native
def enter_mode(f: Native, flush: Int64) -> Int64:
    """Set this thread's floating-point mode and return the old one."""
    flushes = flush.differs(0)
    if f.is_arm:
        old = f.external("llvm.aarch64.get.fpcr", result=I64)
        f.external(_ARM_SET, f.select(flushes, f.integer(_ARM_FLUSH), f.integer(0)))
        return old
    if not f.is_x86:
        return f.integer(0)
    before, after = _room(f), _room(f)
    f.external(_X86_GET, before)
    after.store(f.select(flushes, f.constant(I32, _MODE_FLUSH), f.constant(I32, _MODE)))
    f.external(_X86_SET, after)
    return before.load().bits(U32).to(I64)


@native
def leave_mode(f: Native, old: Int64) -> None:
    """Set the old mode again."""
    if f.is_arm:
        f.external(_ARM_SET, old)
    elif f.is_x86:
        place = _room(f)
        place.store(old.to(I32))
        f.external(_X86_SET, place)


@native
def take_denormals(f: Native) -> Int64:
    """Return 1 where this thread has met denormal numbers since it was last asked."""
    if not f.is_x86:
        return f.integer(UNTOLD)
    place = _room(f)
    f.external(_X86_GET, place)
    state = place.load()
    met = (state & _DENORMAL).differs(0)
    with f.when(met):
        place.store(state & ~_FLAGS)
        f.external(_X86_SET, place)
    return met.to(I64)


def _room(f: Native) -> Pointer:
    """Return room on the stack for MXCSR."""
    return Pointer(f, I32, f.stack_slot("i32"))
