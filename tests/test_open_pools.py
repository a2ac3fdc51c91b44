"""Pools whose padding follows from an open size (SAME): every kind and window at several sizes, beside fixed sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cenote
from cenote.core.types import Array

KINDS: dict[str, dict[str, Any]] = {
    "MaxPool": {},
    "MaxPool with indices": {},
    "AveragePool": {"count_include_pad": 1},
    "LpPool": {"p": 2},
}
NAMES = {"MaxPool": "max_pool", "AveragePool": "average_pool", "LpPool": "lp_pool"}
WINDOWS = [(3, 3), (2, 5)]
SIZES = [(7, 9), (8, 12), (33, 48)]


def model(kind: str, auto_pad: str, size: tuple[int | str, int | str]) -> onnx.ModelProto:
    """All windows and strides as outputs of one input."""
    nodes, outputs = [], []
    for number, (window, stride) in enumerate(product(WINDOWS, (1, 2))):
        names = [f"y{number}", f"where{number}"] if kind.endswith("indices") else [f"y{number}"]
        made = {"kernel_shape": window, "strides": [stride, min(stride, 2)], "auto_pad": auto_pad} | KINDS[
            kind
        ]
        nodes.append(helper.make_node(kind.split()[0], ["x"], names, **made))
        types = (TensorProto.FLOAT, TensorProto.INT64)
        outputs += [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, types, strict=False)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, *size])
    graph = helper.make_graph(nodes, "pools", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def picture(size: tuple[int, int]) -> Array:
    return np.random.default_rng(size).standard_normal((1, 4, *size)).astype(np.float32)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kind", KINDS)
def test_open_sizes_give_what_fixed_ones_give(kind: str, auto_pad: str) -> None:
    opened = cenote.load(model(kind, auto_pad, ("height", "width")))
    for size in SIZES:
        x = picture(size)
        reference = {NAMES[kind.split()[0]]: "reference"}
        wanted = cenote.load(model(kind, auto_pad, size), algorithms=reference).run({"x": x})
        for name, found in opened.run({"x": x}).items():
            tolerance = {} if found.dtype == np.int64 else {"rtol": 1e-6, "atol": 1e-6}
            np.testing.assert_allclose(found, wanted[name], err_msg=f"{size} {name}", **tolerance)
