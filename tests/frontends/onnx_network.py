"""A small network, the one that tests damage."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.frontends.models import model, value

node = helper.make_node
RNG = np.random.default_rng(7)


def network() -> onnx.ModelProto:
    """Convolution, pool, reshape by a shape sub-graph, linear, softmax."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Relu", ["c"], ["r"], name="relu"),
        node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["s"], name="shape"),
        node("Gather", ["s", "zero"], ["n"], name="gather", axis=0),
        node("Concat", ["n", "rest"], ["t"], name="concat", axis=0),
        node("Reshape", ["p", "t"], ["f"], name="reshape"),
        node("Gemm", ["f", "m"], ["g"], name="gemm", transB=1, alpha=0.5),
        node("Identity", ["g"], ["i"], name="identity"),
        node("Clip", ["i", "low", ""], ["k"], name="clip"),
        node("Softmax", ["k"], ["y"], name="softmax", axis=-1),
    ]
    weights = {
        "w": RNG.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "b": np.zeros(4, np.float32),
        "m": RNG.standard_normal((3, 16)).astype(np.float32),
        "zero": np.array([0]),
        "rest": np.array([-1]),
        "low": np.float32(-0.5),
    }
    return model(nodes, [value("x", ("N", 2, 4, 4))], ["y"], weights)


NETWORK = network()
