"""Convolutions of open sizes in parts: the same kernels at every size, whichever parts of the map are empty there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.core.types import Array
from cenote.ops.conv.conv import Conv

# Batch, depth of volumes, height, width: the map is larger than the dilation, smaller, between it and twice as large; a
# row, a pixel; rows that the dilation divides; no picture, of which no algorithm is asked by name.
SIZES = [
    (1, 11, 40, 33),
    (2, 2, 5, 7),
    (1, 7, 9, 17),
    (3, 4, 24, 8),
    (1, 3, 1, 30),
    (1, 1, 1, 1),
    (0, 8, 9, 9),
    (1, 8, 25, 24),
    (2, 11, 40, 33),
]
# Algorithm, channels, filters, window, dilations, pads (before and after, of rows and of columns). 600 filters are more
# than tiles.
CASES = [
    ("direct_regions", 16, 24, (3, 3), (8, 8), ((8, 8), (8, 8))),
    ("direct_regions", 32, 24, (3, 5), (13, 4), ((13, 13), (8, 8))),
    ("direct_regions", 16, 24, (3, 1), (20, 1), ((20, 20), (0, 0))),
    ("direct_regions", 16, 24, (2, 4), (12, 6), ((0, 12), (12, 6))),
    ("winograd_f4_dilated", 16, 24, (3, 3), (2, 2), ((2, 2), (2, 2))),
    ("winograd_f2_dilated", 24, 600, (3, 3), (4, 3), ((4, 4), (3, 3))),
    ("winograd_f2_dilated", 16, 600, (3, 3), (8, 8), ((8, 8), (8, 8))),
    ("direct_regions", 16, 24, (3, 3, 3), (4, 8, 8), ((4, 4), (8, 8), (8, 8))),
    ("winograd_f4", 16, 24, (3, 3, 3), (2, 2, 2), ((2, 2), (2, 2), (2, 2))),
    ("winograd_f2", 17, 40, (3, 3, 3), (4, 3, 1), ((8, 0), (3, 3), (1, 1))),
    ("winograd_f2", 16, 600, (2, 3, 3), (3, 2, 8), ((0, 3), (2, 2), (8, 8))),
    ("winograd_f4x1", 24, 16, (3, 1, 1), (2, 1, 1), ((2, 2), (0, 0), (0, 0))),
    ("direct_regions", 16, 24, (3, 3, 3), (1, 1, 1), ((1, 1), (1, 1), (1, 1))),
    ("direct_regions", 32, 16, (4, 1, 3), (1, 1, 1), ((1, 2), (0, 0), (1, 1))),
    ("direct_regions of 2 groups", 32, 48, (3, 3), (8, 8), ((8, 8), (8, 8))),
    ("direct_regions of 4 groups", 64, 64, (3, 3, 3), (1, 1, 1), ((1, 1), (1, 1), (1, 1))),
    ("direct_regions of 3 groups", 48, 48, (3, 1), (20, 1), ((20, 20), (0, 0))),
    ("depthwise_regions", 21, 21, (3, 3), (8, 8), ((8, 8), (8, 8))),
    ("depthwise_regions", 16, 48, (3, 5), (13, 4), ((13, 13), (8, 8))),
    ("depthwise_regions", 9, 9, (3, 3, 3), (4, 8, 8), ((4, 4), (8, 8), (8, 8))),
    ("depthwise_regions", 40, 40, (5,), (6,), ((12, 12),)),
    ("depthwise_regions of 16 groups", 32, 64, (3, 3), (8, 8), ((8, 8), (8, 8))),
    ("depthwise_regions of 8 groups", 32, 32, (3, 1), (20, 1), ((20, 20), (0, 0))),
]


def model_of(op: Conv, weights: Array, bias: Array, added: bool) -> onnx.ModelProto:
    """Return max(conv(x) [+ x], 0) of a batch and a map of open sizes."""
    pads = [pair[side] for side in (0, 1) for pair in op.pads]
    given = {"dilations": op.dilations, "pads": pads, "group": op.groups}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"], "conv", **given)]
    if added:
        nodes.append(helper.make_node("Add", ["a", "x"], ["s"]))
    nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"]))
    ends = [
        helper.make_tensor_value_info(
            name,
            onnx.TensorProto.FLOAT,
            ["n", channels, *(f"{name}{axis}" for axis, _ in enumerate(op.pads))],
        )
        for name, channels in (("x", weights.shape[1] * op.groups), ("y", weights.shape[0]))
    ]
    constants = [numpy_helper.from_array(each, name) for name, each in (("w", weights), ("b", bias))]
    graph = helper.make_graph(nodes, "dilated", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize(("algorithm", "channels", "filters", "window", "dilations", "pads"), CASES)
def test_every_size_has_the_answer_of_the_reference(
    algorithm: str,
    channels: int,
    filters: int,
    window: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    first: int,
) -> None:
    """Whichever size is planned first, where the algorithm is to be had for it."""
    random = np.random.default_rng(channels + first)
    filters = channels if first == 1 else filters
    algorithm, _, grouped = algorithm.partition(" of ")
    groups = int(grouped.split()[0]) if grouped else channels if algorithm.startswith("depthwise") else 1
    weights = (random.standard_normal((filters, channels // groups, *window)) / 8).astype(np.float32)
    bias = random.standard_normal(filters).astype(np.float32)
    op = Conv(dilations=dilations, pads=pads, groups=groups)
    added = filters == channels
    # On small maps there are no tiles, and on deep volumes few taps see padding.
    unfit = first if algorithm.startswith("winograd") else first == 0 and max(dilations) == 1
    named = {} if unfit else {"conv": algorithm}
    model = cenote.load(model_of(op, weights, bias, added), threads=2, algorithms=named)
    for index, (n, *size) in enumerate([SIZES[first], *SIZES]):
        if named and not n:
            continue
        x = random.standard_normal((n, channels, *size[-len(window) :])).astype(np.float32)
        y = np.asarray(model(x))
        if index == 0 and named:
            assert algorithm in {step.algorithm for step in model.plan.describe().steps}
        (wanted,) = op.reference(*(each.astype(np.float64) for each in (x, weights, bias)))
        wanted = np.maximum(wanted + x if added else wanted, 0)
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5 * max(1, np.abs(wanted).max(initial=0)))
