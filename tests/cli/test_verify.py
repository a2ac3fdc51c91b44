"""`cenote verify`: table, JSON and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cenote
from tests.cli.conftest import Command
from tests.verification.networks import NETWORKS
from tests.verification.open_models import skipped


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return NETWORKS["plain"](tmp_path / "plain.onnx")


def test_a_table_and_a_verdict(cenote_command: Command, network: Path) -> None:
    ended = cenote_command("verify", network)
    assert ended.code == 0, ended.err
    head, *rows, verdict = ended.out.splitlines()
    assert head.split() == ["value", "node", "inherited", "local"]
    assert any(row.split()[0] == "pool" for row in rows)
    assert "all is well" in verdict
    assert "onnxruntime" in verdict


def test_json(cenote_command: Command, network: Path) -> None:
    ended = cenote_command("verify", network, "--json", "--against", "reference")
    found = json.loads(ended.out)
    assert (found["ok"], found["first"], found["against"]) == (True, None, "reference")
    assert {"value", "node", "inherited", "local"} == set(found["values"][0])


def test_a_divergence_ends_with_1(cenote_command: Command, network: Path) -> None:
    ended = cenote_command("verify", network, "--json", "--tolerance", 0)
    found = json.loads(ended.out)
    assert ended.code == 1
    assert not found["ok"]
    assert found["first"]["kind"] == "rounding"
    assert set(found["first"]) == {"value", "node", "kind", "inherited", "local", "shapes"}


def test_inputs_of_a_file(cenote_command: Command, network: Path, tmp_path: Path) -> None:
    """As with the other commands, and by the name that the option had before."""
    np.savez(tmp_path / "x.npz", x=np.ones((1, 16, 16, 16), np.float32))
    np.save(tmp_path / "x.npy", np.ones((1, 16, 16, 16), np.float32))
    for given in (
        ("--inputs", tmp_path / "x.npz"),
        ("--input", tmp_path / "x.npz"),
        ("--input", f"x={tmp_path}/x.npy"),
    ):
        assert cenote_command("verify", network, *given).code == 0
    np.savez(tmp_path / "y.npz", y=np.ones((1, 16, 16, 16), np.float32), z=np.ones(1))
    ended = cenote_command("verify", network, "--input", tmp_path / "y.npz")
    assert ended.code == 1
    assert "has the arrays y, z; the model's inputs: x" in ended.err
    (tmp_path / "z.npz").write_bytes(b"nothing")
    assert "not a .npz file" in cenote_command("verify", network, "--input", tmp_path / "z.npz").err
    assert "--inputs" not in cenote_command("verify", "--help").out


def test_sizes_of_a_model_that_leaves_them_open(cenote_command: Command, tmp_path: Path) -> None:
    path = skipped(tmp_path / "open.onnx")
    ended = cenote_command("verify", path)
    assert ended.code == 1
    assert "its size is open; give the input (on the command line --input or --shape)" in ended.err
    ended = cenote_command("verify", path, "--shape", "x=1,3,8,12", "--sizes", 3, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    made = [run["shapes"]["x"] for run in found["sizes"] if not run["refused"]]
    assert made[0] == [1, 3, 8, 12]
    assert len(made) == 4
    assert "skip" in next(run["refused"] for run in found["sizes"] if run["refused"])
    ended = cenote_command("verify", path, "--shape", "x=1,3,8,12", "--sizes", 0)
    head, row, verdict = ended.out.splitlines()[-3:]
    assert head.split()[-2:] == ["output", "inherited"]
    assert row.split()[:2] == ["x=1,3,8,12", "y"]
    assert "so has the loaded model at 1 size" in verdict
    assert cenote_command("verify", path, "--shape", "z=1").code == 2
    assert cenote_command("verify", path, "--shape", "x=1,3,8,12", "--sizes", -1).code == 2


def test_a_fault_of_sizes_ends_with_1(
    cenote_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cenote.Model.run
    monkeypatch.setattr(
        cenote.Model, "run", lambda self, feed: {name: y + 1 for name, y in run(self, feed).items()}
    )
    ended = cenote_command("verify", skipped(tmp_path / "open.onnx"), "--shape", "x=1,3,8,12", "--json")
    assert ended.code == 1
    first = json.loads(ended.out)["first"]
    assert (first["kind"], first["value"], first["shapes"]) == ("sizes", "y", {"x": [1, 3, 8, 12]})


def test_engines_that_are_not_there(cenote_command: Command, network: Path) -> None:
    assert cenote_command("verify", network, "--against", "magic").code == 2
    ended = cenote_command("verify", network, "--against", "torch")
    assert ended.code == 1
    assert "beside the model" in ended.err
