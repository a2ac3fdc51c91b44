"""Borders, doubled pictures, pictures read at places, means of rows and transposes in models of any size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote

PARTS = {
    "pad": (["Pad"], {"mode": "constant"}, [np.array([0, 0, 1, 2, 0, 0, 0, 3]), np.array(1.5, np.float32)]),
    "double": (
        ["Resize"], {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
        [np.empty(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
    ),
    "mean": (["ReduceMean"], {"keepdims": 0}, [np.array([1])]),
    "heads": (["Transpose"], {"perm": [0, 2, 1, 3]}, []),
    "grid": (["GridSample"], {"mode": "linear"}, []),
}  # fmt: skip


def model_of(part: str) -> onnx.ModelProto:
    """The part alone; the mean is that of channels that come last."""
    (op,), attributes, constants = PARTS[part]
    nodes, names, inputs = [], ["x"], [("x", ["n", 5, "h", "w"])]
    if part == "mean":
        nodes.append(helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]))
        names, constants = ["t"], [np.array([-1])]
    if part == "grid":
        inputs.append(("g", ["n", "oh", "ow", 2]))
        names.append("g")
    held = [numpy_helper.from_array(value, f"c{number}") for number, value in enumerate(constants)]
    nodes.append(helper.make_node(op, [*names, *(value.name for value in held)], ["y"], **attributes))
    graph = helper.make_graph(
        nodes, "part", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], held,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("part", PARTS)
def test_sizes_one_after_another(part: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = model_of(part)
    ours = cenote.load(model, threads=2)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, h, w in ((1, 9, 11), (2, 33, 40), (3, 1, 1), (1, 64, 17), (1, 9, 11)):
        rng = np.random.default_rng(n * h * w)
        given = {"x": rng.standard_normal((n, 5, h, w), np.float32)}
        if part == "grid":
            given["g"] = rng.uniform(-1.2, 1.2, (n, w, h + 3, 2)).astype(np.float32)
        (wanted,) = peer.run(None, given)
        np.testing.assert_allclose(
            ours.run(given)["y"], wanted, rtol=0, atol=2e-5, err_msg=f"{part} {n, h, w}"
        )


@pytest.mark.parametrize(("window", "pad"), [(3, 1), (2, 0), (3, 0)])
def test_a_pool_with_indices_has_plans_for_all_sizes(window: int, pad: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    kinds = {"y": TensorProto.FLOAT, "places": TensorProto.INT64}
    attributes = {"kernel_shape": [window] * 2, "strides": [2, 2], "pads": [pad] * 4}
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], list(kinds), **attributes)], "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    ours = cenote.load(model, threads=1)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, h, w in ((1, 16, 16), (2, 17, 40), (1, 31, 17), (1, 64, 63)):
        x = np.random.default_rng(h * w).standard_normal((n, 3, h, w), np.float32)
        for name, wanted in zip(kinds, peer.run(list(kinds), {"x": x}), strict=True):
            np.testing.assert_array_equal(ours.run({"x": x})[name], wanted, f"{name} at {n, h, w}")
        assert "serves all sizes" in str(ours.plan)
