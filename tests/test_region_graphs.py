"""MaxUnpool, RoiAlign and MaxRoiPool in graphs: native steps in the layout of what comes before, and clear errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
import cenote.functional as F
from cenote.core.errors import InputError

WEIGHTS = np.random.default_rng(0).standard_normal((24, 16, 3, 3)).astype(np.float32) / 12
X = np.random.default_rng(1).standard_normal((2, 16, 20, 24)).astype(np.float32)
ALGORITHMS = {"c": "direct"}  # of the convolution in all models: its bits are compared
BOXES = np.array([[0, 1.5, 2, 11, 9], [1, 0, 0, 23, 19], [1, 4, 3, 4, 3], [0, -2, 5, 9, 30]], np.float32)


def model(nodes: list[Any], inputs: dict[str, tuple[Any, list[Any]]], outputs: list[str]) -> bytes:
    """A convolution of x, whose result c is blocked, and what follows it."""
    conv = helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    graph = helper.make_graph(
        [conv, *nodes],
        "regions",
        [helper.make_tensor_value_info(name, type, shape) for name, (type, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(WEIGHTS.swapaxes(0, 1).copy(), "w2")],
    )
    opsets = [helper.make_opsetid("", 16)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def image() -> tuple[Any, list[Any]]:
    return TensorProto.FLOAT, [2, 16, 20, 24]


def after_convolution() -> Any:
    """c, by a model of the convolution alone."""
    return cenote.load(model([], {"x": image()}, ["c"]), algorithms=ALGORITHMS)(X)


def test_unpooling_stays_blocked() -> None:
    nodes = [
        helper.make_node("MaxPool", ["c"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("MaxUnpool", ["p", "i"], ["u"], kernel_shape=[2, 2], strides=[2, 2], name="back"),
        helper.make_node("Conv", ["p", "w2"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    data = model(nodes, {"x": image()}, ["u", "y"])  # p gets a halo for the convolution, i has none
    c = after_convolution()
    p, i = F.max_pool2d(c, 2, return_indices=True)
    for threads in (1, 2):
        loaded = cenote.load(data, algorithms=ALGORITHMS, threads=threads)
        np.testing.assert_array_equal(loaded.run({"x": X})["u"], F.max_unpool2d(p, i, 2))
        plan = str(loaded.plan)
        assert "back: host" not in plan
        assert "0 on the host" in plan


def test_regions_after_a_convolution() -> None:
    nodes = [
        helper.make_node("MaxRoiPool", ["c", "boxes"], ["m"], pooled_shape=[3, 2]),
        helper.make_node("RoiAlign", ["c", "corners", "images"], ["a"], output_height=3, output_width=4),
        helper.make_node(
            "RoiAlign", ["c", "corners", "images"], ["b"], output_height=2, output_width=2, mode="max"
        ),
    ]
    inputs = {
        "x": image(),
        "boxes": (TensorProto.FLOAT, [4, 5]),
        "corners": (TensorProto.FLOAT, [4, 4]),
        "images": (TensorProto.INT64, [4]),
    }
    loaded = cenote.load(model(nodes, inputs, ["m", "a", "b"]), algorithms=ALGORITHMS)
    corners, images = np.ascontiguousarray(BOXES[:, 1:]), BOXES[:, 0].astype(np.int64)
    got = loaded.run({"x": X, "boxes": BOXES, "corners": corners, "images": images})
    c = after_convolution()
    np.testing.assert_array_equal(got["m"], F.roi_pool(c, BOXES, (3, 2)))
    options: dict[str, Any] = {"aligned": True, "semantics": "onnx"}
    np.testing.assert_allclose(got["a"], F.roi_align(c, BOXES, (3, 4), **options), rtol=1e-5, atol=1e-6)
    want = F.roi_align(c, BOXES, 2, mode="max", **options)
    np.testing.assert_allclose(got["b"], want, rtol=1e-5, atol=1e-6)
    assert "0 on the host" in str(loaded.plan)


def unpooling() -> bytes:
    node = helper.make_node("MaxUnpool", ["c", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2], name="back")
    return model([node], {"x": image(), "i": (TensorProto.INT64, [2, 24, 20, 24])}, ["y"])


def test_a_wrong_index_names_its_node(tmp_path: Path) -> None:
    """From a model and from a plan file."""
    loaded = cenote.load(unpooling())
    size = 40 * 48
    places = np.broadcast_to(np.arange(48).reshape(2, 24, 1, 1) * size, (2, 24, 20, 24)).astype(np.int64)
    assert loaded.run({"x": X, "i": places})["y"].shape == (2, 24, 40, 48)
    wrong = places.copy()
    wrong[1, 3, 2, 5] = 48 * size
    path = tmp_path / "unpool.cenote"
    loaded.save(path)
    for each in (loaded, cenote.load(path)):
        for _ in range(2):
            with pytest.raises(InputError, match=rf"back.*index {48 * size} at \[1, 3, 2, 5\]"):
                each.run({"x": X, "i": wrong})
        assert each.run({"x": X, "i": places})["y"].shape == (2, 24, 40, 48)


def test_a_wrong_box_names_its_node() -> None:
    node = helper.make_node("MaxRoiPool", ["c", "boxes"], ["m"], pooled_shape=[3, 2], name="heads")
    loaded = cenote.load(model([node], {"x": image(), "boxes": (TensorProto.FLOAT, [4, 5])}, ["m"]))
    wrong = BOXES.copy()
    wrong[2, 0] = 2
    with pytest.raises(InputError, match=r"heads.*box 2 names image 2\.0"):
        loaded.run({"x": X, "boxes": wrong})
