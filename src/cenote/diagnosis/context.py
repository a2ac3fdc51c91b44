"""What a cause may look at: a profile, and experiments on the same model.

Hardware counters are often missing, in virtual machines above all. Experiments say what they would: the model with
another option beside the model as it is, in turns. Each is made once and remembered.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.profile.data import Profile, StepStats
from cenote.profile.measure import profile

SECONDS = 1.0  # of an experiment, both sides together
LOADS = 0.01  # of the latency: what two loads of one model differ by, since their memory lies elsewhere
LEAST_SHARE = 0.05  # of the latency: what takes less is not worth a finding
_WIDE_TYPES = ("f64", "i32", "i64", "u32", "u64")
_LEAST_TURNS, _MOST_TURNS = 5, 200
_TURN = 1.0  # milliseconds, at least
_LONG = 20.0  # milliseconds of a call to which what the one before has left behind does not matter

Changed = Callable[..., Any]
"""Gives the model anew under other options: threads=, precision=, weights=, denormals=, pins=."""


@dataclass(frozen=True)
class Difference:
    """Milliseconds that a variant saves beside the model as it is: the middle of paired differences, and an interval
    that holds it in 90 % of cases (by the order of the differences). `before_ms`: of the model as it is."""

    low: float
    middle: float
    high: float
    before_ms: float

    @property
    def certain(self) -> bool:
        """Whether it is a gain beyond doubt, and worth a percent."""
        return self.low > 0 and self.middle > 0.01 * self.before_ms

    @property
    def gain_ms(self) -> tuple[float, float, float]:
        """What to expect of another load of both."""
        return self.low - LOADS * self.before_ms, self.middle, self.high + LOADS * self.before_ms


def paired(
    before: Callable[[], object], after: Callable[[], object], seconds: float | None = None
) -> Difference:
    """Calls of both in turns for so long (`SECONDS`), after one of each that does not count.

    Short calls come in turns of a millisecond, of which the first call does not count: the other's calls have taken the
    caches meanwhile, and threads that only one of them has have fallen asleep, as in no program that calls one model.
    """
    before()
    after()
    took = max(_milliseconds(before), _milliseconds(after))
    calls = max(1, round(_TURN / took))
    firsts, differences = list[float](), list[float]()
    end = time.perf_counter() + (SECONDS if seconds is None else seconds)
    while len(differences) < _MOST_TURNS:
        if len(differences) >= _LEAST_TURNS and time.perf_counter() > end:
            break
        order = (before, after) if len(differences) % 2 else (after, before)
        each = {call: _turn(call, calls, warm=took < _LONG) for call in order}
        firsts.append(each[before])
        differences.append(each[before] - each[after])
    differences.sort()
    count = len(differences)
    # The median lies between these two with 90 % probability: binomial, normal approximation.
    reach = round(1.645 * count**0.5 / 2 + 0.5)
    low, high = max(0, count // 2 - reach), min(count - 1, count // 2 + reach)
    return Difference(
        differences[low], statistics.median(differences), differences[high], statistics.median(firsts)
    )


def _turn(call: Callable[[], object], calls: int, warm: bool) -> float:
    """Milliseconds of one of so many calls."""
    if warm:
        call()
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - begin) / 1e6 / calls


def _milliseconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begin) / 1e6


def refused_for_type(step: StepStats) -> bool:
    """Whether a step runs on the host because no kernel takes its numbers' type."""
    return step.kind == "host" and any(name in step.reason for name in _WIDE_TYPES)


@dataclass
class Context:
    """A model, the inputs it is called with, its profile, and what gives the model under other options. `between` is
    what its program does between calls, if anything is known of that. `deep` allows more experiments."""

    model: Any
    inputs: Mapping[str, Array]
    profile: Profile
    changed: Changed | None = None
    deep: bool = False
    between: Callable[[], object] | None = None
    _tried: dict[str, Difference | None] = field(default_factory=dict)
    _rested: Profile | None = None

    def steps(self, wanted: Callable[[StepStats], bool]) -> list[StepStats]:
        """Steps of this kind, those that take most first."""
        return [step for step in self.profile.heaviest() if wanted(step)]

    def share(self, steps: Sequence[StepStats]) -> float:
        return sum(step.share for step in steps)

    def heavy(self, wanted: Callable[[StepStats], bool]) -> list[StepStats]:
        """Steps of this kind if they take enough of the latency together, else none."""
        found = self.steps(wanted)
        return found if self.share(found) >= LEAST_SHARE else []

    def short_of_cores(self) -> float:
        """Cores that are missing for this model's threads and what others run."""
        environment = self.profile.environment
        taken = (environment.foreign_cores or 0.0) + (environment.steal_cores or 0.0)
        return self.profile.threads + taken - environment.cpus

    def gain_of(self, **options: Any) -> Difference | None:
        """What the model gains by other options; None where it cannot be had with them."""
        key = repr(sorted(options.items()))
        if key not in self._tried:
            self._tried[key] = self._try(options)
        return self._tried[key]

    def _try(self, options: Mapping[str, Any]) -> Difference | None:
        if self.changed is None:
            return None
        try:
            other = self.changed(**options)
            other.run(self.inputs)
        except CenoteError:
            return None
        return paired(lambda: self.model.run(self.inputs), lambda: other.run(self.inputs))

    def gain_with(self, inputs: Mapping[str, Array]) -> Difference:
        """What the model gains by other inputs."""
        return paired(lambda: self.model.run(self.inputs), lambda: self.model.run(inputs))

    def waiting_grows(self) -> bool:
        """Whether calls with what the program does in between lose more by waiting than by computing slower."""
        if self.between is None:
            return False
        if self._rested is None:
            self._rested = profile(self.model, self.inputs, seconds=SECONDS, between=self.between)
        then, now = self._rested.accounts, self.profile.accounts
        return then.waits + then.driver - now.waits - now.driver > then.kernels - now.kernels

    def gain_hot(self) -> Difference | None:
        """What is gained when calls follow one another at once, instead of what the program does between them."""
        if self.between is None:
            return None
        between = self.between

        def call() -> None:
            self.model.run(self.inputs)

        took: list[tuple[float, float]] = []
        end = time.perf_counter() + 2 * SECONDS
        while len(took) < _LEAST_TURNS or (time.perf_counter() < end and len(took) < _MOST_TURNS):
            between()
            took.append((_milliseconds(call), _milliseconds(call)))
        gains = sorted(first - second for first, second in took)
        count = len(gains)
        return Difference(
            gains[count // 10], gains[count // 2], gains[-1 - count // 10],
            statistics.median(first for first, _ in took),
        )  # fmt: skip
