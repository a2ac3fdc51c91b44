"""MaxUnpool of ONNX into maps of sizes that pooling rounds: maxima return to where they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import cenote
from cenote.core.errors import CenoteError, InputError, ShapeError
from cenote.core.types import Array

VALUE = helper.make_tensor_value_info
CASES = (  # shape, kernel, strides, pads, ceil_mode
    ((2, 3, 5, 7), (2, 2), (2, 2), (0, 0, 0, 0), 0),
    ((1, 2, 7, 7), (3, 3), (2, 2), (1, 1, 1, 1), 0),
    ((1, 2, 5, 8), (2, 2), (2, 2), (0, 0, 0, 0), 1),
    ((2, 18, 9, 5), (3, 2), (3, 2), (0, 0, 0, 0), 1),
    ((2, 3, 11), (3,), (3,), (0, 0), 0),
    ((1, 2, 5, 5, 7), (2, 2, 2), (2, 2, 2), (0,) * 6, 0),
)


def _model(case: Any, wanted: tuple[int, ...] | None) -> bytes:
    """A pool and its inverse, to the shape `wanted`, or to that of the pool's input, whatever it is."""
    shape, kernel, strides, pads, ceil = case
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "i"], ceil_mode=ceil, **window),
        helper.make_node("MaxUnpool", ["y", "i", "shape"], ["z"], **window),
    ]
    constants = [] if wanted is None else [numpy_helper.from_array(np.array(wanted, np.int64), "shape")]
    if wanted is None:
        nodes.insert(0, helper.make_node("Shape", ["x"], ["shape"]))
        shape = ("n", shape[1], *(f"size{axis}" for axis in range(len(shape) - 2)))
    graph = helper.make_graph(
        nodes, "g", [VALUE("x", TensorProto.FLOAT, shape)], [VALUE("z", TensorProto.FLOAT, None)], constants
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    content: bytes = made.SerializeToString()
    return content


def _inverse(x: Array, case: Any) -> Array:
    """Every maximum of every window where it was, by loops."""
    _, kernel, strides, pads, ceil = case
    rank, z = len(kernel), np.zeros_like(x)
    counts = []
    for axis in range(rank):
        span = x.shape[2 + axis] + pads[axis] + pads[rank + axis] - kernel[axis]
        counts.append((-(-span // strides[axis]) if ceil else span // strides[axis]) + 1)
    for n, c in np.ndindex(x.shape[:2]):
        for window in np.ndindex(*counts):
            begins = [window[axis] * strides[axis] - pads[axis] for axis in range(rank)]
            places = [
                tuple(begin + step for begin, step in zip(begins, steps, strict=True))
                for steps in np.ndindex(*kernel)
            ]
            inside = [p for p in places if all(0 <= i < e for i, e in zip(p, x.shape[2:], strict=True))]
            values = [x[(n, c, *place)] for place in inside]
            best = inside[int(np.argmax(values))]
            z[(n, c, *best)] = max(values)
    return z


@pytest.mark.parametrize("case", CASES, ids=[str(case[0]) for case in CASES])
def test_maxima_return(case: Any) -> None:
    x = np.random.default_rng(0).standard_normal(case[0]).astype(np.float32)
    np.testing.assert_array_equal(cenote.load(_model(case, case[0]))(x), _inverse(x, case))


def test_maxima_return_in_maps_of_open_sizes() -> None:
    model = cenote.load(_model(CASES[2], None))
    for sizes in ((5, 8), (6, 6), (3, 7), (5, 8), (1, 1)):
        x = np.random.default_rng(1).standard_normal((2, 2, *sizes)).astype(np.float32)
        np.testing.assert_array_equal(model(x), _inverse(x, CASES[2]))


@pytest.mark.parametrize("wanted", [(2, 3, 2, 2), (2, 3, 0, 7), (1, 3, 5, 7), (2, 3, 35)])
def test_shapes_that_do_not_fit(wanted: tuple[int, ...]) -> None:
    """Too small for the indices; empty; of another batch; of another rank."""
    x = np.random.default_rng(2).standard_normal(CASES[0][0]).astype(np.float32)
    kind: type[CenoteError] = InputError if wanted == (2, 3, 2, 2) else ShapeError
    with pytest.raises(kind, match="max_unpool"):
        cenote.load(_model(CASES[0], wanted))(x)


def _alone(wanted: tuple[int, ...]) -> bytes:
    nodes = [helper.make_node("MaxUnpool", ["y", "i", "s"], ["z"], kernel_shape=[2, 2], strides=[2, 2])]
    inputs = [VALUE("y", TensorProto.FLOAT, [1, 1, 2, 2]), VALUE("i", TensorProto.INT64, [1, 1, 2, 2])]
    constants = [numpy_helper.from_array(np.array(wanted, np.int64), "s")]
    graph = helper.make_graph(nodes, "g", inputs, [VALUE("z", TensorProto.FLOAT, None)], constants)
    content: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return content


@pytest.mark.parametrize(("wanted", "width"), [((1, 1, 5, 5), 4), ((1, 1, 4, 4), 4), ((1, 1, 3, 3), 3)])
def test_indices_from_elsewhere(wanted: tuple[int, ...], width: int) -> None:
    """In the map of the formula, 4x4, which lies at the output's begin; where it does not fit, in the output."""
    y = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    places = np.array([0, 3, 5, 8]).reshape(1, 1, 2, 2)
    expected = np.zeros(wanted, np.float32)
    for value, place in zip(y.ravel(), places.ravel(), strict=True):
        expected[(0, 0, *divmod(int(place), width))] = value
    np.testing.assert_array_equal(cenote.load(_alone(wanted))(y, places), expected)
