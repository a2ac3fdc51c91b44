"""Models whose declared sizes or whose number of nodes is at a limit: loading takes time in proportion to the nodes and
to the data, never to a number that somebody wrote down, and what cannot be run is refused with the node's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.errors import CapacityError, CenoteError, UnsupportedError

node = helper.make_node
LARGE = 1 << 31
WEIGHTS = np.full((4, 4, 3, 3), 0.01, np.float32)


def model(
    nodes: Sequence[Any], x: Sequence[int], output: str = "y", opset: int = 18, **constants: Any
) -> bytes:
    graph = helper.make_graph(
        list(nodes), "limits", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())


@pytest.fixture(autouse=True)
def _without_plan_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_PLAN_CACHE", "0")


def window(size: int, pad: int) -> dict[str, list[int]]:
    return {"kernel_shape": [size, 1], "pads": [pad, 0, pad, 0]}


HUGE = {
    "rows of an average": (node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2]), [1, 1, LARGE - 1, 8]),
    "rows of a norm": (node("LpPool", ["x"], ["y"], kernel_shape=[2, 2]), [1, 1, LARGE - 1, 8]),
    "padding": (node("MaxPool", ["x"], ["y"], **window((1 << 62) + 1, 1 << 62)), [1, 1, 8, 8]),
    "padding of nothing": (node("MaxPool", ["x"], ["y"], **window(LARGE + 1, LARGE)), [0, 1, 8, 8]),
    "rows of an interpolation": (node("Resize", ["x", "", "", "tall"], ["y"], mode="linear"), [0, 1, 8, 8]),
    "samples": (node("RoiAlign", ["x", "boxes", "images"], ["y"], sampling_ratio=LARGE), [1, 1, 8, 8]),
    "bins": (node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[LARGE, 1]), [1, 1, 8, 8]),
    "distances": (node("Conv", ["x", "filters"], ["y"], group=16), [1, 16, 64, 1 << 28]),
    "a bias": (node("Gemm", ["square", "x", "column"], ["y"]), [4, 1 << 36]),
}
CONSTANTS = {
    "tall": np.array([0, 1, LARGE, 1]),
    "boxes": np.zeros((1, 4), np.float32),
    "images": np.zeros(1, np.int64),
    "rois": np.zeros((1, 5), np.float32),
    "filters": np.ones((16, 1, 3, 3), np.float32),
    "square": np.ones((8, 4), np.float32),
    "column": np.ones((8, 1), np.float32),
}


@pytest.mark.parametrize("what", HUGE)
def test_declared_sizes_are_refused_at_once(what: str) -> None:
    """Tables as long as a declared size took minutes, or all memory, or ended in another library's error."""
    made, shape = HUGE[what]
    proto = model([made], shape, **CONSTANTS)
    with pytest.raises(CenoteError) as caught:
        cenote.load(proto)(np.zeros(shape, np.float32))
    assert made.op_type.lower()[:3] in str(caught.value).lower() or isinstance(caught.value, CapacityError)


@pytest.mark.parametrize(
    "attributes", [{"antialias": 1}, {"coordinate_transformation_mode": "half_pixel_symmetric"}]
)
def test_resizing_to_nothing(attributes: dict[str, Any]) -> None:
    resize = node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", **attributes)
    loaded = cenote.load(model([resize], [1, 1, 8, 8], opset=19, sizes=np.array([1, 1, 0, 4])))
    assert loaded(np.zeros((1, 1, 8, 8), np.float32)).shape == (1, 1, 0, 4)


# ---- many nodes (how loading grows with them: test_many_nodes.py) ---------------------------------------------------


def test_functions_within_functions_are_counted_before_they_are_inlined() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opsets)]
    for level in range(1, 7):  # 10^6 nodes
        names = ["a", *(f"t{i}" for i in range(9)), "b"]
        calls = [node(f"F{level - 1}", [names[i]], [names[i + 1]], domain="f") for i in range(10)]
        functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], calls, opsets))
    proto = onnx.ModelProto.FromString(model([node("F6", ["x"], ["y"], domain="f")], [2]))
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("f", 1))
    with pytest.raises(UnsupportedError, match="inlining"):
        cenote.load(proto.SerializeToString())
