"""Threads' shares of rows: by the weights, never more than rows, and whatever they are, with the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper

import cenote
from cenote.kernels.row_shares import row_shares
from cenote.ops.values import seeded


@given(*[st.integers(1, 4000)] * 3, st.integers(1, 64), st.integers(1, 20))
def test_shares_have_rows_and_weigh_enough(
    rows: int, depth: int, columns: int, threads: int, part: int
) -> None:
    shares = row_shares(rows, depth, columns, threads, part)
    assert 1 <= shares <= min(threads, rows)
    assert shares == 1 or rows // shares * (depth + columns) * part >= depth * columns
    assert row_shares(rows, depth, columns, 1, part) == 1


def chain(kind: str, shape: Sequence[int], filters: Sequence[int], **attributes: Sequence[int]) -> ModelProto:
    """Layers of one kind, with an activation after each."""
    nodes, weights, name, channels = [], [], "x", shape[-1] if kind == "MatMul" else shape[1]
    for number, count in enumerate(filters):
        window = attributes.get("kernel_shape", ())
        size = (channels, count) if kind == "MatMul" else (count, channels, *window)
        weights.append(numpy_helper.from_array(seeded(size, number), f"w{number}"))
        nodes.append(helper.make_node(kind, [name, f"w{number}"], [f"y{number}"], **attributes))
        nodes.append(helper.make_node("Relu", [f"y{number}"], [f"z{number}"]))
        name, channels = f"z{number}", count
    result = [*shape[:-1], channels] if kind == "MatMul" else [shape[0], channels, *shape[2:]]
    inputs = [helper.make_tensor_value_info("x", 1, list(shape))]
    outputs = [helper.make_tensor_value_info(name, 1, result)]
    graph = helper.make_graph(nodes, "layers", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (chain("MatMul", (1, 197, 64), (192, 64)), (1, 197, 64)),
        (chain("Conv", (1, 256, 6, 6), (128, 256), kernel_shape=(1, 1)), (1, 256, 6, 6)),
        (chain("Conv", (1, 96, 25, 25), (96, 40), kernel_shape=(3, 3), pads=(1,) * 4), (1, 96, 25, 25)),
        (chain("Conv", (1, 32, 8, 8, 8), (32, 16), kernel_shape=(3,) * 3, pads=(1,) * 6), (1, 32, 8, 8, 8)),
    ],
    ids=["products", "1x1", "3x3", "3x3x3"],
)
def test_bits_do_not_depend_on_the_threads_that_share(model: ModelProto, shape: tuple[int, ...]) -> None:
    x, found, items = seeded(shape, 9), [], []
    for threads in (1, 2, 3, 5):
        loaded = cenote.load(model, threads=threads)
        found.append(loaded(x).tobytes())
        items.append([step.items for step in loaded.plan.describe().steps])
    assert len(set(found)) == 1
    assert items[0] != items[1]  # else nothing was tried
    assert np.isfinite(np.frombuffer(found[0], np.float32)).all()
