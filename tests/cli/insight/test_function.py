"""`cenote profile --op`: one function, and `--metrics`; `cenote inspect --memory`."""

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
    monkeypatch.setattr("cenote.functional.ways.call_profile.roofs", lambda threads: ROOFS)


def test_a_function_is_profiled(cenote_command: Command) -> None:
    arrays = ("--shapes", "2x3x16x16,4x3x3x3", "--seconds", 0.01)
    ended = cenote_command("profile", "--op", "conv2d", *arrays, "padding=1", "stride=(2, 2)")
    assert ended.code == 0, ended.err
    for words in (
        "conv2d of f32[2,3,16,16], f32[4,3,3,3] -> f32[2,4,8,8]",
        "median",
        "computing",
        "pipeline",
    ):
        assert words in ended.out, words
    found = json.loads(
        cenote_command("profile", "--op", "max_pool2d", *arrays[:1], "1x4x9x9", *arrays[2:], 3, "--json").out
    )
    profile = cenote.CallProfile.from_dict(found)
    assert profile.function == "max_pool2d"
    assert profile.metrics.cache_hits is not None
    assert profile.counters


def test_arrays_of_other_types(cenote_command: Command) -> None:
    shapes = ("--shapes", "int64:3, float16:5x2", "--seconds", 0.01)
    ended = cenote_command("profile", "--op", "embedding", *shapes)
    assert ended.code == 0, ended.err
    assert "-> f16[3,2]" in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--op", "conv3", "--shapes", "3"), "is no function of cenote.functional"),
        (("--op", "relu"), "--shapes"),
        (("--op", "relu", "--shapes", "3xa"), "'3xa' is not of the form"),
        (("--op", "relu", "--shapes", "odd:3"), "'odd' is no type of elements"),
        (("--op", "relu", "--shapes", "3", "=1"), "'=1' is not of the form NAME=VALUE"),
        (("--op", "relu", "--shapes", "3", "more=1"), "relu: "),
        (("--op", "conv2d", "--shapes", "1x3x8x8,2x4x3x3"), "has 3 channels"),
        (("--shapes", "3", "model.onnx"), "one MODEL, or --op FUNCTION"),
        ((), "one MODEL, or --op FUNCTION"),
        (("a.onnx", "b.onnx"), "one MODEL, or --op FUNCTION"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], said: str, cenote_command: Command) -> None:
    ended = cenote_command("profile", *arguments, "--seconds", 0.01)
    assert ended.code != 0
    assert said in " ".join(ended.err.replace("│", " ").split())


def test_measures_of_steps(identity: Path, cenote_command: Command) -> None:
    shape = ("--shape", "x=1,3,64,64")
    ended = cenote_command("profile", identity, *shape, "--seconds", 0.02, "--metrics")
    assert ended.code == 0, ended.err
    for words in ("computing", "bandwidth", "cache hits", "pipeline", "bytes from"):
        assert words in ended.out, words


def test_memory_is_shown(identity: Path, tmp_path: Path, cenote_command: Command) -> None:
    page = tmp_path / "page.html"
    shape = ("--shape", "x=1,3,64,64")
    ended = cenote_command("inspect", identity, *shape, "--memory", "--html", page)
    assert ended.code == 0, ended.err
    assert "intermediates" in ended.out
    assert "Over time" in page.read_text()
    found = cenote_command("inspect", identity, *shape, "--memory", "--json").out
    assert cenote.MemoryUsage.from_dict(json.loads(found)).inputs[0][1] == 3 * 64 * 64 * 4


def test_accuracy_is_shown(identity: Path, cenote_command: Command) -> None:
    arguments = ("profile", identity, "--shape", "x=1,3,64,64", "--accuracy")
    ended = cenote_command(*arguments)
    assert ended.code == 0, ended.err
    for words in ("accuracy of double", "error", "ulps", "exact"):
        assert words in ended.out, words
    found = cenote.Accuracy.from_dict(json.loads(cenote_command(*arguments, "--json").out))
    assert found.steps
