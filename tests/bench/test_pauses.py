"""The comparison of calls after a pause, on engines that behave and two that do not."""

import math
from pathlib import Path

import numpy as np
import pytest

from bench.engines import EngineSpec
from bench.machine import describe
from bench.pauses import Pauses, Rests, markdown, measure
from bench.pool_reference import error
from bench.rounds import Plan

X = np.arange(6, dtype=np.float32)
MACHINE = describe()


@pytest.fixture(autouse=True)
def fake_engines_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def test_each_engine_loops_and_rests_in_every_round():
    names = ("Doubler", "SlowDoubler", "Wrong", "Crashes")
    specs = [EngineSpec(name.lower(), "fake_engines", name) for name in names]
    rests = Rests(pauses=(0.0, 0.01), bursts=2, calls=4)
    plan = Plan(threads=1, seconds=0.1, rounds=3)
    results = measure("doubling", None, X, lambda found: error(found, (2 * X,)), specs, plan, rests, loops=0)
    good, slow, wrong, crashed = results
    for result in (good, slow, wrong):
        assert not result.failure
        assert 0 < result.steady() < math.inf
        assert [len(rows) for rows in result.bursts.values()] == [6, 6]
        assert {len(row) for rows in result.bursts.values() for row in rows} == {4}
    assert slow.call(0.01, 1, 1) >= 0.02
    assert (good.wrong, slow.wrong, wrong.wrong) == (False, False, True)
    assert "code 7" in crashed.failure
    text = markdown(results, 0, MACHINE)
    assert "| doubling | 1 | 10 | slowdoubler |" in text
    assert "| doubling | 1 | 10 | wrong* |" in text
    assert "- crashes on doubling: " in text
    assert "- wrong after" not in text


def test_calls_are_medians_over_bursts():
    rows = [[5.0, 4.0, 3.0, 1.0, 2.0], [7.0, 6.0, 5.0, 3.0, 4.0], [9.0, 8.0, 7.0, 5.0, 6.0]]
    result = Pauses("net", 2, "one", loop=[1.0, 2.0, 3.0], bursts={0.04: rows})
    assert [result.call(0.04, place, place) for place in (1, 2, 3)] == [7, 6, 5]
    assert result.call(0.04, 3) == 4
    assert result.call(0.04, 1, 1, at=25) == 6
    text = markdown([result], 2, MACHINE)
    assert "beside 2 endless loops" in text
    assert "third 2.50, third and later 2.00" in text
