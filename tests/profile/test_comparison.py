"""Comparing profiles: planted changes are found, noise is not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cenote.profile.comparison import compare_profiles
from cenote.profile.data import Profile
from tests.profile.samples import PROFILE, STEP

STEPS = 60


def simulated(
    seed: int,
    slow: dict[int, float] | None = None,
    drift: float = 1.0,
    noise: float = 0.004,
    loads: float = 0.004,
) -> Profile:
    """A profile of a model whose steps take 5 us to 2 ms, with the noise that profiles have: each load of the model has
    its own time of a step, blocks of calls differ, and now and then something disturbs a block."""
    random = np.random.default_rng(seed)
    truth = np.geomspace(0.005, 2.0, STEPS)
    steps = []
    for index, time in enumerate(truth * (1 + loads * random.standard_normal(STEPS)) * drift):
        time *= (slow or {}).get(index, 1.0)
        blocks = time * (1 + noise * np.abs(random.standard_normal(8)))
        blocks[random.random(8) < 0.2] *= 1.3
        times, share = tuple(blocks.tolist()), float(time / truth.sum())
        steps.append(
            replace(
                STEP, index=index, node=f"n{index}", ms=float(blocks.mean()), blocks_ms=times, share=share
            )
        )
    return replace(PROFILE, steps=tuple(steps), wall_ms=float(truth.sum()))


@pytest.mark.parametrize("noise", [0.001, 0.004, 0.02, 0.08])
def test_a_hundred_comparisons_with_itself_raise_at_most_one_false_alarm(noise: float) -> None:
    pairs = [(simulated(2 * i, noise=noise), simulated(2 * i + 1, noise=noise)) for i in range(100)]
    assert sum(bool(compare_profiles(a, b).changes) for a, b in pairs) <= 1


@pytest.mark.parametrize("loads", [0.01, 0.03])
def test_a_machine_that_changes_between_loads_raises_no_alarms(loads: float) -> None:
    """Blocks of calls, which follow one upon the other, do not show such noise: the steps beside each other do."""
    pairs = [(simulated(2 * i, loads=loads), simulated(2 * i + 1, loads=loads)) for i in range(100)]
    assert sum(bool(compare_profiles(a, b).changes) for a, b in pairs) <= 1


@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_planted_changes_of_five_percent_are_found(factor: float) -> None:
    found = 0
    for seed in range(30):
        slow = 44 + seed % 15
        result = compare_profiles(simulated(seed), simulated(seed + 500, {slow: factor}))
        found += [change.node for change in result.changes] == [f"n{slow}"]
        assert result.slower == any(change.change > 0 for change in result.changes)
    assert found >= 27


def test_another_clock_is_no_change_of_steps() -> None:
    result = compare_profiles(simulated(1), simulated(2, drift=1.1))
    assert not result.changes
    assert result.drift == pytest.approx(0.1, abs=0.01)
    assert "have in common +10" in str(result)
    slowed = compare_profiles(simulated(1), simulated(2, {50: 1.08}, drift=1.1))
    assert [change.node for change in slowed.changes] == ["n50"]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_of_few_steps_none_is_taken_for_the_clock(count: int) -> None:
    """The median of all of them would be the change itself."""

    def few(profile: Profile) -> Profile:
        return replace(profile, steps=profile.steps[-count:])

    assert not compare_profiles(few(simulated(1)), few(simulated(2))).changes
    found = compare_profiles(few(simulated(1)), few(simulated(2, {STEPS - 1: 1.06})))
    assert [change.node for change in found.changes] == [f"n{STEPS - 1}"]
    assert found.slower


def test_it_says_what_it_could_have_seen() -> None:
    quiet, noisy = (compare_profiles(simulated(1, noise=n), simulated(2, noise=n)) for n in (0.001, 0.1))
    assert quiet.least_change is not None
    assert noisy.least_change is not None
    assert 0.03 <= quiet.least_change < 0.05 < 0.2 < noisy.least_change
    assert "would show" in str(noisy)


def test_what_is_not_the_same_is_told() -> None:
    other = replace(simulated(2), threads=1, inputs=("x: float32[2, 8]",))
    text = str(compare_profiles(simulated(1), other))
    assert "not the same: inputs x: float32[1, 8] and x: float32[2, 8]; threads 2 and 1" in text
    nothing = compare_profiles(simulated(1), replace(other, steps=()))
    assert "no step in common" in str(nothing)
    assert "not the same: the model (0% of net is of steps that net has too)" in str(nothing)
    assert nothing.least_change is None


def test_differences_that_the_latency_does_not_notice_are_left_out() -> None:
    assert not compare_profiles(simulated(1), simulated(2, {5: 1.2})).changes


def test_a_busy_machine_adds_noise() -> None:
    busy = replace(PROFILE.environment, foreign_cores=1.5)
    after = replace(simulated(2, {50: 1.1}), environment=busy)
    assert compare_profiles(simulated(1), replace(after, environment=PROFILE.environment)).changes
    assert not compare_profiles(simulated(1), after).changes


def test_what_is_too_noisy_to_tell_raises_no_alarm() -> None:
    assert not compare_profiles(simulated(1, noise=0.2), simulated(2, {50: 1.05}, noise=0.2)).changes


def test_other_algorithms_and_other_steps_are_named() -> None:
    after = simulated(2)
    steps = (
        replace(after.steps[0], algorithm="winograd"),
        *after.steps[1:-1],
        replace(after.steps[-1], node="new"),
    )
    result = compare_profiles(simulated(1), replace(after, steps=steps))
    assert [change.algorithms for change in result.changes] == [("direct", "winograd")]
    assert (result.removed, result.added) == (("n59",), ("new",))
    assert "direct -> winograd" in str(result)


def test_a_comparison_is_plain_data() -> None:
    data = compare_profiles(simulated(1), simulated(2)).to_dict()
    assert json.loads(json.dumps(data))["schema"] == "cenote.comparison/1"
    assert data["steps"][0].keys() >= {"before", "after", "change", "noise", "changed"}
