"""`cenote profile` and `cenote compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cenote
from tests.cli.conftest import Command
from tests.profile.samples import ROOFS


@pytest.fixture(autouse=True)
def given_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.profile.measure.roofs", lambda threads: ROOFS)
    monkeypatch.setattr("cenote.profile.measure.clock_ghz", lambda: 3.0)


def test_a_profile_is_printed(identity: Path, cenote_command: Command) -> None:
    ended = cenote_command("profile", identity, "--shape", "x=1,3,64,64", "--seconds", 0.02, "--top", 1)
    assert ended.code == 0, ended.err
    for words in ("double.onnx", "latency", "kernels", "python", "share"):
        assert words in ended.out, words


def test_a_profile_is_written(identity: Path, tmp_path: Path, cenote_command: Command) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    ended = cenote_command(
        "profile",
        identity,
        "--shape",
        "x=1,3,64,64",
        "--seconds",
        0.02,
        "--json",
        "--html",
        page,
        "--trace",
        trace,
    )
    assert ended.code == 0, ended.err
    found = cenote.Profile.from_dict(json.loads(ended.out))
    assert found.model == "double.onnx"
    assert page.read_text(encoding="utf-8") == found.html()
    assert trace.read_text(encoding="utf-8") == found.trace()


def test_profiles_are_compared(identity: Path, tmp_path: Path, cenote_command: Command) -> None:
    ended = cenote_command("profile", identity, "--shape", "x=1,3,64,64", "--seconds", 0.05, "--json")
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(ended.out, encoding="utf-8")
    ended = cenote_command("compare", before, before, "--check")
    assert ended.code == 0, ended.err
    assert "no step has changed" in ended.out
    data = json.loads(before.read_text(encoding="utf-8"))
    data["steps"][0]["algorithm"] = "another"
    after.write_text(json.dumps(data), encoding="utf-8")
    ended = cenote_command("compare", before, after, "--json")
    assert json.loads(ended.out)["steps"][0]["changed"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "cenote.profile/1"}'])
def test_what_is_no_profile_is_one_line(content: str, tmp_path: Path, cenote_command: Command) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    ended = cenote_command("compare", path, path)
    assert ended.code == 1
    assert ended.err.startswith("error:")
    assert len(ended.err.splitlines()) == 1
