"""Five small networks, each with what can be got wrong: weights, pads, a transpose, an epsilon, an order of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, EXTENT = 16, 16  # as many rows and columns as channels: a wrong transpose fits


class Network:
    """A network in the making; each node is named after its one output."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, *shape: int, low: float | None = None) -> str:
        values = (
            self.generator.standard_normal(shape) if low is None else self.generator.uniform(low, 1, shape)
        )
        self.constants[name] = values.astype(np.float32)
        return name

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def conv(self, name: str, x: str, *, kernel: int = 3, groups: int = 1, stride: int = 1) -> str:
        weights = self.constant(f"{name}_w", CHANNELS, CHANNELS // groups, kernel, kernel)
        self.constants[weights] /= np.float32(kernel * (CHANNELS // groups) ** 0.5)
        pads = [kernel // 2] * 4
        bias = self.constant(f"{name}_b", CHANNELS)
        return self.add("Conv", name, x, weights, bias, pads=pads, group=groups, strides=[stride] * 2)

    def normalize(self, name: str, x: str) -> str:
        given = [self.constant(f"{name}_{part}", CHANNELS) for part in ("scale", "shift", "mean")]
        return self.add(
            "BatchNormalization",
            name,
            x,
            *given,
            self.constant(f"{name}_var", CHANNELS, low=0.1),
            epsilon=1e-3,
        )

    def save(self, path: Path, result: str) -> Path:
        shape = [1, CHANNELS, EXTENT, EXTENT]
        graph = helper.make_graph(
            self.nodes, path.stem,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path


def plain(path: Path) -> Path:
    """Convolutions, each normalised and rectified; a pool."""
    net = Network(1)
    y = net.add("Relu", "relu", net.normalize("norm", net.conv("conv", "x")))
    y = net.add("Transpose", "turn", net.conv("second", y), perm=[0, 1, 3, 2])
    y = net.add("Sub", "difference", net.add("Sigmoid", "gate", y), y)
    return net.save(
        path, net.add("MaxPool", "pool", net.conv("third", y), kernel_shape=[2, 2], strides=[2, 2])
    )


def residual(path: Path) -> Path:
    """Shortcuts around pairs of convolutions."""
    net = Network(2)
    y = net.add("Relu", "relu", net.normalize("norm", net.conv("conv", "x")))
    branch = net.conv("second", net.add("Relu", "inner", net.conv("first", y)))
    y = net.add("Relu", "sum_relu", net.add("Add", "sum", branch, y))
    y = net.add("Transpose", "turn", y, perm=[0, 1, 3, 2])
    y = net.add("Sub", "difference", net.conv("third", y, kernel=1), y)
    return net.save(path, net.add("GlobalAveragePool", "mean", y))


def branches(path: Path) -> Path:
    """Parallel convolutions and a pool, joined."""
    net = Network(3)
    y = net.add("Relu", "relu", net.normalize("norm", net.conv("conv", "x", kernel=5)))
    pool = net.add("AveragePool", "pool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    parts = [net.conv("first", y, kernel=1), net.conv("second", y), net.conv("third", pool, kernel=1)]
    y = net.add("Concat", "joined", *parts, axis=1)
    y = net.add("Transpose", "turn", y, perm=[0, 1, 3, 2])
    half = net.add("Tanh", "bounded", y)
    return net.save(path, net.add("Sub", "difference", y, half))


def mobile(path: Path) -> Path:
    """Depthwise and pointwise convolutions, gates."""
    net = Network(4)
    y = net.add("HardSwish", "relu", net.normalize("norm", net.conv("conv", "x")))
    y = net.conv("second", net.conv("depthwise", y, groups=CHANNELS), kernel=1)
    scale = net.add(
        "HardSigmoid", "gate", net.conv("squeeze", net.add("GlobalAveragePool", "mean", y), kernel=1)
    )
    y = net.add("Mul", "gated", y, scale)
    y = net.add("Transpose", "turn", y, perm=[0, 1, 3, 2])
    return net.save(path, net.add("Sub", "difference", net.conv("third", y, stride=2, kernel=1), scale))


def channels_last(path: Path) -> Path:
    """As exporters of such networks write it: a transpose before and behind each convolution."""
    net = Network(5)

    def layer(name: str, x: str) -> str:
        first = net.add("Transpose", f"{name}_first", x, perm=[0, 3, 1, 2])
        return net.add("Transpose", f"{name}_last", net.conv(name, first), perm=[0, 2, 3, 1])

    y = net.add("Relu", "relu", layer("conv", "x"))
    y = net.add("Transpose", "turn", layer("second", y), perm=[0, 2, 1, 3])
    y = net.normalize("norm", net.add("Transpose", "third_first", y, perm=[0, 3, 1, 2]))
    y = net.add("Sub", "difference", net.conv("third", y), y)
    return net.save(path, net.add("Softmax", "chances", net.add("Flatten", "flat", y)))


NETWORKS: dict[str, Callable[[Path], Path]] = {
    each.__name__: each for each in (plain, residual, branches, mobile, channels_last)
}
