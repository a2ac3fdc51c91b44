"""Models of operators that take indices, choose or order: native at any size; a bad index is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import cenote
from cenote.core.errors import InputError

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 18


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: Sequence[str],
    constants: dict[str, Any],
) -> Any:
    given = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    made = [ValueInfoProto(name=name) for name in outputs]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "choose", given, made, kept)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return cenote.load(proto, threads=1)


def test_they_are_native_at_any_size() -> None:
    nodes = [
        helper.make_node("Gather", ["x", "rows"], ["picked"], axis=0),
        helper.make_node("TopK", ["picked", "k"], ["best", "places"], axis=1),
        helper.make_node("ArgMax", ["picked"], ["top"], axis=0, keepdims=0),
        helper.make_node("GatherElements", ["picked", "places"], ["again"], axis=1),
        helper.make_node(
            "ScatterElements", ["picked", "places", "best"], ["written"], axis=1, reduction="add"
        ),
        helper.make_node("Hardmax", ["picked"], ["hard"], axis=1),
        helper.make_node("Greater", ["picked", "zero"], ["mask"]),
        helper.make_node("Where", ["mask", "picked", "zero"], ["chosen"]),
        helper.make_node("OneHot", ["top", "depth", "values"], ["hot"]),
    ]
    outputs = ["best", "top", "again", "written", "hard", "chosen", "hot"]
    values = np.array([0, 1], np.float32)
    constants = {"k": np.array([3], np.int64), "zero": np.float32(0), "depth": np.int64(5), "values": values}
    model = model_of(nodes, {"x": (F32, ["n", "m"]), "rows": (I64, ["r"])}, outputs, constants)
    generator = np.random.default_rng(0)
    for n, m, r in ((7, 9, 5), (20, 33, 11), (3, 5, 2)):
        x, rows = generator.standard_normal((n, m)).astype(np.float32), generator.integers(-n, n, r)
        got = model.run({"x": x, "rows": rows})
        picked = x[rows]
        places = np.argsort(-picked, 1, kind="stable")[:, :3]
        best = np.take_along_axis(picked, places, 1)
        written = picked.copy()
        np.put_along_axis(written, places, 2 * best, 1)
        hard = (np.arange(m) == picked.argmax(1)[:, None]).astype(np.float32)
        top = picked.argmax(0)
        hot = (top[:, None] == np.arange(5)).astype(np.float32)
        wanted = [best, top, best, written, hard, np.maximum(picked, 0), hot]
        for name, want in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-6, err_msg=name)
    hosts = re.findall(r"host: (\w+) has no kernel", str(model.plan))
    assert set(hosts) <= {"compare"}


def test_constant_indices_are_looked_at_once() -> None:
    gather = [helper.make_node("Gather", ["x", "i"], ["y"], axis=1)]
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    model = model_of(gather, {"x": (F32, ["n", 5])}, ["y"], {"i": np.array([4, -5], np.int64)})
    assert np.array_equal(model.run({"x": x})["y"], x[:, [4, 0]])
    assert "check" not in str(model.plan)
    with pytest.raises(InputError, match=r"index 5 at \[1\] is outside an axis of 5"):
        model_of(gather, {"x": (F32, ["n", 5])}, ["y"], {"i": np.array([4, 5], np.int64)}).run({"x": x})


@pytest.mark.parametrize("sizes", [["n", 4], [5, 4]])
def test_a_bad_index_is_an_error_that_names_it(sizes: list[Any]) -> None:
    gather = [helper.make_node("Gather", ["x", "i"], ["y"], axis=0)]
    model = model_of(gather, {"x": (F32, sizes), "i": (I64, ["r"])}, ["y"], {})
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    assert np.array_equal(model.run({"x": x, "i": np.array([4, -5])})["y"], x[[4, 0]])
    with pytest.raises(InputError, match=r"gather: index 7 at (\[2\]|position 2) is outside an axis of 5"):
        model.run({"x": x, "i": np.array([0, 1, 7, 9])})
    assert np.array_equal(model.run({"x": x, "i": np.array([1])})["y"], x[[1]])


def test_scatter_writes_to_memory_that_nobody_needs_any_more() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("ScatterND", ["positive", "i", "u"], ["y"]),
    ]
    model = model_of(nodes, {"x": (F32, [6, 4]), "i": (I64, [2, 1]), "u": (F32, [2, 4])}, ["y"], {})
    x, u = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32), np.ones((2, 4), np.float32)
    wanted = np.maximum(x, 0)
    wanted[[5, 1]] = 1
    assert np.array_equal(model.run({"x": x, "i": np.array([[-1], [1]]), "u": u})["y"], wanted)


def test_indices_are_looked_at_when_the_native_stretch_ends() -> None:
    """Two gathers are one native call; the first bad index in order is named, and the next run is right."""
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["a"], axis=0),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gather", ["b", "j"], ["y"], axis=1),
    ]
    inputs = {"x": (F32, [50, 20]), "i": (I64, [30]), "j": (I64, [10])}
    x = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
    i, j = np.arange(-30, 0), np.arange(10)
    model = model_of(nodes, inputs, ["y"], {})
    segments = model._plans.by_shapes[x.shape, i.shape, j.shape].plan.program.records.segments
    assert [isinstance(segment, tuple) for segment in segments] == [True, False, False]
    for _ in range(2):
        assert np.array_equal(model.run({"x": x, "i": i, "j": j})["y"], np.maximum(x[i], 0)[:, j])
        for bad_i, bad_j, wanted in (
            (77, 3, "index 77 at"),
            (3, -21, "index -21 at"),
            (60, 99, "index 60 at"),
        ):
            given = {"x": x, "i": np.where(i == -5, bad_i, i), "j": np.where(j == 5, bad_j, j)}
            with pytest.raises(InputError, match=wanted):
                model.run(given)
