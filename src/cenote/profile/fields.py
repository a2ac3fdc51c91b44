"""Content of a profile, as frozen data (docs/profile.md). `data.Profile` prints and writes it.

Times are milliseconds of one call of the model, unless a name says otherwise. Values that were not measured are None.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from cenote.core.deferred import dataclass
from cenote.core.load_options import NO_OPTIONS, OPTIONS
from cenote.profile.environment import Environment
from cenote.profile.metrics.counters import Counter
from cenote.profile.metrics.step_metrics import UNKNOWN, StepMetrics
from cenote.profile.roofs import Roofs

Kind = Literal["kernel", "halo", "host", "check", "between"]


@dataclass(frozen=True)
class Accounts:
    """Division of a call's time; the sum is the latency of the calls that were recorded.

    On several threads each account is the mean over the threads of the program, the calling one and its workers:
    `kernels` is computing, `waits` is having nothing to compute (the others are not done, or the thread is not awake
    yet), `driver` is taking chunks and meeting. `host`: steps that run in Python, and nodes between the stages of a
    model. `python`: all else, from the call to its return: checks of the inputs, new outputs, the way into native
    code.
    """

    kernels: float
    waits: float
    driver: float
    host: float
    python: float

    @property
    def total(self) -> float:
        return self.kernels + self.waits + self.driver + self.host + self.python


@dataclass(frozen=True)
class Rival:
    """An algorithm that the scheduler considered for a step, with the milliseconds that the cost model estimates."""

    algorithm: str
    ms: float


@dataclass(frozen=True)
class StepStats:
    """One step of the native program, timed in place.

    `index` counts the steps of all stages in their order, `stage` the stages. `node`, `op`, `algorithm`, `kernel`,
    `output`, `reason`, `items`, `grain` are those of the plan's description. `kind`: as there, or "between" for nodes
    that run on the host between two stages.

    `ms` is the step's part of the latency: kernels_ms + waits_ms + driver_ms of a kernel (means over the threads), the
    wall time of a host step. All steps and `accounts.python` add up to the recorded latency. `share` = ms / latency.
    `busy_ms`: computing, per thread. `group` counts the stretches between meetings of all threads: steps of one group
    run at the same time. `low_ms` is the tenth percentile of the recorded calls, `mad_ms` the median absolute
    deviation, `blocks_ms` the least of each of eight blocks of calls, one after another: the noise is taken from
    them.

    `operations` are those of the operator (a multiply-add counts 2), `executed_operations` those that the kernel
    really executes (Winograd: fewer; padding lanes: more), `read_bytes` and `written_bytes` must be moved at least
    once, `dtype` is the type of the computation. `bound` names the nearest roof ("fma", "L1", "L2", "L3", "memory",
    or "" for a step without a measure), `roof_share` = the least time that this roof allows / the time that the step
    took while its threads computed. `estimate_ms` is the cost model's estimate for one thread, `rivals` its other
    choices. `denormals`: the part of the calls in which the step met numbers below the smallest normal one, by the
    processor's
    own flags; None where it has none. `metrics`: how well it uses the machine, by a model of the caches.
    """

    index: int
    stage: int
    kind: Kind
    node: str
    op: str
    algorithm: str
    output: str
    ms: float
    share: float
    kernels_ms: float
    waits_ms: float
    driver_ms: float
    busy_ms: tuple[float, ...]
    group: int
    low_ms: float
    mad_ms: float
    blocks_ms: tuple[float, ...]
    kernel: str = ""
    items: int = 1
    grain: int = 1
    reason: str = ""
    dtype: str = "float32"
    operations: int = 0
    executed_operations: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    bytes: int = 0
    bound: str = ""
    roof_share: float | None = None
    estimate_ms: float | None = None
    rivals: tuple[Rival, ...] = ()
    denormals: float | None = None
    metrics: StepMetrics = UNKNOWN

    @property
    def title(self) -> str:
        """The node, or the algorithm of a step without a node."""
        return self.node or self.algorithm

    @property
    def how(self) -> str:
        """The algorithm of a kernel, else the kind of step."""
        return self.algorithm if self.kind == "kernel" else "host" if self.kind == "between" else self.kind


class Treatment(dict[str, Any]):
    """Changes to the way a model is loaded: options of `cenote.load_with` by their names."""

    def __init__(self, **options: Any) -> None:
        checked = vars(NO_OPTIONS.changed(**options))
        # Algorithms stay in the order in which they are given.
        super().__init__(
            (name, given if given == checked[name] else checked[name]) for name, given in options.items()
        )

    @property
    def changes_results(self) -> bool:
        """True if results may change by more than rounding in float32 does."""
        return any(OPTIONS[name].alters(given) for name, given in self.items())

    def __str__(self) -> str:
        named = [f"compute {node} by {algorithm}" for node, algorithm in self.get("algorithms", {}).items()]
        options = [
            f'`{name}="{value}"`' if isinstance(value, str) else f"`{name}={value}`"
            for name, value in self.items()
            if name not in ("rewrites", "algorithms")
        ]
        parts = [f"load with {', '.join(options)}"] if options else []
        parts += [_REWRITTEN[name] for name in self.get("rewrites", ())]
        parts += named[:_FEW]
        parts += [f"and {len(named) - _FEW} more layers likewise"] if len(named) > _FEW else []
        return ", ".join(parts)


# Number of layers whose algorithms are shown.
_FEW = 3
_REWRITTEN: dict[str, str] = {
    "float32": "compute float64 in float32",
    "space_to_batch": "compute dilated convolutions as plain ones of every d-th row and column",
}


@dataclass(frozen=True)
class Finding:
    """A cause of lost time, named by one word (`cause`), and the indices of the steps that it concerns.

    `share` of the latency that these take; `evidence` in words and numbers; `confidence` from 0 to 1; `action`: the
    advice. `gain_ms`: predicted milliseconds of the whole latency (low, mid, high), None where none can be predicted;
    `measured_gain_ms` where the action was tried. `treatments` are alternatives that `Model.treat` may try: `gain_ms`
    is about the first; none where only a person can act.
    """

    cause: str
    steps: tuple[int, ...]
    share: float
    evidence: str
    confidence: float
    action: str
    gain_ms: tuple[float, float, float] | None = None
    measured_gain_ms: float | None = None
    treatments: tuple[Treatment, ...] = ()


@dataclass(frozen=True)
class Span:
    """An action of one thread in the call that the timeline shows: microseconds from the call's begin.

    `step`: its index, -1 for Python. `what`: "kernel", "wait", "host", "python".
    """

    thread: int
    step: int
    what: Literal["kernel", "wait", "host", "python"]
    begin_us: float
    end_us: float
    cpu: int = -1


@dataclass(frozen=True)
class ArenaBlock:
    """A buffer of the plan's arena: from step `first` to step `last` it occupies the `nbytes` bytes from `offset`."""

    name: str
    stage: int
    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ProfileFields:
    """A profile of a model's calls on this machine: where the time goes, and the limits of the machine.

    `wall_ms` is the latency of ordinary calls, `recorded_ms` that of the recorded ones between them, both
    interquartile means of `calls` calls; `accounts` add up to the latter. `spread` is half the distance between the
    quartiles of ordinary calls, relative to the median. `stages` counts the plans that follow one another in a call.
    `counters`: events of the processor in an ordinary call, or why the system does not count them.
    """

    model: str
    inputs: tuple[str, ...]
    threads: int
    precision: str
    version: str
    processor: str
    target: str
    calls: int
    wall_ms: float
    recorded_ms: float
    spread: float
    accounts: Accounts
    environment: Environment
    steps: tuple[StepStats, ...]
    roofs: Roofs | None = None
    stages: int = 1
    timeline: tuple[Span, ...] = ()
    arena: tuple[ArenaBlock, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = field(default=())
    counters: tuple[Counter, ...] = ()

    @property
    def closure(self) -> float:
        """The difference between the accounts and the latency of ordinary calls, relative to the latter."""
        return abs(self.accounts.total - self.wall_ms) / self.wall_ms

    def heaviest(self) -> tuple[StepStats, ...]:
        """Return the steps, those that take the most time first."""
        return tuple(sorted(self.steps, key=lambda step: -step.ms))
