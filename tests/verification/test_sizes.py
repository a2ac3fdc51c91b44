"""The loaded model, whose plan is for many sizes, beside plans for the very sizes: faults that only it has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.compiler.schedule import schedule
from cenote.core.types import Array
from cenote.runtime.formulas import Formulas
from cenote.verification import verify as verifying
from cenote.verification.engines import OnnxRuntime
from cenote.verification.sizes import other_numbers
from tests.verification.faults import spoilt
from tests.verification.open_models import RNG, WEIGHTS, saved, skipped

X = RNG.standard_normal((1, 3, 16, 24)).astype(np.float32)


def resized(path: Path) -> Path:
    """A convolution without padding, its map as large as the input again: the scale is h / (h - 2)."""
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["c"], "conv"),
        helper.make_node("Shape", ["x"], ["extents"], "shape", start=2),
        helper.make_node("Shape", ["c"], ["planes"], "planes", start=0, end=2),
        helper.make_node("Concat", ["planes", "extents"], ["sizes"], "join", axis=0),
        helper.make_node("Resize", ["c", "", "", "sizes"], ["y"], "resize", mode="linear"),
    ]
    return saved(path, nodes, weights=WEIGHTS)


def quantised(path: Path) -> Path:
    nodes = [
        helper.make_node("Conv", ["x", "weights"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"], "quantise"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], "back"),
    ]
    return saved(path, nodes, weights=WEIGHTS, scale=np.float32(0.125), zero=np.int8(0))


Change = Callable[[cenote.Model, Mapping[str, Array]], Mapping[str, Array]]


def changing(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Let loaded models answer as `change` says."""
    run = cenote.Model.run
    monkeypatch.setattr(cenote.Model, "run", lambda self, feed: change(lambda given: run(self, given), feed))  # type: ignore[arg-type]  # a shorter signature


def is_other(feed: Mapping[str, Array]) -> bool:
    return feed["x"].shape != X.shape


@pytest.mark.parametrize("against", ["onnxruntime", "reference"])
def test_a_formula_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, against: str) -> None:
    """Quotients whose divisor has lost its parentheses, u1 / -2+u1: the plan for these sizes alone is right."""
    made = Formulas.compile

    def compile(source: str, things: Sequence[Any]) -> Formulas:
        return made(re.sub(r"(?<!/)/ \(([^()]+)\)", r"/ \1", source), things)

    monkeypatch.setattr(Formulas, "compile", staticmethod(compile))
    found = cenote.verify(resized(tmp_path / "m.onnx"), inputs={"x": X}, against=against, sizes=1)
    first = found.first
    assert first is not None
    assert (first.kind, first.value, first.node) == ("sizes", "y", "resize"), str(found)
    assert first.shapes == {"x": X.shape}
    assert first.local > 0.1
    assert first.inherited is not None
    assert first.inherited > 0.1
    assert all(row.local < 1e-5 and (row.inherited or 0) < 1e-5 for row in found.values), str(found)
    *_, verdict = str(found).splitlines()
    assert "output 'y' of node 'resize' at x=1,3,16,24: sizes: the loaded model" in verdict


def test_a_fault_at_another_size_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(run: Any, feed: Mapping[str, Array]) -> dict[str, Array]:
        return {name: y * (1.01 if is_other(feed) else 1) for name, y in run(feed).items()}

    changing(monkeypatch, change)
    path = skipped(tmp_path / "m.onnx")
    assert cenote.verify(path, inputs={"x": X}, sizes=0).ok
    found = cenote.verify(path, inputs={"x": X}, sizes=5)
    assert found.first is not None
    assert (found.first.kind, found.first.value, found.first.node) == ("sizes", "y", "skip"), str(found)
    assert found.first.shapes["x"] != X.shape
    assert found.first.local == pytest.approx(0.01, rel=1e-3)
    given, *others = [run for run in found.sizes if not run.refused]
    assert given.shapes == {"x": X.shape}
    assert given.inherited is not None
    assert given.inherited < 1e-5
    assert len(others) == 5
    assert all(run.output == "y" and (run.inherited or 0) > 5e-3 for run in others)


def test_a_wrong_kernel_at_another_size_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loaded model and the plan for these sizes alone have it, which is then looked through."""

    def change(run: Any, feed: Mapping[str, Array]) -> dict[str, Array]:
        return {name: y * (1.01 if is_other(feed) else 1) for name, y in run(feed).items()}

    def scheduled(graph: Any, *rest: Any) -> Any:
        made = schedule(graph, *rest)
        return made if graph.types["x"].shape == X.shape else spoilt(made, "third")

    changing(monkeypatch, change)
    monkeypatch.setattr(verifying, "schedule", scheduled)
    found = cenote.verify(skipped(tmp_path / "m.onnx"), inputs={"x": X}, sizes=1)
    assert found.first is not None
    assert (found.first.kind, found.first.node) == ("kernel", "third"), str(found)
    assert found.first.shapes["x"] != X.shape


def test_sizes_that_the_graph_refuses_are_told(tmp_path: Path) -> None:
    found = cenote.verify(skipped(tmp_path / "m.onnx"), inputs={"x": X}, sizes=4)
    assert found.ok, str(found)
    made = [run.shapes["x"] for run in found.sizes if not run.refused]
    assert len(made) == len(set(made)) == 5
    assert all(h % 2 == 0 and w % 2 == 0 for _, _, h, w in made)
    assert {n for n, *_ in made} > {1}
    refused = [run for run in found.sizes if run.refused]
    assert refused
    assert all("skip" in run.refused and run.shapes["x"][2:] != X.shape[2:] for run in refused)
    assert "\nrefused: x=" in str(found)
    assert str(found).endswith("; so has the loaded model at 5 sizes")


def test_an_engine_that_refuses_a_size_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = OnnxRuntime.values

    def choosy(self: Any, feed: Any, names: Any) -> Any:
        if is_other(feed):
            raise cenote.UnsupportedError("onnxruntime cannot run the model: not now")
        return values(self, feed, names)

    monkeypatch.setattr(OnnxRuntime, "values", choosy)
    found = cenote.verify(skipped(tmp_path / "m.onnx"), inputs={"x": X}, against="onnxruntime", sizes=1)
    assert found.ok
    assert [run.refused[-7:] for run in found.sizes[:2]] == ["", "not now"]


def test_a_loaded_model_that_refuses_what_a_plan_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(run: Any, feed: Mapping[str, Array]) -> Mapping[str, Array]:
        if is_other(feed):
            raise cenote.ShapeError("no such size")
        given: Mapping[str, Array] = run(feed)
        return given

    changing(monkeypatch, change)
    found = cenote.verify(skipped(tmp_path / "m.onnx"), inputs={"x": X}, sizes=1)
    assert found.first is not None
    assert (found.first.kind, found.first.value, found.first.local) == ("sizes", "y", math.inf), str(found)
    said = json.loads(json.dumps(found.as_dict()))
    assert said["first"]["local"] == "Infinity"
    assert said["first"]["shapes"]["x"] == list(found.first.shapes["x"])
    assert said["sizes"][1]["refused"] == "no such size"


@pytest.mark.parametrize(("factor", "ok"), [(1 + 2e-7, True), (1.5, False)])
def test_what_rounding_does_to_integers_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, ok: bool
) -> None:
    """Two right plans may sum in another order, and round another way at halves: up to a step, far beyond 1e-4."""

    def change(run: Any, feed: Mapping[str, Array]) -> Mapping[str, Array]:
        given: Mapping[str, Array] = run({"x": (feed["x"] * factor).astype(np.float32)})
        return given

    changing(monkeypatch, change)
    x = np.resize(np.round(X * 64) / 64, (1, 3, 64, 96)).astype(np.float32)
    path = quantised(tmp_path / "m.onnx")
    graph = onnx.load(path)
    weights = np.round(WEIGHTS * 8) / 8  # sums of exact numbers: many lie halfway between two integers
    graph.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights.astype(np.float32), "weights"))
    onnx.save(graph, path)
    found = cenote.verify(path, inputs={"x": x}, against="reference", sizes=0)
    assert found.sizes[0].inherited is not None
    assert found.sizes[0].inherited > 1e-3
    assert found.ok == ok, str(found)
    assert found.first is None or found.first.kind == "sizes"


def test_a_model_of_fixed_sizes_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked is its plan."""

    def load(*given: Any, **ways: Any) -> Any:
        raise AssertionError("loaded")

    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu")]
    monkeypatch.setattr(verifying, "load_with", load)
    found = cenote.verify(saved(tmp_path / "m.onnx", nodes, (1, 3)))
    assert found.ok
    assert found.sizes == ()
    with pytest.raises(AssertionError, match="loaded"):
        cenote.verify(saved(tmp_path / "n.onnx", nodes, ("n", 3)))


def test_sizes_that_follow_content(tmp_path: Path) -> None:
    """The plan of what comes after NonZero holds for any number of places."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], "find"),
        helper.make_node("Cast", ["places"], ["y"], "cast", to=TensorProto.FLOAT),
    ]
    found = cenote.verify(saved(tmp_path / "m.onnx", nodes, (3, 4)), sizes=2)
    assert found.ok, str(found)
    assert [run.shapes for run in found.sizes] == [{"x": (3, 4)}]


def test_a_number_of_sizes(tmp_path: Path) -> None:
    path = skipped(tmp_path / "m.onnx")
    for wrong in (-1, 1.5, True, "2"):
        with pytest.raises(cenote.ArgumentError, match="sizes"):
            cenote.verify(path, inputs={"x": X}, sizes=wrong)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("numbers", [(1, 224, 224), (1, 3, 5), (7,), (1,), (64, 64, 64, 64)])
def test_which_other_sizes(numbers: tuple[int, ...]) -> None:
    others = list(other_numbers(numbers))
    assert others
    assert len(set(others)) == len(others)
    assert numbers not in others
    assert all(each > 0 for other in others for each in other)
    assert any(sum(a != b for a, b in zip(other, numbers, strict=True)) == 1 for other in others)
    if len(set(numbers)) < len(numbers):  # some keep what is square so
        pairs = [(a, b) for a in range(len(numbers)) for b in range(a) if numbers[a] == numbers[b]]
        assert any(all(other[a] == other[b] != numbers[a] for a, b in pairs) for other in others)
    for number in {each for each in numbers if each > 32}:  # as many halvings are possible, and none
        tried = {other[numbers.index(number)] for other in others}
        assert any(each % 32 == 0 and each != number for each in tried)
        assert any(each % 2 for each in tried)
        assert min(tried) < number < max(tried)
