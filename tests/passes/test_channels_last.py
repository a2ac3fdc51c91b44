"""Convolutions of few channels read channels-last maps as they are, and nothing else changes."""

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
from cenote.passes.channels_last import read_channels_last
from cenote.passes.specialize import specialize

RNG = np.random.default_rng(2)


def typed(builder: GraphBuilder, y: str, shape: tuple[int, ...]) -> Graph:
    return specialize(builder.graph({"y": y}, "t"), {"x": TensorType(np.dtype(np.float32), shape)}).graph


@settings(max_examples=60)
@given(data=st.data())
def test_any_convolution(data: st.DataObject) -> None:
    spatial, channels = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    numbers = st.tuples(*[st.integers(1, 3)] * spatial)
    window, strides = data.draw(numbers), data.draw(numbers)
    padding = data.draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    pads = [data.draw(st.tuples(*[st.integers(0, 2)] * 2)) for _ in range(spatial)]
    dilations = (*data.draw(numbers)[:-1], 1)
    shape = (2, *data.draw(st.tuples(*[st.integers(7, 9)] * spatial)), channels)
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), shape)
    kernel = builder.constant(RNG.standard_normal((*window, channels, 5)).astype(np.float32))
    bias = builder.constant(RNG.standard_normal(5).astype(np.float32))
    y = ChannelsLast(builder).conv(x, kernel, bias, SlidingWindow(strides, padding, pads, dilations))
    graph = typed(builder, y, shape)
    moved = verify(read_channels_last(graph))
    assert len(moved.nodes) == len(graph.nodes) + 2
    feed = {"x": RNG.standard_normal(shape).astype(np.float32)}
    wanted = evaluate(graph, feed)["y"]
    np.testing.assert_allclose(evaluate(moved, feed)["y"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "more"),
    [(5, {}), (3, {"dilations": (1, 2)}), (4, {"groups": 2})],
    ids=["many channels", "dilated along rows", "groups"],
)
def test_others_stay(channels: int, more: dict[str, Any]) -> None:
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), (1, 8, 8, channels))
    kernel = builder.constant(np.ones((3, 3, channels // more.get("groups", 1), 4), np.float32))
    window = SlidingWindow((1, 1), "SAME", dilations=more.get("dilations", ()))
    y = ChannelsLast(builder).conv(x, kernel, "", window, groups=more.get("groups", 1))
    graph = typed(builder, y, (1, 8, 8, channels))
    assert read_channels_last(graph) is graph


def test_a_transpose_that_others_read_stays() -> None:
    builder = GraphBuilder()
    x = builder.input("x", np.dtype(np.float32), (1, 8, 8, 3))
    first = builder.add("Transpose", x, perm=(0, 3, 1, 2))
    weights = builder.constant(np.ones((3, 3, 3, 3), np.float32))
    y = builder.add("Add", builder.add("Conv", first, weights, auto_pad="SAME_UPPER"), first)
    graph = typed(builder, y, (1, 8, 8, 3))
    assert read_channels_last(graph) is graph
