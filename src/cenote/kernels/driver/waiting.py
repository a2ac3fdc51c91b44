"""Time and waiting in the native driver: clocks, and words that threads wait for, by a bounded spin, then a futex."""

from __future__ import annotations

from cenote.codegen.native import ACQUIRE, Int32, Int64, Native, Words, native
from cenote.codegen.values import I32, I64, Pointer, Value

MONOTONIC_CLOCK, _COARSE_CLOCK = 1, 6  # of Linux
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_ALL = 2**31 - 1
SLICE = 50_000_000  # nanoseconds after which native code returns to Python
_FUTEX = 98  # the system call's number, but for x86-64
_FUTEX_X86 = 202


def read_clock(f: Native, clock: Value) -> tuple[Value, Value]:
    """Return the nanoseconds of a clock, and a number that is 0 where the system told them."""
    time = f.array(2)
    f.clear(time, 2)
    failure = f.external("clock_gettime", clock, time, result=I32)
    return time.load() * 1_000_000_000 + time.load(1), failure


@native
def now(f: Native) -> Int64:
    """Return the nanoseconds of a coarse clock, which takes 5 ns to read."""
    return read_clock(f, f.constant(I32, _COARSE_CLOCK))[0]


@native
def change(f: Native, word: Words, sleepers: Words) -> None:
    """Add one to the word and wake whoever sleeps on it."""
    f.fetch_add(word.cast(I32), 1)
    with f.when(f.load_atomic(sleepers) > 0):
        _futex(f, word, _WAKE_PRIVATE, f.constant(I32, _ALL), f.null())


@native
def wait_while(f: Native, word: Words, old: Int32, sleepers: Words, spin: Int64, longest: Words) -> None:
    """Wait until the word differs from `old`: spin, then sleep, at most so long (a timespec, or null). May return
    early."""
    narrow, turn = word.cast(I32), f.variable(f.integer(0))
    with f.loop() as loop:
        f.return_if(f.load_atomic(narrow, ACQUIRE).differs(old))
        f.pause()
        turn.value += 1
        loop.leave_if(turn.value >= spin)
    f.fetch_add(sleepers, 1)
    with f.when(f.load_atomic(narrow).equals(old)):
        _futex(f, word, _WAIT_PRIVATE, old, longest)
    f.fetch_add(sleepers, -1)


def _futex(f: Native, word: Pointer, operation: int, value: Value, longest: Pointer) -> None:
    number, nothing = f.integer(_FUTEX_X86 if f.is_x86 else _FUTEX), f.integer(0)
    f.external(
        "syscall", number, word, f.integer(operation), value, longest, nothing, nothing, result=I64, fixed=1
    )
