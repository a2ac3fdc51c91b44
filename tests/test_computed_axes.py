"""Models that are given an axis: a place in a shape, not an extent, so a plan holds for this axis alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest

import cenote
from cenote.core.types import Array

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
CASES: dict[str, tuple[str, Callable[[Array, int], Array]]] = {
    "Unsqueeze": ("y = Unsqueeze(x, a)", lambda x, a: np.expand_dims(x, a)),
    "Slice": ("y = Slice(x, one, three, a)", lambda x, a: np.take(x, range(1, min(3, x.shape[a])), a)),
    "Pad": ("y = Pad(x, two, none, a)", lambda x, a: np.pad(x, [(int(i == a % 3),) * 2 for i in range(3)])),
    "ReduceSum": ("y = ReduceSum(x, a)", lambda x, a: x.sum(a, keepdims=True)),
    "CumSum": ("y = CumSum(x, a)", lambda x, a: x.cumsum(a)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_axis_may_be_an_input(name: str) -> None:
    text, wanted = CASES[name]
    proto = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[h,4,w] x, int64[1] a) => (float[] y)
        <int64[1] one = {{1}}, int64[1] three = {{3}}, int64[2] two = {{1, 1}}, float none = {{0}}> {{ {text} }}"""
    )
    model = cenote.load(proto.SerializeToString())
    for x in (X, X[:2, :, :4]):
        for axis in (1, 2, -1, 0):
            y = model.run({"x": x, "a": np.array([axis])})["y"]
            np.testing.assert_array_equal(y, wanted(x, axis))
