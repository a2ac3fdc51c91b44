"""Profile of one function's calls on this machine: `profile_call(function, *args)`.

Calls are timed in turns of many, so that reading the clock (some 50 ns) takes no part in them. A function that only
calls others is compared with the sum of the least times of those.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.compiler.report import StepDescription
from cenote.core.deferred import dataclass
from cenote.core.target import processor
from cenote.core.text import Report, digits
from cenote.core.types import Array
from cenote.core.version import __version__
from cenote.functional.ways.explanation import Explanation, explain, function_of
from cenote.profile.environment import Environment, Watch
from cenote.profile.measure import check_seconds, spread
from cenote.profile.measure_roofs import roofs
from cenote.profile.metrics.counters import Counter, Counting, summary
from cenote.profile.metrics.step_metrics import UNKNOWN, StepMetrics, levels_of, step_metrics
from cenote.profile.plain import from_plain, to_plain
from cenote.profile.roofs import Roofs
from cenote.profile.steps import nearest_roof
from cenote.profile.table import milliseconds, other_activity

SCHEMA = "cenote.call_profile/1"
# The first call compiles, from the third on native code knows it.
_WARM_UP = 4
_LEAST_TURNS, _MOST_TURNS = 3, 2000
# Of a turn: the clock's 50 ns are 0.05 % of it.
_TURN_SECONDS = 100e-6

_now = time.perf_counter_ns


@dataclass(frozen=True, repr=False)
class CallProfile(Report):
    """Profile of a function's calls on this machine. Printed, it is a few lines.

    explanation  what the function does and why (`cenote.functional.explain`): types, algorithm, rivals, threads,
                 target, operations and bytes
    calls        that were timed, in `turns` of as many each
    median_ms    milliseconds of a call, the median of the turns
    least_ms     likewise, the least
    spread       half the distance between the quartiles of the turns, relative to the median
    bound        the nearest roof: "fma", or the cache or "memory" that its bytes fit in; "" where nothing is known
    roof_share   the least time that this roof allows / the median time; None where nothing is known
    metrics      computing, bandwidth, cache hits and pipeline, by a model of the caches (docs/profile.md)
    counters     events of the processor in a call, or why the system does not count them
    environment  other activity of the machine meanwhile
    roofs        the limits of the machine
    processor    its name
    version      Cenote's
    """

    explanation: Explanation
    calls: int
    turns: int
    median_ms: float
    least_ms: float
    spread: float
    bound: str
    roof_share: float | None
    environment: Environment
    roofs: Roofs
    processor: str
    version: str
    metrics: StepMetrics = UNKNOWN
    counters: tuple[Counter, ...] = ()

    @property
    def function(self) -> str:
        """The function's name."""
        return self.explanation.function

    @property
    def algorithm(self) -> str:
        """The name of the algorithm, which the function's `algorithm=` takes."""
        return self.explanation.algorithm

    @property
    def operations_per_second(self) -> float:
        """Operations (a multiply-add counts 2) per second of the median call; 0 where they are not known."""
        return self.explanation.cost.operations / self.median_ms * 1e3

    @property
    def bytes_per_second(self) -> float:
        """Bytes that must be moved at least once, per second of the median call; 0 where they are not known."""
        return self.explanation.cost.bytes / self.median_ms * 1e3

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield str(self.explanation)
        yield (
            f"  median {milliseconds(self.median_ms)} (±{self.spread:.1%}, {self.calls} calls), "
            f"least {milliseconds(self.least_ms)}"
        )
        rates = (
            f"{digits(self.operations_per_second / 1e9)} Gop/s, {digits(self.bytes_per_second / 1e9)} GB/s"
        )
        share = (
            "" if self.roof_share is None else f"; {self.roof_share:.0%} of the nearest roof ({self.bound})"
        )
        if self.explanation.cost.bytes:
            yield f"  {rates}{share}"
        if measures := _measures(self.metrics):
            yield f"  {measures}"
        yield from (f"  {line}" for line in summary(self.counters))
        yield f"  {self.processor}; cenote {self.version}"
        yield from (f"  {line}" for line in other_activity(self.environment, self.roofs))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: {"schema": "cenote.call_profile/1", ...} with the fields' names."""
        return {"schema": SCHEMA, **to_plain(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> CallProfile:
        """Return the profile of `to_dict`'s data, also after a trip through JSON. Raises ArgumentError for other
        data."""
        return from_plain(CallProfile, data, SCHEMA)


def profile_call(
    function: str | Callable[..., Any], /, *args: Any, seconds: float = 0.3, **kwargs: Any
) -> CallProfile:
    """Call a function of cenote.functional again and again, and return its profile on this machine.

    function      the function, or its name
    args, kwargs  its arguments; an `out=` is written by every call
    seconds       time for the calls, of which some more warm up; the limits of the machine are measured once, in two to
                  three seconds, and kept in the cache

    Raises ArgumentError for what is no function of cenote.functional and for no time to measure, and what the call
    itself raises.
    """
    name, found = function_of("profile_call", function)
    check_seconds(seconds)
    explanation = explain(name, *args, **kwargs)
    limits = roofs(explanation.threads)
    watch, counting = Watch(), Counting()
    with counting.during():
        times, each = _timed(lambda: found(*args, **kwargs), seconds)
    counters = counting.counters(each * len(times))
    counting.close()
    median = float(np.median(times))
    works = [_work(step) for step in _steps_without_others(explanation)]
    levels = levels_of(works, limits.rooms(explanation.threads))
    bound, share = _nearest_roof(explanation, median, limits)
    return CallProfile(
        explanation=explanation,
        calls=each * len(times),
        turns=len(times),
        median_ms=median,
        least_ms=float(times.min()),
        spread=spread(times),
        bound=bound,
        roof_share=share,
        environment=watch.environment(),
        roofs=limits,
        processor=processor(),
        version=__version__,
        metrics=step_metrics(works, levels, median / 1e3, explanation.threads, limits),
        counters=counters,
    )


def _measures(metrics: StepMetrics) -> str:
    """Return the measures that are known, in words."""
    named = (
        ("computing", metrics.compute),
        ("bandwidth", metrics.bandwidth),
        ("cache hits", metrics.cache_hits),
        ("pipeline", metrics.pipeline),
    )
    known = [f"{name} {value:.0%}" for name, value in named if value is not None]
    return f"estimates: {', '.join(known)}" if known else ""


def _timed(call: Callable[[], object], seconds: float) -> tuple[Array, int]:
    """Return the milliseconds of a call in each turn, and the calls of a turn."""
    warm: list[int] = []
    for _ in range(_WARM_UP):
        begin = _now()
        call()
        warm.append(max(1, _now() - begin))
    turn = range(max(1, round(min(_TURN_SECONDS, seconds) * 1e9 / min(warm))))
    times: list[float] = []
    end = _now() + seconds * 1e9
    while len(times) < _MOST_TURNS:
        begin = _now()
        if len(times) >= _LEAST_TURNS and begin >= end:
            break
        for _ in turn:
            call()
        times.append(max(1, _now() - begin) / len(turn) / 1e6)
    return np.array(times), len(turn)


def _nearest_roof(explanation: Explanation, ms: float, limits: Roofs) -> tuple[str, float | None]:
    """Return the roof that takes the most time of all steps, and the least time of all / the time that they took."""
    found = [_roof_of(step, ms, limits) for step in _steps_without_others(explanation)]
    shares = [(share, bound) for bound, share in found if share is not None]
    return (max(shares)[1], sum(share for share, _ in shares)) if shares else ("", None)


def _roof_of(step: Explanation, ms: float, limits: Roofs) -> tuple[str, float | None]:
    """Return the nearest roof of one step. A step that is quicker than its operations allow executes fewer: kernels of
    pools do not say how many (van Herk's takes three comparisons for any window), so that only its bytes count."""
    busy, work = (ms,) * step.threads, _work(step)
    bound, share = nearest_roof(work, busy, limits)
    if bound == "fma" and share is not None and share > 1:
        return nearest_roof(replace(work, executed_operations=0), busy, limits)
    return bound, share


def _steps_without_others(explanation: Explanation) -> Iterator[Explanation]:
    if explanation.steps:
        for step in explanation.steps:
            yield from _steps_without_others(step)
    else:
        yield explanation


def _work(step: Explanation) -> StepDescription:
    """Return what the roofs ask for of a step; one in NumPy is compared with what a kernel could reach."""
    return StepDescription(
        "kernel",
        step.function,
        step.function,
        step.algorithm,
        step.types,
        executed_operations=step.executed_operations,
        read_bytes=step.cost.bytes - step.written_bytes,
        written_bytes=step.written_bytes,
        dtype=step.dtype,
    )
