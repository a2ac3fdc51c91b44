"""Accuracy in 8 bits: a run that was stopped goes on where it left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench import quantized_accuracy
from bench.quantized_accuracy import Line
from bench.quantized_cases import Case


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case whose files and scores cost nothing: tools and engines are fakes that say what they were asked."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))

    def fail(*_: object) -> None:
        raise RuntimeError("no such tool")

    tools = {"cenote": lambda case, method, path: path.write_text(method), "onnxruntime": fail}
    monkeypatch.setattr(quantized_accuracy, "TOOLS", tools)
    monkeypatch.setattr(quantized_accuracy, "answers", lambda engine, path, case: {"y": np.ones(2)})
    monkeypatch.setattr(onnx, "save", lambda model, path: None)
    return Case("toy", model, np.ones((2, 2)), np.ones((2, 2)))


def test_a_stopped_run_measures_only_what_is_left(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept, output = tmp_path / "lines.json", tmp_path / "page.md"
    made: list[Line] = []

    def stop_early(*arguments: object) -> None:
        *given, tell = arguments

        def told(line: Line) -> None:
            tell(line)  # type: ignore[operator]
            made.append(line)
            if len(made) == 3:
                raise KeyboardInterrupt

        measure(*given, told)  # type: ignore[arg-type]

    measure = quantized_accuracy.measure
    monkeypatch.setattr(quantized_accuracy, "measure", stop_early)
    monkeypatch.setattr(quantized_accuracy, "cases", lambda data, folder: {"toy": lambda: case})
    monkeypatch.setattr(quantized_accuracy.logging, "disable", lambda level: None)  # of the whole process
    monkeypatch.setattr("sys.argv", ["", "--lines", str(kept), "--output", str(output)])
    with pytest.raises(KeyboardInterrupt):
        quantized_accuracy.main()
    quantized_accuracy.main()
    names = [line.tool for line in made]
    wanted = [
        f"{tool}, {method}"
        for method in ("minmax", "percentile", "entropy", "mse")
        for tool in ("cenote", "onnxruntime")
    ]
    assert names == ["float", *wanted[:-1]]
    page = output.read_text()
    assert page.count("| toy |") == len(names)
    assert "no such tool" in page
    quantized_accuracy.main()  # all is known
    assert len(made) == len(names)
