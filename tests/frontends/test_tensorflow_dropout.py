"""Dropout in graphs that were saved for training goes; random numbers elsewhere are refused. And operations whose
older versions mean something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.core.errors import UnsupportedError
from cenote.frontends.formats import import_model
from tests.frontends.records import graph_bytes

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
FLOAT, INT, BOOL = {"type": 1}, {"type": 3}, {"type": 10}


def node(name: str, op: str, *inputs: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "op": op, "input": list(inputs), "attr": attributes}


def constant(name: str, value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    number = {"float32": 1, "int32": 3}[array.dtype.name]
    shape = {"dim": [{"size": extent} for extent in array.shape]}
    tensor = {"dtype": number, "tensor_shape": shape, "tensor_content": array.tobytes()}
    return node(name, "Const", dtype={"type": number}, value={"tensor": tensor})


def placeholder(name: str, kind: Mapping[str, int], *shape: int) -> dict[str, Any]:
    return node(
        name, "Placeholder", dtype=kind, shape={"shape": {"dim": [{"size": extent} for extent in shape]}}
    )


def model(*nodes: dict[str, Any]) -> bytes:
    return graph_bytes({"node": list(nodes)})


BEFORE = [
    placeholder("x", FLOAT, -1, 4),
    node("relu", "Relu", "x"),
    node("shape", "Shape", "relu"),
    node("random", "RandomUniform", "shape", T=INT, dtype=FLOAT),
    constant("range", np.float32(1.0)), constant("low", np.float32(0.0)),
    node("scaled_noise", "Mul", "random", "range"), node("noise", "Add", "scaled_noise", "low"),
    constant("half", np.float32(0.5)), constant("two", np.float32(2.0)), constant("zero", np.float32(0.0)),
]  # fmt: skip
KEEP = [node("kept", "Add", "half", "noise"), node("mask", "Floor", "kept")]
ABOVE = [node("above", "GreaterEqual", "noise", "half"), node("mask", "Cast", "above", DstT=FLOAT)]
DROPOUTS = {
    "TensorFlow 1": [*KEEP, node("scaled", "RealDiv", "relu", "half"), node("drop", "Mul", "scaled", "mask")],
    "TensorFlow 1.13": [*ABOVE, node("scaled", "Mul", "relu", "two"), node("drop", "Mul", "scaled", "mask")],
    "the factor first": [*ABOVE, node("scaled", "Mul", "two", "relu"), node("drop", "Mul", "mask", "scaled")],
    "TensorFlow 2": [
        ABOVE[0], node("scaled", "Mul", "relu", "two"), node("drop", "SelectV2", "above", "scaled", "zero"),
    ],
    "without a factor": [*ABOVE, node("drop", "Mul", "relu", "mask")],
}  # fmt: skip


@pytest.mark.parametrize("kind", DROPOUTS)
def test_dropout_goes(kind: str) -> None:
    content = model(*BEFORE, *DROPOUTS[kind], node("y", "Neg", "drop"))
    np.testing.assert_array_equal(cenote.load(content)(X), -np.maximum(X, 0))


def test_a_rate_that_was_fed_is_no_input() -> None:
    rate = placeholder("keep_prob", FLOAT)
    nodes = [*BEFORE, rate, node("kept", "Add", "keep_prob", "noise"), node("mask", "Floor", "kept")]
    nodes += [node("scaled", "RealDiv", "relu", "keep_prob"), node("y", "Mul", "scaled", "mask")]
    made = cenote.load(model(*nodes))
    assert [each.name for each in made.inputs] == ["x"]
    np.testing.assert_array_equal(made(X), np.maximum(X, 0))


@pytest.mark.parametrize("op", ["Exp", "Add"])
def test_other_random_numbers_are_refused(op: str) -> None:
    end = node("y", "Exp", "noise") if op == "Exp" else node("y", "MatMul", "relu", "noise")
    with pytest.raises(UnsupportedError, match=r"'y' .*random numbers.*training=False"):
        import_model(model(*BEFORE, end))


def test_a_condition_of_one_axis_chooses_rows() -> None:
    nodes = [placeholder("x", FLOAT, -1, 4), placeholder("c", BOOL, -1), node("minus", "Neg", "x")]
    made = cenote.load(model(*nodes, node("y", "Select", "c", "x", "minus")))
    chosen = np.array([True, False, True])
    np.testing.assert_array_equal(made(X, chosen), np.where(chosen[:, None], X, -X))


@pytest.mark.parametrize("computed", ["begin", "size"])
def test_a_slice_whose_bounds_are_computed(computed: str) -> None:
    nodes = [
        placeholder("x", FLOAT, -1, 4), placeholder("n", INT, 2), constant("begin", np.array([1, 0], np.int32)),
        constant("size", np.array([-1, 2], np.int32)),
        node("y", "Slice", "x", *("n" if computed == "begin" else "begin", "n" if computed == "size" else "size")),
    ]  # fmt: skip
    made, n = cenote.load(model(*nodes)), np.array([2, 1], np.int32)
    wanted = X[2:, 1:3] if computed == "begin" else X[1:3, 0:1]
    np.testing.assert_array_equal(made(X, n), wanted)


def test_what_must_be_constant_is_unsupported_and_named() -> None:
    nodes = [placeholder("x", FLOAT, -1, 4), placeholder("axis", INT, 1), node("y", "Mean", "x", "axis")]
    with pytest.raises(UnsupportedError, match=r"'y'.*the axes is computed when the model runs"):
        import_model(model(*nodes))
    assert len(cenote.unsupported(model(*nodes))) == 1
