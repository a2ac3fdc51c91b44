"""`model.run(inputs, outputs=[…])`: any value by its name, also those that fusion removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cenote
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from tests.small_network import X, small


@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("given", ["path", "bytes", "message"])
def test_values_that_were_fused_away(tmp_path: Path, batch: Any, given: str) -> None:
    path = small(tmp_path / "small.onnx", batch)
    source: Any = {"path": path, "bytes": path.read_bytes(), "message": onnx.load(path)}[given]
    model = cenote.load(source, threads=1)
    names = ["rectified", "convolved", "x", "w", "y"]
    found = model.run({"x": X}, outputs=names)
    graph = load_onnx(path).graph
    wanted = evaluate(graph.replace(outputs=tuple(names)), {"x": X})
    assert list(found) == names
    for name in names:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["x"], X)
    assert found["x"] is not X
    assert list(model.run({"x": X})) == ["y"]


def test_a_second_load_finds_the_plan_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    path = small(tmp_path / "small.onnx")
    first = cenote.load(path, threads=1).run({"x": X}, outputs=["convolved"])
    monkeypatch.setattr("cenote.frontends.formats.import_model", None)
    again = cenote.load(path, threads=1).run({"x": X}, outputs=["convolved"])
    np.testing.assert_array_equal(first["convolved"], again["convolved"])


def test_unknown_names_are_refused_with_those_that_are_near(tmp_path: Path) -> None:
    model = cenote.load(small(tmp_path / "small.onnx"))
    with pytest.raises(
        cenote.InputError, match="'convolvd' is no value of the model; close to it: convolved"
    ):
        model.run({"x": X}, outputs=["convolvd"])
    with pytest.raises(cenote.InputError, match="a list of names"):
        model.run({"x": X}, outputs="y")
    with pytest.raises(cenote.InputError, match="names no value"):
        model.run({"x": X}, outputs=[])


def test_models_without_a_graph_say_so(tmp_path: Path) -> None:
    path = small(tmp_path / "small.onnx")
    with path.open("rb") as file:
        model = cenote.load(file)
    with pytest.raises(cenote.InputError, match="load the model from its path"):
        model.run({"x": X}, outputs=["convolved"])
    model.save(tmp_path / "plan.cenote")
    with pytest.raises(cenote.InputError, match="a plan file holds none"):
        cenote.load(tmp_path / "plan.cenote").run({"x": X}, outputs=["y"])


def test_a_model_that_changed_is_not_read_again(tmp_path: Path) -> None:
    path = small(tmp_path / "small.onnx")
    model = cenote.load(path)
    path.write_bytes(small(tmp_path / "other.onnx", "n").read_bytes())
    with pytest.raises(cenote.ModelError, match="has changed"):
        model.run({"x": X}, outputs=["convolved"])
