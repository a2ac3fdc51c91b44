"""Prediction of the whole latency if some steps took another time.

Between two meetings of all threads the slowest thread decides: the times of a group's steps are changed thread by
thread, and the group takes as long as its slowest thread then.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cenote.profile.data import Profile
from cenote.profile.fields import StepStats
from cenote.runtime.program import even_grains, most_items

Gain = tuple[float, float, float]


def gain(profile: Profile, factors: Mapping[int, float], doubt: float = 0.2) -> Gain:
    """Return the milliseconds saved (low, middle, high) if the computing of each of these steps took so many times as
    long as now. `doubt`: the possible error of the middle, relative to it; the noise of the steps is added. No group
    can save more than it takes."""
    groups: dict[int, list[int]] = {}
    for step in profile.steps:
        groups.setdefault(step.group, []).append(step.index)
    saved = noise = most = 0.0
    for members in groups.values():
        if not any(index in factors for index in members):
            continue
        steps = [profile.steps[index] for index in members]
        count = max((len(step.busy_ms) for step in steps), default=1)
        now, then = [0.0] * count, [0.0] * count
        for step in steps:
            factor = factors.get(step.index, 1.0)
            busy = step.busy_ms if any(step.busy_ms) else (step.ms,) * count
            for thread, ms in enumerate(busy):
                now[thread] += ms
                then[thread] += ms * factor
            if step.index in factors:
                noise += step.mad_ms * abs(1 - factor)
        saved += max(now) - max(then)
        most += max(now)
    spread = abs(saved) * doubt + noise
    return saved - spread, saved, min(saved + spread, most)


def by_pieces(step: StepStats) -> float:
    """Return the pieces of the thread that has most, relative to the mean, if all pieces take equally long."""
    threads, items = max(len(step.busy_ms), 1), np.array([step.items])
    grains = even_grains(items, np.array([max(step.grain, 1)]), threads)
    return float(most_items(items, grains, threads)[0]) * threads / max(step.items, 1)


def lost_by_pieces(step: StepStats) -> float:
    """Return the milliseconds that the thread with most pieces takes longer than the mean. Which thread that is
    changes from call to call, so the means over the calls (`busy_ms`) do not show it."""
    return step.kernels_ms * (by_pieces(step) - 1)


def at_best(step: StepStats, share: float | None = None) -> float:
    """Return the share of the roof that the step reaches in its fastest call, which other processes have disturbed
    least. `share`: the mean share of another roof than the nearest."""
    least = min(step.blocks_ms, default=0.0)
    return (step.roof_share or 0.0 if share is None else share) * step.ms / least if least else 0.0
