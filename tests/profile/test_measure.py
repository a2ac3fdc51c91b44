"""Profiles of real calls: nothing is timed against a limit, only that what was measured adds up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import ArgumentError, InputError
from cenote.profile.data import Profile

DATA = "src/cenote/data/fashion.onnx"


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest) -> cenote.Model:
    return cenote.load(DATA, threads=request.param)


def picture(model: cenote.Model) -> dict[str, Any]:
    (declared,) = model.inputs
    shape = [n if isinstance(n, int) else 4 for n in declared.shape or ()]
    return {declared.name: np.random.default_rng(0).random(shape).astype(declared.dtype)}


def test_the_accounts_add_up(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.05)
    assert found.calls >= 3
    total = sum(step.ms for step in found.steps) + found.accounts.python
    assert total == pytest.approx(found.recorded_ms) == found.accounts.total
    assert found.accounts.kernels > 0
    assert found.accounts.python > 0
    assert found.accounts.host == 0
    for step in found.steps:
        assert len(step.busy_ms) == found.threads
        assert step.ms == pytest.approx(step.kernels_ms + step.waits_ms + step.driver_ms)
        assert step.kernels_ms == pytest.approx(sum(step.busy_ms) / found.threads)
    assert sum(step.share for step in found.steps) < 1


def test_steps_are_those_of_the_plan(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    planned = model.plan.describe().steps
    assert [(s.node, s.algorithm, s.kernel, s.items) for s in found.steps] == [
        (s.node, s.algorithm, s.kernel, s.items) for s in planned
    ]
    assert [step.index for step in found.steps] == list(range(len(planned)))


def test_the_timeline_lies_within_the_call(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    assert {span.step for span in found.timeline if span.what == "kernel"} == {
        step.index for step in found.steps
    }
    for span in found.timeline:
        assert 0 <= span.begin_us <= span.end_us
        assert 0 <= span.thread < found.threads


def test_a_profile_survives_json(model: cenote.Model) -> None:
    found = model.profile(picture(model), seconds=0.02)
    assert Profile.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_model_is_left_as_it_was(model: cenote.Model) -> None:
    x = picture(model)
    before = model.run(x)
    stages = dict(model._stages)
    model.profile(x, seconds=0.02)
    assert dict(model._stages) == stages
    for name, y in model.run(x).items():
        np.testing.assert_array_equal(y, before[name])


def test_inputs_may_be_an_array(model: cenote.Model) -> None:
    (x,) = picture(model).values()
    assert model.profile(x, seconds=0.01).inputs == model.profile([x], seconds=0.01).inputs


def test_wrong_arguments_are_refused(model: cenote.Model) -> None:
    for seconds in (0, -1.0, float("nan"), "long", True):
        with pytest.raises(ArgumentError, match="seconds"):
            model.profile(picture(model), seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        model.profile({"nothing": np.zeros(3)})
    if any(not isinstance(n, int) for n in model.inputs[0].shape or ()):
        with pytest.raises(InputError, match="shapes are not known"):
            model.profile()
