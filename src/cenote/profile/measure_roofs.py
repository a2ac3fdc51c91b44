"""Measurement of the machine's limits, with own kernels on the threads that run models (`roof_bench`).

Each figure is the best of several tries; its spread is the distance of the median from the best. Tries come in rounds
of all figures, until the best of two rounds agree within 1 %: a disturbance of a virtual machine for some ten
milliseconds (a neighbour in the caches, a core that is lent out) would spoil tries that follow one another. All of it
takes one to three seconds and is kept in the cache; for a few minutes only if the machine was busy meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from cenote.codegen import cache, jit
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError
from cenote.core.target import cache_sizes, processor
from cenote.profile.environment import Watch
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.roof_bench import Bench, levels, page_faults
from cenote.profile.roofs import SCHEMA, BandwidthRoof, BarrierRoof, ComputeRoof, Measured, Roofs
from cenote.runtime.threads import resolve_threads

DTYPES = ("float32", "float64")
_MOST_ROUNDS = 10
# Part of a figure.
_AGREE = 0.01
# Seconds of a figure.
_LONG = 0.3
# Cores that other processes kept busy, above which figures are kept for a few minutes only: `_BUSY_KEPT` seconds.
_BUSY = 0.3
_BUSY_KEPT = 600.0

_of_process: dict[str, Roofs] = {}


def roofs(threads: int, fresh: bool = False) -> Roofs:
    """Return the roofs for one and for so many threads, from the cache or measured now. `fresh`: measured in any
    case."""
    stored = None if fresh else _of_process.get(_name()) or _kept()
    wanted = sorted({1, threads})
    known = set() if stored is None else {each.threads for each in stored.barriers}
    missing = [count for count in wanted if count not in known]
    if not missing:
        assert stored is not None
        return stored
    watch = Watch()
    measured = _measure(missing, stored)
    environment = watch.environment()
    quiet = (environment.foreign_cores or 0.0) < _BUSY and (environment.steal_cores or 0.0) < _BUSY
    measured = replace(measured, quiet=measured.quiet and quiet, measured=time.time())
    _of_process[_name()] = measured
    cache.write_text(_name(), json.dumps({"schema": SCHEMA, **to_plain(measured)}))
    return measured


def clock_ghz() -> float:
    """Return the cycles per nanosecond of the core that the caller runs on, now."""
    return max(Bench(1).clock())


def _name() -> str:
    """Return the name of the file in the cache: one per processor, target, caches and cores."""
    target = jit.host_target()
    text = f"{processor()} {target!r} {cache_sizes()} {resolve_threads(None)}"
    return f"roofs-{cache.key(text, target)}.json"


def _kept() -> Roofs | None:
    try:
        stored = from_plain(Roofs, json.loads(cache.read_text(_name()) or "null"), SCHEMA)
    except (ValueError, ArgumentError):
        return None
    return stored if stored.quiet or 0 <= time.time() - stored.measured < _BUSY_KEPT else None


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
    measured = {key: figure.measured() for key, figure in figures.items()}
    if known is None:
        clock, fault = measured["clock", "", 1], measured["fault", "", 1]
        known = Roofs(processor(), jit.host_target().name, clock, fault, (), (), (), 0.0)
    compute = [ComputeRoof(dtype, n, measured["compute", dtype, n]) for n in counts for dtype in DTYPES]
    bandwidth = [
        BandwidthRoof(
            each.sizes[-1],
            each.name,
            each.capacity,
            n,
            measured["read", each.name, n],
            measured["copy", each.name, n],
        )
        for n in counts
        for each in places[n]
    ]
    return replace(
        known,
        compute=(*known.compute, *compute),
        bandwidth=(*known.bandwidth, *bandwidth),
        barriers=(*known.barriers, *(BarrierRoof(n, measured["barrier", "", n]) for n in counts)),
        seconds=known.seconds + time.perf_counter() - begin,
    )


@dataclass
class _Figure:
    """One figure: the function that makes tries of it, and the tries of each round."""

    tries: Callable[[], list[float]]
    # Whether the figure is the median of the tries, not the best.
    middle: bool = False
    rounds: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0

    def measure(self) -> None:
        """Measure one more round, unless two rounds agree or took long."""
        first, second = (
            sorted(map(self._of, self.rounds), reverse=True)[:2] if len(self.rounds) > 1 else (1, 0)
        )
        if first - second > _AGREE * first and (len(self.rounds) < 2 or self.seconds < _LONG):
            begin = time.perf_counter()
            self.rounds.append(self.tries())
            self.seconds += time.perf_counter() - begin

    def measured(self) -> Measured:
        """Return the figure of all rounds, with the distance of the median of the tries from the best."""
        tries = [one for each in self.rounds for one in each]
        middle = float(np.median(tries))
        return Measured(self._of(tries), abs(max(tries) - middle) / max(tries))

    def _of(self, tries: Sequence[float]) -> float:
        return float(np.median(tries) if self.middle else max(tries))
