"""Two profiles beside each other, step by step, with noise in mind.

A step's time is the mean of the quieter half of its blocks of calls, and its noise how far those differ, in both
profiles, with what two loads of one model differ by for no reason (memory lies elsewhere) and what a busy machine adds.
It is not less than how far the changes of all steps lie apart: a virtual machine whose neighbours come and go changes
for seconds, longer than a block takes (without this, 24 of 100 comparisons of ResNet-50 with itself raised an alarm on
one). A step has changed when it differs by more than that, beside what all steps have in common (`drift`: another
clock), and when the latency notices: differences of less than 0.08 % of it are left out. Where steps are few, what they
have in common cannot be told from a change, and counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.profile.data import Profile
from cenote.profile.fields import StepStats
from cenote.profile.plain import to_plain
from cenote.profile.table import milliseconds

SCHEMA = "cenote.comparison/1"
_LEAST = 0.03  # of a step's time: smaller differences are never called a change
_LOADS = 0.006  # of a step's time: what two loads of one model differ by
_MOMENT = 200e-6  # milliseconds that a step's time differs by for no reason: steps of 10 us by 2 %
_FOREIGN = 0.03  # of a step's time, for each core that others kept busy
_NOTICED = 0.0008  # of the latency
_SURE = 5.0  # times the noise: one false alarm in a million steps, were the noise normal
_FEW_BLOCKS = 4  # below which nothing is known of the noise
_NOTABLE_DRIFT = 0.02
_FEW_STEPS = 5  # below which the median of all says nothing of what they have in common
_NORMAL = 1.48  # standard deviations of a normal distribution in its median absolute deviation
_COMMON = 0.3  # of the latency: less, and these are two models
_NOTABLE_SHARE = 0.02  # of the latency: steps whose noise says what the comparison could have seen


@dataclass(frozen=True)
class StepChange:
    """A step of both profiles, by its indices there. Milliseconds `before` and `after` in quiet calls; `change` beside
    what all steps have in common, relative to before; `noise`: one standard deviation of it. `changed`: it is more than
    noise, or another algorithm computes it."""

    indices: tuple[int, int]
    node: str
    algorithms: tuple[str, str]
    before: float
    after: float
    change: float
    noise: float
    changed: bool


@dataclass(frozen=True)
class Comparison:
    """What two profiles say of one model. `wall_ms` before and after; `drift`: what all steps have in common, relative;
    `steps` of both; titles of those that only one has. `otherwise`: what else was not the same (inputs, threads, the
    processor). `least_change`: relative; half of the steps of 2 % of the latency and more would have shown a smaller
    one, half not; None where there is no such step in both."""

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
        found = [step for step in self.steps if step.changed]
        return tuple(sorted(found, key=lambda step: -abs(step.after - step.before)))

    @property
    def slower(self) -> bool:
        """Does some step take longer than before?"""
        return any(step.changed and step.change > 0 for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
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
    """What a comparison of one model's steps takes for granted, where it is not so. `common`: the part of the first
    latency that is of steps which both have."""
    if common < _COMMON:
        yield f"the model ({common:.0%} of {before.model} is of steps that {after.model} has too)"
    for name in _SAME:
        first, second = getattr(before, name), getattr(after, name)
        if first != second:
            yield f"{name} {_shown(first)} and {_shown(second)}"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _threshold(noise: float) -> float:
    """The logarithm of the least change that is more than noise."""
    return max(math.log1p(_LEAST), _SURE * noise)


def _least_change(steps: Sequence[StepChange]) -> float | None:
    return math.expm1(float(np.median([_threshold(step.noise) for step in steps]))) if steps else None


def _pairs(before: Sequence[StepStats], after: Sequence[StepStats]) -> Iterator[tuple[StepStats, StepStats]]:
    """Steps of the same node and kind, in order where a node has several."""
    waiting: dict[tuple[Any, ...], list[StepStats]] = {}
    for step in after:
        waiting.setdefault(_key(step), []).append(step)
    for step in before:
        if others := waiting.get(_key(step)):
            yield step, others.pop(0)


def _key(step: StepStats) -> tuple[Any, ...]:
    return step.stage, step.kind, step.title, step.op


def _quiet(step: StepStats) -> float:
    """Milliseconds in the quieter half of the blocks."""
    blocks = sorted(step.blocks_ms)
    return float(np.mean(blocks[: max(1, len(blocks) // 2)])) if blocks else step.ms


def _noise(step: StepStats) -> float:
    """Of the quiet time, relative; large where too little was measured to know."""
    blocks, quiet = sorted(step.blocks_ms), _quiet(step)
    if len(blocks) < _FEW_BLOCKS or quiet <= 0:
        return 0.1
    half = blocks[: len(blocks) // 2]
    return (half[-1] - half[0]) / 2 / quiet


def _change(
    a: StepStats, b: StepStats, drift: float, apart: float, foreign: float, least: float
) -> StepChange:
    """`apart`: how far the changes of all steps lie apart, the least noise of any; `foreign`: noise that others add;
    `least`: milliseconds below which no difference matters."""
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
