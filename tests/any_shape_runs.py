"""One model of open sizes run at many, beside models of fixed sizes and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

import cenote
from tests.any_shape_graphs import fixed

TOLERANCE = 1e-4  # of the largest value
# A plan for all sizes keeps the algorithms that it chose for its first size. Those of means add up in other orders.
MEANS = ("AveragePool", "GlobalAveragePool", "ReduceMean")
ROUNDING = 2e-6  # of the largest value


def peer_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def check(
    model: onnx.ModelProto, sizes: list[tuple[int, int, int]], threads: int, rounds: bool = False
) -> None:
    """All sizes one after another through one model, then the first again. `rounds`: it may add up in another order."""
    whole, peer = cenote.load(model, threads=threads, precision="exact"), peer_of(model)
    adds_up = rounds or any(node.op_type in MEANS for node in model.graph.node)
    channels = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    for n, h, w in [*sizes, sizes[0]]:
        shape = (n, channels, h, w)
        x = np.random.default_rng(n * h * w).standard_normal(shape, np.float32)
        got = whole.run({"x": x})
        want = cenote.load(fixed(model, shape), threads=threads, precision="exact").run({"x": x})
        others = dict(zip(got, peer.run(list(got), {"x": x}), strict=True))
        for name, y in got.items():
            if adds_up:
                limit = ROUNDING * max(1.0, float(np.abs(y).max()))
                np.testing.assert_allclose(
                    y, want[name], rtol=0, atol=limit, err_msg=f"{name} at {shape}, fixed"
                )
            else:
                np.testing.assert_array_equal(
                    y.view(np.uint32), want[name].view(np.uint32), err_msg=f"{name} at {shape}, fixed"
                )
            assert y.shape == others[name].shape, f"{name} at {shape}"
            limit = TOLERANCE * max(1.0, float(np.abs(others[name]).max()))
            np.testing.assert_allclose(
                y, others[name], rtol=0, atol=limit, err_msg=f"{name} at {shape}, onnxruntime"
            )
