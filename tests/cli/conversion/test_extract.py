"""`cenote extract`: all of a model, or one layer, as files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import cenote
from tests.cli.conftest import Command
from tests.verification.networks import NETWORKS

X = np.random.default_rng(7).standard_normal((1, 16, 16, 16)).astype(np.float32)


def test_one_layer(tmp_path: Path, cenote_command: Command) -> None:
    path = NETWORKS["plain"](tmp_path / "network.onnx")
    ended = cenote_command("extract", path, "-o", tmp_path / "files", "--layer", "second")
    assert ended.code == 0, ended.err
    assert "layers.json" in ended.out
    model = cenote.load(tmp_path / "files")
    wanted = cenote.load(path).run({"x": X}, outputs=["relu", "second"])
    assert [each.name for each in model.inputs] == ["relu"]
    np.testing.assert_allclose(model(wanted["relu"]), wanted["second"], rtol=1e-4, atol=1e-4)
    ended = cenote_command("extract", path, "-o", tmp_path / "files", "--layer", "secnd")
    assert ended.code == 1
    assert "'secnd' is no layer of the model; close to it: second" in ended.err


def test_what_cannot_be_pairs_of_files(tmp_path: Path, cenote_command: Command) -> None:
    path = NETWORKS["plain"](tmp_path / "network.onnx")
    ended = cenote_command("extract", path, "-o", tmp_path / "files", "--values", "bat")
    assert ended.code == 1
    assert "norm" in ended.err


def test_json_lists_the_files(tmp_path: Path, cenote_command: Command) -> None:
    path = NETWORKS["plain"](tmp_path / "network.onnx")
    found = json.loads(cenote_command("extract", path, "-o", tmp_path / "files", "--json").out)
    sizes = {each.name: each.stat().st_size for each in (tmp_path / "files").iterdir()}
    assert found["files"] == sizes
    assert found["bytes"] == sum(sizes.values())
