"""What is advised is tried, and stays only where it helps beyond doubt and outputs hold. Nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import ArgumentError, UnsupportedError
from cenote.diagnosis import treat as module
from cenote.diagnosis.context import Difference
from cenote.diagnosis.diagnose import Diagnosis
from cenote.diagnosis.treat import largest_difference, treat
from cenote.profile.data import Profile
from cenote.profile.fields import Finding, Treatment
from tests.diagnosis.profiles import GAIN, INPUTS, NO_GAIN, FakeModel, profile, step

GAINS = (3.0, 4.0, 5.0)


def advised(cause: str, evidence: str, *treatments: Treatment) -> Finding:
    return Finding(cause, (0,), 0.4, evidence, 0.9, str(treatments[0]), GAINS, treatments=treatments)


THREADS = advised("barrier", "many meetings", Treatment(threads=1))
NAMED = advised("algorithm", "a rival <is> faster", Treatment(algorithms={"y0": "direct"}))
OTHER_NAMED = advised("mischoice", "a rival", Treatment(algorithms={"y1": "winograd_f4"}))
HALF = advised("DRAM weights", "bytes", Treatment(weights="bfloat16"), Treatment(weights="float16"))


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> list[Difference]:
    """What the next comparisons give, in turns."""
    given: list[Difference] = []

    def paired(before: Callable[[], object], after: Callable[[], object]) -> Difference:
        return given.pop(0)

    monkeypatch.setattr(module, "paired", paired)
    return given


def found(*findings: Finding) -> Diagnosis:
    return Diagnosis(profile(step(), findings=findings))


def test_what_helps_is_kept_and_goes_on_with_the_next(gains: list[Difference]) -> None:
    asked: list[dict[str, Any]] = []
    gains += [GAIN, GAIN, GAIN]

    def changed(**options: Any) -> FakeModel:
        asked.append(options)
        return FakeModel()

    model = FakeModel(make=changed)
    treated, best = treat(found(THREADS, NAMED), model, INPUTS)
    both = {"threads": 1, "algorithms": {"y0": "direct"}}
    assert asked == [{"threads": 1}, both, {}, both], "at the end both are loaded anew"
    assert best is not model
    assert [each.kept for each in treated.treatments] == [True, True]
    assert [each.measured_gain_ms for each in treated.findings] == [4.0, 4.0]


def test_what_does_not_help_is_left(gains: list[Difference]) -> None:
    gains += [NO_GAIN]
    model = FakeModel(make=lambda **options: FakeModel())
    treated, best = treat(found(THREADS), model, INPUTS)
    assert best is model
    assert [(each.kept, each.why) for each in treated.treatments] == [(False, "not faster beyond doubt")]


def test_what_does_not_help_together_is_left(gains: list[Difference]) -> None:
    gains += [GAIN, NO_GAIN]
    model = FakeModel(make=lambda **options: FakeModel())
    treated, best = treat(found(THREADS), model, INPUTS)
    assert best is model
    assert not treated.treatments[0].kept


def test_what_changes_results_needs_a_tolerance(gains: list[Difference]) -> None:
    model = FakeModel()
    treated, best = treat(found(HALF), model, INPUTS)
    assert best is model
    assert ["tolerance" in each.why for each in treated.treatments] == [True, True]
    gains += [GAIN, GAIN]
    model = FakeModel(make=lambda **options: FakeModel(1.01))
    treated, best = treat(found(HALF), model, INPUTS, tolerance=0.02)
    assert best is not model
    assert [each.difference for each in treated.treatments] == pytest.approx([0.01], rel=1e-3)


def test_the_first_treatment_that_helps_within_the_tolerance_stays(gains: list[Difference]) -> None:
    half = {"bfloat16": 1.01, "float16": 1.001}
    model = FakeModel(make=lambda **options: FakeModel(half.get(options.get("weights", ""), 1.0)))
    gains += [GAIN, GAIN]
    treated, best = treat(found(HALF), model, INPUTS, tolerance=0.005)
    assert best is not model
    assert [each.kept for each in treated.treatments] == [False, True]
    assert "differs by 1.0e-02" in treated.treatments[0].why
    assert treated.treatments[0].gain_ms is None, "what is wrong is not even timed"


def test_results_that_move_without_a_tolerance_are_not_kept(gains: list[Difference]) -> None:
    model = FakeModel(make=lambda **options: FakeModel(1.01))
    treated, best = treat(found(NAMED), model, INPUTS)
    assert best is model
    assert "differs" in treated.treatments[0].why


def test_pins_are_kept_together_and_the_same_advice_is_tried_once(gains: list[Difference]) -> None:
    asked: list[dict[str, Any]] = []
    gains += [GAIN, GAIN, GAIN]

    def changed(**options: Any) -> FakeModel:
        asked.append(options)
        return FakeModel()

    treat(found(NAMED, OTHER_NAMED, NAMED), FakeModel(make=changed), INPUTS)
    assert asked[:2] == [
        {"algorithms": {"y0": "direct"}},
        {"algorithms": {"y0": "direct", "y1": "winograd_f4"}},
    ]
    assert len(asked) == 4


def test_what_cannot_be_had_is_said(gains: list[Difference]) -> None:
    def changed(**options: Any) -> Any:
        raise UnsupportedError("a plan file")

    treated, _ = treat(found(NAMED), FakeModel(make=changed), INPUTS)
    assert treated.treatments[0].why == "a plan file"


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf"), True, "1e-3"])
def test_a_tolerance_is_a_number(tolerance: Any) -> None:
    with pytest.raises(ArgumentError, match="tolerance"):
        treat(found(), FakeModel(), INPUTS, tolerance)


def test_the_largest_difference() -> None:
    one = FakeModel(1.0).run(INPUTS)
    assert largest_difference(one, one) == 0
    assert largest_difference(one, FakeModel(float("nan")).run(INPUTS)) == float("inf")
    whole = {"y": one["y"].astype(int)}
    assert largest_difference(whole, whole) == 0
    assert largest_difference(whole, {"y": whole["y"] + 1}) == float("inf")


def test_sequences_and_shapes_are_compared_too() -> None:
    one = np.ones(3, np.float32)
    assert largest_difference({"s": [one, one]}, {"s": [one, one * 1.5]}) == pytest.approx(0.5)
    assert largest_difference({"s": [one]}, {"s": [one, one]}) == float("inf")
    assert largest_difference({"s": None}, {"s": None}) == 0
    assert largest_difference({"y": one}, {"y": one[:1]}) == float("inf")


@pytest.mark.parametrize(
    ("treatment", "options", "words", "lossy"),
    [
        (Treatment(threads=1), {"threads": 1}, "load with `threads=1`", False),
        (Treatment(weights="bfloat16"), {"weights": "bfloat16"}, 'load with `weights="bfloat16"`', True),
        (
            Treatment(algorithms={"a/b": "direct"}),
            {"algorithms": {"a/b": "direct"}},
            "compute a/b by direct",
            False,
        ),
        (Treatment(rewrites=("float32",)), {"rewrites": ("float32",)}, "compute float64 in float32", True),
        (
            Treatment(rewrites=("space_to_batch",)),
            {"rewrites": ("space_to_batch",)},
            "compute dilated",
            False,
        ),
    ],
)
def test_treatments_are_options_and_words(
    treatment: Treatment, options: dict[str, Any], words: str, lossy: bool
) -> None:
    assert dict(treatment) == options
    assert words in str(treatment)
    assert treatment.changes_results == lossy


def test_many_pins_are_told_in_a_line() -> None:
    words = str(Treatment(algorithms={f"y{index}": "direct" for index in range(9)}))
    assert "y2 by direct" in words
    assert words.endswith("and 6 more layers likewise")


def test_it_reads_well_and_survives_json(gains: list[Difference]) -> None:
    gains += [GAIN, GAIN]
    treated, _ = treat(found(NAMED), FakeModel(make=lambda **options: FakeModel()), INPUTS)
    text = str(treated)
    for words in (
        "1. algorithm: 40%",
        "a rival <is> faster",
        "do: compute y0 by direct",
        "4 ms",
        "tried: compute y0 by direct: kept (helps), gain 4 ms",
    ):
        assert words in text, words
    assert "a rival &lt;is&gt; faster" in treated._repr_html_()
    data = json.loads(json.dumps(treated.to_dict(), allow_nan=False))
    assert Profile.from_dict(data) == treated.profile
    assert data["treatments"][0]["options"] == {"algorithms": {"y0": "direct"}}
    assert "nothing found" in str(Diagnosis(replace(treated.profile, findings=())))


def test_a_diagnosis_is_public() -> None:
    assert cenote.Diagnosis is Diagnosis
