"""Small networks whose printed graphs and plans are kept, and what is printed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cenote.codegen import jit
from cenote.compiler.compile import Compilation, compile_graph
from cenote.core.load_options import LoadOptions
from cenote.core.types import TensorType
from cenote.frontends.onnx import load_onnx
from cenote.graph.graph import print_graph
from cenote.passes.pipeline import optimize
from cenote.passes.specialize import specialize

FOLDER = Path(__file__).parent
# The fallback that every machine has, so that the files are the same everywhere.
TARGET = "generic"
THREADS = 2


class Builder:
    """Nodes and seeded weights of a network with one input `x` and one output `y`."""

    def __init__(self, shape: list[int | str]) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.noise = np.random.default_rng(0)

    def add(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, *shape: int) -> str:
        values = np.abs(self.noise.standard_normal(shape)).astype(np.float32) + np.float32(0.1)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, output: str, inputs: int, filters: int, window: int, **attributes: object) -> str:
        weights = self.constant(f"{output}.w", filters, inputs, window, window)
        bias = self.constant(f"{output}.b", filters)
        return self.add("Conv", [x, weights, bias], output, pads=[window // 2] * 4, **attributes)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual() -> onnx.ModelProto:
    """Convolution, batch normalisation and activation become one step; so does the addition at the end."""
    net = Builder(["batch", 3, 16, 16])
    net.conv("x", "stem", 3, 12, 3)
    statistics = [net.constant(f"norm.{name}", 12) for name in ("scale", "bias", "mean", "var")]
    net.add("BatchNormalization", ["stem", *statistics], "norm")
    net.add("Relu", ["norm"], "body")
    net.conv("body", "second", 12, 12, 3)
    net.add("Add", ["second", "body"], "sum")
    net.add("Relu", ["sum"], "join")
    net.add("GlobalAveragePool", ["join"], "mean")
    net.add("Flatten", ["mean"], "flat")
    net.add("Gemm", ["flat", net.constant("last.w", 12, 10), net.constant("last.b", 10)], "scores")
    net.add("Softmax", ["scores"], "y", axis=1)
    return net.model()


def branches() -> onnx.ModelProto:
    """Branches are written straight into their concat; a step runs on the host; a view costs nothing."""
    net = Builder(["batch", 8, 12, 12])
    net.conv("x", "narrow", 8, 12, 1)
    net.conv("x", "wide", 8, 16, 3)
    net.add("MaxPool", ["x"], "pool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    net.add("Concat", ["narrow", "wide", "pool"], "together", axis=1)
    net.add("Trilu", ["together"], "corner")
    net.add("Identity", ["corner"], "same")
    net.add("Flatten", ["same"], "y")
    return net.model()


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {"residual": residual, "branches": branches}


def printed(name: str) -> Iterator[tuple[str, str]]:
    """(file name, text) of the graph as it was read, after the passes, and of the plan. Reads CENOTE_TARGET."""
    imported = load_onnx(NETWORKS[name]()).graph
    yield f"{name}.imported.txt", print_graph(imported, labels=True)
    shape = [extent if isinstance(extent, int) else 1 for extent in imported.inputs[0].shape or ()]
    graph = specialize(imported, {"x": TensorType.of(np.float32, shape)}).graph
    yield f"{name}.optimised.txt", str(optimize(graph, jit.host_target()))
    lines = str(compile_graph(graph, Compilation(LoadOptions(threads=THREADS)))).splitlines()
    # Names of kernels change with every tuning of a kernel; that they are launched is tested elsewhere.
    yield f"{name}.plan.txt", "\n".join(line for line in lines if not line.startswith("kernel "))
