"""Maps that are enlarged before a convolution of one tap are convolved before; others stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.elementwise.activation import Relu
from cenote.ops.movement.parts import Concat
from cenote.ops.movement.resize import Resize
from cenote.ops.values import seeded
from cenote.passes.products.resized_parts import convolve_before_resizing
from cenote.passes.specialize import specialize

C = 64
Nodes = dict[str, tuple[Op, tuple[str, ...]]]
SIZES = {"a": (3, 2), "b": (4, 4), "c": (6, 8), "d": (6, 8)}
LINEAR = Resize("linear", sizes=(6, 8), axes=(2, 3))
NEAREST = replace(LINEAR, mode="nearest", coordinates="asymmetric", nearest_mode="floor")
CONSTANTS: dict[str, Array] = {
    "two": seeded((C, 2 * C, 1, 1), 1),
    "three": seeded((C, 3 * C, 1, 1), 2),
    "four": seeded((C, 4 * C, 1, 1), 3),
    "fewer": seeded((C - 1, 2 * C, 1, 1), 4),
    "wide": seeded((C, 2 * C, 3, 3), 5),
    "bias": seeded((C,), 6),
}


def graph_of(nodes: Nodes, outputs: tuple[str, ...] = ("y",), channels: int = C) -> Graph:
    made = tuple(Node(op, inputs, (name,)) for name, (op, inputs) in nodes.items())
    used = {name for _, inputs in nodes.values() for name in inputs}
    shapes = {name: (2, channels, *SIZES[name]) for name in SIZES if name in used}
    graph = Graph(
        tuple(Declared(name, np.dtype(np.float32), shape) for name, shape in shapes.items()),
        outputs,
        made,
        {name: x for name, x in CONSTANTS.items() if name in used},
    )
    return specialize(graph, {name: TensorType.of(np.float32, shape) for name, shape in shapes.items()}).graph


def changed(graph: Graph) -> list[str]:
    """The operators after the pass; the numbers are the same."""
    after = verify(convolve_before_resizing(graph))
    x = {each.name: seeded(graph.types[each.name].shape, n) for n, each in enumerate(graph.inputs)}
    for name, wanted in evaluate(graph, x).items():
        np.testing.assert_allclose(evaluate(after, x)[name], wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    return [node.op.name for node in after.nodes]


@pytest.mark.parametrize("resize", [LINEAR, NEAREST, replace(LINEAR, coordinates="align_corners")])
def test_a_part_that_is_enlarged_is_convolved_before(resize: Resize) -> None:
    nodes: Nodes = {
        "r": (resize, ("a",)),
        "j": (Concat(1), ("r", "c")),
        "y": (Conv(), ("j", "two", "bias")),
    }
    assert changed(graph_of(nodes)) == ["conv", "conv", "resize", "add"]


def test_several_parts_and_several_others() -> None:
    nodes: Nodes = {
        "r": (LINEAR, ("a",)),
        "s": (NEAREST, ("b",)),
        "j": (Concat(-3), ("c", "r", "d", "s")),
        "y": (Conv(), ("j", "four")),
    }
    assert sorted(changed(graph_of(nodes))) == ["add", "add", "concat", *["conv"] * 3, "resize", "resize"]


def test_all_parts_are_enlarged() -> None:
    nodes: Nodes = {
        "r": (LINEAR, ("a",)),
        "s": (LINEAR, ("b",)),
        "j": (Concat(1), ("r", "s")),
        "z": (Conv(), ("j", "two", "bias")),
        "y": (Relu(), ("z",)),
    }
    assert changed(graph_of(nodes)) == ["conv", "resize", "conv", "resize", "add", "relu"]


@pytest.mark.parametrize(
    ("resize", "conv", "weights"),
    [
        (replace(LINEAR, mode="cubic"), Conv(), "two"),
        (replace(LINEAR, coordinates="tf_crop_and_resize", roi=(0.0, 0.0, 1.5, 1.5)), Conv(), "two"),
        (LINEAR, Conv(), "fewer"),  # would be enlarged with other channels
        (LINEAR, Conv(pads=((1, 1), (1, 1))), "wide"),
        (LINEAR, Conv(strides=(2, 2)), "two"),
        (LINEAR, Conv(pads=((1, 0), (0, 0))), "two"),
    ],
)
def test_others_stay(resize: Resize, conv: Conv, weights: str) -> None:
    nodes: Nodes = {
        "r": (resize, ("a",)),
        "j": (Concat(1), ("r", "c")),
        "y": (conv, ("j", weights)),
    }
    graph = graph_of(nodes)
    assert convolve_before_resizing(graph) is graph


@pytest.mark.parametrize("read", ["r", "j"])
def test_what_others_read_stays(read: str) -> None:
    nodes: Nodes = {
        "r": (LINEAR, ("a",)),
        "j": (Concat(1), ("r", "c")),
        "y": (Conv(), ("j", "two")),
        "z": (Relu(), (read,)),
    }
    graph = graph_of(nodes, ("y", "z"))
    assert convolve_before_resizing(graph) is graph


def test_open_channels_are_left() -> None:
    names = ("a", "c")
    nodes = [
        helper.make_node("Resize", ["a", "", "", "sizes"], ["r"], mode="linear", axes=[2, 3]),
        helper.make_node("Concat", ["r", "c"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "two"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(name, 1, [2, f"c{name}", *SIZES[name]]) for name in names]
    constants = {"two": CONSTANTS["two"], "sizes": np.array(SIZES["c"])}
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    kept = [numpy_helper.from_array(x, name) for name, x in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept)
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = {name: seeded((2, C, *SIZES[name]), n) for n, name in enumerate(names)}
    exact = cenote.load(content, threads=1, precision="exact").run(x)["y"]
    found = cenote.load(content, threads=1).run(x)["y"]
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_little_growth_is_left() -> None:
    nodes: Nodes = {
        "r": (replace(LINEAR, sizes=(6, 5)), ("b",)),
        "k": (replace(LINEAR, sizes=(6, 5)), ("c",)),
        "j": (Concat(1), ("r", "k")),
        "y": (Conv(), ("j", "two")),
    }
    graph = graph_of(nodes)
    assert convolve_before_resizing(graph) is graph
