"""Models whose declared sizes or whose number of nodes is at a limit: loading takes time in proportion to the nodes and
to the data, never to a number that somebody wrote down, and what cannot be run is refused with the node's name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.compiler import placement
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


# ---- many nodes -----------------------------------------------------------------------------------------------------


def chain(count: int) -> bytes:
    nodes = [node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(count)]
    return model(nodes, [1, 4, 8, 8], f"v{count}")


def sums(count: int) -> bytes:
    """Each value is read by the next two."""
    names = ["x", "x", *(f"v{i}" for i in range(count))]
    return model(
        [node("Add", names[i : i + 2], [names[i + 2]]) for i in range(count)], [1, 4, 8, 8], names[-1]
    )


def convolutions(count: int) -> bytes:
    names = ["x", *(f"v{i}" for i in range(count))]
    nodes = [
        node("Conv", [names[i], "w"], [names[i + 1]], pads=[1, 1, 1, 1])
        if i % 2
        else node("Sigmoid", [names[i]], [names[i + 1]])
        for i in range(count)
    ]
    return model(nodes, [1, 4, 8, 8], names[-1], w=WEIGHTS)


def branches(count: int) -> bytes:
    """Side by side, each with a number of its own, all joined by one Concat."""
    nodes = [node("Add", ["x", f"c{i}"], [f"v{i}"]) for i in range(count)]
    numbers = {f"c{i}": np.array(i, np.float32) for i in range(count)}
    joined = node("Concat", [f"v{i}" for i in range(count)], ["y"], axis=1)
    return model([*nodes, joined], [1, 4, 8, 8], **numbers)


def concatenations(count: int) -> bytes:
    nodes, value = [], "x"
    for i in range(count // 2):
        nodes.append(node("Concat", [value, "x"], [f"c{i}"], axis=1))
        nodes.append(node("Slice", [f"c{i}", "two", "six", "one"], [f"s{i}"]))
        value = f"s{i}"
    one = {name: np.array([number]) for name, number in (("one", 1), ("two", 2), ("six", 6))}
    return model(nodes, [1, 4, 8, 8], value, **one)


def lines_run(proto: bytes) -> int:
    """Lines of Cenote's Python that loading runs: the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "cenote" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        cenote.load(proto, threads=1)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("make", [chain, sums, convolutions, branches, concatenations])
def test_loading_is_linear_in_the_nodes(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setattr(
        placement, "_MOST_COMPARED", 50
    )  # below, the memory plan takes up to 0.5 s for a better one
    cenote.load(make(8), threads=1)  # imports, and kernels of all sizes alike
    few, many = (lines_run(make(count)) for count in (150, 600))
    assert many < 4.6 * few


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
