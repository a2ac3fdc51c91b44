"""precision="exact": averages, sums, means, norms and normalisations of a model are float64 inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

import cenote
from cenote.core.types import Array

HUGE = 1e30  # squares and sums of which float32 does not hold


def model(nodes: list[Any], outputs: list[str], shape: list[Any], dtype: int = T.FLOAT) -> bytes:
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", dtype, shape)],
        [h.make_tensor_value_info(name, dtype, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.ones(6, np.float32), "ones")],
    )  # fmt: skip
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


NODES = {
    "average_pool": h.make_node("AveragePool", ["x"], ["a"], kernel_shape=[2, 2]),
    "lp_pool": h.make_node("LpPool", ["x"], ["b"], kernel_shape=[2, 2]),
    "global_average_pool": h.make_node("GlobalAveragePool", ["x"], ["c"]),
    "global_lp_pool": h.make_node("GlobalLpPool", ["x"], ["d"], p=2),
    "reduce_mean": h.make_node("ReduceMean", ["x"], ["e"], axes=[1]),
    "reduce_sum_square": h.make_node("ReduceL1", ["x"], ["f"], axes=[1, 2, 3]),
    "layer_normalization": h.make_node("LayerNormalization", ["x", "ones"], ["g"], axis=-1),
    "lp_normalization": h.make_node("LpNormalization", ["x"], ["h"], axis=-1),
    "instance_normalization": h.make_node("InstanceNormalization", ["x", "ones", "ones"], ["i"]),
    "mean of places": h.make_node("ReduceMean", ["x"], ["j"], axes=[2, 3], keepdims=0),
}
OUTPUTS = list("abcdefghij")


def references(x: Array) -> list[Array]:
    """What the nodes give, in float64."""
    x = x.astype(np.float64)
    windows = np.stack(
        [x[..., i : x.shape[2] - 1 + i, j : x.shape[3] - 1 + j] for i in (0, 1) for j in (0, 1)]
    )

    def standard(axes: Any) -> Array:
        return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5))

    return [
        windows.mean(0), np.sqrt((windows**2).sum(0)), x.mean((2, 3), keepdims=True),
        np.sqrt((x**2).sum((2, 3), keepdims=True)), x.mean(1, keepdims=True),
        np.abs(x).sum((1, 2, 3), keepdims=True), standard(-1), x / np.sqrt((x**2).sum(-1, keepdims=True)),
        standard((2, 3)) + 1, x.mean((2, 3)),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [[1, 6, 5, 6], ["n", 6, "h", 6]])
@pytest.mark.parametrize("threads", [1, 2])
def test_exact_models_hold_what_their_results_hold(shape: list[Any], threads: int) -> None:
    source = model(list(NODES.values()), OUTPUTS, shape)
    x = (np.random.default_rng(0).standard_normal((1, 6, 5, 6)) * HUGE).astype(np.float32)
    exact = cenote.load(source, precision="exact", threads=threads, tune="off")
    for y, want, name in zip(exact(x), references(x), NODES, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-6 * np.abs(want).max(), err_msg=name)
    fast = cenote.load(source, tune="off")(x)
    assert np.isinf(fast[1]).all(), "squares fit: the case shows nothing"
    assert str(exact.plan).count("accumulate=float64") == len(NODES)


def test_terms_that_cancel_after_a_convolution() -> None:
    """Blocked maps, the pool recognised in a reduction: {1e8, 1, 1, -1e8} has the mean 0.5."""
    kernel = onnx.numpy_helper.from_array(np.eye(20, dtype=np.float32).reshape(20, 20, 1, 1), "w")
    nodes = [
        h.make_node("Conv", ["x", "w"], ["c"]),
        h.make_node("AveragePool", ["c"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("ReduceMean", ["c"], ["b"], axes=[2, 3]),
    ]
    made = onnx.load_from_string(model(nodes, ["a", "b"], [1, 20, 4, 6]))
    made.graph.initializer.append(kernel)
    x = np.tile(np.array([[1e8, 1], [1, -1e8]], np.float32), (1, 20, 2, 3))
    a, b = cenote.load(made.SerializeToString(), precision="exact", tune="off")(x)
    assert (a == 0.5).all()
    assert (b == 0.5).all()


def test_what_is_left_as_it_is() -> None:
    """Maxima, whole numbers, float64, and statistics that are given."""
    nodes = [h.make_node("ReduceMax", ["x"], ["a"], axes=[1]), h.make_node("ReduceSum", ["x"], ["b"])]
    for dtype in (T.FLOAT, T.INT32, T.DOUBLE):
        made = cenote.load(model(nodes, ["a", "b"], [2, 9], dtype), precision="exact", tune="off")
        plan = str(made.plan)
        assert plan.count("accumulate=float64") == (dtype == T.FLOAT)
    norm = h.make_node("BatchNormalization", ["x", "ones", "ones", "ones", "ones"], ["a"])
    plan = str(cenote.load(model([norm], ["a"], [1, 6, 3, 3]), precision="exact", tune="off").plan)
    assert "accumulate=" not in plan
