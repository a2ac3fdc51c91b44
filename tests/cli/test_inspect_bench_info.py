"""`cenote inspect`, `bench` and `info`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.codegen import bundle
from tests.cli.conftest import Command, save_model


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution with a kernel, an Einsum on the host, a Flatten that costs nothing; the batch is symbolic."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="clip"),
        helper.make_node("Einsum", ["b", "ones"], ["c"], name="corner", equation="nchw,cc->nchw"),
        helper.make_node("Flatten", ["c"], ["y"], name="flat"),
    ]
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    inputs: list[tuple[str, int, list[int | str]]] = [("x", TensorProto.FLOAT, ["N", 3, 8, 8])]
    return save_model(
        tmp_path / "net.onnx",
        nodes,
        inputs,
        ["y"],
        {"w": weights, "ones": np.ones((8, 8), np.float32)},
        {"author": "a test"},
    )


def test_inspect_shows_graph_plan_and_memory(cenote_command: Command, network: Path) -> None:
    ended = cenote_command("inspect", network, "--threads", 1)
    assert ended.code == 0
    for text in (
        "input x: float32[N,3,8,8]",
        "metadata author: a test",
        "graph small(%x: f32[1,3,8,8]) {",
        "activation=relu",
        "host: einsum has no kernel",
        "1 on the host",
        "memory: arena",
    ):
        assert text in ended.out, text


def test_inspect_takes_a_shape_and_hides_the_graph(cenote_command: Command, network: Path) -> None:
    out = cenote_command("inspect", network, "--shape", "x=5,3,8,8", "--no-graph").out
    assert "%x: f32[5,3,8,8]" in out
    assert "graph small(" not in out


def test_inspect_as_json(cenote_command: Command, network: Path) -> None:
    found = json.loads(cenote_command("inspect", network, "--json").out)
    assert found["metadata"] == {"author": "a test"}
    kinds = {step["node"]: step["kind"] for step in found["plan"]["steps"] if step["node"]}
    assert kinds["first"] == "kernel"
    assert kinds["corner"] == "host"
    assert "flat" not in kinds or kinds["flat"] == "host"
    assert found["plan"]["memory"]["arena"] >= found["plan"]["memory"]["peak"] > 0
    launched = sum(count for _, count in found["plan"]["kernels"])
    assert launched == sum(step["kind"] != "host" for step in found["plan"]["steps"])


def test_inspect_shows_the_stages_of_shapes_that_depend_on_data(
    cenote_command: Command, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="before"),
        helper.make_node("NonZero", ["r"], ["i"], name="places"),
        helper.make_node("Cast", ["i"], ["f"], name="after", to=TensorProto.FLOAT),
        helper.make_node("Neg", ["f"], ["y"], name="last"),
    ]
    path = save_model(tmp_path / "places.onnx", nodes, [("x", TensorProto.FLOAT, [4, 4])], ["y"])
    ended = cenote_command("inspect", path)
    assert ended.code == 0
    assert "output y: float32[2," in ended.out
    first, later = ended.out.split("stage 2 of 2: its shapes depend on values")
    assert "before" in first
    assert "then on the host, before the next stage: places: non_zero" in first
    assert "last" in later
    assert "then on the host" not in later
    content = json.loads(cenote_command("inspect", path, "--json").out)
    assert [step["node"] for step in content["plan"]["steps"]] == ["before"]
    assert content["plan"]["between"] == ["places: non_zero"]
    assert "last" in [step["node"] for stage in content["later_stages"] for step in stage["plan"]["steps"]]


def test_a_shape_that_is_not_known_must_be_given(cenote_command: Command, identity: Path) -> None:
    ended = cenote_command("inspect", identity)
    assert ended.code == 2
    assert "--shape x=1,3,SIZE,SIZE" in ended.err
    assert cenote_command("inspect", identity, "--shape", "x=1,3,SIZE,4").code == 2
    assert cenote_command("inspect", identity, "--shape", "z=1,3,4,4").code == 2
    assert cenote_command("inspect", identity, "--shape", "x=1,3,4,4").code == 0
    bounded = cenote_command("inspect", identity, "--shape", "x=n<=2,3,h<=4,<=5")
    assert bounded.code == 0
    assert "2,3,4,5" in bounded.out, "the largest"
    assert cenote_command("inspect", identity, "--shape", "x=1,3,h<4,4").code == 2
    wrong = cenote_command("inspect", identity, "--shape", "x=1,4,4,4")
    assert wrong.code == 1
    assert "x: float32[batch,3,height,width]" in wrong.err


def test_bench_measures(cenote_command: Command, network: Path) -> None:
    ended = cenote_command(
        "bench", network, "--seconds", "0.05", "--threads", 1, "--shape", "x=2,3,8,8", "--json"
    )
    assert ended.code == 0
    found = json.loads(ended.out)
    times = found["seconds"]
    assert 0 < times["min"] <= times["p50"] <= times["p90"] <= times["p99"] <= times["max"]
    assert found["items_per_second"] == pytest.approx(2 / times["mean"])
    assert found["threads"] == 1
    assert found["inputs"] == {"x": [2, 3, 8, 8]}
    text = cenote_command("bench", network, "--seconds", "0.05").out
    assert "latency     median" in text
    assert "per second" in text


def test_info_tells_the_settings_in_force(
    cenote_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "kernels"))
    text = cenote_command("info").out
    assert cenote.__version__ in text
    assert all(item.variable in text for item in cenote.info().settings)
    found = json.loads(cenote_command("info", "--json").out)
    bundled = dict(zip(("bundled", "bundled_bytes"), bundle.size(), strict=True))
    counts = {"files": 0, "nbytes": 0, "plans": 0, "plan_bytes": 0, "problem": "", **bundled}
    assert found["cache"] == {"folder": str(tmp_path / "kernels"), **counts}
    for folder, nbytes in (("objects", 10), ("plans", 300)):
        (tmp_path / "kernels" / folder).mkdir(exist_ok=True)
        (tmp_path / "kernels" / folder / "file").write_bytes(b"0" * nbytes)
    text = " ".join(cenote_command("info").out.split())  # a long folder wraps the line
    assert "1 kernels" in text
    assert "1 models" in text
    counts |= {"files": 1, "nbytes": 10, "plans": 1, "plan_bytes": 300}
    assert json.loads(cenote_command("info", "--json").out)["cache"] == {
        "folder": str(tmp_path / "kernels"),
        **counts,
    }
    assert found["machine"]["physical_cores"] >= 1
    monkeypatch.setenv("CENOTE_CACHE", "off")
    assert json.loads(cenote_command("info", "--json").out)["cache"]["folder"] == ""


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("CENOTE_TARGET", "abacus", "is not known or this CPU cannot run it"),
        ("CENOTE_THREADS", "abc", "is not a whole number"),
        ("CENOTE_THREADS", "1000", "is not a whole number from 0 to 256"),
        ("CENOTE_SPIN", "-1", "is not a whole number from 0 to"),
        ("CENOTE_PLAN_CACHE", "4GB", "is not a whole number from 0 to"),
    ],
)
def test_info_shows_a_bad_setting_and_the_reason(
    cenote_command: Command, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(variable, value)
    ended = cenote_command("info", "--json")
    assert (ended.code, ended.err) == (0, "")
    settings = {item["variable"]: item for item in json.loads(ended.out)["settings"]}
    assert settings[variable]["value"] == value
    assert reason in settings[variable]["problem"]
    assert [name for name, item in settings.items() if item["problem"]] == [variable]
    text = " ".join(cenote_command("info").out.split())
    assert reason[:20] in text


def test_a_target_that_the_machine_lacks_is_an_error(
    cenote_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_TARGET", "abacus")
    ended = cenote_command("run")
    assert ended.code == 1
    assert "CENOTE_TARGET: 'abacus'" in ended.err


def test_help_and_version(cenote_command: Command) -> None:
    assert cenote_command("--version").out.strip() == f"cenote {cenote.__version__}"
    for command in ("run", "inspect", "bench", "info"):
        assert command in cenote_command("--help").out
        assert cenote_command(command, "--help").code == 0


def test_the_module_is_the_command(network: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cenote", "inspect", str(network)], capture_output=True, text=True, check=True
    )
    assert "memory: arena" in done.stdout


def test_compile_writes_a_plan_file_that_runs(cenote_command: Command, scores: Path, tmp_path: Path) -> None:
    plan = tmp_path / "scores.cenote"
    ended = cenote_command("compile", scores)
    assert ended.code == 0
    assert f"{plan}: " in ended.out
    assert "loads in" in ended.out
    np.save(tmp_path / "x.npy", np.array([[0.7, 0.1, 0.2]], np.float32))
    assert "70.00%" in cenote_command("run", plan, tmp_path / "x.npy").out
    shown = cenote_command("inspect", plan)
    assert shown.code == 0
    assert "memory: arena" in shown.out
    assert json.loads(cenote_command("inspect", plan, "--json").out)["graph"] is None
