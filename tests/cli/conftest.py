"""A command line to call, and small models to call it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cenote.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def cenote_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`cenote ARGUMENTS` in this process, on a terminal of 100 columns without colour."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return call


def save_model(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[tuple[str, int, list[int | str]]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
    metadata: dict[str, str] | None = None,
) -> Path:
    """Write a model of opset 17; outputs are declared without a shape."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    """What goes in comes out, doubled: shows what a picture became. Input [batch, 3, height, width]."""
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    return save_model(
        tmp_path / "double.onnx", nodes, [("x", TensorProto.FLOAT, ["batch", 3, "height", "width"])], ["y"]
    )


@pytest.fixture
def add(tmp_path: Path) -> Path:
    """y = a + b of [2, 2]."""
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    inputs: list[tuple[str, int, list[int | str]]] = [
        ("a", TensorProto.FLOAT, [2, 2]),
        ("b", TensorProto.FLOAT, [2, 2]),
    ]
    return save_model(tmp_path / "add.onnx", nodes, inputs, ["y"])


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Gives its input [1, 3] back as scores, with labels in the metadata."""
    nodes = [helper.make_node("Identity", ["x"], ["scores"])]
    return save_model(
        tmp_path / "scores.onnx",
        nodes,
        [("x", TensorProto.FLOAT, [1, 3])],
        ["scores"],
        metadata={"labels": "ant,bee,cat"},
    )
