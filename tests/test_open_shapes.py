"""Models whose shapes depend on content: what follows is planned once, for all that may be found, and kept as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import cenote
from cenote.core.types import Array
from tests.onnx_texts import parsed

NON_ZERO = """g (float[N,4] x) => (float[M,4] y, float[N,4] z) { z = Abs(x)  a = ReduceMax<keepdims = 0>(x, axes)
    p = Greater(a, zero)  i = NonZero(p)  k = Squeeze(i, first)  g = Gather(x, k)  r = Relu(g)  y = Mul(r, two) }"""
COMPRESS = """g (float[2,N] x, bool[N] c) => (float[2,M] y) { r = Exp(x)  p = Compress<axis = 1>(r, c)
    s = Softmax<axis = 1>(p)  y = Sub(s, p) }"""
DETECTOR = """g (float[1,B,4] b, float[1,2,B] s) => (float[K,4] y, float[K,1] best) {
    scores = Sigmoid(s)  boxes = Mul(b, scale)
    k = NonMaxSuppression<center_point_box = 1>(boxes, scores, most, overlap, least)
    box, at = Split<axis = 1, num_outputs = 2>(k)  w = Slice(k, last, end, axis)
    flat = Squeeze(boxes, zero64)  n = Squeeze(w, axis)  y0 = Gather(flat, n)  y = Div(y0, scale)
    t = Transpose<perm = [2, 1, 0]>(scores)  c = Slice(k, one, last, axis)  wc = Concat<axis = 1>(w, c)
    zeros = Sub(w, w)  full = Concat<axis = 1>(wc, zeros)  v = GatherND(t, full)  best = Unsqueeze(v, axis) }"""
CONSTANTS = {
    "zero": np.array(0, np.float32), "two": np.array(2, np.float32), "axes": np.array([1]), "first": np.array([0]),
    "scale": np.array([1, 1, 4, 4], np.float32), "most": np.array([50]), "overlap": np.array([0.5], np.float32),
    "least": np.array([0.4], np.float32), "last": np.array([2]), "end": np.array([3]), "axis": np.array([1]),
    "one": np.array([1]), "zero64": np.array([0]),
}  # fmt: skip


def model_of(text: str) -> onnx.ModelProto:
    model = parsed(text)
    read = {name for node in model.graph.node for name in node.input}
    for name, value in CONSTANTS.items():
        if name in read:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


def rows(count: int, seed: int) -> dict[str, Array]:
    """So many rows out of 40 have something above zero."""
    x = -np.abs(np.random.default_rng(seed).standard_normal((40, 4))).astype(np.float32)
    x[np.random.default_rng(seed).permutation(40)[:count], 1] = 1.5
    return {"x": x}


def columns(count: int, seed: int) -> dict[str, Array]:
    x = np.random.default_rng(seed).standard_normal((2, 40)).astype(np.float32)
    return {"x": x, "c": np.random.default_rng(seed).permutation(40) < count}


def boxes(count: int, seed: int) -> dict[str, Array]:
    """So many boxes, far from each other, score well, each in one of two classes."""
    rng = np.random.default_rng(seed)
    scores = np.full((1, 2, 40), -3, np.float32)
    scores[0, rng.integers(0, 2, count), rng.permutation(40)[:count]] = rng.uniform(0, 3, count)
    places = np.stack([np.arange(40) * 10, np.arange(40) * 10, np.full(40, 1), np.full(40, 1)], 1)
    return {"b": places[None].astype(np.float32), "s": scores}


CASES = {"NonZero": (NON_ZERO, rows), "Compress": (COMPRESS, columns), "detector": (DETECTOR, boxes)}


def check(model: cenote.Model, oracle: ReferenceEvaluator, inputs: dict[str, Array]) -> None:
    got = model.run(inputs)
    for name, want in zip(oracle.output_names, oracle.run(None, inputs), strict=True):
        assert got[name].shape == want.shape, name
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_new_extents_compile_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, inputs = CASES[name]
    source = model_of(text)
    model, oracle = cenote.load(source, threads=1), ReferenceEvaluator(source)
    check(model, oracle, inputs(7, 0))
    monkeypatch.setattr("cenote.stages.sized._compiled", refuse)
    monkeypatch.setattr("cenote.stages.stage.Stage.compile", refuse)
    for count in range(2, 22):
        check(model, oracle, inputs(count, count))


def refuse(*arguments: object) -> None:
    raise AssertionError("something was compiled")


@pytest.mark.parametrize("name", CASES)
def test_nothing_and_one_are_found_too(name: str) -> None:
    text, inputs = CASES[name]
    source = model_of(text)
    model, oracle = cenote.load(source, threads=1), ReferenceEvaluator(source)
    for count in (5, 0, 1, 9, 0):
        check(model, oracle, inputs(count, count))


def test_other_sizes_and_extents_share_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    source = model_of(NON_ZERO)
    model, oracle = cenote.load(source, threads=1), ReferenceEvaluator(source)
    check(model, oracle, rows(7, 0))
    monkeypatch.setattr("cenote.stages.sized._compiled", refuse)
    for count, length in ((5, 38), (9, 21), (3, 40)):
        check(model, oracle, {"x": rows(count, 1)["x"][:length]} if length < 40 else rows(count, 1))


SECOND = """
import sys, numpy as np, cenote
model = cenote.load(sys.argv[1], threads=1)
for path in sys.argv[2:]:
    inputs = dict(np.load(path))
    for name, y in model.run({k: v for k, v in inputs.items() if not k.startswith("want_")}).items():
        np.testing.assert_allclose(y, inputs["want_" + name], rtol=1e-5, atol=1e-6)
loaded = [name for name in ("llvmlite", "onnx", "cenote.compiler", "cenote.passes") if name in sys.modules]
assert not loaded, loaded
"""


@pytest.mark.parametrize("kept", ["cache", "file"])
@pytest.mark.parametrize("name", CASES)
def test_a_second_process_compiles_nothing(
    name: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "100")
    text, inputs = CASES[name]
    source, path = model_of(text), tmp_path / "model.onnx"
    onnx.save(source, path)
    model, oracle = cenote.load(path, threads=1), ReferenceEvaluator(source)
    check(model, oracle, inputs(7, 0))
    if kept == "file":
        path = tmp_path / "model.cenote"
        model.save(path)
    files = []
    for count in (5, 7, 12):
        given = inputs(count, count)
        wanted = zip(oracle.output_names, oracle.run(None, given), strict=True)
        files.append(tmp_path / f"{count}.npz")
        np.savez(files[-1], **given, **{f"want_{output}": y for output, y in wanted})
    done = subprocess.run(
        [sys.executable, "-c", SECOND, path, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_file_without_what_follows_is_not_written(tmp_path: Path) -> None:
    model = cenote.load(model_of(COMPRESS), threads=1)
    model.plan_for({"x": (2, 40), "c": (40,)})
    with pytest.raises(cenote.InputError, match="run the model before saving"):
        model.save(tmp_path / "model.cenote")


def test_a_file_says_that_it_has_no_plan_for_what_was_found(tmp_path: Path) -> None:
    model = cenote.load(model_of(COMPRESS), threads=1)
    model.run(columns(7, 0))
    model.save(tmp_path / "model.cenote")
    with pytest.raises(cenote.InputError, match="what these inputs lead to"):
        cenote.load(tmp_path / "model.cenote", threads=1).run(columns(0, 0))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_weights_in_a_shape_of_the_inputs(kind: Any) -> None:
    """A view of a weight is read by NumPy (products of float64) and by kernels; its place is not that of the graph."""
    source = np.random.default_rng(0)
    c, w = source.standard_normal(24).astype(kind), source.standard_normal((3, 2)).astype(kind)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["c", "s"], ["r"]),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("MatMul", ["r", "w"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
        helper.make_node("Neg", ["r"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "views", [helper.make_tensor_value_info("x", element, ["n", "m", 3])],
        [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="z")],
        [numpy_helper.from_array(c, "c"), numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = cenote.load(proto.SerializeToString())
    for shape in ((2, 4, 3), (8, 1, 3), (1, 8, 3), (2, 4, 3)):
        x = source.standard_normal(shape).astype(kind)
        made = model.run({"x": x})
        np.testing.assert_allclose(made["y"], x @ w + c.reshape(shape) @ w, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(made["z"], -c.reshape(shape))
    assert "serves all sizes" in str(model.plan)
