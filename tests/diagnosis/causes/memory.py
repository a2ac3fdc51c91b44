"""Samples of the causes in `diagnosis/causes/memory`."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from cenote.runtime.outputs import OUTPUTS
from tests.diagnosis.causes.models import Node, convolution, model, noise, products
from tests.diagnosis.causes.sample import Pair, Sample

SCALES = np.array([1, 1, 4, 4], np.float32)
SMALL = 128  # pixels of the healthy twin of large maps: its own lie in the level 2 cache
SIZE = 48  # of each dimension of maps that are transposed: 0.4 MB


def _maps(pixels: int) -> Sample:
    shape = (1, 8, pixels, pixels)
    nodes: list[Node] = [
        ("Add", ["x", "z"], ["sum"], {}),
        ("MaxPool", ["sum"], ["y"], {"kernel_shape": [4, 4], "strides": [4, 4]}),
        ("GlobalAveragePool", ["sum"], ["mean"], {}),
    ]
    graph = model(nodes, {"x": shape, "z": shape}, ["y", "mean"], {})
    return Sample(graph, {"x": noise(*shape), "z": noise(*shape)}, work=(pixels / SMALL) ** 2)


def _transposed(turned: bool) -> Sample:
    """Three additions of maps, each between two transposes as exporters of channels-last models write them. The other
    addend is transposed already, so that the transposes cannot cancel."""
    nodes: list[Node] = []
    value, shape = "x", (1, SIZE, SIZE, SIZE)

    def add(operator: str, *more: str, **attributes: object) -> None:
        nonlocal value
        made = f"v{len(nodes)}"
        nodes.append((operator, [value, *more], [made], attributes))
        value = made

    for index in range(3):
        for perm in ([0, 2, 3, 1], [0, 3, 1, 2]) if turned else ([],):
            if turned:
                add("Transpose", perm=perm)
            if perm != [0, 3, 1, 2]:
                add("Add", f"z{index}")
        add("Relu")
    inputs = {name: noise(*shape) for name in ("x", "z0", "z1", "z2")}
    return Sample(model(nodes, dict.fromkeys(inputs, shape), [value], {}), inputs)


def _activation(also: bool) -> Sample:
    """A convolution and an activation, which cannot be one step where the value between them is read `also`."""
    made, inputs = convolution(32, 64, 56, kernel=1)
    ends = {"largest": ("GlobalMaxPool", "y"), "mean": ("GlobalAveragePool", "y0" if also else "y")}
    made.graph.node.append(helper.make_node("Relu", ["y0"], ["y"], name="y"))
    del made.graph.output[:]
    for name, (operator, source) in ends.items():
        made.graph.node.append(helper.make_node(operator, [source], [name], name=name))
        made.graph.output.append(helper.make_tensor_value_info(name, 1, None))
    return Sample(made, inputs)


def _resized(pixels: int, **others: Any) -> Sample:
    shape = (1, 3, pixels, pixels)
    graph = model([("Resize", ["x", "", "scales"], ["y"], {})], {"x": shape}, ["y"], {"scales": SCALES})
    return Sample(graph, {"x": noise(*shape)}, work=(pixels / 32) ** 2, **others)


MEMORY = {
    "DRAM weights": Pair(lambda: Sample(*products(1, 8192, 3)), lambda: Sample(*products(64, 1024, 3))),
    "DRAM maps": Pair(lambda: _maps(2048), lambda: _maps(SMALL)),
    "cache": Pair(
        lambda: Sample(*convolution(96, 96, 112, group=96, strides=[2, 2]), work=1 / 96 / 4),
        lambda: Sample(*convolution(96, 96, 112)),
    ),
    "reorder": Pair(lambda: _transposed(True), lambda: _transposed(False)),
    "unfused": Pair(lambda: _activation(True), lambda: _activation(False)),
    "faults": Pair(lambda: _resized(1024, around=OUTPUTS.off), lambda: _resized(32)),
}
