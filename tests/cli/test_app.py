"""What a new user meets: pipes, narrow terminals, real inputs, JSON, completion, exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.cli.console import seconds, write
from cenote.runtime.threads import MAXIMUM_THREADS
from tests.cli.conftest import Command, save_model

PIPED = [sys.executable, "-m", "cenote"]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """y = audio * sr, with a rate of one element beside the samples, and a scalar gain that changes nothing."""
    nodes = [
        helper.make_node("Cast", ["sr"], ["rate"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["audio", "rate"], ["louder"]),
        helper.make_node("Mul", ["louder", "gain"], ["y"]),
    ]
    inputs: list[tuple[str, int, list[int | str]]] = [
        ("audio", TensorProto.FLOAT, ["batch", "samples"]),
        ("sr", TensorProto.INT64, [1]),
        ("gain", TensorProto.FLOAT, []),
    ]
    return save_model(tmp_path / "sound.onnx", nodes, inputs, ["y"])


# ---- exit codes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("run",), ("info",), ("info", "--json"), ("--help",), ("--version",)])
def test_a_reader_that_has_read_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    """`cenote run | head`: the read end is closed before the first line, so that every run meets it."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*PIPED, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("threads", [0, -1, MAXIMUM_THREADS + 1, 999])
@pytest.mark.parametrize("command", ["run", "bench", "inspect", "compile"])
def test_a_number_of_threads_out_of_range_is_a_fault_of_the_command_line(
    cenote_command: Command, scores: Path, command: str, threads: int
) -> None:
    ended = cenote_command(command, scores, "--threads", threads)
    assert ended.code == 2
    assert "--threads" in ended.err
    assert f"1..{MAXIMUM_THREADS}|bound" in cenote_command(command, "--help").out


# ---- real inputs -----------------------------------------------------------------------------------------------------


def test_bench_takes_real_inputs(cenote_command: Command, sound: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "audio.npy", np.ones((2, 50), np.float32))
    for given in (
        ("--input", f"audio={tmp_path / 'audio.npy'}", "--input", "sr=16000", "--input", "gain=0.5"),
        ("--input", tmp_path / "audio.npy", "--input", "sr=[16000]"),
        ("--input", "sr=16000", "--shape", "audio=2,50"),
    ):
        ended = cenote_command("bench", sound, *given, "--seconds", "0.01", "--json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["inputs"] == {"audio": [2, 50], "sr": [1], "gain": []}


def test_run_takes_numbers_beside_files(cenote_command: Command, sound: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "audio.npy", np.ones((2, 50), np.float32))
    ended = cenote_command("run", sound, tmp_path / "audio.npy", "sr=16000", "gain=0.5")
    assert ended.code == 0, ended.err
    assert "y: float32[2,50], min 8000, mean 8000, max 8000, 0 NaN" in ended.out


def test_inspect_follows_the_stages_of_real_inputs(cenote_command: Command, tmp_path: Path) -> None:
    """Where shapes depend on content, random numbers lead elsewhere than the real input."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="before"),
        helper.make_node("NonZero", ["r"], ["i"], name="places"),
        helper.make_node("Cast", ["i"], ["f"], name="after", to=TensorProto.FLOAT),
        helper.make_node("Neg", ["f"], ["y"], name="last"),
    ]
    path = save_model(tmp_path / "places.onnx", nodes, [("x", TensorProto.FLOAT, [4, 4])], ["y"])
    np.savez(tmp_path / "x.npz", x=np.eye(4, dtype=np.float32))
    ended = cenote_command("inspect", path, "--input", tmp_path / "x.npz")
    assert ended.code == 0, ended.err
    assert "output y: float32[2,4]" in ended.out
    assert "here from the given inputs" in ended.out


def test_inputs_that_do_not_fit_are_named(cenote_command: Command, sound: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "audio.npy", np.ones((2, 50), np.float32))
    np.savez(tmp_path / "x.npz", speech=np.ones((2, 50), np.float32))
    audio = f"audio={tmp_path / 'audio.npy'}"
    for given, code, reason in (
        (
            ("--input", audio, "--input", "rate=16000"),
            1,
            "'rate' is no input of the model; its inputs: audio, sr",
        ),
        (("--input", audio, "--input", "sr=16000.5"), 1, "'sr': holds 16000.5 (float), which is no int64"),
        (("--input", audio, "--input", audio), 1, "'audio' is given twice"),
        (("--input", audio, "--input", "sr=[1,[2]]"), 1, "lists of different lengths"),
        (("--input", tmp_path / "x.npz"), 1, "has the arrays speech; the model's inputs: audio, sr, gain"),
        (("--input", "none.npy"), 1, "No such file"),
        (("--input", audio, "--shape", "audio=1,1"), 2, "has the shape of its --input already"),
    ):
        ended = cenote_command("bench", sound, *given, "--seconds", "0.01")
        assert ended.code == code, (given, ended.err)
        assert reason in " ".join(ended.err.replace("│", " ").split()), given


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_run_as_json(cenote_command: Command, scores: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[0.7, 0.1, 0.2]], np.float32))
    ended = cenote_command(
        "run", scores, tmp_path / "x.npy", "--top", 2, "--json", "--save", tmp_path / "out.npz"
    )
    found = json.loads(ended.out)
    assert found["model"] == str(scores)
    (run,) = found["runs"]
    assert run["seconds"] > 0
    output = run["outputs"]["scores"]
    assert (output["dtype"], output["shape"], output["nan"]) == ("float32", [1, 3], 0)
    assert output["max"] == pytest.approx(0.7)
    assert [(each["class"], each["label"]) for each in output["top"][0]] == [(0, "ant"), (2, "cat")]
    assert (tmp_path / "out.npz").exists()


def test_run_without_a_model_as_json(cenote_command: Command) -> None:
    found = json.loads(cenote_command("run", "--json").out)
    assert found["right"] == found["count"] == len(found["pictures"]) == 12
    assert all(each["label"] == each["truth"] for each in found["pictures"])


def test_json_holds_no_word_that_json_does_not_have(
    cenote_command: Command, add: Path, tmp_path: Path
) -> None:
    """NaN and Infinity, which Python writes, are refused by other readers."""
    odd = np.array([[np.nan, np.inf], [1, 2]], np.float32)
    np.savez(tmp_path / "x.npz", a=odd, b=np.zeros((2, 2), np.float32))
    np.savez(tmp_path / "holes.npz", a=odd * np.nan, b=odd)
    for file, top in (("x.npz", ()), ("holes.npz", ("--top", 2))):
        text = cenote_command("run", add, tmp_path / file, "--json", *top).out
        output = json.loads(text, parse_constant=lambda word: pytest.fail(word))["runs"][0]["outputs"]["y"]
        assert output["nan"] in (1, 4)


def test_compile_as_json(cenote_command: Command, scores: Path, tmp_path: Path) -> None:
    found = json.loads(cenote_command("compile", scores, "--json").out)
    plan = tmp_path / "scores.cenote"
    assert found["plan"] == str(plan)
    assert found["bytes"] == plan.stat().st_size
    assert found["inputs"] == {"x": [1, 3]}
    assert found["compile_seconds"] > 0 < found["load_seconds"]


# ---- terminals -------------------------------------------------------------------------------------------------------


@pytest.fixture
def wide_network(tmp_path: Path) -> Path:
    """Long names of values, and kernels whose names run to 180 letters."""
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32)
    name = "backbone/stage_one/block_two/branch_three/convolution"
    nodes = [
        helper.make_node("Conv", ["x", "w"], [f"{name}_out"], name=name, pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", [f"{name}_out"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    inputs: list[tuple[str, int, list[int | str]]] = [("x", TensorProto.FLOAT, [1, 16, 32, 32])]
    return save_model(tmp_path / "wide.onnx", nodes, inputs, ["y"], {"w": weights}, {"note": "word " * 60})


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_inspect_keeps_to_the_width_of_a_terminal(
    cenote_command: Command, wide_network: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes that for a terminal
    ended = cenote_command("inspect", wide_network)
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= width
    for text in ("graph small", "memory: arena", "kernel   1 x  "):
        assert text in ended.out
    assert "…" in ended.out or width == 200
    ended = cenote_command("bench", wide_network, "--seconds", "0.01")
    assert max(map(len, ended.out.splitlines())) <= width


def test_inspect_cuts_nothing_through_a_pipe(cenote_command: Command, wide_network: Path) -> None:
    out = cenote_command("inspect", wide_network).out
    symbols = [symbol for symbol, _ in cenote.load(wide_network).plan.describe().kernels]
    assert max(map(len, symbols)) > 100
    assert all(symbol in out for symbol in symbols)


def test_inspect_shows_the_graph_of_a_model_that_is_in_the_cache(
    cenote_command: Command, wide_network: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    cenote.load(wide_network)
    assert "graph small(" in cenote_command("inspect", wide_network).out
    assert os.environ["CENOTE_PLAN_CACHE"] == "100"


# ---- shells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("cenote ins", ["inspect"]),
        ("cenote bench --tu", ["--tune"]),
        ("cenote run --precision e", ["exact"]),
        ("cenote tile max", ["maxpool", "maxpoolbackward"]),
        ("cenote tile mi", ["minpool", "minpoolbackward", "mine.onnx"]),
        ("cenote tile maxpool --hardware npu-", ["npu-large", "npu-small"]),
        ("cenote tile maxpool --hardware o", ["own.json"]),
        ("cenote tile folder/", ["folder/inner.onnx"]),
    ],
)
def test_the_shell_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, completed: list[str]
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("mine.onnx", "own.json", "other.txt", "folder/inner.onnx"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    environment = os.environ | {
        "_CENOTE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    program = "from cenote.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.split() == completed


def test_completion_can_be_installed(cenote_command: Command) -> None:
    assert "--install-completion" in cenote_command("--help").out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9996, "1 s"),
        (0.99949, "999 ms"),
        (9.996e-4, "1 ms"),
        (59.96, "60 s"),
        (4000.4, "4000 s"),
        (2e-9, "0.002 µs"),
    ],
)
def test_durations_are_written_in_the_unit_that_fits(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write(path, "before")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as error:
        write(path, fail)
    assert error.value.filename == str(path)
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_what_is_no_file_is_written_to_as_it_is() -> None:
    with pytest.raises(OSError, match="No space left on device") as error:
        write(Path("/dev/full"), "page")
    assert error.value.filename == "/dev/full"
    assert Path("/dev/full").exists()
