"""The tables of predicted and measured gains, and of networks before and after. Nothing is timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from bench import treatments
from bench.treatments import TOLERANCE, models, pair, predicted, verdict
from cenote.diagnosis import context, treat
from cenote.diagnosis.context import Difference
from tests.diagnosis.causes.models import convolution
from tests.profile.samples import ROOFS


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
    monkeypatch.setattr(context, "SECONDS", 0.0)
    monkeypatch.setattr(treatments, "PAIR_SECONDS", 0.0)


def test_a_planted_cause_is_predicted_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = iter([Difference(4.0, 5.0, 6.0, 10.0), Difference(4.0, 5.5, 6.0, 10.0)])
    monkeypatch.setattr(context, "paired", lambda *calls: next(gains, Difference(-1.0, 0.0, 1.0, 10.0)))
    monkeypatch.setattr(treat, "paired", lambda *calls: Difference(5.0, 5.5, 6.0, 10.0))
    rows = {row["cause"]: row for row in predicted("dtype")}
    row = rows["dtype"]
    assert row["measured ms"] == [5.0, 5.5, 6.0]
    assert row["inside"] == (row["predicted ms"][0] <= 5.5 <= row["predicted ms"][2])
    assert row["kept"]
    assert TOLERANCE > 0


def test_what_cannot_be_brought_about_is_not_mended() -> None:
    assert predicted("throttled") == []


def test_how_many_predictions_hold() -> None:
    rows: list[dict[str, Any]] = [
        {"inside": True, "close": True}, {"inside": False, "close": True}, {"sample": "not tried"},
    ]  # fmt: skip
    assert "2 predictions tried: measured inside the interval 50%" in verdict(rows)
    assert verdict([]) == "no prediction was tried"


def test_model_and_plan_side_by_side(tmp_path: Path) -> None:
    made, inputs = convolution(16, 16, 28)
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", **inputs)
    cenote.load(tmp_path / "m.onnx", threads=1).save(tmp_path / "m.cenote", tmp_path / "m.onnx")
    before, after = ({"path": str(tmp_path / name), "threads": 1} for name in ("m.onnx", "m.cenote"))
    found = pair(before, after, str(tmp_path / "x.npz"))
    assert found["difference"] == 0
    assert found["low"] <= found["gain"] <= found["high"]


@pytest.mark.parametrize(("gain", "slower"), [(-0.2, True), (0.2, False), (-0.001, False)])
def test_a_plan_that_is_slower_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float, slower: bool
) -> None:
    made, inputs = convolution(16, 16, 28)
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "m.npz", **inputs)
    said = cenote.load(tmp_path / "m.onnx", threads=1).diagnose(inputs).to_dict()
    said["treatments"] = [
        {
            "options": {"threads": 1},
            "gain_ms": [1.0, 2.0, 3.0],
            "difference": 0.0,
            "kept": True,
            "why": "helps",
        }
    ]

    class Answer:
        returncode, stdout = 0, json.dumps(said)

    asked: list[dict[str, Any]] = []

    def fresh(before: dict[str, Any], after: dict[str, Any], inputs: str) -> dict[str, float]:
        asked.append(after)
        return {"gain": gain, "difference": 0.0}

    monkeypatch.setattr(treatments.subprocess, "run", lambda *given, **options: Answer())
    monkeypatch.setattr(treatments, "fresh", fresh)
    assert models(tmp_path, ["m"], tmp_path, [2]) is not slower
    assert asked[0]["threads"] == 1, "what plan files do not hold is given when they are loaded"
    rows = json.loads((tmp_path / "treated.json").read_text())
    assert rows[0]["kept"] == "{'threads': 1}"
    assert rows[0]["slower"] is slower


def test_a_model_that_fails_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "m.npz", x=np.zeros(1))

    class Answer:
        returncode, stdout, stderr = 1, "", "error: m.onnx: there is no such file\n"

    monkeypatch.setattr(treatments.subprocess, "run", lambda *given, **options: Answer())
    assert not models(tmp_path, ["m", "m"], tmp_path, [1])
    assert "there is no such file" in (tmp_path / "treated.md").read_text()
