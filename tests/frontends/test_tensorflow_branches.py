"""Branches that a placeholder decides, and graphs between named values, against TensorFlow's answers.

The graphs and answers are in tensorflow_branches.zip, which make_tensorflow_branches.py makes.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import cenote
from cenote.cli.app import app
from cenote.core.errors import ArgumentError, UnsupportedError

ARCHIVE = Path(__file__).with_name("tensorflow_branches.zip")
with zipfile.ZipFile(ARCHIVE) as _archive:
    CASES = json.loads(_archive.read("cases.json"))
    GRAPHS = {name: _archive.read(f"{name}.pb") for name in CASES}
    ANSWERS = {name: dict(np.load(io.BytesIO(_archive.read(f"{name}.npz")))) for name in CASES}


def runs(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What is fed and what it gives, by TensorFlow's names."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for key, array in ANSWERS[name].items():
        number, _, value = key.partition("|")
        feed, fetched = found.setdefault(number, ({}, {}))
        (fetched if value.startswith("=") else feed)[value.lstrip("=")] = array
    return list(found.values())


def close(got: Any, want: Any) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert float(np.abs(got - want).max()) <= 1e-5 * max(1.0, float(np.abs(want).max()))


@pytest.mark.parametrize("name", CASES)
def test_answers_between_named_tensors(name: str) -> None:
    models = {}
    for feed, wanted in runs(name):
        feed.pop("keep_prob:0", None)  # dropout goes, and with it what nothing else needs
        outputs = [f"{each}:0" for each in wanted]
        if (key := tuple(feed)) not in models:
            models[key] = cenote.load(GRAPHS[name], inputs=key, outputs=outputs, threads=1)
        made = models[key].run(feed)
        assert [*made] == outputs
        for each, want in wanted.items():
            close(made[f"{each}:0"], want)


def test_inputs_are_the_placeholders_that_outputs_need() -> None:
    """A flag by one of the names of training is False unless it is named; text that nothing needs is none of them."""
    names = {name: [each.name for each in cenote.load(GRAPHS[name]).inputs] for name in CASES[:-1]}
    assert names == {
        "normalised_phase": ["x", "phase"], "normalised_is_training": ["x"], "fused": ["x", "phase"],
        "nested": ["x", "a", "b"], "function": ["x", "a"], "dropout": ["x"], "defaults": ["x"],
    }  # fmt: skip
    feed, wanted = runs("normalised_is_training")[0]
    close(cenote.load(GRAPHS["normalised_is_training"])(feed["x:0"]), wanted["y"])


def test_a_branch_that_cannot_run_is_refused_when_it_is_taken() -> None:
    model = cenote.load(GRAPHS["fused"])
    feed, wanted = runs("fused")[0]
    close(model(feed["x:0"], np.bool_(False)), wanted["y"])
    with pytest.raises(UnsupportedError, match=r"this branch was taken.*is_training is set"):
        model(feed["x:0"], np.bool_(True))


def test_names_that_do_not_fit_are_told() -> None:
    graph = GRAPHS["picture"]
    with pytest.raises(UnsupportedError, match="name the tensors behind it"):
        cenote.load(graph)
    with pytest.raises(
        ArgumentError, match=r"inputs: the graph has no tensor 'ExpandDim:0'; close to it: ExpandDims"
    ):
        cenote.load(graph, inputs=["ExpandDim:0"])
    with pytest.raises(
        ArgumentError, match=r"outputs: the graph has no tensor 'softmx'; close to it: softmax"
    ):
        cenote.load(graph, inputs=["Mul"], outputs=["softmx"])
    with pytest.raises(ArgumentError, match=r"inputs: the outputs need b: bool\[\] as well"):
        cenote.load(GRAPHS["nested"], inputs=["x", "a"])
    for wrong in ("x", [], [1], ["x", "x"]):
        with pytest.raises(ArgumentError, match="inputs: "):
            cenote.load(graph, inputs=wrong)  # type: ignore[arg-type]  # that is the test


def test_the_cache_keeps_models_between_names_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    for names in (["Mul:0"], ["Sub:0"], None):
        for _ in range(2):
            if names is None:
                with pytest.raises(UnsupportedError):
                    cenote.load(GRAPHS["picture"])
            else:
                model = cenote.load(GRAPHS["picture"], inputs=names, outputs=["pool"])
                assert [each.name for each in model.inputs] == names


def _onnx() -> bytes:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    nodes += [helper.make_node("Add", ["b", "z"], ["y"]), helper.make_node("Exp", ["b"], ["w"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "z")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("y", "w")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 9
    content: bytes = model.SerializeToString()
    return content


def test_other_formats_are_cut_at_values() -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    content = _onnx()
    model = cenote.load(content, inputs=["a"], outputs=["w:0"])
    assert [str(each) for each in model.inputs] == ["a: float32[2,3]"]
    np.testing.assert_allclose(model(x), np.exp(-x), rtol=1e-6)
    only = cenote.load(content, outputs=["b"])
    assert [each.name for each in only.inputs] == ["x"]
    np.testing.assert_array_equal(only(x), -np.maximum(x, 0))
    with pytest.raises(ArgumentError, match=r"inputs: the outputs need z: float32\[2,3\] as well"):
        cenote.load(content, inputs=["x"])
    with pytest.raises(ArgumentError, match="'aa' is no value of the model; close to it: a"):
        cenote.load(content, inputs=["aa"])


def test_the_command_line_feeds_and_fetches(tmp_path: Path) -> None:
    path = tmp_path / "picture.pb"
    path.write_bytes(GRAPHS["picture"])
    np.save(tmp_path / "x.npy", runs("picture")[3][0]["Mul:0"])
    ends = ["--feed", "Mul:0", "--fetch", "pool:0"]
    result = CliRunner().invoke(app, ["run", str(path), str(tmp_path / "x.npy"), *ends, "--json"])
    assert result.exit_code == 0, result.output
    assert "pool:0" in result.stdout
    assert "softmax" not in result.stdout
    shown = CliRunner().invoke(app, ["inspect", str(path), *ends, "--shape", "Mul:0=1,8,8,3"])
    assert shown.exit_code == 0, shown.output
    assert "Mul:0" in shown.stdout
    assert "softmax" not in shown.stdout
