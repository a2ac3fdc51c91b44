"""Comparison of two profiles, step by step, that takes noise into account.

A step's time is the mean of the quieter half of its blocks of calls. Its noise is the variation of those, in both
profiles, with the difference that two loads of one model have for no reason (other places in memory) and the effect
of a busy machine. It is at least the spread of the changes of all steps: a virtual machine with changing neighbours
changes for seconds, longer than a block takes (without this, 24 of 100 comparisons of ResNet-50 with itself raised an
alarm on one). A step has changed when it differs by more than that, apart from what all steps have in common
(`drift`: another clock), and when the latency notices it: differences of less than 0.08 % of the latency are left
out. Where there are few steps, a common change cannot be distinguished from changes of steps, and counts as such.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.text import Report
from cenote.profile.data import Profile
from cenote.profile.fields import StepStats
from cenote.profile.plain import to_plain
from cenote.profile.table import milliseconds

SCHEMA = "cenote.comparison/1"
# Part of a step's time: smaller differences are never called a change.
_LEAST = 0.03
# Part of a step's time: the difference between two loads of one model.
_LOADS = 0.006
# Milliseconds that a step's time differs by for no reason: steps of 10 us by 2 %.
_MOMENT = 200e-6
# Part of a step's time, for each core that other processes kept busy.
_FOREIGN = 0.03
# Part of the latency.
_NOTICED = 0.0008
# Times the noise: one false alarm in a million steps, if the noise were normal.
_SURE = 5.0
# With fewer blocks nothing is known of the noise.
_FEW_BLOCKS = 4
_NOTABLE_DRIFT = 0.02
# With fewer steps their median says nothing about a common change.
_FEW_STEPS = 5
# Standard deviations of a normal distribution in its median absolute deviation.
_NORMAL = 1.48
# Part of the latency: with less in common the profiles are of two models.
_COMMON = 0.3
# Part of the latency: the noise of larger steps gives the least change that the comparison can detect.
_NOTABLE_SHARE = 0.02


@dataclass(frozen=True)
class StepChange:
    """A step of both profiles, by its indices there. `before` and `after`: milliseconds in quiet calls; `change`:
    apart from what all steps have in common, relative to before; `noise`: one standard deviation of it. `changed`: it
    is more than noise, or another algorithm computes the step."""

    indices: tuple[int, int]
    node: str
    algorithms: tuple[str, str]
    before: float
    after: float
    change: float
    noise: float
    changed: bool


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """Differences between two profiles of one model. `wall_ms` before and after; `drift`: the change that all steps
    have in common, relative; `steps` of both; titles of those that only one has. `otherwise`: further differences
    (inputs, threads, the processor). `least_change`: a relative change; of the steps of 2 % of the latency and more,
    half would have shown a smaller one, half not; None where both have no such step."""

    models: tuple[str, str]
    wall_ms: tuple[float, float]
    drift: float
    steps: tuple[StepChange, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    least_change: float | None = None

    @property
    def changes(self) -> tuple[StepChange, ...]:
        """Steps that have changed, those with the largest difference in milliseconds first."""
        changed = [step for step in self.steps if step.changed]
        return tuple(sorted(changed, key=lambda step: -abs(step.after - step.before)))

    @property
    def slower(self) -> bool:
        """True if a step takes longer than before."""
        return any(step.changed and step.change > 0 for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {"schema": SCHEMA, **to_plain(self)}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def compare_profiles(before: Profile, after: Profile) -> Comparison:
    """Compare two profiles of a model, taken with the same inputs and threads."""
    pairs = [*_pairs(before.steps, after.steps)]
    known = [(a, b) for a, b in pairs if _quiet(a) > 0 and _quiet(b) > 0]
    ratios = [math.log(_quiet(b) / _quiet(a)) for a, b in known if a.share > 0.002]
    drift = float(np.median(ratios)) if len(ratios) >= _FEW_STEPS else 0.0
    apart = _NORMAL * float(np.median(np.abs(np.array(ratios) - drift))) if len(ratios) >= _FEW_STEPS else 0.0
    busy = max(each.environment.foreign_cores or 0.0 for each in (before, after))
    least = _NOTICED * min(before.wall_ms, after.wall_ms)
    steps = tuple(_change(a, b, drift, apart, _FOREIGN * busy, least) for a, b in known)
    matched_a, matched_b = {a.index for a, _ in pairs}, {b.index for _, b in pairs}
    return Comparison(
        models=(before.model, after.model),
        wall_ms=(before.wall_ms, after.wall_ms),
        drift=math.expm1(drift),
        steps=steps,
        removed=tuple(step.title for step in before.steps if step.index not in matched_a),
        added=tuple(step.title for step in after.steps if step.index not in matched_b),
        otherwise=tuple(_otherwise(before, after, sum(a.share for a, _ in pairs))),
        least_change=_least_change(
            [each for each, (a, _) in zip(steps, known, strict=True) if a.share > _NOTABLE_SHARE]
        ),
    )


_SAME = ("inputs", "threads", "precision", "processor", "target", "version")


def _otherwise(before: Profile, after: Profile, common: float) -> Iterator[str]:
    """Yield the differences that a comparison of one model's steps assumes to be absent. `common`: the part of the
    first latency that belongs to steps which both have."""
    if common < _COMMON:
        yield f"the model ({common:.0%} of {before.model} is of steps that {after.model} has too)"
    for name in _SAME:
        first, second = getattr(before, name), getattr(after, name)
        if first != second:
            yield f"{name} {_shown(first)} and {_shown(second)}"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _threshold(noise: float) -> float:
    """Return the logarithm of the least change that is more than noise."""
    return max(math.log1p(_LEAST), _SURE * noise)


def _least_change(steps: Sequence[StepChange]) -> float | None:
    return math.expm1(float(np.median([_threshold(step.noise) for step in steps]))) if steps else None


def _pairs(before: Sequence[StepStats], after: Sequence[StepStats]) -> Iterator[tuple[StepStats, StepStats]]:
    """Yield pairs of steps of the same node and kind, in order where a node has several."""
    waiting: dict[tuple[Any, ...], list[StepStats]] = {}
    for step in after:
        waiting.setdefault(_key(step), []).append(step)
    for step in before:
        if others := waiting.get(_key(step)):
            yield step, others.pop(0)


def _key(step: StepStats) -> tuple[Any, ...]:
    return step.stage, step.kind, step.title, step.op


def _quiet(step: StepStats) -> float:
    """Return milliseconds in the quieter half of the blocks."""
    blocks = sorted(step.blocks_ms)
    return float(np.mean(blocks[: max(1, len(blocks) // 2)])) if blocks else step.ms


def _noise(step: StepStats) -> float:
    """Return the noise of the quiet time, relative; 0.1 where too little was measured to know it."""
    blocks, quiet = sorted(step.blocks_ms), _quiet(step)
    if len(blocks) < _FEW_BLOCKS or quiet <= 0:
        return 0.1
    half = blocks[: len(blocks) // 2]
    return (half[-1] - half[0]) / 2 / quiet


def _change(
    a: StepStats, b: StepStats, drift: float, apart: float, foreign: float, least: float
) -> StepChange:
    """Return the change of a step. `apart`: the spread of the changes of all steps, the least noise of any;
    `foreign`: noise from other processes; `least`: milliseconds below which no difference matters."""
    before, after = _quiet(a), _quiet(b)
    change = math.log(after / before) - drift
    moment = _MOMENT / min(before, after)
    noise = max(apart, math.sqrt(_noise(a) ** 2 + _noise(b) ** 2 + _LOADS**2 + moment**2 + foreign**2))
    algorithms = a.algorithm, b.algorithm
    noticed = abs(math.expm1(change)) * before > least
    beyond = noticed and abs(change) > _threshold(noise)
    changed = beyond or algorithms[0] != algorithms[1]
    return StepChange(
        (a.index, b.index), a.title, algorithms, before, after, math.expm1(change), noise, changed
    )


def _lines(found: Comparison) -> Iterator[str]:
    before, after = found.wall_ms
    yield f"{found.models[1]}: {milliseconds(before)} before, {milliseconds(after)} after ({after / before - 1:+.1%})"
    if found.otherwise:
        yield f"not the same: {'; '.join(found.otherwise)}"
    if abs(found.drift) > _NOTABLE_DRIFT:
        yield f"all steps have in common {found.drift:+.1%} (the machine's clock or mood); changes are beside that"
    changes = found.changes
    if not found.steps:
        yield "no step in common: are these profiles of one model?"
    elif not changes:
        seen = (
            "" if found.least_change is None else f"; {found.least_change:.0%} and more of a step would show"
        )
        yield f"no step has changed ({len(found.steps)} compared{seen})"
    for step in changes:
        names = step.algorithms
        how = names[0] if names[0] == names[1] else f"{names[0]} -> {names[1]}"
        times = f"{milliseconds(step.before)} -> {milliseconds(step.after)}"
        yield f"  {step.change:+7.1%}  {times:24}  {step.node} ({how}), noise {step.noise:.1%}"
    for title, steps in (("only before", found.removed), ("only after", found.added)):
        if steps:
            shown = ", ".join(steps[:5]) + (f" and {len(steps) - 5} more" if len(steps) > 5 else "")
            yield f"  {title}: {shown}"
