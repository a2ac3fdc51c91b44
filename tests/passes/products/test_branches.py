"""Sums of branches that are linear in the same values become one convolution; others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Relu
from cenote.ops.elementwise.binary import Add, Div, Mul, Sub
from cenote.ops.normalization.batch_normalization import BatchNormalization
from cenote.ops.values import seeded
from cenote.passes.products.branches import join_branches
from cenote.passes.specialize import specialize
from tests.passes import models

C = 8
CONSTANTS: dict[str, Array] = {
    "full": seeded((C, C, 3, 3), 1),
    "point": seeded((C, C, 1, 1), 2),
    "five": seeded((C, C, 5, 5), 3),
    "wide": seeded((C, C, 1, 3), 4),
    "tall": seeded((C, C, 3, 1), 5),
    "halves": seeded((C, C // 2, 3, 3), 6),
    "quarters": seeded((C, C // 4, 1, 1), 7),
    "each": seeded((C, 1, 3, 3), 8),
    "each_point": seeded((C, 1, 1, 1), 9),
    "more": seeded((3 * C, C, 3, 3), 1),
    "more_point": seeded((3 * C, C, 1, 1), 1),
    "infinite": np.full((C, C, 1, 1), np.inf, np.float32),
    "huge": np.full((C, C, 1, 1), 3e38, np.float32),
    "bias": seeded((C,), 10),
    "scale": seeded((C, 1, 1), 11),
    "number": np.float32(0.7).reshape(()),
    "plane": seeded((9, 7), 12),
    "positive": np.abs(seeded((C,), 13)) + np.float32(0.1),
    "row": seeded((C, C, 3), 14),
    "row_point": seeded((C, C, 1), 15),
    "cube": seeded((C, C, 3, 3, 3), 16),
    "cube_point": seeded((C, C, 1, 1, 1), 17),
}
NORM = ("bias", "bias", "bias", "positive")
Nodes = dict[str, tuple[Op, tuple[str, ...]]]


def around(pixels: int, rank: int = 2) -> tuple[tuple[int, int], ...]:
    return ((pixels, pixels),) * rank


SAME, POINT, DEPTHWISE = Conv(pads=around(1)), Conv(), Conv(pads=around(1), groups=C)
BRANCHES: dict[str, tuple[Nodes, tuple[int, ...]]] = {
    "RepVGG": (
        {
            "a": (SAME, ("x", "full", "bias")),
            "b": (POINT, ("x", "point")),
            "n": (BatchNormalization(), ("x", *NORM)),
            "s": (Add(), ("a", "b")),
            "y": (Add(), ("n", "s")),
        },
        (2, C, 9, 7),
    ),
    "MobileOne": (
        {
            "a": (DEPTHWISE, ("x", "each")),
            "b": (DEPTHWISE, ("x", "each", "bias")),
            "c": (Conv(groups=C), ("x", "each_point")),
            "s": (Add(), ("a", "b")),
            "t": (Add(), ("s", "c")),
            "y": (Add(), ("t", "x")),
        },
        (2, C, 9, 7),
    ),
    "FastViT": (
        {
            "a": (DEPTHWISE, ("x", "each", "bias")),
            "m": (BatchNormalization(), ("a", *NORM)),
            "n": (BatchNormalization(), ("x", *NORM)),
            "d": (Sub(), ("m", "n")),
            "s": (Mul(), ("scale", "d")),
            "y": (Add(), ("x", "s")),
        },
        (2, C, 9, 7),
    ),
    "constants": (
        {
            "a": (SAME, ("x", "full", "bias")),
            "b": (Div(), ("a", "number")),
            "c": (Sub(), ("b", "scale")),
            "d": (Add(), ("number", "c")),
            "n": (BatchNormalization(), ("x", *NORM)),
            "y": (Sub(), ("n", "d")),
        },
        (2, C, 9, 7),
    ),
    "strides": (
        {
            "a": (Conv(strides=(2, 2), pads=around(1)), ("x", "full")),
            "b": (Conv(strides=(2, 2)), ("x", "point")),
            "y": (Add(), ("a", "b")),
        },
        (2, C, 9, 8),
    ),
    "more filters": (
        {
            "a": (SAME, ("x", "more")),
            "b": (POINT, ("x", "more_point")),
            "y": (Sub(), ("a", "b")),
        },
        (2, C, 9, 8),
    ),
    "windows": (
        {
            "a": (Conv(pads=around(2)), ("x", "five")),
            "b": (SAME, ("x", "full")),
            "c": (Conv(pads=((0, 0), (1, 1))), ("x", "wide")),
            "d": (Conv(pads=((1, 1), (0, 0))), ("x", "tall")),
            "s": (Add(), ("a", "b")),
            "t": (Add(), ("c", "d")),
            "y": (Add(), ("s", "t")),
        },
        (2, C, 9, 7),
    ),
    "uneven": (
        {
            "a": (Conv(pads=((3, 1), (0, 4))), ("x", "five")),
            "b": (Conv(pads=((2, 0), (0, 2))), ("x", "full")),
            "y": (Add(), ("a", "b")),
        },
        (2, C, 9, 7),
    ),
    "dilations": (
        {
            "a": (Conv(pads=around(4), dilations=(2, 2)), ("x", "five")),
            "b": (Conv(pads=around(2), dilations=(2, 2)), ("x", "full")),
            "c": (Conv(dilations=(3, 3)), ("x", "point")),
            "s": (Add(), ("a", "b")),
            "y": (Add(), ("s", "c")),
        },
        (2, C, 9, 7),
    ),
    "groups": (
        {
            "a": (Conv(pads=around(1), groups=2), ("x", "halves")),
            "b": (Conv(groups=4), ("x", "quarters")),
            "s": (Add(), ("a", "b")),
            "y": (Add(), ("s", "x")),
        },
        (2, C, 9, 7),
    ),
    "rows": (
        {
            "a": (Conv(pads=around(1, 1)), ("x", "row")),
            "b": (POINT, ("x", "row_point", "bias")),
            "y": (Add(), ("a", "b")),
        },
        (2, C, 9),
    ),
    "volumes": (
        {
            "a": (Conv(pads=around(1, 3)), ("x", "cube")),
            "b": (POINT, ("x", "cube_point", "bias")),
            "s": (Add(), ("a", "b")),
            "y": (Add(), ("s", "x")),
        },
        (2, C, 5, 4, 3),
    ),
}  # fmt: skip


def graph_of(nodes: Nodes, shape: tuple[int, ...], outputs: tuple[str, ...] = ("y",)) -> Graph:
    made = tuple(Node(op, inputs, (name,)) for name, (op, inputs) in nodes.items())
    used = {name for _, inputs in nodes.values() for name in inputs} & set(CONSTANTS)
    declared = (Declared("x", np.dtype(np.float32), shape),)
    graph = Graph(declared, outputs, made, {name: CONSTANTS[name] for name in used})
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def joined(graph: Graph) -> list[str]:
    """The operators after the pass; the numbers are the same."""
    after = verify(join_branches(graph))
    x = {"x": seeded(graph.types["x"].shape)}
    for name, wanted in evaluate(graph, x).items():
        got = evaluate(after, x)[name]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    return [node.op.name for node in after.nodes]


@pytest.mark.parametrize("name", BRANCHES)
def test_a_sum_of_branches_is_one_convolution(name: str) -> None:
    assert joined(graph_of(*BRANCHES[name])) == ["conv"]


def test_the_largest_sum_whose_branches_fit_is_joined() -> None:
    nodes: Nodes = {
        "a": (SAME, ("x", "full")),
        "b": (POINT, ("x", "point")),
        "s": (Add(), ("a", "b")),
        "r": (Relu(), ("s",)),
        "c": (SAME, ("r", "full")),
        "y": (Add(), ("c", "x")),
    }
    assert joined(graph_of(nodes, (1, C, 9, 7))) == ["conv", "relu", "conv", "add"]


def test_sums_follow_each_other() -> None:
    nodes: Nodes = {}
    for n in range(3):
        x = f"y{n - 1}" if n else "x"
        nodes |= {
            f"a{n}": (SAME, (x, "full")),
            f"b{n}": (POINT, (x, "point", "bias")),
            f"s{n}": (Add(), (f"a{n}", f"b{n}")),
            f"y{n}": (Add(), (f"s{n}", x)),
        }
    assert joined(graph_of(nodes, (1, C, 9, 7), ("y2",))) == ["conv", "conv", "conv"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((SAME, ("x", "full")), (POINT, ("other", "point"))),  # of other values
        # Beyond the window.
        ((Conv(pads=((2, 0), (1, 1))), ("x", "full")), (Conv(pads=((1, 1), (0, 0))), ("x", "tall"))),
        ((Conv(pads=((0, 0), (1, 1))), ("x", "wide")), (Conv(pads=((1, 1), (0, 0))), ("x", "tall"))),
        ((SAME, ("x", "full")), (Conv(pads=around(2), dilations=(2, 2)), ("x", "full"))),
        ((DEPTHWISE, ("x", "each")), (POINT, ("x", "point"))),  # would take more multiplications
        ((SAME, ("x", "full")), (POINT, ("x", "infinite"))),  # infinity reaches more pixels
        ((POINT, ("x", "huge")), (POINT, ("x", "huge"))),  # no sum of float32
    ],
)  # fmt: skip
def test_other_branches_stay(first: tuple[Op, tuple[str, ...]], second: tuple[Op, tuple[str, ...]]) -> None:
    nodes: Nodes = {
        "other": (Relu(), ("x",)),
        "a": first,
        "b": second,
        "y": (Add(), ("a", "b")),
    }
    graph = graph_of(nodes, (1, C, 9, 7))
    assert join_branches(graph) is graph


def test_a_residual_stays_one() -> None:
    nodes: Nodes = {"a": (SAME, ("x", "full")), "y": (Add(), ("a", "x"))}
    graph = graph_of(nodes, (1, C, 9, 7))
    assert join_branches(graph) is graph


def test_weights_that_are_no_constants_stay() -> None:
    nodes: Nodes = {
        "w": (Relu(), ("x",)),
        "a": (SAME, ("x", "w")),
        "b": (SAME, ("x", "full")),
        "y": (Add(), ("a", "b")),
    }
    graph = graph_of(nodes, (C, C, 3, 3))
    assert join_branches(graph) is graph


@pytest.mark.parametrize("read", ["a", "s"])
def test_values_that_others_read_stay(read: str) -> None:
    nodes: Nodes = {
        "a": (SAME, ("x", "full")),
        "b": (POINT, ("x", "point")),
        "s": (Add(), ("a", "b")),
        "r": (Relu(), (read,)),
        "y": (Add(), ("s", "x")),
    }
    graph = graph_of(nodes, (1, C, 9, 7), ("y", "r"))
    assert joined(graph) == (
        ["conv", "conv", "add", "relu", "add"] if read == "a" else ["conv", "relu", "add"]
    )


def test_constants_that_are_no_factor_of_channels_stay() -> None:
    nodes: Nodes = {
        "a": (SAME, ("x", "full")),
        "p": (Mul(), ("a", "plane")),
        "y": (Add(), ("p", "x")),
    }
    graph = graph_of(nodes, (1, C, 9, 7))
    assert join_branches(graph) is graph


def branching(extent: Any = 9) -> bytes:
    conv = helper.make_node("Conv", ["x", "full", "bias"], ["a"], pads=[1, 1, 1, 1])
    nodes = [
        conv,
        helper.make_node("Conv", ["x", "point"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Add", ["s", "x"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    constants = {name: CONSTANTS[name] for name in ("full", "point", "bias")}
    return models.model(nodes, {"x": np.zeros((1, C, extent, 7), np.float32)}, constants, ["y"])


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 1), ({"precision": "exact"}, 2), ({"precision": "bfloat16"}, 2), ({"weights": "bfloat16"}, 2)],
)
def test_exact_and_narrow_weights_keep_branches_apart(options: dict[str, str], count: int) -> None:
    model = cenote.load(branching(), threads=1, **options)
    made = {step.output for step in model.plan.describe().steps if step.op.startswith("conv")}
    assert len(made) == count


@pytest.mark.parametrize("seed", range(20))
def test_random_sums_of_branches(seed: int) -> None:
    """Trees of sums over windows of any size and groups, with factors and norms between."""
    random = np.random.default_rng(seed)
    nodes: Nodes = {"whole": (Conv(pads=around(2)), ("x", "five"))}
    values = ["whole"]
    windows: list[tuple[Op, tuple[str, ...]]] = [
        (SAME, ("x", "full", "bias")), (POINT, ("x", "point")), (DEPTHWISE, ("x", "each")),
        (Conv(groups=C), ("x", "each_point", "bias")), (Conv(pads=around(1), groups=2), ("x", "halves")),
    ]  # fmt: skip
    for n in range(int(random.integers(2, 7))):
        values.append(f"w{n}")
        nodes[values[-1]] = windows[random.integers(len(windows))]
    n = 0
    while len(values) > 1:
        value, n = values.pop(int(random.integers(len(values)))), n + 1
        changes: list[tuple[Op, tuple[str, ...]]] = [
            (BatchNormalization(), (value, *NORM)), (Mul(), ("scale", value)), (Sub(), (value, "number")),
        ]  # fmt: skip
        if random.random() < 0.3:
            nodes[f"c{n}"] = changes[random.integers(len(changes))]
            value = f"c{n}"
        other = values.pop(int(random.integers(len(values))))
        nodes[f"s{n}"] = ((Add(), Sub())[random.integers(2)], (value, other))
        values.append(f"s{n}")
    assert joined(graph_of(nodes, (1, C, 9, 7), (values[0],))) == ["conv"]
