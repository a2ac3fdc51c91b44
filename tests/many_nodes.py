"""Models of as many nodes of a kind as are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

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


def _pattern(*pattern: tuple[str, tuple[str, ...], dict[str, Any]]) -> Kind:
    """Operators in turns, each of the one before and of constants."""

    def build(count: int) -> tuple[Nodes, list[str]]:
        nodes, value = [], "x"
        for i in range(count):
            op, extra, attributes = pattern[i % len(pattern)]
            nodes.append(helper.make_node(op, [value, *extra], [f"v{i + 1}"], **attributes))
            value = f"v{i + 1}"
        return nodes, [value]

    return build


def _constant(name: str, value: np.ndarray) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _own_weights(count: int) -> tuple[Nodes, list[str]]:
    nodes, value = [], "x"
    for i in range(count):
        nodes.append(_constant(f"w{i}", np.full((4, 4, 3, 3), i + 1, np.float32)))
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"v{i}"], **WINDOW))
        value = f"v{i}"
    return nodes, [value]


def _branches(count: int) -> tuple[Nodes, list[str]]:
    nodes, values = [], [f"y{i}" for i in range(count // 2)]
    for i, value in enumerate(values):
        nodes.append(_constant(f"c{i}", np.float32(1 + i / 7)))
        nodes.append(helper.make_node("Pow", ["x", f"c{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Softmax", [f"a{i}"], [value], axis=1))
    return [*nodes, helper.make_node("Sum", values, ["y"])], ["y"]


def _gemms(count: int) -> tuple[Nodes, list[str]]:
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["v0"]),
    ]
    nodes += [helper.make_node("Gemm", [f"v{i}", "matrix"], [f"v{i + 1}"]) for i in range(count)]
    return nodes, [f"v{count}"]


def _slices(count: int) -> tuple[Nodes, list[str]]:
    """Each of one row less: no two shapes are the same."""
    nodes = [helper.make_node("Concat", ["x"] * (count // 4), ["v0"], axis=2)]
    nodes += [helper.make_node("Slice", [f"v{i}", "one", "end", "axis"], [f"v{i + 1}"]) for i in range(count)]
    return nodes, [f"v{count}"]


def _quantised_convolutions(count: int) -> tuple[Nodes, list[str]]:
    nodes, value = [], "x"
    for i in range(count // 4):
        nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], [f"a{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"a{i}", "s", "z"], [f"b{i}"]))
        nodes.append(helper.make_node("DequantizeLinear", ["wq", "s"], [f"w{i}"]))
        nodes.append(helper.make_node("Conv", [f"b{i}", f"w{i}"], [value := f"c{i}"], **WINDOW))
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
    """Each node of the one before, since nodes alike become one, and all of them in the last."""

    def build(count: int) -> tuple[Nodes, list[str]]:
        values = ["x", *(f"y{i}" for i in range(count))]
        nodes = [
            helper.make_node("Softmax", [values[i]], [values[i + 1]], axis=i % 3 + 1) for i in range(count)
        ]
        return [*nodes, helper.make_node(op, values[1:], ["y"], **attributes)], ["y"]

    return build


def _concat(count: int) -> tuple[Nodes, list[str]]:
    """Parts that are written where they belong, and, since an input stays where it is, copies between them."""
    nodes, (value,) = _fan_in("Concat", axis=1)(count // 2)
    parts = [name for part in nodes[-1].input for name in (part, "x")]
    return [*nodes[:-1], helper.make_node("Concat", parts, [value], axis=1)], [value]


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
TURNED = {"perm": [0, 3, 1, 2]}
KINDS: dict[str, Kind] = {
    "elementwise": _chain("Sigmoid", "Neg", "Tanh"),
    "by a scalar": _chain("Add", "Mul", extra=("s",)),
    "ladder": _ladder,
    "convolutions": _chain("Conv", extra=("w",), **WINDOW),
    "own weights": _own_weights,
    "activations": _pattern(("Conv", ("w",), WINDOW), ("Relu", (), {})),
    "residual": _residual,
    "quantised convolutions": _quantised_convolutions,
    "gemms": _gemms,
    "pools": _chain("MaxPool", "AveragePool", **WINDOW),
    "turned pools": _pattern(("Transpose", (), TURNED), ("MaxPool", (), WINDOW)),
    "softmax": _chain("Softmax", axis=1),
    "transposes": _chain("Transpose", **TURNED),
    "identities": _chain("Identity"),
    "gather": _chain("Gather", extra=("order",), axis=1),
    "slices": _slices,
    "casts": _quantised,
    "fan out": _fan_out,
    "branches": _branches,
    "sum": _fan_in("Sum"),
    "concat": _concat,
    "split": _split,
    "arithmetic of sizes": _arithmetic,
}


def many_nodes(kind: str, count: int, is_open: bool) -> bytes:
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
            numpy_helper.from_array(np.array([1 << 40]), "end"),
            numpy_helper.from_array(np.array([2]), "axis"),
            numpy_helper.from_array(np.ones((4, 4, 3, 3), np.int8), "wq"),
            numpy_helper.from_array(np.full((4, 4), 0.25, np.float32), "matrix"),
            numpy_helper.from_array(np.array([2, 0, 1, 3]), "order"),
        ],
    )  # fmt: skip
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    return content
