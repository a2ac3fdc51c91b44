"""A profile as text: the latency, its parts, the steps that take most time, disturbances by the machine."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from cenote.core.text import aligned, digits, ending, split_words
from cenote.profile.environment import Environment
from cenote.profile.fields import ProfileFields, StepStats
from cenote.profile.metrics.counters import summary
from cenote.profile.roofs import Roofs

# Number of steps that are shown.
TOP = 20
# Widths of columns, in letters.
_NODE, _ALGORITHM = 38, 18
_NOTABLE_CORES = 0.1
_MANY = 8  # calls of one kernel for one node that are one row
_SUMMED = split_words(
    "ms share kernels_ms waits_ms driver_ms low_ms operations executed_operations bytes read_bytes written_bytes"
)
HEADS = ("step", "node", "algorithm", "ms", "share", "busy", "Gop/s", "executed", "GB/s", "roof")
RowOf = Callable[[StepStats], tuple[str, ...]]
METRIC_HEADS = (
    "step",
    "node",
    "algorithm",
    "ms",
    "computing",
    "bandwidth",
    "cache hits",
    "pipeline",
    "bytes from",
)


def table(profile: ProfileFields, top: int = TOP, metrics: bool = False) -> str:
    """Return the text, with `top` steps; all where that is 0. `metrics`: the four measures of each step."""
    steps = (
        _rows(profile, top, METRIC_HEADS, metric_row, 8) if metrics else _rows(profile, top, HEADS, row, 9)
    )
    return "\n".join([*head(profile), "", *steps, *_findings(profile)])


def head(profile: ProfileFields) -> Iterator[str]:
    """Yield the latency, the accounts, and disturbances."""
    yield f"{profile.model} ({', '.join(profile.inputs)}), {profile.threads} thread(s), precision {profile.precision}"
    yield f"{profile.processor}, {profile.target}; cenote {profile.version}"
    yield (
        f"latency {milliseconds(profile.wall_ms)} (±{profile.spread:.1%}, {profile.calls} calls); "
        f"the parts add up to {milliseconds(profile.accounts.total)}"
    )
    total = profile.accounts.total
    parts = [
        f"{name} {milliseconds(value)} ({value / total:.1%})"
        for name, value in accounts_of(profile)
        if value or name != "host"
    ]
    yield f"  {', '.join(parts)}"
    yield from (f"  {line}" for line in disturbances(profile))
    yield from (f"  {line}" for line in summary(profile.counters))
    yield from (f"  {note}" for note in profile.notes)


def accounts_of(profile: ProfileFields) -> list[tuple[str, float]]:
    """Return names and milliseconds of the accounts."""
    accounts = profile.accounts
    return [(name, getattr(accounts, name)) for name in ("kernels", "waits", "driver", "host", "python")]


def disturbances(profile: ProfileFields) -> Iterator[str]:
    """Yield other activity of the machine that affected the measurement."""
    environment = profile.environment
    yield from other_activity(environment, profile.roofs)
    if profile.closure > 0.02:
        yield f"the parts are {profile.closure:.1%} off the latency of ordinary calls: the machine was not quiet"
    if (
        environment.clock_ghz is not None
        and abs(environment.clock_ghz[0] / environment.clock_ghz[1] - 1) > 0.05
    ):
        before, after = environment.clock_ghz
        yield f"the clock went from {before:.2f} to {after:.2f} GHz"


def other_activity(environment: Environment, roofs: Roofs | None) -> Iterator[str]:
    """Yield what others did on the machine while calls and roofs were measured."""
    if environment.foreign_cores is not None and environment.foreign_cores > _NOTABLE_CORES:
        yield f"other processes kept {environment.foreign_cores:.1f} cores busy meanwhile: the times are longer for it"
    if environment.steal_cores is not None and environment.steal_cores > _NOTABLE_CORES:
        yield f"the hypervisor gave {environment.steal_cores:.1f} cores to others meanwhile"
    if environment.throttled_periods:
        yield f"stopped in {environment.throttled_periods} periods: the quota of this container was used up"
    if roofs is not None and not roofs.quiet:
        yield "the roofs were measured while other processes were busy, and are too low"


def milliseconds(value: float) -> str:
    """Return a time with three digits, in ms or µs."""
    return f"{digits(value)} ms" if value >= 0.1 else f"{digits(value * 1e3)} µs"


def _rows(
    profile: ProfileFields,
    top: int,
    heads: tuple[str, ...],
    row_of: RowOf,
    text: int,
) -> Iterator[str]:
    """Yield the heaviest steps as rows; `text`: a column of words beside the node's and the algorithm's."""
    steps = step_rows(profile.steps)
    shown = steps[: top or len(steps)]
    yield from aligned([heads, *(row_of(step) for step in shown)], (1, 2, text))
    rest = steps[len(shown) :]
    if rest:
        ms = sum(step.ms for step in rest)
        yield f"and {len(rest)} more steps: {milliseconds(ms)} ({ms / profile.accounts.total:.1%})"


def step_rows(steps: Sequence[StepStats]) -> list[StepStats]:
    """Return the steps as rows show them, those that take most time first. Many calls of one kernel for one node, as of
    the steps of a sequence, are one row."""
    alike: dict[tuple[int, str, str], list[StepStats]] = defaultdict(list)
    for step in steps:
        alike[step.stage, step.node, step.kernel or str(step.index)].append(step)
    rows = [row for each in alike.values() for row in ([_together(each)] if len(each) >= _MANY else each)]
    return sorted(rows, key=lambda step: -step.ms)


def _together(steps: Sequence[StepStats]) -> StepStats:
    """Return many steps as one, in the place of the first, with the measures of the one that takes most time."""
    most = max(steps, key=lambda step: step.ms)
    kernels = sum(step.kernels_ms for step in steps)
    reached = sum((step.roof_share or 0.0) * step.kernels_ms for step in steps)
    return dataclasses.replace(
        most,
        index=steps[0].index,
        algorithm=f"{most.algorithm} x{len(steps)}",
        busy_ms=tuple(map(sum, zip(*(step.busy_ms for step in steps), strict=True))),
        roof_share=None if most.roof_share is None or not kernels else reached / kernels,
        **{name: sum(getattr(step, name) for step in steps) for name in _SUMMED},
    )


def _beginning(step: StepStats) -> tuple[str, ...]:
    return (
        str(step.index),
        ending(step.title, _NODE),
        ending(step.how, _ALGORITHM),
        f"{step.ms:.{_digits(step.ms)}f}",
    )


def metric_row(step: StepStats) -> tuple[str, ...]:
    """Return the cells of a step's row in the table of measures: estimates, empty where nothing is known."""
    found = step.metrics
    shares = (found.compute, found.bandwidth, found.cache_hits, found.pipeline)
    total = sum(each.nbytes for each in found.levels)
    levels = ", ".join(f"{each.level} {each.nbytes / total:.0%}" for each in found.levels)
    return (*_beginning(step), *("" if each is None else f"{each:.0%}" for each in shares), levels)


def row(step: StepStats) -> tuple[str, ...]:
    """Return the cells of a step's row in a table."""
    return (
        *_beginning(step),
        f"{step.share:.1%}",
        balance(step),
        rate(step.operations, step),
        ratio(step),
        bandwidth(step),
        roof(step),
    )


def _digits(ms: float) -> int:
    """Return the number of decimal places: to the microsecond, fewer for long steps."""
    return 4 if ms < 1 else 3 if ms < 100 else 1


def balance(step: StepStats) -> str:
    """Return how evenly the threads were busy: the mean over the maximum."""
    most = max(step.busy_ms, default=0.0)
    return f"{sum(step.busy_ms) / len(step.busy_ms) / most:.0%}" if most and len(step.busy_ms) > 1 else ""


def rate(operations: float, step: StepStats) -> str:
    """Return 1e9 operations per second, all threads together, while they computed."""
    return f"{operations / step.kernels_ms / 1e6:.1f}" if operations and step.kernels_ms else ""


def ratio(step: StepStats) -> str:
    """Return the executed operations relative to those of the operator."""
    return (
        f"x{step.executed_operations / step.operations:.2f}"
        if step.operations and step.executed_operations
        else ""
    )


def bandwidth(step: StepStats) -> str:
    """Return 1e9 bytes per second."""
    return f"{step.bytes / step.kernels_ms / 1e6:.1f}" if step.bytes and step.kernels_ms else ""


def roof(step: StepStats) -> str:
    """Return the nearest roof, and the share of it that is reached."""
    return f"{step.roof_share:.0%} of {step.bound}" if step.roof_share is not None else ""


def _findings(profile: ProfileFields) -> Iterator[str]:
    for found in profile.findings:
        yield f"{found.cause} ({found.share:.1%} of the time, confidence {found.confidence:.0%}): {found.evidence}"
        gain = ""
        if found.gain_ms is not None:
            low, middle, high = found.gain_ms
            gain = f"; gain {milliseconds(middle)} ({milliseconds(low)} to {milliseconds(high)})"
        yield f"    {found.action}{gain}"
