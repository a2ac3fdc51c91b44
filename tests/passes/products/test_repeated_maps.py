"""Convolutions of repeated elements are transposed ones; others, and what is read elsewhere, stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

import cenote
from cenote.codegen import jit
from cenote.core.types import Array, Declared, TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.base import Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.elementwise.activation import Relu
from cenote.ops.movement.resize import Resize
from cenote.ops.values import seeded
from cenote.passes.products.repeated_maps import convolve_repeated
from cenote.passes.specialize import specialize
from tests.passes.models import model

TWICE = Resize("nearest", "asymmetric", "floor", scales=(1.0, 1.0, 2.0, 2.0))
ONE = ((1, 1), (1, 1))
CONSTANTS: dict[str, Array] = {
    "w": seeded((24, 32, 3, 3), 1),
    "v": seeded((24, 32, 2, 4), 2),
    "u": seeded((24, 32, 1, 1), 3),
    "g": seeded((24, 16, 3, 3), 4),
    "r": seeded((24, 32, 3), 5),
    "b": seeded((24,), 6),
    "huge": np.full((24, 32, 3, 3), 3e38, np.float32),
    "nan": np.full((24, 32, 3, 3), np.nan, np.float32),
}


def graph_of(
    resize: Resize,
    conv: Conv,
    operands: tuple[str, ...] = ("w",),
    outputs: tuple[str, ...] = ("y",),
    rank: int = 2,
) -> Graph:
    nodes = (
        Node(resize, ("x",), ("large",)),
        Node(conv, ("large", *operands), ("c",)),
        Node(Relu(), ("c",), ("y",)),
    )
    shape = (2, 32, 9, 11)[: 2 + rank]
    constants = {name: CONSTANTS[name] for name in operands}
    graph = Graph((Declared("x", np.dtype(np.float32), shape),), outputs, nodes, constants)
    return specialize(graph, {"x": TensorType.of(np.float32, shape)}).graph


def changed(graph: Graph) -> list[Op]:
    """The operators after the pass; the numbers are the same."""
    after = verify(convolve_repeated(graph, jit.host_target()))
    x = {"x": seeded(graph.types["x"].shape)}
    for name, wanted in evaluate(graph, x).items():
        np.testing.assert_allclose(evaluate(after, x)[name], wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    return [node.op for node in after.nodes]


@pytest.mark.parametrize(
    ("resize", "conv", "operands"),
    [
        (TWICE, Conv(pads=ONE), ("w",)),
        (TWICE, Conv(pads=ONE), ("w", "b")),
        (TWICE, Conv(), ("w", "b")),
        (TWICE, Conv(pads=((2, 0), (1, 2))), ("w",)),
        (TWICE, Conv(pads=((1, 0), (3, 2))), ("v", "b")),
        (replace(TWICE, scales=(1.0, 1.0, 3.0, 2.0)), Conv(pads=ONE), ("w",)),
        (Resize("nearest", "half_pixel", sizes=(18, 22), axes=(2, 3)), Conv(pads=ONE), ("w",)),
    ],
)
def test_elements_that_are_repeated_are_not_made(
    resize: Resize, conv: Conv, operands: tuple[str, ...]
) -> None:
    assert [type(op) for op in changed(graph_of(resize, conv, operands))] == [ConvTranspose, Relu]


def test_rows_that_are_repeated() -> None:
    resize = replace(TWICE, scales=(1.0, 1.0, 2.0))
    graph = graph_of(resize, Conv(pads=((1, 1),)), ("r",), rank=1)
    assert [type(op) for op in changed(graph)] == [ConvTranspose, Relu]


@pytest.mark.parametrize(
    ("resize", "conv", "operands", "outputs"),
    [
        (replace(TWICE, mode="linear"), Conv(pads=ONE), ("w",), ("y",)),
        (replace(TWICE, scales=(1.0, 1.0, 1.5, 2.0)), Conv(pads=ONE), ("w",), ("y",)),
        (replace(TWICE, coordinates="align_corners"), Conv(pads=ONE), ("w",), ("y",)),
        (replace(TWICE, scales=(2.0, 1.0, 2.0, 2.0)), Conv(pads=ONE), ("w",), ("y",)),
        (TWICE, Conv((2, 2), ONE), ("w",), ("y",)),
        (TWICE, Conv(pads=ONE, dilations=(2, 1)), ("w",), ("y",)),
        (TWICE, Conv(pads=ONE, groups=2), ("g",), ("y",)),
        (TWICE, Conv(pads=((3, 1), (1, 1))), ("w",), ("y",)),
        (TWICE, Conv(pads=ONE), ("w",), ("y", "large")),
        (TWICE, Conv(pads=ONE), ("huge",), ("y",)),
        (TWICE, Conv(pads=ONE), ("nan",), ("y",)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_others_stay(resize: Resize, conv: Conv, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    assert [type(op) for op in changed(graph_of(resize, conv, operands, outputs))] == [Resize, Conv, Relu]


@pytest.mark.parametrize("precision", ["fast", "exact"])
def test_a_loaded_model_answers_alike(precision: cenote.Precision) -> None:
    nodes = [
        helper.make_node(
            "Resize", ["x", "", "scales"], ["large"], mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        helper.make_node("Conv", ["large", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]  # fmt: skip
    constants = {"w": CONSTANTS["w"], "b": CONSTANTS["b"], "scales": np.array([1, 1, 2, 2], np.float32)}
    x = seeded((1, 32, 12, 13))
    loaded = cenote.load(model(nodes, {"x": x}, constants, ["y"]), precision=precision)
    wanted = np.maximum(graph_answer(x), 0)
    np.testing.assert_allclose(loaded(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    made = {step.op.split("(")[0] for step in loaded.plan.describe().steps if step.op}
    assert ("conv_transpose" in made) == (precision == "fast")


def graph_answer(x: Array) -> Array:
    large = x.repeat(2, 2).repeat(2, 3).astype(np.float64)
    y: Array = Conv(pads=ONE).reference(large, *(CONSTANTS[name].astype(np.float64) for name in "wb"))[0]
    return y
