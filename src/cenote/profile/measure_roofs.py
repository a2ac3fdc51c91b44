"""Measures what this machine can do at best, with kernels of our own on the threads that run models.

Each figure is the best of several tries, and its spread how far the middle one lies behind it. All of it takes about a
second and is kept in the cache; for a few minutes only where the machine was busy with other things meanwhile.
"""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cenote.codegen import cache, jit
from cenote.codegen.values import Scalar
from cenote.core.errors import ArgumentError
from cenote.core.target import cache_sizes, processor
from cenote.core.types import Array, TensorType
from cenote.kernels.base import Call, KernelSpec
from cenote.kernels.driver import driver_abi
from cenote.kernels.launch import Launcher
from cenote.kernels.machine import (
    CHAINS,
    LINKS,
    UNROLLED,
    ChainSpec,
    CopySpec,
    MultiplyAddSpec,
    NothingSpec,
    ReadSpec,
)  # fmt: skip
from cenote.profile.collect import tick_of
from cenote.profile.environment import Watch
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.roofs import SCHEMA, BandwidthRoof, BarrierRoof, ComputeRoof, Measured, Roofs
from cenote.runtime.memory import aligned_bytes, available_bytes
from cenote.runtime.program import Program
from cenote.runtime.steps import KernelStep, Slot
from cenote.runtime.threads import resolve_threads
from cenote.runtime.timing import NO_STEP, Notes, Recorder, TimedProgram
from cenote.runtime.timing import Call as RecordedCall

DTYPES = ("float32", "float64")
_TRIES, _FEW_TRIES = 15, 4
_TRY = 1e-3  # seconds of one try, about
_BARRIERS = 100
_PAGES = 2048
_MEMORY = 64 << 20, 256 << 20  # bytes that are taken to lie in main memory, at least and at most
_TOGETHER = 0.8  # of the time that chunks are done at the same time
_BUSY = 0.3  # cores that others kept busy, above which figures are kept for a few minutes only
_BUSY_KEPT = 600.0  # seconds


@dataclass(frozen=True)
class _Task:
    """A call of a kernel on every thread: which, its whole-number words, and the tries."""

    spec: KernelSpec
    words: tuple[int | Slot, ...]
    tries: int = _TRIES


_of_process: dict[str, Roofs] = {}


def roofs(threads: int, fresh: bool = False) -> Roofs:
    """The roofs for one and for so many threads: out of the cache, or measured now. `fresh`: measured anyway."""
    found = None if fresh else _of_process.get(_name()) or _kept()
    wanted = sorted({1, threads})
    known = set() if found is None else {each.threads for each in found.barriers}
    missing = [count for count in wanted if count not in known]
    if not missing:
        assert found is not None
        return found
    watch = Watch()
    made = _measure(missing, found)
    environment = watch.environment()
    quiet = (environment.foreign_cores or 0.0) < _BUSY and (environment.steal_cores or 0.0) < _BUSY
    made = replace(made, quiet=made.quiet and quiet, measured=time.time())
    _of_process[_name()] = made
    cache.write_text(_name(), json.dumps({"schema": SCHEMA, **to_plain(made)}))
    return made


def clock_ghz() -> float:
    """Cycles per nanosecond of the core that the caller runs on, now."""
    return _Bench(1).clock(_FEW_TRIES).value


def _name() -> str:
    """Of the file in the cache: per processor, target, caches and cores."""
    target = jit.host_target()
    text = f"{processor()} {target!r} {cache_sizes()} {resolve_threads(None)}"
    return f"roofs-{cache.key(text, target)}.json"


def _kept() -> Roofs | None:
    try:
        found = from_plain(Roofs, json.loads(cache.read_text(_name()) or "null"), SCHEMA)
    except (ValueError, ArgumentError):
        return None
    return found if found.quiet or 0 <= time.time() - found.measured < _BUSY_KEPT else None


def _measure(counts: Sequence[int], known: Roofs | None) -> Roofs:
    begin = time.perf_counter()
    target = jit.host_target()
    compute, bandwidth, barriers = [], [], []
    for count in counts:
        bench = _Bench(count)
        compute += [ComputeRoof(dtype, count, bench.multiply_adds(dtype)) for dtype in DTYPES]
        bandwidth += [*bench.bandwidths()]
        barriers.append(BarrierRoof(count, bench.barrier()))
    if known is None:
        known = Roofs(processor(), target.name, _Bench(1).clock(_TRIES), _page_fault(), (), (), (), 0.0)
    return replace(
        known,
        compute=(*known.compute, *compute),
        bandwidth=(*known.bandwidth, *bandwidth),
        barriers=(*known.barriers, *barriers),
        seconds=known.seconds + time.perf_counter() - begin,
    )


class _Bench:
    """Tasks on so many threads."""

    def __init__(self, threads: int) -> None:
        self.threads, self.target = threads, jit.host_target()

    def multiply_adds(self, dtype: str) -> Measured:
        """1e9 operations per second."""
        lanes = self.target.lanes(dtype)
        rounds = int(_TRY * 3e9 / CHAINS)
        spec = MultiplyAddSpec(Scalar.of(dtype).name)
        work = 2.0 * lanes * CHAINS * rounds * self.threads
        return self._rate(
            _Task(spec, (Slot("input", 0), Slot("output", 0), rounds)), self._small(dtype), work
        )

    def bandwidths(self) -> Iterator[BandwidthRoof]:
        """Of each cache, and of main memory."""
        for level, nbytes, capacity in _levels(self.threads):
            block = UNROLLED * self.target.vector_bytes * 2
            nbytes = max(block, nbytes // block * block)
            rounds = max(1, int(_TRY * 60e9) // nbytes)
            tries = _TRIES if level != "memory" else _FEW_TRIES
            memory = aligned_bytes(nbytes * self.threads, "memory to measure its bandwidth").view(np.int32)
            work = float(nbytes) * rounds * self.threads
            place, result = Slot("input", 0), Slot("output", 0)
            ways = (False, True) if level in ("L3", "memory") else (False,)
            words = (place, result, nbytes // 4, rounds)
            read = [self._rate(_Task(ReadSpec(way), words, tries), memory, work) for way in ways]
            copy = self._rate(_Task(CopySpec(), (place, nbytes // 4, rounds), tries), memory, work)
            best = max(read, key=lambda each: each.value)
            yield BandwidthRoof(nbytes, level, capacity, self.threads, best, copy)

    def barrier(self) -> Measured:
        """Microseconds of a step of no work."""
        spans = self._spans(_Task(NothingSpec(), ()), self._small("float32"), _BARRIERS)
        return _best([span / 1e3 / _BARRIERS for span in spans], smallest=True)

    def clock(self, tries: int) -> Measured:
        """Cycles per nanosecond."""
        rounds = int(_TRY * 3e9 / 2 / LINKS)
        task = _Task(ChainSpec(), (Slot("input", 0), Slot("output", 0), rounds), tries)
        return self._rate(task, self._small("int64"), 2.0 * LINKS * rounds)

    def _small(self, dtype: str) -> Array:
        return np.full(max(64, self.threads), 0.5 if dtype.startswith("f") else 3, dtype)

    def _rate(self, task: _Task, memory: Array, work: float) -> Measured:
        """Work per nanosecond, so 1e9 per second."""
        return _best([work / span for span in self._spans(task, memory)])

    def _spans(self, task: _Task, memory: Array, steps: int = 1) -> list[float]:
        """Nanoseconds from the first thread's begin to the last one's end, of every try."""
        launcher = Launcher([Call(task.spec, ())], self.target)
        ((symbol, address),) = launcher.kernels(Call(task.spec, ()))
        step = KernelStep(symbol, symbol, address, task.words, self.threads, 1, 0)
        kinds = TensorType(memory.dtype, memory.shape), TensorType(memory.dtype, (max(64, self.threads),))
        program = Program((step,) * steps, kinds[:1], kinds[1:], (), 0, driver_abi(), self.threads)
        recorder = Recorder(1 + 4 * (task.tries + 1) * steps * self.threads, self.threads)
        timed = TimedProgram.of(program, recorder, 0)
        for _ in range(task.tries + 1):
            recorder.record(lambda: timed.run([memory]))
        recorder.settle()
        notes = [recorder.notes(thread) for thread in range(self.threads)]
        recorder.close()
        edges = [_edges(call, notes[0]) for call in recorder.calls[1:]]  # the first is cold
        tick = tick_of(
            np.array([(call.begin, edge[0]) for call, edge in zip(recorder.calls[1:], edges, strict=True)])
        )
        if steps > 1:
            return [(end - begin) * tick for begin, end in edges]
        return [_busy(notes, *edge) * tick for edge in edges]


def _edges(call: RecordedCall, caller: Notes) -> tuple[int, int]:
    """Ticks of the begin and the end of a call's native part, which may have come back to Python for a moment."""
    own = slice(call.runs[0][1], call.notes)
    native = caller.row[own] == NO_STEP
    return int(caller.begin[own][native].min()), int(caller.end[own][native].max())


def _busy(notes: Sequence[Notes], begin: int, end: int) -> float:
    """Ticks that all chunks take at the speed that their threads reach side by side. Where these were not side by side
    (one was asleep, or had no core), from the first one's begin to the last one's end."""
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


def _best(tries: Sequence[float], smallest: bool = False) -> Measured:
    best = min(tries) if smallest else max(tries)
    return Measured(float(best), abs(float(np.median(tries)) - best) / best)


def _levels(threads: int) -> Iterator[tuple[str, int, int]]:
    """Caches with the bytes of each thread that certainly lie there, and not in the one before, and the bytes of all
    threads that may lie there; main memory last. Of a last cache that others have a part in no more is counted on."""
    first, second, third = cache_sizes()
    least, most = _MEMORY
    yield "L1", first // 2, first * threads
    yield "L2", max(first * 2, second // 2), second * threads
    yield (
        "L3",
        max(second * 2, min(third // (4 * threads), 16 << 20)),
        max(min(third, 64 << 20), second * threads),
    )
    yield "memory", int(min(max(2 * third, least), most, available_bytes() // 4)) // threads, 0


def _page_fault() -> Measured:
    """Microseconds of the first touch of a page of fresh memory."""
    tries = []
    for _ in range(_FEW_TRIES):
        region = mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            region.madvise(mmap.MADV_NOHUGEPAGE)
        pages = np.frombuffer(region, np.uint8)[:: mmap.PAGESIZE]
        begin = time.perf_counter_ns()
        pages[...] = 1
        tries.append((time.perf_counter_ns() - begin) / 1e3 / _PAGES)
    return _best(tries, smallest=True)
