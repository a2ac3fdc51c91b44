"""Models of thousands of nodes load in a time that is linear in them, whatever their kind.

Nothing is timed: calls of functions are counted (Python's and C's), for n, 2n and 4n nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.compiler import placement

N = 64  # nodes, about, of the smallest model
MOST_GROWTH = 2.15  # of the calls from 2n to 4n nodes, over those from n to 2n: 2 is linear, 4 quadratic

Nodes = list[Any]
Kind = Callable[[int], tuple[Nodes, list[str]]]


def _chain(*ops: str, extra: tuple[str, ...] = (), **attributes: Any) -> Kind:
    def build(count: int) -> tuple[Nodes, list[str]]:
        nodes = [
            helper.make_node(ops[i % len(ops)], [f"v{i}" if i else "x", *extra], [f"v{i + 1}"], **attributes)
            for i in range(count)
        ]
        return nodes, [f"v{count}"]

    return build


def _ladder(count: int) -> tuple[Nodes, list[str]]:
    nodes, value = [], "x"
    for i in range(count // 3):
        nodes.append(helper.make_node("Sigmoid", [value], [f"a{i}"]))
        nodes.append(helper.make_node("Tanh", [value], [f"b{i}"]))
        nodes.append(helper.make_node("Add", [f"a{i}", f"b{i}"], [value := f"c{i}"]))
    return nodes, [value]


def _residual(count: int) -> tuple[Nodes, list[str]]:
    nodes, value = [], "x"
    for i in range(count // 3):
        nodes.append(helper.make_node("Conv", [value, "w"], [f"a{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"a{i}"], [f"b{i}"]))
        nodes.append(helper.make_node("Add", [f"b{i}", value], [value := f"c{i}"]))
    return nodes, [value]


def _fan_out(count: int) -> tuple[Nodes, list[str]]:
    nodes = [helper.make_node("MaxPool", ["x"], [f"y{i}"], kernel_shape=[1 + i % 3, 1]) for i in range(count)]
    return nodes, [f"y{i}" for i in range(count)]


def _fan_in(op: str, **attributes: Any) -> Kind:
    def build(count: int) -> tuple[Nodes, list[str]]:
        values = [f"y{i}" for i in range(count)]
        nodes = [
            helper.make_node("Softmax", ["x"], [value], axis=i % 3 + 1) for i, value in enumerate(values)
        ]
        return [*nodes, helper.make_node(op, values, ["y"], **attributes)], ["y"]

    return build


def _split(count: int) -> tuple[Nodes, list[str]]:
    values = [f"y{i}" for i in range(count)]
    nodes = [
        helper.make_node("Concat", ["x"] * (count // 4), ["wide"], axis=1),
        helper.make_node("Split", ["wide"], values[: count // 4 * 4], axis=1, num_outputs=count // 4 * 4),
    ]
    return nodes, values[: count // 4 * 4]


def _arithmetic(count: int) -> tuple[Nodes, list[str]]:
    """A size that is computed from an input's, step by step."""
    nodes = [helper.make_node("Shape", ["x"], ["v0"], start=2, end=3)]
    nodes += [helper.make_node("Add", [f"v{i}", "one"], [f"v{i + 1}"]) for i in range(count)]
    return [*nodes, helper.make_node("Expand", ["s", f"v{count}"], ["y"])], ["y"]


def _quantised(count: int) -> tuple[Nodes, list[str]]:
    nodes, value = [], "x"
    for i in range(count // 2):
        nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], [f"a{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"a{i}", "s", "z"], [value := f"b{i}"]))
    return nodes, [value]


WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
KINDS: dict[str, Kind] = {
    "elementwise": _chain("Sigmoid", "Neg", "Tanh"),
    "by a scalar": _chain("Add", "Mul", extra=("s",)),
    "ladder": _ladder,
    "convolutions": _chain("Conv", extra=("w",), **WINDOW),
    "residual": _residual,
    "pools": _chain("MaxPool", "AveragePool", **WINDOW),
    "softmax": _chain("Softmax", axis=1),
    "transposes": _chain("Transpose", perm=[0, 3, 1, 2]),
    "identities": _chain("Identity"),
    "gather": _chain("Gather", extra=("order",), axis=1),
    "casts": _quantised,
    "fan out": _fan_out,
    "sum": _fan_in("Sum"),
    "concat": _fan_in("Concat", axis=1),
    "split": _split,
    "arithmetic of sizes": _arithmetic,
}
# Calls per node, of those kinds where each node costs much if it is looked at again and again.
MOST_CALLS = {"elementwise": 1500, "by a scalar": 1500}


def _model(kind: str, count: int, is_open: bool) -> bytes:
    nodes, outputs = KINDS[kind](count)
    size = ("n", 4, "h", "w") if is_open else (1, 4, 8, 8)
    graph = helper.make_graph(
        nodes, "many", [helper.make_tensor_value_info("x", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [
            numpy_helper.from_array(np.full((4, 4, 3, 3), 0.1, np.float32), "w"),
            numpy_helper.from_array(np.float32(0.5), "s"),
            numpy_helper.from_array(np.uint8(3), "z"),
            numpy_helper.from_array(np.array([1], np.int64), "one"),
            numpy_helper.from_array(np.array([2, 0, 1, 3]), "order"),
        ],
    )  # fmt: skip
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    return content


def _load(content: bytes) -> None:
    model = cenote.load(content, threads=1, tune="off")
    assert str(model.plan_for({"x": (2, 4, 8, 9)}) if not model.plan else model.plan)


def _calls(content: bytes) -> int:
    """Calls of functions in loading a model, planning it for a size and printing the plan; kernels are there."""
    _load(content)
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        _load(content)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("kind", KINDS)
def test_loading_is_linear(kind: str, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "0")
    monkeypatch.setattr(placement, "_MOST_COMPARED", 8)  # beyond it buffers are placed without comparing all
    small, middle, large = (_calls(_model(kind, count, is_open)) for count in (N, 2 * N, 4 * N))
    growth = (large - middle) / (middle - small)
    assert growth < MOST_GROWTH, (small, middle, large)
    if kind in MOST_CALLS:
        assert (large - middle) / (2 * N) < MOST_CALLS[kind], (small, middle, large)
