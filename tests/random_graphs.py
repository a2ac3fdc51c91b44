"""Small random networks for tests: whatever may share memory, in any order, with channels that fit no vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
CHANNELS = (3, 8, 16, 20, 32)
MAPS = ((6, 6), (5, 4))
MOST_ELEMENTS = 1 << 14  # of one value
MOST_VALUES = 28


class Network:
    """An ONNX graph in the making. Every method that adds a node takes what it needs from `draw`."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.shapes: dict[str, Shape] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[str] = []
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))

    def pick(self, options: Sequence[str]) -> str:
        """One of the values, mostly a late one."""
        late = options[-3:] if self.draw(st.booleans()) else options
        return self.draw(st.sampled_from(late[::-1]))

    def add_input(self, shape: Shape) -> None:
        name = f"in{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape

    def add(self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: object) -> list[str]:
        names = [f"v{len(self.shapes) + i}" for i in range(len(shapes))]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def noise(self, *shape: int) -> str:
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def of_rank(self, *ranks: int) -> list[str]:
        return [name for name, shape in self.shapes.items() if len(shape) in ranks]

    # ---- one node each ----------------------------------------------------------------------------------------

    def convolution(self) -> None:
        maps = self.of_rank(4)
        if not maps:
            return
        x = self.pick(maps)
        n, c, h, w = self.shapes[x]
        if c not in CHANNELS:
            return
        m, k = self.draw(st.sampled_from(CHANNELS)), self.draw(st.sampled_from((1, 3, 5)))
        group = c if self.draw(st.integers(0, 3)) == 0 else 1
        m = c if group > 1 else m
        weights = [self.noise(m, c // group, k, k)]
        if self.draw(st.booleans()):
            weights.append(self.noise(m))
        self.add("Conv", [x, *weights], [(n, m, h, w)], pads=[k // 2] * 4, kernel_shape=[k, k], group=group)

    def branches(self) -> None:
        """Several convolutions of one value, concatenated: an inception block."""
        maps = [name for name in self.of_rank(4) if self.shapes[name][1] in CHANNELS]
        if not maps:
            return
        x = self.pick(maps)
        n, c, h, w = self.shapes[x]
        names = [x] if self.draw(st.booleans()) else []
        for m in self.draw(st.lists(st.sampled_from((8, 16, 20)), min_size=2, max_size=3)):
            (y,) = self.add("Conv", [x, self.noise(m, c, 1, 1)], [(n, m, h, w)], kernel_shape=[1, 1])
            names += self.add("Relu", [y], [(n, m, h, w)])
        self.add("Concat", names, [(n, sum(self.shapes[name][1] for name in names), h, w)], axis=1)

    def shortcut(self) -> None:
        """Split, a convolution of one half, everything together again: the block of YOLOv8."""
        maps = [name for name in self.of_rank(4) if self.shapes[name][1] in (16, 32, 48)]
        if not maps:
            return
        x = self.pick(maps)
        n, c, h, w = self.shapes[x]
        half = (n, c // 2, h, w)
        a, b = self.add("Split", [x, self.constant(np.array([c // 2] * 2, np.int64))], [half, half], axis=1)
        (y,) = self.add(
            "Conv", [b, self.noise(c // 2, c // 2, 3, 3)], [half], kernel_shape=[3, 3], pads=[1] * 4
        )
        if self.draw(st.booleans()):
            (y,) = self.add("Add", [y, b], [half])
        names = self.draw(st.permutations([a, b, y]))[: self.draw(st.sampled_from((3, 3, 2)))]
        self.add("Concat", names, [(n, len(names) * c // 2, h, w)], axis=1)

    def dense(self) -> None:
        """A value in several concats, one in another: the block of DenseNet."""
        maps = [name for name in self.of_rank(4) if self.shapes[name][1] in CHANNELS]
        if not maps:
            return
        x = self.pick(maps)
        n, _c, h, w = self.shapes[x]
        parts, m = [x], self.draw(st.sampled_from((8, 16)))
        for _ in range(2):
            total = sum(self.shapes[name][1] for name in parts)
            whole = x if len(parts) == 1 else self.add("Concat", parts, [(n, total, h, w)], axis=1)[0]
            parts += self.add(
                "Conv", [whole, self.noise(m, total, 1, 1)], [(n, m, h, w)], kernel_shape=[1, 1]
            )
            if self.draw(st.integers(0, 2)) == 0:
                parts = [whole, parts[-1]]
        if self.draw(st.booleans()):
            parts = self.draw(st.permutations(parts))
        self.add("Concat", parts, [(n, sum(self.shapes[name][1] for name in parts), h, w)], axis=1)

    def reread(self) -> None:
        """Something that may overwrite a value, or a view of it, before the value is read again."""
        x = self.pick(list(self.shapes))
        shape = self.shapes[x]
        if self.draw(st.booleans()):
            (x,) = self.add("Relu", [x], [shape])
        flat = (shape[0], math.prod(shape[1:]))
        y = self.add("Flatten", [x], [flat], axis=1)[0] if self.draw(st.booleans()) else x
        (y,) = self.add(self.draw(st.sampled_from(("Relu", "Neg"))), [y], [self.shapes[y]])
        if self.draw(st.booleans()):
            (y,) = self.add("Reshape", [y, self.constant(np.array(shape, np.int64))], [shape])
        if self.shapes[y] == shape and self.draw(st.booleans()):
            self.add("Add", self.draw(st.permutations([x, y])), [shape])
        else:
            self.add("Neg", [x], [shape])

    def squeeze(self) -> None:
        """Maps of one pixel, whose blocked and plain memory may be the same."""
        maps = [name for name in self.of_rank(4) if self.shapes[name][1] in CHANNELS]
        if not maps:
            return
        n, c = self.shapes[x := self.pick(maps)][:2]
        (y,) = self.add("GlobalAveragePool", [x], [(n, c, 1, 1)])
        m = self.draw(st.sampled_from((8, 16, 20)))
        z = self.add("Conv", [y, self.noise(m, c, 1, 1)], [(n, m, 1, 1)], kernel_shape=[1, 1])[0]
        if self.draw(st.booleans()):
            (y,) = self.add("Concat", [y, z], [(n, c + m, 1, 1)], axis=1)
        if self.draw(st.booleans()):
            self.add("Flatten", [z], [(n, m)], axis=1)
        self.add("Flatten", [y], [(n, self.shapes[y][1])], axis=1)

    def pool(self) -> None:
        maps = [name for name in self.of_rank(4) if min(self.shapes[name][2:]) >= 2]
        if not maps:
            return
        x = self.pick(maps)
        n, c, h, w = self.shapes[x]
        if self.draw(st.booleans()):
            self.add("MaxPool", [x], [(n, c, h, w)], kernel_shape=[3, 3], pads=[1] * 4)
        else:
            self.add("AveragePool", [x], [(n, c, h // 2, w // 2)], kernel_shape=[2, 2], strides=[2, 2])

    def unary(self) -> None:
        x = self.pick(list(self.shapes))
        op = self.draw(st.sampled_from(("Relu", "Relu", "Neg", "Identity", "Abs")))
        self.add(op, [x], [self.shapes[x]])

    def binary(self) -> None:
        x = self.pick(list(self.shapes))
        same = [name for name, shape in self.shapes.items() if shape == self.shapes[x]]
        op = self.draw(st.sampled_from(("Add", "Add", "Sub", "Max")))
        self.add(op, [x, self.pick(same)], [self.shapes[x]])

    def bias(self) -> None:
        x = self.pick(self.of_rank(4))
        c = self.shapes[x][1]
        self.add("Add", [x, self.noise(1, c, 1, 1)], [self.shapes[x]])

    def concat(self) -> None:
        x = self.pick(list(self.shapes))
        rank = len(self.shapes[x])
        axis = self.draw(st.sampled_from([axis for axis in (1, 1, 1, 0, 2) if axis < rank]))
        fits = [
            name
            for name, shape in self.shapes.items()
            if len(shape) == rank and shape[:axis] == self.shapes[x][:axis]
            and shape[axis + 1 :] == self.shapes[x][axis + 1 :]
        ]  # fmt: skip
        names = [x, *(self.pick(fits) for _ in range(self.draw(st.integers(1, 3))))]
        shape = list(self.shapes[x])
        shape[axis] = sum(self.shapes[name][axis] for name in names)
        if math.prod(shape) <= MOST_ELEMENTS:
            self.add("Concat", names, [tuple(shape)], axis=axis)

    def split(self) -> None:
        x = self.pick(list(self.shapes))
        shape = self.shapes[x]
        axes = [axis for axis in (1, 1, 0, 2) if axis < len(shape) and shape[axis] > 1]
        if not axes:
            return
        axis = self.draw(st.sampled_from(axes))
        first = self.draw(st.sampled_from([s for s in (16, 8, shape[axis] // 2, 1) if 0 < s < shape[axis]]))
        sizes = [first, shape[axis] - first]
        if sizes[1] > first and self.draw(st.booleans()):
            sizes = [first, first, shape[axis] - 2 * first] if sizes[1] > first else sizes
        shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
        self.add("Split", [x, self.constant(np.array(sizes, np.int64))], shapes, axis=axis)

    def reshape(self) -> None:
        x = self.pick(list(self.shapes))
        shape = self.shapes[x]
        options: list[Shape] = [(shape[0], math.prod(shape[1:])), (*shape, 1)[:4]]
        if len(shape) == 4:
            n, c, h, w = shape
            options += [(n, c, h * w), (n, c * h, w, 1), (1, n * c, h, w), (n, c, w, h)]
            options += [(n, 2, c // 2, h * w)] if c % 2 == 0 else []
        if len(shape) == 2 and shape[1] % 24 == 0:
            options += [(shape[0], shape[1] // 24, 6, 4)]
        if len(shape) == 3:
            options += [(shape[0], shape[2], shape[1], 1)]
        to = self.draw(st.sampled_from(options))
        self.add("Reshape", [x, self.constant(np.array(to, np.int64))], [to])

    def flatten(self) -> None:
        x = self.pick(list(self.shapes))
        shape = self.shapes[x]
        self.add("Flatten", [x], [(shape[0], math.prod(shape[1:]))], axis=1)

    def transpose(self) -> None:
        x = self.pick(self.of_rank(3, 4))
        shape = self.shapes[x]
        orders = (
            [(0, 2, 1), (1, 0, 2)]
            if len(shape) == 3
            else [(0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3), (0, 2, 3, 1)]
        )
        order = self.draw(st.sampled_from(orders))
        self.add("Transpose", [x], [tuple(shape[axis] for axis in order)], perm=order)

    def linear(self) -> None:
        rows = [name for name in self.of_rank(2) if self.shapes[name][1] <= 1200]
        if rows:
            x = self.pick(rows)
            n, k = self.shapes[x]
            self.add("Gemm", [x, self.noise(24, k)], [(n, 24)], transB=1)

    def model(self) -> onnx.ModelProto:
        """Some values are outputs: the last always, inputs and values read again by others too."""
        made = list(self.shapes)
        chosen = self.draw(st.lists(st.sampled_from(made), max_size=4, unique=True))
        outputs = list(dict.fromkeys([*chosen, made[-1]]))
        if set(outputs) & set(self.inputs):  # ONNX wants a node in between
            named = [
                self.add("Identity", [n], [self.shapes[n]])[0] if n in self.inputs else n for n in outputs
            ]
            outputs = list(dict.fromkeys(named))
        declare = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, self.shapes[name])  # noqa: E731
        graph = helper.make_graph(
            self.nodes, "random", [declare(n) for n in self.inputs], [declare(n) for n in outputs], self.constants
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


STEPS: tuple[Callable[[Network], None], ...] = (
    Network.convolution, Network.convolution, Network.unary, Network.binary, Network.binary, Network.bias,
    Network.concat, Network.concat, Network.split, Network.split, Network.reshape, Network.flatten,
    Network.transpose, Network.pool, Network.linear, Network.branches, Network.branches, Network.shortcut,
    Network.shortcut, Network.dense, Network.dense, Network.reread, Network.reread, Network.squeeze, Network.squeeze,
)  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    """A model of some 3 to 25 random nodes over one or two inputs."""
    network = Network(draw)
    batch, spatial = draw(st.sampled_from((1, 1, 2))), draw(st.sampled_from(MAPS))
    for _ in range(draw(st.integers(1, 2))):
        network.add_input((batch, draw(st.sampled_from(CHANNELS)), *spatial))
    for _ in range(draw(st.sampled_from((3, 6, 10, 14)))):
        if len(network.shapes) < MOST_VALUES:
            draw(st.sampled_from(STEPS))(network)
    if not network.nodes:
        network.unary()
    return network.model()
