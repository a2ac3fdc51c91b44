"""Input of the causes: a profile, and experiments on the same model.

Hardware counters are often missing, above all in virtual machines. Experiments take their place: the model with
another option runs in turns with the model as it is. Each experiment is made once and its result is kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.profile.data import Profile
from cenote.profile.fields import Finding, StepStats, Treatment
from cenote.runtime.threads import teams_are_taken
from cenote.stages.runnable import RunnableModel

# Seconds of an experiment, both sides together.
SECONDS = 1.0
# Part of the latency: the difference between two loads of one model, whose memory lies elsewhere.
LOADS = 0.02
# Part of the time: where the process uses less of a CPU, it is idle.
RESTS = 0.5
# Part of the latency: steps that take less are not worth a finding.
LEAST_SHARE = 0.05
# Part of the latency: the least gain of an option.
WORTH = 0.01
_WIDE_TYPES = ("f64", "i32", "i64", "u32", "u64")
_LEAST_TURNS, _MOST_TURNS = 5, 200
_LOOKS = 50
# Least milliseconds of a turn.
_TURN = 1.0
# Milliseconds of a call that the caches' state before it does not affect.
_LONG = 20.0


@dataclass(frozen=True)
class Difference:
    """Milliseconds that a variant saves beside the model as it is: the middle of paired differences, and an interval
    that holds it in 98 % of cases (by the order of the differences). A diagnosis asks a dozen such questions, and one
    wrong answer in twenty would be an alarm in every other diagnosis. `before_ms`: the time of the model as it is."""

    low: float
    middle: float
    high: float
    before_ms: float

    @staticmethod
    def of(befores: Sequence[float], afters: Sequence[float]) -> Difference:
        """Return the difference of calls in turns. The median lies between two of the ordered differences with 98 %
        probability: binomial, by the normal approximation."""
        gains = sorted(before - after for before, after in zip(befores, afters, strict=True))
        low, high = _around_median(len(gains), 2.33)
        return Difference(gains[low], statistics.median(gains), gains[high], statistics.median(befores))

    @property
    def certain(self) -> bool:
        """True if it is a gain beyond doubt, and worth a percent."""
        return self.low > 0 and self.middle > WORTH * self.before_ms

    @property
    def after_ms(self) -> float:
        """The time of the variant."""
        return self.before_ms - self.middle

    @property
    def part(self) -> float:
        """The gain relative to the time of the model as it is."""
        return self.middle / self.before_ms

    @property
    def gain_ms(self) -> tuple[float, float, float]:
        """The gain to expect of another load of both."""
        return self.low - LOADS * self.before_ms, self.middle, self.high + LOADS * self.before_ms


def certain(tried: Difference | None, least: float = 0.0) -> Difference | None:
    """Return a gain beyond doubt that is at least this part of the time; None for any other, and for none."""
    return tried if tried is not None and tried.certain and tried.middle >= least * tried.before_ms else None


def paired(
    before: Callable[[], object], after: Callable[[], object], seconds: float | None = None
) -> Difference:
    """Call both in turns for so many seconds (by default `SECONDS`), after one call of each that does not count.

    Short calls come in turns of a millisecond, of which the first call does not count: the other side's calls have
    used the caches meanwhile, and threads that only one side has have fallen asleep. Neither happens in a program
    that calls one model.
    """
    before()
    after()
    length = max(_milliseconds(before), _milliseconds(after))
    calls, warm = max(1, round(_TURN / length)), length < _LONG
    took: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + (SECONDS if seconds is None else seconds)
    while (count := len(took[0])) < _MOST_TURNS:
        if count >= _LEAST_TURNS and (time.perf_counter() > end or (not count % 10 and _is_hopeless(*took))):
            break
        for place in (0, 1) if count % 2 else (1, 0):
            took[place].append(_turn((before, after)[place], calls, warm))
    return Difference.of(*took)


def _is_hopeless(befores: Sequence[float], afters: Sequence[float]) -> bool:
    """Return whether it is certain (99.9 %, since this is asked repeatedly) that a percent is not gained."""
    gains = sorted(before - after for before, after in zip(befores, afters, strict=True))
    _, high = _around_median(len(gains), 3.3)
    return gains[high] < WORTH * statistics.median(befores)


def _around_median(count: int, deviations: float) -> tuple[int, int]:
    """Return places in an ordered sample between which the median lies, within this number of standard deviations."""
    reach = round(deviations * count**0.5 / 2 + 0.5)
    return max(0, count // 2 - reach), min(count - 1, count // 2 + reach)


def _turn(call: Callable[[], object], calls: int, warm: bool) -> float:
    """Return the mean milliseconds of a call."""
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
    """Return whether a step runs on the host because no kernel takes its numbers' type."""
    return step.kind == "host" and any(name in step.reason for name in _WIDE_TYPES)


@dataclass
class Context:
    """A model, the inputs it is called with, and its profile. `between` is its program's work between calls, if that is
    known. `deep` allows more experiments."""

    model: RunnableModel
    inputs: Mapping[str, Array]
    profile: Profile
    deep: bool = False
    between: Callable[[], object] | None = None
    _tried: dict[str, Difference | None] = field(default_factory=dict)
    _hot: Difference | None = None

    def steps(self, wanted: Callable[[StepStats], bool]) -> list[StepStats]:
        """Return the steps that the function accepts, those that take most first."""
        return [step for step in self.profile.heaviest() if wanted(step)]

    def share(self, steps: Sequence[StepStats]) -> float:
        return sum(step.share for step in steps)

    def heavy(self, wanted: Callable[[StepStats], bool]) -> list[StepStats]:
        """Return the steps that the function accepts if together they take enough of the latency, else none."""
        steps = self.steps(wanted)
        return steps if self.share(steps) >= LEAST_SHARE else []

    def finding(
        self,
        steps: Sequence[StepStats],
        evidence: str,
        confidence: float,
        action: str,
        gain_ms: tuple[float, float, float] | None = None,
        *treatments: Treatment,
        share: float | None = None,
    ) -> Finding:
        """Return a finding about these steps, without its cause. `share`: of the latency, by default theirs."""
        return Finding(
            "",
            tuple(step.index for step in steps),
            self.share(steps) if share is None else share,
            evidence,
            confidence,
            action,
            gain_ms,
            treatments=treatments,
        )

    def short_of_cores(self) -> float:
        """Return the cores that are missing for this model's threads and other processes."""
        environment = self.profile.environment
        taken = (environment.foreign_cores or 0.0) + (environment.steal_cores or 0.0)
        return self.profile.threads + taken - environment.cpus

    def team_is_taken(self) -> float:
        """Return the part of the moments between calls in which the model's threads run for other callers."""
        taken = 0
        for _ in range(_LOOKS):
            time.sleep(0.5e-3)
            taken += teams_are_taken(self.profile.threads)
        return taken / _LOOKS

    def gain_of(self, **options: Any) -> Difference | None:
        """Return the model's gain by other options; None where it cannot be loaded with them."""
        key = repr(sorted(options.items()))
        if key not in self._tried:
            self._tried[key] = self._try(options)
        return self._tried[key]

    def _try(self, options: Mapping[str, Any]) -> Difference | None:
        try:
            other = self.model.changed(**options)
            other.run(self.inputs)
        except CenoteError:
            return None
        return paired(self._call, lambda: other.run(self.inputs))

    def gain_with(self, inputs: Mapping[str, Array]) -> Difference:
        """Return the model's gain by other inputs."""
        return paired(self._call, lambda: self.model.run(inputs))

    def rests_between(self) -> bool:
        """Return whether the process is mostly idle in its program's work between calls."""
        if self.between is None:
            return False
        begin, used = time.perf_counter(), time.process_time()
        self.between()
        return time.process_time() - used < RESTS * (time.perf_counter() - begin)

    def gain_hot(self) -> Difference | None:
        """Return the gain of calls that follow one another at once, without the program's work between them."""
        if self.between is not None and self._hot is None:
            self._hot = self._after(self.between)
        return self._hot

    def _after(self, between: Callable[[], object]) -> Difference:
        firsts, seconds = list[float](), list[float]()
        end = time.perf_counter() + 2 * SECONDS
        while len(firsts) < _LEAST_TURNS or (time.perf_counter() < end and len(firsts) < _MOST_TURNS):
            between()
            firsts.append(_milliseconds(self._call))
            seconds.append(_milliseconds(self._call))
        return Difference.of(firsts, seconds)

    def _call(self) -> None:
        self.model.run(self.inputs)

    def gain_kept(self) -> Difference | None:
        """Return the gain of outputs in memory that has been touched before; None for a model in stages, or whose
        inputs must be converted first."""
        _, stage = self.model.last_run()
        program = stage.plan.program
        try:
            arrays = [*stage.taken(self.inputs).values()]
        except CenoteError:
            return None
        if stage.tail is not None:
            return None
        kept = program.run(arrays)
        return paired(lambda: program.run(arrays), lambda: program.run(arrays, kept))
