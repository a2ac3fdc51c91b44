"""`cenote compile`, and `--tune` wherever a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from tests.cli.conftest import Command, save_model


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    inputs: list[tuple[str, int, list[int | str]]] = [("x", TensorProto.FLOAT, ["N", 3, 8, 8])]
    return save_model(tmp_path / "net.onnx", nodes, inputs, ["y"], {"w": weights}, {})


def test_a_compiled_model_gives_the_same_bits(cenote_command: Command, network: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.cenote"
    ended = cenote_command("compile", network, "-o", target, "--shape", "x=2,3,8,8", "--threads", 1)
    assert ended.code == 0
    assert "other.cenote" in ended.out
    assert "loads in" in ended.out
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(cenote.load(target, threads=1)(x), cenote.load(network, threads=1)(x))


def test_the_plan_lies_beside_the_model_by_default(cenote_command: Command, network: Path) -> None:
    assert cenote_command("compile", network).code == 0
    assert network.with_suffix(".cenote").is_file()


@pytest.mark.parametrize(
    "command", [("compile",), ("inspect",), ("bench", "--seconds", "0.01", "--json"), ("run",)]
)
def test_tune_reaches_the_loader(
    cenote_command: Command, network: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    load = cenote.load_with

    def watched(source: Any, options: cenote.LoadOptions) -> cenote.Model:
        asked.append(options.tune)
        return load(source, options.changed(tune="cached"))

    monkeypatch.setattr(cenote, "load_with", watched)
    inputs = []
    if command[0] == "run":
        inputs = [network.with_name("x.npy")]
        np.save(inputs[0], np.zeros((1, 3, 8, 8), np.float32))
    for mode in ("off", "cached", "full"):
        asked.clear()
        assert cenote_command(command[0], network, *inputs, *command[1:], "--tune", mode).code == 0
        assert asked[0] == mode


def test_a_bad_tune_is_refused(cenote_command: Command, network: Path) -> None:
    ended = cenote_command("inspect", network, "--tune", "fast")
    assert ended.code == 2


def test_a_plan_is_no_source(cenote_command: Command, network: Path, tmp_path: Path) -> None:
    """Not of itself either: the plan would name itself as what to compile again when it is stale."""
    assert cenote_command("compile", network).code == 0
    plan = network.with_suffix(".cenote")
    content = plan.read_bytes()
    for options in ((), ("-o", tmp_path / "other.cenote")):
        ended = cenote_command("compile", plan, *options)
        assert ended.code == 1
        assert "net.cenote is a plan file itself" in " ".join(ended.err.split())
    assert plan.read_bytes() == content
    assert not (tmp_path / "other.cenote").exists()


@pytest.mark.parametrize("real", [True, False])
def test_a_model_whose_sizes_follow_from_content(cenote_command: Command, tmp_path: Path, real: bool) -> None:
    """As those of boxes that are kept do: compiling runs it once, and the file serves any number of them."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["numbers"], ["y"]),
    ]
    network = save_model(tmp_path / "net.onnx", nodes, [("x", TensorProto.FLOAT, ["N", 5])], ["y"], {}, {})
    x = np.array([[1, -1, 2, 3, -4], [0, 0, 0, 1, 0]], np.float32)
    np.save(tmp_path / "x.npy", x)
    given = ("--input", tmp_path / "x.npy") if real else ("--shape", "x=2,5")
    ended = cenote_command("compile", network, *given, "--threads", 1, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["inputs"] == {"x": [2, 5]}
    network.unlink()  # the plan must do without it
    model = cenote.load(tmp_path / "net.cenote", threads=1)
    for each in (x, np.abs(x) + 1):
        places = np.array(np.nonzero(np.maximum(each, 0)), np.float32)
        np.testing.assert_allclose(model(each), np.exp(places), rtol=1e-6)
