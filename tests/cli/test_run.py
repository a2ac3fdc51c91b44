"""`cenote run`: what it prints, saves and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Command


def save_picture(path: Path, pixels: np.ndarray) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def outputs(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


@pytest.fixture
def gradient(tmp_path: Path) -> Path:
    """4 x 6 pixels, a different number everywhere."""
    return save_picture(tmp_path / "gradient.png", np.arange(72, dtype=np.uint8).reshape(4, 6, 3) * 3)


def test_without_a_model_it_classifies_the_pictures_in_the_package(cenote_command: Command) -> None:
    ended = cenote_command("run")
    assert ended.code == 0
    assert "12 of 12 right" in ended.out
    assert "Ankle boot" in ended.out
    assert "each (median of" in ended.out
    assert "\x1b" not in ended.out, "escape codes where nobody can see colours"
    # Drawn in shades: the T-shirt has dense rows and empty corners.
    assert any(line.count("#") + line.count("%") > 20 for line in ended.out.splitlines())


def test_pictures_are_drawn_in_grey_where_there_are_colours(
    cenote_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    ended = cenote_command("run", "--threads", 1)
    assert ended.code == 0
    assert ended.out.count("▀") == 12 * 28 * 14
    assert "\x1b[38;2;" in ended.out


def test_a_picture_keeps_its_size_where_the_model_leaves_it_open(
    cenote_command: Command, identity: Path, gradient: Path, tmp_path: Path
) -> None:
    ended = cenote_command("run", identity, gradient, "--save", tmp_path / "out.npz")
    assert ended.code == 0
    assert "y: float32[1,3,4,6], min 0," in ended.out
    expected = np.asarray(Image.open(gradient), np.float32).transpose(2, 0, 1)[None] * np.float32(1 / 255) * 2
    np.testing.assert_allclose(outputs(tmp_path / "out.npz")["y"], expected, rtol=1e-6)


def test_flags_say_what_becomes_of_a_picture(
    cenote_command: Command, identity: Path, gradient: Path, tmp_path: Path
) -> None:
    save = tmp_path / "out.npz"
    flags = ("--crop", "2x4", "--scale", "1", "--mean", "1,2,3", "--std", "2,4,8", "--color", "bgr")
    assert cenote_command("run", identity, gradient, *flags, "--save", save).code == 0
    middle = np.asarray(Image.open(gradient), np.float32)[1:3, 1:5, ::-1]
    expected = ((middle - [1, 2, 3]) / [2, 4, 8]).transpose(2, 0, 1)[None] * 2
    np.testing.assert_allclose(outputs(save)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_file_says_the_same_and_flags_win(
    cenote_command: Command, identity: Path, gradient: Path, tmp_path: Path, suffix: str
) -> None:
    settings, save = tmp_path / f"preprocess.{suffix}", tmp_path / "out.npz"
    if suffix == "json":
        settings.write_text(json.dumps({"size": [2, 3], "scale": 1, "mean": 7}))
    else:
        settings.write_text("size = [2, 3]\nscale = 1\nmean = 7\n")
    arguments = ("run", identity, gradient, "--preprocess", settings, "--mean", "0", "--save", save)
    assert cenote_command(*arguments).code == 0
    small = Image.open(gradient).resize((3, 2), Image.Resampling.BILINEAR)
    expected = np.asarray(small, np.float32).transpose(2, 0, 1)[None] * 2
    np.testing.assert_allclose(outputs(save)["y"], expected, rtol=1e-6)


def test_one_number_is_the_shorter_side_when_cropping(
    cenote_command: Command, identity: Path, gradient: Path
) -> None:
    assert "float32[1,3,5,5]" in cenote_command("run", identity, gradient, "--size", 8, "--crop", 5).out
    assert "float32[1,3,8,8]" in cenote_command("run", identity, gradient, "--size", 8).out


def test_every_file_is_a_run(cenote_command: Command, identity: Path, gradient: Path, tmp_path: Path) -> None:
    array = tmp_path / "x.npy"
    np.save(array, np.ones((1, 3, 2, 2), np.float32))
    ended = cenote_command("run", identity, gradient, array, "--save", tmp_path / "out.npz")
    assert ended.code == 0
    saved = outputs(tmp_path / "out.npz")
    assert sorted(saved) == ["y.0", "y.1"]
    np.testing.assert_array_equal(saved["y.1"], np.full((1, 3, 2, 2), 2, np.float32))


@pytest.mark.parametrize("how", ["named", "ordered", "archive"])
def test_several_inputs(cenote_command: Command, add: Path, tmp_path: Path, how: str) -> None:
    a, b = np.full((2, 2), 1, np.float32), np.full((2, 2), 10, np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    given = {
        "named": (f"b={tmp_path / 'b.npy'}", f"a={tmp_path / 'a.npy'}"),
        "ordered": (tmp_path / "a.npy", tmp_path / "b.npy"),
        "archive": (tmp_path / "both.npz",),
    }[how]
    ended = cenote_command("run", add, *given)
    assert ended.code == 0
    assert "y: float32[2,2], min 11, mean 11, max 11, 0 NaN" in ended.out


def test_labels_from_the_model_and_from_a_file(cenote_command: Command, scores: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[0.7, 0.1, 0.2]], np.float32))
    names = tmp_path / "names.txt"
    names.write_text("eins\nzwei\ndrei\n")
    first = cenote_command("run", scores, tmp_path / "x.npy", "--top", 2).out.splitlines()
    assert [line.split() for line in first[-2:]] == [["ant", "70.00%"], ["cat", "20.00%"]]
    second = cenote_command("run", scores, tmp_path / "x.npy", "--labels", names).out
    assert "eins" in second
    assert "ant" not in second


def test_scores_become_probabilities(cenote_command: Command, scores: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.log(np.array([[1, 2, 5]], np.float32)))
    out = cenote_command("run", scores, tmp_path / "x.npy").out
    assert [line.split() for line in out.splitlines()[-3:]] == [
        ["cat", "62.50%"],
        ["bee", "25.00%"],
        ["ant", "12.50%"],
    ]


def test_nan_is_counted(cenote_command: Command, add: Path, tmp_path: Path) -> None:
    np.savez(
        tmp_path / "x.npz", a=np.array([[np.nan, 1], [2, 3]], np.float32), b=np.zeros((2, 2), np.float32)
    )
    assert "min 1, mean 2, max 3, 1 NaN" in cenote_command("run", add, tmp_path / "x.npz").out


def test_faults_of_model_or_input_end_with_1_and_one_line(
    cenote_command: Command, add: Path, identity: Path, tmp_path: Path
) -> None:
    text, array = tmp_path / "text.txt", tmp_path / "x.npy"
    text.write_text("not a picture")
    np.save(array, np.zeros((1, 3, 2, 2), np.int32))
    np.save(tmp_path / "a.npy", np.zeros((2, 2), np.float32))
    for arguments, reason in (
        (("run", tmp_path / "none.onnx", text), "there is no such file"),
        (("run", text, text), "not an ONNX model"),
        (("run", identity, text), "not a picture"),
        (("run", identity, tmp_path / "none.png"), "No such file"),
        (("run", identity, array), "int32"),
        (("run", add, tmp_path / "a.npy"), "'b' is missing"),
    ):
        ended = cenote_command(*arguments)
        assert ended.code == 1, arguments
        assert reason in ended.err.replace("\n", " "), arguments
        assert ended.err.startswith("error: ")
        assert "Traceback" not in ended.err


def test_faults_of_the_command_line_end_with_2(
    cenote_command: Command, identity: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "preprocess.json"
    settings.write_text('{"resize": 3}')
    for arguments, reason in (
        (("run", identity), "needs an input"),
        (("run", identity, "x.png", "--size", "big"), "is not 224"),
        (("run", identity, "x.png", "--mean", "a,b"), "is not a list of numbers"),
        (("run", identity, "x.png", "--layout", "chwn"), "is not known"),
        (("run", identity, "x.png", "--std", "0"), "divide by zero"),
        (("run", identity, "x.png", "--preprocess", settings), "'resize' is not known"),
        (("run", identity, "x.png", "--precision", "high"), "high"),
        (("run", identity, "x.png", "--threads", "0"), "--threads"),
        (("fly",), "fly"),
    ):
        ended = cenote_command(*arguments)
        assert ended.code == 2, arguments
        assert reason in " ".join(ended.err.replace("│", " ").split()), arguments
