"""Transposes of channels go to the ends of the graph and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.core.types import TensorType
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import ChannelsLast, SlidingWindow
from cenote.graph.graph import Graph
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from cenote.ops.movement.transpose import Transpose
from cenote.passes.specialize import specialize
from cenote.passes.transposes import sink_transposes

RNG = np.random.default_rng(3)
SHAPE = (2, 6, 5, 4)
UNARY = (
    "conv",
    "pool",
    "average",
    "relu",
    "scale",
    "mean",
    "pad",
    "softmax",
    "clip",
    "resize",
    "split",
    "normalize",
    "rows",
    "new_axis",
)


def _weights(*shape: int) -> Any:
    return (RNG.standard_normal(shape) / 4).astype(np.float32)


def layer(builder: GraphBuilder, kind: str, x: str) -> str:
    """A layer of channels last that keeps (N, 6, 5, 4)."""
    pictures = ChannelsLast(builder)
    same = SlidingWindow((1, 1), "SAME")
    if kind == "conv":
        return pictures.conv(x, builder.constant(_weights(3, 3, 4, 4)), builder.constant(_weights(4)), same)
    if kind in ("pool", "average"):
        return pictures.pool("MaxPool" if kind == "pool" else "AveragePool", x, (2, 3), same)
    if kind == "scale":
        return builder.add("Mul", x, builder.constant(_weights(4)))
    if kind == "mean":
        means = builder.add("ReduceMean", x, builder.constant(np.array([1, 2])), keepdims=1)
        return builder.add("Sub", x, means)
    if kind == "pad":
        pads = builder.constant(np.array([0, 1, 0, 0, 0, 0, 1, 0]))
        padded = builder.add("Pad", x, pads, mode="constant")
        cuts = [builder.constant(np.array(each)) for each in ([1, 0], [7, 5], [1, 2], [1, 1])]
        return builder.add("Slice", padded, *cuts)
    if kind == "softmax":
        return builder.add("Softmax", x, axis=-1)
    if kind == "clip":
        return builder.add("Clip", x, *(builder.constant(np.float32(bound)) for bound in (-0.5, 0.5)))
    if kind == "resize":
        sizes = builder.constant(np.array([6, 5]))
        return pictures.resize(x, sizes, mode="linear", align_corners=False, half_pixel=True)
    if kind == "split":
        return builder.add(
            "Concat", *builder.add_many("Split", (x,), ("", ""), axis=3, num_outputs=2)[::-1], axis=3
        )
    if kind == "normalize":
        numbers = [builder.constant(np.abs(_weights(4)) + 0.5) for _ in range(4)]
        return pictures.on_first("BatchNormalization", x, 4, operands=numbers, epsilon=1e-3)
    if kind == "rows":
        rows = builder.add("Relu", builder.add("Reshape", x, builder.constant(np.array([0, 30, 4]))))
        return builder.add("Reshape", rows, builder.constant(np.array([2, 6, 5, -1])))
    if kind == "new_axis":
        axis = builder.constant(np.array([1]))
        return builder.add("Squeeze", builder.add("Relu", builder.add("Unsqueeze", x, axis)), axis)
    return builder.add("Relu", x)


def typed(builder: GraphBuilder, outputs: dict[str, str]) -> Graph:
    graph = builder.graph(outputs, "test")
    return specialize(graph, {"x": TensorType(np.dtype(np.float32), SHAPE)}).graph


def transposes(graph: Graph) -> int:
    return sum(isinstance(node.op, Transpose) for node in graph.nodes)


def check(graph: Graph) -> Graph:
    """The pass keeps every output."""
    moved = verify(sink_transposes(graph))
    x = RNG.standard_normal(SHAPE).astype(np.float32)
    before, after = evaluate(graph, {"x": x}), evaluate(moved, {"x": x})
    for name, wanted in before.items():
        np.testing.assert_allclose(after[name], wanted, rtol=1e-5, atol=1e-5)
    return moved


@settings(max_examples=80)
@given(data=st.data())
def test_random_graphs(data: st.DataObject) -> None:
    builder = GraphBuilder()
    values = [builder.input("x", np.dtype(np.float32), SHAPE)]
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()) or len(values) == 1:
            kind = data.draw(st.sampled_from(UNARY))
            values.append(layer(builder, kind, data.draw(st.sampled_from(values[-3:]))))
        else:
            a, b = (data.draw(st.sampled_from(values)) for _ in range(2))
            values.append(builder.add(data.draw(st.sampled_from(["Add", "Mul", "Max"])), a, b))
    graph = typed(builder, {"y": values[-1], "z": data.draw(st.sampled_from(values[1:]))})
    assert transposes(check(graph)) <= transposes(graph)


@pytest.mark.parametrize("kind", UNARY)
def test_none_between_convolutions(kind: str) -> None:
    """One at the input and one at the output remain, whatever stands between."""
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), SHAPE)
    y = layer(builder, "conv", layer(builder, kind, layer(builder, "conv", x)))
    assert transposes(check(typed(builder, {"y": y}))) == 2


def test_a_row_as_a_picture() -> None:
    """A convolution along one axis as frameworks write it: by way of pictures of height 1."""
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), SHAPE)
    y = builder.add("Reshape", layer(builder, "conv", x), builder.constant(np.array([0, -1, 4])))
    for _ in range(2):
        picture = builder.add("Unsqueeze", y, builder.constant(np.array([1])))
        made = layer(builder, "conv", picture)
        y = builder.add("Relu", builder.add("Squeeze", made, builder.constant(np.array([1]))))
    assert transposes(check(typed(builder, {"y": y}))) == 2


def test_axes_that_a_reshape_mixes_keep_their_transpose() -> None:
    builder = GraphBuilder()
    x = layer(builder, "conv", builder.input("x", np.dtype(np.float32), SHAPE))
    y = builder.add("Reshape", x, builder.constant(np.array([2, 60, 2])))
    assert transposes(check(typed(builder, {"y": builder.add("Relu", y)}))) == 2


def test_joined_branches() -> None:
    builder = GraphBuilder()
    x = layer(builder, "conv", builder.input("x", np.dtype(np.float32), SHAPE))
    joined = builder.add("Concat", layer(builder, "pool", x), layer(builder, "conv", x), axis=-1)
    kernel = builder.constant(_weights(1, 1, 8, 4))
    y = ChannelsLast(builder).conv(joined, kernel, "", SlidingWindow((1, 1), "VALID"))
    y = builder.add("Add", y, x)
    mean = builder.add("ReduceMean", y, builder.constant(np.array([1, 2])), keepdims=0)
    assert transposes(check(typed(builder, {"y": mean}))) == 1


def test_flattened_into_a_linear_layer() -> None:
    """The rows of the weights move instead of the map."""
    builder = GraphBuilder()
    x = layer(builder, "conv", builder.input("x", np.dtype(np.float32), SHAPE))
    flat = builder.add("Flatten", x, axis=1)
    y = builder.add("Gemm", flat, builder.constant(_weights(120, 7)), builder.constant(_weights(7)))
    assert transposes(check(typed(builder, {"y": y}))) == 1


def test_maps_whose_channels_have_come_to_the_front_are_resized_so() -> None:
    """Tokens as maps: with channels last, a resize and what follows it would leave the blocked layout."""
    builder = GraphBuilder()
    builder.input("x", np.dtype(np.float32), SHAPE)
    maps = builder.add("Transpose", "x", perm=(0, 3, 1, 2))
    sizes = builder.constant(np.array([2, 4, 12, 10]))
    y = builder.add("Resize", maps, "", "", sizes, mode="linear")
    graph = check(typed(builder, {"y": builder.add("Relu", y)}))
    assert [node.op.name for node in graph.nodes][:2] == ["transpose", "resize"]
