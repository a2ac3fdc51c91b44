"""`cenote diagnose`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import cenote
from cenote.profile.fields import Finding, Treatment
from tests.cli.conftest import Command
from tests.diagnosis.causes.models import convolution
from tests.diagnosis.profiles import GAIN, NO_GAIN
from tests.profile.samples import ROOFS


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)
    monkeypatch.setattr("cenote.diagnosis.diagnose._PROFILE_SECONDS", 0.01)
    monkeypatch.setattr("cenote.diagnosis.context.SECONDS", 0.0)


def test_a_diagnosis_is_printed(identity: Path, cenote_command: Command) -> None:
    ended = cenote_command("diagnose", identity, "--shape", "x=1,3,64,64")
    assert ended.code == 0, ended.err
    for words in ("double.onnx", "latency", "kernels"):
        assert words in ended.out, words


def test_a_page_is_written(identity: Path, tmp_path: Path, cenote_command: Command) -> None:
    page = tmp_path / "page.html"
    ended = cenote_command("diagnose", identity, "--shape", "x=1,3,64,64", "--html", page)
    assert ended.code == 0, ended.err
    assert "double.onnx" in page.read_text(encoding="utf-8")


def test_what_helped_is_written(identity: Path, tmp_path: Path, cenote_command: Command) -> None:
    plan = tmp_path / "best.cenote"
    ended = cenote_command("diagnose", identity, "--shape", "x=1,3,64,64", "--apply", "-o", plan, "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)
    assert data["schema"] == "cenote.profile/1"
    assert isinstance(data["treatments"], list)
    assert "written" in ended.err
    assert cenote.load(plan).inputs


def test_a_plan_has_what_helped(
    tmp_path: Path, cenote_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = convolution(16, 16, 28)
    source, plan = tmp_path / "m.onnx", tmp_path / "best.cenote"
    onnx.save(made, source)
    profile = cenote.load(source, threads=1).profile(seconds=0.01)
    named = Finding("mischoice", (0,), 0.9, "", 0.9, "", treatments=(Treatment(algorithms={"y0": "direct"}),))
    threads = Finding("barrier", (0,), 0.9, "", 0.9, "", treatments=(Treatment(threads=1),))
    found = cenote.Diagnosis(replace(profile, findings=(named, threads)))
    monkeypatch.setattr(cenote.Model, "diagnose", lambda *given, **options: found)
    monkeypatch.setattr("cenote.diagnosis.treat.paired", lambda *calls: GAIN)
    ended = cenote_command("diagnose", source, "--threads", "2", "--apply", "-o", plan)
    assert ended.code == 0, ended.err
    assert ended.out.count("kept (helps)") == 2
    assert "what helped; load it with threads=1" in ended.err
    steps = cenote.load(plan, threads=1).plan.describe().steps
    assert [step.algorithm for step in steps if step.operations] == ["direct"]
    monkeypatch.setattr("cenote.diagnosis.treat.paired", lambda *calls: NO_GAIN)
    ended = cenote_command("diagnose", source, "--threads", "2", "--apply", "-o", plan)
    assert "nothing helped, the model as it is" in ended.err
    steps = cenote.load(plan, threads=2).plan.describe().steps
    assert [step.algorithm for step in steps if step.operations] != ["direct"]


def test_a_plan_is_written_of_what_was_tried(identity: Path, cenote_command: Command) -> None:
    ended = cenote_command("diagnose", identity, "-o", "best.cenote")
    assert ended.code == 2
    assert "--apply" in ended.err


def test_what_cannot_be_written_shows_before_anything_is_tried(
    identity: Path, tmp_path: Path, cenote_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "first.cenote"
    model = cenote.load(identity)
    model.plan_for({"x": (1, 3, 8, 8)})
    model.save(plan, identity)

    def never(*given: object, **options: object) -> None:
        raise AssertionError("measured in vain")

    monkeypatch.setattr(cenote.Model, "diagnose", never)
    for source, output, said in (
        (plan, "x.cenote", "plan file itself"),
        (identity, "no/folder/x", "no/folder"),
    ):
        ended = cenote_command("diagnose", source, "--shape", "x=1,3,8,8", "--apply", "-o", tmp_path / output)
        assert ended.code == 1
        assert said in ended.err
