"""The harness, on engines that behave and engines that do not."""

from pathlib import Path

import numpy as np
import pytest

from bench.engines import EngineSpec
from bench.rounds import Contender, Outcome, Plan, compare, in_turn
from bench.verdict import Row, geometric_mean

PLAN = Plan(threads=1, seconds=0.15, rounds=3)
X = np.arange(6, dtype=np.float32)


@pytest.fixture(autouse=True)
def fake_engines_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def spec(class_name: str, module: str = "fake_engines") -> EngineSpec:
    return EngineSpec(class_name.lower(), module, class_name)


def run(*specs: EngineSpec) -> dict[str, Outcome]:
    outcomes = compare(specs, None, X, lambda y: float(np.abs(y[0] - 2 * X).max()), PLAN)
    return {outcome.engine: outcome for outcome in outcomes}


def test_engines_are_measured_in_every_round():
    outcomes = run(spec("Doubler"), spec("SlowDoubler"))
    for outcome in outcomes.values():
        assert outcome.failure == ""
        assert outcome.version == "1.0"
        assert outcome.error == 0.0
        assert len(outcome.round_medians) == PLAN.rounds
        assert outcome.fastest <= outcome.median
        assert outcome.peak_memory > 1
    assert outcomes["slowdoubler"].median >= 0.02 > outcomes["doubler"].median


def test_failures_are_results():
    outcomes = run(spec("Refuses"), spec("Crashes"), spec("Any", "no_such_module"), spec("Doubler"))
    assert outcomes["refuses"].failure == "UnavailableError: not today"
    assert outcomes["crashes"].failure == "process ended during first with code 7"
    assert "no_such_module" in outcomes["any"].failure
    assert outcomes["doubler"].failure == ""


def test_a_wrong_answer_does_not_win():
    outcomes = run(spec("Doubler"), spec("SlowDoubler"), spec("Wrong"))
    outcomes["doubler"].engine = "cenote"
    row = Row("work", 1, list(outcomes.values()))
    best = row.best_peer()
    assert best is not None
    assert best.engine == "slowdoubler"
    assert row.ratio() > 1
    fastest = row.best_peer(wrong_too=True)
    assert fastest is not None
    assert fastest.engine == "wrong"


def test_everybody_begins_once():
    contenders: list[Contender] = list("abc")  # type: ignore[arg-type]
    orders = ["".join(in_turn(contenders, number)) for number in range(4)]
    assert orders == ["abc", "acb", "cab", "cba"]


def test_json_has_no_infinity():
    row = Row("work", 1, [Outcome("cenote", failure="not installed")])
    plain = row.as_json()
    assert plain["ratio"] is None
    assert plain["outcomes"][0]["median"] is None


def test_geometric_mean():
    assert geometric_mean([2.0, None, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([None]) is None


def test_a_row_says_which_error_is_allowed():
    def outcome(engine: str, error: float) -> Outcome:
        return Outcome(engine, error=error, median=1.0, fastest=1.0)

    outcomes = [outcome("cenote", 0.01), outcome("near", 0.02), outcome("far", 0.03)]
    assert Row("work", 1, outcomes).ratio() is None
    row = Row("work", 1, outcomes, tolerance=0.02)
    assert [row.counts(each) for each in outcomes] == [True, True, False]
    assert row.ratio() == 1
