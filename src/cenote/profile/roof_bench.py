"""Own kernels on the threads that run models, timed: `measure_roofs` takes the best of their tries.

Each figure is a list of tries, each of which takes a millisecond.
"""

from __future__ import annotations

import contextlib
import mmap
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from cenote.codegen import jit
from cenote.codegen.values import Scalar
from cenote.core.deferred import dataclass
from cenote.core.target import cache_sizes
from cenote.core.types import Array, TensorType
from cenote.kernels import machine
from cenote.kernels.base import Call, KernelSpec
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.profile.collect import tick_of
from cenote.runtime.layouts import NO_STEP
from cenote.runtime.memory import aligned_bytes, available_bytes
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot, SlotKind
from cenote.runtime.timing import CallRecorder, RecordedCall, ThreadNotes, TimedProgram

TRIES, FEW_TRIES = 5, 2
# Seconds of one try, about.
TRY = 1e-3
# Bytes that are assumed to lie in main memory, at least and at most.
MEMORY = 64 << 20, 256 << 20
_BARRIERS = 100
_PAGES = 2048
# Seconds.
_APART = 0.05
# Part of the time during which chunks have to run at the same time.
_TOGETHER = 0.8


_Moving = machine.ReadSpec | machine.CopySpec | machine.UpdateSpec


@dataclass(frozen=True)
class _Task:
    """A call of a kernel on every thread: its spec, its integer arguments, and the number of tries."""

    spec: KernelSpec
    words: tuple[int | Slot, ...]
    tries: int


@dataclass(frozen=True)
class Level:
    """A cache, or main memory. `sizes`: bytes of each thread that certainly lie there and not in the level before
    (several, since the way in which the cache maps addresses decides which of them is moved fastest). `capacity`:
    bytes of all threads that may lie there (0: any)."""

    name: str
    sizes: tuple[int, ...]
    capacity: int


def levels(threads: int) -> Iterator[Level]:
    """Yield the levels, the nearest first. Of a last cache that is shared with others no more than 64 MB count."""
    first, second, third = cache_sizes()
    least, most = MEMORY
    yield Level("L1", (first // 2,), first * threads)
    yield Level("L2", (first * 2, max(first * 2, second // 4), max(first * 2, second // 2)), second * threads)
    far = max(second * 2, min(third // (4 * threads), 16 << 20))
    yield Level("L3", (second * 2, far), max(min(third, 64 << 20), second * threads))
    yield Level("memory", (int(min(max(2 * third, least), most, available_bytes() // 4)) // threads,), 0)


class Bench:
    """Benchmark tasks on a number of threads."""

    def __init__(self, threads: int) -> None:
        self.threads, self.target = threads, jit.host_target()
        # The memory for measuring main memory, kept since filling it anew takes 0.1 s.
        self._kept: Array | None = None

    def multiply_adds(self, dtype: str) -> list[float]:
        """Return 1e9 operations per second."""
        lanes = self.target.lanes(dtype)
        rounds = int(TRY * 3e9 / machine.CHAINS)
        spec = machine.MultiplyAddSpec(Scalar.of(dtype).name)
        task = _Task(spec, (Slot(SlotKind.INPUT, 0), Slot(SlotKind.OUTPUT, 0), rounds), TRIES)
        return self._rates(task, self._small(dtype), 2.0 * lanes * machine.CHAINS * rounds * self.threads)

    def read(self, level: Level) -> list[float]:
        """Return 1e9 bytes per second."""
        ways = (False, True) if level.name in ("L3", "memory") else (False,)
        return max(
            (self._moved(level, size, machine.ReadSpec(way)) for size in level.sizes for way in ways), key=max
        )

    def copy(self, level: Level) -> list[float]:
        """Return 1e9 bytes per second, read and written. In the near caches the copy is also tried in place, which is
        a seventh faster there, and common in steps. Beyond them a copy in place is nearly twice as fast, since no
        lines are fetched to be overwritten; that would be a bound that no other step comes near."""
        specs = (
            (machine.CopySpec(), machine.UpdateSpec())
            if level.name in ("L1", "L2")
            else (machine.CopySpec(),)
        )
        return max((self._moved(level, size, spec) for size in level.sizes for spec in specs), key=max)

    def _moved(
        self, level: Level, nbytes: int, spec: machine.ReadSpec | machine.CopySpec | machine.UpdateSpec
    ) -> list[float]:
        block = machine.UNROLLED * self.target.vector_bytes * 2
        nbytes = max(block, nbytes // block * block)
        rounds = max(1, int(TRY * 60e9) // nbytes)
        if level.name != "memory":
            memory = _written(nbytes * self.threads)
        else:
            memory = self._kept = _written(nbytes * self.threads) if self._kept is None else self._kept
        result = (Slot(SlotKind.OUTPUT, 0),) if isinstance(spec, machine.ReadSpec) else ()
        ways = 2 if isinstance(spec, machine.UpdateSpec) else 1
        words = (Slot(SlotKind.INPUT, 0), *result, nbytes // 4, rounds)
        tries = TRIES if level.name != "memory" else FEW_TRIES
        return self._rates(_Task(spec, words, tries), memory, float(ways * nbytes) * rounds * self.threads)

    def barrier(self) -> list[float]:
        """Return the microseconds of a step without work."""
        spans = self._spans(_Task(machine.NothingSpec(), (), TRIES), self._small("float32"), _BARRIERS)
        return [span / 1e3 / _BARRIERS for span in spans]

    def clock(self) -> list[float]:
        """Return the cycles per nanosecond."""
        rounds = int(TRY * 3e9 / 2 / machine.LINKS)
        task = _Task(machine.ChainSpec(), (Slot(SlotKind.INPUT, 0), Slot(SlotKind.OUTPUT, 0), rounds), TRIES)
        return self._rates(task, self._small("int64"), 2.0 * machine.LINKS * rounds)

    def _small(self, dtype: str) -> Array:
        return np.full(max(64, self.threads), 0.5 if dtype.startswith("f") else 3, dtype)

    def _rates(self, task: _Task, memory: Array, work: float) -> list[float]:
        """Return the work per nanosecond, that is 1e9 per second."""
        return [work / span for span in self._spans(task, memory)]

    def _spans(self, task: _Task, memory: Array, steps: int = 1) -> list[float]:
        """Return the nanoseconds from the first thread's begin to the last one's end, of every try."""
        with self._recorded(task, memory, steps) as (recorder, call):
            for _ in range(task.tries + 1):
                recorder.record(call)
            recorder.settle()
            notes = [recorder.notes(thread) for thread in range(self.threads)]
            # The first call is cold.
            edges = [_edges(each, notes[0]) for each in recorder.calls[1:]]
        if steps > 1:
            return [(end - begin) * nanoseconds_of_tick() for begin, end in edges]
        return [_busy(notes, *edge) * nanoseconds_of_tick() for edge in edges]

    @contextlib.contextmanager
    def _recorded(
        self, task: _Task, memory: Array, steps: int = 1
    ) -> Iterator[tuple[CallRecorder, Callable[[], object]]]:
        """Yield a recorder with room for the tries of a task, and a function that makes one."""
        launcher = Launcher([Call(task.spec, ())], self.target)
        ((symbol, address),) = launcher.kernels(Call(task.spec, ()))
        step = KernelStep(symbol, symbol, address, task.words, self.threads, 1, 0)
        kinds = TensorType(memory.dtype, memory.shape), TensorType(memory.dtype, (max(64, self.threads),))
        program = Program((step,) * steps, kinds[:1], kinds[1:], (), 0, driver_abi(), self.threads)
        recorder = CallRecorder(1 + 4 * (task.tries + 1) * steps * self.threads, self.threads)
        timed = TimedProgram.of(program, recorder, 0)
        try:
            yield recorder, lambda: timed.run([memory])
        finally:
            recorder.close()

    def tick(self) -> float:
        """Return the nanoseconds of a tick: the median slope between calls that are `_APART` seconds apart. From
        tries a millisecond apart it was off by up to 70 %, where the system took the CPU away between two
        readings."""
        with self._recorded(_Task(machine.NothingSpec(), (), 2 * TRIES), self._small("float32")) as (
            recorder,
            call,
        ):
            for turn in range(2 * TRIES):
                if turn == TRIES:
                    time.sleep(_APART)
                recorder.record(call)
            caller = recorder.notes(0)
            begins = [(each.begin, _edges(each, caller)[0]) for each in recorder.calls]
        return tick_of(np.array(begins))


def _written(nbytes: int) -> Array:
    """Return new memory that was written. Pages that were only read are all one page of zeros, in the nearest
    cache."""
    memory: Array = aligned_bytes(nbytes, "memory to measure its bandwidth").view(np.int32)
    memory[...] = 1
    return memory


@cache
def nanoseconds_of_tick() -> float:
    """Return the nanoseconds of a tick of the counter that recorders read."""
    return Bench(1).tick()


def _edges(call: RecordedCall, caller: ThreadNotes) -> tuple[int, int]:
    """Return the first and last tick of a call's native part, which may have returned to Python for a moment."""
    own = slice(call.runs[0][1], call.notes)
    native = caller.row[own] == NO_STEP
    return int(caller.begin[own][native].min()), int(caller.end[own][native].max())


def _busy(notes: Sequence[ThreadNotes], begin: int, end: int) -> float:
    """Return the ticks that all chunks take at the speed that their threads reach side by side. Where they did not
    run side by side (one was asleep, or had no core), return the ticks from the first one's begin to the last one's
    end."""
    chunks = [
        (int(each.begin[at]), int(each.end[at]))
        for each in notes
        for at in np.flatnonzero(
            (each.row >= 0) & (each.items > 0) & (each.begin >= begin) & (each.begin < end)
        )
    ]
    first, last = min(first for first, _ in chunks), max(last for _, last in chunks)
    together = min(last for _, last in chunks) - max(first for first, _ in chunks)
    if together < _TOGETHER * (last - first):
        return float(last - first)
    return len(chunks) / sum(1 / max(1, last - first) for first, last in chunks)


def page_faults() -> list[float]:
    """Return the microseconds of the first touch of a page of new memory."""
    tries = []
    for _ in range(FEW_TRIES):
        region = mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            region.madvise(mmap.MADV_NOHUGEPAGE)
        pages = np.frombuffer(region, np.uint8)[:: mmap.PAGESIZE]
        begin = time.perf_counter_ns()
        pages[...] = 1
        tries.append((time.perf_counter_ns() - begin) / 1e3 / _PAGES)
    return tries
