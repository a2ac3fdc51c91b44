"""Round-robin measurement: every engine works for a slice of time in every round, one at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from bench.engines.base import Arrays
from bench.engines.registry import EngineSpec
from bench.process import EngineError, EngineProcess

One = TypeVar("One")

# An engine whose very first run takes longer than this (large windows done naively) is not asked again.
PATIENCE = 10.0
# One that has used so many times its seconds, because a single run fills its slice, rests after two rounds.
OVERTIME = 3.0


@dataclass
class Outcome:
    """What was measured of one engine on one piece of work. Times are in seconds, memory in megabytes."""

    engine: str
    version: str = ""
    failure: str = ""
    import_seconds: float = 0.0
    prepare_seconds: float = 0.0
    load_seconds: float = 0.0
    first_seconds: float = 0.0
    error: float = float("inf")
    peak_memory: float = 0.0
    round_medians: list[float] = field(default_factory=list)
    fastest: float = float("inf")
    median: float = float("inf")
    runs: int = 0
    foreign_cores: float = 0.0

    def add(self, samples: Sequence[dict[str, Any]]) -> None:
        """Summarises the slices that `Host.measure` gave."""
        times = [seconds for sample in samples for seconds in sample["times"]]
        self.round_medians = [median(sample["times"]) for sample in samples]
        self.fastest, self.median, self.runs = min(times), median(times), len(times)
        self.foreign_cores = median(sample["foreign_cores"] for sample in samples)


@dataclass(frozen=True)
class Plan:
    """How long to measure: seconds per engine in all, cut into rounds."""

    threads: int
    seconds: float = 2.0
    rounds: int = 5

    @property
    def slice(self) -> float:
        """Seconds of one engine in one round."""
        return self.seconds / self.rounds


def compare(
    specs: Iterable[EngineSpec], work: Any, x: Any, judge: Callable[[Arrays], float], plan: Plan
) -> list[Outcome]:
    """Measures the engines on one piece of work; `judge` turns their outputs into an error."""
    contenders: list[Contender] = []
    try:
        for spec in specs:
            contenders.append(Contender(spec, plan))
            contenders[-1].enter(work, x, judge)
        for number in range(plan.rounds):
            for contender in in_turn(contenders, number):
                contender.work()
        return [contender.leave() for contender in contenders]
    finally:
        for contender in contenders:
            contender.process.close()


def in_turn(contenders: list[One], number: int) -> list[One]:
    """Another engine begins each round, and the direction alternates: nobody has a fixed neighbour."""
    start = number % max(1, len(contenders))
    order = contenders[start:] + contenders[:start]
    return order[::-1] if number % 2 else order


class Contender:
    """One engine in the comparison: its process, and what it has shown so far."""

    def __init__(self, spec: EngineSpec, plan: Plan) -> None:
        self.spec = spec
        self.plan = plan
        self.outcome = Outcome(spec.name)
        self.samples: list[dict[str, Any]] = []
        self.typical = 0.0
        self.finished = False
        self.process = EngineProcess(spec, plan.threads)

    def enter(self, work: Any, x: Any, judge: Callable[[Arrays], float]) -> None:
        """Imports, loads, runs once."""
        try:
            if self.spec.prepares:
                self.outcome.prepare_seconds = self.prepare(work)
            started = self.process.call("start", self.spec, self.plan.threads)
            self.outcome.version = started["version"]
            self.outcome.import_seconds = started["import_seconds"]
            self.outcome.load_seconds = self.process.call("load", work, self.plan.threads)
            self.outcome.first_seconds, outputs = self.process.call("first", x)
            self.outcome.error = judge(outputs)
        except EngineError as problem:
            self.fail(problem)
            return
        self.typical = self.outcome.first_seconds
        if self.typical > max(PATIENCE, self.plan.seconds):
            self.samples.append({"times": [self.typical], "foreign_cores": 0.0})
            self.finished = True

    def prepare(self, work: Any) -> float:
        """Conversion, in a process that ends before anything is measured."""
        process = EngineProcess(self.spec, self.plan.threads)
        try:
            process.call("start", self.spec, self.plan.threads)
            seconds: float = process.call("prepare", work)
            return seconds
        finally:
            process.close()

    def work(self) -> None:
        """One slice of measuring."""
        if self.outcome.failure or self.finished:
            return
        try:
            sample = self.process.call("measure", self.plan.slice, self.typical <= self.plan.slice)
        except EngineError as problem:
            self.fail(problem)
            return
        self.samples.append(sample)
        self.typical = median(sample["times"])
        # Two rounds at least: one may have been disturbed.
        spent = sum(sum(sample["times"]) for sample in self.samples)
        self.finished = len(self.samples) > 1 and spent > OVERTIME * self.plan.seconds

    def leave(self) -> Outcome:
        """The summary."""
        try:
            if not self.outcome.failure:
                self.outcome.peak_memory = self.process.call("peak_memory")
                self.outcome.add(self.samples)
        except EngineError as problem:
            self.fail(problem)
        return self.outcome

    def fail(self, problem: EngineError) -> None:
        """Keeps the reason; the engine takes no further part."""
        self.outcome.failure = str(problem)
