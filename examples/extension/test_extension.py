"""Tests of the extension, for an environment in which it and Cenote are installed: `pytest test_extension.py`."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import cenote


def model() -> bytes:
    """MaxPool, example.Shrink, example.Center, of any size."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], "pool", kernel_shape=[3, 3]),
        helper.make_node("Shrink", ["pooled"], ["shrunk"], "shrink", domain="example", by=0.25),
        helper.make_node("Center", ["shrunk"], ["y"], "center", domain="example"),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, height, width])]
        for name, height, width in (("x", "h", "w"), ("y", None, None))
    ]
    graph = helper.make_graph(nodes, "example", *ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def expected(x: np.ndarray) -> np.ndarray:
    """The model, by NumPy alone."""
    pooled = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((4, 5))
    shrunk = np.maximum(pooled - np.float32(0.25), 0) + np.minimum(pooled + np.float32(0.25), 0)
    return shrunk - shrunk.mean((1, 2, 3), keepdims=True, dtype=np.float32)


@pytest.mark.parametrize("shape", [(1, 3, 40, 41), (2, 3, 9, 300)])
def test_an_installed_extension_needs_no_word(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    loaded = cenote.load(model())
    np.testing.assert_allclose(loaded(x), expected(x), rtol=0, atol=1e-6)
    assert "example.plain_windows" not in str(loaded.plan)


def test_the_kernel_computes_the_operator() -> None:
    loaded = cenote.load(model())
    loaded(np.ones((1, 3, 32, 32), np.float32))
    assert "vectors" in str(loaded.plan)


def test_the_algorithm_is_switched_on_by_name() -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 40, 41), np.float32)
    plain, own = cenote.load(model()), cenote.load(model(), extensions=["example.plain_windows"])
    np.testing.assert_array_equal(own(x), plain(x))
    assert "example.plain_windows" in str(own.plan)
