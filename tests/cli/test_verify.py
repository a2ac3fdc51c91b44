"""`cenote verify`: table, JSON and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command
from tests.verification.networks import NETWORKS


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
    assert set(found["first"]) == {"value", "node", "kind", "inherited", "local"}


def test_inputs_of_a_file(cenote_command: Command, network: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((1, 16, 16, 16), np.float32))
    assert cenote_command("verify", network, "--inputs", tmp_path / "x.npz").code == 0
    np.savez(tmp_path / "y.npz", y=np.ones((1, 16, 16, 16), np.float32))
    ended = cenote_command("verify", network, "--inputs", tmp_path / "y.npz")
    assert ended.code == 1
    assert "'y' is no input of the model" in ended.err
    (tmp_path / "z.npz").write_bytes(b"nothing")
    assert "not a .npz file" in cenote_command("verify", network, "--inputs", tmp_path / "z.npz").err


def test_engines_that_are_not_there(cenote_command: Command, network: Path) -> None:
    assert cenote_command("verify", network, "--against", "magic").code == 2
    ended = cenote_command("verify", network, "--against", "torch")
    assert ended.code == 1
    assert "beside the model" in ended.err
