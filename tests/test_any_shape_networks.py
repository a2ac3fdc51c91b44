"""Networks that resize maps to sizes they compute, in small, with batch, height and width open: each is loaded once and
run at six sizes, in an order that changes classes, beside the same graph of fixed sizes and onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.any_shape_runs import check

SIZES = [(1, 32, 32), (2, 17, 23), (1, 64, 13), (3, 33, 32), (1, 14, 41), (2, 48, 16)]
CHANNELS = 4


class Net:
    """An ONNX graph in the making, whose input `x` leaves batch, height and width open."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, values: object, dtype: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def noise(self, *shape: int) -> str:
        scale = 1 / math.sqrt(math.prod(shape[1:]))
        return self.constant(self.rng.standard_normal(shape) * scale, np.float32)

    def conv(self, x: str, made: int, taken: int, window: int = 3, stride: int = 1, pad: int = 1) -> str:
        weights = self.noise(made, taken, window, window)
        y = self.add("Conv", x, weights, self.noise(made), strides=[stride] * 2, pads=[pad] * 4)
        return self.add("Relu", y)

    def twice(self, x: str, made: int, taken: int) -> str:
        """Twice the size, by a transposed convolution."""
        return self.add("ConvTranspose", x, self.noise(taken, made, 2, 2), strides=[2, 2])

    def sides(self, x: str) -> str:
        return self.add("Shape", x, start=2)

    def resized(self, x: str, to: str, mode: str = "linear") -> str:
        """F.interpolate(x, size=to.shape[-2:])."""
        sizes = self.add("Concat", self.add("Shape", x, end=2), self.sides(to), axis=0)
        form = {"nearest_mode": "floor"} if mode == "nearest" else {}
        where = "asymmetric" if mode == "nearest" else "half_pixel"
        return self.add("Resize", x, "", "", sizes, mode=mode, coordinate_transformation_mode=where, **form)

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        floats = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes, "network", [helper.make_tensor_value_info("x", floats, ["n", CHANNELS, "h", "w"])],
            [helper.make_tensor_value_info(name, floats, [None] * 4) for name in outputs], self.constants,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def producers(net: Net) -> list[str]:
    """Sizes that are sums and multiples of open ones, each resized to that of the input, and the input to them."""
    floats = np.float32
    made = [
        net.twice("x", CHANNELS, CHANNELS),
        net.conv("x", CHANNELS, CHANNELS, pad=0),
        net.add("Pad", "x", net.constant([0, 0, 1, 2, 0, 0, 3, 2])),
        net.add("Resize", "x", "", net.constant([1, 1, 2, 2], floats), mode="nearest", nearest_mode="floor"),
        net.add("Concat", "x", "x", "x", axis=2),
        net.add("Tile", "x", net.constant([1, 1, 2, 3])),
        net.add("DepthToSpace", "x", blocksize=2),
        net.add("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    modes = ("linear", "nearest", "cubic")
    back = [net.resized(y, "x", modes[index % 3]) for index, y in enumerate(made)]
    return [*back, *(net.resized("x", y, modes[(index + 1) % 3]) for index, y in enumerate(made))]


def unet(net: Net) -> list[str]:
    """Down twice, up twice by transposed convolutions, each map resized to the one that it joins."""
    skips, y, channels = [], "x", CHANNELS
    for made in (8, 16):
        skips.append(net.conv(y, made, channels))
        y, channels = net.add("MaxPool", skips[-1], kernel_shape=[2, 2], strides=[2, 2]), made
    y = net.conv(y, channels, channels)
    for skip, made in zip(reversed(skips), (16, 8), strict=True):
        y = net.resized(net.twice(y, made, channels), skip)
        y, channels = net.conv(net.add("Concat", skip, y, axis=1), made, 2 * made), made
    return [net.conv(y, 3, channels, window=1, pad=0)]


def unpadded_unet(net: Net) -> list[str]:
    """As the first one was: no padding, and the answer resized to the picture."""
    first = net.conv("x", 8, CHANNELS, pad=0)
    y = net.conv(net.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 8, 8, pad=0)
    y = net.twice(y, 8, 8)
    y = net.conv(net.add("Concat", net.resized(first, y), y, axis=1), 3, 16, pad=0)
    return [net.resized(y, "x", "cubic")]


def pyramid(net: Net) -> list[str]:
    """A feature pyramid: maps of three sizes, each given to the next larger one."""
    maps, y, channels = [], "x", CHANNELS
    for made in (8, 12, 16):
        y, channels = net.conv(y, made, channels, stride=2), made
        maps.append(net.conv(y, 8, made, window=1, pad=0))
    outputs = [maps.pop()]
    while maps:
        outputs.append(net.add("Add", maps[-1], net.resized(outputs[-1], maps.pop(), "nearest")))
    return [net.conv(y, 8, 8) for y in outputs]


def two_resolutions(net: Net) -> list[str]:
    """As in HRNet: branches of two sizes that exchange what they have, twice."""
    wide, narrow = net.conv("x", 8, CHANNELS), net.conv("x", 16, CHANNELS, stride=2)
    for _ in range(2):
        up = net.resized(net.conv(narrow, 8, 16, window=1, pad=0), wide)
        down = net.conv(wide, 16, 8, stride=2)
        wide, narrow = net.add("Add", wide, up), net.add("Add", narrow, down)
    return [net.add("Concat", wide, net.resized(narrow, wide), axis=1)]


def flow(net: Net) -> list[str]:
    """A coarse flow, enlarged, added to the places of pixels, by which the picture is read; and once more."""
    y = "x"
    for stride in (4, 2):
        moved = net.add("Tanh", net.conv(net.conv(y, 8, CHANNELS, stride=stride), 2, 8))
        moved = net.add("Mul", net.resized(moved, "x"), net.constant(0.2, np.float32))
        size = net.add(
            "Concat", net.add("Shape", "x", end=1), net.constant([CHANNELS]), net.sides("x"), axis=0
        )
        shape = net.add("Concat", net.add("Shape", "x", end=1), net.constant([2, 3]), axis=0)
        theta = net.add("Expand", net.constant([[[1, 0, 0], [0, 1, 0]]], np.float32), shape)
        places = net.add("AffineGrid", theta, size, align_corners=0)
        places = net.add("Add", places, net.add("Transpose", moved, perm=[0, 2, 3, 1]))
        y = net.add("GridSample", y, places, mode="linear", padding_mode="border")
    return [y]


@pytest.mark.parametrize("network", [producers, unet, unpadded_unet, pyramid, two_resolutions, flow])
def test_six_sizes(network: Callable[[Net], list[str]]) -> None:
    net = Net()
    model = net.model(network(net))
    onnx.checker.check_model(model)
    filters = any(
        node.op_type == "Resize" and b"nearest" not in node.SerializeToString() for node in net.nodes
    )
    # Rows first or columns first, by the size that was planned.
    check(model, SIZES, threads=1, rounds=filters)
