"""Measures what this machine can do at best, with kernels of our own on the threads that run models (`roof_bench`).

Each figure is the best of several tries, and its spread how far the middle one lies behind it. Tries come in rounds of
all figures, until the best of two rounds agree within 1 %: what disturbs a virtual machine for some ten milliseconds (a
neighbour in the caches, a core that is lent out) would spoil tries that follow one another. All of it takes one to
three seconds and is kept in the cache; for a few minutes only where the machine was busy with other things meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cenote.codegen import cache, jit
from cenote.core.errors import ArgumentError
from cenote.core.target import cache_sizes, processor
from cenote.profile.environment import Watch
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.roof_bench import Bench, levels, page_faults
from cenote.profile.roofs import SCHEMA, BandwidthRoof, BarrierRoof, ComputeRoof, Measured, Roofs
from cenote.runtime.threads import resolve_threads

DTYPES = ("float32", "float64")
_MOST_ROUNDS = 10
_AGREE = 0.01  # of a figure
_LONG = 0.3  # seconds of a figure
_BUSY = 0.3  # cores that others kept busy, above which figures are kept for a few minutes only
_BUSY_KEPT = 600.0  # seconds

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
    return max(Bench(1).clock())


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
    figures = {
        ("clock", "", 1): _Figure(Bench(1).clock),
        ("fault", "", 1): _Figure(page_faults, middle=True),
    }
    places = {count: tuple(levels(count)) for count in counts}
    for count in counts:
        bench = Bench(count)
        for dtype in DTYPES:
            figures["compute", dtype, count] = _Figure(partial(bench.multiply_adds, dtype))
        for level in places[count]:
            figures["read", level.name, count] = _Figure(partial(bench.read, level))
            figures["copy", level.name, count] = _Figure(partial(bench.copy, level))
        figures["barrier", "", count] = _Figure(bench.barrier, middle=True)
    for _ in range(_MOST_ROUNDS):
        for figure in figures.values():
            figure.measure()
    found = {key: figure.measured() for key, figure in figures.items()}
    if known is None:
        clock, fault = found["clock", "", 1], found["fault", "", 1]
        known = Roofs(processor(), jit.host_target().name, clock, fault, (), (), (), 0.0)
    compute = [ComputeRoof(dtype, n, found["compute", dtype, n]) for n in counts for dtype in DTYPES]
    bandwidth = [
        BandwidthRoof(
            each.sizes[-1], each.name, each.capacity, n, found["read", each.name, n], found["copy", each.name, n]
        )
        for n in counts
        for each in places[n]
    ]  # fmt: skip
    return replace(
        known,
        compute=(*known.compute, *compute),
        bandwidth=(*known.bandwidth, *bandwidth),
        barriers=(*known.barriers, *(BarrierRoof(n, found["barrier", "", n]) for n in counts)),
        seconds=known.seconds + time.perf_counter() - begin,
    )


@dataclass
class _Figure:
    """One figure: what gives tries of it, and those of each round."""

    tries: Callable[[], list[float]]
    middle: bool = False  # the figure is the middle of the tries, not the best
    rounds: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0

    def measure(self) -> None:
        """One more round, unless two rounds agree or took long."""
        first, second = (
            sorted(map(self._of, self.rounds), reverse=True)[:2] if len(self.rounds) > 1 else (1, 0)
        )
        if first - second > _AGREE * first and (len(self.rounds) < 2 or self.seconds < _LONG):
            begin = time.perf_counter()
            self.rounds.append(self.tries())
            self.seconds += time.perf_counter() - begin

    def measured(self) -> Measured:
        """Of all rounds, with how far the middle of the tries lies behind the best."""
        tries = [one for each in self.rounds for one in each]
        middle = float(np.median(tries))
        return Measured(self._of(tries), abs(max(tries) - middle) / max(tries))

    def _of(self, tries: Sequence[float]) -> float:
        return float(np.median(tries) if self.middle else max(tries))
