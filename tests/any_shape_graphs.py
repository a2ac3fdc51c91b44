"""Small random networks whose batch, height and width are symbols, and models of them with fixed sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

CHANNELS = (3, 8, 20, 32)
SYMBOLS = ("n", "h", "w")
# How a map's height and width came about: equal grids have equal sizes, whatever these are.
Grid = tuple[object, ...]


@dataclass(frozen=True)
class Map:
    """A value of rank 4. `halvings`: how often its sides have been halved."""

    name: str
    channels: int
    grid: Grid = ()
    halvings: int = 0


class OpenNetwork:
    """An ONNX graph in the making, whose input `x` leaves batch, height and width open."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 9)))
        self.channels = draw(st.sampled_from(CHANNELS))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.maps = [Map("x", self.channels)]
        self.outputs: dict[str, list[str | int | None]] = {}

    def add(self, op: str, inputs: Sequence[str], count: int = 1, **attributes: object) -> str:
        """A node; the name of its first output (the others follow with a letter)."""
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}{chr(ord('a') + i)}" for i in range(1, count))]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def noise(self, *shape: int) -> str:
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def pick(self) -> Map:
        """One of the maps, mostly a late one."""
        late = self.maps[-2:] if self.draw(st.booleans()) else self.maps
        return self.draw(st.sampled_from(late[::-1]))

    def halved(self, x: Map, name: str, channels: int, how: Grid) -> None:
        self.maps.append(Map(name, channels, (*x.grid, how), x.halvings + 1))

    def size_of(self, x: str, *axes: int) -> str:
        """Some of the sizes of a value, as a vector."""
        return self.add("Gather", [self.add("Shape", [x]), self.integers(*axes)], axis=0)

    # ---- steps: one or a few nodes each ---------------------------------------------------------------------

    def convolution(self) -> None:
        x, k = self.pick(), self.draw(st.sampled_from((1, 3, 3, 5)))
        stride = self.draw(st.sampled_from((1, 1, 2))) if x.halvings < 2 else 1
        depthwise = self.draw(st.integers(0, 3)) == 0
        channels = x.channels if depthwise else self.draw(st.sampled_from(CHANNELS))
        group = x.channels if depthwise else 1
        weights = [self.noise(channels, x.channels // group, k, k), self.noise(channels)]
        y = self.add(
            "Conv",
            [x.name, *weights],
            kernel_shape=[k, k],
            strides=[stride] * 2,
            group=group,
            **self.padding(k),
        )
        y = self.add("Relu", [y]) if self.draw(st.booleans()) else y
        if stride == 1:
            self.maps.append(Map(y, channels, x.grid, x.halvings))
        else:
            self.halved(x, y, channels, (2,))

    def padding(self, k: int) -> dict[str, object]:
        """Of an odd window: half of it on each side, by numbers or by a rule that needs the size (the same grid)."""
        rule = self.draw(st.sampled_from(("", "", "SAME_UPPER", "SAME_LOWER")))
        return {"auto_pad": rule} if rule else {"pads": [k // 2] * 4}

    def places(self) -> None:
        """An output: where the maxima of the input are. (Those of computed maps may differ by rounding.)"""
        k, stride = self.draw(st.sampled_from(((3, 1), (3, 2), (5, 2), (3, 3))))
        y = self.add("MaxPool", ["x"], 2, kernel_shape=[k, k], strides=[stride] * 2, **self.padding(k))
        self.outputs[self.add("Cast", [f"{y}b"], to=onnx.TensorProto.FLOAT)] = ["n", None, None, None]

    def pool(self) -> None:
        x, op = self.pick(), self.draw(st.sampled_from(("MaxPool", "AveragePool")))
        form = self.draw(
            st.sampled_from(((3, 1, 1, 0), (3, 2, 1, 0), (2, 2, 0, 0), (3, 2, 0, 1), (5, 1, 2, 0)))
        )
        k, stride, pad, ceil = form
        if x.halvings == 2 and stride == 2:
            return
        padding = self.padding(k) if pad == k // 2 else {"pads": [pad] * 4}
        y = self.add(op, [x.name], kernel_shape=[k, k], strides=[stride] * 2, ceil_mode=ceil, **padding)
        if stride == 1:
            self.maps.append(Map(y, x.channels, x.grid, x.halvings))
        else:
            self.halved(x, y, x.channels, (2,) if pad else (k, stride, pad, ceil))

    def enlarge(self) -> None:
        """To the size of another map, which is computed, or to twice the size."""
        x, to = self.pick(), self.pick()
        mode = self.draw(st.sampled_from(("nearest", "linear")))
        form = {
            "mode": mode,
            "coordinate_transformation_mode": "half_pixel" if mode == "linear" else "asymmetric",
        }
        if mode == "nearest":
            form["nearest_mode"] = "floor"
        if x.halvings and self.draw(st.booleans()):
            scales = self.constant(np.array([1, 1, 2, 2], np.float32))
            self.maps.append(
                Map(
                    self.add("Resize", [x.name, "", scales], **form),
                    x.channels,
                    (*x.grid, "twice"),
                    x.halvings - 1,
                )
            )
            return
        sizes = self.add("Concat", [self.size_of(x.name, 0, 1), self.size_of(to.name, 2, 3)], axis=0)
        y = self.add("Resize", [x.name, "", "", sizes], **form)
        self.maps.append(Map(y, x.channels, to.grid, to.halvings))

    def join(self) -> None:
        """Concatenate maps of one grid, or add two of equal channels."""
        x = self.pick()
        others = [other for other in self.maps if other.grid == x.grid]
        y = self.draw(st.sampled_from(others))
        if y.channels == x.channels and self.draw(st.booleans()):
            self.maps.append(Map(self.add("Add", [x.name, y.name]), x.channels, x.grid, x.halvings))
        elif x.channels + y.channels <= 64:
            joined = self.add("Concat", [x.name, y.name], axis=1)
            self.maps.append(Map(joined, x.channels + y.channels, x.grid, x.halvings))

    def split(self) -> None:
        x = self.pick()
        if x.channels % 2:
            return
        half = x.channels // 2
        y = self.add("Split", [x.name, self.integers(half, half)], count=2, axis=1)
        self.maps += [Map(name, half, x.grid, x.halvings) for name in (f"{y}b", y)]

    def gate(self) -> None:
        """Squeeze and excitation."""
        x = self.pick()
        y = self.add("GlobalAveragePool", [x.name])
        y = self.add("Conv", [y, self.noise(x.channels, x.channels, 1, 1)], kernel_shape=[1, 1])
        y = self.add("Mul", [x.name, self.add("Sigmoid", [y])])
        self.maps.append(Map(y, x.channels, x.grid, x.halvings))

    def sequence(self) -> None:
        """Pixels as rows (n, h*w, c), normalised over c, and back to a map; the sizes come from Shape nodes."""
        x = self.pick()
        area = self.add("Mul", [self.size_of(x.name, 2), self.size_of(x.name, 3)])
        rows = self.add("Concat", [self.size_of(x.name, 0), self.integers(x.channels), area], axis=0)
        y = self.add("Transpose", [self.add("Reshape", [x.name, rows])], perm=[0, 2, 1])
        y = self.add("MatMul", [y, self.noise(x.channels, x.channels)])
        y = self.add("Transpose", [self.add("Softmax", [y], axis=-1)], perm=[0, 2, 1])
        y = self.add("Reshape", [y, self.add("Shape", [x.name])])
        self.maps.append(Map(y, x.channels, x.grid, x.halvings))

    def shuffle(self) -> None:
        """Interleave the halves of the channels, as ShuffleNet does."""
        x = self.pick()
        if x.channels % 2:
            return
        pair = [self.size_of(x.name, 0), self.integers(2, x.channels // 2), self.size_of(x.name, 2, 3)]
        y = self.add("Reshape", [x.name, self.add("Concat", pair, axis=0)])
        y = self.add("Transpose", [y], perm=[0, 2, 1, 3, 4])
        y = self.add("Reshape", [y, self.add("Shape", [x.name])])
        self.maps.append(Map(y, x.channels, x.grid, x.halvings))

    def classify(self) -> None:
        """An output: global average, rows, Gemm."""
        x = self.pick()
        y = self.add("Flatten", [self.add("GlobalAveragePool", [x.name])], axis=1)
        y = self.add("Gemm", [y, self.noise(10, x.channels), self.noise(10)], transB=1)
        self.outputs[y] = ["n", 10]

    # ---- the whole --------------------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        """The last map is an output, and what `classify` and `places` have made."""
        if self.maps[-1].name == "x":
            self.maps.append(Map(self.add("Relu", ["x"]), self.channels))
        n, h, w = SYMBOLS
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [n, self.channels, h, w])
        made: dict[str, list[str | int | None]] = {self.maps[-1].name: [n, None, None, None], **self.outputs}
        outputs = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in made.items()
        ]
        graph = helper.make_graph(self.nodes, "any_shape", [x], outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


STEPS: tuple[Callable[[OpenNetwork], None], ...] = (
    OpenNetwork.convolution, OpenNetwork.convolution, OpenNetwork.convolution, OpenNetwork.pool, OpenNetwork.pool,
    OpenNetwork.enlarge, OpenNetwork.join, OpenNetwork.join, OpenNetwork.split, OpenNetwork.gate,
    OpenNetwork.sequence, OpenNetwork.shuffle, OpenNetwork.classify, OpenNetwork.places,
)  # fmt: skip


@st.composite
def open_networks(draw: st.DrawFn) -> onnx.ModelProto:
    """A model of some 2 to 9 steps."""
    network = OpenNetwork(draw)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9)):
        step(network)
    return network.model()


def fixed(model: onnx.ModelProto, shape: Sequence[int]) -> onnx.ModelProto:
    """The same model with this shape declared for its input."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    for dimension, size in zip(twin.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dimension.dim_value = size
    return twin
